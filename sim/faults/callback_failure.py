"""Rebalance callbacks fail."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rebalance_sim.protocol.clients.common.values import CallbackKind
from rebalance_sim.sim.client.client_conditions import Condition
from rebalance_sim.sim.draw import Draw
from rebalance_sim.sim.faults.client_window import ConditionWindow
from rebalance_sim.sim.faults.ports import DrawRule
from rebalance_sim.sim.faults.targets import FaultTargets


@dataclass(frozen=True, slots=True, kw_only=True)
class CallbackFailure(ConditionWindow):
    """Rebalance callbacks that end in the window throw. ``callback`` None means every kind."""

    callback: CallbackKind | None = None

    def condition(self) -> Condition:
        return Condition(callbacks_fail=True, callback=self.callback)

    @classmethod
    def drawn_further(cls, draw: Draw, rule: DrawRule, targets: FaultTargets) -> Mapping[str, Any]:
        return {"callback": draw.pick((None, *CallbackKind))}
