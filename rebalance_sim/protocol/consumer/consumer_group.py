"""State of one consumer group, and how each record changes it.

Sources: coordinator §1.1 (fields), coordinator §3.2 (ownership map), coordinator §6.1 (states) and
coordinator §9.3 (replay). Nothing here decides anything: handlers make records, this file applies
them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum

from rebalance_sim.protocol.assignors.server import SubscriptionType
from rebalance_sim.protocol.consumer.computation import Computation
from rebalance_sim.protocol.consumer.consumer_member import Member
from rebalance_sim.protocol.consumer.error_messages import unknown_member
from rebalance_sim.protocol.consumer.ownership_rules import NO_OWNER, OwnershipRules
from rebalance_sim.protocol.runtime.timeline import Timeline, TimelineFields, new_table
from rebalance_sim.protocol.wire.assignment_messages import AssignmentMetadata
from rebalance_sim.protocol.wire.classic_messages import names_of
from rebalance_sim.protocol.wire.errors import ReplayError
from rebalance_sim.protocol.wire.records import (
    ConsumerGroupCurrentMemberAssignment,
    ConsumerGroupMemberMetadata,
    ConsumerGroupMetadata,
    ConsumerGroupPartitionMetadata,
    ConsumerGroupRegularExpression,
    ConsumerGroupTargetAssignmentMember,
    ConsumerGroupTargetAssignmentMetadata,
    MemberState,
    Record,
    RegularExpressionValue,
)
from rebalance_sim.protocol.wire.topics import TopicPartition

METADATA_REFRESH_INTERVAL_MS = 2_147_483_647
"""Effectively never: what triggers a refresh is a change of topics (coordinator §7.3)."""

_EMPTY: frozenset[TopicPartition] = frozenset()


class GroupState(Enum):
    """coordinator §6.1; the value is the name in responses."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


def group_state(
    *, member_count: int, group_epoch: int, target_epoch: int, stable_count: int
) -> GroupState:
    """coordinator §6.1. ``stable_count``: how many members are STABLE at the target epoch."""
    if not member_count:
        return GroupState.EMPTY
    if group_epoch > target_epoch:
        return GroupState.ASSIGNING
    return GroupState.RECONCILING if stable_count < member_count else GroupState.STABLE


def subscription_type(
    names: Mapping[str, int],
    regexes: Mapping[str, int],
    resolved: Iterable[RegularExpressionValue],
    member_count: int,
) -> SubscriptionType:
    """Whether all members subscribe alike, from the numbers of subscribers (``ConsumerGroup``).

    Without patterns: every subscribed topic has all members as subscribers by name
    (coordinator §1.1). With patterns: all members have the same one, and none has a topic name
    (coordinator §7.2). ``resolved`` may hold a pattern that no member has any more: a topic that
    it matches counts as subscribed, too.
    """
    matched: dict[str, int] = {}
    for value in resolved:
        recount(matched, (), value.topics)
    if regexes:
        is_alike = (
            not names
            and all(count == member_count for count in regexes.values())
            and all(count == 1 for count in matched.values())
        )
    else:
        is_alike = all(count == member_count for count in names.values()) and all(
            names.get(topic, 0) == member_count for topic in matched
        )
    return SubscriptionType.HOMOGENEOUS if is_alike else SubscriptionType.HETEROGENEOUS


def recount(counts: dict[str, int], before: Sequence[str], after: Sequence[str]) -> None:
    """Take ``before`` away and add ``after``; a count of 0 deletes the key (coordinator §1.1)."""
    if before == after:
        return
    for key in before:
        left = counts[key] - 1
        if left:
            counts[key] = left
        else:
            del counts[key]
    for key in after:
        counts[key] = counts.get(key, 0) + 1


