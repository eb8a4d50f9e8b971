"""Whether the rows of a sweep are those of its plan, known from the summaries of its batches."""

from __future__ import annotations

from rebalance_sim.spark.errors import SweepError
from rebalance_sim.spark.plan import SweepPlan
from rebalance_sim.spark.store.reading import read_summary
from rebalance_sim.spark.store.store import Location
from rebalance_sim.spark.store.summary import Summary


def check_complete(out: Location, plan: SweepPlan) -> Summary:
    """Every planned run has exactly one row; returns what all of them come to.

    Raises SweepError, with the batch, if that is not so.
    """

    def check(index: int, summary: Summary) -> None:
        seeds = plan.batch_seeds(index)
        expected = (seeds.start, seeds.stop, len(plan.batch_units(index)))
        if (summary.first, summary.end, summary.rows) != expected:
            raise SweepError(
                f"batch {index} of {out} has {summary.rows} rows of the seeds "
                f"{summary.first}:{summary.end}, {expected[2]} of {seeds.start}:{seeds.stop} "
                "were planned: delete its object in runs/ and run the sweep again"
            )

    total = read_summary(out, check)
    planned = len(plan.seeds) * len(plan.variants)
    if total.rows != planned:
        raise SweepError(
            f"{out} has {total.rows} rows, {planned} were planned: run the sweep again"
        )
    return total
