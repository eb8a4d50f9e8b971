"""Faults of what lies between clients and brokers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, ClassVar, Self

from rebalance_sim.protocol.wire.classic_messages import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from rebalance_sim.protocol.wire.consumer_messages import ConsumerGroupHeartbeatRequest
from rebalance_sim.protocol.wire.offset_messages import OffsetCommitRequest, OffsetFetchRequest
from rebalance_sim.sim.broker.broker import Throttle
from rebalance_sim.sim.draw import Draw
from rebalance_sim.sim.faults.clients import ClientWindow
from rebalance_sim.sim.faults.fault import End, Fault, Window, drawn_by, drawn_from, size
from rebalance_sim.sim.faults.ports import DrawRule, FaultWorld
from rebalance_sim.sim.faults.targets import Targets
from rebalance_sim.sim.network.link import Moment
from rebalance_sim.sim.network.network import Direction


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientPartition(ClientWindow):
    """No packets pass between a client and a broker (None: any broker), one way or both.

    A failed switch or firewall rule. Nothing is lost at once: TCP holds the bytes, requests time
    out after ``request_timeout_ms``, and new connections fail.
    """

    reaches_admin: ClassVar[bool] = True

    broker: int | None = None
    direction: Direction = field(
        default=Direction.BOTH,
        metadata=drawn_by(lambda draw, *_: draw.pick((Direction.BOTH, *Direction))),
    )

    def begin(self, world: FaultWorld) -> End | bool:
        where = (self.client, self.broker, self.direction)
        world.network.block(*where)
        world.data_plane.on_network_changed(self.client)

        def end() -> None:
            world.network.unblock(*where)
            world.data_plane.on_network_changed(self.client)

        return end


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionBlackhole(ClientWindow):
    """Nothing passes on the open connections of a client to its coordinator any more, without
    any notice; new connections work.

    A firewall or load balancer has forgotten the flow. The client notices when a request times
    out. At the end such a connection is reset when it is used.
    """

    def begin(self, world: FaultWorld) -> End | bool:
        swallowed = world.network.swallow_coordinator_connections(self.client)
        if not swallowed:
            return False

        def end() -> None:
            for connection in swallowed:
                connection.discard()

        return end


class RequestKind(Enum):
    """What a request is for, in either protocol."""

    JOIN = "join"
    HEARTBEAT = "heartbeat"
    SYNC = "sync"
    LEAVE = "leave"
    COMMIT = "commit"
    OFFSET_FETCH = "offset_fetch"


def kind_of_request(request: Any) -> RequestKind | None:
    """What a request is for; None for what is none of these."""
    if isinstance(request, ConsumerGroupHeartbeatRequest):
        if request.member_epoch == 0:
            return RequestKind.JOIN
        return RequestKind.LEAVE if request.member_epoch < 0 else RequestKind.HEARTBEAT
    return _KINDS.get(type(request))


_KINDS: dict[type, RequestKind] = {
    JoinGroupRequest: RequestKind.JOIN,
    HeartbeatRequest: RequestKind.HEARTBEAT,
    SyncGroupRequest: RequestKind.SYNC,
    LeaveGroupRequest: RequestKind.LEAVE,
    OffsetCommitRequest: RequestKind.COMMIT,
    OffsetFetchRequest: RequestKind.OFFSET_FETCH,
}

_CHOSEN_SHARE = 0.5
"""How many losses wait for a request of a certain kind, where they wait for a request at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLoss(Fault):
    """A TCP reset on the connection between a client and its coordinator.

    A NAT box or load balancer drops the flow, or the broker closes an idle connection. All requests
    in flight on it fail at the client; the client connects again.

    ``request``, with a ``moment`` that waits for a message: only a request of this kind, or its
    answer, will do.
    """

    reaches_admin: ClassVar[bool] = True

    client: str
    moment: Moment = Moment.NOW
    request: RequestKind | None = None

    def __post_init__(self) -> None:
        Fault.__post_init__(self)
        if self.request is not None and self.moment is Moment.NOW:
            raise ValueError("request needs a moment: before_request, or before_response")

    def begin(self, world: FaultWorld) -> End | bool:
        if self.moment is Moment.NOW:
            return world.network.break_coordinator_connection(self.client)
        awaited = self.request
        world.network.link(self.client).break_at(
            self.moment,
            None if awaited is None else lambda request: kind_of_request(request) is awaited,
        )
        return True

    def simpler(self, topics: tuple[str, ...]) -> Iterator[Self]:
        """Any request will do."""
        if self.request is not None:
            yield replace(self, request=None)

    @classmethod
    def drawn(cls, draw: Draw, rule: DrawRule, targets: Targets, at_ms: int) -> Iterator[Fault]:
        client = targets.client(draw).name
        moment = draw.pick(tuple(Moment))
        # Drawn in any case: what a loss waits for shifts nothing else.
        is_chosen, kind = draw.chance(_CHOSEN_SHARE), draw.pick(tuple(RequestKind))
        chosen = kind if is_chosen and moment is not Moment.NOW else None
        yield cls(at_ms=at_ms, client=client, moment=moment, request=chosen)


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkSlowdown(Window):
    """Every latency is multiplied: a congested link.

    ``client`` None means all clients, ``broker`` None all brokers. Between brokers nothing changes.
    """

    reaches_admin: ClassVar[bool] = True

    factor: int = field(metadata=size(2) | drawn_from(2, 10))
    client: str | None = None
    broker: int | None = None

    def begin(self, world: FaultWorld) -> End | bool:
        names = world.network_names if self.client is None else (self.client,)
        for name in names:
            world.network.link(name).slow_down(self.factor, self.broker)
            world.data_plane.on_network_changed(name)

        def end() -> None:
            for name in names:
                world.network.link(name).speed_up(self.factor, self.broker)
                world.data_plane.on_network_changed(name)

        return end

    @classmethod
    def drawn(cls, draw: Draw, rule: Any, targets: Targets, at_ms: int) -> Iterator[Fault]:
        everybody = draw.chance(0.5)
        yield cls(
            at_ms=at_ms,
            duration_ms=draw.between(rule.duration_ms),
            factor=draw.between(rule.factor),
            client=None if everybody else targets.client(draw).name,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestQuota(Window):
    """Brokers throttle clients that are over their ``request_percentage``: after each request a
    connection is not read for ``throttle_ms``.

    Since KIP-219 the answer itself is not delayed. It carries ``throttle_time_ms``, for which the
    broker mutes the connection, and a client that knows of it keeps its next request back. Here
    that request waits at the broker, which it reaches no earlier or later, but its own timeout runs
    meanwhile. ``clients`` empty: all; ``broker`` None: every broker, each by itself.
    """

    throttle_ms: int = field(metadata=size(0) | drawn_from(100, 3_000))
    clients: tuple[str, ...] = ()
    broker: int | None = None

    def begin(self, world: FaultWorld) -> End | bool:
        brokers = world.brokers if self.broker is None else (world.brokers[self.broker],)
        throttle = Throttle(self.clients, self.throttle_ms)
        for broker in brokers:
            broker.throttles.append(throttle)

        def end() -> None:
            for broker in brokers:
                broker.end_throttle(throttle)

        return end

    @classmethod
    def drawn(cls, draw: Draw, rule: Any, targets: Targets, at_ms: int) -> Iterator[Fault]:
        duration_ms, throttle_ms = draw.between(rule.duration_ms), draw.between(rule.throttle_ms)
        names = tuple(client.name for client in targets.clients)
        clients = tuple(draw.some(names, 0.5)) if draw.chance(0.5) else ()
        yield cls(
            at_ms=at_ms,
            duration_ms=duration_ms,
            throttle_ms=throttle_ms,
            clients=clients,
            broker=targets.broker(draw),
        )
