"""What librdkafka's heartbeats say, what hurries them, and how they are repeated.

Source: client §10.1, rows "ack", "leave", "connection lost", "NOT_COORDINATOR",
"COORDINATOR_LOAD_IN_PROGRESS" and "STALE_MEMBER_EPOCH on a commit"; client §10, row "Full fields
after error".
"""

from __future__ import annotations

from typing import NamedTuple

from rebalance_sim.invariants.model.client_entry import ClientEntry
from rebalance_sim.invariants.model.model_view import ModelView
from rebalance_sim.invariants.properties.client.pacing import least_backoff_ms
from rebalance_sim.invariants.property import Finding, Interest, Property
from rebalance_sim.invariants.step import Step
from rebalance_sim.protocol.clients import (
    ClientState,
    Close,
    CloseConnection,
    CommitAnswered,
    Disconnected,
    HeartbeatAnswered,
    RequestExpired,
    Subscribe,
    Unsubscribe,
)
from rebalance_sim.protocol.clients.common.values import NO_ASSIGNMENT
from rebalance_sim.protocol.clients.kinds import LIBRDKAFKA
from rebalance_sim.protocol.wire.consumer_messages import (
    JOIN_EPOCH,
    UNCHANGED_TIMEOUT_MS,
    ConsumerGroupHeartbeatRequest,
)
from rebalance_sim.protocol.wire.errors import ErrorCode

ORDER = 255

_ELSEWHERE = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
_REPEATED_AFTER = _ELSEWHERE | {
    *(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.REQUEST_TIMED_OUT),
}
_MOST_REPEATS = 2
_REPEATED_FOR_MS = 44_000
"""A heartbeat that was to be answered within session.timeout.ms, and was not, is not repeated."""
_HURRIED = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.STALE_MEMBER_EPOCH})


class SaysNoMoreThanNeeded(Property):
    """client §10.1. A full heartbeat that named what was taken back, unbegun, is followed by one
    that does not; after a late answer librdkafka may say everything, or not
    (``docs/findings.md#sim-repeated-ack``)."""

    id = "client.hb.content_librdkafka"
    sentence = (
        "A heartbeat of a librdkafka member says everything after one that was lost with its "
        "connection, or sent elsewhere; else only while it has no assignment yet, after another "
        "failure, or to correct what it has said. One that does not says what the member owns if, "
        "and only if, it acknowledges; a leave says nothing."
    )
    clauses = ("client §10.1", "client §10")
    violated_by = ("test:librdkafka-always-acknowledges", "test:librdkafka-says-nothing-again")
    client_kinds = (LIBRDKAFKA,)
    interest = Interest(
        events=(HeartbeatAnswered, Disconnected, RequestExpired), effects=(CloseConnection,)
    )

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._must: set[str] = self.of_process(set())
        """Clients whose next heartbeat says everything."""
        self._may: set[str] = self.of_process(set())
        """Clients whose next heartbeat may say everything."""

    def on_event(self, step: Step, entry: ClientEntry) -> Finding | None:
        """A heartbeat was refused, or requests were lost."""
        event = step.event
        self._may.add(entry.name)
        if entry.has_left:
            return None
        if type(event) is HeartbeatAnswered:
            is_lost = event.response.error_code in _ELSEWHERE
        else:
            # Not if it was other requests that were lost, and the heartbeat had failed before.
            is_lost = type(event) is Disconnected and entry.lost_ms == step.at_ms
        if is_lost:
            self._must.add(entry.name)
        return None

    def on_effects(self, step: Step, entry: ClientEntry) -> Finding | None:
        """The connection is closed, with all that is in flight."""
        self._may.add(entry.name)
        return None

    def on_sent(
        self,
        step: Step,
        entry: ClientEntry,
        request: ConsumerGroupHeartbeatRequest,
        state: ClientState,
    ) -> Finding | None:
        """Does it say what it should, and no more?"""
        must, may = entry.name in self._must, entry.name in self._may
        self._must.discard(entry.name)
        self._may.discard(entry.name)
        if entry.repeats(request):
            return None
        says_all = request.rebalance_timeout_ms != UNCHANGED_TIMEOUT_MS
        owned = request.topic_partitions
        wrong = ""
        if request.member_epoch < JOIN_EPOCH:
            if says_all or owned is not None or request.subscribed_topic_names is not None:
                wrong = "leaves with more than its id"
        elif request.member_epoch == JOIN_EPOCH:
            return None
        elif must and not request.is_full:
            wrong = "does not say everything, though its last heartbeat has failed"
        elif says_all:
            may = may or any(type(effect) is CloseConnection for effect in step.effects)
            if not may and not self._has_to_tell(entry):
                wrong = "says everything, and nothing calls for it"
        elif (owned is not None) is not (state is ClientState.ACKNOWLEDGING):
            wrong = f"says {'nothing' if owned is None else 'what it owns'} in {state.value}"
        if not wrong:
            return None
        return Finding(f"a heartbeat of {entry.name} {wrong}", {"client": entry.name})

    @staticmethod
    def _has_to_tell(entry: ClientEntry) -> bool:
        """Whether the coordinator does not know all, though no heartbeat has failed."""
        member, last = entry.member, entry.last_request
        if member.current is NO_ASSIGNMENT or last is None or last.topic_partitions is None:
            return member.current is NO_ASSIGNMENT
        in_hand = member.current.partitions | member.target.partitions
        return not last.topic_partitions <= in_hand.union(member.assigned)


