"""The connection of a librdkafka client to its coordinator, and what its loss means.

Source: client §10.1, rows "connection lost", "heartbeat unanswered" and "NOT_COORDINATOR"; client
§2.5. What a client makes of all that is told in the state that it shows of its coordinator.
"""

from __future__ import annotations

from enum import Enum

from rebalance_sim.invariants.model.classic_entry import AnyClientEntry
from rebalance_sim.invariants.model.model_view import ModelView
from rebalance_sim.invariants.property import Finding, Interest, Property
from rebalance_sim.invariants.step import Step
from rebalance_sim.protocol.clients import (
    CloseConnection,
    ConnectCoordinator,
    CoordinatorConnected,
    CoordinatorConnectionClosed,
    CoordinatorFound,
    OwnStateChanged,
)
from rebalance_sim.protocol.clients.kinds import LIBRDKAFKA_KINDS
from rebalance_sim.protocol.clients.librdkafka.librdkafka_core import COORDINATOR_STATE
from rebalance_sim.protocol.clients.librdkafka.librdkafka_states import CoordinatorState

ORDER = 251

_INIT = CoordinatorState.INIT.value
_KNOWN = CoordinatorState.WAIT_BROKER_TRANSPORT.value
_UP = CoordinatorState.UP.value

_MIN_MS = 100
_MAX_MS = 10_000
"""``reconnect.backoff.ms`` and ``.max.ms`` of librdkafka."""

_EVENTS = (CoordinatorFound, CoordinatorConnected, CoordinatorConnectionClosed)


class _Connection(Enum):
    NONE = "none"
    OPENING = "opening"
    OPEN = "open"


class _Line:
    """What one process has, or wants, as a connection to its coordinator."""

    __slots__ = (
        *("backoff_ms", "closed_node_id", "connection", "cut_ms", "due_ms", "former_node_id"),
        *("least_ms", "node_id", "opened_ms", "state"),
    )

    def __init__(self) -> None:
        self.state = _INIT
        self.node_id: int | None = None
        self.former_node_id: int | None = None
        """The coordinator that it had before it found this one, and may leave."""
        self.closed_node_id: int | None = None
        """The broker to which it has just closed the connection itself."""
        self.connection = _Connection.NONE
        self.cut_ms = -1
        """When it has closed the connection, and opened another at once."""
        self.opened_ms = -1
        self.backoff_ms = _MIN_MS
        self.least_ms = 0
        self.due_ms = 0
        """When another may be opened, and when it is, if there is none."""

    def note_opened(self, at_ms: int) -> None:
        """Another is opened: the one after that waits for longer, by 25 % less to 50 % more."""
        if self.opened_ms < 0 or at_ms - self.opened_ms > _MAX_MS:
            self.backoff_ms = _MIN_MS
        self.connection = _Connection.OPENING
        self.opened_ms = at_ms
        self.least_ms = at_ms + int(self.backoff_ms * 0.75)
        self.due_ms = at_ms + min(int(self.backoff_ms * 1.5), _MAX_MS)
        self.backoff_ms = min(2 * self.backoff_ms, _MAX_MS)


