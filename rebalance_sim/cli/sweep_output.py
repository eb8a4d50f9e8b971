"""How a sweep is shown: while it runs, and what came of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rebalance_sim.cli.output import stderr
from rebalance_sim.scenarios.units import simulated_time
from rebalance_sim.spark.store.store import shown

if TYPE_CHECKING:
    from rebalance_sim.spark import Progress, SweepSummary
    from rebalance_sim.spark.reports.report import Finding, KnownFinding

FINDINGS_SHOWN = 10
FAILURES_SHOWN = 5
PLAIN_LINE_S = 30.0


@contextmanager
def progress_bar(task_name: str) -> Iterator[Callable[[Progress], None]]:
    """A bar on a terminal; elsewhere a plain line every half minute."""
    if not stderr().is_terminal:
        yield PlainLines(task_name)
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("batches"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(elapsed_when_finished=True),
        TextColumn("{task.fields[outcomes]}"),
    )
    with Bar(*columns, console=stderr()) as bar:
        task = bar.add_task(task_name, outcomes="")

        def show(progress: Progress) -> None:
            if progress.note:
                stderr().print(progress.note)
            bar.update(
                task,
                completed=progress.batches_done,
                total=progress.batches_planned,
                outcomes=_counts(progress),
            )

        yield show


class PlainLines:
    """Notes as they come, and every half minute how far it is, how fast, and what was found."""

    def __init__(self, task_name: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._task_name = task_name
        self._clock = clock
        self._begun: tuple[float, int] | None = None
        self._said_s = clock()

    def __call__(self, progress: Progress) -> None:
        if progress.note:
            stderr().print(progress.note)
        now_s = self._clock()
        if self._begun is None:
            self._begun = now_s, progress.batches_done
        if now_s - self._said_s >= PLAIN_LINE_S:
            self._said_s = now_s
            stderr().print(self._line(progress, now_s))

    def _line(self, progress: Progress, now_s: float) -> str:
        assert self._begun is not None
        began_s, done_before = self._begun
        done = progress.batches_done - done_before
        share = progress.batches_done / progress.batches_planned
        line = (
            f"{self._task_name}: {progress.batches_done:,} of {progress.batches_planned:,} "
            f"batches ({share:.0%})"
        )
        if done and now_s > began_s:
            rate = done / (now_s - began_s)
            seeds_per_s = rate * progress.seeds_planned / progress.batches_planned
            left_s = (progress.batches_planned - progress.batches_done) / rate
            line += f", {seeds_per_s:,.1f} seeds/s, {_duration(left_s)} to go"
        return f"{line}; {counts}" if (counts := _counts(progress)) else line


def describe(summary: SweepSummary) -> Iterator[str]:
    """What a sweep came to, line by line."""
    from rebalance_sim.spark.reports.report import client_line

    throughput = summary.throughput
    total = len(summary.plan.seeds)
    of = f"{total:,}" if summary.is_complete else f"{summary.runs:,} of {total:,}"
    outcomes = ", ".join(f"{count:,} {name}" for name, count in summary.outcomes.items())
    yield f"{of} seeds of {summary.plan.base}: {outcomes or 'none is done'}"
    if clients := client_line(summary):
        yield clients
    if summary.stopped:
        yield f"stopped, {summary.stopped}: finished batches are kept, the same command continues"
    yield f"{summary.steps:,} steps in {simulated_time(summary.simulated_ms)}"
    yield from summary.leaps_in_words
    if throughput.seeds_run:
        yield (
            f"{throughput.seeds_run:,} seeds in {throughput.elapsed_s:,.1f} s: "
            f"{throughput.seeds_per_s:,.1f} seeds/s, start-up included; "
            f"{throughput.run_ms_mean:,.1f} ms a run"
        )
    for finding in summary.violations[:FINDINGS_SHOWN]:
        yield _headline("violated", finding)
        yield from _commands(summary, finding.first_seed)
    yield from _more(summary.violations)
    for issue in summary.known[:FINDINGS_SHOWN]:
        yield _headline("known", issue)
        yield from _about(issue)
        yield from _commands(summary, issue.first_seed)
    yield from _more(summary.known)
    others = [row for row in summary.failures if row[1] != "violation"]
    for seed, outcome, reason in others[:FAILURES_SHOWN]:
        yield f"{outcome:<8} {reason}"
        yield from _commands(summary, seed)
    left = summary.failed - summary.outcomes.get("violation", 0) - FAILURES_SHOWN
    if left > 0:
        yield f"         and {left:,} more: see the report"
    if summary.missed:
        yield f"never    {len(summary.missed)} situations that a sweep should visit: see the report"
    yield f"report: {shown(summary.report)}"


def as_json(summary: SweepSummary) -> dict[str, Any]:
    """The same for programs: what was found, with the commands that show it again."""
    return {
        "profile": str(summary.plan.base),
        "settings": list(map(str, summary.plan.base.settings)),
        "seeds": str(summary.plan.seeds),
        "sweep_id": summary.plan.sweep_id,
        "code_digest": summary.plan.code_digest,
        "passed": summary.passed,
        "outcomes": summary.outcomes,
        "steps": summary.steps,
        "simulated_ms": summary.simulated_ms,
        "leapt_ms": summary.leapt_ms,
        "both_ways": summary.both_ways,
        "differing": [{"seed": seed, "difference": text} for seed, text in summary.differing],
        "violations": [_finding(summary, one) for one in summary.violations],
        "known": [_finding(summary, one) for one in summary.known],
        "failures": [
            {"seed": seed, "outcome": outcome, "reason": reason,
             "replay": summary.replay_command(seed)}
            for seed, outcome, reason in summary.failures
        ],
        "missed": [{"id": name, "sentence": sentence} for name, sentence in summary.missed],
        "metrics": [asdict(metric) for metric in summary.metrics],
        "report": str(summary.report),
    }  # fmt: skip


def _finding(summary: SweepSummary, finding: Finding) -> dict[str, Any]:
    return {**asdict(finding), "replay": summary.replay_command(finding.first_seed)}


def _headline(title: str, finding: Finding) -> str:
    return f"{title:<8} {finding.name} in {finding.runs:,} runs  {finding.sentence}".rstrip()


def _more(findings: Sequence[Finding]) -> Iterator[str]:
    if len(findings) > FINDINGS_SHOWN:
        yield f"         and {len(findings) - FINDINGS_SHOWN} more: see the report"


def _about(finding: KnownFinding) -> Iterator[str]:
    if finding.page:
        yield f"         first at step {finding.step}, {finding.subject}: {finding.detail}"
        yield f"         {finding.proof}; {finding.page}"


def _commands(summary: SweepSummary, seed: int) -> Iterator[str]:
    yield f"         {summary.replay_command(seed)}"
    trace_command = summary.trace_command(seed)
    if trace_command is not None:
        yield f"         {trace_command}"


def _counts(progress: Progress) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in sorted(progress.outcomes.items()))


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min" if minutes else f"{rest} s"
