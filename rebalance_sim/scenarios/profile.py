"""A profile: the ranges and probabilities from which scenarios of one kind are drawn.

The profiles are TOML files: those of ``scenarios/profiles``, or anybody's (``profile_file.py``);
``generate/`` reads them and decides nothing by itself. A pair ``[a, b]`` is a range, both ends
included.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, make_dataclass, replace
from typing import Any

from rebalance_sim.protocol.clients.kinds import CLASSIC, JAVA, LIBRDKAFKA
from rebalance_sim.protocol.versions.semantics import (
    DEFAULT_SEMANTICS,
    SEMANTICS,
    WITH_CLIENT_ASSIGNORS,
)
from rebalance_sim.scenarios.codec import decode
from rebalance_sim.scenarios.errors import ScenarioError, did_you_mean
from rebalance_sim.scenarios.profile_file import built_in
from rebalance_sim.scenarios.toml import parse_toml
from rebalance_sim.sim.broker.broker_spec import BROKERS_MOST, OFFSETS_PARTITIONS_MOST
from rebalance_sim.sim.data_plane.topic_spec import PARTITIONS_MOST, RECORDS_PER_SECOND_MOST
from rebalance_sim.sim.faults.fault import Fault

Range = tuple[int, int]

TOPIC_NAMES = ("orders", "payments", "shipments", "returns")
"""The topics that a drawn scenario has, the first of them first."""

CLIENTS_MOST = 1_000
FAULTS_MOST = 1_000
TIME_MOST_MS = 30 * 24 * 60 * 60 * 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How large a world is. With ``large_probability`` a large range replaces the usual one.

    From ``brokers``, ``offsets_partitions`` and ``min_insync_replicas`` each scenario picks one
    number, from ``records_per_second`` each topic.
    """

    clients: Range
    topics: Range
    partitions: Range
    brokers: tuple[int, ...]
    records_per_second: tuple[int, ...] = (0,)
    offsets_partitions: tuple[int, ...] = (1,)
    min_insync_replicas: tuple[int, ...] = (1,)
    large_probability: float = 0.0
    large_clients: Range = (8, 12)
    large_partitions: Range = (12, 24)

    def __post_init__(self) -> None:
        for name, most in (
            ("clients", CLIENTS_MOST),
            ("topics", len(TOPIC_NAMES)),
            ("partitions", PARTITIONS_MOST),
            ("large_clients", CLIENTS_MOST),
            ("large_partitions", PARTITIONS_MOST),
        ):
            _check_range(name, getattr(self, name), least=1, most=most)
        _check_share("large_probability", self.large_probability)
        _check_numbers("brokers", self.brokers, least=1, most=BROKERS_MOST)
        _check_numbers(
            "records_per_second", self.records_per_second, least=0, most=RECORDS_PER_SECOND_MOST
        )
        _check_numbers(
            "offsets_partitions", self.offsets_partitions, least=1, most=OFFSETS_PARTITIONS_MOST
        )
        _check_numbers("min_insync_replicas", self.min_insync_replicas, least=1, most=BROKERS_MOST)


