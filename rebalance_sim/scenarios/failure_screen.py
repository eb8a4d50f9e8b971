"""The screen of a run that failed: the property, what was seen, what led to it, how to repeat it.

The command line prints it, pytest shows it, and the reports of regressions carry it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rebalance_sim.scenarios.metric_limits import client_words
from rebalance_sim.scenarios.result import PASSING, VERDICTS

if TYPE_CHECKING:
    from rebalance_sim.scenarios.result import KnownRow, RunResult, ViolationRow
    from rebalance_sim.scenarios.scenario import Scenario

VIOLATIONS_SHOWN = 5


def replay_command(words: str) -> str:
    """The command that runs a scenario again and keeps every step."""
    return f"rebalance-sim run {words} --trace trace.jsonl"


def led_to(scenario: Scenario, result: RunResult) -> list[str]:
    """What led to the first violated property; nothing for a run that violated none. Takes another
    run."""
    from rebalance_sim.scenarios.runner import run as run_scenario
    from rebalance_sim.scenarios.traces import story
    from rebalance_sim.scenarios.traces.run_trace import run_trace_of
    from rebalance_sim.sim.trace import FullTrace

    if not result.violations:
        return []
    trace = FullTrace()
    return story.led_to(run_trace_of(trace, run_scenario(scenario, trace=trace)))


def describe(result: RunResult, *, replay_command: str, story: Sequence[str] = ()) -> list[str]:
    """What to tell about a run: one line if it passed, else everything to continue with. ``story``
    are lines about what led to it."""
    length = f"{result.steps:,} steps, {result.simulated_ms / 1000:,.1f} s simulated"
    if result.leaps:
        length += f", {result.leapt_ms / 1000:,.1f} s of it at rest and left out"
    who = f"seed {result.seed}" + (f", profile {result.profile}" if result.profile else "")
    clients = f"; {words}" if (words := client_words(result.metrics)) else ""
    if result.outcome in PASSING:
        known = ", ".join(f"{name} x {count}" for name, count in sorted(result.known.items()))
        known = f", known issues: {known}" if known else ""
        reason = result.reason if result.outcome == "vacuous" else result.all_not_judged
        empty = f", {reason}" if reason else ""
        about = f"{known}{empty}{clients}"
        headline = f"{result.outcome}: {who}: {length}, digest {result.digest}{about}"
        return [headline, *_describe_known(result)]
    lines = [f"{result.outcome.upper()}: {result.reason or who}"]
    for violation in result.violations[:VIOLATIONS_SHOWN]:
        lines += _describe_violation(violation)
    left = len(result.violations) - VIOLATIONS_SHOWN
    if left > 0:
        lines += ["", f"  and {left} more (--json has them all)"]
    for one in result.suspected[:VIOLATIONS_SHOWN]:
        lines += _describe_violation(one.row)
        lines += [f"  maybe     {' or '.join(one.issues)}, as a known issue"]
    if story:
        lines += ["", "  what led to it, as replay --diff tells it:", *story]
    lines += [
        "",
        f"  run       {who}, {length}{clients}",
        f"  scenario  {result.scenario_hash}",
        f"  code      {result.code_version}",
        f"  digest    {result.digest}",
        f"  replay    {replay_command}",
    ]
    return lines


def _describe_known(result: RunResult) -> Iterator[str]:
    """Each known issue once: what it is, and where it showed first."""
    first: dict[str, KnownRow] = {}
    for row in result.known_issues:
        first.setdefault(row.issue, row)
    for issue, row in first.items():
        verdicts = {one.verdict for one in result.known_issues if one.issue == issue}
        yield ""
        yield f"  {issue}: {row.title}"
        yield f"    violates  {row.property} at step {row.step}, after {_seconds(row.at_ms)}"
        yield f"    whose     {row.subject}" + (f", in {row.group_id}" if row.group_id else "")
        yield f"    seen      {row.detail}"
        if (cause := row.cause) is not None:
            yield f"    since     step {cause.step}, {_seconds(cause.at_ms)}: {cause.what}"
        for verdict in sorted(filter(None, verdicts)):
            yield f"    {verdict:<8}  {VERDICTS[verdict]}"
        yield f"    see       {row.page}"


def _seconds(at_ms: int) -> str:
    return f"{at_ms / 1000:,.3f} s simulated"


def _describe_violation(violation: ViolationRow) -> list[str]:
    where = f"at step {violation.step}, after {violation.at_ms / 1000:,.3f} s simulated"
    return [
        "",
        f"  property  {violation.property}",
        f"            {violation.sentence}",
        f"  violated  {where}" + (f", in group {violation.group_id}" if violation.group_id else ""),
        f"  seen      {violation.detail}",
        *(f"  during    {fault}" for fault in violation.open_faults),
    ]
