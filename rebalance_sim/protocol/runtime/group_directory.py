"""What concerns groups of every type: listing, deletion, expiry.

Source: coordinator §6.2, §8.5, §8.6.
"""

from __future__ import annotations

from rebalance_sim.protocol.runtime.group_store import GroupStore
from rebalance_sim.protocol.runtime.outcome import Outcome
from rebalance_sim.protocol.runtime.timeline import committed
from rebalance_sim.protocol.wire.consumer_messages import (
    DeleteGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.records import Record


class Directory:
    """All groups of one coordinator, with their offsets."""

    def __init__(self, store: GroupStore) -> None:
        self._store = store

    def rows(self, request: ListGroupsRequest) -> ListGroupsResponse:
        """One row per committed group in ascending id, as far as the filters let it pass.

        Blanks around a state do not count; those around a type do, and match nothing.
        """
        states = {state.strip().lower() for state in request.states_filter}
        types = {kind.lower() for kind in request.types_filter}
        rows = [
            group_type.list_row(group)
            for group_type in self._store.types.values()
            for group in committed(group_type.groups).values()
        ]
        return ListGroupsResponse(
            groups=tuple(
                row
                for row in sorted(rows, key=lambda row: row.group_id)
                if (not states or row.group_state.lower() in states)
                and (not types or row.group_type.lower() in types)
            )
        )

    def delete(self, group_id: str) -> Outcome:
        """An empty group goes with its offsets; any other one is refused."""
        group = self._store.get(group_id)
        if group is None:
            code = ErrorCode.GROUP_ID_NOT_FOUND
            return Outcome(DeleteGroupsResponse(group_id=group_id, error_code=code))
        if not group.is_empty:
            code = ErrorCode.NON_EMPTY_GROUP
            return Outcome(DeleteGroupsResponse(group_id=group_id, error_code=code))
        tombstones = self._store.type_of(group).tombstones(group)
        records = (*self._store.offsets.tombstones_of_group(group_id), *tombstones)
        return Outcome(DeleteGroupsResponse(group_id=group_id), records)

    def expired(self, *, now_ms: int) -> list[Record]:
        """Offsets whose retention is over by the wall clock, and empty groups that have none
        left."""
        records: list[Record] = []
        store = self._store
        ids = set(store.offsets.group_ids())
        ids.update(*(group_type.groups for group_type in store.types.values()))
        for group_id in sorted(ids):
            group = store.get(group_id)
            gone = store.offsets.expired(group_id, group, now_ms=now_ms)
            records += gone
            nothing_is_left = len(gone) == len(store.offsets.of_group(group_id))
            nothing_is_left &= not store.offsets.pending.partitions_of(group_id)
            if group is not None and nothing_is_left and group.is_empty:
                records += store.type_of(group).tombstones(group)
        return records
