"""Which limits of metrics the runs of a sweep exceed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rebalance_sim.scenarios.metric_limits import MetricLimit, limit_word
from rebalance_sim.spark.reports.report import SweepSummary
from rebalance_sim.spark.store.reading import read_table
from rebalance_sim.spark.store.store import Location


def limit_objections(
    out: Location, summary: SweepSummary, limits: Iterable[MetricLimit]
) -> Iterator[str]:
    """A line for each limit that runs of the sweep in ``out`` exceed, with the first of them.

    Rows are read only if there is such a run. Raises SweepError.
    """
    longest = {metric.name: metric.max for metric in summary.metrics}
    for limit in limits:
        failed = f"failed on {limit_word(limit.metric)}"
        if limit.metric not in longest:
            yield f"{failed}: no run has this metric"
        elif limit.is_exceeded_by(longest[limit.metric]):
            rows = read_table(out, "runs").select(["seed", "metrics"]).to_pylist()
            values = {row["seed"]: dict(row["metrics"]).get(limit.metric, 0) for row in rows}
            over = [seed for seed, value in values.items() if limit.is_exceeded_by(value)]
            yield (
                f"{failed}: more than {limit.most:,g} in {len(over):,} of {len(rows):,} runs, "
                f"the first is {summary.replay_command(over[0])}"
            )
