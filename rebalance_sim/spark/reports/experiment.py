"""What an experiment says: each metric in each cell, what every choice changes, and what plots
show of it.

A metric of a cell is the median over the seeds that are compared, the same in every cell
(``pairing.py``), with an exact interval (``intervals.py``). What a choice changes is a difference
between runs that have the seed and all else in common: its median over all else, seed by seed, and
of that the median over seeds. Runs of one seed are alike; seeds are not, so the interval is over
seeds. A mean would be that of the one cell with a long tail; and what changes a metric one way in
some cells and the other way in others is said to (``Effect.alike``).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import pandas as pd

from rebalance_sim.scenarios.experiment import GRID, LIST, Cell, Experiment, Parameter, common
from rebalance_sim.scenarios.units import parameter_title, unit_of
from rebalance_sim.spark.plan import SweepPlan
from rebalance_sim.spark.reports.intervals import Median, median_of
from rebalance_sim.spark.reports.markdown import REPORT_FILE
from rebalance_sim.spark.reports.pairing import failure_of, pair, paired_runs, time_of, uneven
from rebalance_sim.spark.store.experiment_tables import read_experiment, read_rebalances
from rebalance_sim.spark.store.opening import open_store
from rebalance_sim.spark.store.reading import read_plan
from rebalance_sim.spark.store.store import Location
from rebalance_sim.spark.store.tables import MISSING, OUTCOMES, PASSING

LINES_MOST = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A metric in one cell, under one version and protocol, over the seeds that are compared."""

    metric: str
    cell: int
    group: str
    seeds: int
    median: Median


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What it changes of a metric that ``choice`` is ``value`` and not ``base``.

    ``difference`` is the median over ``seeds`` of value minus base, each a median over cells;
    ``relative`` is the same in shares of the base's median over seeds (None: that is 0). In
    ``less`` seeds the value has less of it. ``alike`` of ``cells`` change, by their own medians,
    as all do together. Where runs of either did not pass, or are not alike,
    there is no difference, and ``failed`` says why.
    """

    metric: str
    choice: str
    base: str
    value: str
    group: str
    seeds: int = 0
    difference: Median | None = None
    relative: float | None = None
    less: int = 0
    more: int = 0
    cells: int = 0
    alike: int = 0
    failed: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentSummary:
    """What a finished experiment says. ``runs`` has a row for each run, ``rebalances`` for each
    rebalance.

    ``groups`` are what is held side by side: protocols, versions, or both; a single empty name for
    neither. ``failed``: group and cell -> what became of its runs, for cells without a figure; all
    others are compared over the same seeds (``pairing.py``). ``lacking``: metric -> why no cell has
    a figure of it. ``uneven``: metric -> why its cells are not to be held side by side.
    """

    experiment: Experiment
    plan: SweepPlan
    report: Location
    runs: pd.DataFrame
    rebalances: pd.DataFrame
    outcomes: Mapping[str, int]
    groups: tuple[str, ...]
    failed: Mapping[tuple[str, int], str]
    lacking: Mapping[str, str]
    uneven: Mapping[str, str]
    points: tuple[Point, ...]
    effects: tuple[Effect, ...]
    failures: tuple[tuple[str, str, str], ...]
    runs_done: int
    elapsed_s: float

    @property
    def passed(self) -> bool:
        """Whether every run gave a verdict and no run found anything new."""
        return set(self.outcomes) <= PASSING


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
    for name, none in MISSING.items():
        if name in runs:
            runs[name] = runs[name].where(runs[name] != none)
    counts = Counter(runs["outcome"])
    sides = _sides(runs)
    grouped = runs.assign(group=runs[sides].agg(" ".join, axis=1) if sides else "")
    cells = zip(grouped["group"], grouped["cell"], strict=True)
    failed = pair(zip(cells, grouped["seed"], grouped["outcome"], strict=True)).failed
    compared = paired_runs(grouped, by=("group", "cell"))
    return ExperimentSummary(
        experiment=experiment,
        plan=plan,
        report=report,
        runs=runs,
        rebalances=rebalances,
        outcomes={name: counts[name] for name in OUTCOMES if name in counts},
        groups=tuple(dict.fromkeys(grouped["group"])),
        failed=failed,
        lacking=dict(_lacking(compared, experiment)),
        uneven=dict(_uneven(compared, experiment)),
        points=tuple(_points(compared, experiment)),
        effects=tuple(_effects(grouped, compared, experiment)),
        failures=tuple(_failures(plan, runs)),
        runs_done=runs_done,
        elapsed_s=elapsed_s,
    )


def _sides(frame: pd.DataFrame) -> list[str]:
    """Protocol and version, as far as there are several."""
    return [name for name in ("protocol", "semantics") if frame[name].nunique() > 1]


def _in_every_cell(frame: pd.DataFrame, metric: str) -> pd.DataFrame:
    """The runs of the seeds that have a value of the metric in every cell."""
    lacking = frame.loc[frame[metric].isna(), "seed"]
    return frame[~frame["seed"].isin(lacking)]


def _lacking(compared: pd.DataFrame, experiment: Experiment) -> Iterator[tuple[str, str]]:
    for metric in experiment.metrics:
        if metric in compared and len(compared) and _in_every_cell(compared, metric).empty:
            yield metric, f"{compared[metric].count():,} of {len(compared):,} runs have it"


def _uneven(compared: pd.DataFrame, experiment: Experiment) -> Iterator[tuple[str, str]]:
    for metric in experiment.metrics:
        time_ms = time_of(metric, compared)
        if time_ms is not None and len(compared):
            words = uneven(compared.groupby(["group", "cell"])[time_ms].median())
            if words:
                yield metric, words


def _points(compared: pd.DataFrame, experiment: Experiment) -> Iterator[Point]:
    for metric in experiment.metrics:
        if metric not in compared:
            continue
        values = _in_every_cell(compared, metric)
        for (group, cell), rows in values.groupby(["group", "cell"], sort=False):
            yield Point(
                metric=metric,
                cell=int(cell),
                group=str(group),
                seeds=len(rows),
                median=median_of([float(value) for value in rows[metric]]),
            )


def _effects(
    runs: pd.DataFrame, compared: pd.DataFrame, experiment: Experiment
) -> Iterator[Effect]:
    """Against the first protocol, the first version, and the first value of each parameter."""
    of_sides = _sides(runs)
    # Only in a grid are there runs that differ in one parameter alone.
    varied = [one.name for one in experiment.vary] if experiment.design == GRID else []
    for metric in experiment.metrics:
        if metric not in runs:
            continue
        values = _in_every_cell(compared, metric)
        for choice in (*of_sides, *varied):
            base, *others = _levels(runs, choice, experiment)
            is_side = choice in of_sides
            groups = [""] if is_side else list(dict.fromkeys(runs["group"]))
            alike = ["cell", *of_sides] if is_side else list(varied)
            alike.remove(choice)
            for value in others:
                for group in groups:
                    effect = Effect(
                        metric=metric,
                        choice=choice,
                        base=shown(base),
                        value=shown(value),
                        group=group,
                    )
                    of_group = runs if is_side else runs[runs["group"] == group]
                    failed = _failure(of_group, choice, base, value)
                    if failed:
                        yield replace(effect, failed=failed)
                        continue
                    rows = values.loc[values.index.intersection(of_group.index)]
                    if unlike := _unlike(rows[rows[choice].isin([base, value])], choice, metric):
                        yield replace(effect, failed=unlike)
                        continue
                    wide = rows.pivot(index=["seed", *alike], columns=choice, values=metric)
                    yield _measured(effect, wide[value] - wide[base], wide[base])


def _unlike(rows: pd.DataFrame, choice: str, metric: str) -> str:
    """Why the runs of two values of a choice are not compared by this metric, if they are not."""
    if rows.empty:
        return "no seed has it in every cell"
    time_ms = time_of(metric, rows)
    return "" if time_ms is None else uneven(rows.groupby(choice)[time_ms].median())


def _failure(runs: pd.DataFrame, choice: str, base: object, value: object) -> str:
    """What became of the runs with the one value, and of those with the other, if some failed."""
    words = [failure_of(runs.loc[runs[choice] == one, "outcome"]) for one in (base, value)]
    if words[0]:
        words[0] = f"{base}: {words[0]}"
    return "; ".join(filter(None, reversed(words)))


def _levels(frame: pd.DataFrame, choice: str, experiment: Experiment) -> list[object]:
    """The values of a choice that runs have, in the order in which the experiment names them."""
    found = list(dict.fromkeys(frame.sort_values(["cell"], kind="stable")[choice]))
    named = {"protocol": experiment.protocols, "semantics": experiment.semantics}
    return [name for name in named.get(choice, found) if name in found]


def _measured(effect: Effect, changes: pd.Series, base: pd.Series) -> Effect:
    differences = [float(one) for one in changes.groupby(level="seed", sort=True).median()]
    middle = float(base.groupby(level="seed").median().median())
    difference = median_of(differences)
    all_else = [name for name in changes.index.names if name != "seed"]
    of_cells = changes.groupby(level=all_else).median().dropna() if all_else else []
    ways = [_way(one) for one in of_cells] or [_way(difference.value)]
    return replace(
        effect,
        seeds=len(differences),
        difference=difference,
        relative=difference.value / middle if middle else None,
        less=sum(one < 0 for one in differences),
        more=sum(one > 0 for one in differences),
        cells=len(ways),
        alike=ways.count(_way(difference.value)),
    )


def _way(change: float) -> int:
    return (change > 0) - (change < 0)


def _failures(plan: SweepPlan, frame: pd.DataFrame) -> Iterator[tuple[str, str, str]]:
    """Outcome, reason and the command that shows it again, of each run that did not pass."""
    count = len(plan.variants)
    for place, outcome in enumerate(frame["outcome"]):
        if outcome not in PASSING:
            variant, seed = plan.variants[place % count], frame["seed"].iloc[place]
            reason = str(frame["reason"].iloc[place])
            yield outcome, reason, f"rebalance-sim run {variant.options} --seed {seed}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """Medians of a metric, with the ends of their intervals, along a parameter."""

    name: str
    xs: tuple[Any, ...]
    medians: tuple[float, ...]
    lows: tuple[float, ...]
    highs: tuple[float, ...]
    is_joined: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One of the small plots. ``xs`` are all places of its axis in order. ``failed``: place ->
    what became of runs of cells there that have no figure."""

    title: str
    x_title: str
    xs: tuple[Any, ...]
    is_numeric: bool
    is_log: bool
    lines: tuple[Line, ...]
    failed: Mapping[Any, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricPlot:
    """All panels of one metric: a row for each parameter, a column for each protocol and version.
    If one other parameter is varied, each of its values has a line; if several are, or values are
    drawn from ranges, every cell is a point. Every figure is over the same ``seeds``."""

    metric: str
    seeds: int
    unit: str
    rows: tuple[tuple[Panel, ...], ...]


def metric_plots(summary: ExperimentSummary) -> Iterator[MetricPlot]:
    """The plot of each metric of interest that runs have."""
    experiment = summary.experiment
    for metric in experiment.metrics:
        points = [point for point in summary.points if point.metric == metric]
        if points or (summary.failed and metric in summary.runs):
            unit, scale = unit_of(metric)
            # What a list varies together has one axis.
            is_list = experiment.design == LIST
            axes = [experiment.vary] if is_list else [(one,) for one in experiment.vary]
            yield MetricPlot(
                metric=metric,
                seeds=max((point.seeds for point in points), default=0),
                unit=unit,
                rows=tuple(_row(summary, points, axis, scale) for axis in axes or [()]),
            )


def _row(
    summary: ExperimentSummary, points: Sequence[Point], axis: Sequence[Parameter], scale: float
) -> tuple[Panel, ...]:
    cells = {cell.number: cell for cell in summary.experiment.cells}
    xs = tuple(dict.fromkeys(_x(cell, axis) for cell in cells.values()))
    is_numeric = common(xs)
    panels = []
    for group in summary.groups:
        of_group = [point for point in points if point.group == group]
        failed: dict[Any, list[str]] = {}
        for (name, number), words in summary.failed.items():
            if name == group:
                failed.setdefault(_x(cells[number], axis), []).append(words)
        panels.append(
            Panel(
                title=group,
                x_title=", ".join(parameter_title(parameter.name) for parameter in axis),
                xs=xs,
                is_numeric=is_numeric,
                is_log=is_numeric and any(parameter.scale == "log" for parameter in axis),
                lines=tuple(_lines(summary, of_group, cells, axis, scale)),
                failed={x: "; ".join(dict.fromkeys(words)) for x, words in failed.items()},
            )
        )
    return tuple(panels)


def _lines(
    summary: ExperimentSummary,
    points: Sequence[Point],
    cells: Mapping[int, Cell],
    axis: Sequence[Parameter],
    scale: float,
) -> Iterator[Line]:
    others = [parameter for parameter in summary.experiment.vary if parameter not in axis]
    is_drawn = any(p.between is not None for p in summary.experiment.vary)
    is_split = len(others) == 1 and not is_drawn and len(others[0].values) <= LINES_MOST
    of_line: dict[str, list[Point]] = {} if is_split else {"": list(points)}
    for point in points if is_split else ():
        value = cells[point.cell].values[others[0].name]
        name = f"{parameter_title(others[0].name)} = {shown(value)}"
        of_line.setdefault(name, []).append(point)
    for name, rows in of_line.items():
        medians = [point.median for point in rows]
        # An interval that is not known has no length.
        ends = [(m.value, m.value) if math.isnan(m.low) else (m.low, m.high) for m in medians]
        yield Line(
            name=name,
            xs=tuple(_x(cells[point.cell], axis) for point in rows),
            medians=tuple(median.value / scale for median in medians),
            lows=tuple(low / scale for low, _ in ends),
            highs=tuple(high / scale for _, high in ends),
            is_joined=is_split or not (others or is_drawn or len(axis) > 1),
        )


def _x(cell: Cell, axis: Sequence[Parameter]) -> Any:
    values = [cell.values[parameter.name] for parameter in axis]
    return values[0] if len(values) == 1 and common(values) else "\n".join(map(shown, values))


def shown(value: Any) -> str:
    """A value of a parameter, for people."""
    if isinstance(value, list | tuple):
        return ", ".join(map(shown, value))
    is_whole = isinstance(value, Integral) and not isinstance(value, bool)
    return f"{value:,}" if is_whole else str(value)
