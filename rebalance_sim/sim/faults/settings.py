"""Settings of brokers and groups are altered."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, Self

from rebalance_sim.protocol.runtime.coordinator_config import (
    GROUP_SETTINGS,
    ConfigsInForce,
    alter_broker_config,
)
from rebalance_sim.protocol.wire.errors import GroupError
from rebalance_sim.sim.draw import Draw
from rebalance_sim.sim.faults.fault import End, Fault
from rebalance_sim.sim.faults.ports import DrawRule, FaultWorld, SettingsContext
from rebalance_sim.sim.faults.targets import Targets

ASSIGNMENT_INTERVALS_MS = (0, 500, 1_000, 5_000)
"""Those that are drawn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsChange(Fault):
    """An administrator alters settings; the controller refuses what a broker would refuse."""

    alters_settings: ClassVar[bool] = True

    def begin(self, world: FaultWorld) -> End | bool:
        return world.settings.apply(self)

    @abstractmethod
    def altered(self, configs: ConfigsInForce, context: SettingsContext) -> ConfigsInForce:
        """The settings after the change. Raises GroupError as a broker would refuse it."""


class WithFaults(SettingsContext, Protocol):
    """A whole specification (``WorldSpec``)."""

    @property
    def faults(self) -> tuple[Fault, ...]:
        """What happens to the world."""


def configs_ever_in_force(spec: WithFaults) -> Mapping[str, ConfigsInForce]:
    """Place of each change in ``faults`` -> all settings after it, and ``start`` before the first.

    Raises ValueError for a change that would be refused: the place, the words of a broker, and the
    error code.
    """
    configs = ConfigsInForce(broker=spec.config)
    found = {"start": configs}
    changes = [
        (fault.at_ms, index, fault)
        for index, fault in enumerate(spec.faults)
        if isinstance(fault, SettingsChange)
    ]
    for _, index, change in sorted(changes, key=lambda item: item[:2]):
        try:
            configs = change.altered(configs, spec)
        except GroupError as refusal:
            raise ValueError(f"faults[{index}]: {refusal.message} ({refusal.code.name})") from None
        found[f"faults[{index}]"] = configs
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfigChange(SettingsChange):
    """An administrator alters a setting of all brokers while they run.

    Only the assignment interval can be; None brings the one back that they were started with.
    """

    group_consumer_assignment_interval_ms: int | None = None

    @property
    def changes(self) -> Mapping[str, int | None]:
        """Kafka's dotted names -> new value; None deletes the setting."""
        return {"group.consumer.assignment.interval.ms": self.group_consumer_assignment_interval_ms}

    def altered(self, configs: ConfigsInForce, context: SettingsContext) -> ConfigsInForce:
        broker = alter_broker_config(
            context.config,
            configs.broker,
            self.changes,
            has_assignment_interval=context.has_assignment_interval,
        )
        return ConfigsInForce(broker=broker, groups=configs.groups)

    @classmethod
    def drawn(cls, draw: Draw, rule: DrawRule, targets: Targets, at_ms: int) -> Iterator[Fault]:
        interval_ms = draw.pick((None, *ASSIGNMENT_INTERVALS_MS))
        if targets.has_assignment_interval:
            yield cls(at_ms=at_ms, group_consumer_assignment_interval_ms=interval_ms)


_SETTING_SHARE = 0.5
_DELETED_SHARE = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfigChange(SettingsChange):
    """An administrator alters the dynamic settings of a group (IncrementalAlterConfigs).

    What is left out stays as it is; ``deletes`` names settings that go back to the broker's value.
    Each broker applies it from when it receives it: heartbeat intervals count from the next answer
    on, session timeouts from the next heartbeat on, and running timers are not adjusted.
    """

    group: str | None = None
    consumer_session_timeout_ms: int | None = None
    consumer_heartbeat_interval_ms: int | None = None
    consumer_assignment_interval_ms: int | None = None
    deletes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        SettingsChange.__post_init__(self)
        if not self.changes:
            raise ValueError("a change of settings must set or delete at least one")
        for name in self.deletes:
            if getattr(self, name.replace(".", "_"), None) is not None:
                raise ValueError(f"deletes: {name} is set as well")

    @property
    def changes(self) -> Mapping[str, int | None]:
        """Kafka's dotted names -> new value; None deletes the setting."""
        changes: dict[str, int | None] = {}
        for setting in GROUP_SETTINGS:
            value = getattr(self, setting.name)
            if value is not None:
                changes[setting.name.replace("_", ".")] = value
        return {**changes, **dict.fromkeys(name.replace("_", ".") for name in self.deletes)}

    def altered(self, configs: ConfigsInForce, context: SettingsContext) -> ConfigsInForce:
        group_id = self.group or context.group_id
        return configs.altered(
            group_id, self.changes, has_assignment_interval=context.has_assignment_interval
        )

    @classmethod
    def drawn(cls, draw: Draw, rule: DrawRule, targets: Targets, at_ms: int) -> Iterator[Fault]:
        """Any session with any interval: each is drawn so that no order of changes is refused."""
        config = targets.config
        session_ms = (
            config.group_consumer_min_session_timeout_ms,
            config.group_consumer_max_session_timeout_ms,
        )
        least_ms = config.group_consumer_min_heartbeat_interval_ms
        interval_ms = (least_ms, max(least_ms, min(2 * least_ms, session_ms[0] - 1)))
        values: dict[str, Any] = {}
        deleted: list[str] = []
        for name, value in (
            ("consumer_session_timeout_ms", draw.between(session_ms)),
            ("consumer_heartbeat_interval_ms", draw.between(interval_ms)),
            ("consumer_assignment_interval_ms", draw.pick(ASSIGNMENT_INTERVALS_MS)),
        ):
            is_known = name != "consumer_assignment_interval_ms" or targets.has_assignment_interval
            if draw.chance(_SETTING_SHARE) and is_known:
                values[name] = value
            elif draw.chance(_DELETED_SHARE) and is_known:
                deleted.append(name.replace("_", "."))
        if not values and not deleted:
            values["consumer_heartbeat_interval_ms"] = interval_ms[1]
        yield cls(at_ms=at_ms, group=targets.group(draw), **values, deletes=tuple(deleted))

    def simpler(self, topics: tuple[str, ...]) -> Iterator[Self]:
        """One setting less, unless it is the only one."""
        if len(self.changes) < 2:
            return
        for setting in GROUP_SETTINGS:
            if getattr(self, setting.name) is not None:
                yield self.changed(**{setting.name: None})
        for name in self.deletes:
            yield replace(self, deletes=tuple(other for other in self.deletes if other != name))
