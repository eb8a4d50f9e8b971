"""TCP connections between clients and brokers.

A connection carries bytes in order, one direction at a time, and neither doubles nor reorders them.
What can go wrong is that it breaks (``reset``), that it cannot be set up, and that packets do not
pass for a while: then TCP holds the bytes. Reordering happens across connections only.

A broker handles one request of a connection at a time and answers in order, so a held answer holds
those behind it (client §2.4).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, Protocol

from rebalance_sim.sim.clock import Clock
from rebalance_sim.sim.network.link import Link
from rebalance_sim.sim.network.network_spec import NetworkSpec
from rebalance_sim.sim.network.pipe import (
    HANDSHAKE_RETRANSMISSION_MS,
    Pipe,
    retransmission_at_ms,
)
from rebalance_sim.sim.streams import Streams

ADMIN = "admin"
"""Name of the administrators' clients: no other client of a world that has them may have it."""


class ConnectionState(Enum):
    """Life of a connection, as its client sees it."""

    CONNECTING = "connecting"
    OPEN = "open"
    CLOSED = "closed"


class Purpose(Enum):
    """A client keeps its coordinator apart from everything else it asks of the same broker."""

    COORDINATOR = "coordinator"
    BOOTSTRAP = "bootstrap"


class Direction(Enum):
    """Which way no bytes get through."""

    BOTH = "both"
    TO_BROKER = "to_broker"
    TO_CLIENT = "to_client"


class Server(Protocol):
    """A broker, as connections have it."""

    @property
    def node_id(self) -> int:
        """Its number, from 0 on."""

    @property
    def is_alive(self) -> bool:
        """Whether its process runs."""

    @property
    def connections(self) -> dict[Any, None]:
        """The connections that are open to it, oldest first."""

    def on_request(self, connection: Any, correlation_id: int, request: Any) -> None:
        """Answer a request on its connection, now or later."""


class ConnectionOwner(Protocol):
    """What a connection asks of the client process that opened it."""

    def on_connected(self, connection: Connection) -> None:
        """The connection is open."""

    def on_answer(self, connection: Connection, correlation_id: int, response: Any) -> None:
        """An answer has arrived."""

    def on_closed(self, connection: Connection) -> None:
        """The connection is gone, or was never established."""


class _Packet(Enum):
    """What travels behind the last message of a direction."""

    FIN = "fin"
    """The client has closed: the broker reads it after all that was sent before."""
    RESET = "reset"
    """The sender has no such connection any more."""


# Members of enums that every event asks for: to look one up takes as long as a call.
_CLOSED = ConnectionState.CLOSED
_RESET = _Packet.RESET


