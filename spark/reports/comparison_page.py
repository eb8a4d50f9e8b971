"""The page of a comparison to look into: which protocol costs what, and how surely."""

from __future__ import annotations

from rebalance_sim.scenarios.compare import PROTOCOLS
from rebalance_sim.scenarios.html_page import HtmlPage
from rebalance_sim.spark.reports.comparison import ComparisonSummary, paired_values, read_values
from rebalance_sim.spark.reports.comparison_plots import SeedDrawn
from rebalance_sim.spark.reports.comparison_rows import (
    NOTES,
    compared_line,
    difference_rows,
    failure_rows,
    headline_rows,
    known_rows,
    outcome_rows,
)
from rebalance_sim.spark.reports.page_plots import boxes, outcome_bars
from rebalance_sim.spark.store.store import Location

BOXES_DRAWN = 9
"""Metrics with a picture, those that come first; all of them are in the tables."""


def comparison_page(out: Location, summary: ComparisonSummary, drawn: SeedDrawn | None) -> HtmlPage:
    """The page."""
    plan = summary.plan
    page = HtmlPage(f"Protocols compared under `{plan.base}`, seeds {plan.seeds}")
    page.paragraph(
        f"Asked: what do {len(plan.protocols)} rebalance protocols cost in the same "
        f"{len(plan.seeds):,} worlds, with the same faults? Each seed is run once under each."
    )
    for name in plan.protocols:
        base = ", the base" if name == summary.base else ""
        page.paragraph(f"`{name}`{base}: {PROTOCOLS[name].title}")
    page.figures(
        [
            (f"{summary.seeds_compared:,}", "seeds are compared", "good"),
            (
                f"{len(summary.failures):,}",
                "runs that did not pass",
                "bad" if summary.failures else "",
            ),
        ]
    )
    if summary.failed:
        page.paragraph(f"{compared_line(summary)}.")
    _distributions(page, out, summary)
    page.heading("Medians over seeds, with 95 % intervals")
    page.paragraph("Less is better throughout.")
    page.table(headline_rows(summary, in_words=True))
    if summary.failures:
        page.heading("Runs to look at")
        page.table(failure_rows(summary))
    for name in plan.protocols:
        if name != summary.base:
            with page.fold(f"`{name}` against `{summary.base}`, seed by seed"):
                page.table(difference_rows(summary, name))
    if drawn is not None:
        _timelines(page, summary, drawn)
    page.heading("Outcomes")
    page.figure(outcome_bars(summary.outcomes))
    page.table(outcome_rows(summary))
    with page.fold("Known issues that showed, in runs"):
        page.table(known_rows(summary))
    with page.fold("How to read this"):
        for note in NOTES:
            page.paragraph(note)
        page.paragraph(
            f"Comparison `{plan.sweep_id}`, code `{plan.code_digest}`, Python {plan.python}."
        )
    return page


def _distributions(page: HtmlPage, out: Location, summary: ComparisonSummary) -> None:
    values = {name: read_values(out, name, summary.seeds) for name in summary.compared}
    metrics = list(paired_values(values))
    if not metrics:
        return
    page.heading("What rebalances cost")
    page.paragraph("Boxes are the middle half of the seeds, whiskers go from 5 to 95 %.")
    page.panels(boxes(metric.name, metric.words, rows) for metric, rows in metrics[:BOXES_DRAWN])


def _timelines(page: HtmlPage, summary: ComparisonSummary, drawn: SeedDrawn) -> None:
    page.heading(f"Who could fetch what, in seed {drawn.seed}")
    page.paragraph(drawn.why)
    for name, timeline in drawn.timelines.items():
        with page.fold(f"`{name}`", is_open=True):
            page.lines([f"$ {summary.replay_command(drawn.seed, name)}"])
            page.figure(timeline.interactive())
