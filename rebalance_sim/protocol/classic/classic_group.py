"""A classic group: its fields, and the small changes that keep them consistent.

Source: classic §1. Unlike a consumer group this is *soft* state, as it is in Kafka: handlers change
it in place, and only the end of a rebalance is written to the log. A load builds a group from its
last record (``from_record``).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from rebalance_sim.protocol.classic.classic_member import ClassicMember
from rebalance_sim.protocol.classic.classic_states import ClassicGroupState, Event, transition
from rebalance_sim.protocol.runtime.outcome import Token
from rebalance_sim.protocol.runtime.rebalance_causes import RebalanceCause
from rebalance_sim.protocol.wire.classic_messages import JoinGroupProtocol, JoinGroupResponseMember
from rebalance_sim.protocol.wire.classic_records import ClassicGroupValue, ClassicMemberValue
from rebalance_sim.protocol.wire.embedded import (
    CONSUMER_PROTOCOL_TYPE,
    EmbeddedAssignment,
    Subscription,
)
from rebalance_sim.protocol.wire.errors import ErrorCode, GroupError, ProtocolBug


class ClassicGroup:
    """Read by everybody, changed by the handlers of ``protocol.classic_group`` only.

    ``initial_tick`` holds (delay, remaining) in ms while the join timer counts the initial delay
    (classic §1.5). ``written`` is the value of the last record that this object itself wrote,
    ``rebalance_cause`` why the last rebalance began, None before the first.
    ``first_of`` picks the next leader among several ids, where any of them would do.
    ``first_generation`` is the smallest number that the next generation may have.
    ``now_ms``, here and in the methods, is by the wall clock: it goes into records.
    """

    def __init__(
        self,
        group_id: str,
        *,
        now_ms: int | None,
        first_of: Callable[[Collection[str]], str] = min,
        first_generation: int = 0,
    ) -> None:
        self.group_id = group_id
        self.state = ClassicGroupState.EMPTY
        self.previous_state = ClassicGroupState.DEAD
        self.state_timestamp_ms = now_ms
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.generation_id = 0
        self.leader_id: str | None = None
        self.members: dict[str, ClassicMember] = {}
        self.static_members: dict[str, str] = {}
        self.pending_join: set[str] = set()
        self.pending_sync: set[str] = set()
        self.num_awaiting_join = 0
        self.supported_protocols: dict[str, int] = {}
        self.subscribed_topics: frozenset[str] | None = None
        self.new_member_added = False
        self.initial_tick: tuple[int, int] | None = None
        self.written: ClassicGroupValue | None = None
        self.rebalance_cause: RebalanceCause | None = None
        self.first_generation = first_generation
        self._first_of = first_of

    # -- reading ---------------------------------------------------------------------------

    @property
    def is_empty(self) -> bool:
        """No member; ids that were handed out may still be pending."""
        return self.state is ClassicGroupState.EMPTY

    @property
    def is_simple(self) -> bool:
        """It only stores offsets, and has no record of its own."""
        return self.is_empty and self.protocol_type is None and not self.pending_join

    @property
    def uses_consumer_protocol(self) -> bool:
        """Its members are consumers, not something else that uses the classic protocol."""
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    @property
    def has_all_joined(self) -> bool:
        """Every member has a parked JoinGroup, and no id is pending."""
        return len(self.members) == self.num_awaiting_join and not self.pending_join

    @property
    def max_rebalance_timeout_ms(self) -> int:
        """The longest among the members; 0 if there are none."""
        return max((m.rebalance_timeout_ms for m in self.members.values()), default=0)

    def supports(self, protocol_type: str, protocols: tuple[JoinGroupProtocol, ...]) -> bool:
        """The admission test of classic §1.7. An existing member's old list still counts."""
        if self.is_empty:
            return bool(protocol_type) and bool(protocols)
        return protocol_type == self.protocol_type and any(
            self.supported_protocols.get(name, 0) == len(self.members) for name, _ in protocols
        )

    def select_protocol(self) -> str:
        """The assignor with the most votes; ties go to the leader's order of preference."""
        counts = self.supported_protocols
        candidates = {name for name in counts if counts[name] == len(self.members)}
        votes: dict[str, int] = {}
        for member in self.members.values():
            choice = member.vote(candidates)
            votes[choice] = votes.get(choice, 0) + 1
        best = max(votes.values())
        winners = {name for name, count in votes.items() if count == best}
        return self.leader.vote(winners) if len(winners) > 1 else winners.pop()

    @property
    def leader(self) -> ClassicMember:
        """The leading member. Raises ProtocolBug in a group without members."""
        if self.leader_id is None:
            raise ProtocolBug(f"group {self.group_id} has no leader")
        return self.members[self.leader_id]

    def validate_member(self, member_id: str, group_instance_id: str | None) -> ClassicMember:
        """The member of this id, and instance id if one is given.

        Raises GroupError(UNKNOWN_MEMBER_ID) or GroupError(FENCED_INSTANCE_ID).
        """
        if group_instance_id is not None:
            holder_id = self.static_members.get(group_instance_id)
            if holder_id is None:
                raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID)
            if holder_id != member_id:
                raise GroupError(ErrorCode.FENCED_INSTANCE_ID)
        member = self.members.get(member_id)
        if member is None:
            raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID)
        return member

    def validate_generation(self, generation_id: int) -> None:
        """Raises GroupError(ILLEGAL_GENERATION)."""
        if generation_id != self.generation_id:
            raise GroupError(ErrorCode.ILLEGAL_GENERATION)

    def member_list(self) -> tuple[JoinGroupResponseMember, ...]:
        """What the leader gets to assign to, in ascending id."""
        name = self.protocol_name or ""
        return tuple(
            JoinGroupResponseMember(
                member_id,
                self.members[member_id].group_instance_id,
                self.members[member_id].metadata_for(name),
            )
            for member_id in sorted(self.members)
        )

    def is_subscribed_to(self, topic_name: str) -> bool:
        """As far as the coordinator knows: where it does not know, a group of consumers may be."""
        if self.subscribed_topics is None:
            return self.uses_consumer_protocol
        return topic_name in self.subscribed_topics

    # -- changing state --------------------------------------------------------------------

    def apply(self, event: Event, *, now_ms: int) -> None:
        """Take a row of the table. Raises IllegalTransition where there is none."""
        row = transition(self.state, event)
        self.previous_state, self.state = self.state, row.next_state
        self.state_timestamp_ms = now_ms
        if row.generation_step:
            self.generation_id = max(
                self.generation_id + row.generation_step, self.first_generation
            )

    def begin_generation(self, *, now_ms: int) -> None:
        """The join phase is over: next generation, with what its members have in common."""
        self.protocol_name = self.select_protocol() if self.members else None
        self.subscribed_topics = self._compute_subscribed_topics()
        self.pending_sync.clear()
        event = Event.JOIN_PHASE_ENDED if self.members else Event.EVERYBODY_GONE
        self.apply(event, now_ms=now_ms)

    def start_stable(self, generation_id: int) -> None:
        """A group that begins with members, and not by a rebalance of its own (classic §7.8)."""
        self.state = ClassicGroupState.STABLE
        self.generation_id = generation_id
        self.protocol_name = self.select_protocol()
        self.subscribed_topics = self._compute_subscribed_topics()

    def _compute_subscribed_topics(self) -> frozenset[str] | None:
        if not self.uses_consumer_protocol:
            return None
        topics: set[str] = set()
        for member in self.members.values():
            metadata = member.metadata_for(self.protocol_name or "")
            if not isinstance(metadata, Subscription):
                return None
            topics.update(metadata.topics)
        return frozenset(topics)

    # -- changing members ------------------------------------------------------------------

    def add(self, member: ClassicMember, protocol_type: str) -> None:
        """A new member. Raises ProtocolBug if its instance id is taken."""
        instance_id = member.group_instance_id
        if instance_id is not None:
            if instance_id in self.static_members:
                raise ProtocolBug(f"instance id {instance_id} is taken")
            self.static_members[instance_id] = member.member_id
        if not self.members:
            self.protocol_type = protocol_type
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        self._count(member.protocol_names(), 1)
        if member.awaiting_join is not None:
            self.num_awaiting_join += 1
        self.pending_join.discard(member.member_id)

    def remove(self, member_id: str) -> None:
        """Forget a member, or an id that was handed out. Any member that is left may lead then.

        A parked JoinGroup of the member has been answered before.
        """
        member = self.members.pop(member_id, None)
        if member is not None:
            self._count(member.protocol_names(), -1)
            if member.group_instance_id is not None:
                del self.static_members[member.group_instance_id]
        if self.leader_id == member_id:
            self.leader_id = self._first_of(self.members) if self.members else None
        self.pending_join.discard(member_id)
        self.pending_sync.discard(member_id)

    def update(
        self,
        member: ClassicMember,
        *,
        protocols: tuple[JoinGroupProtocol, ...],
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        awaiting_join: Token | None,
    ) -> None:
        """What a JoinGroup of a known member brings. A newer token replaces an older one."""
        self._count(member.protocol_names(), -1)
        member.protocols = protocols
        self._count(member.protocol_names(), 1)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms
        self.num_awaiting_join += (awaiting_join is not None) - (member.awaiting_join is not None)
        member.awaiting_join = awaiting_join

    def take_join_token(self, member: ClassicMember) -> Token | None:
        """The token of its parked JoinGroup, which waits no longer."""
        token = member.awaiting_join
        if token is not None:
            member.awaiting_join = None
            self.num_awaiting_join -= 1
        return token

    def rename_static(self, group_instance_id: str, new_id: str) -> ClassicMember:
        """The static member under another member id; it keeps lead, metadata and assignment."""
        old_id = self.static_members[group_instance_id]
        member = self.members.pop(old_id)
        member.member_id = new_id
        member.is_new = False
        self.members[new_id] = member
        self.static_members[group_instance_id] = new_id
        if self.leader_id == old_id:
            self.leader_id = new_id
        self.pending_sync.discard(old_id)
        return member

    def elect_joined_leader(self, *, gives_way: bool = True) -> bool:
        """A leader that has not rejoined gives way to the first member that has.

        False if no member has rejoined.
        """
        if self.leader_id is None:
            return False
        if self.leader.awaiting_join is not None:
            return True
        joined = [m.member_id for m in self.members.values() if m.awaiting_join is not None]
        if joined and gives_way:
            self.leader_id = self._first_of(joined)
        return bool(joined)

    def _count(self, names: tuple[str, ...], step: int) -> None:
        counts = self.supported_protocols
        for name in names:
            left = counts.get(name, 0) + step
            if left:
                counts[name] = left
            else:
                del counts[name]

    # -- the log ---------------------------------------------------------------------------

    def to_record(
        self, assignments: Mapping[str, EmbeddedAssignment] | None = None
    ) -> ClassicGroupValue:
        """The value that persists the group as it stands, or with these assignments instead."""
        members = []
        for member_id in sorted(self.members):
            member = self.members[member_id]
            given = member.assignment if assignments is None else assignments[member_id]
            members.append(
                ClassicMemberValue(
                    member_id=member_id,
                    group_instance_id=member.group_instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    rebalance_timeout_ms=member.rebalance_timeout_ms,
                    session_timeout_ms=member.session_timeout_ms,
                    subscription=member.metadata_for(self.protocol_name or ""),
                    assignment=given,
                )
            )
        return ClassicGroupValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation_id,
            protocol=self.protocol_name,
            leader=self.leader_id,
            current_state_timestamp=self.state_timestamp_ms,
            members=tuple(members),
        )

    @classmethod
    def from_record(
        cls,
        group_id: str,
        value: ClassicGroupValue,
        *,
        first_of: Callable[[Collection[str]], str] = min,
        first_generation: int = 0,
        keeps_type: bool = True,
    ) -> ClassicGroup:
        """The group as a load finds it: Empty or Stable, at the last persisted generation.
        ``keeps_type``: also one without members has the protocol type of the record."""
        group = cls(
            group_id,
            now_ms=value.current_state_timestamp,
            first_of=first_of,
            first_generation=first_generation,
        )
        group.generation_id = value.generation
        group.protocol_name = value.protocol
        group.leader_id = value.leader
        group.written = value
        for member in value.members:
            group.add(_member_from_record(value, member), value.protocol_type)
        if keeps_type or value.members:
            group.protocol_type = value.protocol_type or None
        if group.members:
            group.state = ClassicGroupState.STABLE
        group.subscribed_topics = group._compute_subscribed_topics()
        return group


def _member_from_record(value: ClassicGroupValue, member: ClassicMemberValue) -> ClassicMember:
    """Only the selected protocol has survived; an old record may lack the rebalance timeout."""
    timeout_ms = member.rebalance_timeout_ms
    return ClassicMember(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.session_timeout_ms if timeout_ms == -1 else timeout_ms,
        session_timeout_ms=member.session_timeout_ms,
        protocols=(JoinGroupProtocol(value.protocol or "", member.subscription),),
        assignment=member.assignment,
    )
