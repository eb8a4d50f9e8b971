"""What client-side assignors a client offers: frozen values that check themselves.

Only worlds with the semantics ``kip-848`` have them (``docs/scenarios.md``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rebalance_sim.protocol.assignors.client_side import (
    CLIENT_SIDE_ASSIGNORS,
    StreamsAssignor,
    StreamsConfig,
)
from rebalance_sim.protocol.assignors.client_side.streams_metadata import (
    NEWEST_VERSION,
    OLDEST_VERSION,
)
from rebalance_sim.sim.delays import DelaySpec


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsSpec:
    """The Streams application of a client. Settings that Kafka Streams has keep its names."""

    process_id: str | None = None
    """Names the instance; none: the client's name. Clients with the same one share a store of
    state, which outlives their processes."""
    client_tags: Mapping[str, str] = field(default_factory=dict)
    """Names and values by which standbys are spread."""
    topology_hash: int = 0
    """Tells members of different topologies apart."""
    num_standby_replicas: int = 0
    """How many standbys each task has."""
    acceptable_recovery_lag: int = 10_000
    """Up to how many records behind a copy counts as caught up."""
    max_warmup_replicas: int = 2
    """How many copies are warmed up at once."""
    rack_aware_assignment_tags: tuple[str, ...] = ()
    """The tags that standbys are spread over."""
    state_records: int = 0
    """What the state of each task has when the world begins; it grows with the records of its
    topic."""
    restore_records_per_second: int = 10_000
    """By how much a copy of it grows while a member has the task, in whatever role."""

    def __post_init__(self) -> None:
        if self.process_id == "":
            raise ValueError("process_id must not be empty; leave it out for the client's name")
        for name, least in (("state_records", 0), ("restore_records_per_second", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be >= {least}, got {getattr(self, name)}")
        self.config()

    def config(self) -> StreamsConfig:
        """The settings with which the assignor of this client computes. Raises ValueError."""
        return StreamsConfig(
            num_standby_replicas=self.num_standby_replicas,
            acceptable_recovery_lag=self.acceptable_recovery_lag,
            max_warmup_replicas=self.max_warmup_replicas,
            rack_aware_assignment_tags=self.rack_aware_assignment_tags,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientAssignorsSpec:
    """The assignors of a client, all with the same range of versions."""

    names: tuple[str, ...] = ("sticky",)
    """The assignors of the client, most preferred first."""
    minimum_version: int = OLDEST_VERSION
    """The oldest version of metadata that they read."""
    maximum_version: int = NEWEST_VERSION
    """The newest."""
    metadata_version: int | None = None
    """The version that the client writes; none: its newest."""
    compute: DelaySpec = field(default_factory=lambda: DelaySpec(min_ms=0))
    """How long an assignor takes."""
    streams: StreamsSpec | None = None
    """Settings of the assignor of that name."""

    def __post_init__(self) -> None:
        if not self.names:
            raise ValueError("names must name at least one assignor")
        known_names = (StreamsAssignor.name, *CLIENT_SIDE_ASSIGNORS)
        for name in self.names:
            if name not in known_names:
                known = ", ".join(known_names)
                raise ValueError(f"names: {name!r} is not known; known are: {known}")
        if len(set(self.names)) != len(self.names):
            raise ValueError("names must not name an assignor twice")
        versions = (
            OLDEST_VERSION,
            self.minimum_version,
            self.version,
            self.maximum_version,
            NEWEST_VERSION,
        )
        if list(versions) != sorted(versions):
            raise ValueError(
                f"versions must be in order: {OLDEST_VERSION} <= minimum_version "
                f"({self.minimum_version}) <= metadata_version ({self.version}) <= "
                f"maximum_version ({self.maximum_version}) <= {NEWEST_VERSION}"
            )
        if self.streams is not None and "streams" not in self.names:
            raise ValueError("streams has settings for an assignor that is not among the names")

    @property
    def version(self) -> int:
        """The version in which the client writes its metadata."""
        return self.maximum_version if self.metadata_version is None else self.metadata_version
