"""The report of a sweep: what was asked and what came out, failures, costs, the rest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from rebalance_sim.scenarios.documents import document as doc
from rebalance_sim.scenarios.errors import ScenarioError
from rebalance_sim.scenarios.pages.timeline import Timeline, make_timeline
from rebalance_sim.scenarios.pages.timeline_rows import TimelineTrace
from rebalance_sim.scenarios.traces.run_trace import RunTrace, read_trace
from rebalance_sim.scenarios.traces.story import led_to
from rebalance_sim.scenarios.units import compared, number, simulated_time, unit_of, words_of
from rebalance_sim.scenarios.variant import Variant
from rebalance_sim.spark.reports import page_plots, stills
from rebalance_sim.spark.reports.intervals import in_unit, median_of_counts
from rebalance_sim.spark.reports.markdown import write_document
from rebalance_sim.spark.reports.report import (
    MetricSummary,
    SweepSummary,
    client_line,
    failure_rows,
    in_order,
    metric_rows,
    outcome_rows,
)
from rebalance_sim.spark.runner import Runner, load_runner
from rebalance_sim.spark.store.opening import local_file, open_store
from rebalance_sim.spark.store.reading import read_metrics
from rebalance_sim.spark.store.store import Location, Store
from rebalance_sim.spark.store.tables import NO_VERDICT, OUTCOMES
from rebalance_sim.spark.supervised import supervised
from rebalance_sim.spark.traces import trace_name

if TYPE_CHECKING:
    import pandas as pd

STORIES_TOLD = 3
HEADLINES = ("unowned_partition_ms", "unowned_partition_ms_max", "rebalance_ms_max")
"""Costs whose medians stand first."""
HISTOGRAMS_FIRST, HISTOGRAMS_DRAWN = 3, 9
"""Of the costs of rebalancing, those that come first; the others have their row in a table."""


def write_report(out: Location, summary: SweepSummary) -> None:
    """Write ``report.md`` with its plots, and ``report.html`` if Plotly is installed."""
    throughput, note = summary.throughput, ""
    if throughput.seeds_run:
        note = (
            f"The last call ran {throughput.seeds_run:,} seeds in {throughput.elapsed_s:.1f} s: "
            f"{throughput.seeds_per_s:,.1f} seeds/s, start-up included."
        )
    series = read_metrics(out, page_plots.SERIES)
    write_document(out, sweep_document(open_store(out), summary, series), note=note)


def sweep_document(store: Store, summary: SweepSummary, series: pd.DataFrame) -> doc.Document:
    """The report of the sweep in ``store``. Runs a few failing runs once more, to draw them."""
    failures, over_time = _failures(store, summary), _over_time(summary, series)
    parts = (_head(summary), failures, _costs(summary), _known(summary), over_time, _rest(summary))
    return doc.Document(
        f"Sweep of `{summary.plan.base}`, seeds {summary.plan.seeds}", list(chain(*parts))
    )


def _head(summary: SweepSummary) -> Iterator[doc.Part]:
    seeds = f"{len(summary.plan.seeds):,}"
    yield doc.Verdict(*_answer(summary))
    yield (
        f"Asked: does every property hold in {seeds} scenarios of `{summary.plan.base}`, each "
        "of which a seed decides, and what do their rebalances cost?"
    )
    if clients := client_line(summary):
        yield f"{clients.capitalize()}."
    yield doc.Tiles(
        [
            (f"{count:,}", f"{name} ({count / (summary.runs or 1):.1%})", page_plots.tile_of(name))
            for name, count in summary.outcomes.items()
        ]
    )
    yield doc.Tiles(list(_figures(summary)))
    yield doc.Plot(
        "Outcomes",
        lambda: [[page_plots.outcome_bars({"": summary.outcomes})]],
        "outcomes",
        lambda: stills.outcomes(summary.outcomes),
    )
    yield doc.Fold("What the outcomes mean", [doc.Table(outcome_rows(summary))])


def _answer(summary: SweepSummary) -> tuple[str, str]:
    """The answer in words, and its colour. Runs that were not judged are no evidence."""
    runs = f"{summary.runs:,}"
    judged = sum(summary.outcomes.get(name, 0) for name in ("ok", "known"))
    if summary.runs == 0:
        words, kind = "Nothing has run yet.", ""
    elif not summary.passed:
        words, kind = f"No: {summary.failed:,} of {runs} runs are to be looked at.", "bad"
    elif not judged:
        words, kind = f"Not known: none of {runs} runs could be judged.", ""
    else:
        words, kind = f"Yes, in {judged:,} of {runs} runs", "known" if summary.known else "good"
    if kind in ("good", "known"):
        if known := summary.outcomes.get("known", 0):
            words += f", in {known:,} of these but for known issues of the simulated version"
        in_part = ", or in part" if "partly-judged" in summary.outcomes else ""
        words += f"{page_plots.not_judged(summary.runs - judged, in_part)}."
    if not summary.is_complete:
        words += f" Not complete: {summary.runs:,} of {len(summary.plan.seeds):,} seeds have run."
    return words, kind


def _figures(summary: SweepSummary) -> Iterator[tuple[str, str, str]]:
    """Medians over runs of what people ask first, with their intervals."""
    for name in HEADLINES:
        if counts := summary.distributions.get(name):
            found = median_of_counts(counts)
            value, interval = in_unit(name, found)
            interval = interval.replace("[", "95 % interval [")
            words = f"{words_of(name)}: median of {sum(counts.values()):,} runs, {interval}"
            yield f"{value} {unit_of(name)[0]}", words, ""


def _failures(store: Store, summary: SweepSummary) -> Iterator[doc.Part]:
    if summary.failed:
        rows = [["name", "runs", "times", "see it"]]
        for finding in summary.violations:
            name = f"`{finding.name}` {finding.sentence}".strip()
            command = f"`{summary.replay_command(finding.first_seed)}`"
            rows.append([name, f"{finding.runs:,}", f"{finding.count:,}", command])
        yield doc.Heading("Violated properties")
        yield doc.Table(rows)
        yield doc.Heading("Runs to look at")
        yield from _stories(store, summary)
        table = doc.Table(failure_rows(summary))
        yield doc.Fold(f"Runs that failed: {summary.failed:,}", [table], is_open=True)


def _stories(store: Store, summary: SweepSummary) -> Iterator[doc.Fold]:
    """Of failing runs that are kept with every step: what led to it, and who owned what."""
    kept: dict[int, RunTrace] = {}
    for seed in summary.traces:
        try:
            with local_file(store, trace_name(seed)) as path:
                trace = read_trace(path)
        except ScenarioError as problem:  # somebody has put something else in its place
            why = f"its trace cannot be read: {problem.problem}"
            yield _story(summary, seed, "no story", [why])
            continue
        if trace.violations:
            kept[seed] = trace
        if len(kept) == STORIES_TOLD:
            break
    body = partial(_timeline, load_runner(summary.plan.runner), summary.plan.base)
    for attempt in supervised(body, list(kept), summary.plan.limits):
        trace = kept[attempt.unit]
        first = trace.violations[0]
        timeline: Timeline | None = None if attempt.failure else attempt.result
        found = () if timeline is None else timeline.findings
        # Not where the run is not the same any more, or a limit of this machine stopped it.
        is_same = any((one.at_ms, one.actor) == (first.at_ms, first.property) for one in found)
        about = f"what led to `{first.property}`"
        yield _story(summary, attempt.unit, about, led_to(trace), timeline if is_same else None)


def _timeline(runner: Runner, variant: Variant, seed: int) -> Timeline:
    trace = TimelineTrace()
    return make_timeline(f"{variant}-{seed}", runner(variant, seed, trace=trace), trace)


def _story(
    summary: SweepSummary, seed: int, about: str, lines: list[str], drawn: Timeline | None = None
) -> doc.Fold:
    parts: list[doc.Part] = [doc.Lines([f"$ {summary.replay_command(seed)}", "", *lines])]
    if drawn is not None:
        parts.append(doc.Plot("Who owned what", lambda: [[drawn.interactive()]]))
    return doc.Fold(f"Seed {seed}: {about}", parts, is_open=True)


def _costs(summary: SweepSummary) -> Iterator[doc.Part]:
    """Time without an owner first; then what else rebalances cost; all other metrics folded."""
    metrics = in_order(summary.metrics)
    costs = metrics[: len(compared(metric.name for metric in metrics))]
    others = metrics[len(costs) :]
    found = summary.distributions
    if metrics:
        yield doc.Heading("What rebalances cost" if costs else "Metrics")
        first, more = costs[:HISTOGRAMS_FIRST], costs[HISTOGRAMS_FIRST:HISTOGRAMS_DRAWN]

        def drawn(chosen: Sequence[MetricSummary]) -> list[list[Any]]:
            return [
                [
                    page_plots.histogram(one.name, found[one.name], one.median.value)
                    for one in chosen
                ]
            ]

        yield doc.Plot(
            "Metrics",
            lambda: drawn(first),
            "metrics",
            lambda: stills.histograms({metric.name: found[metric.name] for metric in metrics}),
        )
        if more:
            plot = doc.Plot("More metrics", lambda: drawn(more))
            yield doc.Fold(f"{len(more)} more distributions", [plot])
    if costs:
        yield doc.Table(metric_rows(costs))
    if others:
        table = doc.Table(metric_rows(others))
        yield doc.Fold(f"All other metrics: {len(others)}", [table], is_open=not costs)


def _known(summary: SweepSummary) -> Iterator[doc.Part]:
    if summary.known:
        yield doc.Heading("Known issues")
        yield f"`known`: {OUTCOMES['known']}."
        proof = "held against runs without it"
        rows = [["name", "runs", "times", proof, "first seen", "see it"]]
        for issue in summary.known:
            name, first = f"`{issue.name}` {issue.sentence}".strip(), ""
            if issue.page:
                name = f"{name} (`{issue.page}`)"
                first = f"step {issue.step}, {issue.subject}: {issue.detail}"
            command = f"`{summary.replay_command(issue.first_seed)}`"
            counts = (f"{issue.runs:,}", f"{issue.count:,}")
            rows.append([name, *counts, issue.proof, first, command])
        yield doc.Table(rows)


def _over_time(summary: SweepSummary, series: pd.DataFrame) -> Iterator[doc.Part]:
    if len(series):
        plan = summary.plan
        yield doc.Heading("Over time")
        yield (
            f"Of up to {plan.metrics_seeds:,} seeds, evenly spread, sampled every "
            f"{number(plan.metrics_interval_ms / 1000)} s of simulated time: the median and the "
            "middle 80 % of the runs that are not over; the dotted line, on the right, is how many "
            "those are. The whole series are the table `metrics`."
        )
        bands = page_plots.bands_over_time(series)
        yield doc.Plot(
            "Over time",
            lambda: [[page_plots.band_over_time(title, band) for title, band in bands.items()]],
            "series",
            lambda: stills.bands_over_time(bands),
        )


def _rest(summary: SweepSummary) -> Iterator[doc.Part]:
    if summary.missed:
        title = f"Never happened, and should in a sweep: {len(summary.missed)}"
        yield doc.Fold(title, [doc.Table([["situation", "in words"], *summary.missed])])
    rows = [["situation", "runs", "share", "times"]]
    judged = sum(n for name, n in summary.outcomes.items() if name not in NO_VERDICT) or 1
    rarest = sorted(summary.coverage, key=lambda visited: (visited.runs, visited.name))
    for one in rarest:
        rows.append([one.name, f"{one.runs:,}", f"{one.runs / judged:.1%}", f"{one.count:,}"])
    parts: list[doc.Part] = [doc.Table(rows)]
    if rarest:
        runs = {one.name: one.runs for one in rarest}
        parts.append(doc.Plot("Coverage", name="coverage", still=lambda: stills.coverage(runs)))
    yield doc.Fold(f"Coverage: {len(rarest)} situations, rarest first", parts)
    plan, throughput = summary.plan, summary.throughput
    lines = (
        f"Sweep `{plan.sweep_id}`, code `{plan.code_digest}`, Python {plan.python}, "
        f"{plan.batch_count:,} batches of {plan.batch_size:,}.",
        f"{summary.steps:,} steps in {simulated_time(summary.simulated_ms)}; a "
        f"run took {throughput.run_ms_mean:,.1f} ms on average, {throughput.run_ms_p99:,.1f} ms "
        "at the 99th percentile.",
        *(f"{line}." for line in summary.leaps_in_words),
    )
    yield doc.Fold("How it was run", lines)