class HurriesAfterCommit(Property):
    """client §10.1, row "STALE_MEMBER_EPOCH on a commit"."""

    id = "client.hb.after_refused_commit"
    sentence = (
        "A librdkafka member whose commit is refused because its epoch is stale, or its id "
        "unknown, sends its next heartbeat at once, or after retry.backoff.max.ms at most."
    )
    clauses = ("client §10.1",)
    violated_by = ("test:librdkafka-keeps-calm",)
    client_kinds = (LIBRDKAFKA,)
    interest = Interest(events=(), refusals=(CommitAnswered,), effects=())

    def on_handled(self, step: Step, entry: ClientEntry) -> Finding | None:
        """A commit was answered, and the member has done what follows."""
        codes = step.event.response.errors.values()
        if not codes or not all(code in _HURRIED for code in codes):
            return None
        member = entry.member
        due_ms = member.next_heartbeat_due_ms
        longest_ms = member.config.retry_backoff_max_ms
        if due_ms is None or due_ms - step.at_ms <= longest_ms:
            return None
        return Finding(
            f"a commit of {entry.name} was refused, and its next heartbeat is due in "
            f"{due_ms - step.at_ms} ms",
            {"client": entry.name},
        )


class _Sent(NamedTuple):
    """A heartbeat, how often it was repeated, and when it was sent first."""

    request: ConsumerGroupHeartbeatRequest | None
    repeats: int
    first_ms: int


class RepeatsTheSame(Property):
    """client §10.1, row "COORDINATOR_LOAD_IN_PROGRESS"; a heartbeat that was lost is repeated in
    the same way while no interval is known. What is repeated is the very same request."""

    id = "client.hb.backoff_librdkafka"
    sentence = (
        "A librdkafka member sends the very same heartbeat again only after its backoff, longer "
        "after the second failure, and twice at most; and one that knows no interval yet does so "
        "when its heartbeat was lost within session.timeout.ms, or refused by a coordinator that "
        "is none or not ready, unless its application unsubscribes or closes."
    )
    clauses = ("client §10.1", "client §2.2")
    violated_by = ("test:librdkafka-repeats-for-ever", "test:librdkafka-repeats-nothing")
    client_kinds = (LIBRDKAFKA,)
    interest = Interest(
        events=(Disconnected, RequestExpired, Subscribe, Unsubscribe, Close),
        refusals=(HeartbeatAnswered,),
        effects=(CloseConnection,),
    )

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._sent: dict[str, _Sent] = self.of_process({})
        """Client -> its last heartbeat."""
        self._owed: set[str] = self.of_process(set())
        """Clients that are to repeat it."""

    def on_event(self, step: Step, entry: ClientEntry) -> Finding | None:
        """Has a heartbeat failed that is to be repeated?"""
        event, name, last = step.event, entry.name, self._sent.get(entry.name)
        has_failed = (
            event.response.error_code in _REPEATED_AFTER
            if type(event) is HeartbeatAnswered
            else entry.has_failed and type(event) in (Disconnected, RequestExpired)
        )
        if (
            has_failed
            and last is not None
            and last.repeats < _MOST_REPEATS
            and step.at_ms - last.first_ms < _REPEATED_FOR_MS
            and not entry.member.heartbeat_interval_ms
        ):
            self._owed.add(name)
        else:
            self._owed.discard(name)
        return None

    def on_effects(self, step: Step, entry: ClientEntry) -> Finding | None:
        """A client that closes the connection by itself has given its heartbeat up."""
        self._owed.discard(entry.name)
        return None

    def on_sent(
        self,
        step: Step,
        entry: ClientEntry,
        request: ConsumerGroupHeartbeatRequest,
        state: ClientState,
    ) -> Finding | None:
        """Is it the one of before?"""
        name = entry.name
        last, repeats, first_ms = self._sent.get(name, _Sent(None, 0, step.at_ms))
        is_repeated = request is last
        repeats = repeats + 1 if is_repeated else 0
        self._sent[name] = _Sent(request, repeats, first_ms if is_repeated else step.at_ms)
        is_owed = name in self._owed
        self._owed.discard(name)
        if not repeats:
            if is_owed and request.member_epoch >= JOIN_EPOCH:
                return Finding(
                    f"the first heartbeat of {name} has failed, and it sends another instead of "
                    "the same again",
                    {"client": name},
                )
            return None
        failed_ms = max(entry.answered_ms, entry.lost_ms)
        waited_ms = step.at_ms - failed_ms
        has_waited = waited_ms >= least_backoff_ms(entry.member, repeats)
        if repeats <= _MOST_REPEATS and (has_waited or failed_ms < entry.last_sent_ms):
            return None
        return Finding(
            f"{name} sends a heartbeat for the {repeats}. time again, {waited_ms} ms after it has "
            "failed",
            {"client": name},
        )
