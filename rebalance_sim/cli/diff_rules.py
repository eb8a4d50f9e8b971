"""``rebalance-sim diff-rules``: where two versions, or a rule of one's own, decide differently."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rebalance_sim.cli import options as cli_options
from rebalance_sim.cli.exit_codes import FOUND, OK
from rebalance_sim.cli.output import print_json, say

if TYPE_CHECKING:
    from rebalance_sim.scenarios.rule_differences import Decision, RuleDifferences

_RULES = "A version, with ~ISSUE for what is repaired in it and +RULE for what is switched on."
SHOWN = 20


def diff_rules(
    first: Annotated[str, typer.Argument(help=f"Rules of the runs. {_RULES}")],
    second: Annotated[str, typer.Argument(help="Rules that they are compared with.")],
    profile: cli_options.ProfileName,
    seeds: Annotated[str, typer.Option(help="First seed and end, as in 0:100.")],
    set_: cli_options.Settings = None,
    tree: Annotated[
        Path | None,
        typer.Option(help="Folder protocol/ of another checkout, whose machines take SECOND."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print all of it as JSON.")] = False,
) -> int:
    """Feed two sets of rules the same, step by step, and say which decisions differ.

    Exit code 0: none. 1: some.
    """
    from rebalance_sim.scenarios.rule_differences import diff_rules as differences_of
    from rebalance_sim.spark.plan import SeedRange

    chosen = SeedRange.parse(seeds)
    found = differences_of(
        first,
        second,
        profile=cli_options.variant_of(profile, None, None, set_),
        seeds=range(chosen.first, chosen.end),
        tree=tree,
    )
    if json:
        print_json(_values(found))
    else:
        for line in _describe(found, profile):
            say(line)
    return FOUND if found.count else OK


def _values(found: RuleDifferences) -> dict[str, object]:
    return {
        "first": str(found.first),
        "second": str(found.second),
        "runs": found.runs,
        "differing_runs": found.differing_runs,
        "decisions_compared": found.compared,
        "differences": found.count,
        "decisions": [
            {
                "machine": one.machine,
                "given": one.given,
                "what": one.what,
                "runs": one.runs,
                "count": one.count,
                "seed": one.seed,
                "step": one.example.step_index,
                "example": str(one.example),
            }
            for one in found.decisions
        ],
    }


def _describe(found: RuleDifferences, profile: str) -> Iterator[str]:
    yield (
        f"{found.compared:,} decisions of {found.runs:,} runs by {found.first} compared with "
        f"{found.second}: {found.count:,} differ, in {found.differing_runs:,} runs"
    )
    for one in found.decisions[:SHOWN]:
        yield ""
        yield from _decision(one, found, profile)
    rest = len(found.decisions) - SHOWN
    if rest > 0:
        yield f"and {rest} kinds of decisions more: see --json"


def _decision(one: Decision, found: RuleDifferences, profile: str) -> Iterator[str]:
    yield f"{one.machine}, {one.given}: {one.what}"
    yield f"  {one.count:,} times in {one.runs:,} of {found.runs:,} runs; first in seed {one.seed}:"
    example = one.example
    yield f"  step {example.step_index}, {example.at_ms:,} ms, {example.subject}"
    width = max(len(str(found.first)), len(str(found.second)))
    yield f"  {found.first!s:<{width}}  {example.decided}"
    yield f"  {found.second!s:<{width}}  {example.reference}"