class Connection:
    """A connection from one client process, in this rack if it says one, to one broker."""

    __slots__ = (
        "_down",
        "_extra_ms",
        "_held_since_ms",
        "_link",
        "_may_be_cut",
        "_network",
        "_up",
        "broker",
        "client_name",
        "inbox",
        "is_at_end",
        "is_broken",
        "is_busy",
        "is_dead",
        "is_served",
        "is_swallowed",
        "owner",
        "purpose",
        "state",
    )

    def __init__(
        self,
        network: Network,
        *,
        owner: ConnectionOwner,
        client_name: str,
        broker: Server,
        purpose: Purpose,
        rack: str = "",
    ) -> None:
        self._network = network
        self._link = network.link(client_name)
        self._extra_ms = extra_ms = network.extra_ms(rack, broker.node_id)
        node_id = broker.node_id
        self._up = Pipe(
            network.clock, self._link, self._on_request, node_id=node_id, extra_ms=extra_ms
        )
        self._down = Pipe(
            network.clock, self._link, self._on_answer, node_id=node_id, extra_ms=extra_ms
        )
        self._held_since_ms: int | None = None  # a handshake that does not get through
        self.owner = owner
        self.client_name = client_name
        self.broker = broker
        self.purpose = purpose
        self.state = ConnectionState.CONNECTING
        self.inbox: deque[tuple[int, Any]] = deque()
        self.is_busy = False
        self.is_served = False
        self.is_at_end = False  # nothing comes behind what is in the inbox
        self.is_broken = False  # the next answer cannot be written
        self.is_dead = False  # no answers, and the client does not know
        self.is_swallowed = False  # nothing passes on it any more, whatever others do
        self._may_be_cut = purpose is Purpose.COORDINATOR

    # --- the client's side ------------------------------------------------------------------------

    def open(self) -> None:
        """Begin to set the connection up; the owner hears how that ends.

        A handshake that a partition holds, or that crawls, is given up in time.
        """
        self._network.add(self)
        self._handshake()
        wait_ms = self._network.spec.connect_timeout_ms
        self._network.call_later(wait_ms, self._link, self._on_connect_timeout)

    def send(self, correlation_id: int, request: Any) -> None:
        """Send a request. Only on an open connection."""
        self._up.send((correlation_id, request))

    def close(self) -> None:
        """The client closes, or its process ends: its kernel still delivers what was sent before.

        The broker handles that, and notices the end when it has read all of it, or when it cannot
        write an answer: the first one that arrives here is met with a reset.
        """
        was_open = self.state is ConnectionState.OPEN
        self.state = _CLOSED
        if was_open and self.is_served:
            self._up.close(_Packet.FIN)
        else:
            self._network.remove(self)

    def give_up(self) -> None:
        """Close, and let the owner know."""
        if self.state is not _CLOSED:
            self.close()
            self.owner.on_closed(self)

    def _handshake(self, wait_ms: int = 0) -> None:
        link, way = self._link, (self._extra_ms, self.broker.node_id)
        delay_ms = wait_ms + link.delay_ms(*way) + link.delay_ms(*way)
        self._network.call_later(delay_ms, link, self._on_handshake)

    def _on_handshake(self, _: None) -> None:
        if self.state is not ConnectionState.CONNECTING:
            return
        if self._up.blocked or self._down.blocked:
            if self._held_since_ms is None:
                self._held_since_ms = self._network.clock.now_ms
            return
        if not self.broker.is_alive:
            self.reset()
            return
        self.state = ConnectionState.OPEN
        self.is_served = True
        self.broker.connections[self] = None
        self.owner.on_connected(self)

    def _on_connect_timeout(self, _: None) -> None:
        if self.state is ConnectionState.CONNECTING:
            self.reset()

    def _on_answer(self, message: Any) -> None:
        if self.state is _CLOSED:
            if self.is_served:
                self._up.send(_RESET)
            return
        if message is _RESET:
            self.reset()
            return
        correlation_id, response = message
        link = self._link
        if link.cut is not None and self._may_be_cut and link.is_cut_at_answer(correlation_id):
            self.reset()
            return
        self.owner.on_answer(self, correlation_id, response)

    # --- the broker's side ------------------------------------------------------------------------

    def _on_request(self, message: Any) -> None:
        if not self.is_served:
            self._refuse()
            return
        if type(message) is _Packet:
            self._on_end(message)
            return
        link = self._link
        if link.cut is not None and self._may_be_cut and link.is_cut_at_request(*message):
            self.reset()
            return
        if self.is_busy:
            self.inbox.append(message)
            return
        self.is_busy = True
        correlation_id, request = message
        self.broker.on_request(self, correlation_id, request)

    def answer(self, correlation_id: int, response: Any) -> None:
        """Send the answer to the request in hand, and take the next one up."""
        if not self.is_served:
            return
        if self.is_broken:
            self._drop_broker_side()
            return
        self._down.send((correlation_id, response))
        if self.inbox:
            self.broker.on_request(self, *self.inbox.popleft())
            return
        self.is_busy = False
        if self.is_at_end:
            self._drop_broker_side()

    def _refuse(self) -> None:
        """A packet for a process that is gone; a host that is there says so."""
        if self.state is _CLOSED:
            self._network.remove(self)
        elif self.broker.is_alive:
            self._down.send(_RESET)

    def _on_end(self, packet: _Packet) -> None:
        """A broker that has a request in hand does not read: it notices afterwards."""
        if not self.is_busy:
            self._drop_broker_side()
        elif packet is _Packet.FIN:
            self.is_at_end = True
        else:
            self.is_broken = True

    def abandon(self, *, is_silent: bool = False) -> None:
        """The broker dies; its kernel notifies the client, or, if its host is lost as well, only
        the next packet that arrives there when it is back."""
        self._drop_broker_side()
        if is_silent:
            self.is_dead = True
            self._down.clear()
        else:
            self._down.send(_RESET)

    def _drop_broker_side(self) -> None:
        self.is_served = False
        self.is_busy = False
        self.inbox.clear()
        self.broker.connections.pop(self, None)
        if self.state is _CLOSED:
            self._network.remove(self)

    # --- both -------------------------------------------------------------------------------------

    def reset(self) -> None:
        """Break the connection: what is on its way is lost, and both sides know."""
        if self.state is _CLOSED:
            return
        self.state = _CLOSED
        self._up.clear()
        self._down.clear()
        self._drop_broker_side()
        self.owner.on_closed(self)

    def swallow(self) -> None:
        """Nothing passes on this connection any more, and no one learns it."""
        self.set_blocked(up=True, down=True)
        self.is_dead = self.is_swallowed = True

    def discard(self) -> None:
        """Both ends forget the connection; the client learns of it if it still uses it."""
        if self.state is not _CLOSED:
            self.reset()
        elif self.is_served:
            self._up.clear()
            self._down.clear()
            self._drop_broker_side()

    def set_blocked(self, *, up: bool, down: bool) -> None:
        """Say in which directions packets pass."""
        if self.is_swallowed:
            return
        if up != self._up.blocked:
            self._up.set_blocked(up)
        if down != self._down.blocked:
            self._down.set_blocked(down)
        if self._held_since_ms is not None and not (up or down):
            now_ms = self._network.clock.now_ms
            again_ms = retransmission_at_ms(
                self._held_since_ms, now_ms, HANDSHAKE_RETRANSMISSION_MS
            )
            self._held_since_ms = None
            self._handshake(again_ms - now_ms)


