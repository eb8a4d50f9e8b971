"""How far apart requests are, and by whose word. Sources: client §2.1, §2.2, §2.5, classic §4.4."""

from __future__ import annotations

from rebalance_sim.invariants.model.classic_entry import AnyClientEntry
from rebalance_sim.invariants.model.client_entry import ClientEntry
from rebalance_sim.invariants.model.model_view import ModelView
from rebalance_sim.invariants.property import Finding, Interest, Property, first_among_living
from rebalance_sim.invariants.step import Step, WorldView
from rebalance_sim.protocol.clients import (
    CallbackCompleted,
    ClientState,
    CloseConnection,
    CommitAnswered,
    ConnectCoordinator,
    CoordinatorConnectionClosed,
    CoordinatorFound,
    CoordinatorSearchFailed,
    Disconnected,
    FindCoordinator,
    GroupMember,
    HeartbeatAnswered,
    OffsetFetchAnswered,
    PollingResumed,
    PollingStopped,
    RequestExpired,
    RunCallback,
    StateChanged,
    Subscribe,
    Unsubscribe,
)
from rebalance_sim.protocol.clients.common.backoff import BACKOFF_JITTER
from rebalance_sim.protocol.clients.kinds import JAVA, JAVA_KINDS, LIBRDKAFKA
from rebalance_sim.protocol.wire.consumer_messages import JOIN_EPOCH, ConsumerGroupHeartbeatRequest
from rebalance_sim.protocol.wire.errors import ErrorCode

ORDER = 232


def is_away_too_long(member: GroupMember, now_ms: int) -> bool:
    """Has the member noticed that its application is away from ``poll`` for too long?

    librdkafka leaves then, and if that finds its connection lost, the leave is over, and
    ``poll_expired`` with it, in the event that brought it about: time alone tells.
    """
    if member.poll_expired or member.kind in JAVA_KINDS:
        return member.poll_expired
    return now_ms - member.last_poll_at_ms > member.config.max_poll_interval_ms


def least_backoff_ms(member: GroupMember, failures: int) -> int:
    """The shortest wait after so many failures in a row (client §2.2); 0: after a success."""
    config = member.config
    doublings = min(max(failures - 1, 0), 32)
    nominal_ms = min(
        config.retry_backoff_ms << doublings,
        max(config.retry_backoff_max_ms, config.retry_backoff_ms),
    )
    return int(nominal_ms * (1 - BACKOFF_JITTER))


def most_backoff_ms(member: GroupMember, failures: int) -> int:
    """The longest wait after so many failures in a row, with its jitter (client §2.2)."""
    config = member.config
    nominal_ms = min(
        config.retry_backoff_ms << min(max(failures - 1, 0), 32), config.retry_backoff_max_ms
    )
    longest_ms = max(config.retry_backoff_max_ms, config.retry_backoff_ms)
    return max(min(int(nominal_ms * (1 + BACKOFF_JITTER)), longest_ms), config.retry_backoff_ms)


def longest_backoff_ms(member: GroupMember) -> int:
    """The longest wait after any number of failures, with its jitter (client §2.2)."""
    return int(member.config.retry_backoff_max_ms * (1 + BACKOFF_JITTER))


