"""What changes of settings share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Protocol

from rebalance_sim.protocol.runtime.coordinator_config import ConfigsInForce
from rebalance_sim.protocol.wire.errors import GroupError
from rebalance_sim.sim.faults.fault import End, Fault
from rebalance_sim.sim.faults.ports import FaultWorld, SettingsContext

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
