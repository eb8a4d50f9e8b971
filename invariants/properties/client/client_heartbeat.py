"""A client's heartbeats: one at a time, in time, complete after a failure, silent when out.

Sources: client §2, §3, §12.
"""

from __future__ import annotations

from typing import get_args

from rebalance_sim.invariants.model.client_entry import ClientEntry
from rebalance_sim.invariants.model.model_view import ModelView
from rebalance_sim.invariants.properties.client.pacing import longest_backoff_ms
from rebalance_sim.invariants.property import Finding, Interest, Property
from rebalance_sim.invariants.step import Step
from rebalance_sim.protocol.clients import (
    ClientState,
    Close,
    CommitAnswered,
    Event,
    MembershipOperation,
    RecordsReturned,
)
from rebalance_sim.protocol.clients.kinds import JAVA, LIBRDKAFKA
from rebalance_sim.protocol.wire.consumer_messages import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    ConsumerGroupHeartbeatRequest,
)

ORDER = 230


"""A backoff may be this much longer than its nominal length (client §2.2)."""


_OF_OFFSETS = (RecordsReturned, CommitAnswered)
"""What usually says nothing to the membership."""


class OneInFlight(Property):
    """client C15. What was in flight when the member left does not count."""

    id = "client.hb.one_in_flight"
    sentence = "At most one heartbeat of a membership waits for its answer, leaves apart."
    clauses = ("client C15", "coordinator A1", "defects S7")
    violated_by = ("KAFKA-16555",)

    def on_sent(
        self,
        step: Step,
        entry: ClientEntry,
        request: ConsumerGroupHeartbeatRequest,
        state: ClientState,
    ) -> Finding | None:
        """Is another one waiting?"""
        if request.member_epoch < JOIN_EPOCH or not entry.in_flight:
            return None
        since_ms = step.at_ms - min(entry.in_flight.values())
        return Finding(
            f"{entry.name} sent a heartbeat at epoch {request.member_epoch} while another has "
            f"waited {since_ms} ms for its answer",
            client=entry.name,
        )


class HeartbeatPace(Property):
    """client C16. One that offers client-side assignors, was let in and waits for the first target
    joins no more, though its state is still JOINING (client §1.3, row 6)."""

    id = "client.hb.pace"
    sentence = (
        "Two heartbeats of a Java client are an interval apart, except after a failure and "
        "when it joins, acknowledges or leaves; one that offers client-side assignors keeps to "
        "that while it waits for the first target, too."
    )
    clauses = ("client C16", "client §2.1", "client §1.3")
    violated_by = ("test:hasty-heartbeat",)
    client_kinds = (JAVA,)
    outlives_clock_steps = False

    def on_sent(
        self,
        step: Step,
        entry: ClientEntry,
        request: ConsumerGroupHeartbeatRequest,
        state: ClientState,
    ) -> Finding | None:
        """Has the interval passed?"""
        if entry.has_failed or request.member_epoch < JOIN_EPOCH:
            return None
        if state.is_urgent and not _is_let_in(entry, state):
            return None
        gap_ms = step.at_ms - entry.last_sent_ms
        if entry.last_sent_ms < 0 or gap_ms >= min(
            entry.interval_ms, entry.member.heartbeat_interval_ms
        ):
            return None
        return Finding(
            f"{entry.name} sent heartbeats {gap_ms} ms apart in {state.value}; the interval is "
            f"{entry.member.heartbeat_interval_ms} ms",
            client=entry.name,
        )


