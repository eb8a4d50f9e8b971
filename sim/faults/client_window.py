"""What faults of one client share that last."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rebalance_sim.sim.client.client_conditions import Condition
from rebalance_sim.sim.draw import Draw
from rebalance_sim.sim.faults.fault import End, Fault, Window
from rebalance_sim.sim.faults.ports import DrawRule, FaultWorld
from rebalance_sim.sim.faults.targets import FaultTargets


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientWindow(Window):
    """A fault of one client that lasts."""

    client: str

    @classmethod
    def drawn(
        cls, draw: Draw, rule: DrawRule, targets: FaultTargets, at_ms: int
    ) -> Iterator[Fault]:
        yield cls(
            at_ms=at_ms,
            duration_ms=draw.between(rule.duration_ms),
            client=targets.client(draw).name,
            **cls.drawn_further(draw, rule, targets),
        )

    @classmethod
    def drawn_further(cls, draw: Draw, rule: DrawRule, targets: FaultTargets) -> Mapping[str, Any]:
        """Further fields, drawn last."""
        return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionWindow(ClientWindow):
    """One that does nothing by itself: processes of the client ask for it when they act."""

    @abstractmethod
    def condition(self) -> Condition:
        """What they find while the window is open."""

    def begin(self, world: FaultWorld) -> End | bool:
        return world.client_processes.conditions[self.client].open(self.condition())
