"""What several defects need."""

from __future__ import annotations

from rebalance_sim.protocol.consumer.consumer_member import Member
from rebalance_sim.protocol.consumer.ownership_rules import Epochs, OwnershipRules


class NoDoubleOwnershipAlarm(OwnershipRules):
    """The ownership map without its own check: defects that assign owned partitions must reach the
    properties instead of failing in the coordinator."""

    def update(
        self, epochs: Epochs, old: Member | None, new: Member | None, *, strict: bool
    ) -> None:
        super().update(epochs, old, new, strict=False)
