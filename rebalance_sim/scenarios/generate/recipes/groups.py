"""Coincidences about what a group knows of its topics and offsets, and for how long."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rebalance_sim.protocol.clients.kinds import CLASSIC, CLASSIC_KINDS, JAVA
from rebalance_sim.scenarios.generate.recipes._steps import grown, instance_id_of
from rebalance_sim.sim.client.client_checks import takes_assignors
from rebalance_sim.sim.client.client_spec import ClientSpec
from rebalance_sim.sim.draw import Draw
from rebalance_sim.sim.faults.administrators import OffsetsDelete
from rebalance_sim.sim.faults.brokers import AppendFailure, ClockStep
from rebalance_sim.sim.faults.clients import ClientCrash, ClientPause, SubscriptionChange
from rebalance_sim.sim.faults.coordinators import CoordinatorMove
from rebalance_sim.sim.faults.deployments import ClientRedeploy
from rebalance_sim.sim.faults.fault import Fault
from rebalance_sim.sim.faults.targets import Targets

_DOWN_MS = (200, 3_000)
_MINUTE_MS = 60_000
_ABOUT_MS = 12_000
_LONG_RETENTION_MINUTES = 10


def retention_over(draw: Draw, targets: Targets, at_ms: int) -> Iterable[Fault]:
    """The clocks of all brokers are set ahead by about the retention of offsets, while no one is in
    the group, or while its members have given up topics, and rebalance."""
    if targets.config.offsets_retention_minutes > _LONG_RETENTION_MINUTES:
        return
    retention_ms = targets.config.offsets_retention_minutes * _MINUTE_MS
    group = targets.group(draw)
    team = targets.team(group)
    if draw.chance(0.5):
        yield from _all_away(draw, team, at_ms)
        step_ms = retention_ms - draw.between((0, _ABOUT_MS))
        at_ms += draw.between((500, _ABOUT_MS))
    else:
        yield from _narrower(draw, targets, team, at_ms)
        step_ms = retention_ms + draw.between((0, _ABOUT_MS))
    if draw.chance(0.4):
        yield CoordinatorMove(at_ms=max(0, at_ms - draw.between((200, 2_000))))
    for broker in range(targets.broker_count):
        yield ClockStep(at_ms=at_ms, step_ms=step_ms, broker=broker)


def _all_away(draw: Draw, team: Sequence[ClientSpec], at_ms: int) -> Iterable[Fault]:
    down_ms = draw.between((12_000, 40_000))
    for client in team:
        yield ClientCrash(at_ms=at_ms, client=client.name, down_ms=down_ms)


def _narrower(
    draw: Draw, targets: Targets, team: Sequence[ClientSpec], at_ms: int
) -> Iterable[Fault]:
    """All subscribe to one topic, and one of them is silent while the others rebalance."""
    names = targets.topic_names
    before_ms = max(0, at_ms - draw.between((4_000, 10_000)))
    back_ms = targets.within(at_ms + draw.between((6_000, 15_000)))
    for client in team:
        topics = (draw.pick(names),) if draw.chance(0.2) else names[:1]
        yield SubscriptionChange(at_ms=before_ms, client=client.name, topics=topics)
        yield SubscriptionChange(at_ms=back_ms, client=client.name, topics=targets.read_by(client))
    if len(team) > 1 and draw.chance(0.7):
        silent_ms = draw.between((4_000, 10_000))
        yield ClientPause(at_ms=max(0, at_ms - 1_000), duration_ms=silent_ms, client=team[0].name)
        yield ClientCrash(at_ms=max(0, at_ms - 800), client=team[-1].name, down_ms=200)


def growth_unwritten(draw: Draw, targets: Targets, at_ms: int) -> Iterable[Fault]:
    """A topic grows, and what follows from that cannot be written at first."""
    topic = draw.pick(targets.topics)
    yield grown(topic, at_ms, draw, 4)
    failing_ms = draw.between((500, 4_000))
    yield AppendFailure(at_ms=at_ms + draw.between((0, 50)), duration_ms=failing_ms)


def deleted_under_pattern(draw: Draw, targets: Targets, at_ms: int) -> Iterable[Fault]:
    """Offsets of topics are to be deleted that a whole group subscribes to by pattern."""
    group = targets.group(draw)
    back_ms = targets.within(at_ms + draw.between((2_000, 8_000)))
    for client in targets.team(group):
        from_ms = max(0, at_ms - draw.between((3_000, 6_000)))
        yield SubscriptionChange(at_ms=from_ms, client=client.name, topic_regex=".*")
        yield SubscriptionChange(at_ms=back_ms, client=client.name, topics=targets.read_by(client))
    for topic in draw.some(targets.topics, 0.6):
        yield OffsetsDelete(
            at_ms=at_ms,
            group=group,
            topic=topic.name,
            partitions=tuple(range(topic.partition_count)),
        )


def seat_of_pattern(draw: Draw, targets: Targets, at_ms: int) -> Iterable[Fault]:
    """A static consumer that subscribes by pattern is replaced by a classic one with its instance
    id, while another consumer stays; later both are as before."""
    pair = targets.pair(draw)
    if pair is None or not all(
        takes_assignors(kind, client.assignors) for kind in (JAVA, CLASSIC) for client in pair
    ):
        return
    static, other = pair
    before_ms = max(0, at_ms - draw.between((6_000, 9_000)))
    if other.kind in CLASSIC_KINDS:
        yield ClientRedeploy(at_ms=before_ms, client=other.name, down_ms=300, to_kind=JAVA)
    yield ClientRedeploy(
        at_ms=before_ms,
        client=static.name,
        down_ms=300,
        to_kind=JAVA,
        instance_id=instance_id_of(static),
    )
    yield SubscriptionChange(at_ms=max(0, at_ms - 3_000), client=static.name, topic_regex=".*")
    yield ClientRedeploy(
        at_ms=at_ms,
        client=static.name,
        down_ms=draw.between(_DOWN_MS),
        graceful=draw.chance(0.5),
        to_kind=CLASSIC,
        topics=(draw.pick(targets.topics).name,) if draw.chance(0.6) else None,
    )
    back_ms = targets.within(at_ms + draw.between((6_000, 15_000)))
    yield ClientRedeploy(
        at_ms=back_ms,
        client=static.name,
        down_ms=draw.between(_DOWN_MS),
        to_kind=static.kind,
        instance_id=static.instance_id or "",
        topics=static.topics or None,
    )
    if other.kind in CLASSIC_KINDS:
        yield ClientRedeploy(
            at_ms=back_ms, client=other.name, down_ms=draw.between(_DOWN_MS), to_kind=other.kind
        )
