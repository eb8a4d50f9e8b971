"""Protocols compared: every seed under each of them, and what that says about one against another.

All protocols of a seed run in the same batch, with the same world and the same faults
(``scenarios.compare``). So each seed is a pair of runs that differ in the protocol alone, and what
is compared are differences within pairs: how hard a scenario is cancels out.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from rebalance_sim.scenarios.units import compared
from rebalance_sim.spark.errors import SweepError
from rebalance_sim.spark.plan import SweepPlan
from rebalance_sim.spark.reports.intervals import NO_MEDIAN, median_of
from rebalance_sim.spark.reports.markdown import REPORT_FILE
from rebalance_sim.spark.reports.pairing import pair
from rebalance_sim.spark.reports.report import Throughput
from rebalance_sim.spark.store.experiment_tables import read_file, write_file
from rebalance_sim.spark.store.opening import open_store
from rebalance_sim.spark.store.reading import read_plan, read_table
from rebalance_sim.spark.store.store import Location
from rebalance_sim.spark.store.tables import COMPARISON, MISSING, OUTCOMES, PASSING

TABLE_FILE = "comparison.parquet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """One metric under one protocol, over the compared seeds in which every protocol has a value.

    Intervals are 95 %, exact (``intervals.py``), NaN where there are too few seeds. ``difference``:
    median over seeds of the value minus that of the base; NaN where the base has no figure.
    ``won``, ``tied`` and ``lost`` count seeds in which it is below, at and above that of the base.
    """

    metric: str
    protocol: str
    seeds: int
    median: float
    median_low: float
    median_high: float
    mean: float
    p95: float
    difference: float
    difference_low: float
    difference_high: float
    won: int
    tied: int
    lost: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonSummary:
    """What a finished comparison says.

    ``outcomes`` and ``known`` are by protocol. ``seeds`` are compared: each of their runs ended
    ``ok`` or ``known``. ``failed``: protocol -> what became of its runs, for protocols that have no
    figures (``pairing.py``). ``values``: the metrics of all others, a row for each compared seed.
    ``failures``: seed, protocol, outcome and reason of the runs that did not pass.
    """

    plan: SweepPlan
    base: str
    report: Location
    outcomes: Mapping[str, Mapping[str, int]]
    known: Mapping[str, Mapping[str, int]]
    seeds: tuple[int, ...]
    failed: Mapping[str, str]
    values: Mapping[str, pd.DataFrame]
    estimates: tuple[Estimate, ...]
    failures: tuple[tuple[int, str, str, str], ...]
    throughput: Throughput

    @property
    def passed(self) -> bool:
        """Whether every run gave a verdict and no run found anything new."""
        return all(set(counts) <= PASSING for counts in self.outcomes.values())

    @property
    def seeds_compared(self) -> int:
        """How many seeds are compared."""
        return len(self.seeds)

    def unstable(self, protocol: str) -> int:
        """In how many of the compared seeds its groups were not stable at the end."""
        values = self.values.get(protocol, pd.DataFrame())
        return int(values["settling_ms"].isna().sum()) if "settling_ms" in values else 0

    def failure_against_base(self, protocol: str) -> str:
        """Why this protocol is not held against the base; empty if it is."""
        if protocol in self.failed:
            return self.failed[protocol]
        return f"{self.base}: {self.failed[self.base]}" if self.base in self.failed else ""

    def replay_command(self, seed: int, protocol: str) -> str:
        """What to type to see one run again."""
        words = self.plan.base.speaking(protocol).options_with(self.plan.plugins)
        return f"rebalance-sim run {words} --seed {seed}"

    def frame(self) -> pd.DataFrame:
        """The estimates as a pandas frame, one row for each metric and protocol."""
        return pd.DataFrame(map(asdict, self.estimates), columns=COMPARISON.names)


def summarise_comparison(
    out: Location, *, base: str | None = None, seeds_run: int = 0, elapsed_s: float = 0.0
) -> ComparisonSummary:
    """Read the tables in ``out``. Raises SweepError if nothing is compared there."""
    plan, runs = read_plan(out), read_table(out, "runs")
    if not plan.protocols:
        raise SweepError(f"{out} holds a sweep: nothing is compared in it")
    base = plan.protocols[0] if base is None else base
    heads = runs.select(["seed", "protocol", "outcome", "reason"]).to_pylist()
    counts = Counter((row["protocol"], row["outcome"]) for row in heads)
    of_protocol = {name: runs.filter(pc.field("protocol") == name) for name in plan.protocols}
    paired = pair((row["protocol"], row["seed"], row["outcome"]) for row in heads)
    values = {
        name: _values(table, paired.seeds)
        for name, table in of_protocol.items()
        if name not in paired.failed
    }
    wall = read_table(out, "timing").column("wall_ms")
    return ComparisonSummary(
        plan=plan,
        base=base,
        report=open_store(out).location(REPORT_FILE),
        outcomes={
            name: {outcome: counts[name, outcome] for outcome in OUTCOMES if counts[name, outcome]}
            for name in plan.protocols
        },
        known={name: _known(table) for name, table in of_protocol.items()},
        seeds=paired.seeds,
        failed=paired.failed,
        values=values,
        estimates=tuple(_estimates(values, base)),
        failures=tuple(tuple(row.values()) for row in heads if row["outcome"] not in PASSING),
        throughput=Throughput(
            run_ms_mean=pc.mean(wall).as_py() or 0.0,
            run_ms_p99=pc.quantile(wall, 0.99)[0].as_py() or 0.0,
            seeds_run=seeds_run,
            elapsed_s=elapsed_s,
        ),
    )


def read_comparison(out: Location) -> pd.DataFrame:
    """The table ``comparison`` of the folder of a comparison, as a pandas frame.

    Raises SweepError if there is none.
    """
    return read_file(out, TABLE_FILE, "a comparison")


def write_table(out: Location, estimates: Sequence[Estimate]) -> None:
    """Write the table ``comparison``; equal estimates are equal bytes."""
    rows = [asdict(estimate) for estimate in estimates]
    write_file(out, TABLE_FILE, pa.Table.from_pylist(rows, schema=COMPARISON))


def _known(runs: pa.Table) -> dict[str, int]:
    """Known issue -> runs in which it showed."""
    shown = (_by_seed(runs, "known") > 0).sum()
    return {str(name): int(count) for name, count in shown.items() if count}


def _values(runs: pa.Table, seeds: Sequence[int]) -> pd.DataFrame:
    wide = _by_seed(runs, "metrics").reindex(list(seeds))
    for name, none in MISSING.items():
        if name in wide:
            wide[name] = wide[name].where(wide[name] != none)
    return wide


def _by_seed(runs: pa.Table, column: str) -> pd.DataFrame:
    """A map column of ``runs``: a row for each seed, a column for each name."""
    maps = runs.column(column)
    names = {name for chunk in maps.chunks for name in chunk.keys.unique().to_pylist()}
    columns = {n: pc.map_lookup(maps, pa.scalar(n), "first").to_pandas() for n in sorted(names)}
    return pd.DataFrame(columns).set_axis(runs.column("seed").to_pylist())


def paired_values(values: Mapping[str, pd.DataFrame]) -> Iterator[tuple[str, pd.DataFrame]]:
    """Each metric of the protocols' ``values``, with a row for each seed in which all of them have
    one, and a column for each protocol. One that no seed has under all is left out."""
    if not values:
        return
    for metric in compared(set.intersection(*map(set, values.values()))):
        rows = pd.DataFrame({name: frame[metric] for name, frame in values.items()}).dropna()
        if len(rows):
            yield metric, rows


def _estimates(values: Mapping[str, pd.DataFrame], base: str) -> Iterator[Estimate]:
    for metric, rows in paired_values(values):
        for protocol in rows:
            own = rows[protocol].astype(float).tolist()
            differences = (rows[protocol] - rows[base]).tolist() if base in rows else []
            median = median_of(own)
            difference = median_of(differences) if differences else NO_MEDIAN
            yield Estimate(
                metric=metric,
                protocol=str(protocol),
                seeds=len(own),
                median=median.value,
                median_low=median.low,
                median_high=median.high,
                mean=math.fsum(own) / len(own),
                p95=float(rows[protocol].quantile(0.95)),
                difference=difference.value,
                difference_low=difference.low,
                difference_high=difference.high,
                won=sum(value < 0 for value in differences),
                tied=sum(value == 0 for value in differences),
                lost=sum(value > 0 for value in differences),
            )
