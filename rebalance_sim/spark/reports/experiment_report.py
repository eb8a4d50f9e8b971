"""The report of an experiment: the question, the answer, plots, and all figures."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from math import isnan
from re import sub

from rebalance_sim.scenarios.documents import document as doc
from rebalance_sim.scenarios.units import number, parameter_title, title_of, unit_of, words_of
from rebalance_sim.spark.reports import page_plots, stills
from rebalance_sim.spark.reports.experiment import ExperimentSummary, metric_plots, shown
from rebalance_sim.spark.reports.intervals import in_unit
from rebalance_sim.spark.reports.markdown import write_document
from rebalance_sim.spark.store.store import Location
from rebalance_sim.spark.store.tables import OUTCOMES

CELLS_LISTED = 60
FAILURES_LISTED = 20
EFFECTS_FIRST = 8
"""Effects that stand above all plots: those on the first metric."""

NOTES = (
    "Every cell has the same seeds, and all random draws belong to one concern and one actor: two "
    "cells differ in what is varied and in what follows from it. Medians are over seeds, with "
    "exact 95 % intervals from order statistics; an effect is the median over seeds of the "
    "median difference between runs that differ in one choice alone; `cells` says in how many of "
    "the cells the median changes the same way. Of intervals about nothing, one in "
    "twenty misses 0 by chance.",
    "A cell in which a run did not pass has no figure, but says what became of its runs: seeds "
    "that survive are the easy ones. All other cells have the same seeds, as many as stand beside "
    "the figures: those that ended `ok`, `known` or `partly-judged`, and have the metric, in each "
    "of these cells.",
)


def write_experiment_report(out: Location, summary: ExperimentSummary) -> None:
    """Write ``report.md`` with its plots, and ``report.html`` if Plotly is installed."""
    write_document(out, experiment_document(summary))


def experiment_document(summary: ExperimentSummary) -> doc.Document:
    """The report."""
    parts = [*_head(summary), *_plots(summary), *_rest(summary)]
    return doc.Document(summary.experiment.question or "Experiment", parts)


def answer_of(summary: ExperimentSummary) -> doc.Verdict:
    """The largest change of the first metric whose interval leaves out 0, or that there is none."""
    metrics = summary.experiment.metrics
    effects = [one for one in summary.effects if one.metric == metrics[0]] if metrics else []
    known = [(one, one.difference) for one in effects if one.difference is not None]
    sure = [(one, found) for one, found in known if found.low > 0 or found.high < 0]
    kind = "bad" if summary.failed else "good"
    if not metrics or not effects:
        return doc.Verdict(f"{len(summary.runs):,} runs; nothing is varied.", kind)
    title = title_of(metrics[0])
    if not known:
        return doc.Verdict(f"Not known: {title}: {effects[0].failed}.", "")
    if not sure:
        seeds = max(one.seeds for one, _ in known)
        words = f"No choice changes {title} by more than chance, with {seeds:,} seeds."
        if all(isnan(found.low) for _, found in known):
            words = f"Not known: {seeds:,} seeds are too few to tell a change from chance."
        return doc.Verdict(words, "")
    first, change = max(sure, key=lambda one: abs(one[1].value))
    within = f" (in {first.group})" if first.group else ""
    share = "" if first.relative is None else f" ({first.relative:+.0%})"
    value, interval = in_unit(metrics[0], change)
    words = words_of(metrics[0])
    others = first.cells - first.alike
    mixed = f", but not in {others:,} of {first.cells:,} cells" if others else ""
    return doc.Verdict(
        f"{words[:1].upper()}{words[1:]}: {choice_title(first.choice)}: {first.value} instead of "
        f"{first.base}"
        f"{within} changes it most, by {' '.join(filter(None, (value, unit_of(metrics[0])[0])))} "
        f"{interval}{share}, over {first.seeds:,} seeds{mixed}. Of {len(known):,} choices "
        f"{len(sure):,} change it by more than chance.",
        kind,
    )


def _head(summary: ExperimentSummary) -> Iterator[doc.Part]:
    experiment = summary.experiment
    yield answer_of(summary)
    sides = [f"{len(names)} {what}" for what, names in
             (("protocols", experiment.protocols), ("versions", experiment.semantics))
             if names]  # fmt: skip
    shape = " x ".join([f"{len(experiment.cells):,} cells ({experiment.design})", *sides])
    yield (
        f"Asked of `{experiment.base}`: {shape}, each with the same {experiment.seeds:,} seeds; "
        f"{len(summary.runs):,} runs."
    )
    outcomes = summary.outcomes.items()
    yield doc.Tiles([(f"{count:,}", name, page_plots.tile_of(name)) for name, count in outcomes])
    header, *effects = effect_rows(summary)
    if experiment.metrics and effects:
        first = title_of(experiment.metrics[0])
        yield f"What each choice changes, seed by seed: {first}."
        of_first = [row[1:] for row in effects if row[0] == first]
        yield doc.Table([header[1:], *of_first[:EFFECTS_FIRST]])
    if summary.failed:
        yield doc.Heading("Cells without a figure: runs did not pass")
        yield doc.Table(failed_rows(summary))


def _plots(summary: ExperimentSummary) -> Iterator[doc.Part]:
    for metric, words in summary.lacking.items():
        title = title_of(metric)
        yield doc.Heading(f"{title[:1].upper()}{title[1:]}")
        yield f"`{metric}`: no figure, as no seed has it in every cell: {words}."
    for plot in metric_plots(summary):
        title = title_of(plot.metric)
        yield doc.Heading(f"{title[:1].upper()}{title[1:]}")
        yield (
            f"`{plot.metric}`: medians over the same {plot.seeds:,} seeds in every cell, "
            "with exact 95 % intervals. A cross is a cell without a figure."
        )
        if why := summary.uneven.get(plot.metric):
            yield (
                f"Its cells are not to be held side by side: it {why}. A phase with `until_ms`, "
                "or `world.quiet_period_min_ms`, makes them equally long."
            )
        yield doc.Plot(
            title,
            partial(map, partial(page_plots.panels, plot), plot.rows),
            sub(r"\W", "_", plot.metric),
            partial(stills.figure_of, plot),
        )


def _rest(summary: ExperimentSummary) -> Iterator[doc.Part]:
    if summary.failures:
        yield doc.Heading("Runs that did not pass")
        rows = [["outcome", "reason", "command"]]
        rows += [[o, why, f"`{line}`"] for o, why, line in summary.failures[:FAILURES_LISTED]]
        yield doc.Table(rows)
    yield doc.Fold("What each choice changes, all metrics", [doc.Table(effect_rows(summary))])
    rest = "more rows: see `experiment_runs.parquet`"
    yield doc.Fold("Medians, cell by cell", [doc.Table(headline_rows(summary), CELLS_LISTED, rest)])
    rows = [["cause", "rebalances", "median length (s)", "partitions moved"]]
    for cause, found in summary.rebalances.groupby("cause", sort=True):
        length = number(float(found["duration_ms"].median()) / 1000)
        rows.append([str(cause), f"{len(found):,}", length, f"{int(found['moved'].sum()):,}"])
    yield doc.Fold("Rebalances by cause", [doc.Table(rows)])
    rows = [["outcome", "runs", "meaning"]]
    rows += [[name, f"{count:,}", OUTCOMES[name]] for name, count in summary.outcomes.items()]
    yield doc.Fold("Outcomes, and how to read this", [doc.Table(rows), *NOTES])


def headline_rows(summary: ExperimentSummary) -> list[list[str]]:
    """One row for each metric and cell: its median under each protocol, with the interval, and over
    how many seeds; or what became of its runs."""
    experiment = summary.experiment
    names = [parameter.name for parameter in experiment.vary]
    titles = map(parameter_title, names)
    rows = [["metric", *titles, "seeds", *(group or "median" for group in summary.groups)]]
    found = {(p.metric, p.cell, p.group): p for p in summary.points}
    for metric in experiment.metrics:
        if metric not in summary.runs:
            continue
        for cell in experiment.cells:
            points = [found.get((metric, cell.number, group)) for group in summary.groups]
            values = [shown(cell.values[name]) for name in names]
            seeds = f"{max((point.seeds for point in points if point), default=0):,}"
            cells = [
                summary.failed.get((group, cell.number), summary.lacking.get(metric, ""))
                if point is None
                else " ".join(in_unit(metric, point.median))
                for group, point in zip(summary.groups, points, strict=True)
            ]
            rows.append([title_of(metric), *values, seeds, *cells])
    return rows


def effect_rows(summary: ExperimentSummary) -> list[list[str]]:
    """One row for each metric and choice: what it changes against the first of its kind, or what
    became of the runs."""
    rows = [
        [
            *("metric", "choice", "in", "difference [95 %]", "of the median"),
            *("seeds", "less", "more", "cells"),
        ]
    ]
    for effect in summary.effects:
        choice = f"{choice_title(effect.choice)}: {effect.value}, not {effect.base}"
        row = [title_of(effect.metric), choice, effect.group]
        if effect.difference is None:
            rows.append([*row, effect.failed, "", "0", "", "", ""])
            continue
        share = "" if effect.relative is None else f"{effect.relative:+.0%}"
        ways = (f"{count / effect.seeds:.0%}" for count in (effect.less, effect.more))
        difference = " ".join(in_unit(effect.metric, effect.difference))
        cells = f"{effect.alike:,} of {effect.cells:,}"
        rows.append([*row, difference, share, f"{effect.seeds:,}", *ways, cells])
    return rows


def choice_title(choice: str) -> str:
    """A parameter in words with its unit, or what protocols and versions are called."""
    return "version" if choice == "semantics" else parameter_title(choice)


def failed_rows(summary: ExperimentSummary) -> list[list[str]]:
    """One row for each cell without a figure."""
    names = [parameter.name for parameter in summary.experiment.vary]
    rows = [[*map(parameter_title, names), "in", "runs"]]
    cells = {cell.number: cell for cell in summary.experiment.cells}
    for (group, cell), words in summary.failed.items():
        rows.append([*(shown(cells[cell].values[name]) for name in names), group, words])
    return rows
