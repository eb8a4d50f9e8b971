"""A group that nobody serves. Source: defects L6."""

from __future__ import annotations

from collections.abc import Iterator

from rebalance_sim.invariants.model.quiet_period import QuietPeriod
from rebalance_sim.invariants.property import Deadline, Finding, Kind, Late, Property
from rebalance_sim.invariants.step import Step
from rebalance_sim.protocol.hosting.shard import LOAD_FAILED

ORDER = 300


class LoadSucceeds(Property):
    """defects L6: no state that a log can be in keeps a coordinator from loading it."""

    id = "log.load_succeeds"
    sentence = (
        "A coordinator can load whatever the log holds, in whichever order compaction left it."
    )
    clauses = ("defects L6", "coordinator §9.5")
    violated_by = (
        "KAFKA-17306",
        "KAFKA-19862",
        "KAFKA-20254",
    )

    def on_unloaded(self, step: Step) -> Finding | None:
        """Was it a load that failed?"""
        if not step.detail.startswith(LOAD_FAILED):
            return None
        return Finding(f"{step.shard.name} could not load its log")


class GroupServed(Property):
    """defects L6."""

    id = "liveness.group_served"
    sentence = "Once faults stop, some coordinator serves the group."
    clauses = ("defects L6",)
    violated_by = (
        "KAFKA-17306",
        "KAFKA-19862",
        "KAFKA-20254",
        "KAFKA-10614",
    )
    kind = Kind.EVENTUALLY
    deadline = Deadline.REMOVAL

    def late(self, quiet: QuietPeriod, at_ms: int) -> Iterator[Late]:
        """Is there an active shard?"""
        if self.model.acting_shard() is None:
            yield Late("the group", "has no active coordinator")
