"""The connections of one client process: set up, backed off, timed out.

Source: client §2.4. A request to a broker waits while a connection is being set up, fails at once
while the broker is in reconnect backoff, and fails with everything else in flight when one of them
has waited for too long: usually the oldest, for ``request_timeout_ms``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from rebalance_sim.sim.network.network import Connection, ConnectionState, Network, Purpose

_BACKOFF_JITTER = 0.2

_FAILURES_PER_MS = 8
"""How often a request to a broker in backoff can be made, and fail, within a millisecond: each
takes a turn of the network thread. Matters to a client that tries again at once, without end."""


NEVER_MS = 1 << 60
"""Timeout of a request whose answer the process itself waits for."""

# Members of enums that every event asks for: to look one up takes as long as a call.
_OPEN = ConnectionState.OPEN
_COORDINATOR = Purpose.COORDINATOR


class ConnectionsOwner(Protocol):
    """The process whose connections these are."""

    name: str
    tie_break: Callable[[], float]

    @property
    def request_timeout_ms(self) -> int:
        """How long a request may go without an answer."""

    @property
    def watches_coordinator(self) -> bool:
        """Whether it wants to know what becomes of connections to coordinators."""

    def defers(self, function: Callable[..., None], *arguments: Any) -> bool:
        """Whether the process keeps a call for later, or is gone."""

    def on_answer(self, correlation_id: int, response: Any) -> None:
        """The answer to a request."""

    def on_lost(self, correlation_ids: tuple[int, ...]) -> None:
        """These requests will never be answered."""

    def on_coordinator_connected(self) -> None:
        """The connection to a coordinator is there."""

    def on_coordinator_closed(self, *, is_isolated: bool) -> None:
        """That connection is gone, or was not established."""


@dataclass(slots=True, eq=False)
class _BrokerConnection:
    """What a client has towards one broker for one purpose.

    ``failing``: requests whose failure is still to be reported. ``waiting`` has requests with the
    time that they may take, ``in_flight`` those that are sent, with the time when they must be
    answered.
    """

    connection: Connection | None = None
    failing: set[int] = field(default_factory=set)
    failures: int = 0
    fast_failures: int = 0  # within the millisecond ``fast_failures_ms``
    fast_failures_ms: int = -1
    is_silent: bool = False  # the last one ended with a request that was not answered
    opened_ms: int = -1  # when it was last tried to open it
    retry_at_ms: int = 0
    waiting: list[tuple[int, Any, int]] = field(default_factory=list)
    in_flight: deque[tuple[int, int]] = field(default_factory=deque)
    watchdog_ms: int | None = None


class ClientConnections:
    """Sends requests and pairs answers with them. ``correlation_id`` is the caller's own."""

    def __init__(self, network: Network, process: ConnectionsOwner, *, rack: str = "") -> None:
        self._network = network
        self._clock = network.clock
        self._process = process
        self._rack = rack
        self._to_coordinator: dict[int, _BrokerConnection] = {}
        self._to_any: dict[int, _BrokerConnection] = {}
        self._by_connection: dict[Connection, _BrokerConnection] = {}
        self._draw = network.streams.get(f"reconnect/{process.name}").random
        self._pick = network.streams.get(f"bootstrap/{process.name}").random
        self._tie_break = process.tie_break
        self._timeout_ms = process.request_timeout_ms
        self._misled_until_ms = -1

    @property
    def misled_until_ms(self) -> int:
        """When it last found a connection to a coordinator dead, without a notice; now,
        if it has one and does not know; -1: never."""
        return self._clock.now_ms if self.is_misled else self._misled_until_ms

    @property
    def is_misled(self) -> bool:
        """Whether a connection to a coordinator is dead, and it does not know."""
        return any(c.is_dead and c.purpose is _COORDINATOR for c in self._by_connection)

    def send(
        self,
        purpose: Purpose,
        node_id: int,
        correlation_id: int,
        request: Any,
        timeout_ms: int | None = None,
    ) -> None:
        """Send a request to a broker, over a connection that is opened if need be.

        ``timeout_ms``: how long it may go without an answer; None: as long as any other;
        ``NEVER_MS``: until the process closes the connection.
        """
        if timeout_ms is None:
            timeout_ms = self._timeout_ms
        lines = self._to_coordinator if purpose is _COORDINATOR else self._to_any
        line = lines.get(node_id)
        if line is None:
            line = lines[node_id] = _BrokerConnection()
        connection = line.connection
        if connection is not None and connection.state is _OPEN:
            self._transmit(line, connection, correlation_id, request, timeout_ms)
            return
        if connection is None:
            if self._clock.now_ms < line.retry_at_ms:
                self._fail_soon(line, correlation_id)
                return
            self._open(line, purpose, node_id)
        line.waiting.append((correlation_id, request, timeout_ms))

    def send_to_any(self, correlation_id: int, request: Any) -> None:
        """Send a request to a broker that is likely to answer; if all are in backoff, wait for the
        first that is not."""
        node_id = self._least_loaded()
        now_ms = self._clock.now_ms
        retry_at_ms = self._to_any[node_id].retry_at_ms
        if self._to_any[node_id].connection is None and retry_at_ms > now_ms:
            waiting = (correlation_id, request)
            self._clock.call_at(retry_at_ms, self._tie_break(), self._on_backoff_over, waiting)
        else:
            self.send(Purpose.BOOTSTRAP, node_id, correlation_id, request)

    def _on_backoff_over(self, waiting: tuple[int, Any]) -> None:
        if not self._process.defers(self._on_backoff_over, waiting):
            self.send_to_any(*waiting)

    def _least_loaded(self) -> int:
        """The open connection with the fewest requests in flight, else one that is being set up,
        else the broker that may be tried again and was tried longest ago (client §2.4).

        Fetches are not sent over these connections, but tell: where the coordinator's connection
        has ended without an answer, a fetch has waited in vain as well.
        """
        count = len(self._network.servers)
        first = int(self._pick() * count)
        order = [(first + i) % count for i in range(count)]
        return min(order, key=self._load)

    def _load(self, node_id: int) -> tuple[int, int]:
        line = self._to_any.get(node_id)
        if line is None:
            line = self._to_any[node_id] = _BrokerConnection()
        connection = line.connection
        if connection is None:
            if line.retry_at_ms > self._clock.now_ms:
                return 4, line.retry_at_ms
            return 2, line.opened_ms
        if connection.state is ConnectionState.CONNECTING:
            return 1, 0
        beside = self._to_coordinator.get(node_id)
        if beside is not None and beside.is_silent:
            return 3, 0
        return 0, len(line.in_flight)

    def connect(self, node_id: int) -> None:
        """Open the connection to the coordinator ahead of requests; the process is notified."""
        line = self._to_coordinator.setdefault(node_id, _BrokerConnection())
        connection = line.connection
        if connection is None and self._clock.now_ms >= line.retry_at_ms:
            self._open(line, _COORDINATOR, node_id)
        elif connection is None or connection.state is _OPEN:
            is_open = connection is not None
            self._clock.call_at(self._clock.now_ms, self._tie_break(), self._on_known, is_open)

    def disconnect(self, node_id: int) -> None:
        """Close the connection to a coordinator; what was sent there is forgotten."""
        line = self._to_coordinator.get(node_id)
        if line is None:
            return
        line.failing.clear()
        if line.connection is None:
            return
        del self._by_connection[line.connection]
        self._note_end(line.connection)
        line.connection.close()
        line.connection = None
        line.is_silent = bool(line.in_flight)
        line.in_flight.clear()
        line.waiting.clear()

    def on_clock_stepped(self, step_ms: int) -> None:
        """The clock of timeouts and backoffs is set: all of them are over by so much
        sooner, or later."""
        for line in (*self._to_coordinator.values(), *self._to_any.values()):
            line.retry_at_ms -= step_ms
            line.in_flight = deque(
                (one, due_ms if due_ms >= NEVER_MS else due_ms - step_ms)
                for one, due_ms in line.in_flight
            )
            self._watch(line)

    def waits_shortly(self, most_ms: int) -> bool:
        """Whether no request has waited for longer, or for a connection."""
        newest_ms = self._clock.now_ms + self._timeout_ms - most_ms
        return all(
            not line.waiting and all(due_ms > newest_ms for _, due_ms in line.in_flight)
            for line in self._by_connection.values()
        )

    def close(self) -> None:
        """The process ends: its connections go with it."""
        for connection in list(self._by_connection):
            connection.close()
        self._by_connection.clear()

    def _open(self, line: _BrokerConnection, purpose: Purpose, node_id: int) -> None:
        connection = Connection(
            self._network,
            owner=self,
            client_name=self._process.name,
            broker=self._network.servers[node_id],
            purpose=purpose,
            rack=self._rack,
        )
        line.connection = connection
        line.opened_ms = self._clock.now_ms
        self._by_connection[connection] = line
        connection.open()

    # --- what a connection says -------------------------------------------------------------------

    def on_connected(self, connection: Connection) -> None:
        """Send what has waited."""
        if self._process.defers(self.on_connected, connection):
            return
        line = self._by_connection.get(connection)
        if line is None:  # closed while the process was paused
            return
        line.failures = 0
        line.is_silent = False
        waiting, line.waiting = line.waiting, []
        for correlation_id, request, timeout_ms in waiting:
            self._transmit(line, connection, correlation_id, request, timeout_ms)
        if self._is_watched(connection):
            self._process.on_coordinator_connected()

    def on_answer(self, connection: Connection, correlation_id: int, response: Any) -> None:
        """An answer has arrived; it belongs to the oldest request in flight."""
        if self._process.defers(self.on_answer, connection, correlation_id, response):
            return
        line = self._by_connection.get(connection)
        if line is None:  # closed while the process was paused
            return
        expected, _ = line.in_flight.popleft()
        if expected != correlation_id:
            raise RuntimeError(f"answer to {correlation_id} came when {expected} was due")
        self._process.on_answer(correlation_id, response)

    def on_closed(self, connection: Connection) -> None:
        """Everything in flight, or waiting, on this connection has failed."""
        if self._process.defers(self.on_closed, connection):
            return
        line = self._by_connection.pop(connection, None)
        if line is None:  # closed by the client itself while this waited
            return
        self._note_end(connection)
        line.connection = None
        line.is_silent = bool(line.in_flight)
        line.retry_at_ms = self._clock.now_ms + self._backoff_ms(line.failures)
        line.failures += 1
        lost = (*(sent[0] for sent in line.in_flight), *(item[0] for item in line.waiting))
        line.in_flight.clear()
        line.waiting.clear()
        if lost:
            self._process.on_lost(lost)
        if self._is_watched(connection):
            self._process.on_coordinator_closed(is_isolated=self._is_isolated)

    def _note_end(self, connection: Connection) -> None:
        if connection.is_dead and connection.purpose is _COORDINATOR:
            self._misled_until_ms = self._clock.now_ms

    def _on_known(self, is_open: bool) -> None:
        """The connection was there already, or cannot be opened yet."""
        if self._process.defers(self._on_known, is_open):
            return
        if is_open:
            self._process.on_coordinator_connected()
        else:
            self._process.on_coordinator_closed(is_isolated=self._is_isolated)

    def _is_watched(self, connection: Connection) -> bool:
        """Whether the member wants to know what becomes of this connection."""
        return connection.purpose is _COORDINATOR and self._process.watches_coordinator

    @property
    def _is_isolated(self) -> bool:
        """Whether no connection to any broker is open."""
        return all(c.state is not _OPEN for c in self._by_connection)

    # --- sending ----------------------------------------------------------------------------------

    def _transmit(
        self,
        line: _BrokerConnection,
        connection: Connection,
        correlation_id: int,
        request: Any,
        timeout_ms: int,
    ) -> None:
        due_ms = self._clock.now_ms + timeout_ms
        line.in_flight.append((correlation_id, due_ms))
        connection.send(correlation_id, request)
        if line.watchdog_ms is None or due_ms < line.watchdog_ms:
            self._watch(line)

    def _watch(self, line: _BrokerConnection) -> None:
        """One call at a time waits for the request that must be answered first."""
        if not line.in_flight:
            return
        at_ms = min([due_ms for _, due_ms in line.in_flight])
        if at_ms >= NEVER_MS:
            return
        if line.watchdog_ms is None or at_ms < line.watchdog_ms:
            line.watchdog_ms = at_ms
            self._clock.call_at(at_ms, self._tie_break(), self._on_watchdog, (line, at_ms))

    def _on_watchdog(self, watched: tuple[_BrokerConnection, int]) -> None:
        """One request that is late is enough: the connection goes, and all others with it."""
        if self._process.defers(self._on_watchdog, watched):
            return
        line, at_ms = watched
        if line.watchdog_ms != at_ms:
            return
        line.watchdog_ms = None
        connection = line.connection
        now_ms = self._clock.now_ms
        if connection is not None and any(due_ms <= now_ms for _, due_ms in line.in_flight):
            connection.give_up()
        self._watch(line)

    def _backoff_ms(self, failures: int) -> int:
        spec = self._network.spec
        nominal = min(spec.reconnect_backoff_max_ms, spec.reconnect_backoff_ms << min(failures, 10))
        factor = 1.0 + _BACKOFF_JITTER * (2.0 * self._draw() - 1.0)
        return min(spec.reconnect_backoff_max_ms, int(nominal * factor))

    def _fail_soon(self, line: _BrokerConnection, correlation_id: int) -> None:
        now_ms = self._clock.now_ms
        if line.fast_failures_ms != now_ms:
            line.fast_failures_ms, line.fast_failures = now_ms, 0
        line.fast_failures += 1
        at_ms = now_ms if line.fast_failures < _FAILURES_PER_MS else now_ms + 1
        line.failing.add(correlation_id)
        self._clock.call_at(at_ms, self._tie_break(), self._on_failed, (line, correlation_id))

    def _on_failed(self, failed: tuple[_BrokerConnection, int]) -> None:
        if self._process.defers(self._on_failed, failed):
            return
        line, correlation_id = failed
        if correlation_id in line.failing:
            line.failing.discard(correlation_id)
            self._process.on_lost((correlation_id,))
