"""Configuration of a coordinator, with Kafka's names, defaults and start-up checks.

Source: coordinator §10; bounds of the assignment interval, the words of refusals, and which
settings are dynamic at all as brokers say (Apache Kafka 4.1.2 and 4.3.1). All times are
milliseconds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from rebalance_sim.protocol.wire.errors import ErrorCode, GroupError

MIGRATION_POLICIES = ("bidirectional", "upgrade", "downgrade", "disabled")
UPGRADE_POLICIES = ("bidirectional", "upgrade")
"""With which of them a classic group may become a consumer group."""

_MAY_BE_ZERO = frozenset(
    {
        "group_consumer_assignment_interval_ms",
        "group_consumer_min_assignment_interval_ms",
        "group_consumer_max_assignment_interval_ms",
        "group_initial_rebalance_delay_ms",
    }
)
_ADAPTIVE_LINGER_MS = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorConfig:
    """Broker-level settings that group coordination reads.

    Raises ValueError where a broker would refuse to start.
    """

    group_consumer_session_timeout_ms: int = 45_000
    """After how long without a heartbeat a member of a consumer group is removed."""
    group_consumer_min_session_timeout_ms: int = 45_000
    """The least that a group may have of its own."""
    group_consumer_max_session_timeout_ms: int = 60_000
    """The most that a group may have of its own."""
    group_consumer_heartbeat_interval_ms: int = 5_000
    """How often members of a consumer group send heartbeats."""
    group_consumer_min_heartbeat_interval_ms: int = 5_000
    """The least that a group may have of its own."""
    group_consumer_max_heartbeat_interval_ms: int = 15_000
    """The most that a group may have of its own."""
    group_consumer_assignment_interval_ms: int = 1_000
    """How much later than the last a group computes its next target, from 4.3 on."""
    group_consumer_min_assignment_interval_ms: int = 0
    """The least that a group may have of its own."""
    group_consumer_max_assignment_interval_ms: int = 15_000
    """The most that a group may have of its own."""
    group_consumer_max_size: int = 2_147_483_647
    """How many members a consumer group may have."""
    group_consumer_assignors: tuple[str, ...] = ("uniform", "range")
    """The assignors of the broker; the first is the one of groups that vote for none."""
    group_consumer_regex_refresh_interval_ms: int = 600_000
    """How often patterns are matched again although nothing is known to have changed."""
    group_consumer_migration_policy: str = "bidirectional"
    """Which way groups may change their protocol while they run: ``bidirectional``, ``upgrade``,
    ``downgrade`` or ``disabled``."""
    group_initial_rebalance_delay_ms: int = 3_000
    """How long the first rebalance of a classic group waits for further members."""
    group_min_session_timeout_ms: int = 6_000
    """The shortest session timeout that a classic member may ask for."""
    group_max_session_timeout_ms: int = 1_800_000
    """The longest."""
    group_max_size: int = 2_147_483_647
    """How many members a classic group may have."""
    group_coordinator_append_linger_ms: int = 0
    """How long a batch waits for further records; -1 writes as soon as nothing else is to be
    handled, which is what Kafka does by default from 4.3 on, and 4.1 waits 5 ms. Here 0, each
    operation in a batch of its own: a coordinator that takes no time for its work has others to
    gather at the same millisecond only."""
    message_max_bytes: int = 1_048_588
    """Bounds a batch."""
    offset_metadata_max_bytes: int = 4_096
    """How long the text may be that is committed with an offset."""
    offsets_commit_timeout_ms: int = 5_000
    """How long a commit waits until its records are replicated."""
    offsets_retention_minutes: int = 10_080
    """How long offsets of a group without members are kept."""
    offsets_retention_check_interval_ms: int = 600_000
    """How often expired offsets are looked for."""

    def __post_init__(self) -> None:
        session = self.group_consumer_session_timeout_ms
        interval = self.group_consumer_heartbeat_interval_ms
        for name in self.__slots__:
            value = getattr(self, name)
            lower = 0 if name in _MAY_BE_ZERO else 1
            if name == "group_coordinator_append_linger_ms":
                lower = _ADAPTIVE_LINGER_MS
            if isinstance(value, int) and value < lower:
                raise ValueError(f"{name} must be >= {lower}, got {value}")
        for setting in GROUP_SETTINGS:
            least, most = setting.broker_name("min"), setting.broker_name("max")
            low, high, value = (
                getattr(self, name) for name in (least, most, setting.broker_name())
            )
            if not low <= value <= high:
                raise ValueError(
                    f"{setting.broker_name()} ({value}) must lie within [{low}, {high}], which are "
                    f"{least} and {most}: set those as well"
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


class _GroupSetting(NamedTuple):
    """A setting that a group may have of its own, within bounds that brokers have."""

    name: str
    least: int

    def broker_name(self, bound: str = "") -> str:
        """The broker's setting that stands in for it, or its ``min`` or ``max`` bound."""
        prefix = f"group_consumer_{bound}_" if bound else "group_consumer_"
        return self.name.replace("consumer_", prefix)


