"""The settings of brokers and groups as an administrator alters them.

Source: coordinator §10.2. The controller checks a change and publishes it with everything else that
it has decided; each broker goes by it from when it has heard of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rebalance_sim.protocol.runtime.coordinator_config import (
    ConfigsInForce,
    GroupConfig,
    alter_broker_config,
    alter_group_config,
)
from rebalance_sim.protocol.versions.semantics import SEMANTICS
from rebalance_sim.protocol.wire.errors import GroupError
from rebalance_sim.sim.admin.admin_events import BrokerConfigChange, GroupConfigChange

if TYPE_CHECKING:
    from rebalance_sim.sim.spec import WorldSpec
    from rebalance_sim.sim.world import World

__all__ = ["SettingsAdmin", "altered", "configs_ever_in_force"]


class SettingsAdmin:
    """Alters settings through the controller."""

    def __init__(self, world: World) -> None:
        self._world = world

    def apply(self, change: GroupConfigChange | BrokerConfigChange) -> bool:
        """Publish altered settings; False if the controller refuses them."""
        world = self._world
        try:
            configs = altered(world.controller.metadata.configs, change, world.spec)
        except GroupError:
            # The specification holds no such change; only two of the same instant can bring about
            # what neither of them does alone.
            return False
        world.controller.set_configs(configs)
        return True


def altered(
    configs: ConfigsInForce, change: GroupConfigChange | BrokerConfigChange, spec: WorldSpec
) -> ConfigsInForce:
    """The settings after a change. Raises GroupError as a broker would refuse it."""
    has_interval = SEMANTICS[spec.semantics].coordinator.has_assignment_interval
    if isinstance(change, BrokerConfigChange):
        broker = alter_broker_config(
            spec.config, configs.broker, change.changes, has_assignment_interval=has_interval
        )
        return ConfigsInForce(broker=broker, groups=configs.groups)
    group_id = change.group or spec.group_id
    own = alter_group_config(
        configs.broker,
        configs.groups.get(group_id, GroupConfig()),
        change.changes,
        has_assignment_interval=has_interval,
    )
    return configs.with_group(group_id, own)


def configs_ever_in_force(spec: WorldSpec) -> Mapping[str, ConfigsInForce]:
    """Place of each change in ``faults`` -> all settings after it, and ``start`` before the first.

    Raises ValueError for a change that would be refused: the place, the words of a broker, and the
    error code.
    """
    configs = ConfigsInForce(broker=spec.config)
    found = {"start": configs}
    changes = [
        (fault.at_ms, index, fault)
        for index, fault in enumerate(spec.faults)
        if isinstance(fault, GroupConfigChange | BrokerConfigChange)
    ]
    for _, index, change in sorted(changes, key=lambda item: item[:2]):
        try:
            configs = altered(configs, change, spec)
        except GroupError as refusal:
            raise ValueError(f"faults[{index}]: {refusal.message} ({refusal.code.name})") from None
        found[f"faults[{index}]"] = configs
    return found
