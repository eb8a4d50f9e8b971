"""Worlds drawn at random, with every kind of fault: for tests of determinism and of properties."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

from rebalance_sim.protocol.clients.common.values import CallbackKind, MembershipOperation
from rebalance_sim.protocol.hosting.error_answers import WriteError
from rebalance_sim.sim.faults.brokers import (
    AppendFailure,
    BrokerBounce,
    BrokerCrash,
    BrokerIsolation,
    ReplicationSlowdown,
)
from rebalance_sim.sim.faults.clients import (
    CallbackFailure,
    CallbackSlowdown,
    ClientClose,
    ClientCrash,
    ClientPause,
    MetadataLag,
    PollStall,
    SubscriptionChange,
)
from rebalance_sim.sim.faults.connections import ClientPartition, ConnectionLoss, NetworkSlowdown
from rebalance_sim.sim.faults.coordinators import CoordinatorMove, LogCompaction, ZombieLeader
from rebalance_sim.sim.faults.deployments import ClientBounce, RollingMigration
from rebalance_sim.sim.faults.fault import Fault
from rebalance_sim.sim.faults.topics import TopicCreate, TopicDelete, TopicGrow, TopicRecreate
from rebalance_sim.sim.network.link import Moment
from rebalance_sim.sim.network.network import Direction
from rebalance_sim.sim.spec import ClientSpec, DelaySpec, NetworkSpec, TopicSpec, WorldSpec

DURATION_MS = 60_000
QUIET_PERIOD_MS = 180_000


def random_spec(seed: int) -> WorldSpec:
    """A world of up to five clients and eight faults."""
    draw = Random(seed)
    topics = tuple(
        TopicSpec(
            name=name,
            partition_count=draw.randint(1, 6),
            records_per_second=draw.choice([0, 10]),
        )
        for name in ("orders", "payments")[: draw.randint(1, 2)]
    )
    names = tuple(topic.name for topic in topics)
    clients = tuple(_client(draw, f"c{number}", names) for number in range(draw.randint(1, 5)))
    count = draw.randint(0, 8)
    return WorldSpec(
        seed=seed,
        topics=topics,
        clients=clients,
        duration_ms=DURATION_MS,
        quiet_period_ms=QUIET_PERIOD_MS,
        network=NetworkSpec(latency=DelaySpec(min_ms=1, max_ms=5, tail_ms=draw.choice([0, 30]))),
        semantics=draw.choice(["kafka-4.3", "kafka-4.1"]),
        faults=tuple(_fault(draw, [c.name for c in clients], names) for _ in range(count)),
    )


def random_groups_spec(seed: int) -> WorldSpec:
    """The same with four more clients, in one to three groups and one to five partitions."""
    draw = Random(f"groups-{seed}")
    spec = random_spec(seed)
    topics = tuple(topic.name for topic in spec.topics)
    clients = (*spec.clients, *(_client(draw, f"d{number}", topics) for number in range(4)))
    count = draw.randint(1, 5)
    return replace(
        spec,
        clients=tuple(
            replace(c, group_id=draw.choice([None, "audit", "billing"])) for c in clients
        ),
        brokers=replace(spec.brokers, offsets_partition_count=count),
        faults=tuple(_of_partition(draw, fault, count) for fault in spec.faults),
    )


def random_batches_spec(seed: int) -> WorldSpec:
    """Random groups whose coordinators gather what they write, and cannot always write it."""
    draw = Random(f"batches-{seed}")
    spec = random_groups_spec(seed)
    failures = tuple(
        AppendFailure(
            at_ms=draw.randint(1_000, DURATION_MS - 1),
            duration_ms=draw.choice([1, 500, 5_000]),
            broker=draw.choice([None, 0, 1, 2]),
            error=draw.choice([WriteError.STORAGE, WriteError.NOT_ENOUGH_REPLICAS]),
        )
        for _ in range(draw.randint(1, 4))
    )
    config = replace(
        spec.config,
        group_coordinator_append_linger_ms=draw.choice([-1, 5, 50, 500]),
        message_max_bytes=draw.choice([2_000, spec.config.message_max_bytes]),
    )
    return replace(spec, config=config, faults=(*spec.faults, *failures))


def random_migrations_spec(seed: int) -> WorldSpec:
    """The same with clients of both protocols, and deployments that move them from one to the
    other."""
    draw = Random(f"migrations-{seed}")
    spec = random_batches_spec(seed)
    assignors = draw.choice([("range",), ("sticky",), ("cooperative-sticky",)])
    clients = tuple(
        replace(
            client,
            kind=draw.choice(["classic", "classic", "java", "librdkafka"]),
            assignors=assignors,
            session_timeout_ms=draw.choice([10_000, 45_000]),
            metadata_max_age_ms=5_000,
        )
        for client in spec.clients
    )
    rolls = tuple(
        RollingMigration(
            at_ms=draw.randint(5_000, DURATION_MS - 1),
            to_kind=draw.choice(["classic", "java", "librdkafka"]),
            assignors=assignors,
            down_ms=draw.choice([100, 3_000]),
            gap_ms=draw.choice([0, 4_000]),
            graceful=draw.random() < 0.7,
        )
        for _ in range(draw.randint(1, 3))
    )
    return replace(spec, clients=clients, faults=(*spec.faults, *rolls))


def _of_partition(draw: Random, fault: Fault, count: int) -> Fault:
    """A fault that hits a leader may hit that of another partition."""
    match fault:
        case CoordinatorMove() | ZombieLeader() | LogCompaction():
            return replace(fault, offsets_partition=draw.choice([None, *range(count)]))
        case BrokerCrash(broker=None) | BrokerIsolation(broker=None):
            return replace(fault, offsets_partition=draw.choice([None, *range(count)]))
    return fault


def _client(draw: Random, name: str, topics: tuple[str, ...]) -> ClientSpec:
    return ClientSpec(
        name=name,
        topics=tuple(sorted(draw.sample(topics, draw.randint(1, len(topics))))),
        start_ms=draw.randint(0, 5_000),
        instance_id=f"{name}-instance" if draw.random() < 0.4 else None,
        callback=DelaySpec(min_ms=0, max_ms=draw.choice([0, 50, 3_000])),
        max_poll_interval_ms=draw.choice([10_000, 20_000]),
        request_timeout_ms=draw.choice([10_000, 30_000]),
        enable_auto_commit=draw.random() < 0.7,
    )


def _fault(draw: Random, clients: list[str], topics: tuple[str, ...]) -> Fault:
    at = draw.randint(1_000, DURATION_MS - 1)
    window = draw.choice([500, 5_000, 20_000, 50_000])
    client = draw.choice(clients)
    broker = draw.choice([None, 0, 1, 2])
    topic = draw.choice(topics)
    down = draw.choice([None, 100, 5_000])
    makers: list[Callable[[], Fault]] = [
        lambda: ConnectionLoss(at_ms=at, client=client, moment=draw.choice(list(Moment))),
        lambda: ClientPartition(
            at_ms=at,
            duration_ms=window,
            client=client,
            broker=broker,
            direction=draw.choice(list(Direction)),
        ),
        lambda: NetworkSlowdown(at_ms=at, duration_ms=window, factor=50, client=client),
        lambda: BrokerIsolation(at_ms=at, duration_ms=window, broker=broker),
        lambda: ReplicationSlowdown(at_ms=at, duration_ms=window, factor=1_000),
        lambda: BrokerCrash(at_ms=at, duration_ms=window, broker=broker),
        lambda: BrokerBounce(at_ms=at, down_ms=2_000, gap_ms=500),
        lambda: CoordinatorMove(at_ms=at, keeps_tail=draw.random() < 0.5),
        lambda: LogCompaction(
            at_ms=at,
            broker=broker,
            cleaned_percent=draw.choice([30, 70, 100]),
            drops_tombstones=draw.random() < 0.5,
        ),
        lambda: ZombieLeader(at_ms=at, duration_ms=window),
        lambda: ClientCrash(at_ms=at, client=client, down_ms=down),
        lambda: ClientPause(at_ms=at, duration_ms=window, client=client),
        lambda: PollStall(at_ms=at, duration_ms=window, client=client),
        lambda: CallbackSlowdown(at_ms=at, duration_ms=window, client=client, callback_ms=5_000),
        lambda: CallbackFailure(
            at_ms=at,
            duration_ms=window,
            client=client,
            callback=draw.choice([None, *CallbackKind]),
        ),
        lambda: ClientClose(
            at_ms=at,
            client=client,
            down_ms=down,
            operation=draw.choice(list(MembershipOperation)),
        ),
        lambda: ClientBounce(at_ms=at, down_ms=1_000, graceful=draw.random() < 0.5),
        lambda: SubscriptionChange(at_ms=at, client=client, topics=(topic,)),
        lambda: MetadataLag(at_ms=at, duration_ms=window, client=client),
        lambda: TopicCreate(at_ms=at, topic="created", partition_count=3),
        lambda: TopicGrow(at_ms=at, topic=topic, partition_count=9),
        lambda: TopicDelete(at_ms=at, topic=topic),
        lambda: TopicRecreate(at_ms=at, topic=topic, partition_count=2, down_ms=1_000),
    ]
    return draw.choice(makers)()
