"""What clients ask of coordinators: when, as whom, and how they go.

Sources: client §1.3, §2, §5, §6.1, §6.2, §10.1, §12; classic §4.2, §4.5.
"""

from __future__ import annotations

from rebalance_sim.invariants.model.client_entry import ClientEntry
from rebalance_sim.invariants.property import Finding, Interest, Property, notes_of_process
from rebalance_sim.invariants.step import Step
from rebalance_sim.protocol.clients.common.backoff import BACKOFF_JITTER
from rebalance_sim.protocol.clients.common.effects import (
    CallReturned,
    CloseConnection,
    OwnStateChanged,
    SendHeartbeat,
    SendLeaveGroup,
    StateChanged,
)
from rebalance_sim.protocol.clients.common.events import (
    ClassicHeartbeatAnswered,
    Close,
    CommitAnswered,
    CoordinatorConnectionClosed,
    Disconnected,
    HeartbeatAnswered,
    JoinGroupAnswered,
    OffsetFetchAnswered,
    PollingStopped,
    RequestExpired,
    Subscribe,
    SyncGroupAnswered,
    Unsubscribe,
)
from rebalance_sim.protocol.clients.common.member_states import ClientState
from rebalance_sim.protocol.clients.common.values import MembershipOperation
from rebalance_sim.protocol.clients.kinds import (
    CLASSIC,
    EVERY_KIND,
    JAVA,
    JAVA_KINDS,
    LIBRDKAFKA_KINDS,
)
from rebalance_sim.protocol.clients.librdkafka.librdkafka_core import COORDINATOR_STATE
from rebalance_sim.protocol.clients.librdkafka.librdkafka_states import CoordinatorState
from rebalance_sim.protocol.wire.consumer_messages import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
)
from rebalance_sim.protocol.wire.consumer_messages import ConsumerGroupHeartbeatRequest as Heartbeat
from rebalance_sim.protocol.wire.errors import ErrorCode


class EpochRises(Property):
    """client C3."""

    id = "client.epoch.monotonic"
    is_seen_from_outside = True
    sentence = "The epoch of a client falls only to 0 or below."
    clauses = ("client C3", "defects S3", "TLA+ ClientSideMemberEpochIsMonotonic")
    violated_by = ("test:epoch-regress",)

    def on_moved(self, step: Step, entry: ClientEntry) -> Finding | None:
        """Compare with what was seen last."""
        epoch, before = entry.member.member_epoch, entry.member_epoch
        if epoch >= before or epoch <= 0:
            return None
        return Finding(f"{entry.name} fell from epoch {before} to {epoch}")


class IdStable(Property):
    """client C5, KIP-1082: if the coordinator made the id and its answer were lost, no one would
    have it. One that no one knows any more may be given up for another: franz-go makes a new one
    when it learns so, and for each of its clients (franz §3)."""

    id = "client.id.stable"
    is_seen_from_outside = True
    sentence = (
        "A client joins with a member id that it has made itself, and keeps it as long as the "
        "coordinator may know it."
    )
    clauses = ("client C5", "client §5", "defects S7")
    violated_by = ("mut-client-clears-id-on-fence", "KAFKA-17116")
    interest = Interest(events=(), refusals=(HeartbeatAnswered, OffsetFetchAnswered))
    _unknown: dict[str, str] = notes_of_process(dict)
    """Client -> the id that no one knows, as it was answered, or left with."""

    def on_event(self, step: Step, entry: ClientEntry) -> None:
        """Remember the id that is not known."""
        code = step.event.response.error_code
        is_stale_join = code is ErrorCode.STALE_MEMBER_EPOCH and entry.member_epoch == JOIN_EPOCH
        if code is ErrorCode.UNKNOWN_MEMBER_ID or is_stale_join:
            self._unknown[entry.name] = entry.member_id

    def on_moved(self, step: Step, entry: ClientEntry) -> Finding | None:
        """Compare with what was seen last."""
        own, before = entry.member.member_id, entry.member_id
        if own == before or not before or (own and self._unknown.get(entry.name) == before):
            return None
        return Finding(f"{entry.name} was {before} and is {own or 'no one'}")

    def on_sent(
        self, step: Step, entry: ClientEntry, request: Heartbeat, state: ClientState
    ) -> Finding | None:
        """Is there one? That of a member that leaves is going to be known no more."""
        if request.member_epoch < JOIN_EPOCH:
            self._unknown[entry.name] = request.member_id
        if request.member_id or request.member_epoch != JOIN_EPOCH:
            return None
        return Finding(f"{entry.name} joins without a member id")


