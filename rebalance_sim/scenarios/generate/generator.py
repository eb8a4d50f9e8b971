"""From a profile and a seed to a scenario.

Swarm style: each seed first picks which features and which kinds of faults it has at all, then how
much of each. A scenario with few kinds of faults reaches states that one with all of them hides.
Source: Groce et al., "Swarm Testing" (2012).
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rebalance_sim.protocol.clients.kinds import JAVA, LIBRDKAFKA
from rebalance_sim.protocol.runtime.coordinator_config import CoordinatorConfig
from rebalance_sim.protocol.versions.semantics import SEMANTICS
from rebalance_sim.scenarios.codec import encode
from rebalance_sim.scenarios.compare import with_protocol
from rebalance_sim.scenarios.errors import ScenarioError
from rebalance_sim.scenarios.generate.applications import (
    draw_applications,
    draw_outputs,
    move_transactions,
)
from rebalance_sim.scenarios.generate.classic_clients import (
    ClassicSetup,
    speaks_classic,
)
from rebalance_sim.scenarios.generate.client_assignors import (
    DrawnAssignors,
    keep_some_computing,
)
from rebalance_sim.scenarios.generate.coincidences import (
    draw_coincidences,
    draw_short_pauses,
    draw_takeovers,
)
from rebalance_sim.scenarios.generate.faults import draw_faults
from rebalance_sim.scenarios.generate.franz_clients import draw_franz
from rebalance_sim.scenarios.generate.records import (
    draw_records,
    keep_some_polling,
)
from rebalance_sim.scenarios.generate.variety import ZONES, spread, vary, vary_processing
from rebalance_sim.scenarios.profile import (
    TOPIC_NAMES,
    Features,
    Profile,
    check_repairs,
    check_version,
    has_client_assignors,
    load_profile,
    profile_of,
)
from rebalance_sim.scenarios.profile_file import built_in, is_scenario
from rebalance_sim.scenarios.protocol_settings import check_compared
from rebalance_sim.scenarios.scenario import Scenario, scenario_of
from rebalance_sim.scenarios.settings import apply_settings
from rebalance_sim.scenarios.toml import parse_toml
from rebalance_sim.scenarios.variant import Variant
from rebalance_sim.sim.broker.event_processing_spec import EventProcessingSpec
from rebalance_sim.sim.draw import Draw
from rebalance_sim.sim.faults.targets import Targets
from rebalance_sim.sim.spec import (
    BrokerSpec,
    ClientSpec,
    DelaySpec,
    NetworkSpec,
    OffsetReset,
    TopicSpec,
    WorldSpec,
)
from rebalance_sim.sim.streams import Streams

_GROUP_NAMES = ("audit", "billing", "mirror", "search", "statistics")
"""With two to five partitions, some of them share one with each other or with ``group``."""

_STATIC_SHARE = 0.6
_VOTE_SHARE = 0.7
_PATTERN_SHARE = 0.6
_SUBSCRIPTION_SHARE = 0.6
_MANUAL_COMMIT_SHARE = 0.5
_SLOW_CALLBACK_SHARE = 0.5
_LIBRDKAFKA_SHARE = 0.5
_INSTANCES_SHARE = 0.5
_SLOW_LOAD_SHARE = 0.2

_EVENT_PROCESSING = EventProcessingSpec(
    other_us=200, join_group_us=1_000, offset_commit_us=400, assignor_ns=50
)
_LOAD_RECORDS_PER_SECOND = 50_000
_ADMIN_INTERVALS_MS = (500, 2_000, 10_000)

_START_WITHIN_MS = 500
_FURTHER_GROUPS = (1, 2)
_BETWEEN_ZONES_MS = (1, 2)
_MEMBERS_TO_SPARE = (1, 4)
_FURTHER_CLIENTS = (1, 3)


def generate(variant: Variant | Path | str, seed: int | str) -> Scenario:
    """The scenario of this variant, or profile, and seed; always the same one for the same code.

    A profile may be a file that is a whole scenario: then the seed is all that differs. Raises
    ScenarioError for an unknown profile, version or protocol, for a repair of something that no
    version of the profile has, and for whatever is wrong with a file or a setting.
    """
    variant, seed = Variant.of(variant), _seed(seed)
    try:
        if variant.protocol:
            check_compared(variant.settings)
        scenario = _scenario_of(variant, seed)
    except ScenarioError as problem:
        if variant.text:
            raise problem.within(variant.profile) from None
        raise
    except ValueError as problem:  # a value of the scenario checks itself
        raise ScenarioError(
            f"makes no scenario of seed {seed}: {problem}", source=variant.profile
        ) from problem
    return with_protocol(scenario, variant.protocol) if variant.protocol else scenario


def _seed(seed: object) -> int:
    """A seed as a person would write it. Raises ScenarioError."""
    if isinstance(seed, str) and seed.isdecimal():
        return int(seed)
    number = seed.__index__() if hasattr(seed, "__index__") else None
    if not isinstance(number, int) or isinstance(seed, bool) or number < 0:
        raise ScenarioError(f"seed {seed!r}: give a whole number from 0 on")
    return number


def _scenario_of(variant: Variant, seed: int) -> Scenario:
    """The scenario, but for the protocol."""
    data = _tables(variant)
    if is_scenario(data):
        scenario = scenario_of(data, variant.settings, seed=seed)
        if variant.semantics:
            check_version(variant.semantics)
            scenario = replace(scenario, world=replace(scenario.world, semantics=variant.semantics))
        check_repairs(variant.repairs, (scenario.world.semantics,))
    else:
        profile = _profile_of(variant)
        if variant.semantics:
            profile = profile.simulating(variant.semantics)
        check_repairs(variant.repairs, profile.semantics)
        scenario = generate_from(profile, seed)
        settings = [one for one in variant.settings if one.is_of_scenario]
        if settings:
            scenario = scenario_of(encode(scenario), settings, seed=seed)
    has = SEMANTICS[scenario.world.semantics].can_repair
    return scenario.without(*filter(has, variant.repairs)) if variant.repairs else scenario


@functools.lru_cache(maxsize=64)
def _tables(variant: Variant) -> Mapping[str, Any]:
    return parse_toml(variant.text) if variant.text else built_in(variant.profile)


@functools.lru_cache(maxsize=64)
def _profile_of(variant: Variant) -> Profile:
    """The profile, with what is set of it."""
    settings = [one for one in variant.settings if not one.is_of_scenario]
    if not variant.text and not settings:
        return load_profile(variant.profile)
    return profile_of(apply_settings(_tables(variant), settings))


def generate_from(profile: Profile, seed: int) -> Scenario:
    """The scenario that a given profile and seed make."""
    draw = _Drawing(profile, seed)
    topics = draw.topics()
    duration_ms = draw.timing.between(profile.timings.duration_ms)
    config = draw.config()
    clients = draw.clients(topics, duration_ms)
    if speaks_classic(draw.features, profile.faults):
        classic = ClassicSetup(draw.features, draw.streams)
        config = classic.config(config)
        clients = classic.clients(clients, config)
    clients = draw.instances(vary(draw.features, draw.streams, clients))
    clients = draw_franz(draw.features, draw.streams, clients)
    has_data_plane, topics, clients = draw_records(draw.features, draw.streams, topics, clients)
    brokers = draw.brokers()
    semantics = draw.shape.pick(profile.semantics)
    if has_client_assignors(semantics):
        clients = draw.client_assignors(clients)
    targets = Targets(
        clients=clients,
        topics=topics,
        broker_count=brokers.count,
        offsets_partition_count=brokers.offsets_partition_count,
        duration_ms=duration_ms,
        config=config,
        has_assignment_interval=SEMANTICS[semantics].coordinator.has_assignment_interval,
    )
    faults = draw_faults(
        profile.faults, targets, draw.streams, is_clustered="clustered_faults" in draw.features
    )
    faults += draw_coincidences(profile.coincidences, targets, draw.streams)
    if "shared_instances" in draw.features:
        faults += draw_takeovers(targets, draw.streams)
    if "short_pauses" in draw.features:
        faults += draw_short_pauses(targets, draw.streams)
    if has_data_plane:
        clients = keep_some_polling(clients, faults)
    topics, clients = draw_applications(
        draw.features, draw.streams, topics, clients, has_data_plane=has_data_plane
    )
    faults = move_transactions(draw.streams, clients, faults)
    if has_data_plane:
        topics, clients = draw_outputs(draw.features, draw.streams, topics, clients, faults)
    clients = vary_processing(draw.features, draw.streams, clients)
    clients = spread(draw.features, clients)
    clients = keep_some_computing(clients, faults)
    world = WorldSpec(
        seed=seed,
        topics=topics,
        clients=clients,
        duration_ms=duration_ms,
        semantics=semantics,
        config=draw.size_limit(config, clients),
        network=draw.network(),
        brokers=brokers,
        faults=tuple(sorted(faults, key=lambda fault: fault.at_ms)),
        admin_interval_ms=draw.admin_interval_ms(),
        data_plane=has_data_plane,
    )
    return Scenario(name=f"{profile.name}-{seed}", profile=profile.name, world=world)


class _Drawing:
    """What a profile and a seed make of each part of a world."""

    def __init__(self, profile: Profile, seed: int) -> None:
        self._sizes = profile.sizes
        self._timings = profile.timings
        self.streams = Streams(seed)
        self.features = self._draw_features(profile.features)
        self.shape = Draw(self.streams.get("generate/shape"))
        self.timing = Draw(self.streams.get("generate/timing"))
        self._is_large = self.shape.chance(profile.sizes.large_probability)

    def _draw_features(self, features: Features) -> frozenset[str]:
        draw = Draw(self.streams.get("generate/features"))
        return frozenset(
            name for name in features.__slots__ if draw.chance(getattr(features, name))
        )

    @property
    def _has_zones(self) -> bool:
        return "zones" in self.features

    def topics(self) -> tuple[TopicSpec, ...]:
        """Few topics, mostly small."""
        sizes, draw = self._sizes, self.shape
        partitions = sizes.large_partitions if self._is_large else sizes.partitions
        return tuple(
            TopicSpec(
                name=name,
                partition_count=draw.between(partitions),
                records_per_second=draw.pick(sizes.records_per_second),
                replication_factor=len(ZONES) if self._has_zones else 1,
            )
            for name in TOPIC_NAMES[: draw.between(sizes.topics)]
        )

    def config(self) -> CoordinatorConfig:
        """The broker's settings; a session holds at least two heartbeats, or a single lost one
        would end it."""
        timings, draw = self._timings, self.timing
        session_ms = draw.pick(timings.session_timeout_ms)
        intervals = [ms for ms in timings.heartbeat_interval_ms if 2 * ms < session_ms]
        heartbeat_ms = draw.pick(intervals or [session_ms // 3])
        has_room = "alterable_settings" in self.features
        return CoordinatorConfig(
            group_consumer_session_timeout_ms=session_ms,
            group_consumer_min_session_timeout_ms=session_ms // 2 if has_room else session_ms,
            group_consumer_max_session_timeout_ms=session_ms * 2 if has_room else session_ms,
            group_consumer_heartbeat_interval_ms=heartbeat_ms,
            group_consumer_min_heartbeat_interval_ms=heartbeat_ms,
            group_consumer_assignment_interval_ms=draw.pick(timings.assignment_interval_ms),
            **self._retention(),
            **self._linger(),
        )

    def _retention(self) -> dict[str, Any]:
        """Offsets expire after the shortest time there is, and somebody looks often."""
        if "short_retention" not in self.features:
            return {}
        draw = Draw(self.streams.get("generate/retention"))
        return {
            "offsets_retention_minutes": 1,
            "offsets_retention_check_interval_ms": draw.pick((1_000, 5_000, 20_000)),
        }

    def _linger(self) -> dict[str, Any]:
        """As long as Kafka's versions wait, and longer than most replication takes."""
        if "append_linger" not in self.features:
            return {}
        draw = Draw(self.streams.get("generate/linger"))
        return {"group_coordinator_append_linger_ms": draw.pick((-1, 5, 10, 50))}

    def size_limit(
        self, config: CoordinatorConfig, clients: tuple[ClientSpec, ...]
    ) -> CoordinatorConfig:
        """A group, the largest one, whose maximum size is the number of its clients."""
        if "full_group" not in self.features:
            return config
        largest = max(Counter(client.group_id for client in clients).values())
        sizes: dict[str, Any] = {"group_consumer_max_size": largest, "group_max_size": largest}
        if "limits_apart" in self.features:
            draw = Draw(self.streams.get("generate/limits-apart"))
            sizes[draw.pick(tuple(sizes))] += draw.between(_MEMBERS_TO_SPARE)
        return replace(config, **sizes)

    def instances(self, clients: tuple[ClientSpec, ...]) -> tuple[ClientSpec, ...]:
        """In some of the groups of maximum size each client is a static member."""
        if "full_group" not in self.features:
            return clients
        if not Draw(self.streams.get("generate/seats")).chance(_INSTANCES_SHARE):
            return clients
        return tuple(
            replace(client, instance_id=client.instance_id or f"seat-{client.name}")
            for client in clients
        )

    def _load(self) -> DelaySpec:
        """How long a new leader reads; some have a long log."""
        draw = Draw(self.streams.get("generate/load"))
        if not draw.chance(_SLOW_LOAD_SHARE):
            return BrokerSpec().load
        return DelaySpec(min_ms=100, max_ms=draw.pick((500, 1_500)))

    def brokers(self) -> BrokerSpec:
        """How many, and how fast they replicate and load."""
        of_groups = Draw(self.streams.get("generate/offsets-partitions"))
        in_sync = Draw(self.streams.get("generate/min-insync"))
        takes_time = "event_processing" in self.features
        return BrokerSpec(
            count=self.shape.pick(self._sizes.brokers),
            offsets_partition_count=of_groups.pick(self._sizes.offsets_partitions),
            replication=DelaySpec(
                min_ms=1, max_ms=self.timing.pick(self._timings.replication_max_ms)
            ),
            load=self._load(),
            min_insync_replicas=in_sync.pick(self._sizes.min_insync_replicas),
            racks=ZONES if self._has_zones else (),
            event_processing=_EVENT_PROCESSING if takes_time else None,
            load_records_per_second=_LOAD_RECORDS_PER_SECOND if takes_time else None,
        )

    def admin_interval_ms(self) -> int | None:
        """How often somebody looks at the groups, if anybody does."""
        if "admin" not in self.features:
            return None
        return Draw(self.streams.get("generate/admin")).pick(_ADMIN_INTERVALS_MS)

    def network(self) -> NetworkSpec:
        """How far away the clients are."""
        max_ms = self.timing.pick(self._timings.latency_max_ms)
        tail = Draw(self.streams.get("generate/latency-tail"))
        tail_ms = tail.pick(self._timings.latency_tail_ms)
        between_ms = 0
        if self._has_zones:
            between_ms = Draw(self.streams.get("generate/zones")).pick(_BETWEEN_ZONES_MS)
        return NetworkSpec(
            latency=DelaySpec(min_ms=1, max_ms=max_ms, tail_ms=tail_ms),
            between_racks_ms=between_ms,
        )

    def clients(self, topics: tuple[TopicSpec, ...], duration_ms: int) -> tuple[ClientSpec, ...]:
        """Clients of one application: alike in their timings, different in the rest."""
        sizes = self._sizes
        count = self.shape.between(sizes.large_clients if self._is_large else sizes.clients)
        poll_timeout = Draw(self.streams.get("generate/poll-timeout"))
        alike = ClientSpec(
            name="all",
            topics=tuple(topic.name for topic in topics),
            max_poll_interval_ms=self.timing.pick(self._timings.max_poll_interval_ms),
            request_timeout_ms=self.timing.pick(self._timings.request_timeout_ms),
            processing_ms=self.timing.pick(self._timings.processing_ms),
            poll_timeout_ms=poll_timeout.pick(self._timings.poll_timeout_ms),
        )
        latest_ms = duration_ms // 2 if "staggered_start" in self.features else _START_WITHIN_MS
        groups = [None] * count + self._further_groups()
        clients = [
            replace(self._client(alike, index, latest_ms), group_id=group_id)
            for index, group_id in enumerate(groups)
        ]
        if "shared_instances" in self.features:
            self._share_an_instance(clients, count)
        return tuple(clients)

    def _share_an_instance(self, clients: list[ClientSpec], count: int) -> None:
        """Give two of the first group's clients one instance id. Only one of them can be a member
        at a time; the other gets an error, fails, and is started again."""
        draw = Draw(self.streams.get("generate/shared-instances"))
        one = draw.between((0, count - 1))
        other = (one + draw.between((1, max(1, count - 1)))) % count
        shared = clients[one].instance_id or f"instance-{one:02d}"
        restart_ms = draw.pick((5_000, 2_000, 10_000))
        for index in {one, other}:
            clients[index] = replace(
                clients[index], instance_id=shared, restart_after_fatal_ms=restart_ms
            )

    def client_assignors(self, clients: tuple[ClientSpec, ...]) -> tuple[ClientSpec, ...]:
        """Clients with assignors of their own: only Java's have any, and who offers some has no
        vote on those of the broker."""
        if "client_assignors" not in self.features:
            return clients
        drawn = DrawnAssignors(self.streams, len(clients))
        offers = (drawn.of(index, client.name) for index, client in enumerate(clients))
        return tuple(
            client
            if offer is None or client.kind != JAVA
            else replace(client, server_assignor=None, client_assignors=offer)
            for client, offer in zip(clients, offers, strict=True)
        )

    def _further_groups(self) -> list[str | None]:
        """The groups of clients beside those of the world's own group: smaller ones."""
        if "several_groups" not in self.features:
            return []
        draw = Draw(self.streams.get("generate/groups"))
        names = list(_GROUP_NAMES)
        found: list[str | None] = []
        for _ in range(draw.between(_FURTHER_GROUPS)):
            name = draw.pick(names)
            names.remove(name)
            found += [name] * draw.between(_FURTHER_CLIENTS)
        return found

    def _client(self, alike: ClientSpec, index: int, latest_start_ms: int) -> ClientSpec:
        draw = Draw(self.streams.get(f"generate/client/{index}"))
        is_static = self._has("static_members", draw, _STATIC_SHARE)
        votes = self._has("assignor_votes", draw, _VOTE_SHARE)
        is_mixed = "mixed_subscriptions" in self.features
        kind = self._kind(index)
        names = tuple(draw.some(alike.topics, _SUBSCRIPTION_SHARE)) if is_mixed else alike.topics
        by_pattern = self._has("pattern_subscriptions", draw, _PATTERN_SHARE)
        is_manual = self._has("no_auto_commit", draw, _MANUAL_COMMIT_SHARE)
        return replace(
            alike,
            name=f"client-{index:02d}",
            topics=() if by_pattern else names,
            topic_regex=draw.pick((".*", "|".join(names))) if by_pattern else None,
            start_ms=draw.between((0, latest_start_ms)),
            instance_id=f"instance-{index:02d}" if is_static else None,
            server_assignor=draw.pick(("uniform", "range")) if votes else None,
            callback=self._callback(draw),
            enable_auto_commit=not is_manual,
            auto_commit_interval_ms=draw.pick(self._timings.auto_commit_interval_ms),
            auto_offset_reset=draw.pick(tuple(OffsetReset)),
            uses_topic_ids=self._naming(index, kind),
            kind=kind,
        )

    def _naming(self, index: int, kind: str) -> bool | None:
        """How a client names topics in offset requests. Librdkafka knows no ids."""
        if "topic_ids_in_offsets" not in self.features:
            return None
        if kind == LIBRDKAFKA:
            return False
        return Draw(self.streams.get(f"generate/naming/{index}")).pick((True, True, False))

    def _kind(self, index: int) -> str:
        """The library of a client, from a stream of its own: nothing else depends on it."""
        draw = Draw(self.streams.get(f"generate/kind/{index}"))
        return LIBRDKAFKA if self._has("librdkafka_clients", draw, _LIBRDKAFKA_SHARE) else JAVA

    def _callback(self, draw: Draw) -> DelaySpec:
        if not self._has("slow_callbacks", draw, _SLOW_CALLBACK_SHARE):
            return DelaySpec(min_ms=0)
        timings = self._timings
        max_ms, tail_ms = draw.pick(timings.callback_max_ms), draw.pick(timings.callback_tail_ms)
        return DelaySpec(min_ms=0, max_ms=max_ms, tail_ms=tail_ms)

    def _has(self, feature: str, draw: Draw, share: float) -> bool:
        """Whether one client takes part in a feature of the scenario."""
        return feature in self.features and draw.chance(share)
