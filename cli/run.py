"""``rebalance-sim run``: one scenario, and the first screen of its failure."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.errors import BadInput
from cli.exit_codes import FOUND, OK
from cli.options import SemanticsName, with_semantics
from cli.output import print_json, say, write_text

if TYPE_CHECKING:
    from scenarios.result import RunResult, ViolationRow
    from scenarios.scenario import Scenario

__all__ = ["describe", "run"]

VIOLATIONS_SHOWN = 5
PASSING = ("ok", "known")


def run(
    scenario: Annotated[
        Path | None, typer.Argument(help="A scenario file; instead, give --profile and --seed.")
    ] = None,
    profile: Annotated[
        str | None, typer.Option("--profile", "-p", help="Kind of scenario.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", "-s", min=0, help="Seed of the run.")
    ] = None,
    semantics: SemanticsName = None,
    trace: Annotated[
        Path | None, typer.Option(help="Write every step to this file, one JSON object a line.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> int:
    """Run one scenario and check every promise after every step."""
    if profile is not None:
        profile = with_semantics(profile, semantics)
    elif semantics is not None:
        raise BadInput("run: --semantics goes with --profile; a scenario file names its own")
    chosen = _scenario(scenario, profile, seed)
    result = _run(chosen, trace)
    if json:
        print_json(asdict(result))
    else:
        for line in describe(result, replay_command=_command(scenario, profile, seed)):
            say(line)
    return OK if result.outcome in PASSING else FOUND


def _scenario(path: Path | None, profile: str | None, seed: int | None) -> Scenario:
    from scenarios.generate import generate
    from scenarios.scenario import load_scenario

    if path is not None and profile is None and seed is None:
        return load_scenario(path)
    if path is None and profile is not None and seed is not None:
        return generate(profile, seed)
    raise BadInput("run: give either a scenario file, or both --profile and --seed")


def _run(scenario: Scenario, trace_file: Path | None) -> RunResult:
    from scenarios.runner import run as run_scenario
    from sim.trace import FullTrace

    if trace_file is None:
        return run_scenario(scenario)
    write_text(trace_file, "")  # a file that cannot be written is found out before the run
    trace = FullTrace()
    result = run_scenario(scenario, trace=trace)
    write_text(trace_file, "".join(line + "\n" for line in trace.lines))
    return result


def _command(path: Path | None, profile: str | None, seed: int | None) -> str:
    what = f"--profile {profile} --seed {seed}" if path is None else str(path)
    return f"rebalance-sim run {what} --trace trace.jsonl"


def describe(result: RunResult, *, replay_command: str) -> list[str]:
    """What to tell about a run: one line if it passed, else everything to go on with."""
    length = f"{result.steps:,} steps, {result.simulated_ms / 1000:,.1f} s simulated"
    who = f"seed {result.seed}" + (f", profile {result.profile}" if result.profile else "")
    if result.outcome in PASSING:
        known = ", ".join(f"{name} x {count}" for name, count in sorted(result.known.items()))
        known = f", known defects: {known}" if known else ""
        return [f"{result.outcome}: {who}: {length}, digest {result.digest}{known}"]
    lines = [f"{result.outcome.upper()}: {result.reason or who}"]
    for violation in result.violations[:VIOLATIONS_SHOWN]:
        lines += _describe_violation(violation)
    left = len(result.violations) - VIOLATIONS_SHOWN
    if left > 0:
        lines += ["", f"  and {left} more (--json has them all)"]
    lines += [
        "",
        f"  run       {who}, {length}",
        f"  scenario  {result.scenario_hash}",
        f"  code      {result.code_version}",
        f"  digest    {result.digest}",
        f"  replay    {replay_command}",
    ]
    return lines


def _describe_violation(violation: ViolationRow) -> list[str]:
    where = f"at step {violation.step}, after {violation.at_ms / 1000:,.3f} s simulated"
    return [
        "",
        f"  promise   {violation.promise}",
        f"            {violation.sentence}",
        f"  broken    {where}" + (f", in group {violation.group_id}" if violation.group_id else ""),
        f"  seen      {violation.detail}",
    ]
