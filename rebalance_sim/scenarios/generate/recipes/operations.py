"""Coincidences about what is done to brokers, logs, topics, offsets and settings meanwhile."""

from __future__ import annotations

from collections.abc import Iterable

from rebalance_sim.protocol.clients.kinds import (
    CLASSIC,
    FRANZ,
    FRANZ_CLASSIC,
    JAVA,
    LIBRDKAFKA,
    LIBRDKAFKA_CLASSIC,
)
from rebalance_sim.scenarios.generate.recipes._steps import make_static
from rebalance_sim.sim.client.client_checks import takes_assignors
from rebalance_sim.sim.draw import Draw
from rebalance_sim.sim.faults.administrators import OffsetsAlter, OffsetsDelete
from rebalance_sim.sim.faults.brokers import AppendFailure, BrokerCrash
from rebalance_sim.sim.faults.clients import (
    ClientClose,
    ClientCrash,
    ClientPause,
    MetadataLag,
    SubscriptionChange,
)
from rebalance_sim.sim.faults.coordinators import CoordinatorMove, LogCompaction
from rebalance_sim.sim.faults.deployments import ClientRedeploy
from rebalance_sim.sim.faults.fault import Fault
from rebalance_sim.sim.faults.settings import GroupConfigChange
from rebalance_sim.sim.faults.targets import Targets
from rebalance_sim.sim.faults.topics import TopicCreate, TopicRecreate

_DOWN_MS = (200, 3_000)
_LATE = "late"
_SESSION, _HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
_OTHER_PROTOCOL = {
    JAVA: CLASSIC,
    CLASSIC: JAVA,
    LIBRDKAFKA: LIBRDKAFKA_CLASSIC,
    LIBRDKAFKA_CLASSIC: LIBRDKAFKA,
    FRANZ: FRANZ_CLASSIC,
    FRANZ_CLASSIC: FRANZ,
}


def conversion_and_load(draw: Draw, targets: Targets, at_ms: int) -> Iterable[Fault]:
    """One or two clients change over to the other protocol, and back, while the log is cleaned of
    what they leave behind, is moved and is loaded."""
    names = []
    for client in draw.some(targets.clients, 0.4)[:2]:
        to_kind = _OTHER_PROTOCOL[client.kind]
        if not takes_assignors(to_kind, client.assignors):
            continue
        names.append(client.name)
        there_ms = at_ms + draw.between((0, 1_500))
        yield ClientRedeploy(
            at_ms=there_ms,
            client=client.name,
            down_ms=draw.between(_DOWN_MS),
            graceful=draw.chance(0.7),
            to_kind=to_kind,
        )
        if draw.chance(0.5):
            yield ClientRedeploy(
                at_ms=there_ms + draw.between((3_000, 10_000)),
                client=client.name,
                down_ms=draw.between(_DOWN_MS),
                to_kind=client.kind,
            )
    if names:
        yield from _cleaned_and_loaded(draw, targets, at_ms, 12_000)


def change_and_load(draw: Draw, targets: Targets, at_ms: int) -> Iterable[Fault]:
    """Members go and come while the log is cleaned, moved and loaded, in any order."""
    for client in draw.some(targets.clients, 0.5)[:3]:
        down_ms = draw.between(_DOWN_MS)
        yield ClientClose(
            at_ms=at_ms + draw.between((0, 4_000)), client=client.name, down_ms=down_ms
        )
    yield from _cleaned_and_loaded(draw, targets, at_ms, 6_000)


def _cleaned_and_loaded(
    draw: Draw, targets: Targets, at_ms: int, within_ms: int
) -> Iterable[Fault]:
    for _ in range(draw.between((1, 3))):
        clean_ms = at_ms + draw.between((0, within_ms))
        yield LogCompaction(
            at_ms=clean_ms,
            cleaned_percent=draw.pick((100, 100, 60)),
            drops_tombstones=draw.chance(0.7),
        )
        load_ms = clean_ms + draw.between((0, 1_500))
        if draw.chance(0.25):
            yield BrokerCrash(at_ms=load_ms, duration_ms=draw.between((500, 3_000)))
        else:
            yield CoordinatorMove(at_ms=load_ms, keeps_tail=draw.chance(0.5))


def writes_fail_at_joins(draw: Draw, targets: Targets, at_ms: int) -> Iterable[Fault]:
    """The coordinator cannot write for a moment, just when members go, come or convert."""
    client = targets.client(draw)
    down_ms = draw.between((200, 1_000))
    if client.instance_id is None and draw.chance(0.4):
        yield make_static(client, at_ms - draw.between((3_000, 6_000)))
    yield ClientCrash(at_ms=at_ms, client=client.name, down_ms=down_ms)
    if draw.chance(0.3):
        # The very first write of a group.
        yield AppendFailure(at_ms=draw.between((0, 300)), duration_ms=draw.between((20, 1_500)))
    for _ in range(draw.between((1, 3))):
        yield AppendFailure(
            at_ms=at_ms + down_ms + draw.between((0, draw.pick((20, 300, 3_000)))),
            duration_ms=draw.between((1, draw.pick((50, 1_500)))),
        )


