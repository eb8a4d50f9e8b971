"""From a profile and a seed to a scenario.

Swarm style: each seed first picks which features and which kinds of faults it has at all, then how
much of each. A scenario with few kinds of faults reaches states that one with all of them hides.
Source: Groce et al., "Swarm Testing" (2012).
"""

from __future__ import annotations

from collections.abc import Sequence

from protocol.config import CoordinatorConfig
from scenarios.draw import Draw
from scenarios.generate_faults import FaultCast, draw_faults
from scenarios.profile import Features, Profile, load_profile
from scenarios.scenario import Scenario
from sim.spec import (
    BrokerSpec,
    ClientSpec,
    DelaySpec,
    NetworkSpec,
    OffsetReset,
    TopicSpec,
    WorldSpec,
)
from sim.streams import Streams

__all__ = ["generate", "generate_from"]

_TOPIC_NAMES = ("orders", "payments", "shipments", "returns")
_STATIC_SHARE = 0.6
_VOTE_SHARE = 0.7
_PATTERN_SHARE = 0.6
_SUBSCRIPTION_SHARE = 0.6
_MANUAL_COMMIT_SHARE = 0.5
_SLOW_CALLBACK_SHARE = 0.5

_CALM_INTERVALS = 4
_LOAD_MS = 2_000


def generate(profile: str, seed: int) -> Scenario:
    """The scenario of this profile and seed; always the same one for the same code.

    Raises ScenarioError for an unknown profile.
    """
    return generate_from(load_profile(profile), seed)


def generate_from(profile: Profile, seed: int) -> Scenario:
    """The scenario that a given profile and seed make."""
    streams = Streams(seed)
    features = _draw_features(profile.features, Draw(streams.get("generate/features")))
    shape = Draw(streams.get("generate/shape"))
    timing = Draw(streams.get("generate/timing"))
    is_large = shape.chance(profile.sizes.large_probability)
    topics = _draw_topics(profile, shape, is_large=is_large)
    duration_ms = timing.between(profile.timings.duration_ms)
    config = _draw_config(profile, timing)
    clients = _draw_clients(
        profile, features, topics, duration_ms, shape, timing, streams, is_large=is_large
    )
    brokers = BrokerSpec(
        count=shape.pick(profile.sizes.brokers),
        replication=DelaySpec(min_ms=1, max_ms=timing.pick(profile.timings.replication_max_ms)),
    )
    cast = FaultCast(
        clients=clients, topics=topics, broker_count=brokers.count, duration_ms=duration_ms
    )
    world = WorldSpec(
        seed=seed,
        topics=topics,
        clients=clients,
        duration_ms=duration_ms,
        calm_ms=_calm_ms(config, clients),
        semantics=shape.pick(profile.semantics),
        config=config,
        network=NetworkSpec(
            latency=DelaySpec(min_ms=1, max_ms=timing.pick(profile.timings.latency_max_ms))
        ),
        brokers=brokers,
        faults=draw_faults(
            profile.faults, cast, streams, is_clustered="clustered_faults" in features
        ),
    )
    return Scenario(name=f"{profile.name}-{seed}", profile=profile.name, world=world)


def _draw_features(features: Features, draw: Draw) -> frozenset[str]:
    return frozenset(name for name in features.__slots__ if draw.chance(getattr(features, name)))


def _draw_topics(profile: Profile, draw: Draw, *, is_large: bool) -> tuple[TopicSpec, ...]:
    sizes = profile.sizes
    partitions = sizes.large_partitions if is_large else sizes.partitions
    return tuple(
        TopicSpec(
            name=name,
            partition_count=draw.between(partitions),
            records_per_second=draw.pick(sizes.records_per_second),
        )
        for name in _TOPIC_NAMES[: draw.between(sizes.topics)]
    )


