"""Rebalance callbacks are slow."""

from __future__ import annotations

from dataclasses import dataclass, field

from rebalance_sim.protocol.clients.common.values import CallbackKind
from rebalance_sim.sim.client.client_conditions import Condition
from rebalance_sim.sim.faults.client_window import ConditionWindow
from rebalance_sim.sim.faults.fault import drawn_by, drawn_from, size


@dataclass(frozen=True, slots=True, kw_only=True)
class CallbackSlowdown(ConditionWindow):
    """Rebalance callbacks that start in the window take ``callback_ms``: flushing state stores.

    ``callback`` None means every kind.
    """

    callback_ms: int = field(metadata=size(0) | drawn_from(100, 2_000))
    callback: CallbackKind | None = field(
        default=None, metadata=drawn_by(lambda draw, *_: draw.pick((None, *CallbackKind)))
    )

    def condition(self) -> Condition:
        return Condition(callback_ms=self.callback_ms, callback=self.callback)
