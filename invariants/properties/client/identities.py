"""Who a client is: it makes its id, keeps it through failures, and asks where its coordinator is.

Sources: client §2.3, §5; classic §4.3.
"""

from __future__ import annotations

from rebalance_sim.invariants.model.classic_entry import ClassicClientEntry
from rebalance_sim.invariants.model.client_entry import ClientEntry
from rebalance_sim.invariants.property import Finding, Interest, Property
from rebalance_sim.invariants.step import Step
from rebalance_sim.protocol.clients import (
    ClientState,
    Disconnected,
    JoinGroupAnswered,
    RequestExpired,
    SyncGroupAnswered,
)
from rebalance_sim.protocol.clients.kinds import CLASSIC, JAVA
from rebalance_sim.protocol.wire.consumer_messages import ConsumerGroupHeartbeatRequest
from rebalance_sim.protocol.wire.errors import ErrorCode

ORDER = 231

_OF_COORDINATORS = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.REBALANCE_IN_PROGRESS,
)
"""Errors that say nothing of the member."""

_IN_GROUP = (ClientState.STABLE, ClientState.RECONCILING, ClientState.JOINING, ClientState.FENCED)


class OwnId(Property):
    """KIP-1082. If the coordinator made the id and its answer were lost, nobody would have it."""

    id = "client.hb.own_id"
    sentence = "A client joins with an id that it has made itself."
    clauses = ("client §5", "defects S7")
    violated_by = ("KAFKA-17116",)

    def on_joining(
        self, step: Step, entry: ClientEntry, request: ConsumerGroupHeartbeatRequest
    ) -> Finding | None:
        """Is there one?"""
        if request.member_id:
            return None
        return Finding(f"{entry.name} joins without a member id", {"client": entry.name})


class KeepsIdThroughFailures(Property):
    """classic §4.3: only an error about the member takes its id away. The coordinator still counts
    on the member that the client was."""

    id = "classic.client.keeps_id"
    sentence = (
        "A Java client of the classic protocol keeps its member id when a request is lost, or is "
        "refused with an error that is about the coordinator."
    )
    clauses = ("classic §4.3", "defects S7")
    violated_by = ("KAFKA-13214",)
    client_kinds = (CLASSIC,)
    judges_mixed = True

    def on_classic_client(self, step: Step, entry: ClassicClientEntry) -> Finding | None:
        """Compare the id before and after a failure."""
        member = entry.member
        before = entry.member_id
        if member.member_id or not before or member.kind != CLASSIC:
            return None
        event = step.event
        if type(event) is JoinGroupAnswered or type(event) is SyncGroupAnswered:
            is_failure = event.response.error_code in _OF_COORDINATORS
        else:
            is_failure = type(event) is Disconnected or type(event) is RequestExpired
        if not is_failure or member.blocked_in is not None or member.state not in _IN_GROUP:
            return None
        return Finding(
            f"{entry.name} is no longer {before} after {type(event).__name__}",
            {"client": entry.name},
        )


class LooksAgainAfterLoss(Property):
    """client §2.3, "disconnect". KAFKA-17293: else it waits for an answer of a dead broker, and
    again, until its session is over."""

    id = "client.search.after_loss"
    sentence = (
        "A Java client whose heartbeat was in flight on a connection that is lost does not take "
        "the broker for its coordinator any more."
    )
    clauses = ("client §2.3", "defects L4")
    violated_by = ("KAFKA-17293",)
    client_kinds = (JAVA,)
    interest = Interest(events=(Disconnected,))

    def on_handled(self, step: Step, entry: ClientEntry) -> Finding | None:
        """It must look for its coordinator."""
        if entry.lost_ms != step.at_ms or entry.member.coordinator_id is None:
            return None
        return Finding(
            f"{entry.name} lost a connection with a heartbeat on it, and still takes broker "
            f"{entry.member.coordinator_id} for its coordinator",
            {"client": entry.name},
        )
