"""What a shard's classic group looked like after its last step: the oracle of its properties.

A classic group is soft state, so its records say too little; what is kept here is counted from its
members, one by one as a step touches them. A term begins with a load, and ends with the shard.
Source: classic §1, §10.1.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

from rebalance_sim.invariants.step import ShardView, Step, StepKind, wall_ms
from rebalance_sim.protocol.classic.classic_group import ClassicGroup
from rebalance_sim.protocol.classic.classic_member import ClassicMember
from rebalance_sim.protocol.classic.classic_states import ClassicGroupState
from rebalance_sim.protocol.classic.operation import session_key
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
from rebalance_sim.protocol.wire.records import ConsumerGroupMetadata, GroupMetadata

CLASSIC_REQUESTS = (JoinGroupRequest, SyncGroupRequest, HeartbeatRequest, LeaveGroupRequest)
_TOUCH_NOTHING = (HeartbeatRequest, OffsetCommitRequest, OffsetFetchRequest)
"""Requests that touch nothing of a group that is there but the session of their sender."""


class GroupSnapshot(NamedTuple):
    """A group in few words, to see at once whether its members have to be looked at anew."""

    state: ClassicGroupState
    generation_id: int
    leader_id: str | None
    member_count: int
    pending_join_count: int
    num_awaiting_join: int

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
    awaits_sync: bool
    protocol_names: tuple[str, ...]
    group_instance_id: str | None

    @classmethod
    def of(cls, member: ClassicMember) -> MemberNote:
        """The member as it is now."""
        return cls(
            member.protocols,
            member.awaiting_join is not None,
            member.awaiting_sync is not None,
            member.protocol_names(),
            member.group_instance_id,
        )

    def is_of(self, member: ClassicMember) -> bool:
        """Whether the member is as it was noted: what is read from its protocols follows."""
        return (
            member.protocols is self.protocols
            and (member.awaiting_join is not None) is self.awaits_join
            and (member.awaiting_sync is not None) is self.awaits_sync
            and member.group_instance_id == self.group_instance_id
        )


class Written(NamedTuple):
    """The record of a generation: who got what, and up to where the log has to be committed.
    ``leader_id``: whose SyncGroup it was written for, if it was."""

    end_offset: int
    assignments: Mapping[str, EmbeddedAssignment]
    leader_id: str | None = None


class Converted(NamedTuple):
    """What a group was that has become a consumer group, and where in the log that begins.
    ``begins_at``: where the record is that had made it a classic group, if it was a consumer group
    before. ``written``: the records of its generations."""

    offset: int
    begins_at: int = -1
    written: Mapping[int, Written] = MappingProxyType({})


class GroupPicture(NamedTuple):
    """A group, those of its members that have to be looked at, and how many of all await a join."""

    group: ClassicGroup
    shard: ShardView
    touched: Collection[str]
    awaiting_count: int


@dataclass(slots=True)
class ClassicLook:
    """A group before and after a step; None: there was, or is, none. ``touched`` are the members
    that may have changed and are there, ``gone`` the ids that are there no more."""

    step: Step
    shard: ShardView
    classic_model: ClassicModel
    group: ClassicGroup | None
    before: GroupSnapshot | None
    now: GroupSnapshot | None
    touched: Collection[str] = ()
    gone: frozenset[str] = frozenset()
    former: ClassicGroup | None = None
    """The group of before, where it is another one, or gone."""
    picture: GroupPicture | None = None
    """The group as it is now."""
    is_untouched: bool = False
    """A request has left the group as it was, but for timers."""


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
    converted: list[Converted] = field(default_factory=list)
    """The classic group as it was each time that it was converted."""
    _begins_at: int = -1
    """Where the record is that made the group what it is, if one did."""
    _emptied: tuple[ClassicGroup, int] | None = None
    """The group that has become Empty last in this term, and when that was by the wall clock."""

    @property
    def emptied_ms(self) -> int | None:
        """When the group became Empty, if it did so in this term, and still is: the record that
        says so may have failed."""
        if self._emptied is None or self.snapshot is None or self._emptied[0] is not self.group:
            return None
        return self._emptied[1] if self.snapshot.state is ClassicGroupState.EMPTY else None

    def undo_conversions(self, end_offset: int) -> None:
        """Everything from this offset on is lost now: what was written before a conversion there
        counts again."""
        undone = None
        while self.converted and self.converted[-1].offset >= end_offset:
            undone = self.converted.pop()
        if undone is None or undone.begins_at >= end_offset:
            return  # Maybe that it was a classic group is lost, too.
        for generation_id, written in undone.written.items():
            if written.end_offset <= end_offset:
                self.written.setdefault(generation_id, written)

    def look(self, step: Step, shard: ShardView, group: ClassicGroup | None) -> ClassicLook:
        """Enter a step; what it has changed."""
        before, is_same = self.snapshot, group is self.group
        look = ClassicLook(step, shard, self, group, before, None)
        if not is_same:
            look.former = self.group
            if (
                group is None
                and self.group is not None
                and any(
                    isinstance(record, ConsumerGroupMetadata) and record.value is not None
                    for record in step.records
                )
            ):
                self.converted.append(
                    Converted(
                        shard.log_end_offset - len(step.records),
                        self._begins_at,
                        dict(self.written),
                    )
                )
            self._begins_at = shard.log_end_offset - len(step.records) if step.records else -1
        if group is None or not is_same:
            # A conversion, a deletion, or a group of the same name: ids of the old one may return.
            self._forget_group()
        if group is None:
            return look
        self.group = group
        look.now = self.snapshot = now = GroupSnapshot.of(group)
        if (
            now.state is ClassicGroupState.EMPTY
            and before is not None
            and before.state is not now.state
            and is_same
        ):
            self._emptied = group, wall_ms(step)
        if is_same and now == before and not _changes_ids(step):
            look.is_untouched = type(step.request) in _TOUCH_NOTHING
            look.touched = _sender(step, group)
            for member_id in look.touched:
                self._note(member_id, group.members[member_id])
        else:
            look.touched = group.members.keys()
            look.gone = self._enter_all(group)
        if not look.is_untouched:
            self._note_generation(step, shard, group)
        look.picture = GroupPicture(group, shard, look.touched, self.awaiting_count)
        return look

    def _forget_group(self) -> None:
        self.group = self.snapshot = None
        self.members.clear()
        self.awaiting_count = 0
        for kept in (self.gone, self.pending):
            kept.clear()
        for table in (self.protocols, self.written):
            table.clear()

    def _enter_all(self, group: ClassicGroup) -> frozenset[str]:
        """Ids that are there no more."""
        known = self.members.keys() | self.pending
        for member_id in [m for m in self.members if m not in group.members]:
            self._forget(member_id)
        for member_id, member in group.members.items():
            self._note(member_id, member)
        self.pending = set(group.pending_join)
        present = self.members.keys() | self.pending
        gone = frozenset(known - present)
        self.gone |= gone
        self.gone -= present
        return gone

    def _note(self, member_id: str, member: ClassicMember) -> None:
        before = self.members.get(member_id)
        if before is not None and before.is_of(member):
            return
        note = MemberNote.of(member)
        if before is not None:
            if before[1:] == note[1:]:
                self.members[member_id] = note
                return
            self._forget(member_id)
        self.members[member_id] = note
        self.awaiting_count += note.awaits_join

    def _forget(self, member_id: str) -> None:
        note = self.members.pop(member_id)
        self.awaiting_count -= note.awaits_join

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
                        continue  # It has come again, which nobody looks at.
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


def lacks_session(group: ClassicGroup, shard: ShardView, member_id: str) -> bool:
    """Whether nobody watches a member that has no request parked."""
    return (
        not group.members[member_id].has_satisfied_heartbeat
        and session_key(group.group_id, member_id) not in shard.armed_timers
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


def _sender(step: Step, group: ClassicGroup) -> tuple[str, ...]:
    member_id = getattr(step.request, "member_id", None)
    return (member_id,) if member_id in group.members else ()
