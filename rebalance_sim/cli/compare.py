"""``rebalance-sim compare``: the same worlds under several rebalance protocols."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from rebalance_sim.cli import options as cli_options
from rebalance_sim.cli.exit_codes import FOUND, OK
from rebalance_sim.cli.expectations import FailOnOutcome, checked_outcomes, outcome_objections
from rebalance_sim.cli.output import say
from rebalance_sim.cli.sweep_output import progress_bar
from rebalance_sim.scenarios.variant import DEFAULT_PROTOCOLS
from rebalance_sim.spark import PROVE, SweepOptions
from rebalance_sim.spark.store.store import shown

if TYPE_CHECKING:
    from rebalance_sim.spark import ComparisonSummary

FAILURES_SHOWN = 5


def compare(
    profile: cli_options.ProfileName,
    seeds: Annotated[str, typer.Option(help="First seed and end, as in 0:1000.")],
    out: cli_options.Out,
    protocols: Annotated[
        str, typer.Option(help="What to compare, names between commas; with a rule: NAME:RULE.")
    ] = ",".join(DEFAULT_PROTOCOLS),
    base: Annotated[
        str | None, typer.Option(help="The protocol that the others are held against; the first.")
    ] = None,
    semantics: cli_options.SemanticsName = None,
    repair: cli_options.Repairs = None,
    set_: cli_options.Settings = None,
    backend: cli_options.Backend = "spark",
    master: cli_options.Master = None,
    batch: cli_options.Batch = None,
    conf: cli_options.SparkSetting = None,
    timeline_seed: Annotated[
        int | None, typer.Option(min=0, help="Seed to draw over time; without it, a middling one.")
    ] = None,
    fail_on: FailOnOutcome = None,
    retry: cli_options.Retry = None,
    prove: cli_options.Prove = PROVE[0],
    leap: cli_options.Leap = True,
    time_limit_s: cli_options.TimeLimit = cli_options.LIMITS.soft_s,
    memory_limit_mib: cli_options.MemoryLimit = cli_options.LIMITS.memory_mib,
) -> int:
    """Run each seed under several protocols, with the same faults, and say what differs.

    The same command on the same folder continues where an interrupted comparison stopped.
    """
    from rebalance_sim.spark import compare as run_comparison

    fails_on = checked_outcomes(fail_on)
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
    with progress_bar("comparison") as on_progress:
        summary = run_comparison(
            profile=cli_options.variant_of(profile, semantics, repair, set_),
            seeds=seeds,
            out=out,
            protocols=tuple(name for name in protocols.replace(" ", "").split(",") if name),
            base=base,
            options=options,
            timeline_seed=timeline_seed,
            on_progress=on_progress,
        )
    outcomes: Counter[str] = Counter()
    for counts in summary.outcomes.values():
        outcomes.update(counts)
    objections = outcome_objections(fails_on, outcomes)
    for line in (*_describe(summary), *objections):
        say(line)
    return OK if summary.passed and not objections else FOUND


def _describe(summary: ComparisonSummary) -> Iterator[str]:
    from rebalance_sim.scenarios.units import named
    from rebalance_sim.spark.reports.comparison_report import (
        compared_line,
        difference_rows,
        headline_rows,
    )

    plan, throughput = summary.plan, summary.throughput
    yield compared_line(summary)
    for name, counts in summary.outcomes.items():
        yield f"  {name}: " + ", ".join(f"{count:,} {outcome}" for outcome, count in counts.items())
    if throughput.seeds_run:
        runs = throughput.seeds_run * len(plan.protocols)
        yield f"{runs:,} runs in {throughput.elapsed_s:,.1f} s, start-up included"
    if summary.seeds_compared:
        yield ""
        yield "medians over seeds, with 95 % intervals; less is better"
        yield from _columns(headline_rows(summary, title=named))
    for protocol in plan.protocols:
        rows = difference_rows(summary, protocol, title=named)
        if protocol != summary.base and len(rows) > 1:
            yield ""
            yield f"{protocol} against {summary.base}: medians of the differences, seed by seed"
            yield from _columns(rows)
    for seed, protocol, outcome, reason in summary.failures[:FAILURES_SHOWN]:
        yield f"{outcome:<7} {reason}"
        yield f"        {summary.replay_command(seed, protocol)}"
    if len(summary.failures) > FAILURES_SHOWN:
        yield f"        and {len(summary.failures) - FAILURES_SHOWN} more: see the report"
    yield f"report: {shown(summary.report)}"


def _columns(rows: list[list[str]]) -> Iterator[str]:
    """A table in columns: names to the left, figures to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for name, *cells in rows:
        figures = (f"{cell:>{width}}" for cell, width in zip(cells, widths[1:], strict=True))
        yield "  ".join((f"  {name:<{widths[0]}}", *figures))
