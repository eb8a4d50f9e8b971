"""What faults of one client share that last."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

from rebalance_sim.sim.client.client_conditions import Condition
from rebalance_sim.sim.faults.fault import End, Window
from rebalance_sim.sim.faults.ports import FaultWorld


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientWindow(Window):
    """A fault of one client that lasts."""

    client: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionWindow(ClientWindow):
    """One that does nothing by itself: processes of the client ask for it when they act."""

    @abstractmethod
    def condition(self) -> Condition:
        """What they find while the window is open."""

    def begin(self, world: FaultWorld) -> End | bool:
        return world.client_processes.conditions[self.client].open(self.condition())
