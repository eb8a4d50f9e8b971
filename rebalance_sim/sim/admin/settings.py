"""The settings of brokers and groups as an administrator alters them.

Source: coordinator §10.2. The controller checks a change and publishes it with everything else that
it has decided; each broker applies it from when it has received it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from rebalance_sim.protocol.runtime.coordinator_config import ConfigsInForce
from rebalance_sim.protocol.wire.errors import GroupError
from rebalance_sim.sim.faults.ports import SettingsChange, SettingsContext


class SettingsPublisher(Protocol):
    """The controller."""

    @property
    def configs(self) -> ConfigsInForce:
        """The settings that were published last."""

    def set_configs(self, configs: ConfigsInForce) -> None:
        """Let every broker learn settings."""

    def postpones(self, decision: Callable[[], object]) -> bool:
        """Keep a decision for later if there is no controller to take it."""


class SettingsAdmin:
    """Alters settings through the controller."""

    def __init__(self, controller: SettingsPublisher, context: SettingsContext) -> None:
        self._controller = controller
        self._context = context

    def apply(self, change: SettingsChange) -> bool:
        """Publish altered settings; False if the controller refuses them."""
        if self._controller.postpones(lambda: self.apply(change)):
            return True
        try:
            configs = change.altered(self._controller.configs, self._context)
        except GroupError:
            # The specification holds no such change; only two of the same instant can bring about
            # what neither of them does alone.
            return False
        self._controller.set_configs(configs)
        return True
