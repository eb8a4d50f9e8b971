"""``rebalance-sim branch``: how likely was it, and from when on?"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rebalance_sim.cli import options as cli_options
from rebalance_sim.cli.choice import choose
from rebalance_sim.cli.errors import BadInput
from rebalance_sim.cli.exit_codes import OK
from rebalance_sim.cli.output import check_outputs, print_json, say, write_text
from rebalance_sim.cli.sweep_output import progress_bar
from rebalance_sim.spark import SeedRange

if TYPE_CHECKING:
    from rebalance_sim.scenarios.branching import Question
    from rebalance_sim.scenarios.result import RunResult
    from rebalance_sim.spark.branches import Moment

MOMENTS_MOST = 1_000
RUNS_MOST = 1_000_000
_TIME = r"(\d+(?:\.\d+)?)(ms|s|m)"
_UNIT_MS = {"ms": 1, "s": 1_000, "m": 60_000}


def branch(
    at: Annotated[
        list[str],
        typer.Option(
            help="Moment to branch off at, as in 12.5s; or moments, as in 0s:60s:5s, both ends "
            "included. May be repeated."
        ),
    ],
    scenario: cli_options.ScenarioFile = None,
    profile: cli_options.OptionalProfile = None,
    seed: cli_options.OptionalSeed = None,
    seeds: Annotated[
        str, typer.Option(help="Branches of each moment: first and end, as in 0:200.")
    ] = "0:200",
    property_id: Annotated[
        str | None, typer.Option("--property", help="How often is this property violated?")
    ] = None,
    issue: Annotated[
        str | None, typer.Option(help="How often may this known issue be the reason of something?")
    ] = None,
    where: Annotated[
        str | None,
        typer.Option(help="How often is this so of a metric? As in 'lag_records_max > 1000'."),
    ] = None,
    semantics: cli_options.SemanticsName = None,
    repair: cli_options.Repairs = None,
    set_: cli_options.Settings = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the shares into this file: .svg, .png or .pdf.")
    ] = None,
    processes: Annotated[
        int | None, typer.Option(min=1, help="Processes; without it, one per core.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
    time_limit_s: cli_options.TimeLimit = cli_options.LIMITS.soft_s,
    memory_limit_mib: cli_options.MemoryLimit = cli_options.LIMITS.memory_mib,
) -> int:
    """Run a scenario up to a moment, and on with other draws: how often does it end alike?

    Without --property, --issue or --where, that is what the run itself comes to: its first violated
    property, or its first known issue, or whether it does not pass.
    """
    from rebalance_sim.scenarios.branching import question_about, run_branch
    from rebalance_sim.spark.branches import branch_runs

    if sum(one is not None for one in (property_id, issue, where)) > 1:
        raise BadInput("branch: give one of --property, --issue and --where")
    moments_ms = _moments(at)
    numbers = SeedRange.of(seeds)
    if len(moments_ms) * len(numbers) > RUNS_MOST:
        raise BadInput(
            f"branch: {len(moments_ms):,} moments of {len(numbers):,} runs are too many: "
            f"at most {RUNS_MOST:_} runs"
        )
    limits = cli_options.limits_of(time_limit_s, memory_limit_mib)
    if plot is not None:
        _check_plot(plot, scenario)
    chosen = choose(
        "branch",
        scenario,
        profile=profile,
        seed=seed,
        semantics=semantics,
        repairs=repair,
        settings=set_,
    )
    result = run_branch(chosen.scenario, None)
    question = question_about(result, property_id=property_id, issue=issue, where=where)
    if moments_ms[-1] >= result.simulated_ms:
        raise BadInput(
            f"branch: --at {moments_ms[-1] / 1000:,.3f}s: the run ends at "
            f"{result.simulated_ms / 1000:,.3f} s: give a moment before that"
        )
    with progress_bar("branch") as on_progress:
        found = branch_runs(
            chosen.scenario,
            question,
            moments_ms=moments_ms,
            seeds=numbers,
            limits=limits,
            processes=processes,
            on_progress=on_progress,
        )
    if plot is not None:
        from rebalance_sim.spark.reports.stills import shares_over_moments

        rows = [(one.at_ms / 1000, one.share) for one in found if one.share is not None]
        counts = sorted({one.runs for one in found})
        runs = " to ".join(f"{count:,}" for count in dict.fromkeys((counts[0], counts[-1])))
        words = f"{question}, n = {runs} runs a moment, with 95 % intervals"
        shares_over_moments(words, rows).savefig(plot)
    if json:
        print_json(_as_json(result, question, numbers, found))
    else:
        for line in _describe(result, question, found):
            say(line)
    return OK


def _moments(texts: Sequence[str]) -> list[int]:
    """The moments that --at names, each once, in ascending order. Raises BadInput."""
    found: set[int] = set()
    for text in texts:
        match = re.fullmatch(rf"{_TIME}(?::{_TIME}:{_TIME})?", text.strip())
        if match is None:
            raise BadInput(
                f"branch: --at {text!r}: write a time with its unit, as in 12.5s or 500ms, or "
                "first:last:step, as in 0s:60s:5s"
            )
        first_ms = _ms(match[1], match[2])
        if match[3] is None:
            found.add(first_ms)
            continue
        last_ms, step_ms = _ms(match[3], match[4]), _ms(match[5], match[6])
        if last_ms < first_ms or step_ms < 1:
            raise BadInput(
                f"branch: --at {text!r}: the first moment must not be behind the last, and the "
                "step at least 1ms"
            )
        if (last_ms - first_ms) // step_ms >= MOMENTS_MOST:
            raise BadInput(f"branch: --at {text!r}: at most {MOMENTS_MOST:_} moments")
        found.update(range(first_ms, last_ms + 1, step_ms))
    return sorted(found)


def _ms(number: str, unit: str) -> int:
    return round(float(number) * _UNIT_MS[unit])


def _check_plot(plot: Path, scenario: Path | None) -> None:
    """Find out before the runs what cannot be written. Raises BadInput and
    ScenarioError."""
    from rebalance_sim.scenarios.pages.timeline import STILL_PLOTS, check_plot_file

    check_plot_file(plot, STILL_PLOTS)
    check_outputs({"--plot": plot}, [scenario])
    write_text(plot, "")


def _describe(result: RunResult, question: Question, found: Sequence[Moment]) -> Iterator[str]:
    own = "so does" if question.is_in(result) else "not so"
    yield f"{question}: {own} the run itself, which ends {result.outcome}"
    yield "of runs that are the same until a moment, and draw otherwise from there:"
    yield f"  {'at':>12}  {'runs':>7}  {'so':>7}  {'share':>7}  95 % interval"
    for one in found:
        share = one.share
        words = "no verdict"
        if share is not None:
            words = f"{share.value:7.1%}  {share.low:.1%} to {share.high:.1%}"
        yield f"  {one.at_ms / 1000:>10,.3f} s  {one.runs:>7,}  {one.count:>7,}  {words}"
    yield from _decided(found)
    silent = sum(sum(one.outcomes.values()) - one.runs for one in found)
    if silent:
        yield f"{silent:,} runs came to no verdict, and are not counted"


def _decided(found: Sequence[Moment]) -> Iterator[str]:
    """From when on it was certain; and between which two moments the share changes most, if their
    intervals lie apart."""
    late = [one for one in found if one.runs]
    doubtful = [place for place, one in enumerate(late) if one.count < one.runs]
    certain = late[max(doubtful, default=-1) + 1 :]
    if certain:
        yield f"from {certain[0].at_ms / 1000:,.3f} s on in every run"
    best, steepest = 0.0, None
    for before, after in pairwise(found):
        if (one := before.share) is None or (two := after.share) is None:
            continue
        is_apart = one.high < two.low or two.high < one.low
        if is_apart and abs(two.value - one.value) > best:
            best, steepest = abs(two.value - one.value), (before, one, after, two)
    if steepest is not None:
        before, one, after, two = steepest
        yield (
            f"most of it is decided from {before.at_ms / 1000:,.3f} s to "
            f"{after.at_ms / 1000:,.3f} s: {one.value:.1%} before, {two.value:.1%} after"
        )


def _as_json(
    result: RunResult, question: Question, seeds: SeedRange, found: Sequence[Moment]
) -> dict[str, Any]:
    return {
        "question": str(question),
        "outcome": result.outcome,
        "is_so": question.is_in(result),
        "scenario_hash": result.scenario_hash,
        "code_version": result.code_version,
        "digest": result.digest,
        "seeds": str(seeds),
        "moments": [
            {**asdict(one), "share": None if one.share is None else asdict(one.share)}
            for one in found
        ],
    }