class LibrdkafkaConnection(Property):
    """client §10.1, §2.5."""

    id = "client.connection.librdkafka"
    sentence = (
        "A client of librdkafka, of either protocol, that knows its coordinator keeps one "
        "connection to it: one that is gone, or has not come about, it opens again after its "
        "backoff, 100 ms at first and 10 s at most, and does not forget the coordinator unless it "
        "is cut off from all brokers. It sends requests, and shows that it can, only over a "
        "connection that is there, and as soon as there is one to the broker that it has found."
    )
    clauses = ("client §10.1", "client §2.5")
    violated_by = ("test:librdkafka-forgets-the-unreachable", "test:librdkafka-reconnects-at-once")
    client_kinds = LIBRDKAFKA_KINDS
    judges_mixed = True
    interest = Interest(
        events=_EVENTS, effects=(ConnectCoordinator, CloseConnection, OwnStateChanged)
    )

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._lines: dict[str, _Line] = self.of_process({})

    def on_event(self, step: Step, entry: AnyClientEntry) -> Finding | None:
        """It has found a broker, has a connection, or has none any more."""
        event, line = step.event, self._line_of(entry)
        former = line.state
        line.former_node_id = None
        if type(event) is CoordinatorFound:
            if event.node_id != line.node_id:
                line.former_node_id, line.node_id = line.node_id, event.node_id
                line.connection = _Connection.NONE
                line.least_ms = line.due_ms = step.at_ms
        elif type(event) is CoordinatorConnected:
            line.connection = _Connection.OPEN
            line.cut_ms = -1
        else:
            line.connection = _Connection.NONE
            if event.is_isolated:
                line.node_id = None
        finding = self._judge_effects(step, entry)
        if finding is not None or entry.member.is_closed:
            return finding
        if (
            type(event) is CoordinatorConnectionClosed
            and former == _KNOWN != line.state
            and not event.is_isolated
        ):
            return Finding(
                f"{entry.name} could not connect to its coordinator, and is in {line.state}, as if "
                "it did not know it any more",
                {"client": entry.name},
            )
        return self._judge(step, entry, line)

    def on_effects(self, step: Step, entry: AnyClientEntry) -> Finding | None:
        """What it does by itself, at its time."""
        if type(step.event) in _EVENTS:
            return None
        line = self._line_of(entry)
        finding = self._judge_effects(step, entry)
        if finding is not None or entry.member.is_closed:
            return finding
        return self._judge(step, entry, line)

    def _line_of(self, entry: AnyClientEntry) -> _Line:
        line = self._lines.get(entry.name)
        if line is None:
            line = self._lines[entry.name] = _Line()
        return line

    def _judge_effects(self, step: Step, entry: AnyClientEntry) -> Finding | None:
        """Connections that it closes and opens, in their order."""
        line = self._lines[entry.name]
        line.closed_node_id = None
        for effect in step.effects:
            kind = type(effect)
            if kind is OwnStateChanged:
                if effect.what == COORDINATOR_STATE:
                    line.state = effect.to_state
            elif kind is CloseConnection:
                if effect.node_id == line.node_id:
                    line.closed_node_id, line.node_id = line.node_id, None
                    line.connection = _Connection.NONE
                elif effect.node_id == line.former_node_id:
                    line.former_node_id = None
                else:
                    return Finding(
                        f"{entry.name} closes a connection to broker {effect.node_id}, which it "
                        "does not have",
                        {"client": entry.name},
                    )
            elif kind is ConnectCoordinator:
                wrong = ""
                if effect.node_id == line.closed_node_id:
                    line.cut_ms = step.at_ms
                elif effect.node_id != line.node_id:
                    wrong = "which nobody has told it to be its coordinator"
                elif line.connection is not _Connection.NONE:
                    wrong = f"and has one that is {line.connection.value}"
                elif step.at_ms < line.least_ms:
                    wrong = f"{line.least_ms - step.at_ms} ms before its backoff is over"
                line.node_id = effect.node_id
                line.note_opened(step.at_ms)
                if wrong:
                    return Finding(
                        f"{entry.name} opens a connection to broker {effect.node_id}, {wrong}",
                        {"client": entry.name},
                    )
        return None

    @staticmethod
    def _judge(step: Step, entry: AnyClientEntry, line: _Line) -> Finding | None:
        """Is what it shows what it has, and has it done all that is due?"""
        is_up = line.state == _UP
        wrong = ""
        if is_up != (entry.member.coordinator_id is not None):
            wrong = f"in {line.state}, and sends its requests to {entry.member.coordinator_id}"
        elif is_up and line.connection is not _Connection.OPEN and line.cut_ms != step.at_ms:
            wrong = f"in {line.state}, and its connection is {line.connection.value}"
        elif is_up and entry.member.coordinator_id != line.node_id:
            wrong = f"with broker {entry.member.coordinator_id}; it was told {line.node_id}"
        elif line.state == _KNOWN and line.connection is _Connection.OPEN:
            wrong = f"in {line.state}, and its connection is open"
        elif line.state == _KNOWN and line.node_id is None:
            wrong = f"in {line.state}, and knows no coordinator"
        elif (
            line.node_id is not None
            and line.connection is _Connection.NONE
            and step.at_ms >= line.due_ms
        ):
            wrong = f"without a connection, which was due {step.at_ms - line.due_ms} ms ago"
        if not wrong:
            return None
        return Finding(f"{entry.name} is {wrong}", {"client": entry.name})