class HeartbeatBackoff(Property):
    """client §2.2, §2.3. A member that joins or acknowledges waits for nothing, which costs a
    coordinator that loads a heartbeat per round trip (``docs/findings.md#sim-unpaced-join``); after
    an error that says where the coordinator is not, the searches set the pace."""

    id = "client.hb.backoff"
    sentence = (
        "A Java client that has nothing urgent to say waits for its backoff after a heartbeat that "
        "failed."
    )
    clauses = ("client §2.2", "client §2.3", "client C16")
    violated_by = ("KAFKA-19813",)
    client_kinds = (JAVA,)
    interest = Interest(events=(HeartbeatAnswered, Disconnected, RequestExpired), effects=())
    outlives_clock_steps = False

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._failed_ms: dict[str, int | None] = self.of_process({})
        """Client whose last heartbeat has failed -> when, if a backoff follows from that."""

    def on_event(self, step: Step, entry: ClientEntry) -> Finding | None:
        """The heartbeat may have failed."""
        if entry.has_failed and entry.name not in self._failed_ms:
            event = step.event
            is_paced = (
                type(event) is not HeartbeatAnswered
                or event.response.error_code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            )
            self._failed_ms[entry.name] = step.at_ms if is_paced else None
        return None

    def on_sent(
        self,
        step: Step,
        entry: ClientEntry,
        request: ConsumerGroupHeartbeatRequest,
        state: ClientState,
    ) -> Finding | None:
        """Is the backoff over?"""
        failed_ms = self._failed_ms.pop(entry.name, None)
        if failed_ms is None or state.is_urgent or request.member_epoch < JOIN_EPOCH:
            return None
        least_ms = least_backoff_ms(entry.member, 1)
        if step.at_ms - failed_ms >= least_ms:
            return None
        return Finding(
            f"{entry.name} sent a heartbeat {step.at_ms - failed_ms} ms after one that failed; its "
            f"backoff is at least {least_ms} ms",
            {"client": entry.name, "is_after_failure": True},
        )


class BackoffOfFailures(Property):
    """client §2.2. What counts as a failure in a row: ``ClientEntry.failure_count``."""

    id = "client.hb.backoff_bound"
    sentence = (
        "After a heartbeat of a Java client that failed the next one is due within the backoff "
        "after as many failures in a row; answers that send it to another coordinator, or to join "
        "anew, do not count."
    )
    clauses = ("client §2.2", "client §2.3")
    violated_by = ("test:counts-failures-for-ever",)
    client_kinds = (JAVA,)
    interest = Interest(
        events=(HeartbeatAnswered, Disconnected, RequestExpired, CoordinatorFound), effects=()
    )
    outlives_clock_steps = False

    def on_handled(self, step: Step, entry: ClientEntry) -> Finding | None:
        """After a loss, a refusal, or whatever came between that and the next heartbeat."""
        if not entry.has_failed or entry.in_flight:
            return None
        member = entry.member
        due_ms = member.next_heartbeat_due_ms
        limit_ms = most_backoff_ms(member, entry.failure_count)
        if due_ms is None or due_ms - step.at_ms <= limit_ms:
            return None
        return Finding(
            f"{entry.name} sends its next heartbeat in {due_ms - step.at_ms} ms; after "
            f"{entry.failure_count} failures in a row its backoff is {limit_ms} ms at most",
            {"client": entry.name, "is_after_failure": True},
        )


class LibrdkafkaHeartbeatPace(Property):
    """client §10.1: something to say expedites a heartbeat, or a coordinator that is gone."""

    id = "client.hb.pace_librdkafka"
    sentence = (
        "Two heartbeats of a librdkafka member at rest are an interval apart, if the second says "
        "nothing new, and neither a request has failed nor a connection has gone meanwhile."
    )
    clauses = ("client §10.1", "client C16")
    violated_by = ("test:librdkafka-hasty-heartbeat",)
    client_kinds = (LIBRDKAFKA,)
    interest = Interest(
        events=(
            *(HeartbeatAnswered, OffsetFetchAnswered, Disconnected, RequestExpired),
            *(CoordinatorFound, CoordinatorSearchFailed, CoordinatorConnectionClosed),
            *(CallbackCompleted, PollingStopped, PollingResumed, Subscribe, Unsubscribe),
        ),
        refusals=(CommitAnswered,),
        effects=(CloseConnection, ConnectCoordinator, RunCallback, StateChanged),
    )

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._rested_ms: dict[str, int] = self.of_process({})
        """Client -> when it sent its last heartbeat, if nothing has happened since."""

    def on_event(self, step: Step, entry: ClientEntry) -> Finding | None:
        """All this may hurry the next heartbeat; a good commit does not."""
        self._rested_ms.pop(entry.name, None)
        return None

    def on_effects(self, step: Step, entry: ClientEntry) -> Finding | None:
        """So may what it does itself."""
        self._rested_ms.pop(entry.name, None)
        return None

    def on_sent(
        self,
        step: Step,
        entry: ClientEntry,
        request: ConsumerGroupHeartbeatRequest,
        state: ClientState,
    ) -> Finding | None:
        """Has the interval passed?"""
        rested_ms = self._rested_ms.pop(entry.name, None)
        if state is not ClientState.STABLE or request.member_epoch <= JOIN_EPOCH:
            return None
        if request is entry.last_request:
            return None  # The interval counts from when it was sent for the first time.
        self._rested_ms[entry.name] = step.at_ms
        if (
            rested_ms is None
            or request.topic_partitions is not None
            or request.subscribed_topic_names is not None
        ):
            return None
        gap_ms, interval_ms = step.at_ms - rested_ms, entry.member.heartbeat_interval_ms
        if gap_ms >= interval_ms:
            return None
        return Finding(
            f"{entry.name} sent heartbeats {gap_ms} ms apart, and had nothing to say; the interval "
            f"is {interval_ms} ms",
            {"client": entry.name},
        )


