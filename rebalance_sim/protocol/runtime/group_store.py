"""The groups and offsets of one shard, and how records change them.

Sources: coordinator §9.3 (replay) and coordinator §9.4 (committed state, rollback).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rebalance_sim.protocol.runtime.context import CoordinatorContext
from rebalance_sim.protocol.runtime.group_type import Component, GroupType
from rebalance_sim.protocol.runtime.offsets import OffsetStore
from rebalance_sim.protocol.runtime.timeline import committed
from rebalance_sim.protocol.wire.records import (
    OffsetCommit,
    Record,
    TransactionMarker,
    TxnOffsetCommit,
)


class GroupStore:
    """Changed by ``replay`` and ``revert_to`` only, but for soft state that types change in place.

    ``types`` holds the type of each class of groups.
    """

    def __init__(
        self, context: CoordinatorContext[Any], components: Sequence[Component[Any]]
    ) -> None:
        group_types = [one for one in components if isinstance(one, GroupType)]
        self._context = context
        self.types = {group_type.group_class: group_type for group_type in group_types}
        self._tables = [group_type.groups for group_type in group_types]
        self._owners = {record: owner for owner in components for record in owner.records}
        self.offsets = OffsetStore(context, self.types)
        for component in components:
            component.types = self.types
        for group_type in group_types:
            group_type.others = [other for other in group_types if other is not group_type]

    def get(self, group_id: str) -> Any:
        """The group of this id, of whichever type; None if there is none."""
        for table in self._tables:
            if group_id in table:
                return table[group_id]
        return None

    def get_committed(self, group_id: str) -> Any:
        """The same at the last committed offset of the log."""
        for table in self._tables:
            group = committed(table).get(group_id)
            if group is not None:
                return group
        return None

    def all_groups(self) -> list[Any]:
        """The groups of all types, in ascending order of their ids."""
        groups = {group_id: one for table in self._tables for group_id, one in table.items()}
        return [groups[group_id] for group_id in sorted(groups)]

    def type_of(self, group: Any) -> GroupType[Any]:
        """The type of a group."""
        return self.types[type(group)]

    # -- replay ----------------------------------------------------------------------------

    def replay(self, records: Sequence[Record], *, strict: bool, offset: int | None) -> None:
        """Apply records; ``offset``: where the first of them stands, None: they count as
        committed."""
        timeline, offsets = self._context.timeline, self.offsets
        history = None if offset is None else timeline
        holder: str | None = None  # of the offset before this record: that group is there
        try:
            first = records[0] if records else None
            if history is not None and offset is not None and type(first) is OffsetCommit:
                history.offset = offset
                if offsets.replay_commits(first.group_id, records, offset=offset):
                    self._see_to_group(first.group_id)
                    return
            for place, record in enumerate(records, offset or 0):
                if history is not None:
                    history.offset = place
                if type(record) is TxnOffsetCommit or type(record) is TransactionMarker:
                    offsets.replay_transaction(record)
                    if type(record) is TxnOffsetCommit:
                        self._see_to_group(record.group_id)
                elif type(record) is not OffsetCommit:
                    self._owners[type(record)].replay(record, strict=strict)
                    holder = None
                elif record.value is not None:
                    offsets.replay(record)
                    if record.group_id != holder:
                        holder = record.group_id
                        self._see_to_group(holder)
                elif strict or self._context.rules.forgets_deleted_offsets:
                    offsets.replay(record)
        finally:
            if timeline is not None:
                timeline.offset = None
                if offset is not None:
                    timeline.end = offset + len(records)

    def _see_to_group(self, group_id: str) -> None:
        """Offsets are stored under this id: if there is no such group, some type makes one."""
        for table in self._tables:
            if group_id in table:
                return
        any(kind.adopt_offsets(group_id) for kind in self.types.values())

    def commit_to(self, offset: int) -> None:
        """Everything below ``offset`` is committed."""
        if self._context.timeline is not None:
            self._context.timeline.commit_to(offset)

    def revert_to(self, offset: int) -> None:
        """Undo everything from ``offset`` on. Raises ValueError where no history is kept."""
        if self._context.timeline is None:
            raise ValueError("this coordinator keeps no history, so nothing can be undone")
        self._context.timeline.revert_to(offset)
