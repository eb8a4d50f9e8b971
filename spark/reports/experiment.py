"""What an experiment says: each metric in each cell, and what every choice changes.

A metric of a cell is the median over its seeds, with an exact interval (``intervals.py``). What a
choice changes is a difference between runs that have the seed and all else in common: its mean over
all else, seed by seed, and of that the median over seeds. Runs of one seed are alike; seeds are
not, so the interval is over seeds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pandas as pd

from rebalance_sim.scenarios.experiment import GRID, Experiment
from rebalance_sim.spark.plan import SweepPlan
from rebalance_sim.spark.reports.comparison import COMPARED
from rebalance_sim.spark.reports.intervals import Median, median_of
from rebalance_sim.spark.store.experiment_tables import read_experiment, read_rebalances
from rebalance_sim.spark.store.opening import open_store
from rebalance_sim.spark.store.reading import read_plan
from rebalance_sim.spark.store.store import Location
from rebalance_sim.spark.store.tables import OUTCOMES, PASSING

REPORT_FILE = "report.md"
_NONE: Mapping[str, float] = {"settling_ms": -1}
"""Values that stand for none: the group was not stable at the end."""

WORDS: Mapping[str, str] = {metric.name: metric.words for metric in COMPARED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A metric in one cell, under one version and protocol, over the seeds that passed."""

    metric: str
    cell: int
    group: str
    seeds: int
    median: Median


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What it changes of a metric that ``choice`` is ``value`` and not ``base``.

    ``difference`` is the median over ``seeds`` of value minus base, each a mean over cells;
    ``relative`` is the same in shares of the base's median over seeds (None: that is 0). In
    ``less`` seeds the value has less of it.
    """

    metric: str
    choice: str
    base: str
    value: str
    group: str
    seeds: int
    difference: Median
    relative: float | None
    less: int
    more: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentSummary:
    """What a finished experiment says. ``runs`` has a row for each run, ``rebalances`` for each
    rebalance."""

    experiment: Experiment
    plan: SweepPlan
    report: Location
    runs: pd.DataFrame
    rebalances: pd.DataFrame
    outcomes: Mapping[str, int]
    points: tuple[Point, ...]
    effects: tuple[Effect, ...]
    failures: tuple[tuple[str, str, str], ...]
    runs_done: int
    elapsed_s: float

    @property
    def passed(self) -> bool:
        """Whether every run gave a verdict and no run found anything new."""
        return set(self.outcomes) <= PASSING

    @property
    def groups(self) -> list[str]:
        """What is held side by side: protocols, versions, or both; a single empty name for
        neither."""
        return list(dict.fromkeys(point.group for point in self.points))


def summarise_experiment(
    out: Location, experiment: Experiment, *, runs: int = 0, elapsed_s: float = 0.0
) -> ExperimentSummary:
    """Read the tables in ``out``. Raises SweepError if there are none."""
    return summary_of(
        experiment,
        read_plan(out),
        read_experiment(out),
        read_rebalances(out),
        report=open_store(out).location(REPORT_FILE),
        runs_done=runs,
        elapsed_s=elapsed_s,
    )


def summary_of(
    experiment: Experiment,
    plan: SweepPlan,
    runs: pd.DataFrame,
    rebalances: pd.DataFrame,
    *,
    report: Location,
    runs_done: int = 0,
    elapsed_s: float = 0.0,
) -> ExperimentSummary:
    """What these rows say, wherever they come from."""
    for name, none in _NONE.items():
        if name in runs:
            runs[name] = runs[name].where(runs[name] != none)
    counts = Counter(runs["outcome"])
    passing = runs[runs["outcome"].isin(sorted(PASSING))].copy()
    passing["group"] = _groups(passing)
    return ExperimentSummary(
        experiment=experiment,
        plan=plan,
        report=report,
        runs=runs,
        rebalances=rebalances,
        outcomes={name: counts[name] for name in OUTCOMES if name in counts},
        points=tuple(_points(passing, experiment)),
        effects=tuple(_effects(passing, experiment)),
        failures=tuple(_failures(plan, runs)),
        runs_done=runs_done,
        elapsed_s=elapsed_s,
    )


def _groups(frame: pd.DataFrame) -> pd.Series:
    """Protocol and version of each run, as far as there are several."""
    names = [name for name in ("protocol", "semantics") if frame[name].nunique() > 1]
    if not names:
        return pd.Series("", index=frame.index)
    return frame[names].agg(" ".join, axis=1)


def _points(frame: pd.DataFrame, experiment: Experiment) -> Iterator[Point]:
    for metric in experiment.metrics:
        if metric not in frame:
            continue
        values = frame.dropna(subset=[metric])
        for (group, cell), rows in values.groupby(["group", "cell"], sort=False):
            yield Point(
                metric=metric,
                cell=int(cell),
                group=str(group),
                seeds=len(rows),
                median=median_of([float(value) for value in rows[metric]]),
            )


def _effects(frame: pd.DataFrame, experiment: Experiment) -> Iterator[Effect]:
    """Against the first protocol, the first version, and the first value of each parameter."""
    parameters = [parameter.name for parameter in experiment.vary]
    of_sides = [name for name in ("protocol", "semantics") if frame[name].nunique() > 1]
    # Only in a grid are there runs that differ in one parameter alone.
    varied = parameters if experiment.design == GRID else []
    for metric in experiment.metrics:
        if metric not in frame:
            continue
        for choice in (*of_sides, *varied):
            common = ["seed", *(n for n in (*parameters, *of_sides) if n != choice)]
            wide = _hashable(frame, [choice, *common]).pivot(
                index=common, columns=choice, values=metric
            )
            levels = _levels(frame, choice, experiment)
            sides = [""] if choice in of_sides else list(dict.fromkeys(frame["group"]))
            for value in levels[1:]:
                for group in sides:
                    rows = wide[[levels[0], value]].dropna()
                    if group:
                        rows = rows[_belongs(rows, frame, group, of_sides)]
                    if len(rows):
                        yield _effect(metric, choice, levels[0], value, group, rows)


def _hashable(frame: pd.DataFrame, names: list[str]) -> pd.DataFrame:
    return frame.drop_duplicates(subset=names)


def _levels(frame: pd.DataFrame, choice: str, experiment: Experiment) -> list[object]:
    """The values of a choice that runs have, in the order in which the experiment names them."""
    order = dict.fromkeys(frame.sort_values(["cell"], kind="stable")[choice])
    named = experiment.protocols if choice == "protocol" else experiment.semantics
    if choice in ("protocol", "semantics"):
        return [name for name in named if name in order]
    return list(order)


def _belongs(
    rows: pd.DataFrame, frame: pd.DataFrame, group: str, of_sides: list[str]
) -> list[bool]:
    side = frame[frame["group"] == group].iloc[0]
    kept = [True] * len(rows)
    for name in of_sides:
        level = rows.index.get_level_values(name)
        kept = [one and value == side[name] for one, value in zip(kept, level, strict=True)]
    return kept


def _effect(
    metric: str, choice: str, base: object, value: object, group: str, rows: pd.DataFrame
) -> Effect:
    by_seed = (rows[value] - rows[base]).groupby(level="seed", sort=True).mean()
    differences = [float(one) for one in by_seed]
    # Averaged over cells as the differences are: of a long tail, both have the same share.
    middle = float(rows[base].groupby(level="seed").mean().median())
    difference = median_of(differences)
    return Effect(
        metric=metric,
        choice=choice,
        base=str(base),
        value=str(value),
        group=group,
        seeds=len(differences),
        difference=difference,
        relative=difference.value / middle if middle else None,
        less=sum(one < 0 for one in differences),
        more=sum(one > 0 for one in differences),
    )


def _failures(plan: SweepPlan, frame: pd.DataFrame) -> Iterator[tuple[str, str, str]]:
    """Outcome, reason and the command that shows it again, of each run that did not pass."""
    count = len(plan.variants)
    for place, outcome in enumerate(frame["outcome"]):
        if outcome not in PASSING:
            variant, seed = plan.variants[place % count], frame["seed"].iloc[place]
            reason = str(frame["reason"].iloc[place])
            yield outcome, reason, f"rebalance-sim run {variant.options} --seed {seed}"
