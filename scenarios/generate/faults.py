"""Drawing the faults of a scenario: one small function for each kind.

Each rule of a profile has a random stream of its own. Times are drawn over the whole fault phase;
where a seed clusters its faults, some fall close to one of a few moments instead, because what
breaks protocols is coincidence.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rebalance_sim.protocol.clients.common.values import CallbackKind, MembershipOperation
from rebalance_sim.protocol.hosting.error_answers import WriteError
from rebalance_sim.scenarios.errors import ScenarioError, did_you_mean
from rebalance_sim.scenarios.generate.administration import ADMIN_MAKERS
from rebalance_sim.scenarios.generate.classic_clients import CLASSIC_MAKERS
from rebalance_sim.scenarios.generate.draw import Draw
from rebalance_sim.scenarios.generate.fault_targets import FaultTargets, Maker
from rebalance_sim.scenarios.profile import FaultRule
from rebalance_sim.sim.faults.faults import (
    AppendFailure,
    BrokerBounce,
    BrokerCrash,
    BrokerIsolation,
    CallbackFailure,
    CallbackSlowdown,
    ClientBounce,
    ClientClose,
    ClientCrash,
    ClientPartition,
    ClientPause,
    ConnectionLoss,
    CoordinatorMove,
    Direction,
    Fault,
    LogCompaction,
    MetadataLag,
    Moment,
    NetworkSlowdown,
    PollStall,
    ReplicationSlowdown,
    SubscriptionChange,
    TopicCreate,
    TopicDelete,
    TopicGrow,
    TopicRecreate,
    ZombieLeader,
)
from rebalance_sim.sim.streams import Streams

__all__ = ["FAULT_KINDS", "draw_faults"]

_WARM_UP_MS = 1_000
"""Nothing happens before the first members are there."""

_CLUSTER_COUNT = (1, 3)
_CLUSTER_SHARE = 0.7
_CLUSTER_WIDTH_MS = 2_000

_ANY_CALLBACK = (None, *CallbackKind)


def draw_faults(
    rules: tuple[FaultRule, ...], targets: FaultTargets, streams: Streams, *, is_clustered: bool
) -> tuple[Fault, ...]:
    """The faults of a scenario, by time. Raises ScenarioError for an unknown kind."""
    clusters = Draw(streams.get("generate/clusters"))
    moments = [_moment(clusters, targets) for _ in range(clusters.between(_CLUSTER_COUNT))]
    faults: list[Fault] = []
    for index, rule in enumerate(rules):
        maker = _MAKERS.get(rule.kind)
        if maker is None:
            raise ScenarioError(
                f"no such kind: {rule.kind!r}; {did_you_mean(rule.kind, _MAKERS)}",
                place=f"faults[{index}].kind",
            )
        draw = Draw(streams.get(f"generate/fault/{rule.kind}"))
        if not draw.chance(rule.probability):
            continue
        for _ in range(draw.between(rule.count)):
            at_ms = _moment(draw, targets)
            if is_clustered and draw.chance(_CLUSTER_SHARE):
                at_ms = draw.pick(moments) + draw.between((0, _CLUSTER_WIDTH_MS))
            faults += maker(draw, rule, targets, min(at_ms, targets.duration_ms - 1))
    return tuple(sorted(faults, key=lambda fault: fault.at_ms))


def _moment(draw: Draw, targets: FaultTargets) -> int:
    return draw.between((min(_WARM_UP_MS, targets.duration_ms - 1), targets.duration_ms - 1))


# -- network and brokers -----------------------------------------------------------------------


def _connection_loss(
    draw: Draw, rule: FaultRule, targets: FaultTargets, at_ms: int
) -> Iterable[Fault]:
    yield ConnectionLoss(
        at_ms=at_ms, client=targets.client(draw).name, moment=draw.pick(tuple(Moment))
    )


def _client_partition(
    draw: Draw, rule: FaultRule, targets: FaultTargets, at_ms: int
) -> Iterable[Fault]:
    yield ClientPartition(
        at_ms=at_ms,
        duration_ms=draw.between(rule.duration_ms),
        client=targets.client(draw).name,
        broker=targets.broker(draw),
        direction=draw.pick((Direction.BOTH, *Direction)),
    )


def _network_slowdown(
    draw: Draw, rule: FaultRule, targets: FaultTargets, at_ms: int
) -> Iterable[Fault]:
    everybody = draw.chance(0.5)
    yield NetworkSlowdown(
        at_ms=at_ms,
        duration_ms=draw.between(rule.duration_ms),
        factor=draw.between(rule.factor),
        client=None if everybody else targets.client(draw).name,
    )


def _broker_isolation(
    draw: Draw, rule: FaultRule, targets: FaultTargets, at_ms: int
) -> Iterable[Fault]:
    duration_ms, broker = draw.between(rule.duration_ms), targets.broker(draw)
    yield BrokerIsolation(
        at_ms=at_ms,
        duration_ms=duration_ms,
        broker=broker,
        offsets_partition=targets.offsets_partition(draw, broker=broker),
    )


def _append_failure(
    draw: Draw, rule: FaultRule, targets: FaultTargets, at_ms: int
) -> Iterable[Fault]:
    duration_ms, broker = draw.between(rule.duration_ms), targets.broker(draw)
    yield AppendFailure(
        at_ms=at_ms,
        duration_ms=duration_ms,
        broker=broker,
        offsets_partition=targets.offsets_partition(draw, broker=broker),
        error=draw.pick((WriteError.STORAGE, WriteError.NOT_ENOUGH_REPLICAS)),
    )


def _replication_slowdown(
    draw: Draw, rule: FaultRule, targets: FaultTargets, at_ms: int
) -> Iterable[Fault]:
    yield ReplicationSlowdown(
        at_ms=at_ms, duration_ms=draw.between(rule.duration_ms), factor=draw.between(rule.factor)
    )


def _broker_crash(
    draw: Draw, rule: FaultRule, targets: FaultTargets, at_ms: int
) -> Iterable[Fault]:
    duration_ms, broker = draw.between(rule.duration_ms), targets.broker(draw)
    yield BrokerCrash(
        at_ms=at_ms,
        duration_ms=duration_ms,
        broker=broker,
        offsets_partition=targets.offsets_partition(draw, broker=broker),
    )


def _broker_bounce(
    draw: Draw, rule: FaultRule, targets: FaultTargets, at_ms: int
) -> Iterable[Fault]:
    yield BrokerBounce(
        at_ms=at_ms, down_ms=draw.between(rule.duration_ms), gap_ms=draw.between(rule.gap_ms)
    )


def _coordinator_move(
    draw: Draw, rule: FaultRule, targets: FaultTargets, at_ms: int
) -> Iterable[Fault]:
    keeps_tail = draw.chance(0.5)
    yield CoordinatorMove(
        at_ms=at_ms, keeps_tail=keeps_tail, offsets_partition=targets.offsets_partition(draw)
    )


def _log_compaction(
    draw: Draw, rule: FaultRule, targets: FaultTargets, at_ms: int
) -> Iterable[Fault]:
    yield LogCompaction(
        at_ms=at_ms,
        broker=draw.between((0, targets.broker_count - 1)) if draw.chance(0.3) else None,
        cleaned_percent=draw.pick((100, 100, 30, 70)),
        drops_tombstones=draw.chance(0.4),
        offsets_partition=targets.offsets_partition(draw),
    )


def _zombie_leader(
    draw: Draw, rule: FaultRule, targets: FaultTargets, at_ms: int
) -> Iterable[Fault]:
    duration_ms = draw.between(rule.duration_ms)
    yield ZombieLeader(
        at_ms=at_ms, duration_ms=duration_ms, offsets_partition=targets.offsets_partition(draw)
    )


# -- clients -----------------------------------------------------------------------------------


def _down_ms(draw: Draw, rule: FaultRule, targets: FaultTargets, name: str) -> int | None:
    """How long a process is away; None: for good."""
    down_ms = draw.between(rule.duration_ms)
    if draw.chance(rule.forever_probability) and targets.may_go(name):
        return None
    return down_ms


def _client_crash(
    draw: Draw, rule: FaultRule, targets: FaultTargets, at_ms: int
) -> Iterable[Fault]:
    name = targets.client(draw).name
    yield ClientCrash(at_ms=at_ms, client=name, down_ms=_down_ms(draw, rule, targets, name))


def _client_close(
    draw: Draw, rule: FaultRule, targets: FaultTargets, at_ms: int
) -> Iterable[Fault]:
    name = targets.client(draw).name
    usual = MembershipOperation.DEFAULT
    yield ClientClose(
        at_ms=at_ms,
        client=name,
        down_ms=_down_ms(draw, rule, targets, name),
        operation=draw.pick((usual, usual, *MembershipOperation)),
    )


def _client_bounce(
    draw: Draw, rule: FaultRule, targets: FaultTargets, at_ms: int
) -> Iterable[Fault]:
    yield ClientBounce(
        at_ms=at_ms,
        down_ms=draw.between(rule.duration_ms),
        gap_ms=draw.between(rule.gap_ms),
        graceful=draw.chance(0.7),
    )


def _client_pause(
    draw: Draw, rule: FaultRule, targets: FaultTargets, at_ms: int
) -> Iterable[Fault]:
    yield ClientPause(
        at_ms=at_ms, duration_ms=draw.between(rule.duration_ms), client=targets.client(draw).name
    )


def _poll_stall(draw: Draw, rule: FaultRule, targets: FaultTargets, at_ms: int) -> Iterable[Fault]:
    yield PollStall(
        at_ms=at_ms, duration_ms=draw.between(rule.duration_ms), client=targets.client(draw).name
    )


def _callback_slowdown(
    draw: Draw, rule: FaultRule, targets: FaultTargets, at_ms: int
) -> Iterable[Fault]:
    yield CallbackSlowdown(
        at_ms=at_ms,
        duration_ms=draw.between(rule.duration_ms),
        client=targets.client(draw).name,
        callback_ms=draw.between(rule.callback_ms),
        callback=draw.pick(_ANY_CALLBACK),
    )


def _callback_failure(
    draw: Draw, rule: FaultRule, targets: FaultTargets, at_ms: int
) -> Iterable[Fault]:
    yield CallbackFailure(
        at_ms=at_ms,
        duration_ms=draw.between(rule.duration_ms),
        client=targets.client(draw).name,
        callback=draw.pick(_ANY_CALLBACK),
    )


def _subscription_change(
    draw: Draw, rule: FaultRule, targets: FaultTargets, at_ms: int
) -> Iterable[Fault]:
    client = targets.client(draw)
    names = [topic.name for topic in targets.topics]
    back = client.topics or tuple(names)
    topics = () if draw.chance(0.3) else tuple(draw.some(names, 0.5))
    yield SubscriptionChange(at_ms=at_ms, client=client.name, topics=topics)
    back_ms = at_ms + draw.between(rule.duration_ms)
    stays = draw.chance(rule.forever_probability)
    if topics and stays:
        return
    # An application that subscribes to nothing for good would be a client that has gone.
    yield SubscriptionChange(
        at_ms=min(back_ms, targets.duration_ms - 1), client=client.name, topics=back
    )


def _metadata_lag(
    draw: Draw, rule: FaultRule, targets: FaultTargets, at_ms: int
) -> Iterable[Fault]:
    yield MetadataLag(
        at_ms=at_ms, duration_ms=draw.between(rule.duration_ms), client=targets.client(draw).name
    )


# -- topics ------------------------------------------------------------------------------------


def _topic_create(
    draw: Draw, rule: FaultRule, targets: FaultTargets, at_ms: int
) -> Iterable[Fault]:
    name = "arrivals"
    yield TopicCreate(at_ms=at_ms, topic=name, partition_count=draw.between((1, 4)))
    reader = targets.client(draw)
    yield SubscriptionChange(
        at_ms=max(0, at_ms - draw.between((0, 500))),
        client=reader.name,
        topics=(*reader.topics, name),
    )


def _topic_grow(draw: Draw, rule: FaultRule, targets: FaultTargets, at_ms: int) -> Iterable[Fault]:
    topic = draw.pick(targets.topics)
    yield TopicGrow(
        at_ms=at_ms,
        topic=topic.name,
        partition_count=topic.partition_count + draw.between((1, 6)),
    )


def _topic_delete(
    draw: Draw, rule: FaultRule, targets: FaultTargets, at_ms: int
) -> Iterable[Fault]:
    yield TopicDelete(at_ms=at_ms, topic=draw.pick(targets.topics).name)


def _topic_recreate(
    draw: Draw, rule: FaultRule, targets: FaultTargets, at_ms: int
) -> Iterable[Fault]:
    topic = draw.pick(targets.topics)
    yield TopicRecreate(
        at_ms=at_ms,
        topic=topic.name,
        partition_count=max(1, topic.partition_count + draw.between((-2, 2))),
        down_ms=draw.between(rule.duration_ms),
    )


_MAKERS: Mapping[str, Maker] = {
    **ADMIN_MAKERS,
    **CLASSIC_MAKERS,
    "broker_bounce": _broker_bounce,
    "broker_crash": _broker_crash,
    "append_failure": _append_failure,
    "broker_isolation": _broker_isolation,
    "callback_failure": _callback_failure,
    "callback_slowdown": _callback_slowdown,
    "client_bounce": _client_bounce,
    "client_close": _client_close,
    "client_crash": _client_crash,
    "client_partition": _client_partition,
    "client_pause": _client_pause,
    "connection_loss": _connection_loss,
    "coordinator_move": _coordinator_move,
    "log_compaction": _log_compaction,
    "metadata_lag": _metadata_lag,
    "network_slowdown": _network_slowdown,
    "poll_stall": _poll_stall,
    "replication_slowdown": _replication_slowdown,
    "subscription_change": _subscription_change,
    "topic_create": _topic_create,
    "topic_delete": _topic_delete,
    "topic_grow": _topic_grow,
    "topic_recreate": _topic_recreate,
    "zombie_leader": _zombie_leader,
}

FAULT_KINDS = tuple(sorted(_MAKERS))
"""Every kind of fault that a profile may ask for."""