class Network:
    """Latencies, partitions, and every connection that is not closed.

    ``servers`` are the brokers by node id, to be set once, before anything happens; ``racks`` are
    those that they are in by turns.
    """

    def __init__(self, clock: Clock, spec: NetworkSpec, streams: Streams) -> None:
        self.clock = clock
        self.spec = spec
        self.streams = streams
        self.servers: Sequence[Server] = ()
        self.racks: Sequence[str] = ()
        self._links: dict[str, Link] = {}
        self._connections: dict[str, dict[Connection, None]] = {}
        self._blocks: list[tuple[str, int | None, Direction]] = []

    def link(self, client_name: str) -> Link:
        """What the connections of a client share."""
        link = self._links.get(client_name)
        if link is None:
            link = self._links[client_name] = Link(self.spec, self.streams, client_name)
        return link

    def extra_ms(self, rack: str, node_id: int) -> int:
        """What the way between this rack and a broker adds to the latency, one way."""
        if not rack or not self.racks or self.racks[node_id % len(self.racks)] == rack:
            return 0
        return self.spec.between_racks_ms

    def call_later(self, delay_ms: int, link: Link, function: Callable[[None], None]) -> None:
        """Let the clock call ``function``."""
        self.clock.call_at(self.clock.now_ms + delay_ms, link.tie_break(), function)

    def connections_of(self, client_name: str) -> list[Connection]:
        """The connections of a client, oldest first."""
        return list(self._connections.get(client_name, ()))

    def add(self, connection: Connection) -> None:
        """Enter a new connection, subject to the partitions in force."""
        self._connections.setdefault(connection.client_name, {})[connection] = None
        self._apply_blocks(connection)

    def remove(self, connection: Connection) -> None:
        """Forget a closed connection."""
        self._connections[connection.client_name].pop(connection, None)

    # --- faults -----------------------------------------------------------------------------------

    def block(self, client_name: str, node_id: int | None, direction: Direction) -> None:
        """Begin a partition between a client and one broker, or all."""
        self._blocks.append((client_name, node_id, direction))
        self._apply_blocks_of(client_name)

    def unblock(self, client_name: str, node_id: int | None, direction: Direction) -> None:
        """End a partition that ``block`` began."""
        self._blocks.remove((client_name, node_id, direction))
        self._apply_blocks_of(client_name)

    def is_blocked(self, client_name: str, broker_id: int) -> bool:
        """Whether no request of a client to a broker can be answered."""
        return any(self._blocked_ways(client_name, broker_id))

    def swallow_coordinator_connections(self, client_name: str) -> list[Connection]:
        """Let the open connections of a client to its coordinator die silently: which these are."""
        found = [
            connection
            for connection in self.connections_of(client_name)
            if connection.purpose is Purpose.COORDINATOR
            and connection.state is ConnectionState.OPEN
        ]
        for connection in found:
            connection.swallow()
        return found

    def break_coordinator_connection(self, client_name: str) -> bool:
        """Reset the open connections of a client to its coordinator; False if there is none."""
        found = [
            connection
            for connection in self.connections_of(client_name)
            if connection.purpose is Purpose.COORDINATOR and connection.state is not _CLOSED
        ]
        for connection in found:
            connection.reset()
        return bool(found)

    def _apply_blocks_of(self, client_name: str) -> None:
        for connection in self.connections_of(client_name):
            self._apply_blocks(connection)

    def _apply_blocks(self, connection: Connection) -> None:
        up, down = self._blocked_ways(connection.client_name, connection.broker.node_id)
        connection.set_blocked(up=up, down=down)

    def _blocked_ways(self, client_name: str, broker_id: int) -> tuple[bool, bool]:
        """Whether nothing passes to the broker, and to the client."""
        up = down = False
        for name, node_id, direction in self._blocks:
            if name == client_name and node_id in (None, broker_id):
                up = up or direction is not Direction.TO_CLIENT
                down = down or direction is not Direction.TO_BROKER
        return up, down