class HeartbeatAlive(Property):
    """client C17, at the moments at which a client could forget to go on. One for which an answer
    to a former membership ends nothing waits for that to its leave before it joins anew."""

    id = "client.hb.alive"
    sentence = (
        "A member that knows its coordinator and waits for no answer has its next heartbeat "
        "due within an interval or a backoff; librdkafka adds the two up, and sends none when "
        "it is about to leave, or while its application stays away for too long."
    )
    clauses = ("client C17", "defects L1")
    violated_by = (
        "KAFKA-16215",
        "KAFKA-19335",
    )
    interest = Interest(
        events=tuple(one for one in get_args(Event) if one not in _OF_OFFSETS),
        refusals=(CommitAnswered,),
        effects=(),
    )
    outlives_clock_steps = False

    def on_handled(self, step: Step, entry: ClientEntry) -> Finding | None:
        """After an answer out of the ordinary, a loss, a search, the end of a callback."""
        return self._judge(step, entry)

    def _judge(self, step: Step, entry: ClientEntry) -> Finding | None:
        member = entry.member
        if member.coordinator_id is None or entry.in_flight or not member.state.sends_heartbeats:
            return None
        if member.is_closed or (entry.ignores_former_answers and entry.awaited_leave):
            return None
        if member.state is ClientState.JOINING and entry.has_left and entry.sent:
            return None  # It subscribed anew before its leave was answered, and waits for that.
        if member.state is ClientState.PREPARE_LEAVING and member.kind == LIBRDKAFKA:
            return None
        longest_ms = member.config.retry_backoff_max_ms
        backoff_ms = longest_backoff_ms(member)
        interval_ms = member.heartbeat_interval_ms
        is_sum = member.kind == LIBRDKAFKA
        limit_ms = interval_ms + longest_ms if is_sum else max(interval_ms, backoff_ms)
        due_ms = member.next_heartbeat_due_ms
        if due_ms is not None and due_ms <= step.at_ms + limit_ms:
            return None
        if due_ms is None and is_sum and not member.is_polling:
            away_ms = step.at_ms - member.last_poll_at_ms
            if away_ms > member.config.max_poll_interval_ms:
                return None  # It left and is to join anew, but not before the next poll.
        return Finding(
            f"{entry.name} is {member.state.value} and its next heartbeat is due "
            f"{'never' if due_ms is None else f'in {due_ms - step.at_ms} ms'}",
            client=entry.name,
        )


def _is_let_in(entry: ClientEntry, state: ClientState) -> bool:
    """Whether its last heartbeat was a join that was answered well, but with no assignment: it
    waits for some member to compute the first target (client §1.3, row 6)."""
    last = entry.last_request
    return (
        state is ClientState.JOINING
        and last is not None
        and last.member_epoch == JOIN_EPOCH
        and bool(last.client_assignors)
        and entry.answered_ms >= entry.last_sent_ms
    )


class LeaveOnce(Property):
    """client C21, and the leave epoch of the right kind (client §6.2)."""

    id = "client.leave.once"
    sentence = (
        "A leave is sent once, at a leave epoch, and no heartbeat of the old membership follows, "
        "but for one that librdkafka was to repeat; but a Java client that is unsubscribed before "
        "it could send its next join leaves again. A dynamic member leaves with -1, a static one "
        "with -2, unless it is a Java client that was told otherwise."
    )
    clauses = ("client C21", "client §6.2", "defects S7", "defects S9")
    violated_by = (
        "PR-15362",
        "Dekaf-1348",
        "KAFKA-19335",
        "mut-client-keeps-leave-epoch",
    )
    interest = Interest(events=(Close,))

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._leaves_for_good: set[str] = self.of_process(set())

    def on_event(self, step: Step, entry: ClientEntry) -> Finding | None:
        """Remember what ``close`` says about a static member; librdkafka has no such option."""
        event = step.event
        if (
            type(event) is Close
            and event.operation is MembershipOperation.LEAVE_GROUP
            and entry.member.kind == JAVA
        ):
            self._leaves_for_good.add(entry.name)
        return None

    def on_sent(
        self,
        step: Step,
        entry: ClientEntry,
        request: ConsumerGroupHeartbeatRequest,
        state: ClientState,
    ) -> Finding | None:
        """Does a heartbeat follow on a leave, or go out as one when it should not?"""
        epoch = request.member_epoch
        if (
            entry.has_left
            and epoch != JOIN_EPOCH
            and not _ends_unsent_join(entry, epoch)
            and not (epoch > JOIN_EPOCH and entry.repeats(request))
        ):
            return Finding(
                f"{entry.name} sent a heartbeat at epoch {epoch} after its leave", client=entry.name
            )
        if state is ClientState.LEAVING and epoch >= JOIN_EPOCH:
            return Finding(
                f"{entry.name} leaves with a heartbeat at epoch {epoch}", client=entry.name
            )
        return None

    def on_leaving(
        self, step: Step, entry: ClientEntry, request: ConsumerGroupHeartbeatRequest
    ) -> Finding | None:
        """Does the kind of leave fit the kind of member?"""
        expected = LEAVE_EPOCH
        if request.instance_id is not None and entry.name not in self._leaves_for_good:
            expected = STATIC_LEAVE_EPOCH
        if request.member_epoch == expected:
            return None
        return Finding(
            f"{entry.name} ({'static' if request.instance_id else 'dynamic'}) leaves with epoch "
            f"{request.member_epoch}, and should with {expected}",
            client=entry.name,
        )


def _ends_unsent_join(entry: ClientEntry, epoch: int) -> bool:
    """Whether a Java client leaves that was joining, and waited for the answer to its former leave:
    the join counts as under way before it is sent (client §1.3, row 25)."""
    return epoch < JOIN_EPOCH and entry.state is ClientState.JOINING and entry.kind == JAVA