GROUP_SETTINGS = (
    _GroupSetting("consumer_session_timeout_ms", 1),
    _GroupSetting("consumer_heartbeat_interval_ms", 1),
    _GroupSetting("consumer_assignment_interval_ms", 0),
)
"""The fields of ``GroupConfig``, in the order in which a broker reads them."""

_BOUNDS_FIRST = "consumer_heartbeat_interval_ms"
"""Whose bounds a broker checks before those of the others, which follow in their order."""

_INT = re.compile(r"[+-]?[0-9]+")
_INT_LIMIT = 2**31
_LONGEST = 1_000  # int() refuses texts of several thousand digits

_DYNAMIC = ("group_consumer_assignment_interval_ms",)
"""Settings of a broker that can be altered while it runs. All others need a restart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    """Dynamic settings of one group; None means the broker's value (coordinator §10.2)."""

    consumer_session_timeout_ms: int | None = None
    consumer_heartbeat_interval_ms: int | None = None
    consumer_assignment_interval_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigsInForce:
    """What applies at a broker: its own settings, and those of groups by group id.

    They live outside the group log: they survive a group, and may precede it (coordinator §10.2).
    """

    broker: CoordinatorConfig
    groups: Mapping[str, GroupConfig] = field(default_factory=dict)

    def session_timeout_ms(self, group_id: str) -> int:
        """Of this group: its own setting, else the broker's."""
        own = self.groups.get(group_id)
        if own is None or own.consumer_session_timeout_ms is None:
            return self.broker.group_consumer_session_timeout_ms
        return own.consumer_session_timeout_ms

    def heartbeat_interval_ms(self, group_id: str) -> int:
        """Of this group: its own setting, else the broker's."""
        own = self.groups.get(group_id)
        if own is None or own.consumer_heartbeat_interval_ms is None:
            return self.broker.group_consumer_heartbeat_interval_ms
        return own.consumer_heartbeat_interval_ms

    def assignment_interval_ms(self, group_id: str) -> int:
        """Of this group: its own setting, else the broker's."""
        own = self.groups.get(group_id)
        if own is None or own.consumer_assignment_interval_ms is None:
            return self.broker.group_consumer_assignment_interval_ms
        return own.consumer_assignment_interval_ms

    def with_group(self, group_id: str, config: GroupConfig) -> ConfigsInForce:
        """The same with other settings of one group."""
        return replace(self, groups={**self.groups, group_id: config})

    def altered(
        self,
        group_id: str,
        changes: Mapping[str, int | str | None],
        *,
        has_assignment_interval: bool,
    ) -> ConfigsInForce:
        """All settings after an administrator's ``changes`` of one group (``alter_group_config``).

        Raises GroupError as ``alter_group_config`` does, and for an empty group id.
        """
        if not group_id:
            refusal = "Default group resources are not allowed."
            raise GroupError(ErrorCode.INVALID_REQUEST, refusal)
        current = self.groups.get(group_id, GroupConfig())
        altered = alter_group_config(
            self.broker, current, changes, has_assignment_interval=has_assignment_interval
        )
        return self.with_group(group_id, altered)


