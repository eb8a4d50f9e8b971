"""``rebalance-sim experiment``: one question to many runs, of a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rebalance_sim.cli import options as cli_options
from rebalance_sim.cli.errors import BadInput
from rebalance_sim.cli.exit_codes import FOUND, OK
from rebalance_sim.cli.expectations import FailOnOutcome, checked_outcomes, outcome_objections
from rebalance_sim.cli.output import say
from rebalance_sim.cli.sweep_output import progress_bar
from rebalance_sim.spark import PROVE, SweepOptions
from rebalance_sim.spark.store.store import shown

if TYPE_CHECKING:
    from rebalance_sim.scenarios.experiment import Experiment
    from rebalance_sim.spark.estimates import Estimate
    from rebalance_sim.spark.reports.experiment import ExperimentSummary

FAILURES_SHOWN = 5
EFFECTS_SHOWN = 12


def experiment(
    file: Annotated[Path, typer.Argument(help="The file of the experiment.")],
    out: Annotated[
        str | None, typer.Option(help="Folder or URL for the results; new, or to continue in.")
    ] = None,
    seeds: Annotated[
        str | None, typer.Option(help="Instead of the file's: a number, or first:end.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what it would cost, from a few runs; no more.")
    ] = False,
    backend: cli_options.Backend = "spark",
    master: cli_options.Master = None,
    batch: cli_options.Batch = None,
    conf: cli_options.SparkSetting = None,
    fail_on: FailOnOutcome = None,
    retry: cli_options.Retry = None,
    prove: cli_options.Prove = PROVE[0],
    leap: cli_options.Leap = True,
    time_limit_s: cli_options.TimeLimit = cli_options.LIMITS.soft_s,
    memory_limit_mib: cli_options.MemoryLimit = cli_options.LIMITS.memory_mib,
) -> int:
    """Vary what a file says, run every cell with the same seeds, and report what it changes.

    The same command on the same folder continues where an interrupted experiment stopped.
    """
    from rebalance_sim.scenarios.experiment import load_experiment

    fails_on = checked_outcomes(fail_on)
    instead: dict[str, Any] = {}
    if seeds is not None:
        instead["seeds"] = int(seeds) if seeds.isdecimal() else seeds
    asked = load_experiment(file, **instead)
    options = SweepOptions(
        backend=backend,
        master=master,
        batch_size=batch,
        limits=cli_options.limits_of(time_limit_s, memory_limit_mib),
        retry=cli_options.retried(retry),
        prove=prove,
        leap=leap,
        spark_settings=cli_options.spark_settings(conf),
    )
    if dry_run:
        from rebalance_sim.spark.estimates import estimate

        for line in _plan(asked, estimate(asked, options)):
            say(line)
        return OK
    if out is None:
        raise BadInput("experiment: give --out, a folder for the results, or --dry-run")
    from rebalance_sim.spark.experiments import carry_out_experiment

    with progress_bar("experiment") as on_progress:
        summary = carry_out_experiment(asked, out=out, options=options, on_progress=on_progress)
    objections = outcome_objections(fails_on, summary.outcomes)
    for line in (*_describe(summary), *objections):
        say(line)
    return OK if summary.passed and not objections else FOUND


def _plan(asked: Experiment, cost: Estimate) -> Iterator[str]:
    yield asked.question or f"experiment with {asked.base}"
    sides = [f"{len(names)} {what}" for what, names in
             (("protocols", asked.protocols), ("versions", asked.semantics)) if names]  # fmt: skip
    parts = [f"{len(asked.cells):,} cells", *sides, f"{asked.seeds:,} seeds"]
    yield f"{' x '.join(parts)} = {asked.run_count:,} runs"
    for parameter in asked.vary:
        values = ", ".join(map(str, parameter.values))
        ends = "" if parameter.between is None else " .. ".join(map(str, parameter.between))
        yield f"  {parameter.name}: {values or ends}  ({', '.join(parameter.paths)})"
    yield (
        f"about {_time(cost.run_s)} a run (of {cost.probed} that were tried), {_time(cost.cpu_s)} "
        f"of processor time, {_time(cost.wall_s)} on {cost.processes} cores"
    )
    if cost.repeated:
        yield f"not in it: {cost.repeated:,} runs are made a second time, without leaps"


def _time(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _describe(summary: ExperimentSummary) -> Iterator[str]:
    from rebalance_sim.spark.reports.experiment_report import effect_rows, failed_rows

    outcomes = ", ".join(f"{count:,} {name}" for name, count in summary.outcomes.items())
    yield f"{len(summary.runs):,} runs of {summary.experiment.base}: {outcomes}"
    if summary.runs_done:
        yield f"{summary.runs_done:,} runs in {summary.elapsed_s:,.1f} s, start-up included"
    for *cell, group, words in failed_rows(summary)[1 : FAILURES_SHOWN + 1]:
        yield f"  no figure of {', '.join(filter(None, [*cell, group])) or 'the cell'}: {words}"
    if len(summary.failed) > FAILURES_SHOWN:
        yield f"  and {len(summary.failed) - FAILURES_SHOWN} more cells: see the report"
    rows = effect_rows(summary)
    shown_above = ""
    for metric, choice, group, difference, share, seeds, _, _, cells in rows[1 : EFFECTS_SHOWN + 1]:
        if metric != shown_above:
            yield f"  {metric}"
            shown_above = metric
        where = f" ({group})" if group else ""
        over = f", {seeds} seeds, in {cells} cells" if seeds != "0" else ""
        yield f"    {choice}{where}: {difference} {share}".rstrip() + over
    if len(rows) - 1 > EFFECTS_SHOWN:
        yield f"  and {len(rows) - 1 - EFFECTS_SHOWN} more effects: see the report"
    for outcome, reason, command in summary.failures[:FAILURES_SHOWN]:
        yield f"{outcome:<8} {reason}"
        yield f"         {command}"
    if len(summary.failures) > FAILURES_SHOWN:
        yield f"         and {len(summary.failures) - FAILURES_SHOWN} more: see the report"
    yield f"report: {shown(summary.report)}"
