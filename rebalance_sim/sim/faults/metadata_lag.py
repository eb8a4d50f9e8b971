"""A client sees old metadata."""

from __future__ import annotations

from dataclasses import dataclass

from rebalance_sim.sim.client.client_conditions import Condition
from rebalance_sim.sim.faults.client_window import ConditionWindow


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataLag(ConditionWindow):
    """A client's metadata stays as it is at the start of the window, however topics change.

    It refreshes from a broker that lags behind the controller.
    """

    def condition(self) -> Condition:
        return Condition(metadata_lags=True)
