"""Faults of brokers and of what lies between them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from rebalance_sim.protocol.hosting.error_answers import WriteError
from rebalance_sim.sim.broker.broker import Broker
from rebalance_sim.sim.broker.broker_requests import name_of_lines
from rebalance_sim.sim.broker.registration import PartitionRegistration
from rebalance_sim.sim.draw import Draw
from rebalance_sim.sim.faults.fault import End, Fault, Window, bound, drawn_by, drawn_from, size
from rebalance_sim.sim.faults.ports import FaultWorld
from rebalance_sim.sim.faults.targets import Targets
from rebalance_sim.sim.network.network import Direction


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerWindow(Window):
    """A fault that hits one broker for a while: one that is named, or the leader of a partition."""

    broker: int | None = None
    offsets_partition: int | None = field(default=None, metadata=bound(0))

    def __post_init__(self) -> None:
        Window.__post_init__(self)
        if self.broker is not None and self.offsets_partition is not None:
            raise ValueError("broker and offsets_partition exclude each other: one names a broker")

    def hit(self, world: FaultWorld) -> Broker | None:
        """The broker that is meant; None: no one leads the partition."""
        if self.broker is not None:
            return world.brokers[self.broker]
        return registration(world, self.offsets_partition).leader


def cut_off_from(world: FaultWorld, broker: Broker, others: Iterable[Broker]) -> End:
    """Between a broker and others no request of theirs passes, until what is returned is called."""
    names = {one.node_id: name_of_lines(one.node_id) for one in (broker, *others)}
    ways = [
        way
        for other in others
        if other is not broker
        for way in ((names[broker.node_id], other.node_id), (names[other.node_id], broker.node_id))
    ]
    for name, node_id in ways:
        world.network.block(name, node_id, Direction.BOTH)

    def end() -> None:
        for name, node_id in ways:
            world.network.unblock(name, node_id, Direction.BOTH)

    return end


def registration(world: FaultWorld, offsets_partition: int | None) -> PartitionRegistration:
    """What the controller has on record of a partition of ``__consumer_offsets``; None: of the one
    that holds the world's group."""
    if offsets_partition is None:
        offsets_partition = world.partition_of(world.default_group_id)
    return world.controller.partitions[offsets_partition]


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerCrash(BrokerWindow):
    """A broker process dies and starts again after ``duration_ms``; its disk survives.

    Its connections break. If it led, the controller notices after ``broker_session_timeout_ms``
    and in each partition that it led an in-sync follower takes over; what only the dead broker had
    is lost.
    """

    def begin(self, world: FaultWorld) -> End | bool:
        broker = self.hit(world)
        if broker is None or not broker.is_alive:
            return False
        broker.crash()

        def end() -> None:
            if not broker.is_alive:
                broker.restart()

        return end


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerHostLoss(BrokerWindow):
    """The host of a broker, or its zone, loses power or network, and starts again in the end.

    No one says a word: connections stay open at the clients until their requests time out, and new
    ones fail. What arrives when the host is back is answered with a reset.
    """

    def begin(self, world: FaultWorld) -> End | bool:
        broker = self.hit(world)
        if broker is None or not broker.is_alive:
            return False
        broker.crash(is_silent=True)
        names = world.network_names
        for name in names:
            world.network.block(name, broker.node_id, Direction.BOTH)
            world.data_plane.on_network_changed(name)

        def end() -> None:
            for name in names:
                world.network.unblock(name, broker.node_id, Direction.BOTH)
                world.data_plane.on_network_changed(name)
            if not broker.is_alive:
                broker.restart()

        return end


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerPause(BrokerWindow):
    """A broker process does not run at all: a long garbage collection, a suspended machine.

    Its kernel runs: connections are accepted, requests arrive and wait. The controller fences
    the broker after ``broker_session_timeout_ms``, and others lead. When it continues it does not
    know that: it serves what has waited, and its timers fire late, before it hears of its
    successors.
    """

    holds_up: ClassVar[bool] = True

    def begin(self, world: FaultWorld) -> End | bool:
        broker = self.hit(world)
        if broker is None or not broker.is_alive:
            return False
        incarnation = broker.incarnation
        is_over = False
        broker.pause_count += 1
        broker.cut_off_count += 1
        broker.isolation_count += 1

        def is_silent() -> bool:
            return not is_over and broker.incarnation == incarnation

        world.controller.fence_later(broker, if_silent=is_silent)
        _look_at_leaders(world)

        def end() -> None:
            nonlocal is_over
            is_over = True
            broker.cut_off_count -= 1
            broker.isolation_count -= 1
            if broker.incarnation == incarnation:
                broker.pause_count -= 1
                broker.wake_up()
            if broker.is_alive:
                world.controller.on_broker_in_touch(broker)
                broker.pump_both_ways()
            _look_at_leaders(world)

        return end