_MAY_BE_0 = {
    "assignment_interval_ms",
    "processing_ms",
    "replication_max_ms",
    "latency_tail_ms",
    "callback_max_ms",
    "callback_tail_ms",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Timings:
    """Values from which each scenario picks one, of the last three each client; in milliseconds.

    ``latency_tail_ms`` and ``callback_tail_ms`` are the means of exponential tails. Callbacks take
    time in scenarios with ``slow_callbacks``.
    """

    duration_ms: Range
    session_timeout_ms: tuple[int, ...]
    heartbeat_interval_ms: tuple[int, ...]
    assignment_interval_ms: tuple[int, ...]
    max_poll_interval_ms: tuple[int, ...]
    request_timeout_ms: tuple[int, ...]
    processing_ms: tuple[int, ...]
    latency_max_ms: tuple[int, ...]
    replication_max_ms: tuple[int, ...]
    latency_tail_ms: tuple[int, ...] = (0,)
    auto_commit_interval_ms: tuple[int, ...] = (1_000, 5_000)
    poll_timeout_ms: tuple[int, ...] = (100,)
    callback_max_ms: tuple[int, ...] = (50, 500, 2_000)
    callback_tail_ms: tuple[int, ...] = (0, 0, 200)

    def __post_init__(self) -> None:
        _check_range("duration_ms", self.duration_ms, least=1, most=TIME_MOST_MS)
        for name in self.__slots__:
            least = 0 if name in _MAY_BE_0 else 1
            _check_numbers(name, getattr(self, name), least=least, most=TIME_MOST_MS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """Probability that a scenario has the feature at all; each seed has its own subset.

    ``clustered_faults`` draws some faults close to each other: coincidences are where protocols
    break. ``full_group`` limits the group to as many members as there are clients.
    ``alterable_settings`` leaves room between the broker's bounds for settings of the group's own.
    ``several_groups`` adds one or two groups with clients of their own.
    ``admin``: somebody describes and lists the groups now and then.
    ``short_retention`` lets offsets expire within a scenario. ``topic_ids_in_offsets`` lets clients
    name topics in offset requests as real ones do: some by id, some by name.
    With ``librdkafka_clients`` some clients use librdkafka; all others are Java's.
    ``client_assignors``: members compute targets, where the semantics have that: ``kip-848``.
    ``shared_instances``: by mistake, two clients of a group have the same instance id.
    ``mixed_settings``: clients have timeouts, intervals and racks of their own.
    ``manual_commits``: some applications commit by themselves, synchronously or not.
    With ``data_plane`` records flow; with ``high_rate`` a thousand or more to each partition in a
    second, with ``slow_processing`` some applications can hardly keep up, or cannot; every other
    one polls in time all the same.
    ``append_linger`` gathers the records of several operations in one batch.

    With ``classic_clients`` all clients speak the classic protocol at first, with
    ``mixed_protocols`` about half of them; eagerly, unless ``cooperative_assignors`` says
    otherwise.
    With ``mixed_assignors`` the clients of a group have different lists that share an assignor.
    With ``librdkafka_classic`` clients are librdkafka's, whichever protocol they speak; with
    ``librdkafka_clients`` as well, about half of them are. With ``franz_clients`` about three in
    five of all clients become franz-go's.
    ``migration_policies`` lets brokers allow migrations in one direction only, or none.
    ``varied_processing``: how long an application is away from ``poll`` is drawn each time, unless
    its records say. ``short_pauses``: processes stand still for 50 to 500 ms, as for garbage
    collection. ``zones``: brokers, clients and three replicas of each partition are spread over
    three racks, with a longer way between them. ``no_listener``: some applications subscribe
    without one. With a data plane, ``workers``: some have a pool of them behind the poll loop;
    ``poison_pills``: some topics have records that cannot be processed as others are;
    ``transactions``: some applications read, process and write in transactions;
    ``output_topics``: to a topic that another group reads.
    ``limits_apart``, with ``full_group``: one of the
    two limits, of consumer groups and of classic ones, has room to spare.
    ``event_processing``: requests, targets and loads take coordinators time.
    """

    static_members: float = 0.0
    assignor_votes: float = 0.0
    mixed_subscriptions: float = 0.0
    pattern_subscriptions: float = 0.0
    slow_callbacks: float = 0.0
    staggered_start: float = 0.0
    no_auto_commit: float = 0.0
    clustered_faults: float = 0.0
    full_group: float = 0.0
    alterable_settings: float = 0.0
    several_groups: float = 0.0
    admin: float = 0.0
    short_retention: float = 0.0
    topic_ids_in_offsets: float = 0.0
    librdkafka_clients: float = 0.0
    client_assignors: float = 0.0
    data_plane: float = 0.0
    high_rate: float = 0.0
    slow_processing: float = 0.0
    shared_instances: float = 0.0
    append_linger: float = 0.0
    mixed_settings: float = 0.0
    manual_commits: float = 0.0
    classic_clients: float = 0.0
    cooperative_assignors: float = 0.0
    mixed_assignors: float = 0.0
    mixed_protocols: float = 0.0
    migration_policies: float = 0.0
    librdkafka_classic: float = 0.0
    varied_processing: float = 0.0
    short_pauses: float = 0.0
    zones: float = 0.0
    limits_apart: float = 0.0
    no_listener: float = 0.0
    workers: float = 0.0
    poison_pills: float = 0.0
    franz_clients: float = 0.0
    transactions: float = 0.0
    event_processing: float = 0.0
    output_topics: float = 0.0

    def __post_init__(self) -> None:
        for name in self.__slots__:
            _check_share(name, getattr(self, name))


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultRule:
    """One kind of fault (``Fault.kind``).

    A scenario has it with ``probability``, then ``count`` times. ``duration_ms`` is the length of
    its window or of the time a process is down, ``gap_ms`` the pause between two processes of a
    rolling restart; the range of a field of its own has the name of that field.
    ``forever_probability`` is that of a process that never comes back, ``graceful_probability``
    that one which is deployed again closes its consumer before. ``to_kinds`` are the kinds
    of client that a rolling migration, or a deployment, may lead to.
    """

    kind: str
    probability: float
    count: Range = (1, 1)
    duration_ms: Range = (1_000, 5_000)
    gap_ms: Range = (0, 1_000)
    forever_probability: float = 0.0
    graceful_probability: float = 0.7
    to_kinds: tuple[str, ...] = (JAVA, LIBRDKAFKA, CLASSIC)

    def __post_init__(self) -> None:
        if not self.to_kinds:
            raise ScenarioError("must name at least one kind", place="to_kinds")
        for name in ("probability", "forever_probability", "graceful_probability"):
            _check_share(name, getattr(self, name))
        _check_range("count", self.count, least=1, most=FAULTS_MOST)
        _check_range("duration_ms", self.duration_ms, least=1, most=TIME_MOST_MS)
        _check_range("gap_ms", self.gap_ms, least=0, most=TIME_MOST_MS)
        for own in (item for item in fields(self) if item.metadata):
            least = own.metadata.get("least", 0)
            _check_range(own.name, getattr(self, own.name), least=least, most=TIME_MOST_MS)

    @staticmethod
    def kinds() -> Mapping[str, type[FaultRule]]:
        """The rule of each kind of fault, by its name."""
        return {name: _rule_of(kind) for name, kind in Fault.kinds().items()}


@functools.cache
def _rule_of(kind: type[Fault]) -> type[FaultRule]:
    """A rule with the ranges of the kind's own fields (``drawn_from``)."""
    own = [
        (item.name, Range, field(default=item.metadata["drawn"], metadata=item.metadata))
        for item in fields(kind)
        if "drawn" in item.metadata
    ]
    return make_dataclass(
        f"{kind.__name__}Rule", own, bases=(FaultRule,), frozen=True, slots=True, kw_only=True
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CoincidenceRule:
    """One kind of coincidence (``generate_coincidences.py``), and how likely a scenario has it."""

    kind: str
    probability: float

    def __post_init__(self) -> None:
        _check_share("probability", self.probability)


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """All that ``generate`` knows about a kind of scenario. ``semantics`` is picked by seed."""

    name: str
    description: str
    sizes: Sizes
    timings: Timings
    features: Features = field(default_factory=Features)
    semantics: tuple[str, ...] = (DEFAULT_SEMANTICS.name,)
    faults: tuple[FaultRule, ...] = ()
    coincidences: tuple[CoincidenceRule, ...] = ()

    def __post_init__(self) -> None:
        if not self.semantics:
            raise ScenarioError("must name at least one version", place="semantics")
        for version in self.semantics:
            check_version(version)
        share = self.features.client_assignors
        lacking = [name for name in self.semantics if not has_client_assignors(name)]
        if lacking and (share == 1.0 or (share and lacking == list(self.semantics))):
            raise ScenarioError(
                f"{lacking[0]!r} has no client-side assignors; "
                f"use {' or '.join(map(repr, WITH_CLIENT_ASSIGNORS))}, or leave "
                "features.client_assignors out",
                place="semantics",
            )

    def simulating(self, version: str) -> Profile:
        """The same for another version. Raises ScenarioError for an unknown version, and for one
        without client-side assignors if these are what the profile is about."""
        check_version(version)
        features = self.features
        if features.client_assignors < 1.0 and not has_client_assignors(version):
            features = replace(features, client_assignors=0.0)  # It was for other versions only.
        name = f"{self.name}@{version}"
        return replace(self, name=name, semantics=(version,), features=features)


def check_version(version: str) -> None:
    """Raises ScenarioError for a version that is not known."""
    if version not in SEMANTICS:
        raise ScenarioError(f"no semantics {version!r}; {did_you_mean(version, SEMANTICS)}")


def check_repairs(repairs: Iterable[str], semantics: Sequence[str]) -> None:
    """Raises ScenarioError for an issue that cannot be repaired in any of the versions."""
    for issue in repairs:
        versions = [SEMANTICS[name] for name in semantics]
        if not any(version.can_repair(issue) for version in versions):
            repaired = {one for v in versions for one in v.shipped_defects if v.can_repair(one)}
            raise ScenarioError(
                f"no repair of {issue!r} in {', '.join(dict.fromkeys(semantics))}; "
                + did_you_mean(issue, repaired)
            )


def has_client_assignors(semantics: str) -> bool:
    """Whether members may compute targets under these semantics. (A name that is not known is
    refused elsewhere.)"""
    return semantics not in SEMANTICS or semantics in WITH_CLIENT_ASSIGNORS


@functools.cache
def load_profile(name: str) -> Profile:
    """The built-in profile of this name. Raises ScenarioError if there is none."""
    return profile_of(built_in(name))


def parse_profile(text: str) -> Profile:
    """Read a profile from the text of a TOML file. Raises ScenarioError with place and remedy."""
    return profile_of(parse_toml(text))


def profile_of(data: Mapping[str, Any]) -> Profile:
    """The profile that these tables are. Raises ScenarioError with place and remedy."""
    return decode(Profile, data)


def _check_range(name: str, value: Range, *, least: int, most: int) -> None:
    low, high = value
    if not least <= low <= high <= most:
        raise ScenarioError(
            f"must be two numbers in order, from {least} to {most:_}: {low}, {high}", place=name
        )


def _check_numbers(name: str, values: tuple[int, ...], *, least: int, most: int) -> None:
    if not values:
        raise ScenarioError("must name at least one number", place=name)
    for value in values:
        if not least <= value <= most:
            raise ScenarioError(f"must lie within [{least}, {most:_}], got {value}", place=name)


def _check_share(name: str, value: float) -> None:
    if not 0.0 <= value <= 1.0:
        raise ScenarioError(f"must lie within [0, 1], got {value}", place=name)
