"""``rebalance-sim sweep``: many seeds, on Spark or on this machine's cores."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rebalance_sim.cli import options as cli_options
from rebalance_sim.cli.exit_codes import FOUND, OK
from rebalance_sim.cli.expectations import Expect, FailOn, expectation
from rebalance_sim.cli.output import print_json, say, stderr
from rebalance_sim.sim.observe.sampling import DEFAULT_INTERVAL_MS
from rebalance_sim.spark import DEFAULT_RUNNER, METRICS_SEEDS, TRACES, Limits, SweepOptions

if TYPE_CHECKING:
    from rebalance_sim.spark import Progress, SweepSummary
    from rebalance_sim.spark.reports.report import Finding, KnownFinding

FINDINGS_SHOWN = 10
FAILURES_SHOWN = 5
_DEFAULTS = Limits()


def sweep(
    profile: cli_options.ProfileName,
    seeds: Annotated[str, typer.Option(help="First seed and end, as in 0:2000.")],
    out: cli_options.Out,
    semantics: cli_options.SemanticsName = None,
    repair: cli_options.Repairs = None,
    set_: cli_options.Settings = None,
    backend: cli_options.Backend = "spark",
    master: cli_options.Master = None,
    batch: cli_options.Batch = None,
    conf: cli_options.SparkSetting = None,
    runner: Annotated[
        str, typer.Option(help="Function that runs a seed, as module:function.")
    ] = DEFAULT_RUNNER,
    metrics_interval_ms: Annotated[
        int, typer.Option(min=1, help="How often a run is sampled, in simulated ms.")
    ] = DEFAULT_INTERVAL_MS,
    metrics_seeds: Annotated[
        int, typer.Option(min=0, help="So many seeds, evenly spread, keep their series.")
    ] = METRICS_SEEDS,
    no_metrics: Annotated[
        bool, typer.Option("--no-metrics", help="Keep no series: the same as --metrics-seeds 0.")
    ] = False,
    expect: Expect = None,
    fail_on: FailOn = None,
    traces: Annotated[
        int, typer.Option(min=0, help="So many runs that failed are kept with every step.")
    ] = TRACES,
    json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
    time_limit_s: cli_options.TimeLimit = _DEFAULTS.soft_s,
    memory_limit_mib: cli_options.MemoryLimit = _DEFAULTS.memory_mib,
) -> int:
    """Run a range of seeds and write typed tables and a report.

    The same command on the same folder goes on where an interrupted sweep stopped.
    """
    from rebalance_sim.spark import sweep as run_sweep

    if runner != DEFAULT_RUNNER:
        sys.path.insert(0, os.getcwd())  # where a user's own runner usually is
    expected = expectation(expect, fail_on)
    options = SweepOptions(
        backend=backend,
        master=master,
        batch_size=batch,
        runner=runner,
        limits=cli_options.limits_of(time_limit_s, memory_limit_mib),
        spark_settings=cli_options.spark_settings(conf),
        metrics_interval_ms=metrics_interval_ms,
        metrics_seeds=0 if no_metrics else metrics_seeds,
        traces=traces,
    )
    with progress_bar("sweep") as on_progress:
        summary = run_sweep(
            profile=cli_options.variant_of(profile, semantics, repair, set_),
            seeds=seeds,
            out=out,
            options=options,
            on_progress=on_progress,
        )
    objections = expected.objections((issue.name for issue in summary.known), summary.unproven)
    if json:
        print_json({**_as_json(summary), "unexpected": objections})
    else:
        for line in (*_describe(summary), *objections):
            say(line)
    return OK if summary.passed and not objections else FOUND


@contextmanager
def progress_bar(task_name: str) -> Iterator[Callable[[Progress], None]]:
    """A bar on a terminal; elsewhere only the notes, so that logs stay short."""
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("batches"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(elapsed_when_finished=True),
    )
    with Bar(*columns, console=stderr, disable=not stderr.is_terminal) as bar:
        task = bar.add_task(task_name)

        def show(progress: Progress) -> None:
            if progress.note:
                stderr.print(progress.note)
            bar.update(task, completed=progress.batches_done, total=progress.batches_planned)

        yield show


def _describe(summary: SweepSummary) -> Iterator[str]:
    throughput = summary.throughput
    total = len(summary.plan.seeds)
    yield f"{total:,} seeds of {summary.plan.base}: " + ", ".join(
        f"{count:,} {name}" for name, count in summary.outcomes.items()
    )
    yield f"{summary.steps:,} steps in {summary.simulated_ms / 3_600_000:,.1f} simulated hours"
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
    if len(others) > FAILURES_SHOWN:
        yield f"         and {len(others) - FAILURES_SHOWN} more: see the report"
    if summary.missed:
        yield f"never    {len(summary.missed)} situations that a sweep should visit: see the report"
    yield f"report: {os.path.relpath(summary.report)}"


def _as_json(summary: SweepSummary) -> dict[str, Any]:
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
