"""How librdkafka goes from one coordinator to the next.

Source: client §10.1, rows "connection lost" and "NOT_COORDINATOR"; client §2.5.
"""

from __future__ import annotations

from rebalance_sim.invariants.model.classic_entry import AnyClientEntry
from rebalance_sim.invariants.model.client_entry import ClientEntry
from rebalance_sim.invariants.model.model_view import ModelView
from rebalance_sim.invariants.property import Finding, Interest, Property
from rebalance_sim.invariants.step import Step
from rebalance_sim.protocol.clients import (
    ClassicHeartbeatAnswered,
    CloseConnection,
    CommitAnswered,
    ConnectCoordinator,
    CoordinatorConnectionClosed,
    CoordinatorFound,
    Disconnected,
    FindCoordinator,
    JoinGroupAnswered,
    LeaveGroupAnswered,
    RequestExpired,
    RunCallback,
    SendClassicHeartbeat,
    SendCommit,
    SendJoinGroup,
    SendLeaveGroup,
    SendOffsetFetch,
    SendSyncGroup,
    SyncGroupAnswered,
)
from rebalance_sim.protocol.clients.kinds import LIBRDKAFKA_KINDS
from rebalance_sim.protocol.wire.errors import ErrorCode

ORDER = 249

_FIRST_TIMEOUT_MS = 45_000
"""How long a heartbeat may take before an interval is known: session.timeout.ms (client §10.1)."""

_NOTICED_MS = 2_000
"""A look comes within a second of the last one's second (client §10.1)."""

_NOTHING: dict[int, int] = {}

_ELSEWHERE = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})


class GoesToCoordinator(Property):
    """client §10.1. It asks for a coordinator that it did not know once more. A commit that is lost
    as it leaves the old one makes it forget the new one as well."""

    id = "client.coordinator.followed"
    sentence = (
        "A client of librdkafka, of either protocol, that learns of another coordinator connects "
        "to it and asks for it once more at once; told by the answer to a commit that the broker "
        "is not the coordinator, it closes the connection and looks for it at once."
    )
    clauses = ("client §10.1", "client §2.5")
    violated_by = ("test:librdkafka-follows-later", "test:librdkafka-stays-connected")
    client_kinds = LIBRDKAFKA_KINDS
    interest = Interest(
        events=(CoordinatorFound, CoordinatorConnectionClosed),
        refusals=(CommitAnswered,),
        effects=(ConnectCoordinator, CloseConnection),
    )

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._nodes: dict[str, int] = self.of_process({})
        """Client -> the coordinator that it has, or wants, a connection to."""

    def on_event(self, step: Step, entry: AnyClientEntry) -> Finding | None:
        """A search was answered, or a commit was."""
        name, event, member = entry.name, step.event, entry.member
        if type(event) is CoordinatorConnectionClosed:
            if event.is_isolated:
                self._nodes.pop(name, None)
            return None
        if member.is_closed:
            return None
        wanted: tuple[type, ...]
        if type(event) is CommitAnswered:
            codes = event.response.errors.values()
            if name not in self._nodes or not codes or not all(c in _ELSEWHERE for c in codes):
                return None
            wanted, what = (CloseConnection, FindCoordinator), "its commit was sent elsewhere"
        elif event.node_id != self._nodes.get(name):
            if CloseConnection(node_id=event.node_id) in step.effects:
                return None  # A commit was lost with the old connection: it looks anew.
            wanted, what = (ConnectCoordinator, FindCoordinator), f"broker {event.node_id} is new"
        else:
            return None
        kinds = [type(effect) for effect in step.effects]
        if all(kind in kinds for kind in wanted):
            return None
        return Finding(
            f"{name} has another coordinator ({what}), and does not go there at once",
            {"client": name},
        )

    def on_effects(self, step: Step, entry: AnyClientEntry) -> Finding | None:
        """Follow the connection that it has."""
        for effect in step.effects:
            if type(effect) is CloseConnection:
                self._nodes.pop(entry.name, None)
            elif type(effect) is ConnectCoordinator:
                self._nodes[entry.name] = effect.node_id
        return None


class GivesLateUp(Property):
    """client §10.1, rows "heartbeat unanswered" and "a request's own time". What it does later, if
    it does anything, it does without that connection. Its last look may have been just before the
    answer was late; the next comes within two seconds."""

    id = "client.answer.late_librdkafka"
    sentence = (
        "A client of librdkafka, of either protocol, that waits for the answer to a heartbeat, a "
        "join, a sync or a leave has closed the connection two seconds after that may take, "
        "whatever else it sends."
    )
    clauses = ("client §10.1", "classic §4.6")
    violated_by = ("test:librdkafka-waits-for-ever", "test:librdkafka-looks-seldom")
    client_kinds = LIBRDKAFKA_KINDS
    judges_mixed = True
    interest = Interest(
        events=(
            *(JoinGroupAnswered, SyncGroupAnswered, LeaveGroupAnswered, ClassicHeartbeatAnswered),
            *(Disconnected, RequestExpired),
        ),
        effects=(
            *(SendJoinGroup, SendSyncGroup, SendLeaveGroup, SendClassicHeartbeat),
            *(CloseConnection, FindCoordinator, SendCommit, SendOffsetFetch, RunCallback),
        ),
    )
    outlives_clock_steps = False

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._late_ms: dict[str, dict[int, int]] = self.of_process({})
        """Classic client -> correlation id of a request in flight -> when its answer is late."""

    def on_event(self, step: Step, entry: AnyClientEntry) -> Finding | None:
        """Requests of a classic client are over; of others the model knows."""
        late_ms, event = self._late_ms.get(entry.name), step.event
        if late_ms:
            if type(event) in (Disconnected, RequestExpired):
                for correlation_id in event.correlation_ids:
                    late_ms.pop(correlation_id, None)
            else:
                late_ms.pop(event.correlation_id, None)
        return None

    def on_effects(self, step: Step, entry: AnyClientEntry) -> Finding | None:
        """Is an answer late, and the client goes on?"""
        if any(type(effect) is CloseConnection for effect in step.effects):
            self._late_ms.pop(entry.name, None)
            return None
        if isinstance(entry, ClientEntry):
            in_flight = entry.in_flight
            limit_ms = entry.interval_ms or _FIRST_TIMEOUT_MS
            first_ms = min(in_flight.values()) + limit_ms if in_flight else step.at_ms
        else:
            late_ms = self._late_ms.get(entry.name, _NOTHING)
            late_ms.pop(entry.heard_id, None)
            first_ms = min(late_ms.values()) if late_ms else step.at_ms
            for effect in step.effects:
                if type(effect) in (
                    *(SendJoinGroup, SendSyncGroup, SendLeaveGroup),
                    SendClassicHeartbeat,
                ):
                    of_client = self._late_ms.setdefault(entry.name, {})
                    of_client[effect.correlation_id] = effect.late_ms
        if step.at_ms - first_ms < _NOTICED_MS:
            return None
        return Finding(
            f"{entry.name} goes on over a connection on which an answer is "
            f"{step.at_ms - first_ms} ms late",
            {"client": entry.name},
        )
