"""What concerns groups of every kind: listing, deletion, expiry.

Source: coordinator §6.2, §8.5, §8.6.
"""

from __future__ import annotations

from rebalance_sim.protocol.classic.classic_group import ClassicGroup
from rebalance_sim.protocol.consumer.committed_group import CommittedGroup
from rebalance_sim.protocol.consumer.consumer_describe import list_row
from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup, GroupState
from rebalance_sim.protocol.consumer.removal import group_tombstones
from rebalance_sim.protocol.runtime.group_store import GroupStore
from rebalance_sim.protocol.runtime.outcome import Outcome
from rebalance_sim.protocol.runtime.timeline import committed
from rebalance_sim.protocol.wire.consumer_messages import (
    DeleteGroupsResponse,
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.records import GroupMetadata, Record

__all__ = ["Directory"]


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
        rows = [list_row(CommittedGroup(group)) for group in committed(self._store.groups).values()]
        # The state of a classic group is not in its records: the live one is shown
        # (coordinator §6.2).
        rows += [_classic_row(group) for group in committed(self._store.classic_groups).values()]
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
        if not _is_empty(group):
            code = ErrorCode.NON_EMPTY_GROUP
            return Outcome(DeleteGroupsResponse(group_id=group_id, error_code=code))
        records = (*self._store.offsets.tombstones_of_group(group_id), *_tombstones(group))
        return Outcome(DeleteGroupsResponse(group_id=group_id), records)

    def expired(self, *, now_ms: int) -> list[Record]:
        """Offsets whose retention is over, and empty groups that have none left."""
        records: list[Record] = []
        store = self._store
        ids = {*store.groups, *store.classic_groups, *store.offsets.group_ids()}
        for group_id in sorted(ids):
            group = self._store.get(group_id)
            gone = self._store.offsets.expired(group_id, group, now_ms=now_ms)
            records += gone
            nothing_is_left = len(gone) == len(self._store.offsets.of_group(group_id))
            if group is not None and nothing_is_left and _is_empty(group):
                records += _tombstones(group)
        return records


def _is_empty(group: ConsumerGroup | ClassicGroup) -> bool:
    return group.state is GroupState.EMPTY if isinstance(group, ConsumerGroup) else group.is_empty


def _tombstones(group: ConsumerGroup | ClassicGroup) -> tuple[Record, ...]:
    if isinstance(group, ConsumerGroup):
        return group_tombstones(group.group_id)
    return (GroupMetadata(group.group_id),)


def _classic_row(group: ClassicGroup) -> ListedGroup:
    return ListedGroup(
        group_id=group.group_id,
        protocol_type=group.protocol_type or "",
        group_state=group.state.value,
        group_type="classic",
    )
