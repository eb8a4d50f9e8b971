"""Coincidences: a few faults of one client, timed so that one falls into the other.

Faults that are drawn one by one meet like this too, but hardly ever on the same client. A recipe
says what has to meet; a seed says when, and for how long. Each has a random stream of its own, so
that a recipe shifts no other draw.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from rebalance_sim.scenarios.errors import ScenarioError, did_you_mean
from rebalance_sim.scenarios.generate import (
    client_recipes,
    encounters,
    group_recipes,
    member_recipes,
    operation_recipes,
)
from rebalance_sim.scenarios.profile import CoincidenceRule
from rebalance_sim.sim.draw import Draw
from rebalance_sim.sim.faults.broker_config_change import BrokerConfigChange
from rebalance_sim.sim.faults.callback_slowdown import CallbackSlowdown
from rebalance_sim.sim.faults.client_close import ClientClose
from rebalance_sim.sim.faults.client_partition import ClientPartition
from rebalance_sim.sim.faults.client_pause import ClientPause
from rebalance_sim.sim.faults.connection_loss import ConnectionLoss
from rebalance_sim.sim.faults.fault import Fault
from rebalance_sim.sim.faults.poll_stall import PollStall
from rebalance_sim.sim.faults.replication_slowdown import ReplicationSlowdown
from rebalance_sim.sim.faults.subscription_change import SubscriptionChange
from rebalance_sim.sim.faults.targets import FaultTargets
from rebalance_sim.sim.faults.topic_grow import TopicGrow
from rebalance_sim.sim.network.link import Moment
from rebalance_sim.sim.network.network import Direction
from rebalance_sim.sim.spec import ClientSpec
from rebalance_sim.sim.streams import Streams

_WARM_UP_MS = 2_000
_SHORT_MS = (100, 3_000)
_SHORT_PAUSES = (3, 12)
_SHORT_PAUSE_MS = (50, 500)
_DOWN_MS = (200, 8_000)
_CALLBACK_MS = (500, 6_000)
_LONG_INTERVAL_MS = 5_000


Recipe = Callable[[Draw, FaultTargets, int], Iterable[Fault]]


def draw_coincidences(
    rules: tuple[CoincidenceRule, ...], targets: FaultTargets, streams: Streams
) -> tuple[Fault, ...]:
    """The faults of all coincidences of a scenario. Raises ScenarioError for an unknown kind."""
    faults: list[Fault] = []
    for index, rule in enumerate(rules):
        recipe = COINCIDENCES.get(rule.kind)
        if recipe is None:
            raise ScenarioError(
                f"no such kind: {rule.kind!r}; {did_you_mean(rule.kind, COINCIDENCES)}",
                place=f"coincidences[{index}].kind",
            )
        draw = Draw(streams.get(f"generate/coincidence/{rule.kind}"))
        if draw.chance(rule.probability):
            last_ms = targets.duration_ms - 1
            at_ms = draw.between((min(_WARM_UP_MS, last_ms), last_ms))
            faults += (fault for fault in recipe(draw, targets, at_ms) if fault.at_ms <= last_ms)
    return tuple(faults)


def draw_takeovers(targets: FaultTargets, streams: Streams) -> tuple[Fault, ...]:
    """Where two clients share an instance id by mistake, each stands still now and then until it
    has been expelled: the other may have taken its place when it continues."""
    shared = Counter(client.instance_id for client in targets.clients if client.instance_id)
    faults: list[Fault] = []
    for client in targets.clients:
        if client.instance_id is None or shared[client.instance_id] == 1:
            continue
        draw = Draw(streams.get(f"generate/takeover/{client.name}"))
        last_ms = targets.duration_ms - 1
        faults.append(
            ClientPause(
                at_ms=draw.between((min(_WARM_UP_MS, last_ms), last_ms)),
                duration_ms=targets.config.group_consumer_max_session_timeout_ms
                + draw.between(_DOWN_MS),
                client=client.name,
            )
        )
    return tuple(faults)


def draw_short_pauses(targets: FaultTargets, streams: Streams) -> tuple[Fault, ...]:
    """Processes that stand still for a moment, as for garbage collection."""
    draw = Draw(streams.get("generate/short-pauses"))
    return tuple(
        ClientPause(
            at_ms=draw.between((0, targets.duration_ms - 1)),
            duration_ms=draw.between(_SHORT_PAUSE_MS),
            client=targets.client(draw).name,
        )
        for _ in range(draw.between(_SHORT_PAUSES))
    )


def _leave_after_pause(draw: Draw, targets: FaultTargets, at_ms: int) -> Iterable[Fault]:
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
            topics=client.topics or tuple(topic.name for topic in targets.topics),
        )


def _cut_off_while_reconciling(draw: Draw, targets: FaultTargets, at_ms: int) -> Iterable[Fault]:
    """There is something to take over, callbacks take their time, and meanwhile nothing comes
    through: what is reconciled cannot be acknowledged, or comes too late. Some close then."""
    client = targets.client(draw)
    session_ms = targets.config.group_consumer_max_session_timeout_ms
    topics = [t for t in targets.topics if t.name in client.topics] or list(targets.topics)
    topic = draw.pick(topics)
    yield TopicGrow(
        at_ms=at_ms,
        topic=topic.name,
        partition_count=topic.partition_count + draw.between((1, 6)),
    )
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


def _changes_within_interval(draw: Draw, targets: FaultTargets, at_ms: int) -> Iterable[Fault]:
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


def _rejoin_with_less(draw: Draw, targets: FaultTargets, at_ms: int) -> Iterable[Fault]:
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


def _subscribe_while_revoking(draw: Draw, targets: FaultTargets, at_ms: int) -> Iterable[Fault]:
    """A client comes back, the others have to make room for it, and their commits take long. One
    changes its subscription meanwhile."""
    client, other = targets.client(draw), targets.client(draw)
    yield ClientClose(at_ms=max(0, at_ms - 1_000), client=other.name, down_ms=1_000)
    yield ReplicationSlowdown(
        at_ms=at_ms, duration_ms=draw.between((4_000, 12_000)), factor=draw.pick((50, 200, 1_000))
    )
    yield from _other_topics(draw, targets, client, at_ms + draw.between((500, 6_000)))


def _other_topics(
    draw: Draw, targets: FaultTargets, client: ClientSpec, at_ms: int
) -> Iterable[SubscriptionChange]:
    names = [topic.name for topic in targets.topics]
    yield SubscriptionChange(at_ms=at_ms, client=client.name, topics=tuple(draw.some(names, 0.4)))
    yield SubscriptionChange(
        at_ms=at_ms + draw.between(_DOWN_MS),
        client=client.name,
        topics=client.topics or tuple(names),
    )


COINCIDENCES: Mapping[str, Recipe] = {
    **{
        recipe.__name__: recipe
        for recipe in (
            client_recipes.failed_look_ups,
            client_recipes.growth_in_rebalance,
            client_recipes.other_application,
            client_recipes.pattern_to_names,
            client_recipes.unsubscribed_in_rebalance,
            encounters.all_by_pattern,
            encounters.back_before_answer,
            encounters.cleaned_while_loading,
            encounters.missed_conversion,
            encounters.missed_generation,
            encounters.static_again_in_rebalance,
            group_recipes.deleted_under_pattern,
            group_recipes.growth_unwritten,
            group_recipes.retention_over,
            group_recipes.seat_of_pattern,
            member_recipes.brief_visit,
            member_recipes.lost_answers,
            member_recipes.lost_leave,
            member_recipes.removed_while_joining,
            member_recipes.silent_in_rebalance,
            member_recipes.successor,
            member_recipes.timer_race,
            member_recipes.wrong_setting,
            operation_recipes.away_and_altered,
            operation_recipes.change_and_load,
            operation_recipes.conversion_and_load,
            operation_recipes.late_topic,
            operation_recipes.settings_back,
            operation_recipes.topic_again,
            operation_recipes.writes_fail_at_joins,
        )
    },
    "changes_within_interval": _changes_within_interval,
    "leave_after_pause": _leave_after_pause,
    "cut_off_while_reconciling": _cut_off_while_reconciling,
    "rejoin_with_less": _rejoin_with_less,
    "subscribe_while_revoking": _subscribe_while_revoking,
}
"""Every coincidence that a profile may ask for."""
