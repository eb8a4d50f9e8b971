"""What a classic client owes its group: heartbeats as long as it is in, no leave without a reason,
no generation forgotten, and topics that are told.

Sources: classic §3.3, §4.2, §4.4-§4.6.
"""

from __future__ import annotations

from rebalance_sim.invariants.model.classic_entry import ClassicClientEntry
from rebalance_sim.invariants.model.model_view import ModelView
from rebalance_sim.invariants.properties.client.pacing import is_away_too_long
from rebalance_sim.invariants.property import Finding, Interest, Property, first_among_living
from rebalance_sim.invariants.step import Step, WorldView
from rebalance_sim.protocol.clients import (
    CallbackCompleted,
    ClassicHeartbeatAnswered,
    ClientState,
    Close,
    CommitAnswered,
    CoordinatorFound,
    GroupMember,
    JoinGroupAnswered,
    MembershipOperation,
    PatternMatched,
    PollingResumed,
    SendClassicHeartbeat,
    SendJoinGroup,
    SendLeaveGroup,
    Subscribe,
    SyncGroupAnswered,
    Unsubscribe,
)
from rebalance_sim.protocol.clients.java.classic.classic_member_states import ClassicState
from rebalance_sim.protocol.clients.kinds import CLASSIC, CLASSIC_KINDS
from rebalance_sim.protocol.clients.librdkafka.librdkafka_states import JoinState
from rebalance_sim.protocol.wire.embedded import Subscription
from rebalance_sim.protocol.wire.errors import ErrorCode

ORDER = 187

_BEATING = (
    *(ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE),
    *(JoinState.STEADY, JoinState.WAIT_ASSIGN_CALL, JoinState.WAIT_UNASSIGN_CALL),
)
"""States of the Java client, and of librdkafka, in which heartbeats are sent."""


class HeartbeatDue(Property):
    """classic §4.4, §4.6. The application may take its time before it joins anew."""

    id = "classic.client.heartbeat_due"
    sentence = (
        "A classic client that has joined and knows its coordinator has its next Heartbeat due "
        "within heartbeat.interval.ms, or a backoff, until it sends another JoinGroup or leaves, "
        "also when the group rebalances meanwhile; librdkafka as long as it holds partitions, or "
        "hands them over, and waits for no answer."
    )
    clauses = ("classic §4.4", "classic §4.6")
    violated_by = ("sarama-2110",)
    client_kinds = CLASSIC_KINDS
    judges_mixed = True
    interest = Interest(events=(ClassicHeartbeatAnswered, JoinGroupAnswered, SyncGroupAnswered))
    outlives_clock_steps = False

    def on_event(self, step: Step, entry: ClassicClientEntry) -> Finding | None:
        """After answers that change something."""
        return _silent(entry.name, entry.member, step.at_ms)

    def full(self, view: WorldView) -> Finding | None:
        """Judge every living client."""
        return first_among_living(view, lambda name, member: _silent(name, member, view.now_ms))


def _silent(name: str, member: GroupMember, now_ms: int) -> Finding | None:
    classic = member.classic
    if (
        classic is None
        or classic.state not in _BEATING
        or member.coordinator_id is None
        or member.poll_expired
        or member.is_closed
        or member.state is ClientState.FATAL
        or (member.kind != CLASSIC and (member.heartbeats_in_flight or not member.commit_identity))
    ):
        return None
    return _late_heartbeat(name, classic.state.value, member, now_ms)


class LeaveCause(Property):
    """classic §3.3, §4.5, §4.6; KIP-345: a static member comes back."""

    id = "classic.client.leave_cause"
    sentence = (
        "A classic client sends a LeaveGroup only when it is unsubscribed, closed, or away from "
        "poll for too long; one with an instance id only if its Java application closes it for "
        "good, or that of librdkafka unsubscribes; one that is told to remain, not at all."
    )
    clauses = ("classic §4.5", "classic §4.6")
    violated_by = ("mut-classic-static-leaves",)
    client_kinds = CLASSIC_KINDS
    judges_mixed = True
    interest = Interest(events=(Close, Unsubscribe, Subscribe), effects=(SendLeaveGroup,))

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._operations: dict[str, MembershipOperation] = self.of_process({})
        """Client -> how it is closed."""
        self._unsubscribed: set[str] = self.of_process(set())
        """Clients whose application has unsubscribed, once or more."""

    def on_event(self, step: Step, entry: ClassicClientEntry) -> Finding | None:
        """The application gives its subscription up; after a failure by any call."""
        event = step.event
        if type(event) is Close:
            self._operations[entry.name] = event.operation
        elif type(event) is Unsubscribe or entry.member.state is ClientState.FATAL:
            self._unsubscribed.add(entry.name)
        return None

    def on_effects(self, step: Step, entry: ClassicClientEntry) -> Finding | None:
        """Is there a reason to leave?"""
        name, member = entry.name, entry.member
        is_static = member.config.group_instance_id is not None
        has_unsubscribed = name in self._unsubscribed
        operation = self._operations.get(name)
        if entry.kind != CLASSIC:
            may_leave = has_unsubscribed
            if not is_static:
                may_leave = (
                    may_leave or operation is not None or is_away_too_long(member, step.at_ms)
                )
        elif operation is None:
            may_leave = not is_static and (has_unsubscribed or member.poll_expired)
        elif is_static:
            may_leave = operation is MembershipOperation.LEAVE_GROUP
        else:
            may_leave = operation is not MembershipOperation.REMAIN_IN_GROUP
        if may_leave:
            return None
        return Finding(
            f"{name}, a {'static' if is_static else 'dynamic'} member, sends a LeaveGroup; its "
            f"application has {'' if has_unsubscribed else 'not '}unsubscribed, and "
            f"{'not closed it' if operation is None else f'closed it: {operation.name}'}",
            {"client": name},
        )