class OneInFlight(Property):
    """client C15. What was in flight when the member left does not count."""

    id = "client.hb.one_in_flight"
    is_seen_from_outside = True
    sentence = "At most one heartbeat of a membership waits for its answer, leaves apart."
    clauses = ("client C15", "coordinator A1", "defects S7")
    violated_by = ("KAFKA-16555",)

    def on_sent(
        self, step: Step, entry: ClientEntry, request: Heartbeat, state: ClientState
    ) -> Finding | None:
        """Is another one waiting?"""
        if request.member_epoch < JOIN_EPOCH or not entry.in_flight:
            return None
        return Finding(
            f"{entry.name} sent a heartbeat at epoch {request.member_epoch} while another has "
            f"waited {step.at_ms - min(entry.in_flight.values())} ms for its answer"
        )


class HeartbeatPace(Property):
    """client C16, §2.2, §2.3. A member that joins or acknowledges waits for nothing, which costs a
    coordinator that loads a heartbeat per round trip (``docs/findings.md#sim-unpaced-join``); after
    an error that says where the coordinator is not, the searches set the pace. One that offers
    client-side assignors, and was admitted, joins no more while it waits for the first target,
    though its state is still JOINING (client §1.3, row 6)."""

    id = "client.hb.pace"
    sentence = (
        "Heartbeats of a Java client are an interval apart, and a backoff after one that failed, "
        "unless it joins, acknowledges or leaves."
    )
    clauses = ("client C16", "client §2.1", "client §2.2", "client §2.3", "client §1.3")
    violated_by = ("test:hasty-heartbeat", "KAFKA-19813")
    client_kinds = (JAVA,)
    outlives_clock_steps = False

    def on_sent(
        self, step: Step, entry: ClientEntry, request: Heartbeat, state: ClientState
    ) -> Finding | None:
        """Has the interval passed, or the shortest backoff?"""
        member, since_ms, last = entry.member, entry.last_sent_ms, entry.last_request
        if last is None or request.member_epoch < JOIN_EPOCH:
            return None
        is_joined = last.member_epoch == JOIN_EPOCH and last.client_assignors
        is_let_in = state is ClientState.JOINING and is_joined and not entry.in_flight
        least_ms = min(entry.interval_ms, member.heartbeat_interval_ms)
        if entry.has_failed:
            least_ms = int(member.config.retry_backoff_ms * (1 - BACKOFF_JITTER))
            if (failed_ms := entry.backoff_from_ms) is None:
                return None
            is_let_in, since_ms = False, failed_ms
        if (state.is_urgent and not is_let_in) or step.at_ms - since_ms >= least_ms:
            return None
        after = "one that failed" if entry.has_failed else "the last"
        return Finding(
            f"{entry.name} sent a heartbeat {step.at_ms - since_ms} ms after {after} in "
            f"{state.value}, and should have waited {least_ms} ms"
        )


