"""Coincidences of one client that is in the middle of something."""

from __future__ import annotations

from collections.abc import Iterable

from rebalance_sim.scenarios.generate.recipes._steps import grown
from rebalance_sim.sim.client.client_spec import ClientSpec
from rebalance_sim.sim.draw import Draw
from rebalance_sim.sim.faults.brokers import ReplicationSlowdown
from rebalance_sim.sim.faults.clients import (
    CallbackSlowdown,
    ClientClose,
    ClientPause,
    PollStall,
    SubscriptionChange,
)
from rebalance_sim.sim.faults.connections import ClientPartition, ConnectionLoss
from rebalance_sim.sim.faults.fault import Fault
from rebalance_sim.sim.faults.settings import BrokerConfigChange
from rebalance_sim.sim.faults.targets import Targets
from rebalance_sim.sim.network.link import Moment
from rebalance_sim.sim.network.network import Direction

_SHORT_MS = (100, 3_000)
_DOWN_MS = (200, 8_000)
_CALLBACK_MS = (500, 6_000)
_LONG_INTERVAL_MS = 5_000


def leave_after_pause(draw: Draw, targets: Targets, at_ms: int) -> Iterable[Fault]:
    """A process stands still until it has been expelled, and is to leave as soon as it runs: it
    learns that it is no member while it revokes its partitions."""
    client = targets.client(draw)
    name = client.name
    pause_ms = targets.config.group_consumer_max_session_timeout_ms + draw.between(_SHORT_MS)
    callback_ms = draw.between(_CALLBACK_MS)
    yield ClientPause(at_ms=at_ms, duration_ms=pause_ms, client=name)
    yield CallbackSlowdown(
        at_ms=at_ms, duration_ms=pause_ms + callback_ms, client=name, callback_ms=callback_ms
    )
    leave_ms, down_ms = at_ms + pause_ms - 1, draw.between(_DOWN_MS)
    if draw.chance(0.5):
        yield ClientClose(at_ms=leave_ms, client=name, down_ms=down_ms)
    else:
        yield SubscriptionChange(at_ms=leave_ms, client=name)
        yield SubscriptionChange(
            at_ms=min(leave_ms + down_ms, targets.duration_ms - 1),
            client=name,
            topics=targets.read_by(client),
        )


def cut_off_while_reconciling(draw: Draw, targets: Targets, at_ms: int) -> Iterable[Fault]:
    """There is something to take over, callbacks take their time, and meanwhile nothing comes
    through: what is reconciled cannot be acknowledged, or comes too late. Some close then."""
    client = targets.client(draw)
    session_ms = targets.config.group_consumer_max_session_timeout_ms
    topics = [t for t in targets.topics if t.name in client.topics] or list(targets.topics)
    topic = draw.pick(topics)
    yield grown(topic, at_ms, draw, 6)
    callback_ms = draw.between(_CALLBACK_MS)
    cut_ms = at_ms + draw.between((0, targets.config.group_consumer_heartbeat_interval_ms + 2_000))
    length_ms = draw.between((1_000, session_ms + 4_000))
    yield CallbackSlowdown(
        at_ms=at_ms,
        duration_ms=cut_ms - at_ms + length_ms,
        client=client.name,
        callback_ms=callback_ms,
    )
    yield ClientPartition(
        at_ms=cut_ms,
        duration_ms=length_ms,
        client=client.name,
        direction=draw.pick((Direction.BOTH, *Direction)),
    )
    close_ms, down_ms = cut_ms + draw.between((0, length_ms)), draw.between(_DOWN_MS)
    if draw.chance(0.5):
        yield ClientClose(at_ms=close_ms, client=client.name, down_ms=down_ms)


def changes_within_interval(draw: Draw, targets: Targets, at_ms: int) -> Iterable[Fault]:
    """Targets are rare, and two clients change their subscriptions soon after each other: the
    second one drops a topic while the target that gives it is in force for a while yet."""
    first, second = draw.pick(targets.clients), draw.pick(targets.clients)
    if targets.has_assignment_interval:
        yield BrokerConfigChange(
            at_ms=max(0, at_ms - draw.between(_SHORT_MS)),
            group_consumer_assignment_interval_ms=draw.pick((_LONG_INTERVAL_MS, 10_000)),
        )
    later_ms = at_ms + draw.between((200, _LONG_INTERVAL_MS))
    yield from _other_topics(draw, targets, first, at_ms)
    yield from _other_topics(draw, targets, second, later_ms)


def rejoin_with_less(draw: Draw, targets: Targets, at_ms: int) -> Iterable[Fault]:
    """An application stays away for too long, the leave is lost, and it comes back with fewer
    topics: it joins as a member that there still is, and has let go of everything."""
    client = targets.client(draw)
    away_ms = client.max_poll_interval_ms
    expiry_ms = at_ms + away_ms
    late_ms = targets.config.group_consumer_heartbeat_interval_ms + draw.between((100, 2_000))
    if targets.has_assignment_interval:
        yield BrokerConfigChange(
            at_ms=max(0, expiry_ms - draw.between((5_000, 8_000))),
            group_consumer_assignment_interval_ms=10_000,
        )
    other = draw.pick(targets.clients)
    other_ms = max(0, expiry_ms - draw.between((1_000, 5_000)))
    yield PollStall(at_ms=at_ms, duration_ms=away_ms + late_ms, client=client.name)
    yield ConnectionLoss(at_ms=expiry_ms, client=client.name, moment=Moment.BEFORE_REQUEST)
    if other is not client:
        yield from _other_topics(draw, targets, other, other_ms)
    yield from _other_topics(draw, targets, client, expiry_ms + late_ms)


def subscribe_while_revoking(draw: Draw, targets: Targets, at_ms: int) -> Iterable[Fault]:
    """A client comes back, the others have to make room for it, and their commits take long. One
    changes its subscription meanwhile."""
    client, other = targets.client(draw), targets.client(draw)
    yield ClientClose(at_ms=max(0, at_ms - 1_000), client=other.name, down_ms=1_000)
    yield ReplicationSlowdown(
        at_ms=at_ms, duration_ms=draw.between((4_000, 12_000)), factor=draw.pick((50, 200, 1_000))
    )
    yield from _other_topics(draw, targets, client, at_ms + draw.between((500, 6_000)))


def _other_topics(
    draw: Draw, targets: Targets, client: ClientSpec, at_ms: int
) -> Iterable[SubscriptionChange]:
    names = targets.topic_names
    yield SubscriptionChange(at_ms=at_ms, client=client.name, topics=tuple(draw.some(names, 0.4)))
    yield SubscriptionChange(
        at_ms=at_ms + draw.between(_DOWN_MS),
        client=client.name,
        topics=targets.read_by(client),
    )
