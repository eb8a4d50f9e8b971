"""Configuration of a coordinator, with Kafka's names, defaults and start-up checks.

Source: consumer-group-coordinator.md, section 10.1. All times are milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

from protocol.errors import ErrorCode, GroupError

__all__ = ["MIGRATION_POLICIES", "CoordinatorConfig", "GroupConfig", "alter_group_config"]

MIGRATION_POLICIES = ("bidirectional", "upgrade", "downgrade", "disabled")

_MAY_BE_ZERO = frozenset(
    {"group_consumer_assignment_interval_ms", "group_initial_rebalance_delay_ms"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorConfig:
    """Broker-level settings that group coordination reads.

    Raises ValueError where a broker would refuse to start.
    """

    group_consumer_session_timeout_ms: int = 45_000
    group_consumer_min_session_timeout_ms: int = 45_000
    group_consumer_max_session_timeout_ms: int = 60_000
    group_consumer_heartbeat_interval_ms: int = 5_000
    group_consumer_min_heartbeat_interval_ms: int = 5_000
    group_consumer_max_heartbeat_interval_ms: int = 15_000
    group_consumer_assignment_interval_ms: int = 1_000
    group_consumer_max_size: int = 2_147_483_647
    group_consumer_assignors: tuple[str, ...] = ("uniform", "range")
    group_consumer_regex_refresh_interval_ms: int = 600_000
    group_consumer_migration_policy: str = "bidirectional"
    group_initial_rebalance_delay_ms: int = 3_000
    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_max_size: int = 2_147_483_647
    offset_metadata_max_bytes: int = 4_096
    offsets_commit_timeout_ms: int = 5_000
    offsets_retention_minutes: int = 10_080
    offsets_retention_check_interval_ms: int = 600_000

    def __post_init__(self) -> None:
        session = self.group_consumer_session_timeout_ms
        interval = self.group_consumer_heartbeat_interval_ms
        for name in self.__slots__:
            value = getattr(self, name)
            lower = 0 if name in _MAY_BE_ZERO else 1
            if isinstance(value, int) and value < lower:
                raise ValueError(f"{name} must be >= {lower}, got {value}")
        if not (
            self.group_consumer_min_session_timeout_ms
            <= session
            <= self.group_consumer_max_session_timeout_ms
        ):
            raise ValueError(
                f"group_consumer_session_timeout_ms ({session}) must lie within "
                f"[{self.group_consumer_min_session_timeout_ms}, "
                f"{self.group_consumer_max_session_timeout_ms}]"
            )
        if not (
            self.group_consumer_min_heartbeat_interval_ms
            <= interval
            <= self.group_consumer_max_heartbeat_interval_ms
        ):
            raise ValueError(
                f"group_consumer_heartbeat_interval_ms ({interval}) must lie within "
                f"[{self.group_consumer_min_heartbeat_interval_ms}, "
                f"{self.group_consumer_max_heartbeat_interval_ms}]"
            )
        if interval >= session:
            raise ValueError(
                f"group_consumer_heartbeat_interval_ms ({interval}) must be less than "
                f"group_consumer_session_timeout_ms ({session})"
            )
        if self.group_min_session_timeout_ms > self.group_max_session_timeout_ms:
            raise ValueError(
                f"group_min_session_timeout_ms ({self.group_min_session_timeout_ms}) must not be "
                f"above group_max_session_timeout_ms ({self.group_max_session_timeout_ms})"
            )
        if self.group_consumer_migration_policy not in MIGRATION_POLICIES:
            raise ValueError(
                f"group_consumer_migration_policy must be one of {', '.join(MIGRATION_POLICIES)}, "
                f"got {self.group_consumer_migration_policy!r}"
            )
        if not self.group_consumer_assignors:
            raise ValueError("group_consumer_assignors must name at least one assignor")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    """Dynamic settings of one group; None means the broker's value (section 10.2)."""

    consumer_session_timeout_ms: int | None = None
    consumer_heartbeat_interval_ms: int | None = None
    consumer_assignment_interval_ms: int | None = None


def alter_group_config(
    broker: CoordinatorConfig,
    current: GroupConfig,
    changes: Mapping[str, int | None],
    *,
    has_assignment_interval: bool,
) -> GroupConfig:
    """The settings after ``changes`` (Kafka's dotted names; None deletes a setting).

    ``has_assignment_interval``: the simulated version knows consumer.assignment.interval.ms.
    Raises GroupError(INVALID_CONFIG) for an unknown name or a value outside the broker's bounds.
    """
    known = {field.name.replace("_", "."): field.name for field in fields(GroupConfig)}
    if not has_assignment_interval:
        del known["consumer.assignment.interval.ms"]
    for name in changes:
        if name not in known:
            raise GroupError(ErrorCode.INVALID_CONFIG, f"Unknown group config name: {name}")
    altered = replace(current, **{known[name]: value for name, value in changes.items()})
    _check_bounds(
        "consumer.session.timeout.ms",
        altered.consumer_session_timeout_ms,
        broker.group_consumer_min_session_timeout_ms,
        broker.group_consumer_max_session_timeout_ms,
    )
    _check_bounds(
        "consumer.heartbeat.interval.ms",
        altered.consumer_heartbeat_interval_ms,
        broker.group_consumer_min_heartbeat_interval_ms,
        broker.group_consumer_max_heartbeat_interval_ms,
    )
    _check_bounds(
        "consumer.assignment.interval.ms", altered.consumer_assignment_interval_ms, 0, 2**31 - 1
    )
    session_ms = altered.consumer_session_timeout_ms
    interval_ms = altered.consumer_heartbeat_interval_ms
    if session_ms is None:
        session_ms = broker.group_consumer_session_timeout_ms
    if interval_ms is None:
        interval_ms = broker.group_consumer_heartbeat_interval_ms
    if session_ms <= interval_ms:
        raise GroupError(
            ErrorCode.INVALID_CONFIG,
            "consumer.session.timeout.ms must be greater than consumer.heartbeat.interval.ms",
        )
    return altered


def _check_bounds(name: str, value: int | None, lower: int, upper: int) -> None:
    if value is not None and not lower <= value <= upper:
        raise GroupError(
            ErrorCode.INVALID_CONFIG, f"{name} must lie within [{lower}, {upper}], got {value}"
        )
