"""Coincidences in which a client meets its own past: its leave, its instance id, its generation."""

from __future__ import annotations

from collections.abc import Iterable

from rebalance_sim.protocol.clients.kinds import CLASSIC, CLASSIC_KINDS, JAVA, LIBRDKAFKA
from rebalance_sim.scenarios.generate.recipes._steps import grown, instance_id_of, make_static
from rebalance_sim.sim.client.client_checks import takes_assignors
from rebalance_sim.sim.client.client_spec import ClientSpec
from rebalance_sim.sim.draw import Draw
from rebalance_sim.sim.faults.brokers import ReplicationSlowdown
from rebalance_sim.sim.faults.clients import (
    ClientClose,
    ClientCrash,
    ClientPause,
    SubscriptionChange,
)
from rebalance_sim.sim.faults.connections import NetworkSlowdown
from rebalance_sim.sim.faults.coordinators import CoordinatorMove, LogCompaction
from rebalance_sim.sim.faults.deployments import ClientRedeploy
from rebalance_sim.sim.faults.fault import Fault
from rebalance_sim.sim.faults.targets import Targets
from rebalance_sim.sim.faults.topics import TopicCreate

_DOWN_MS = (200, 3_000)
_MATCHED = "matched"
_RARE_HEARTBEAT_MS = 30_000
_LONG_SESSION_MS = 45_000
_COMMIT_MS = 1_000
_SHORT_POLL_MS = 5_000
_BEFORE_MS = (4_000, 8_000)
_AFTERWARDS_MS = 20_000


def back_before_answer(draw: Draw, targets: Targets, at_ms: int) -> Iterable[Fault]:
    """An application unsubscribes and subscribes again, over a slow link: the answers to what was
    sent before, and to the leave, arrive when it joins already."""
    client = targets.client(draw)
    topics = targets.read_by(client)
    yield NetworkSlowdown(
        at_ms=at_ms,
        duration_ms=draw.between((8_000, 15_000)),
        factor=draw.pick((20, 100)),
        client=client.name,
    )
    for _ in range(draw.between((2, 5))):
        at_ms += draw.between((500, 4_000))
        yield SubscriptionChange(at_ms=at_ms, client=client.name)
        at_ms += draw.between((1, draw.pick((10, 200))))
        yield SubscriptionChange(at_ms=targets.within(at_ms), client=client.name, topics=topics)


def all_by_pattern(draw: Draw, targets: Targets, at_ms: int) -> Iterable[Fault]:
    """A whole group subscribes by pattern alone, and what the pattern matches grows."""
    group = targets.group(draw)
    team = targets.team(group)
    from_ms = max(0, at_ms - draw.between((3_000, 10_000)))
    for client in team:
        yield SubscriptionChange(
            at_ms=from_ms + draw.between((0, 500)), client=client.name, topic_regex=".*"
        )
    for topic in draw.some(targets.topics, 0.6):
        yield grown(topic, at_ms, draw, 4)
    if draw.chance(0.3):
        yield TopicCreate(at_ms=at_ms, topic=_MATCHED, partition_count=draw.between((1, 4)))
    back_ms = targets.within(at_ms + draw.between((2_000, 12_000)))
    for client in team:
        yield SubscriptionChange(at_ms=back_ms, client=client.name, topics=targets.read_by(client))


def static_again_in_rebalance(draw: Draw, targets: Targets, at_ms: int) -> Iterable[Fault]:
    """A static member is restarted, some times over, while its group rebalances and the
    coordinator's writes take long."""
    pair = targets.pair(draw)
    if pair is None:
        return
    static, other = pair
    if static.instance_id is None:
        yield make_static(static, at_ms - draw.between((3_000, 6_000)))
    yield ReplicationSlowdown(
        at_ms=at_ms, duration_ms=draw.between((6_000, 12_000)), factor=draw.pick((20, 100, 400))
    )
    yield ClientClose(at_ms=at_ms, client=other.name, down_ms=draw.between((200, 1_500)))
    for _ in range(draw.between((2, 4))):
        at_ms += draw.between((300, 3_000))
        yield ClientCrash(at_ms=at_ms, client=static.name, down_ms=draw.between((50, 300)))