class ConsumerJoinCause(Property):
    """client §1.3, rows 1, 4, 17, 33. Who was admitted at epoch 0, as a target is still to be
    computed, asks again."""

    id = "client.join.cause"
    sentence = (
        "A client joins once for each cause: its application subscribed, unsubscribed or stayed "
        "away from poll, or a heartbeat was refused or lost."
    )
    clauses = ("client §1.3", "client §5", "client §6.1")
    violated_by = ("test:bare-join",)
    interest = Interest(
        events=(
            *(Subscribe, Unsubscribe, PollingStopped),
            *(HeartbeatAnswered, Disconnected, RequestExpired),
        ),
        effects=(CloseConnection, StateChanged),
    )
    _idle: set[str] = notes_of_process(set)
    """Clients that have no cause to join."""

    def on_event(self, step: Step, entry: ClientEntry) -> None:
        """This is a cause."""
        self._idle.discard(entry.name)

    def on_effects(self, step: Step, entry: ClientEntry) -> None:
        """So is a connection that is closed, and the end of a membership."""
        for effect in step.effects:
            if type(effect) is CloseConnection or (
                type(effect) is StateChanged and not effect.to_state.is_in_group
            ):
                self._idle.discard(entry.name)

    def on_sent(
        self, step: Step, entry: ClientEntry, request: Heartbeat, state: ClientState
    ) -> Finding | None:
        """Is there a cause?"""
        if request.member_epoch != JOIN_EPOCH:
            return None
        if entry.name in self._idle and entry.was_let_in:
            return Finding(
                f"{entry.name} joins again, {step.at_ms - entry.last_sent_ms} ms after its last "
                "heartbeat, and nothing has happened that calls for it"
            )
        self._idle.add(entry.name)
        return None


class LeaveOnce(Property):
    """client C21, §6.2. librdkafka may repeat a heartbeat from before, and has no option to say
    how it leaves; franz-go repeats a leave that was lost or met another broker; and a Java client
    that was joining, and waits for the answer to its former leave, leaves again: that join counts
    as under way before it is sent (client §1.3, row 25)."""

    id = "client.leave.once"
    is_seen_from_outside = True
    sentence = (
        "A leave is sent once, with -1, or -2 by a static member that did not ask for another, and "
        "no heartbeat of that membership follows."
    )
    clauses = ("client C21", "client §6.2", "defects S7", "defects S9")
    violated_by = (
        *("PR-15362", "Dekaf-1348", "KAFKA-19335", "mut-client-keeps-leave-epoch"),
        "sim-nameless-leave",
    )
    interest = Interest(events=(Close,))
    _leaves_for_good: set[str] = notes_of_process(set)

    def on_event(self, step: Step, entry: ClientEntry) -> None:
        """Remember what ``close`` says about a static member."""
        if step.event.operation is MembershipOperation.LEAVE_GROUP and entry.kind == JAVA:
            self._leaves_for_good.add(entry.name)

    def on_sent(
        self, step: Step, entry: ClientEntry, request: Heartbeat, state: ClientState
    ) -> Finding | None:
        """Does a heartbeat follow on a leave, or go out as one when it should not?"""
        epoch, what = request.member_epoch, None
        is_leave = epoch < JOIN_EPOCH
        is_static = request.instance_id is not None and entry.name not in self._leaves_for_good
        ends_join = is_leave and entry.state is ClientState.JOINING and entry.kind == JAVA
        is_repeated = epoch != JOIN_EPOCH and entry.repeats(request)
        is_repeated = is_repeated and (epoch > JOIN_EPOCH or entry.has_failed)
        if entry.has_left and epoch != JOIN_EPOCH and not ends_join and not is_repeated:
            what = "after its leave"
        elif state is ClientState.LEAVING and not is_leave:
            what = "instead of a leave"
        elif is_leave and epoch != (STATIC_LEAVE_EPOCH if is_static else LEAVE_EPOCH):
            what = f"as a {'static' if is_static else 'dynamic'} member"
        if what is None:
            return None
        return Finding(f"{entry.name} sent a heartbeat at epoch {epoch} {what}")


_NO_LEAVE_AFTER = (
    *(ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NOT_COORDINATOR),
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
)
"""Errors of a JoinGroup after which a classic client has no member id, or no coordinator."""


