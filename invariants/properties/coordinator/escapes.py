"""Exceptions: whatever is asked of a coordinator, its handlers decide."""

from __future__ import annotations

from rebalance_sim.invariants.property import Finding, Property
from rebalance_sim.invariants.step import Step

ORDER = 120


class NoUncaughtException(Property):
    """coordinator §9.4: a broker answers UNKNOWN_SERVER_ERROR to what a handler throws at."""

    id = "coordinator.no_uncaught_exception"
    sentence = "No exception escapes from a handler of a coordinator."
    clauses = ("coordinator §9.4",)
    violated_by = ("test:handler-escapes",)

    def on_escaped(self, step: Step) -> Finding | None:
        """Every such step is one."""
        what = step.event if step.request is None else step.request
        about = "" if what is None else f" at {type(what).__name__}"
        group_id = getattr(what, "group_id", "")
        where = f" of {group_id}" if group_id else ""
        return Finding(f"{step.shard.name}{about}{where}: {step.detail}")