def alter_group_config(
    broker: CoordinatorConfig,
    current: GroupConfig,
    changes: Mapping[str, int | str | None],
    *,
    has_assignment_interval: bool,
) -> GroupConfig:
    """The settings after ``changes`` (Kafka's dotted names; None deletes a setting).

    A value may be text, as all are on the wire; each of these settings is a whole number.
    ``has_assignment_interval``: the simulated version knows consumer.assignment.interval.ms.
    Raises GroupError(INVALID_CONFIG) for an unknown name, a value that is no number, or one
    outside the broker's bounds.
    """
    code = ErrorCode.INVALID_CONFIG
    known = {dotted(setting.name): setting.name for setting in GROUP_SETTINGS}
    if not has_assignment_interval:
        del known["consumer.assignment.interval.ms"]
    for name in changes:
        if name not in known:
            raise GroupError(code, f"Unknown group config name: {name}")
    given = {known[name]: value for name, value in changes.items()}
    numbers: dict[str, int | None] = {}
    for setting in GROUP_SETTINGS:
        name = setting.name
        value = given.get(name, getattr(current, name))
        numbers[name] = None if value is None else _number(name, value, setting.least, code)
    for setting in sorted(GROUP_SETTINGS, key=lambda one: one.name != _BOUNDS_FIRST):
        number = numbers[setting.name]
        if number is not None:
            _check_bounds(broker, setting, setting.name, number, code)
    altered = GroupConfig(**numbers)
    session_ms = altered.consumer_session_timeout_ms
    interval_ms = altered.consumer_heartbeat_interval_ms
    if session_ms is None:
        session_ms = broker.group_consumer_session_timeout_ms
    if interval_ms is None:
        interval_ms = broker.group_consumer_heartbeat_interval_ms
    if session_ms <= interval_ms:
        raise GroupError(
            code,
            "consumer.session.timeout.ms must be greater than consumer.heartbeat.interval.ms",
        )
    return altered


def alter_broker_config(
    static: CoordinatorConfig,
    current: CoordinatorConfig,
    changes: Mapping[str, int | str | None],
    *,
    has_assignment_interval: bool,
) -> CoordinatorConfig:
    """A broker's settings after a change while it runs; None brings the one it started with back.

    Raises GroupError(INVALID_REQUEST) for a setting that is not dynamic in the simulated version,
    or a value out of bounds: what a broker answers for a resource of type BROKER.
    """
    code = ErrorCode.INVALID_REQUEST
    known = {dotted(name): name for name in _DYNAMIC if has_assignment_interval}
    refused = [name for name in changes if name not in known]
    if refused:
        names = ", ".join(refused)
        raise GroupError(code, f"Cannot update these configs dynamically: [{names}]")
    values: dict[str, Any] = {}
    for name, value in changes.items():
        field_name = known[name]
        values[field_name] = getattr(static, field_name) if value is None else value
    for setting in GROUP_SETTINGS:
        name = setting.broker_name()
        if name in values:
            values[name] = _number(name, values[name], setting.least, code)
            _check_bounds(static, setting, name, values[name], code)
    return replace(current, **values)


def dotted(name: str) -> str:
    """Kafka's name of a setting."""
    return name.replace("_", ".")


def _number(name: str, value: int | str, least: int, code: ErrorCode) -> int:
    """What Java reads from the text of a value: a whole number of 32 bits, not below ``least``."""
    # A Boolean is an int to Python, and to a broker a word like others.
    text = str(value).lower() if isinstance(value, bool) else str(value)
    refusal = f"Invalid value {text} for configuration {dotted(name)}: "
    digits = text.strip()
    number = int(digits) if len(digits) < _LONGEST and _INT.fullmatch(digits) else _INT_LIMIT
    if not -_INT_LIMIT <= number < _INT_LIMIT:
        raise GroupError(code, f"{refusal}Not a number of type INT")
    if number < least:
        refusal = f"Invalid value {number} for configuration {dotted(name)}: "
        raise GroupError(code, f"{refusal}Value must be at least {least}")
    return number


def _check_bounds(
    broker: CoordinatorConfig, setting: _GroupSetting, name: str, value: int, code: ErrorCode
) -> None:
    low, high = setting.broker_name("min"), setting.broker_name("max")
    if value < getattr(broker, low):
        words = "greater than or equal to"
        raise GroupError(code, f"{dotted(name)} must be {words} {dotted(low)}")
    if value > getattr(broker, high):
        words = "less than or equal to"
        raise GroupError(code, f"{dotted(name)} must be {words} {dotted(high)}")
