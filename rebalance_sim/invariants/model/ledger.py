"""A group's state, kept from its records alone, and what each batch changed in it.

This is the oracle: it shares no code with the coordinator's own replay, and keeps for each
partition *who* holds it, where the coordinator keeps at which epoch.
Source: coordinator §3.2, §9.1, §9.3.
"""

from __future__ import annotations

from collections.abc import Collection, Set
from dataclasses import dataclass, field
from typing import NamedTuple

from rebalance_sim.invariants.model.computed_once import computed_once
from rebalance_sim.invariants.model.holders import Holders
from rebalance_sim.protocol.classic.classic_group import ClassicGroup
from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup, GroupState
from rebalance_sim.protocol.wire.classic_records import ClassicGroupValue
from rebalance_sim.protocol.wire.consumer_messages import Request, Response
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.records import (
    ConsumerGroupCurrentMemberAssignment,
    ConsumerGroupMemberMetadata,
    ConsumerGroupMetadata,
    ConsumerGroupRegularExpression,
    ConsumerGroupTargetAssignmentMember,
    ConsumerGroupTargetAssignmentMetadata,
    CurrentAssignmentValue,
    GroupMetadata,
    MemberMetadataValue,
    MemberState,
    OffsetCommit,
    Record,
)
from rebalance_sim.protocol.wire.topics import TopicPartition

_STABLE = MemberState.STABLE
_UNREVOKED = MemberState.UNREVOKED_PARTITIONS

Target = frozenset[TopicPartition]
_NOTHING: Target = frozenset()

_HEARD = (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS)
"""What a classic request is answered that may renew the session of its sender."""


class MemberEntry(NamedTuple):
    """Last values of records 5 and 8 of a member; None where there is none, or a tombstone."""

    metadata: MemberMetadataValue | None = None
    current: CurrentAssignmentValue | None = None

    @property
    def epoch(self) -> int:
        """Member epoch; 0 for a member that has only joined (coordinator §1.2)."""
        return 0 if self.current is None else self.current.member_epoch

    @property
    def state(self) -> MemberState:
        """Reconciliation state; STABLE for a member that has only joined (coordinator §1.2)."""
        return _STABLE if self.current is None else self.current.state

    @property
    def instance_id(self) -> str | None:
        """The static identity, if any."""
        return None if self.metadata is None else self.metadata.instance_id

    @property
    def is_classic(self) -> bool:
        """Whether it speaks the classic protocol."""
        return self.metadata is not None and self.metadata.classic_member_metadata is not None

    @property
    def topic_names(self) -> tuple[str, ...]:
        """Subscribed names."""
        return () if self.metadata is None else self.metadata.subscribed_topic_names

    def held(self) -> Set[TopicPartition]:
        """``assigned`` and ``pending_revocation`` together: what no one else may get."""
        current = self.current
        if current is None:
            return _NOTHING
        if not current.pending_revocation:
            return current.assigned.keys()
        return current.assigned.keys() | current.pending_revocation.keys()


class Taken(NamedTuple):
    """A record gave ``partition`` to ``taker`` while ``holder`` still had it."""

    partition: TopicPartition
    taker: str
    holder: str


@dataclass
class Change:
    """What one batch changed. Pairs are (before, after); None means: not there.

    ``group`` is the coordinator's own idea of the group after the batch, for comparison.
    """

    ledger: GroupLedger
    records: tuple[Record, ...]
    group: ConsumerGroup | None = None
    is_mixed: bool = False
    """The group had classic members before or after the batch, or was a classic group: only who
    ``judges_mixed`` looks at it."""
    group_epoch: tuple[int, int] = (0, 0)
    target_epoch: tuple[int, int] = (0, 0)
    members: dict[str, tuple[MemberEntry | None, MemberEntry | None]] = field(default_factory=dict)
    targets: dict[str, tuple[Target | None, Target | None]] = field(default_factory=dict)
    patterns: dict[str, None] = field(default_factory=dict)
    """Patterns that were resolved, or forgotten."""
    moved: set[str] = field(default_factory=set)
    """Members that may hold something else than before."""
    taken: list[Taken] = field(default_factory=list)
    is_group_removed: bool = False
    upgraded: ClassicGroup | None = None
    """The classic group that the batch turned into a consumer group, as it was."""
    left_behind: list[str] = field(default_factory=list)
    """Records of the group, in words, that were still there when it was removed."""

    @property
    def is_new_target(self) -> bool:
        """Whether this batch installed a target."""
        return self.target_epoch[1] != self.target_epoch[0] and not self.is_group_removed

    def removed(self) -> list[str]:
        """Members that were there before and are not any more."""
        return [m for m, (before, after) in self.members.items() if before and after is None]

    @computed_once
    def gained(self) -> list[tuple[str, TopicPartition]]:
        """(member, partition) for everything newly held, in ascending order."""
        return self._held_only(after=True)

    @computed_once
    def lost(self) -> list[tuple[str, TopicPartition]]:
        """(member, partition) for everything not held any more, in ascending order."""
        return self._held_only(after=False)

    def _held_only(self, *, after: bool) -> list[tuple[str, TopicPartition]]:
        members, moved = self.members, sorted(self.moved)
        held = [(m, _held(members[m][after]) - _held(members[m][not after])) for m in moved]
        return [(member_id, partition) for member_id, more in held for partition in sorted(more)]