_REFUSED = frozenset(
    (
        *(ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION),
        ErrorCode.FENCED_INSTANCE_ID,
    )
)


class KeepsGeneration(Property):
    """classic §4.3. An answer may be read later than it comes, and a poll notices what was lost.

    To a new member a consumer group that has no target for it yet gives generation 0: that is a
    generation too (classic §7.5).
    """

    id = "classic.client.keeps_generation"
    sentence = (
        "A Java client of the classic protocol forgets its generation only when it is refused "
        "something as unknown, late or replaced, was away from poll for too long, leaves, or has "
        "failed: not when the group rebalances again, or a request is lost."
    )
    clauses = ("classic §4.3", "classic §4.4", "classic §4.5")
    violated_by = ("KAFKA-14016",)
    client_kinds = (CLASSIC,)
    judges_mixed = True
    interest = Interest(
        events=(ClassicHeartbeatAnswered, JoinGroupAnswered, SyncGroupAnswered, CommitAnswered)
    )

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._refused: set[str] = self.of_process(set())
        """Clients that were refused something since they joined last."""

    def on_event(self, step: Step, entry: ClassicClientEntry) -> Finding | None:
        """An answer came: is it a refusal, or a generation?"""
        event = step.event
        if type(event) is CommitAnswered:
            if not _REFUSED.isdisjoint(event.response.errors.values()):
                self._refused.add(entry.name)
        elif event.response.error_code in _REFUSED:
            self._refused.add(entry.name)
        elif _has_joined(step):
            self._refused.discard(entry.name)
        return None

    def on_classic_client(self, step: Step, entry: ClassicClientEntry) -> Finding | None:
        """Is the generation gone?"""
        member = entry.member
        if (
            entry.member_epoch <= 0
            or member.member_epoch > 0
            or entry.kind != CLASSIC
            or _has_joined(step)
            or entry.name in self._refused
            or member.poll_expired
            or member.blocked_in is not None
            or not member.has_subscription
            or member.is_closed
            or member.state is ClientState.FATAL
        ):
            return None
        return Finding(
            f"{entry.name} forgets generation {entry.member_epoch}, and was refused nothing",
            {"client": entry.name},
        )


def _has_joined(step: Step) -> bool:
    event = step.event
    return type(event) is JoinGroupAnswered and not event.response.error_code


class JoinsForItsTopics(Property):
    """classic §4.2, "own subscription differs from the one last joined with", also if it was
    changed while a rebalance ran. The poll notices, unless it has no coordinator to ask."""

    id = "classic.client.joins_for_topics"
    sentence = (
        "A Java client of the classic protocol that has polled since its subscription changed and "
        "its coordinator was found, and is at rest, has joined with the topics that it subscribes "
        "to."
    )
    clauses = ("classic §4.2",)
    violated_by = ("aiokafka-88",)
    client_kinds = (CLASSIC,)
    judges_mixed = True
    interest = Interest(
        events=(Subscribe, PatternMatched, PollingResumed, CallbackCompleted, CoordinatorFound),
        effects=(SendJoinGroup, SendClassicHeartbeat),
    )
    outlives_clock_steps = False

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._joined: dict[str, frozenset[str]] = self.of_process({})
        """Client -> topics of its last JoinGroup."""
        self._changed_ms: dict[str, int] = self.of_process({})
        """Client -> when its subscription was changed, its poll timer restarted, or its coordinator
        found, last."""

    def on_event(self, step: Step, entry: ClassicClientEntry) -> Finding | None:
        """The subscription changes, the poll timer is restarted without a poll, or a poll can do
        something again."""
        self._changed_ms[entry.name] = step.at_ms
        return None

    def on_effects(self, step: Step, entry: ClassicClientEntry) -> Finding | None:
        """With each Heartbeat: has it noticed?"""
        name, member = entry.name, entry.member
        for effect in step.effects:
            if type(effect) is not SendJoinGroup:
                continue  # A Heartbeat.
            said = effect.request.protocols[0].metadata
            if isinstance(said, Subscription):
                self._joined[name] = frozenset(said.topics)
        joined = self._joined.get(name)
        if (
            joined is None
            or not entry.state is ClientState.STABLE is member.state
            or joined == member.subscribed_topic_names
            or member.last_poll_at_ms <= self._changed_ms.get(name, 0)
            or member.coordinator_id is None
            or member.blocked_in is not None
        ):
            return None
        return Finding(
            f"{name} subscribes to {', '.join(sorted(member.subscribed_topic_names))}, has polled "
            f"since, and is at rest as it has joined: with {', '.join(sorted(joined))}",
            {"client": name},
        )


def _late_heartbeat(name: str, state: str, member: GroupMember, now_ms: int) -> Finding | None:
    """A client that is ``state`` beats within an interval or a backoff, whichever is longer."""
    due_ms = member.next_heartbeat_due_ms
    limit_ms = now_ms + max(member.heartbeat_interval_ms, member.config.retry_backoff_max_ms)
    if due_ms is not None and due_ms <= limit_ms:
        return None
    return Finding(
        f"{name} is {state}, and its next Heartbeat is due "
        f"{'never' if due_ms is None else f'in {due_ms - now_ms} ms'}",
        {"client": name},
    )
