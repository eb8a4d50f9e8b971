"""The pages of a comparison: what differs, by how much, how surely, and what was left out."""

from __future__ import annotations

from collections.abc import Iterator

from rebalance_sim.scenarios.compare import PROTOCOLS
from rebalance_sim.scenarios.html_page import has_plotly
from rebalance_sim.spark.reports.comparison import REPORT_FILE, ComparisonSummary
from rebalance_sim.spark.reports.comparison_page import comparison_page
from rebalance_sim.spark.reports.comparison_plots import (
    DISTRIBUTIONS_FILE,
    SeedDrawn,
    draw_comparison,
)
from rebalance_sim.spark.reports.comparison_rows import (
    NOTES,
    compared_line,
    difference_rows,
    failure_rows,
    headline_rows,
    known_rows,
    meaning_rows,
    outcome_rows,
)
from rebalance_sim.spark.reports.markdown import PAGE_FILE, section
from rebalance_sim.spark.store.opening import open_store
from rebalance_sim.spark.store.store import Location


def write_comparison_report(
    out: Location, summary: ComparisonSummary, *, timeline_seed: int | None = None
) -> None:
    """Write ``report.md`` with its plots, and ``report.html`` if Plotly is installed."""
    store, has_page = open_store(out), has_plotly()
    drawn = draw_comparison(out, summary, timeline_seed=timeline_seed)
    if has_page:
        store.put(PAGE_FILE, comparison_page(out, summary, drawn).text().encode())
    text = "\n".join(_page(summary, drawn, has_page))
    store.put(REPORT_FILE, f"{text}\n".encode())


def _page(summary: ComparisonSummary, timeline: SeedDrawn | None, has_page: bool) -> Iterator[str]:
    plan = summary.plan
    yield f"# Protocols compared under `{plan.base}`, seeds {plan.seeds}"
    yield ""
    yield (
        f"Comparison `{plan.sweep_id}`, code `{plan.code_digest}`, Python {plan.python}. "
        f"Each seed is one world with one schedule of faults, run once under each protocol; "
        f"{compared_line(summary)}."
    )
    if has_page:
        yield f"The same with pictures to look into: [{PAGE_FILE}]({PAGE_FILE})."
    throughput = summary.throughput
    if throughput.seeds_run:
        runs = throughput.seeds_run * len(plan.protocols)
        yield (
            f"The last call made {runs:,} runs in {throughput.elapsed_s:.1f} s, start-up included."
        )
    yield ""
    for name in plan.protocols:
        base = ", the base" if name == summary.base else ""
        yield f"- `{name}`{base}: {PROTOCOLS[name].title}"
    yield from section("Medians over seeds, with 95 % intervals", headline_rows(summary))
    for note in NOTES:
        yield ""
        yield note
    if summary.seeds_compared:
        yield ""
        yield f"![Distributions over seeds]({DISTRIBUTIONS_FILE})"
    for name in plan.protocols:
        if name != summary.base:
            title = f"`{name}` against `{summary.base}`, seed by seed"
            yield from section(title, difference_rows(summary, name))
    if timeline is not None:
        yield from _timeline(summary, timeline)
    yield from section("Outcomes", outcome_rows(summary))
    yield from section("Known issues that showed, in runs", known_rows(summary))
    yield from section("Runs to look at", failure_rows(summary))
    yield from section("Metrics", meaning_rows())


def _timeline(summary: ComparisonSummary, timeline: SeedDrawn) -> Iterator[str]:
    yield ""
    yield f"## Who could fetch what, in seed {timeline.seed}"
    yield ""
    yield f"{timeline.why} Dashed lines are faults; a gap is a partition without an owner."
    yield ""
    yield f"![Ownership over time]({timeline.file})"
    yield ""
    for name in summary.plan.protocols:
        yield f"- `{summary.replay_command(timeline.seed, name)}`"
