"""Rebalance callbacks are slow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rebalance_sim.protocol.clients.common.values import CallbackKind
from rebalance_sim.sim.client.client_conditions import Condition
from rebalance_sim.sim.draw import Draw
from rebalance_sim.sim.faults.client_window import ConditionWindow
from rebalance_sim.sim.faults.fault import drawn_from, size
from rebalance_sim.sim.faults.targets import FaultTargets


@dataclass(frozen=True, slots=True, kw_only=True)
class CallbackSlowdown(ConditionWindow):
    """Rebalance callbacks that start in the window take ``callback_ms``: flushing state stores.

    ``callback`` None means every kind.
    """

    callback_ms: int = field(metadata=size(0) | drawn_from(100, 2_000))
    callback: CallbackKind | None = None

    def condition(self) -> Condition:
        return Condition(callback_ms=self.callback_ms, callback=self.callback)

    @classmethod
    def drawn_further(cls, draw: Draw, rule: Any, targets: FaultTargets) -> Mapping[str, Any]:
        callback_ms = draw.between(rule.callback_ms)
        return {"callback_ms": callback_ms, "callback": draw.pick((None, *CallbackKind))}
