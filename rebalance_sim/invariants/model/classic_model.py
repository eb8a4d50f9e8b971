"""What a shard's classic group looked like after its last step: the oracle of its properties.

A classic group is soft state, so its records say too little; what is kept here is counted from its
members, one by one as a step touches them. A term begins with a load, and ends with the shard.
Source: classic §1, §10.1.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from rebalance_sim.invariants.step import ShardView, Step, StepKind, wall_ms
from rebalance_sim.protocol.classic.classic_group import ClassicGroup
from rebalance_sim.protocol.classic.classic_member import ClassicMember
from rebalance_sim.protocol.classic.classic_states import ClassicGroupState
from rebalance_sim.protocol.classic.static_replacement import Replacement
from rebalance_sim.protocol.wire.classic_messages import (
    HeartbeatRequest,
    JoinGroupProtocol,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from rebalance_sim.protocol.wire.consumer_messages import ConsumerGroupHeartbeatRequest
from rebalance_sim.protocol.wire.embedded import EmbeddedAssignment
from rebalance_sim.protocol.wire.offset_messages import OffsetCommitRequest, OffsetFetchRequest
from rebalance_sim.protocol.wire.records import GroupMetadata

CLASSIC_REQUESTS = frozenset(
    (JoinGroupRequest, SyncGroupRequest, HeartbeatRequest, LeaveGroupRequest)
)
_TOUCH_NOTHING = frozenset((HeartbeatRequest, OffsetCommitRequest, OffsetFetchRequest))
"""Requests that touch nothing of a group that is there but the session of their sender."""


class GroupSnapshot(NamedTuple):
    """A group in few words, to see at once whether its members have to be looked at again."""

    state: ClassicGroupState
    generation_id: int
    leader_id: str | None
    member_count: int
    pending_join_count: int
    num_awaiting_join: int

    def fits(self, group: ClassicGroup) -> bool:
        """Whether it is the group as it is now."""
        return (
            self.state is group.state
            and self.num_awaiting_join == group.num_awaiting_join
            and self.generation_id == group.generation_id
            and self.member_count == len(group.members)
            and self.leader_id == group.leader_id
            and self.pending_join_count == len(group.pending_join)
        )

    @classmethod
    def of(cls, group: ClassicGroup) -> GroupSnapshot:
        """The group as it is now."""
        return cls(
            group.state,
            group.generation_id,
            group.leader_id,
            len(group.members),
            len(group.pending_join),
            group.num_awaiting_join,
        )


class MemberNote(NamedTuple):
    """What is counted of a member."""

    protocols: tuple[JoinGroupProtocol, ...]
    awaits_join: bool
    group_instance_id: str | None

    @property
    def protocol_names(self) -> tuple[str, ...]:
        """The assignors that it offers."""
        return tuple(name for name, _ in self.protocols)


class Written(NamedTuple):
    """The record of a generation: who got what, and up to where the log has to be committed.
    ``leader_id``: whose SyncGroup it was written for, if it was."""

    end_offset: int
    assignments: Mapping[str, EmbeddedAssignment]
    leader_id: str | None = None


@dataclass(slots=True)
class ClassicLook:
    """A group after a step; None: there is none any more. ``touched`` are the members that may have
    changed and are there; ``is_untouched``: a request has left it as it was, but for timers."""

    step: Step
    shard: ShardView
    classic_model: ClassicModel
    group: ClassicGroup | None
    touched: Collection[str] = ()
    is_untouched: bool = False


@dataclass(slots=True)
class ClassicModel:
    """One group at one shard, in one term."""

    group: ClassicGroup | None = None
    snapshot: GroupSnapshot | None = None
    members: dict[str, MemberNote] = field(default_factory=dict)
    awaiting_count: int = 0
    gone: set[str] = field(default_factory=set)
    """Ids that were members, or were handed out, and are neither any more."""
    pending: set[str] = field(default_factory=set)
    protocols: dict[int, str | None] = field(default_factory=dict)
    written: dict[int, Written] = field(default_factory=dict)
    parked: dict[int, Any] = field(default_factory=dict)
    """Operation -> JoinGroup or SyncGroup that waits for its answer."""
    _emptied: tuple[ClassicGroup, int] | None = None
    """The group that has become Empty last in this term, and when that was by the wall clock."""

    @property
    def emptied_ms(self) -> int | None:
        """When the group became Empty, if it did so in this term, and still is: the record that
        says so may have failed."""
        if self._emptied is None or self.snapshot is None or self._emptied[0] is not self.group:
            return None
        return self._emptied[1] if self.snapshot.state is ClassicGroupState.EMPTY else None

    def look(self, step: Step, shard: ShardView, group: ClassicGroup | None) -> ClassicLook:
        """Enter a step; what it has changed."""
        before, is_same = self.snapshot, group is self.group
        look = ClassicLook(step, shard, self, group)
        if (
            type(step.request) in _TOUCH_NOTHING
            and step.kind is StepKind.COORDINATOR_REQUEST
            and is_same
            and group is not None
            and before is not None
            and before.fits(group)
        ):
            look.is_untouched = True
            self._look_at_sender(look, group)
            return look
        if group is None or not is_same:
            # A conversion, a deletion, or a group of the same name: ids of the old one may return.
            self.group = self.snapshot = None
            self.awaiting_count = 0
            tables = self.members, self.gone, self.pending, self.protocols, self.written
            for table in tables:
                table.clear()
        if group is None:
            return look
        self.group = group
        self.snapshot = now = GroupSnapshot.of(group)
        is_empty = now.state is ClassicGroupState.EMPTY
        if is_empty and is_same and before and before.state is not now.state:
            self._emptied = group, wall_ms(step)
        if is_same and now == before and not _changes_ids(step):
            self._look_at_sender(look, group)
        else:
            look.touched = group.members.keys()
            self._enter_all(group)
        self._note_generation(step, shard, group)
        return look

    def _look_at_sender(self, look: ClassicLook, group: ClassicGroup) -> None:
        member_id = getattr(look.step.request, "member_id", None) or ""
        member = group.members.get(member_id)
        if member is not None:
            look.touched = (member_id,)
            self._note(member_id, member)

    def _enter_all(self, group: ClassicGroup) -> None:
        known = self.members.keys() | self.pending
        for member_id in [m for m in self.members if m not in group.members]:
            self.awaiting_count -= self.members.pop(member_id).awaits_join
        for member_id, member in group.members.items():
            self._note(member_id, member)
        self.pending = set(group.pending_join)
        self.gone = (self.gone | known) - self.members.keys() - self.pending

    def _note(self, member_id: str, member: ClassicMember) -> None:
        before, awaits_join = self.members.get(member_id), member.awaiting_join is not None
        if (
            before is None
            or before.protocols is not member.protocols
            or before.awaits_join is not awaits_join
            or before.group_instance_id != member.group_instance_id
        ):
            note = MemberNote(member.protocols, awaits_join, member.group_instance_id)
            self.members[member_id] = note
            self.awaiting_count += awaits_join - (before is not None and before.awaits_join)

    def _note_generation(self, step: Step, shard: ShardView, group: ClassicGroup) -> None:
        state, generation_id = group.state, group.generation_id
        if state in (ClassicGroupState.COMPLETING_REBALANCE, ClassicGroupState.STABLE):
            self.protocols[generation_id] = group.protocol_name
        else:  # One that was converted back may begin with a rebalance.
            self.protocols.setdefault(generation_id, group.protocol_name)
        for record in step.records:
            if (
                isinstance(record, GroupMetadata)
                and record.group_id == group.group_id
                and record.value is not None
            ):
                number, end = record.value.generation, shard.log_end_offset
                former, leader_id = self.written.get(number), None
                if isinstance(step.request, SyncGroupRequest):
                    leader_id = step.request.member_id
                if former is not None:
                    if leader_id is not None and leader_id == former.leader_id:
                        continue  # It has come again, which no one looks at.
                    # A static member has a new id; what the leader gave is in the first record.
                    end = former.end_offset
                self.written[number] = Written(
                    end,
                    {row.member_id: row.assignment for row in record.value.members},
                    leader_id=leader_id,
                )
        if step.detail and isinstance(step.event, Replacement):
            self._undo_replacement(group, step.event)

    def _undo_replacement(self, group: ClassicGroup, failed: Replacement) -> None:
        """The predecessor is back, unless somebody has come in its place meanwhile."""
        generation_id = group.generation_id
        written = self.written.get(generation_id)
        if written is not None and failed.old_id in group.members:
            self.written[generation_id] = written._replace(
                assignments={
                    failed.old_id if member_id == failed.new_id else member_id: share
                    for member_id, share in written.assignments.items()
                }
            )

    def note_loaded(self, group: ClassicGroup | None) -> None:
        """A term begins with what the log has: all of that counts as committed."""
        if group is not None and group.written is not None:
            value = group.written
            self.written[value.generation] = Written(
                0, {row.member_id: row.assignment for row in value.members}
            )


def _changes_ids(step: Step) -> bool:
    """A replacement gives a member a new id and leaves all numbers as they are; what waited for a
    commit, or its failure, may touch everybody, and so does a conversion that is refused."""
    request = step.request
    if step.kind is not StepKind.COORDINATOR_REQUEST:
        return True
    if isinstance(request, ConsumerGroupHeartbeatRequest):
        return True
    return isinstance(request, JoinGroupRequest) and not request.member_id
