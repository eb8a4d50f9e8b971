"""A group that nobody serves. Source: defects L6."""

from __future__ import annotations

from collections.abc import Iterator

from rebalance_sim.invariants.model.quiet_period import QuietPeriod
from rebalance_sim.invariants.property import Deadline, Kind, Late, Property

ORDER = 300


class GroupServed(Property):
    """defects L6."""

    id = "liveness.group_served"
    sentence = "Once faults stop, some coordinator serves the group."
    clauses = ("defects L6",)
    violated_by = ("KAFKA-17306", "KAFKA-19862", "KAFKA-20254", "KAFKA-10614")
    kind = Kind.EVENTUALLY
    deadline = Deadline.REMOVAL

    def late(self, quiet: QuietPeriod, at_ms: int) -> Iterator[Late]:
        """Is there an active shard?"""
        if self.model.acting_shard() is None:
            yield Late("the group", "has no active coordinator")
