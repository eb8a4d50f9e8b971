"""The page of an experiment to look into: the question, the answer, pictures, and all figures."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rebalance_sim.scenarios.html_page import COLOURS, HtmlPage
from rebalance_sim.scenarios.units import title_of
from rebalance_sim.spark.reports.colours import RED, tile_of
from rebalance_sim.spark.reports.experiment import WORDS, ExperimentSummary
from rebalance_sim.spark.reports.experiment_panels import MetricPicture, Panel, pictures
from rebalance_sim.spark.reports.experiment_rows import (
    FAILURES_LISTED,
    NOTES,
    cause_rows,
    effect_rows,
    failed_rows,
    headline_rows,
    outcome_rows,
)

EFFECTS_FIRST = 8
"""Effects that stand above all pictures: those on the first metric."""


def experiment_page(summary: ExperimentSummary) -> HtmlPage:
    """The page."""
    experiment = summary.experiment
    page = HtmlPage(experiment.question or "Experiment")
    sides = [f"{len(names)} {what}" for what, names in
             (("protocols", experiment.protocols), ("versions", experiment.semantics))
             if names]  # fmt: skip
    shape = " x ".join([f"{len(experiment.cells):,} cells", *sides])
    page.paragraph(
        f"Asked of `{experiment.base}`: {shape}, each with the same {experiment.seeds:,} seeds; "
        f"{len(summary.runs):,} runs."
    )
    page.figures((f"{count:,}", name, tile_of(name)) for name, count in summary.outcomes.items())
    effects = effect_rows(summary)
    if experiment.metrics and len(effects) > 1:
        first = title_of(experiment.metrics[0])
        shown = [row for row in effects[1:] if row[0] == first][:EFFECTS_FIRST]
        page.paragraph(f"What each choice changes of `{experiment.metrics[0]}`, seed by seed:")
        page.table([effects[0], *shown])
    if summary.failed:
        page.heading("Cells without a figure: runs did not pass")
        page.table(failed_rows(summary))
    for picture in pictures(summary):
        words = WORDS.get(picture.metric, "")
        page.heading(words.capitalize() or picture.metric)
        page.paragraph(
            f"`{title_of(picture.metric)}`: medians over the same {picture.seeds:,} seeds in every "
            "cell, with exact 95 % intervals. A cross is a cell without a figure."
        )
        for row in picture.rows:
            page.panels(_panels(picture, row))
    if summary.failures:
        page.heading("Runs that did not pass")
        failures = [["outcome", "reason", "command"]]
        failures += [[o, why, f"`{line}`"] for o, why, line in summary.failures[:FAILURES_LISTED]]
        page.table(failures)
    with page.fold("What each choice changes, all metrics"):
        page.table(effects)
    with page.fold("Medians, cell by cell"):
        page.table(headline_rows(summary))
    with page.fold("Rebalances by cause"):
        page.table(cause_rows(summary))
    with page.fold("Outcomes, and how to read this"):
        page.table(outcome_rows(summary))
        for note in NOTES:
            page.paragraph(note)
    return page


def _panels(picture: MetricPicture, row: tuple[Panel, ...]) -> Iterator[Any]:
    """Small figures that share their vertical axis, so that protocols can be held side by side."""
    tops = (high for panel in row for line in panel.lines for high in line.highs)
    top = 1.06 * max(tops, default=0.0) or 1.0
    for panel in row:
        yield _figure(picture, panel, top)


def _figure(picture: MetricPicture, panel: Panel, top: float) -> Any:
    from plotly.graph_objects import Figure

    figure = Figure()
    for place, line in enumerate(panel.lines):
        figure.add_scatter(
            x=list(line.xs),
            y=list(line.medians),
            error_y={
                "type": "data",
                "symmetric": False,
                "array": [h - m for m, h in zip(line.medians, line.highs, strict=True)],
                "arrayminus": [m - b for m, b in zip(line.medians, line.lows, strict=True)],
            },
            mode="lines+markers" if line.is_joined else "markers",
            name=line.name or picture.metric,
            showlegend=bool(line.name),
            marker_color=COLOURS[place % len(COLOURS)],
        )
    if panel.failed:
        figure.add_scatter(
            x=list(panel.failed),
            y=[0.0] * len(panel.failed),
            text=list(panel.failed.values()),
            mode="markers+text",
            textposition="top center",
            textfont={"color": RED, "size": 11},
            marker={"color": RED, "symbol": "x", "size": 9},
            cliponaxis=False,
            showlegend=False,
        )
    kind = "log" if panel.is_log else ("linear" if panel.is_numeric else "category")
    figure.update_xaxes(title_text=panel.x_title, type=kind)
    if not panel.is_numeric:
        figure.update_xaxes(categoryorder="array", categoryarray=list(panel.xs))
    figure.update_yaxes(title_text=picture.unit, range=[0, top], automargin=True)
    figure.update_layout(
        template="plotly_white",
        height=340,
        title={"text": panel.title, "font": {"size": 13}, "x": 0, "xref": "paper"},
        margin={"l": 10, "r": 10, "t": 34, "b": 40},
        legend={"orientation": "h", "y": -0.22, "font": {"size": 11}},
    )
    return figure
