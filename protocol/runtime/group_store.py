"""The groups and offsets of one shard, and how records change them.

Sources: coordinator §9.3 (replay) and coordinator §9.4 (committed state, rollback).
"""

from __future__ import annotations

from collections.abc import Mapping

from rebalance_sim.protocol.classic.classic_group import ClassicGroup
from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup
from rebalance_sim.protocol.consumer.context import CoordinatorContext
from rebalance_sim.protocol.runtime.offsets import OffsetStore
from rebalance_sim.protocol.runtime.timeline import new_table
from rebalance_sim.protocol.wire.errors import ReplayError
from rebalance_sim.protocol.wire.records import (
    ConsumerGroupMemberMetadata,
    GroupMetadata,
    OffsetCommit,
    Record,
)

__all__ = ["GroupStore"]


class GroupStore:
    """``groups`` are the consumer groups, ``classic_groups`` all others, ``offsets`` those of both.

    Changed by ``replay`` and ``revert_to`` only, but for the soft state of classic groups.
    """

    def __init__(self, context: CoordinatorContext) -> None:
        self._context = context
        self.groups: dict[str, ConsumerGroup] = new_table(context.timeline)
        self.classic_groups: Mapping[str, ClassicGroup] = context.classic_groups
        self.offsets = OffsetStore(context)

    def get(self, group_id: str) -> ConsumerGroup | ClassicGroup | None:
        """The group of this id, of whichever kind."""
        return self.groups.get(group_id) or self.classic_groups.get(group_id)

    def new_group(self, group_id: str) -> ConsumerGroup:
        """A consumer group that nobody has joined; it is not in ``groups`` yet."""
        rules = self._context.rules
        return ConsumerGroup(
            group_id,
            initial_epoch=rules.initial_group_epoch,
            ownership=rules.ownership,
            tolerates_gaps=rules.tolerates_compacted_log,
            timeline=self._context.timeline,
        )

    # -- replay ----------------------------------------------------------------------------

    def replay(self, record: Record, *, strict: bool, offset: int | None) -> None:
        """Apply one record; ``offset`` None: it counts as committed."""
        timeline = self._context.timeline
        if timeline is None or offset is None:
            self._apply(record, strict=strict)
            return
        timeline.offset = offset
        try:
            self._apply(record, strict=strict)
        finally:
            timeline.offset = None

    def commit_to(self, offset: int) -> None:
        """Everything below ``offset`` is committed."""
        if self._context.timeline is not None:
            self._context.timeline.commit_to(offset)

    def revert_to(self, offset: int) -> None:
        """Undo everything from ``offset`` on. Raises ValueError where no history is kept."""
        if self._context.timeline is None:
            raise ValueError("this coordinator keeps no history, so nothing can be undone")
        self._context.timeline.revert_to(offset)

    def _apply(self, record: Record, *, strict: bool) -> None:
        match record:
            case OffsetCommit():
                self.offsets.replay(record)
                group_id = record.group_id
                if (
                    group_id not in self.groups
                    and group_id not in self.classic_groups
                    and record.value is not None
                ):
                    simple = ClassicGroup(group_id, now_ms=None)
                    self._context.classic_groups[group_id] = simple
                return
            case GroupMetadata():
                self._replay_classic(record)
                return
        group = self.groups.get(record.group_id)
        if group is None:
            if not self._context.rules.tolerates_compacted_log and (
                record.value is None or not isinstance(record, ConsumerGroupMemberMetadata)
            ):
                raise ReplayError(f"group {record.group_id} does not exist")
            if record.value is None:
                return
            self._make_way(record.group_id, strict=strict)
            group = self.groups[record.group_id] = self.new_group(record.group_id)
        group.replay(record, strict=strict)
        if group.is_deleted:
            del self.groups[record.group_id]

    def _replay_classic(self, record: GroupMetadata) -> None:
        """Live, the group that wrote the record is newer than the record says."""
        if record.value is None:
            self._context.classic_groups.pop(record.group_id, None)
            return
        classic = self.classic_groups.get(record.group_id)
        if classic is None or classic.written is not record.value:
            first_of = self._context.rules.first_member
            loaded = ClassicGroup.from_record(record.group_id, record.value, first_of=first_of)
            self._context.classic_groups[record.group_id] = loaded
            self.groups.pop(record.group_id, None)

    def _make_way(self, group_id: str, *, strict: bool) -> None:
        """A record of a consumer group meets a classic group of its id.

        One that only holds offsets gives way: it may be a trace of a group whose tombstone has been
        compacted away. Any other is an error, live; a load takes the log at its word.
        """
        classic = self.classic_groups.get(group_id)
        if classic is None:
            return
        is_simple = classic.is_simple and self._context.rules.replaces_simple_group
        if not is_simple and (strict or not self._context.rules.replaces_simple_group):
            raise ReplayError(f"group {group_id} is not a consumer group")
        del self._context.classic_groups[group_id]