def _look_at_leaders(world: FaultWorld) -> None:
    """No one fetches from a broker that stands still."""
    for name in world.network_names:
        world.data_plane.on_network_changed(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerIsolation(BrokerWindow):
    """A broker cannot exchange replication traffic, or requests, with its peers; clients still
    reach it.

    At the leader the high watermark stands still, so answers are held. A follower falls out of
    the in-sync replicas after ``replica_lag_time_max_ms``; until then it holds the leader's high
    watermark back.
    """

    holds_up: ClassVar[bool] = True

    def begin(self, world: FaultWorld) -> End | bool:
        broker = self.hit(world)
        if broker is None:
            return False
        broker.isolation_count += 1
        reconnect = cut_off_from(world, broker, world.brokers)

        def end() -> None:
            broker.isolation_count -= 1
            reconnect()
            broker.pump_both_ways()

        return end


@dataclass(frozen=True, slots=True, kw_only=True)
class PartialPartition(BrokerWindow):
    """Between a broker and ``to_broker`` nothing passes, everything else does: a switch or a route
    is broken. ``to_broker`` None: the controller.

    A follower that cannot fetch holds the high watermark back until it falls out of the in-sync
    set after ``replica_lag_time_max_ms``; no one is fenced. A broker whose heartbeats do not reach
    the controller is fenced when its session runs out, and does not know: it continues as an
    outdated coordinator for all who reach it.
    """

    holds_up: ClassVar[bool] = True

    to_broker: int | None = field(
        default=None,
        metadata=drawn_by(
            lambda draw, _, targets, __: draw.pick((None, *range(targets.broker_count)))
        ),
    )

    def begin(self, world: FaultWorld) -> End | bool:
        broker = self.hit(world)
        if broker is None or not broker.is_alive or broker.node_id == self.to_broker:
            return False
        if self.to_broker is None:
            return _without_controller(world, broker)
        other = world.brokers[self.to_broker]
        broker.lost_peers.append(other.node_id)
        other.lost_peers.append(broker.node_id)
        reconnect = cut_off_from(world, broker, [other])

        def end() -> None:
            broker.lost_peers.remove(other.node_id)
            other.lost_peers.remove(broker.node_id)
            reconnect()
            broker.pump_both_ways()

        return end


def _without_controller(world: FaultWorld, broker: Broker) -> End:
    incarnation = broker.incarnation
    is_over = False
    broker.cut_off_count += 1

    def is_silent() -> bool:
        return not is_over and broker.is_alive and broker.incarnation == incarnation

    def end() -> None:
        nonlocal is_over
        is_over = True
        broker.cut_off_count -= 1
        if broker.is_alive:
            world.controller.on_broker_in_touch(broker)
            broker.pump_both_ways()

    world.controller.fence_later(broker, if_silent=is_silent)
    return end


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerMetadataLag(BrokerWindow):
    """What the controller decides in the window reaches one broker ``lag_ms`` later than usual.

    Brokers replay the metadata log each at its own pace, and a loader or a long queue of changes
    lets one lag by seconds. It continues leading where it leads no more, loads late where it was
    elected, names old coordinators, and has old topics and settings. It heartbeats all the same, so
    that no one fences it. At the end of the window it catches up.
    """

    lag_ms: int = field(metadata=size(0) | drawn_from(500, 5_000))

    def begin(self, world: FaultWorld) -> End | bool:
        broker = self.hit(world)
        if broker is None:
            return False
        broker.metadata_lags_ms.append(self.lag_ms)

        def end() -> None:
            broker.metadata_lags_ms.remove(self.lag_ms)
            world.controller.catch_up(broker)

        return end


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerOutage(Window):
    """No controller is active: the quorum has lost its majority, or cannot agree on a leader.

    No broker is elected, fenced or added to an in-sync set, no topic or setting changes, and no
    broker hears anything new; coordinators and clients continue with what they know. The controller
    that comes afterwards restarts the sessions of all brokers, and decides what has waited.
    """

    holds_up: ClassVar[bool] = True

    def begin(self, world: FaultWorld) -> End | bool:
        world.controller.go_down()
        return world.controller.come_back


CONTROLLED_SHUTDOWN_MS = 100
"""How long a broker stays up after its leadership has been taken away, to let that be known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerBounce(Fault):
    """A rolling restart of all brokers in ascending id, each by controlled shutdown.

    Each hands its leadership over, is down for ``down_ms``, and the next follows ``gap_ms`` after
    it is back.
    """

    down_ms: int = field(metadata=size(1))
    gap_ms: int = field(default=0, metadata=size(0))

    def begin(self, world: FaultWorld) -> End | bool:
        self._next(world, 0)
        return True

    def _next(self, world: FaultWorld, node_id: int) -> None:
        """Shut one broker down in a controlled way; the next one follows."""
        if node_id >= len(world.brokers):
            return
        broker = world.brokers[node_id]

        def stop() -> None:
            if broker.is_alive:
                broker.crash()

        def start() -> None:
            if not broker.is_alive:
                broker.restart()

        if broker.is_alive:
            broker.is_stopping = True
            world.controller.fence(broker)
        back_ms = CONTROLLED_SHUTDOWN_MS + self.down_ms
        world.later(CONTROLLED_SHUTDOWN_MS, stop)
        world.later(back_ms, start)
        world.later(back_ms + self.gap_ms, lambda: self._next(world, node_id + 1))


_ERRORS = (WriteError.STORAGE, WriteError.NOT_ENOUGH_REPLICAS)


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendFailure(BrokerWindow):
    """A broker refuses to write where it leads: its disk is full, or it wants more replicas in
    sync.

    A batch fails as a whole, and with it all requests that it was written for; what needs no write
    continues. ``error`` says which of the two it is: clients look for another coordinator, or wait
    for this one. A coordinator of 4.3.1 writes with ``acks=1``, which too few replicas do not
    refuse (``BrokerSpec.min_insync_replicas`` is how it really goes); that error is what one would
    report that is configured or patched to. What a broker gets from another leader it writes.
    """

    holds_up: ClassVar[bool] = True

    error: WriteError = field(
        default=WriteError.STORAGE, metadata=drawn_by(lambda draw, *_: draw.pick(_ERRORS))
    )

    def __post_init__(self) -> None:
        BrokerWindow.__post_init__(self)
        if self.error not in _ERRORS:
            known = ", ".join(error.value for error in _ERRORS)
            raise ValueError(f"error must be one of {known}, got {self.error.value}")

    def begin(self, world: FaultWorld) -> End | bool:
        broker = self.hit(world)
        if broker is None:
            return False
        broker.append_errors.append(self.error)
        return lambda: broker.append_errors.remove(self.error)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationSlowdown(Window):
    """Replication takes ``factor`` times as long: followers with busy disks or a full link."""

    factor: int = field(metadata=size(2) | drawn_from(2, 10))

    def begin(self, world: FaultWorld) -> End | bool:
        world.replication_factor *= self.factor

        def end() -> None:
            world.replication_factor //= self.factor
            for broker in world.brokers:
                for replica in broker.replicas:
                    replica.replication.fetch_anew()

        return end


_CLIENT_SHARE = 0.5
_BACK_SHARE = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockStep(Fault):
    """The wall clock of the host of a client, or of a broker, is set by ``step_ms``: forward, or
    back where that is negative. It stays so.

    A time server, an administrator, or a virtual machine that is moved. A broker's timers are
    monotonic (``SystemTimer``): sessions and rebalances last as long as ever. What goes into
    records is wall time, and what is compared with it: when offsets were committed and expire, when
    patterns were resolved and topics looked at, and when the last target was computed, also by
    another broker. The Java clients time everything by it: after a step forward heartbeats,
    timeouts and the poll interval are over at once, after a step back nothing is due for so long.
    librdkafka uses a monotonic clock, and notices nothing.
    """

    step_ms: int = field(metadata=drawn_from(500, 20_000))
    client: str | None = None
    broker: int | None = None
    offsets_partition: int | None = field(default=None, metadata=bound(0))

    def __post_init__(self) -> None:
        Fault.__post_init__(self)
        if not self.step_ms:
            raise ValueError("step_ms must not be 0")
        named = (self.client, self.broker, self.offsets_partition)
        if sum(one is not None for one in named) > 1:
            raise ValueError("client, broker and offsets_partition exclude each other")

    @property
    def after_effect_ms(self) -> int:
        """What reads a clock that was set back waits for so long; so does a coordinator whose
        predecessor's clock was ahead."""
        return abs(self.step_ms)

    def begin(self, world: FaultWorld) -> End | bool:
        if self.client is not None:
            return world.client_processes.step_clock(self.client, self.step_ms)
        if self.broker is not None:
            broker = world.brokers[self.broker]
        else:
            leader = registration(world, self.offsets_partition).leader
            if leader is None:
                return False
            broker = leader
        broker.step_clock(self.step_ms)
        return True

    def simpler(self, topics: tuple[str, ...]) -> Iterator[Self]:
        """By less, in the same direction."""
        yield from Fault.simpler(self, topics)
        half_ms = int(self.step_ms / 2)
        if abs(half_ms) >= 100:
            yield self.changed(step_ms=half_ms)

    @classmethod
    def drawn(cls, draw: Draw, rule: Any, targets: Targets, at_ms: int) -> Iterator[Fault]:
        step_ms = draw.between(rule.step_ms) * (-1 if draw.chance(_BACK_SHARE) else 1)
        if draw.chance(_CLIENT_SHARE):
            yield cls(at_ms=at_ms, step_ms=step_ms, client=targets.client(draw).name)
            return
        broker = targets.broker(draw)
        yield cls(
            at_ms=at_ms,
            step_ms=step_ms,
            broker=broker,
            offsets_partition=targets.offsets_partition(draw, broker=broker),
        )
