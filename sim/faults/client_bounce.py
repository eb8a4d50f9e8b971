"""Clients are restarted, one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rebalance_sim.sim.draw import Draw
from rebalance_sim.sim.faults.fault import Fault
from rebalance_sim.sim.faults.ports import DrawRule
from rebalance_sim.sim.faults.rolling_restart import RollingRestart
from rebalance_sim.sim.faults.targets import FaultTargets


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientBounce(RollingRestart):
    """A rolling deployment: clients are stopped and started one after the other, in name order."""

    @classmethod
    def drawn(
        cls, draw: Draw, rule: DrawRule, targets: FaultTargets, at_ms: int
    ) -> Iterator[Fault]:
        yield cls(
            at_ms=at_ms,
            down_ms=draw.between(rule.duration_ms),
            gap_ms=draw.between(rule.gap_ms),
            graceful=draw.chance(0.7),
        )
