"""The tables of a sweep's pages, as rows of text."""

from __future__ import annotations

from collections.abc import Sequence

from rebalance_sim.scenarios.metric_limits import LIMITED
from rebalance_sim.scenarios.units import number, shown_in_unit, title_of, unit_of
from rebalance_sim.spark.reports.comparison import COMPARED
from rebalance_sim.spark.reports.report import Finding, MetricSummary, SweepSummary
from rebalance_sim.spark.store.tables import NO_VERDICT, OUTCOMES

FAILURES_LISTED = 20


def outcome_rows(summary: SweepSummary) -> list[list[str]]:
    """One row for each outcome that occurred."""
    total = summary.runs or 1
    rows = [["outcome", "runs", "share", "meaning"]]
    for name, count in summary.outcomes.items():
        rows.append([name, f"{count:,}", f"{count / total:.2%}", OUTCOMES[name]])
    return rows


def client_line(summary: SweepSummary) -> str:
    """In how many runs clients ended fatal, never were stable or were idle, and for how long
    partitions had no owner; empty if no run has measured it."""
    runs = {metric.name: metric.runs for metric in summary.metrics}
    if not all(name in runs for name in LIMITED):
        return ""
    counts = []
    for name, words in zip(LIMITED[:3], ("ended fatal", "never stable", "idle"), strict=True):
        some = sum(count for value, count in summary.distributions[name].items() if value)
        counts.append(f"{words} in {some:,}")
    [longest] = (metric for metric in summary.metrics if metric.name == LIMITED[-1])
    ends = [f"{shown_in_unit(longest.name, end)} s" for end in (longest.p50, longest.max)]
    return (
        f"clients: {', '.join(counts)} of {runs[LIMITED[0]]:,} runs; longest time of a partition "
        f"without an owner: median {ends[0]}, at most {ends[1]}"
    )


def finding_rows(summary: SweepSummary, findings: tuple[Finding, ...]) -> list[list[str]]:
    """One row for each violated property."""
    rows = [["name", "runs", "times", "see it"]]
    for finding in findings:
        name = f"`{finding.name}` {finding.sentence}".strip()
        command = f"`{summary.replay_command(finding.first_seed)}`"
        rows.append([name, f"{finding.runs:,}", f"{finding.count:,}", command])
    return rows


def known_rows(summary: SweepSummary) -> list[list[str]]:
    """One row for each known issue that showed."""
    header = ["name", "runs", "times", "held against runs without it", "first seen", "see it"]
    rows = [header]
    for issue in summary.known:
        first = f"step {issue.step}, {issue.subject}: {issue.detail}" if issue.page else ""
        name = f"`{issue.name}` {issue.sentence}".strip()
        rows.append(
            [
                f"{name} (`{issue.page}`)" if issue.page else name,
                f"{issue.runs:,}",
                f"{issue.count:,}",
                issue.proof,
                first,
                f"`{summary.replay_command(issue.first_seed)}`",
            ]
        )
    return rows


def failure_rows(summary: SweepSummary) -> list[list[str]]:
    """One row for each run that did not pass, those with a trace first."""
    rows = [["seed", "outcome", "reason", "see it", "every step"]]
    traced_first = sorted(summary.failures, key=lambda failure: failure[0] not in summary.traces)
    for seed, outcome, reason in sorted(traced_first[:FAILURES_LISTED]):
        trace = ""
        if seed in summary.traces:
            file = "/".join(str(summary.traces[seed]).rsplit("/", 2)[1:])
            trace = f"[{file}]({file}): `rebalance-sim replay {file}`"
        rows.append([str(seed), outcome, reason, f"`{summary.replay_command(seed)}`", trace])
    left = summary.failed - FAILURES_LISTED
    if left > 0:
        rows.append(["...", "", f"{left:,} more in `runs/`", "", ""])
    return rows


def metric_rows(summary: SweepSummary) -> list[list[str]]:
    """One row for each metric."""
    rows = [["metric", "runs", "mean", "± 95 %", "p50", "p95", "p99", "max"]]
    for metric in in_order(summary.metrics):
        numbers = (metric.mean, metric.ci95, metric.p50, metric.p95, metric.p99, metric.max)
        _, scale = unit_of(metric.name)
        shown = (number(value / scale) for value in numbers)
        rows.append([title_of(metric.name), f"{metric.runs:,}", *shown])
    return rows


def in_order(metrics: Sequence[MetricSummary]) -> list[MetricSummary]:
    """What rebalances cost first, time without an owner before all; then the others by name."""
    places = {metric.name: place for place, metric in enumerate(COMPARED)}
    return sorted(metrics, key=lambda metric: places.get(metric.name, len(places)))


def coverage_rows(summary: SweepSummary) -> list[list[str]]:
    """One row for each situation that was visited, rarest first."""
    judged = sum(n for name, n in summary.outcomes.items() if name not in NO_VERDICT) or 1
    rows = [["situation", "runs", "share", "times"]]
    for visited in sorted(summary.coverage, key=lambda visited: (visited.runs, visited.name)):
        share = f"{visited.runs / judged:.1%}"
        rows.append([visited.name, f"{visited.runs:,}", share, f"{visited.count:,}"])
    return rows
