"""Rebalance callbacks fail."""

from __future__ import annotations

from dataclasses import dataclass, field

from rebalance_sim.protocol.clients.common.values import CallbackKind
from rebalance_sim.sim.client.client_conditions import Condition
from rebalance_sim.sim.faults.client_window import ConditionWindow
from rebalance_sim.sim.faults.fault import drawn_by


@dataclass(frozen=True, slots=True, kw_only=True)
class CallbackFailure(ConditionWindow):
    """Rebalance callbacks that end in the window throw. ``callback`` None means every kind."""

    callback: CallbackKind | None = field(
        default=None, metadata=drawn_by(lambda draw, *_: draw.pick((None, *CallbackKind)))
    )

    def condition(self) -> Condition:
        return Condition(callbacks_fail=True, callback=self.callback)