def _held(entry: MemberEntry | None) -> Set[TopicPartition]:
    return _NOTHING if entry is None else entry.held()


def expected_state(*, member_count: int, is_behind: bool, settled_count: int) -> GroupState:
    """The function of coordinator §6.1, once more; ``is_behind``: the target lags behind the group
    epoch."""
    if not member_count:
        return GroupState.EMPTY
    if is_behind:
        return GroupState.ASSIGNING
    return GroupState.RECONCILING if settled_count < member_count else GroupState.STABLE


class GroupLedger:
    """The shadow model of one group in one replica's log."""

    def __init__(self, *, group_id: str, initial_epoch: int) -> None:
        self.group_id = group_id
        self._initial_epoch = initial_epoch
        self.heard_ms: dict[str, int] = {}
        """When each member's session last began; kept by the checker."""
        self.last_heard_ms: dict[str, int] = {}
        """The same for members that were removed: if that cannot be written, they are back."""
        self.classic_ms: dict[str, int] = {}
        """When a classic request of a member was taken last, or it was converted: its session began
        no later."""
        self._left_out: dict[str, tuple[int | None, int]] = {}
        """When the session of a member began of which a leap left something out, and how much."""
        self.state_since_ms: dict[str, int] = {}
        """Since when each member has been in its present state and epoch."""
        self.heartbeat_interval_ms = self.session_timeout_ms = 0
        """Of the settings in force at this shard; kept by the shadow model."""
        self.classic: ClassicGroupValue | None = None
        """The last record of a classic group; None if there is none, or it is gone."""
        self.converted_epoch = -1
        """Epoch of the target that the last conversion took over from a classic group."""
        self._clear()

    def forget_group(self) -> None:
        """The coordinator has taken the group out of memory, though the log has it."""
        self._clear()

    def _clear(self) -> None:
        self.has_group = False
        """Whether any record says that there is a group of consumers."""
        self.group_epoch = self._initial_epoch
        self.metadata_hash = 0
        self.target_epoch = self._initial_epoch
        self.target_timestamp: int | None = None
        self.members: dict[str, MemberEntry] = {}
        self.targets: dict[str, Target] = {}
        self.holders = Holders()
        self.in_target = Holders()
        """The members in whose targets partitions are."""
        self.target_count: dict[str, int] = {}
        """Topic id -> how many of its partitions stand in targets, each as often as it does."""
        self.subscriber_count: dict[str, int] = {}
        self.vote_count: dict[str, int] = {}
        self.classic_count = 0
        """Members that speak the classic protocol."""
        self.pattern_count: dict[str, int] = {}
        self.resolved: dict[str, tuple[str, ...]] = {}
        """Pattern -> names of the topics that it matched."""
        self.instances: dict[str, str] = {}
        self.unrevoked_count = 0
        """Members that have not given up yet what they must."""
        self._settled: dict[int, int] = {}

    # -- reading ---------------------------------------------------------------------------

    @property
    def has_converted_target(self) -> bool:
        """Whether the target is still what the leader of a classic group gave to its members."""
        return self.has_group and self.target_epoch == self.converted_epoch

    def state(self) -> GroupState:
        """The function of coordinator §6.1."""
        return expected_state(
            member_count=len(self.members),
            is_behind=self.group_epoch > self.target_epoch,
            settled_count=self.settled_count(),
        )

    def settled_count(self) -> int:
        """How many members are STABLE at the target epoch."""
        return self._settled.get(self.target_epoch, 0)

    def names_of(self, entry: MemberEntry) -> Collection[str]:
        """All names that this member subscribes to, with those that its pattern matched."""
        metadata = entry.metadata
        if metadata is None:
            return ()
        if not metadata.subscribed_topic_regex:
            return metadata.subscribed_topic_names
        matched = self.resolved.get(metadata.subscribed_topic_regex, ())
        return sorted({*metadata.subscribed_topic_names, *matched})

    def all_names(self) -> Set[str]:
        """All names that anybody subscribes to, with those that patterns matched."""
        if not self.pattern_count:
            return self.subscriber_count.keys()
        names = set(self.subscriber_count)
        for pattern in self.pattern_count:
            names.update(self.resolved.get(pattern, ()))
        return names

    # -- writing ---------------------------------------------------------------------------

    def apply(self, records: tuple[Record, ...]) -> Change:
        """Enter a batch; the result says what it changed. Records of other groups, and offsets,
        are skipped."""
        change = Change(self, records)
        was_mixed = self.classic_count > 0 or any(type(r) is GroupMetadata for r in records)
        group_epoch, target_epoch = self.group_epoch, self.target_epoch
        is_converted = False
        of_former: dict[str, tuple[Target | None, Target | None]] = {}
        for record in records:
            if type(record) is OffsetCommit or record.group_id != self.group_id:
                continue
            match record:
                case ConsumerGroupCurrentMemberAssignment():
                    entry = self.members.get(record.member_id)
                    if entry is not None or record.value is not None:
                        after = (entry or MemberEntry())._replace(current=record.value)
                        self._put(record.member_id, entry, after, change)
                case ConsumerGroupMemberMetadata():
                    entry = self.members.get(record.member_id)
                    if record.value is not None:
                        self._begin()
                        after = (entry or MemberEntry())._replace(metadata=record.value)
                        self._put(record.member_id, entry, after, change)
                    elif entry is not None:
                        self._put(record.member_id, entry, None, change)
                case ConsumerGroupTargetAssignmentMember():
                    self._put_target(record.member_id, record.value, change)
                case ConsumerGroupTargetAssignmentMetadata():
                    if record.value is None:
                        self.target_epoch, self.target_timestamp = -1, None
                    else:
                        self.target_epoch = record.value.assignment_epoch
                        self.target_timestamp = record.value.assignment_timestamp
                        if is_converted and self.target_timestamp is None:
                            self.converted_epoch = self.target_epoch
                        is_converted = False
                case GroupMetadata():
                    is_converted = record.value is None
                    self.classic = record.value
                case ConsumerGroupRegularExpression():
                    change.patterns[record.regular_expression] = None
                    if record.value is None:
                        self.resolved.pop(record.regular_expression, None)
                    else:
                        self.resolved[record.regular_expression] = record.value.topics
                case ConsumerGroupMetadata():
                    if record.value is None:
                        change.is_group_removed = True
                        change.left_behind = self._left_behind()
                        self._move_targets(change)
                        of_former.update(change.targets)
                        change.targets.clear()
                        for member_id in list(self.members):
                            self._put(member_id, self.members[member_id], None, change)
                        self._clear()
                    else:
                        self._begin()
                        self.group_epoch = record.value.epoch
                        self.metadata_hash = record.value.metadata_hash
        if change.targets:
            self._move_targets(change)
        if of_former:
            change.targets = {**of_former, **change.targets}
        change.is_mixed = was_mixed or self.classic_count > 0
        change.group_epoch = group_epoch, self.group_epoch
        change.target_epoch = target_epoch, self.target_epoch
        return change

    def _begin(self) -> None:
        """There is a group, if there was none. Compaction may have left the tombstone of a former
        target, and no other of its group."""
        if not self.has_group and self.target_epoch == -1:
            self.target_epoch = self._initial_epoch
        self.has_group = True

    def _left_behind(self) -> list[str]:
        """What a load would still find of the group if it were removed now."""
        found = [f"member {member_id}" for member_id in sorted(self.members)]
        found += [f"the target of {member_id}" for member_id in sorted(self.targets)]
        found += [f"the pattern {pattern!r}" for pattern in sorted(self.resolved)]
        return found if self.target_epoch == -1 else [*found, f"target epoch {self.target_epoch}"]

    def note_states(self, change: Change, at_ms: int) -> None:
        """Remember when members came into their present state."""
        for member_id, (before, after) in change.members.items():
            if after is None:
                self.state_since_ms.pop(member_id, None)
            elif before is None or (before.state, before.epoch) != (after.state, after.epoch):
                self.state_since_ms[member_id] = at_ms

    def note_leap(self, member_id: str, span_ms: int) -> None:
        """So much of the session of a member was left out: it ends sooner by as much."""
        since_ms = self.heard_ms.get(member_id)
        self._left_out[member_id] = since_ms, self.left_out_ms(member_id, since_ms) + span_ms

    def left_out_ms(self, member_id: str, since_ms: int | None) -> int:
        """How much was left out of the session of a member that began then."""
        known_ms, span_ms = self._left_out.get(member_id, (None, 0))
        return span_ms if known_ms == since_ms else 0

    def note_classic_request(self, request: Request, response: Response | None, at_ms: int) -> None:
        """A classic member is heard of by whatever it sends but a leave, unless it is refused. Not
        all of that renews its session: see ``classic_ms``."""
        if getattr(response, "error_code", ErrorCode.NONE) not in _HEARD:
            return
        for message in (request, response):
            member_id = getattr(message, "member_id", "")
            if member_id in self.members:
                self.classic_ms[member_id] = at_ms

    def _put(
        self, member_id: str, before: MemberEntry | None, after: MemberEntry | None, change: Change
    ) -> None:
        first, _ = change.members.get(member_id, (before, None))
        change.members[member_id] = first, after
        if after is None:
            del self.members[member_id]
            self.classic_ms.pop(member_id, None)
            heard_ms = self.heard_ms.pop(member_id, None)
            if heard_ms is not None:
                self.last_heard_ms[member_id] = heard_ms
        else:
            self.members[member_id] = after
        self._count_metadata(member_id, before, after)
        old = before.current if before else None
        new = after.current if after else None
        if old is not new:
            self._count_state(old, -1)
            self._count_state(new, 1)
            if not _has_same_sets(old, new):
                self._move(member_id, before, after, change)

    def _move(
        self, member_id: str, before: MemberEntry | None, after: MemberEntry | None, change: Change
    ) -> None:
        """Enter who holds what now; a partition that another holds is noted in ``change.taken``."""
        old, new = _held(before), _held(after)
        if old == new:
            return
        change.moved.add(member_id)
        for partition in old - new:
            self.holders.release(partition, member_id)
        for partition in new - old:
            holder = self.holders.take(partition, member_id)
            if holder != member_id:
                change.taken.append(Taken(partition, member_id, holder))

    def _put_target(self, member_id: str, value: Target | None, change: Change) -> None:
        before = self.targets.get(member_id)
        first, _ = change.targets.get(member_id, (before, None))
        change.targets[member_id] = first, value
        if value is None:
            self.targets.pop(member_id, None)
        else:
            self.targets[member_id] = value

    def _move_targets(self, change: Change) -> None:
        # All losses before all gains: the order of two members' records means nothing
        # (coordinator §5.5).
        holders, count = self.in_target, self.target_count
        for member_id, (before, after) in change.targets.items():
            for partition in (before or _NOTHING) - (after or _NOTHING):
                _add(count, partition.topic_id, -1)
                holders.release(partition, member_id)
        for member_id, (before, after) in change.targets.items():
            for partition in (after or _NOTHING) - (before or _NOTHING):
                _add(count, partition.topic_id, 1)
                holders.take(partition, member_id)

    # -- counts ----------------------------------------------------------------------------

    def _count_state(self, current: CurrentAssignmentValue | None, by: int) -> None:
        if current is None:
            return
        if current.state is _UNREVOKED:
            self.unrevoked_count += by
        elif current.state is _STABLE:
            epoch = current.member_epoch
            left = self._settled.get(epoch, 0) + by
            if left:
                self._settled[epoch] = left
            else:
                del self._settled[epoch]

    def _count_metadata(
        self, member_id: str, before: MemberEntry | None, after: MemberEntry | None
    ) -> None:
        old = before.metadata if before else None
        new = after.metadata if after else None
        if old is new:
            return
        for value, by in ((old, -1), (new, 1)):
            if value is not None:
                for name in value.subscribed_topic_names:
                    _add(self.subscriber_count, name, by)
                if value.classic_member_metadata is not None:
                    self.classic_count += by
                if value.server_assignor is not None:
                    _add(self.vote_count, value.server_assignor, by)
                if value.subscribed_topic_regex:
                    _add(self.pattern_count, value.subscribed_topic_regex, by)
        was = old.instance_id if old else None
        now = new.instance_id if new else None
        if was == now:
            return
        if was is not None and self.instances.get(was) == member_id:
            del self.instances[was]
        if now is not None:
            self.instances[now] = member_id


def _has_same_sets(
    one: CurrentAssignmentValue | None, other: CurrentAssignmentValue | None
) -> bool:
    """Whether only the epoch differs, as it does for most members when the group has a new one."""
    return (
        one is not None
        and other is not None
        and one.assigned is other.assigned
        and one.pending_revocation is other.pending_revocation
    )


def _add(counts: dict[str, int], key: str, by: int) -> None:
    left = counts.get(key, 0) + by
    if left:
        counts[key] = left
    else:
        counts.pop(key, None)
