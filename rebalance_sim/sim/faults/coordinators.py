"""Faults of coordinators and of their logs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

from rebalance_sim.sim.broker.broker import Broker
from rebalance_sim.sim.draw import Draw
from rebalance_sim.sim.faults.brokers import BrokerHostLoss, cut_off_from, registration
from rebalance_sim.sim.faults.fault import End, Fault, Window, bound, drawn_by, drawn_from, size
from rebalance_sim.sim.faults.ports import DrawRule, FaultWorld
from rebalance_sim.sim.faults.targets import Targets


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorMove(Fault):
    """Leadership of an offsets partition moves: preferred-replica election or reassignment.

    ``to_broker`` None picks the next live in-sync follower. ``keeps_tail`` says whether the new
    leader had fetched the records that were not committed yet; otherwise they are lost. With
    ``transaction_state_partition`` it is one of ``__transaction_state``.
    """

    to_broker: int | None = None
    keeps_tail: bool = field(default=True, metadata=drawn_by(lambda draw, *_: draw.chance(0.5)))
    offsets_partition: int | None = field(default=None, metadata=bound(0))
    transaction_state_partition: int | None = field(default=None, metadata=bound(0))

    def __post_init__(self) -> None:
        Fault.__post_init__(self)
        if None not in (self.offsets_partition, self.transaction_state_partition):
            raise ValueError(
                "offsets_partition and transaction_state_partition exclude each other: "
                "leave one out"
            )

    def begin(self, world: FaultWorld) -> End | bool:
        if self.transaction_state_partition is None:
            partition = registration(world, self.offsets_partition)
        else:
            number = len(world.brokers[0].group_shards) + self.transaction_state_partition
            partition = world.controller.partitions[number]
        old = partition.leading_replica
        if self.to_broker is None:
            broker = partition.successor()
        else:
            broker = world.brokers[self.to_broker]
            if not partition.may_lead(broker):
                return False
        if old is None or broker is None or broker is old.broker:
            return False
        new = broker.replicas[partition.partition]
        if self.keeps_tail:
            old.replication.hand_over(new)
        else:
            new.tail_cut_epoch = partition.leader_epoch + 1
        world.controller.move(partition.partition, broker)
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorStall(Window):
    """The thread that handles an offsets partition at its leader is busy with something else: an
    assignor with a huge group, another partition of the same thread, a slow append.

    One thread handles all events of a partition, one after another (coordinator §9.4). Requests,
    timers that are due, metadata and the end of a load queue up; connections, replication and other
    partitions continue. Afterwards the high watermark comes first, and the rest in its order: a
    heartbeat that arrived before its member's session ran out still counts. A broker that leads no
    more resigns at once here.
    """

    holds_up: ClassVar[bool] = True

    offsets_partition: int | None = field(default=None, metadata=bound(0))

    def begin(self, world: FaultWorld) -> End | bool:
        partition = registration(world, self.offsets_partition)
        replica = partition.leading_replica
        leader = partition.leader
        if replica is None or leader is None or not leader.is_alive:
            return False
        incarnation = leader.incarnation
        replica.shard.stall()

        def end() -> None:
            if leader.incarnation == incarnation:
                replica.shard.resume()

        return end


@dataclass(frozen=True, slots=True, kw_only=True)
class ZombieLeader(Window):
    """The leader of an offsets partition is cut off from controller and peers, not from clients.

    In each partition that it led, another broker is elected at once. Until the end of the window
    the old one does not know: it still calls itself the coordinator, its appends never commit, and
    requests without records are answered.
    """

    holds_up: ClassVar[bool] = True

    offsets_partition: int | None = field(default=None, metadata=bound(0))

    def begin(self, world: FaultWorld) -> End | bool:
        partition = registration(world, self.offsets_partition)
        old, new = partition.leader, partition.successor()
        if old is None or new is None or not old.is_alive:
            return False
        old.cut_off_count += 1
        old.isolation_count += 1
        reconnect = cut_off_from(world, old, world.brokers)
        world.controller.fence(old)

        def end() -> None:
            old.cut_off_count -= 1
            old.isolation_count -= 1
            reconnect()
            if old.is_alive:
                world.controller.on_broker_up(old)
                old.pump_both_ways()

        return end


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowLoad(Window):
    """A load of an offsets partition that begins in the window takes ``load_ms``.

    A new coordinator reads its whole partition before it serves anybody (coordinator §9.5): seconds
    to minutes where the log is large, not compacted yet, or on a busy disk. All that time it
    answers COORDINATOR_LOAD_IN_PROGRESS. ``broker`` None: whichever broker loads. At the end of the
    window the rest of a load takes no longer than usual.
    """

    load_ms: int = field(metadata=size(0) | drawn_from(2_000, 60_000))
    broker: int | None = None

    def begin(self, world: FaultWorld) -> End | bool:
        brokers = world.brokers if self.broker is None else (world.brokers[self.broker],)
        for broker in brokers:
            broker.slow_loads_ms.append(self.load_ms)

        def end() -> None:
            for broker in brokers:
                broker.slow_loads_ms.remove(self.load_ms)
                for shard in broker.shards:
                    shard.hurry_load()

        return end

    @classmethod
    def drawn(cls, draw: Draw, rule: Any, targets: Targets, at_ms: int) -> Iterator[Fault]:
        yield cls(
            at_ms=at_ms,
            duration_ms=draw.between(rule.duration_ms),
            broker=targets.broker(draw),
            load_ms=draw.between(rule.load_ms),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCompaction(Fault):
    """The log cleaner of a broker drops committed records whose key comes again later.

    It has come ``cleaned_percent`` of the way through the log; what it has not reached is still as
    it was written. ``drops_tombstones``: those that every replica has are older than
    ``delete.retention.ms``. ``broker`` None means every broker, ``offsets_partition`` None every
    partition.
    """

    broker: int | None = None
    cleaned_percent: int = 100
    drops_tombstones: bool = False
    offsets_partition: int | None = field(default=None, metadata=bound(0))

    def __post_init__(self) -> None:
        Fault.__post_init__(self)
        if not 1 <= self.cleaned_percent <= 100:
            raise ValueError(f"cleaned_percent must lie in [1, 100], got {self.cleaned_percent}")

    def begin(self, world: FaultWorld) -> End | bool:
        brokers = world.brokers
        chosen = brokers if self.broker is None else [brokers[self.broker]]
        if self.offsets_partition is None:
            partitions = range(len(world.controller.partitions))
        else:
            partitions = range(self.offsets_partition, self.offsets_partition + 1)
        dropped = 0
        for partition in partitions:
            for broker in chosen:
                replica = broker.replicas[partition]
                dropped += replica.compact(
                    replica.log.high_watermark * self.cleaned_percent // 100,
                    drops_tombstones=self.drops_tombstones,
                )
        return dropped > 0

    @classmethod
    def drawn(cls, draw: Draw, rule: DrawRule, targets: Targets, at_ms: int) -> Iterator[Fault]:
        yield cls(
            at_ms=at_ms,
            broker=targets.broker(draw),
            cleaned_percent=draw.pick((100, 100, 30, 70)),
            drops_tombstones=draw.chance(0.4),
            offsets_partition=targets.offsets_partition(draw),
        )


LOST_BATCHES = drawn_by(lambda draw, *_: draw.between((1, 20)))


@dataclass(frozen=True, slots=True, kw_only=True)
class LogTailLoss(BrokerHostLoss):
    """The host of a broker is lost, and what was not flushed yet: the last ``lost_batches`` of each
    log are gone when it is back.

    Kafka acknowledges without fsync, and relies on the other replicas. Where others were in sync,
    they have everything, and the broker fetches it from them: it is in sync again only then
    (KIP-966). Where it was the last one in sync it leads again, and committed records are lost.
    """

    may_lose_committed: ClassVar[bool] = True

    lost_batches: int = field(metadata=size(1) | LOST_BATCHES)

    def begin(self, world: FaultWorld) -> End | bool:
        broker = self.hit(world)
        end = BrokerHostLoss.begin(self, world)
        if broker is None or not callable(end):
            return end
        broker.has_lost_tail = True
        for replica in broker.replicas:
            replica.lose_tail(self.lost_batches)
        return end


@dataclass(frozen=True, slots=True, kw_only=True)
class UncleanElection(Window):
    """The leader of an offsets partition dies as the only one in sync, and a follower that lags
    behind by ``lost_batches`` is elected at once.

    That is what ``unclean.leader.election.enable`` does, or an administrator with
    ``kafka-leader-elections --election-type unclean``, and KIP-966 where no eligible replica is
    left. The committed records that the follower lacks are lost: the group goes back in time. The
    old leader is back at the end of the window, and cuts its log off where the new one's differs.
    """

    may_lose_committed: ClassVar[bool] = True

    lost_batches: int = field(metadata=size(1) | LOST_BATCHES)
    offsets_partition: int | None = field(default=None, metadata=bound(0))

    def begin(self, world: FaultWorld) -> End | bool:
        partition = registration(world, self.offsets_partition)
        leader = partition.leader
        if leader is None or not leader.is_alive:
            return False
        replicas = [
            replica
            for replica in leader.replicas[partition.partition].peers
            if replica.follows(partition.leader_epoch)
        ]
        able = [
            replica.node_id
            for replica in replicas
            if replica.log.end_offset >= replica.compacted_to
            and _may_be_elected(world.brokers[replica.node_id])
        ]
        if not able:
            return False
        log = leader.replicas[partition.partition].log
        offset = log.start_of_last(self.lost_batches)
        for replica in replicas:
            replica.forget_from(offset)
        leader.crash()
        world.controller.elect_uncleanly(partition.partition, world.brokers[able[0]])
        world.controller.fence(leader)

        def end() -> None:
            if not leader.is_alive:
                leader.restart()

        return end


def _may_be_elected(broker: Broker) -> bool:
    return broker.is_alive and not (broker.is_cut_off or broker.is_stopping or broker.is_paused)