def missed_generation(draw: Draw, targets: Targets, at_ms: int) -> Iterable[Fault]:
    """A static member that asks seldom whether there is a rebalance misses one whole: the others
    form a generation, and another one, while it continues with what it had."""
    pair = targets.pair(draw)
    if pair is not None and pair[0].kind in CLASSIC_KINDS:
        at_ms = _in_time(targets, at_ms)
        again_ms = at_ms + draw.between((5_500, 8_500))
        yield from _missed(draw, targets, pair, at_ms, again_ms)
        yield ClientClose(at_ms=again_ms, client=pair[1].name, down_ms=draw.between(_DOWN_MS))


def missed_conversion(draw: Draw, targets: Targets, at_ms: int) -> Iterable[Fault]:
    """As ``missed_generation``; all speak the classic protocol then, and the group is converted
    while the process that missed the generation stands still."""
    pair = targets.pair(draw)
    if pair is not None and takes_assignors(JAVA, pair[1].assignors):
        at_ms = _in_time(targets, at_ms)
        again_ms = at_ms + draw.between((5_500, 8_500))
        yield from _missed(draw, targets, pair, at_ms, again_ms, to_kind=CLASSIC)
        yield ClientRedeploy(
            at_ms=again_ms,
            client=pair[1].name,
            down_ms=draw.between((200, 1_000)),
            to_kind=draw.pick((JAVA, LIBRDKAFKA)),
        )
        silent_ms = again_ms - at_ms + draw.between((1_500, 5_000))
        yield ClientPause(at_ms=at_ms, duration_ms=silent_ms, client=pair[0].name)


def _in_time(targets: Targets, at_ms: int) -> int:
    """Early enough for what is to follow, if the fault phase is long enough."""
    return min(at_ms, max(_BEFORE_MS[1], targets.duration_ms - _AFTERWARDS_MS))


def _missed(
    draw: Draw,
    targets: Targets,
    pair: tuple[ClientSpec, ClientSpec],
    at_ms: int,
    again_ms: int,
    to_kind: str | None = None,
) -> Iterable[Fault]:
    """The first of a pair hears of nothing while the second comes back; later it is as before."""
    static, other = pair
    before_ms = max(0, at_ms - draw.between(_BEFORE_MS))
    for client in targets.clients:
        if client.group_id == static.group_id and client is not static:
            # The group waits as long as any of its members may take.
            yield ClientRedeploy(
                at_ms=before_ms,
                client=client.name,
                down_ms=300,
                to_kind=to_kind,
                instance_id="" if client is other else None,
                max_poll_interval_ms=_SHORT_POLL_MS,
            )
    yield ClientRedeploy(
        at_ms=before_ms,
        client=static.name,
        down_ms=600,
        to_kind=to_kind,
        instance_id=instance_id_of(static),
        session_timeout_ms=_LONG_SESSION_MS,
        heartbeat_interval_ms=_RARE_HEARTBEAT_MS,
        max_poll_interval_ms=_SHORT_POLL_MS,
        # Whose commit is refused hears of the generation.
        enable_auto_commit=to_kind is not None,
        auto_commit_interval_ms=_COMMIT_MS,
    )
    yield ClientClose(at_ms=at_ms, client=other.name, down_ms=draw.between((200, 1_000)))
    yield ClientRedeploy(
        at_ms=targets.within(again_ms + draw.between((8_000, 15_000))),
        client=static.name,
        down_ms=draw.between(_DOWN_MS),
        session_timeout_ms=static.session_timeout_ms,
        heartbeat_interval_ms=static.heartbeat_interval_ms,
        enable_auto_commit=static.enable_auto_commit,
        auto_commit_interval_ms=static.auto_commit_interval_ms,
    )


def cleaned_while_loading(draw: Draw, targets: Targets, at_ms: int) -> Iterable[Fault]:
    """Partitions change hands, the coordinator moves, and its log is cleaned while the next one
    reads it."""
    for _ in range(draw.between((2, 4))):
        for client in draw.some(targets.clients, 0.5)[:2]:
            yield ClientClose(
                at_ms=max(0, at_ms - draw.between((500, 6_000))),
                client=client.name,
                down_ms=draw.between((200, 1_500)),
            )
        yield CoordinatorMove(at_ms=at_ms, keeps_tail=draw.chance(0.7))
        yield LogCompaction(
            at_ms=at_ms + draw.between((1, draw.pick((40, 400, 1_500)))),
            drops_tombstones=draw.chance(0.7),
        )
        at_ms += draw.between((4_000, 8_000))