def _draw_config(profile: Profile, draw: Draw) -> CoordinatorConfig:
    timings = profile.timings
    session_ms = draw.pick(timings.session_timeout_ms)
    # A session holds at least two heartbeats, or a single lost one would end it.
    intervals = [ms for ms in timings.heartbeat_interval_ms if 2 * ms < session_ms]
    heartbeat_ms = draw.pick(intervals or [session_ms // 3])
    return CoordinatorConfig(
        group_consumer_session_timeout_ms=session_ms,
        group_consumer_min_session_timeout_ms=session_ms,
        group_consumer_max_session_timeout_ms=session_ms,
        group_consumer_heartbeat_interval_ms=heartbeat_ms,
        group_consumer_min_heartbeat_interval_ms=heartbeat_ms,
        group_consumer_assignment_interval_ms=draw.pick(timings.assignment_interval_ms),
    )


def _draw_clients(
    profile: Profile,
    features: frozenset[str],
    topics: tuple[TopicSpec, ...],
    duration_ms: int,
    shape: Draw,
    timing: Draw,
    streams: Streams,
    *,
    is_large: bool,
) -> tuple[ClientSpec, ...]:
    sizes = profile.sizes
    count = shape.between(sizes.large_clients if is_large else sizes.clients)
    max_poll_interval_ms = timing.pick(profile.timings.max_poll_interval_ms)
    request_timeout_ms = timing.pick(profile.timings.request_timeout_ms)
    poll_interval_ms = timing.pick(profile.timings.poll_interval_ms)
    names = [topic.name for topic in topics]
    clients = []
    for index in range(count):
        draw = Draw(streams.get(f"generate/client/{index}"))
        is_static = "static_members" in features and draw.chance(_STATIC_SHARE)
        votes = "assignor_votes" in features and draw.chance(_VOTE_SHARE)
        mixed = "mixed_subscriptions" in features
        subscribed = draw.some(names, _SUBSCRIPTION_SHARE) if mixed else names
        by_pattern = "pattern_subscriptions" in features and draw.chance(_PATTERN_SHARE)
        is_manual = "no_auto_commit" in features and draw.chance(_MANUAL_COMMIT_SHARE)
        latest_ms = duration_ms // 2 if "staggered_start" in features else 500
        clients.append(
            ClientSpec(
                name=f"client-{index:02d}",
                topics=() if by_pattern else tuple(subscribed),
                topic_regex=_draw_regex(draw, subscribed) if by_pattern else None,
                start_ms=draw.between((0, latest_ms)),
                instance_id=f"instance-{index:02d}" if is_static else None,
                server_assignor=draw.pick(("uniform", "range")) if votes else None,
                poll_interval_ms=poll_interval_ms,
                callback=_draw_callback(features, draw),
                max_poll_interval_ms=max_poll_interval_ms,
                enable_auto_commit=not is_manual,
                auto_commit_interval_ms=draw.pick((1_000, 5_000)),
                request_timeout_ms=request_timeout_ms,
                auto_offset_reset=draw.pick(tuple(OffsetReset)),
            )
        )
    return tuple(clients)


def _draw_regex(draw: Draw, names: Sequence[str]) -> str:
    return draw.pick((".*", "|".join(names)))


def _draw_callback(features: frozenset[str], draw: Draw) -> DelaySpec:
    if "slow_callbacks" not in features or not draw.chance(_SLOW_CALLBACK_SHARE):
        return DelaySpec(min_ms=0)
    return DelaySpec(min_ms=0, max_ms=draw.pick((50, 500, 2_000)), tail_ms=draw.pick((0, 0, 200)))


def _calm_ms(config: CoordinatorConfig, clients: tuple[ClientSpec, ...]) -> int:
    """Long enough for every bound of ``invariants.liveness``, and for the last load before it."""
    return (
        config.group_consumer_max_session_timeout_ms
        + _CALM_INTERVALS * config.group_consumer_heartbeat_interval_ms
        + config.group_consumer_assignment_interval_ms
        + max(client.request_timeout_ms for client in clients)
        + max(client.max_poll_interval_ms for client in clients)
        + _LOAD_MS
    )