def topic_again(draw: Draw, targets: Targets, at_ms: int) -> Iterable[Fault]:
    """A topic is there again under its name with other partitions, while a client has old metadata
    or stands still; the coordinator may load meanwhile."""
    topic, client = draw.pick(targets.topics), targets.client(draw)
    gone_ms = draw.between((1, draw.pick((100, 3_000))))
    length_ms = draw.between((1_000, 10_000))
    if draw.chance(0.6):
        yield MetadataLag(
            at_ms=max(0, at_ms - 500), duration_ms=length_ms + 500, client=client.name
        )
    else:
        yield ClientPause(
            at_ms=max(0, at_ms - 200), duration_ms=min(length_ms, 5_000), client=client.name
        )
    yield TopicRecreate(
        at_ms=at_ms,
        topic=topic.name,
        partition_count=max(1, topic.partition_count + draw.between((-3, 2))),
        down_ms=gone_ms,
    )
    if draw.chance(0.5):
        yield CoordinatorMove(at_ms=at_ms + draw.between((0, gone_ms + 1_000)))


def late_topic(draw: Draw, targets: Targets, at_ms: int) -> Iterable[Fault]:
    """Clients subscribe to a topic that is not there yet; one of them hears of it last."""
    client, other = targets.client(draw), targets.client(draw)
    created_ms = targets.within(at_ms + draw.between((0, 8_000)))
    for reader in (client, other):
        topics = (*targets.read_by(reader), _LATE) if draw.chance(0.6) else (_LATE,)
        subscribed_ms = at_ms + draw.between((0, 2_000))
        yield SubscriptionChange(at_ms=subscribed_ms, client=reader.name, topics=topics)
        yield SubscriptionChange(
            at_ms=targets.within(created_ms + draw.between((4_000, 12_000))),
            client=reader.name,
            topics=targets.read_by(reader),
        )
    yield TopicCreate(at_ms=created_ms, topic=_LATE, partition_count=draw.between((1, 4)))
    if draw.chance(0.6):
        yield MetadataLag(
            at_ms=max(0, created_ms - 500),
            duration_ms=draw.between((1_000, 8_000)),
            client=client.name,
        )


def away_and_altered(draw: Draw, targets: Targets, at_ms: int) -> Iterable[Fault]:
    """All members of a group are away; its offsets are set or deleted; they are back."""
    group = targets.group(draw)
    length_ms = draw.between((2_000, 8_000))
    for client in targets.team(group):
        yield ClientClose(at_ms=at_ms, client=client.name, down_ms=length_ms)
    for _ in range(draw.between((1, 3))):
        topic = draw.pick(targets.topics)
        done_ms = at_ms + draw.between((500, length_ms))
        chosen = tuple(draw.some(range(topic.partition_count), 0.6))
        if draw.chance(0.6):
            offset = draw.between((0, 50))
            yield OffsetsAlter(
                at_ms=done_ms, group=group, topic=topic.name, partitions=chosen, offset=offset
            )
        else:
            yield OffsetsDelete(at_ms=done_ms, group=group, topic=topic.name, partitions=chosen)


def settings_back(draw: Draw, targets: Targets, at_ms: int) -> Iterable[Fault]:
    """Settings of a group are altered and soon taken back, while a member comes, or is silent for
    about as long as one of the two lets it."""
    config = targets.config
    least_ms = config.group_consumer_min_heartbeat_interval_ms
    session = draw.pick(
        (config.group_consumer_min_session_timeout_ms, config.group_consumer_max_session_timeout_ms)
    )
    pair = targets.pair(draw)
    client, other = (targets.client(draw),) * 2 if pair is None else pair
    yield GroupConfigChange(
        at_ms=at_ms,
        group=client.group_id,
        consumer_session_timeout_ms=session,
        consumer_heartbeat_interval_ms=least_ms,
    )
    back_ms = at_ms + draw.between((500, 12_000))
    yield GroupConfigChange(
        at_ms=targets.within(back_ms), group=client.group_id, deletes=(_SESSION, _HEARTBEAT)
    )
    pause_ms = draw.pick((session, config.group_consumer_session_timeout_ms))
    yield ClientPause(
        at_ms=at_ms + draw.between((0, 3_000)),
        duration_ms=max(1, pause_ms + draw.between((-2_000, 500))),
        client=client.name,
    )
    if other is not client:
        yield ClientCrash(
            at_ms=back_ms + draw.between((0, 1_000)),
            client=other.name,
            down_ms=draw.between(_DOWN_MS),
        )
