"""How far apart requests are, and by whose word. Sources: client §2.1, §2.2, §2.5, classic §4.4."""

from __future__ import annotations

from rebalance_sim.invariants.model.client_entry import ClientEntry
from rebalance_sim.invariants.model.model_view import ModelView
from rebalance_sim.invariants.property import Finding, Interest, Property
from rebalance_sim.invariants.step import Step
from rebalance_sim.protocol.clients import (
    ClientState,
    CoordinatorFound,
    Disconnected,
    GroupMember,
    HeartbeatAnswered,
    RequestExpired,
)
from rebalance_sim.protocol.clients.common.backoff import BACKOFF_JITTER
from rebalance_sim.protocol.clients.kinds import JAVA
from rebalance_sim.protocol.wire.consumer_messages import JOIN_EPOCH, ConsumerGroupHeartbeatRequest
from rebalance_sim.protocol.wire.errors import ErrorCode

ORDER = 232


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
            client=entry.name,
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
            client=entry.name,
        )
