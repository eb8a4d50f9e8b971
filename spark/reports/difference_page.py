"""The page of two sweeps side by side: what they differ in, and what came of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rebalance_sim.scenarios.html_page import HtmlPage
from rebalance_sim.scenarios.units import shown_in_unit, title_of
from rebalance_sim.spark.reports.comparison import COMPARED
from rebalance_sim.spark.reports.difference import Difference, MetricChange, OtherRun
from rebalance_sim.spark.reports.page_plots import outcome_bars, ways_of_change
from rebalance_sim.spark.store.store import Location, shown
from rebalance_sim.spark.store.tables import PASSING

CHANGES_DRAWN = 20
"""Metrics with a bar, those that changed in most runs; all of them are in the table."""

_WORDS = {metric.name: metric.words for metric in COMPARED}


def difference_page(before: Location, after: Location, found: Difference) -> HtmlPage:
    """The page of what the sweep in ``after`` shows and the one in ``before`` does not."""
    page = HtmlPage(f"`{shown(before)}` and `{shown(after)}` side by side")
    page.paragraph(
        f"Asked: what do two sweeps differ in, over the {found.common:,} runs that both have?"
    )
    page.paragraph(f"Came out: {_answer(found)}")
    worse = sum(one.before in PASSING and one.after not in PASSING for one in found.others)
    better = sum(one.after in PASSING and one.before not in PASSING for one in found.others)
    page.figures(
        [
            (f"{found.common:,}", "runs in both", ""),
            (f"{found.other_steps:,}", "took other steps", ""),
            (f"{worse:,}", "passed before, and do no more", "bad" if worse else ""),
            (f"{better:,}", "pass now, and did not before", "good" if better else ""),
        ]
    )
    page.figure(
        outcome_bars(
            {
                side: {name: counts[at] for name, counts in found.outcomes.items()}
                for at, side in enumerate(("before", "after"))
            }
        )
    )
    page.heading("What the sweeps differ in")
    page.table([["", "before", "after"], *([name, *both] for name, *both in found.plans)])
    failing = [one for one in found.others if one.after not in PASSING]
    others = [one for one in found.others if one.after in PASSING]
    if failing:
        page.heading("Runs to look at")
        page.table(list(_other_rows(failing)))
    if others:
        with page.fold(f"Runs that pass, with another outcome: {len(others):,}"):
            page.table(list(_other_rows(others)))
    page.heading("Known issues, in runs")
    page.table([["known issue", "before", "after"], *_count_rows(found.known)])
    if found.failed:
        page.heading("No figures: runs did not pass")
        page.table([["cell", "runs"], *map(list, found.failed.items())])
    if found.metrics:
        page.heading("What rebalances cost")
        page.paragraph(
            "Of the seeds that pass in all that is compared: in how many runs a metric is less "
            "now, in how many it is more, and the median of the differences with its 95 % interval."
        )
        page.figure(ways_of_change(found.metrics[:CHANGES_DRAWN]))
        page.table(list(_metric_rows(found.metrics)))
    for title, names in (("won", found.won), ("lost", found.lost)):
        if names:
            with page.fold(f"Coverage {title}: {len(names)} situations"):
                page.lines(names)
    return page


def _answer(found: Difference) -> str:
    if found.is_empty:
        return "Nothing: every run took the same steps."
    first = f"{found.other_steps:,} runs took other steps, that of seed {found.first_seed} first"
    if not found.others:
        return f"{first}; every outcome is the same."
    return f"{first}; {len(found.others):,} have another outcome."


def _other_rows(others: Sequence[OtherRun]) -> Iterator[list[str]]:
    yield ["seed", "outcomes", "why"]
    for one in others:
        protocol = f" ({one.protocol})" if one.protocol else ""
        yield [f"{one.seed}{protocol}", f"{one.before} → {one.after}", one.reason]


def _count_rows(counts: Mapping[str, tuple[int, int]]) -> Iterator[list[str]]:
    for name, (before, after) in counts.items():
        yield [name, f"{before:,}", f"{after:,}"]


def _metric_rows(changes: tuple[MetricChange, ...]) -> Iterator[list[str]]:
    yield ["metric", "difference", "95 % interval", "less", "more", "runs"]
    for change in changes:
        value, low, high = (
            shown_in_unit(change.metric, one)
            for one in (change.difference.value, change.difference.low, change.difference.high)
        )
        yield [
            title_of(change.metric)
            + (f"\n{words}" if (words := _WORDS.get(change.metric)) else ""),
            value,
            f"[{low}, {high}]",
            f"{change.less:,}",
            f"{change.more:,}",
            f"{change.runs:,}",
        ]
