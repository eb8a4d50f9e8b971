"""A setting of all brokers is altered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rebalance_sim.protocol.runtime.coordinator_config import ConfigsInForce, alter_broker_config
from rebalance_sim.sim.draw import Draw
from rebalance_sim.sim.faults.fault import Fault
from rebalance_sim.sim.faults.ports import DrawRule, SettingsContext
from rebalance_sim.sim.faults.settings_change import ASSIGNMENT_INTERVALS_MS, SettingsChange
from rebalance_sim.sim.faults.targets import Targets


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
