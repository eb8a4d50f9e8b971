"""The report of a comparison: which protocol costs what, how surely, and what was left out."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial

import pandas as pd

from rebalance_sim.scenarios.compare import protocol_named
from rebalance_sim.scenarios.documents import document as doc
from rebalance_sim.scenarios.generate.generator import generate
from rebalance_sim.scenarios.pages.timeline import Timeline, timeline_of
from rebalance_sim.scenarios.units import compared, explained, title_of, words_of
from rebalance_sim.spark.reports import page_plots, stills
from rebalance_sim.spark.reports.comparison import (
    ComparisonSummary,
    Estimate,
    paired_values,
)
from rebalance_sim.spark.reports.intervals import Median, in_unit, median_of
from rebalance_sim.spark.reports.markdown import write_document
from rebalance_sim.spark.store.store import Location
from rebalance_sim.spark.store.tables import OUTCOMES

BOXES_DRAWN = 9
"""Metrics with a plot, those that come first; all of them are in the tables."""
FAILURES_LISTED = 20
CHOSEN_BY = "unowned_partition_ms"

NOTES = (
    "Less is better for every metric here. An interval of 95 % is exact whatever the distribution "
    "is, made of order statistics. With this many of them some miss by chance: one in twenty of "
    "those that hold nothing. A seed is *won* where the protocol has less than the base, *lost* "
    "where it has more.",
    "All protocols have the session timeout and the heartbeat interval of the scenario. Classic "
    "groups also wait for more members when the first one comes "
    "(`group_initial_rebalance_delay_ms`, 3 s by default), and their clients look for new "
    "partitions every ten seconds, if not more often. Lag begins with a partition's first "
    "consumer: a late start shows in the time without an owner, not in the lag.",
    "A protocol with a run that did not pass has no figures, but says what became of its runs: "
    "seeds that survive are the easy ones. A seed counts when its run ended `ok`, `known` or "
    "`partly-judged` under all other protocols. A metric that a run does not have (no partition "
    "moved, so none waited) leaves its seed out of that row; `seeds` is how many are left, under "
    "each protocol the same.",
)


def write_comparison_report(
    out: Location, summary: ComparisonSummary, *, timeline_seed: int | None = None
) -> None:
    """Write ``report.md`` with its plots, and ``report.html`` if Plotly is installed."""
    throughput, note = summary.throughput, ""
    if throughput.seeds_run:
        runs = throughput.seeds_run * len(summary.plan.protocols)
        note = (
            f"The last call made {runs:,} runs in {throughput.elapsed_s:.1f} s, start-up included."
        )
    parts = [
        *_head(summary),
        *_costs(summary),
        *_timelines(summary, timeline_seed),
        *_rest(summary),
    ]
    title = f"Protocols compared under `{summary.plan.base}`, seeds {summary.plan.seeds}"
    write_document(out, doc.Document(title, parts), note=note)


def _head(summary: ComparisonSummary) -> Iterator[doc.Part]:
    plan, failed = summary.plan, len(summary.failures)
    yield answer_of(summary)
    yield (
        f"Asked: what do {len(plan.protocols)} rebalance protocols cost in the same "
        f"{len(plan.seeds):,} worlds, with the same faults? Each seed is run once under each; "
        f"{compared_line(summary)}."
    )
    for name in plan.protocols:
        base = ", the base" if name == summary.base else ""
        yield f"`{name}`{base}: {protocol_named(name).title}"
    yield doc.Tiles(
        [
            (
                f"{summary.seeds_compared:,}",
                "seeds are compared",
                "good" if summary.seeds_compared else "",
            ),
            (f"{failed:,}", "runs that did not pass", "bad" if failed else ""),
        ]
    )


def answer_of(summary: ComparisonSummary) -> doc.Verdict:
    """Who has least time without an owner, seed by seed, and against whom that is sure. Medians of
    two protocols may lie the other way round: how hard a seed is does not cancel out in them."""
    rows = dict(paired_values(summary.values)).get(CHOSEN_BY)
    if rows is None:
        return doc.Verdict("No protocol has a figure: see what became of its runs.", "bad")
    failed = "known" if summary.failed else ""
    what, seeds = words_of(CHOSEN_BY), f"over {len(rows):,} seeds"
    if len(rows.columns) == 1:
        value, interval = in_unit(CHOSEN_BY, median_of(rows.iloc[:, 0].tolist()))
        only = f"Only {rows.columns[0]} has figures: {what}: median {value} partition-seconds"
        return doc.Verdict(f"{only} {interval} {seeds}.", failed)
    against = {name: _against_others(rows, name) for name in rows}
    best = min(rows, key=lambda name: max(one.value for one in against[name].values()))
    changes = []
    for name, change in against[best].items():
        value, interval = in_unit(CHOSEN_BY, change)
        doubt = "" if change.high < 0 else ", which may be chance"
        changes.append(f"{value} partition-seconds {interval} against {name}{doubt}")
    if any(math.isnan(one.low) for one in against[best].values()):
        return doc.Verdict(f"Not known: {len(rows):,} seeds are too few to tell.", failed)
    if not any(one.high < 0 for one in against[best].values()):
        words = f"No protocol has less {what} than all others by more than chance"
        return doc.Verdict(f"{words}: {best} has {'; '.join(changes)}; {seeds}.", failed)
    is_sure = all(one.high < 0 for one in against[best].values())
    words = f"{best} has the least {what}, seed by seed: {'; '.join(changes)}; {seeds}"
    return doc.Verdict(f"{words}.", failed or ("good" if is_sure else ""))


def _against_others(rows: pd.DataFrame, name: str) -> dict[str, Median]:
    """What a protocol has more or less than each other one: medians of the differences."""
    return {
        str(other): median_of((rows[name] - rows[other]).tolist())
        for other in rows
        if other != name
    }


def _costs(summary: ComparisonSummary) -> Iterator[doc.Part]:
    if metrics := list(paired_values(summary.values)):
        yield doc.Heading("What rebalances cost")
        yield doc.Plot(
            "Distributions over seeds",
            lambda: [[page_plots.boxes(metric, rows) for metric, rows in metrics[:BOXES_DRAWN]]],
            caption="Boxes are the middle half of the seeds, whiskers go from 5 to 95 %.",
        )
        yield doc.Plot(
            "Distributions over seeds",
            name="distributions",
            still=lambda: stills.distributions(metrics),
            caption="Lines are the share of seeds with at most so much.",
        )
    yield doc.Heading("Medians over seeds, with 95 % intervals")
    yield "Less is better throughout. Fewer than six seeds have no interval."
    yield doc.Table(headline_rows(summary))
    if summary.failures:
        yield doc.Heading("Runs to look at")
        rows = [["seed", "protocol", "outcome", "reason", "see it"]]
        for seed, protocol, outcome, reason in summary.failures[:FAILURES_LISTED]:
            command = f"`{summary.replay_command(seed, protocol)}`"
            rows.append([str(seed), protocol, outcome, reason, command])
        left = len(summary.failures) - FAILURES_LISTED
        if left > 0:
            rows.append(["...", "", "", f"{left:,} more in `runs/`", ""])
        yield doc.Table(rows)
    for name in summary.plan.protocols:
        if name != summary.base:
            title = f"`{name}` against `{summary.base}`, seed by seed"
            yield doc.Fold(title, [doc.Table(difference_rows(summary, name))])


def _timelines(summary: ComparisonSummary, seed: int | None) -> Iterator[doc.Part]:
    """Runs one seed once more, to draw it."""
    why = "It was asked for."
    if seed is None:
        seed = _example_seed(summary.values)
        why = (
            "Of all seeds it is the one in the middle, by how far the protocols lie apart in "
            f"`{CHOSEN_BY}`."
        )
    if seed is None:
        return
    base = summary.plan.base
    timelines = {n: timeline_of(generate(base.speaking(n), seed)) for n in summary.plan.protocols}
    fault_times = [fault.at_ms for fault in generate(base, seed).world.faults]
    yield doc.Heading(f"Who could fetch what, in seed {seed}")
    yield why
    yield doc.Plot(
        "Ownership over time",
        name="timeline",
        still=lambda: stills.ownership(timelines, fault_times),
        caption="Dashed lines are faults; a gap is a partition without an owner.",
    )
    for name, timeline in timelines.items():
        plot = doc.Plot("Ownership over time", partial(_drawn, timeline))
        command = doc.Lines([f"$ {summary.replay_command(seed, name)}"])
        yield doc.Fold(f"`{name}`", [command, plot], is_open=True)


def _drawn(timeline: Timeline) -> list[list[object]]:
    return [[timeline.interactive()]]


def _example_seed(values: Mapping[str, pd.DataFrame]) -> int | None:
    """The seed in the middle by how far the protocols lie apart: neither the best case of any of
    them nor the worst."""
    columns = {name: f[CHOSEN_BY] for name, f in values.items() if CHOSEN_BY in f}
    frame = pd.DataFrame(columns).dropna()
    if frame.empty:
        return None
    spread = (frame.max(axis=1) - frame.min(axis=1)).sort_index().sort_values(kind="stable")
    return int(spread.index[len(spread) // 2])


def _rest(summary: ComparisonSummary) -> Iterator[doc.Part]:
    plan = summary.plan
    yield doc.Heading("Outcomes")
    yield doc.Plot("Outcomes", lambda: [[page_plots.outcome_bars(summary.outcomes)]])
    rows = [["protocol", *OUTCOMES, "not stable at the end, of those compared"]]
    for name, counts in summary.outcomes.items():
        of_each = (f"{counts.get(outcome, 0):,}" for outcome in OUTCOMES)
        rows.append([f"`{name}`", *of_each, f"{summary.unstable(name):,}"])
    yield doc.Table(rows)
    rows = [["known issue", *plan.protocols]]
    for name in sorted({name for counts in summary.known.values() for name in counts}):
        rows.append([name, *(f"{counts.get(name, 0):,}" for counts in summary.known.values())])
    yield doc.Fold("Known issues that showed, in runs", [doc.Table(rows)])
    run = f"Comparison `{plan.sweep_id}`, code `{plan.code_digest}`, Python {plan.python}."
    yield doc.Fold("How to read this", [*NOTES, run])


def compared_line(summary: ComparisonSummary) -> str:
    """How many seeds are compared, under which protocols, and why not under all."""
    plan = summary.plan
    compared = f"{summary.seeds_compared:,} of {len(plan.seeds):,} seeds of {plan.base}"
    if summary.failed:
        failed = ", ".join(f"{name} ({words})" for name, words in summary.failed.items())
        return f"{compared} passed under {len(summary.values)} protocols; no figures of {failed}"
    line = f"{compared} passed under all {len(plan.protocols)} protocols and are compared"
    left = len(plan.seeds) - summary.seeds_compared
    return f"{line}; {left:,} not judged under all of them" if left else line


def headline_rows(
    summary: ComparisonSummary, *, title: Callable[[str], str] = explained
) -> list[list[str]]:
    """One row for each metric: its median under each protocol, with the interval."""
    names = summary.plan.protocols
    rows = [["metric", "seeds", *names]]
    by_place = {(e.metric, e.protocol): e for e in summary.estimates}
    for metric in compared(e.metric for e in summary.estimates):
        found = [by_place.get((metric, name)) for name in names]
        seeds = max((e.seeds for e in found if e), default=0)
        if seeds:
            medians = (
                summary.failed.get(name, "") if e is None else " ".join(_median(e))
                for name, e in zip(names, found, strict=True)
            )
            rows.append([title(metric), f"{seeds:,}", *medians])
    return rows


def _median(e: Estimate) -> tuple[str, str]:
    return in_unit(e.metric, Median(value=e.median, low=e.median_low, high=e.median_high))


def difference_rows(
    summary: ComparisonSummary, protocol: str, *, title: Callable[[str], str] = title_of
) -> list[list[str]]:
    """One row for each metric: a protocol against the base, seed by seed."""
    rows = [["metric", "seeds", "median difference", "95 %", "won", "tied", "lost"]]
    failed = summary.failure_against_base(protocol)
    if failed:
        return [*rows, ["all", "0", failed, *[""] * 4]]
    for e in summary.estimates:
        if e.protocol == protocol:
            found = Median(value=e.difference, low=e.difference_low, high=e.difference_high)
            ways = (f"{count / e.seeds:.1%}" for count in (e.won, e.tied, e.lost))
            head = (title(e.metric), f"{e.seeds:,}")
            rows.append([*head, *in_unit(e.metric, found), *ways])
    return rows