class IntervalInForce(Property):
    """client §2.1, row "Interval"."""

    id = "client.hb.interval"
    sentence = "The heartbeat interval of a client is the one in its last good answer."
    clauses = ("client §2.1", "client §9")
    violated_by = ("test:keeps-its-first-interval",)
    relies_on = ("clients",)

    def on_moved(self, step: Step, entry: ClientEntry) -> Finding | None:
        """Judge the client that moved."""
        return self._judge(entry.name, entry.member)

    def full(self, view: WorldView) -> Finding | None:
        """Judge every living client."""
        return first_among_living(view, self._judge)

    def _judge(self, name: str, member: GroupMember) -> Finding | None:
        entry = self.model.clients.get(name)
        if (
            entry is None
            or not member.state.takes_assignments
            or member.state is ClientState.JOINING
            or member.heartbeat_interval_ms == entry.told_interval_ms
        ):
            return None
        return Finding(
            f"{name} has a heartbeat interval of {member.heartbeat_interval_ms} ms; it was told "
            f"{entry.told_interval_ms} ms",
            {"client": name},
        )


class SearchPace(Property):
    """client §2.5. The heartbeat thread of the classic client searches by itself, every 100 ms."""

    id = "client.search.pace"
    sentence = (
        "A Java client has one search for the coordinator in flight, and begins the next one when "
        "the backoff after the last is over: longer after each failure in a row."
    )
    clauses = ("client §2.5", "client §2.2")
    violated_by = ("test:never-backs-off",)
    client_kinds = (JAVA,)
    interest = Interest(
        events=(CoordinatorFound, CoordinatorSearchFailed, Disconnected, RequestExpired),
        effects=(FindCoordinator,),
    )
    outlives_clock_steps = False

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._in_flight: dict[str, int] = self.of_process({})
        self._ended: dict[str, tuple[int, int]] = self.of_process({})
        """Client -> when its last search was over, and how many have failed in a row."""

    def on_event(self, step: Step, entry: AnyClientEntry) -> Finding | None:
        """A search is over, well or badly."""
        event, searched = step.event, self._in_flight.get(entry.name)
        if type(event) in (CoordinatorFound, CoordinatorSearchFailed):
            is_over = event.correlation_id == searched
        else:
            is_over = searched in event.correlation_ids
        if is_over:
            del self._in_flight[entry.name]
            _, failures = self._ended.get(entry.name, (0, 0))
            is_found = type(event) is CoordinatorFound
            self._ended[entry.name] = step.at_ms, 0 if is_found else failures + 1
        return None

    def on_effects(self, step: Step, entry: AnyClientEntry) -> Finding | None:
        """Is it time for another search?"""
        for effect in step.effects:
            if type(effect) is not FindCoordinator:
                continue
            if entry.name in self._in_flight:
                return Finding(f"{entry.name} searches for its coordinator twice at once")
            self._in_flight[entry.name] = effect.correlation_id
            at_ms, failures = self._ended.get(entry.name, (-1 << 40, 0))
            least_ms = least_backoff_ms(entry.member, failures)
            if step.at_ms - at_ms < least_ms:
                return Finding(
                    f"{entry.name} searches for its coordinator {step.at_ms - at_ms} ms after the "
                    f"last search; its backoff is at least {least_ms} ms",
                    {"client": entry.name},
                )
        return None