class ConsumerGroup(TimelineFields):
    """Hard and derived state of a group. Changed by ``replay`` only, read by everybody.

    Soft state, not rebuilt from the log: ``metadata_refresh_deadline_ms`` and
    ``metadata_refresh_epoch`` steer when topic metadata is looked at again (coordinator §7.3),
    ``awaited_rejoins`` are the classic members whose join timer runs (migration, classic §7.4),
    ``computation`` says which member computes a target for the group, if one does
    (coordinator §12.3). Everything else is on the coordinator's timeline, if there is one
    (coordinator §9.4).
    """

    def __init__(
        self,
        group_id: str,
        *,
        initial_epoch: int,
        ownership: OwnershipRules | None = None,
        tolerates_gaps: bool = True,
        frees_former_instance_id: bool = True,
        timeline: Timeline | None = None,
    ) -> None:
        super().__init__(timeline)
        self.group_id = group_id
        self.group_epoch = initial_epoch
        self.metadata_hash = 0
        self.members: dict[str, Member] = new_table(timeline)
        self.target_assignment_epoch = initial_epoch
        self.target_assignment_timestamp: int | None = None
        self.target_assignment: dict[str, frozenset[TopicPartition]] = new_table(timeline)
        self.target_metadata: dict[str, AssignmentMetadata] = new_table(timeline)
        self.subscribed_topic_names: dict[str, int] = new_table(timeline)
        self.subscribed_regexes: dict[str, int] = new_table(timeline)
        self.resolved_regexes: dict[str, RegularExpressionValue] = new_table(timeline)
        self.type_before_patterns: SubscriptionType | None = None
        self.server_assignors: dict[str, int] = new_table(timeline)
        self.client_assignors: dict[str, int] = new_table(timeline)
        self.computation: Computation | None = None
        self.static_members: dict[str, str] = new_table(timeline)
        self.classic_member_count = 0
        self.classic_protocols: dict[str, int] = new_table(timeline)
        self.awaited_rejoins: set[str] = set()
        self.current_partition_epoch: dict[TopicPartition, int] = new_table(timeline)
        self.inverted_target: dict[TopicPartition, str] = new_table(timeline)
        self.metadata_refresh_deadline_ms = 0
        self.metadata_refresh_epoch = 0
        self.is_deleted = False
        self._ownership = ownership or OwnershipRules()
        self._tolerates_gaps = tolerates_gaps
        self._frees_former_instance_id = frees_former_instance_id
        self.stable_at: dict[int, int] = new_table(timeline)

    # -- reading ---------------------------------------------------------------------------

    @property
    def state(self) -> GroupState:
        """The function of coordinator §6.1, in constant time."""
        target_epoch = self.target_assignment_epoch
        return group_state(
            member_count=len(self.members),
            group_epoch=self.group_epoch,
            target_epoch=target_epoch,
            stable_count=self.stable_at.get(target_epoch, 0),
        )

    @property
    def is_empty(self) -> bool:
        """It has no members."""
        return not self.members

    @property
    def subscription_type(self) -> SubscriptionType:
        """Whether all members subscribe alike, as stored."""
        return subscription_type(
            self.subscribed_topic_names,
            self.subscribed_regexes,
            self.resolved_regexes.values(),
            len(self.members),
        )

    @property
    def cached_subscription_type(self) -> SubscriptionType:
        """The same as it was when a member was last updated or removed: patterns that were resolved
        or dropped after that do not count (coordinator §7.2)."""
        return self.type_before_patterns or self.subscription_type

    def holder_of(self, instance_id: str) -> Member | None:
        """The member mapped to this instance id, if any.

        Raises GroupError(UNKNOWN_MEMBER_ID) where the mapping outlived the member: one that took a
        second instance id may leave its first one behind (coordinator §2.7, KAFKA-20747).
        """
        holder_id = self.static_members.get(instance_id)
        if holder_id is None:
            return None
        holder = self.members.get(holder_id)
        if holder is None:
            raise unknown_member(holder_id, self.group_id)
        return holder

    def all_subscribed_names(self) -> set[str]:
        """Topic names that members name or that their patterns matched."""
        names = set(self.subscribed_topic_names)
        for resolved in self.resolved_regexes.values():
            names.update(resolved.topics)
        return names

    def is_subscribed_to(self, topic_name: str) -> bool:
        """Does any member name this topic, or any member's pattern match it?"""
        return topic_name in self.subscribed_topic_names or any(
            topic_name in resolved.topics for resolved in self.resolved_regexes.values()
        )

    def names_of(self, member: Member) -> tuple[str, ...]:
        """Topic names that this member subscribes to: its own, and what its pattern matched."""
        resolved = self.resolved_regexes.get(member.subscribed_topic_regex)
        if resolved is None or not resolved.topics:
            return member.subscribed_topic_names
        return tuple(sorted({*member.subscribed_topic_names, *resolved.topics}))

    def epoch_of(self, partition: TopicPartition) -> int:
        """Member epoch of the partition's owner, or ``NO_OWNER``."""
        return self.current_partition_epoch.get(partition, NO_OWNER)

    def target_of(self, member_id: str) -> frozenset[TopicPartition]:
        """The stored target of this member; empty if it has none."""
        return self.target_assignment.get(member_id, _EMPTY)

    def request_metadata_refresh(self) -> None:
        """Let the next heartbeat of any member compare topic metadata again (coordinator §7.3)."""
        self.metadata_refresh_deadline_ms = 0
        self.metadata_refresh_epoch = 0

    def note_metadata_refresh(self, epoch: int, wall_ms: int) -> None:
        """Topic metadata have been compared for this group epoch (coordinator §7.3).

        By design not part of any record: a rolled-back write shows as an epoch that the group never
        reached, and so counts as expired.
        """
        self.metadata_refresh_deadline_ms = wall_ms + METADATA_REFRESH_INTERVAL_MS
        self.metadata_refresh_epoch = epoch

    # -- replay ----------------------------------------------------------------------------

    def replay(self, record: Record, *, strict: bool = True) -> None:
        """Apply one record.

        ``strict`` (live operation) raises ReplayError where a record does not fit; a load from a
        compacted log passes False and takes the record as it is (coordinator §9.3).
        """
        match record:
            case ConsumerGroupCurrentMemberAssignment():
                self._replay_current(record, strict=strict)
            case ConsumerGroupMemberMetadata():
                self._replay_member(record, strict=strict)
            case ConsumerGroupTargetAssignmentMember():
                self._replay_target(record)
            case ConsumerGroupTargetAssignmentMetadata():
                self._replay_target_epoch(record, strict=strict)
            case ConsumerGroupMetadata():
                self._replay_epoch(record, strict=strict)
            case ConsumerGroupRegularExpression():
                if self.type_before_patterns is None:
                    self.set_field("type_before_patterns", self.subscription_type)
                if record.value is None:
                    self.resolved_regexes.pop(record.regular_expression, None)
                else:
                    self.resolved_regexes[record.regular_expression] = record.value
            case ConsumerGroupPartitionMetadata():
                pass  # Only its tombstone is ever written, and there is nothing to empty.

    def _replay_epoch(self, record: ConsumerGroupMetadata, *, strict: bool) -> None:
        if record.value is not None:
            self.set_field("group_epoch", record.value.epoch)
            self.set_field("metadata_hash", record.value.metadata_hash)
            return
        is_settled = self.target_assignment_epoch == -1 and not self.target_assignment
        if strict and (self.members or not is_settled):
            raise ReplayError(f"group {self.group_id} is deleted while members or targets remain")
        self.set_field("is_deleted", True)

    def _replay_target_epoch(
        self, record: ConsumerGroupTargetAssignmentMetadata, *, strict: bool
    ) -> None:
        if record.value is not None:
            self.set_field("target_assignment_epoch", record.value.assignment_epoch)
            self.set_field("target_assignment_timestamp", record.value.assignment_timestamp)
            return
        if strict and self.target_assignment:
            raise ReplayError(f"group {self.group_id}: target epoch removed while targets remain")
        self.set_field("target_assignment_epoch", -1)
        self.set_field("target_assignment_timestamp", None)

    def _replay_target(self, record: ConsumerGroupTargetAssignmentMember) -> None:
        member_id = record.member_id
        old = self.target_assignment.get(member_id, _EMPTY)
        new = _EMPTY if record.value is None else record.value
        if new is not old:
            inverted = self.inverted_target
            for partition in old - new:
                if inverted.get(partition) == member_id:
                    del inverted[partition]
            for partition in new - old:
                inverted[partition] = member_id
        if record.value is None:
            self.target_assignment.pop(member_id, None)
        else:
            self.target_assignment[member_id] = new
        if record.metadata is not None:
            self.target_metadata[member_id] = record.metadata
        elif self.target_metadata:
            self.target_metadata.pop(member_id, None)

    def _replay_member(self, record: ConsumerGroupMemberMetadata, *, strict: bool) -> None:
        member_id = record.member_id
        old = self.members.get(member_id)
        if record.value is not None:
            new = (old or Member(member_id=member_id)).with_metadata(record.value)
            self._put(old, new, strict=strict)
            return
        if old is None:
            self._meet_unknown(member_id)
            return
        is_settled = old.member_epoch == -1 and member_id not in self.target_assignment
        if strict and not is_settled and self._ownership.removes_in_order:
            raise ReplayError(f"member {member_id} is removed before its assignments")
        self._put(old, None, strict=strict)

    def _replay_current(
        self, record: ConsumerGroupCurrentMemberAssignment, *, strict: bool
    ) -> None:
        member_id = record.member_id
        old = self.members.get(member_id)
        if old is None:
            self._meet_unknown(member_id)
        if record.value is not None:
            base = old or Member(member_id=member_id)
            self._put(old, base.with_current_assignment(record.value), strict=strict)
        elif old is not None:
            self._put(old, old.without_current_assignment(), strict=strict)

    def _meet_unknown(self, member_id: str) -> None:
        """A compacted log may name a member whose first record is gone (KAFKA-17306)."""
        if not self._tolerates_gaps:
            raise ReplayError(f"group {self.group_id} has no member {member_id}")

    def rebuild_maps(self) -> None:
        """Rebuild the ownership map and the inverted target, after a load in which compaction
        may have hidden the record that released a partition (coordinator §9.3)."""
        self.inverted_target.clear()
        for member_id in sorted(self.target_assignment):
            self.inverted_target.update(dict.fromkeys(self.target_assignment[member_id], member_id))
        self.current_partition_epoch.clear()
        for member_id in sorted(self.members):
            member = self.members[member_id]
            self._ownership.add(
                self.current_partition_epoch, member.assigned, member.member_epoch, strict=False
            )
            self._ownership.add(
                self.current_partition_epoch,
                member.pending_revocation,
                member.member_epoch,
                strict=False,
            )

    # -- derived state ---------------------------------------------------------------------

    def _put(self, old: Member | None, new: Member | None, *, strict: bool) -> None:
        """Store, replace or drop a member, and keep every derived structure in step."""
        if self.type_before_patterns is not None:
            self.set_field("type_before_patterns", None)
        before = old.subscribed_topic_names if old else ()
        after = new.subscribed_topic_names if new else ()
        recount(self.subscribed_topic_names, before, after)
        recount(
            self.subscribed_regexes,
            given(old.subscribed_topic_regex if old else None),
            given(new.subscribed_topic_regex if new else None),
        )
        recount(
            self.server_assignors,
            given(old.server_assignor if old else None),
            given(new.server_assignor if new else None),
        )
        if (old and old.client_assignors) or (new and new.client_assignors):
            recount(
                self.client_assignors,
                [assignor.name for assignor in old.client_assignors] if old else [],
                [assignor.name for assignor in new.client_assignors] if new else [],
            )
        if (old and old.classic_metadata) or (new and new.classic_metadata):
            self._recount_classic(old, new)
        self._map_instance(old, new)
        self._ownership.update(self.current_partition_epoch, old, new, strict=strict)
        if old is not None and old.state is MemberState.STABLE:
            left = self.stable_at[old.member_epoch] - 1
            if left:
                self.stable_at[old.member_epoch] = left
            else:
                del self.stable_at[old.member_epoch]
        if new is not None:
            if new.state is MemberState.STABLE:
                self.stable_at[new.member_epoch] = self.stable_at.get(new.member_epoch, 0) + 1
            self.members[new.member_id] = new
        elif old is not None:
            del self.members[old.member_id]

    def _recount_classic(self, old: Member | None, new: Member | None) -> None:
        before, after = old and old.classic_metadata, new and new.classic_metadata
        recount(
            self.classic_protocols,
            names_of(before.supported_protocols) if before else (),
            names_of(after.supported_protocols) if after else (),
        )
        joined = (after is not None) - (before is not None)
        self.set_field("classic_member_count", self.classic_member_count + joined)
        if after is None and old is not None:
            self.awaited_rejoins.discard(old.member_id)

    def _map_instance(self, old: Member | None, new: Member | None) -> None:
        former_id = old.instance_id if old is not None else None
        new_id = new.instance_id if new is not None else None
        is_given_up = new is None or (former_id != new_id and self._frees_former_instance_id)
        if former_id is not None and is_given_up:
            holder_id = self.static_members.get(former_id)
            if old is not None and holder_id == old.member_id:
                del self.static_members[former_id]
        if new is not None and new_id is not None:
            self.static_members[new_id] = new.member_id


def given(name: str | None) -> tuple[str, ...]:
    """One name, or none where it is None or empty."""
    return (name,) if name else ()
