"""The page of a comparison: what differs, by how much, how surely, and what was left out."""

from __future__ import annotations

import math
from collections.abc import Iterator

from rebalance_sim.scenarios.compare import PROTOCOLS
from rebalance_sim.spark.reports.comparison import (
    COMPARED,
    REPORT_FILE,
    ComparisonSummary,
    Estimate,
)
from rebalance_sim.spark.reports.comparison_plots import (
    DISTRIBUTIONS_FILE,
    Timeline,
    draw_comparison,
)
from rebalance_sim.spark.reports.markdown import section
from rebalance_sim.spark.store.opening import open_store
from rebalance_sim.spark.store.store import Location
from rebalance_sim.spark.store.tables import OUTCOMES

FAILURES_LISTED = 20

_NOTES = (
    "Less is better for every metric here. An interval of 95 % is exact whatever the distribution "
    "is, made of order statistics. With this many of them some miss by chance: one in twenty of "
    "those that hold nothing. A seed is *won* where the protocol has less than the base, *lost* "
    "where it has more.",
    "All protocols have the session timeout and the heartbeat interval of the scenario. Classic "
    "groups also wait for more members when the first one comes "
    "(`group_initial_rebalance_delay_ms`, 3 s by default), and their clients look for new "
    "partitions every ten seconds, if not more often. Lag begins with a partition's first "
    "consumer: a late start shows in the time without an owner, not in the lag.",
    "A seed counts when its run ended `ok` or `known` under every protocol; the others are listed "
    "as outcomes, and none of their figures are used. A metric that a run does not have (nothing "
    "moved, so nobody waited) leaves its seed out of that row.",
)


def write_comparison_report(
    out: Location, summary: ComparisonSummary, *, timeline_seed: int | None = None
) -> None:
    """Write ``report.md`` and its plots into ``out``."""
    timeline = draw_comparison(out, summary, timeline_seed=timeline_seed)
    text = "\n".join(_page(summary, timeline))
    open_store(out).put(REPORT_FILE, f"{text}\n".encode())


def headline_rows(summary: ComparisonSummary) -> list[list[str]]:
    """One row for each metric: its median under each protocol, with the interval."""
    names = summary.plan.protocols
    rows = [["metric", *names]]
    by_place = {(e.metric, e.protocol): e for e in summary.estimates}
    for metric in COMPARED:
        found = [by_place.get((metric.name, name)) for name in names]
        if any(found):
            rows.append([metric.name, *("" if e is None else _median(e) for e in found)])
    return rows


def number(value: float) -> str:
    """Three or four digits that tell something."""
    if math.isnan(value):
        return "?"
    if value == 0:
        return "0"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _median(estimate: Estimate) -> str:
    low, high = number(estimate.median_low), number(estimate.median_high)
    return f"{number(estimate.median)} [{low}, {high}]"


def _page(summary: ComparisonSummary, timeline: Timeline | None) -> Iterator[str]:
    plan = summary.plan
    yield f"# Protocols compared under `{plan.base}`, seeds {plan.seeds}"
    yield ""
    yield (
        f"Comparison `{plan.sweep_id}`, code `{plan.code_digest}`, Python {plan.python}. "
        f"Each seed is one world with one schedule of faults, run once under each protocol; "
        f"{summary.seeds_compared:,} of {len(plan.seeds):,} seeds passed under all and are "
        "compared."
    )
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
    for note in _NOTES:
        yield ""
        yield note
    if summary.seeds_compared:
        yield ""
        yield f"![Distributions over seeds]({DISTRIBUTIONS_FILE})"
    for name in plan.protocols:
        if name != summary.base:
            title = f"`{name}` against `{summary.base}`, seed by seed"
            yield from section(title, _difference_rows(summary, name))
    if timeline is not None:
        yield from _timeline(summary, timeline)
    yield from section("Outcomes", _outcome_rows(summary))
    yield from section("Known issues that showed, in runs", _known_rows(summary))
    yield from section("Runs to look at", _failure_rows(summary))
    yield from section("Metrics", [["metric", "meaning"], *([m.name, m.words] for m in COMPARED)])


def _timeline(summary: ComparisonSummary, timeline: Timeline) -> Iterator[str]:
    yield ""
    yield f"## Who could fetch what, in seed {timeline.seed}"
    yield ""
    yield f"{timeline.why} Dashed lines are faults; a gap is a partition without an owner."
    yield ""
    yield f"![Ownership over time]({timeline.file})"
    yield ""
    for name in summary.plan.protocols:
        yield f"- `{summary.replay_command(timeline.seed, name)}`"


def _difference_rows(summary: ComparisonSummary, protocol: str) -> list[list[str]]:
    rows = [["metric", "seeds", "median difference", "95 %", "won", "tied", "lost", "mean", "p95"]]
    for e in summary.estimates:
        if e.protocol == protocol:
            interval = f"[{number(e.difference_low)}, {number(e.difference_high)}]"
            shares = (f"{count / e.seeds:.1%}" for count in (e.won, e.tied, e.lost))
            rows.append(
                [
                    e.metric,
                    f"{e.seeds:,}",
                    number(e.difference),
                    interval,
                    *shares,
                    number(e.mean),
                    number(e.p95),
                ]
            )
    return rows


def _outcome_rows(summary: ComparisonSummary) -> list[list[str]]:
    rows = [["protocol", *OUTCOMES, "not stable at the end, of those compared"]]
    for name, counts in summary.outcomes.items():
        of_each = (f"{counts.get(outcome, 0):,}" for outcome in OUTCOMES)
        rows.append([f"`{name}`", *of_each, f"{summary.unstable[name]:,}"])
    return rows


def _known_rows(summary: ComparisonSummary) -> list[list[str]]:
    names = sorted({name for counts in summary.known.values() for name in counts})
    rows = [["defect", *summary.plan.protocols]]
    for name in names:
        of_each = (f"{counts.get(name, 0):,}" for counts in summary.known.values())
        rows.append([name, *of_each])
    return rows


def _failure_rows(summary: ComparisonSummary) -> list[list[str]]:
    rows = [["seed", "protocol", "outcome", "reason", "see it"]]
    for seed, protocol, outcome, reason in summary.failures[:FAILURES_LISTED]:
        command = f"`{summary.replay_command(seed, protocol)}`"
        rows.append([str(seed), protocol, outcome, reason, command])
    left = len(summary.failures) - FAILURES_LISTED
    if left > 0:
        rows.append(["...", "", "", f"{left:,} more in `runs/`", ""])
    return rows