class LeaveSent(Property):
    """client §6.2, classic §4.5. Without a coordinator, or where the connection to it was lost,
    there is no one to tell. unsubscribe of librdkafka returns at once. A classic Java client that
    no one polls reads the answer to its JoinGroup when it closes."""

    id = "client.leave.sent"
    sentence = (
        "unsubscribe and close of a member that knows its coordinator do not return before a leave "
        "was sent, unless it is a static classic one."
    )
    clauses = ("client §6.2", "client §1.3", "client §10.1", "classic §4.2", "classic §4.5")
    violated_by = ("test:goes-without-a-word",)
    client_kinds = EVERY_KIND
    judges_mixed = True
    interest = Interest(
        events=(
            *(Close, Unsubscribe, Disconnected, CoordinatorConnectionClosed, OffsetFetchAnswered),
            *(HeartbeatAnswered, JoinGroupAnswered, SyncGroupAnswered, ClassicHeartbeatAnswered),
            CommitAnswered,
        ),
        effects=(SendHeartbeat, SendLeaveGroup, CallReturned, CloseConnection),
    )
    _owes: set[str] = notes_of_process(set)
    """Clients that have to send a leave before a call returns."""
    _unread: set[str] = notes_of_process(set)
    """Classic Java clients that are to learn from a JoinGroup that they have no one to tell."""

    def on_event(self, step: Step, entry: ClientEntry) -> None:
        """Is there somebody to tell, and something? Who is refused something may be none."""
        member, event, kind = entry.member, step.event, type(step.event)
        if kind is OffsetFetchAnswered and member.coordinator_id is not None:
            return
        if kind is JoinGroupAnswered:
            self._unread.discard(entry.name)
            is_refused = event.response.error_code in _NO_LEAVE_AFTER
            if is_refused and entry.kind == CLASSIC and not member.is_polling:
                self._unread.add(entry.name)
        self._owes.discard(entry.name)
        if (
            (kind is Close or (kind is Unsubscribe and entry.kind not in LIBRDKAFKA_KINDS))
            and entry.state.is_in_group
            and entry.member_epoch > 0
            and member.coordinator_id is not None
            and entry.name not in self._unread
            and not (entry.is_classic and self._stays(event, entry))
        ):
            self._owes.add(entry.name)

    @staticmethod
    def _stays(event: Close | Unsubscribe, entry: ClientEntry) -> bool:
        asked = getattr(event, "operation", MembershipOperation.DEFAULT)
        if asked is not MembershipOperation.DEFAULT and entry.kind in JAVA_KINDS:
            return asked is MembershipOperation.REMAIN_IN_GROUP
        return entry.member.config.group_instance_id is not None

    def on_effects(self, step: Step, entry: ClientEntry) -> Finding | None:
        """Does it know when the call returns?"""
        if entry.name not in self._owes:
            return None
        for effect in step.effects:
            kind = type(effect)
            is_leave = kind is SendHeartbeat and effect.request.member_epoch < JOIN_EPOCH
            if kind in (CallReturned, SendLeaveGroup, CloseConnection) or is_leave:
                self._owes.discard(entry.name)
                if kind is not CallReturned or any(map(_ends_without_connection, step.effects)):
                    return None
                return Finding(
                    f"{effect.call.value} of {entry.name} returns, and no leave was sent"
                )
        if entry.member.coordinator_id is None:
            self._owes.discard(entry.name)
        return None


def _ends_without_connection(effect: object) -> bool:
    """Whether librdkafka's close ends in any state of the coordinator but ``up``: it had closed the
    connection itself, maybe before the call, and none has been established since."""
    return (
        type(effect) is OwnStateChanged
        and effect.what == COORDINATOR_STATE
        and effect.to_state == CoordinatorState.TERM.value
        and effect.from_state != CoordinatorState.UP.value
    )
