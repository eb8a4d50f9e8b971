"""Whether a violation is what it is taken for: the same scenario, without the known issue.

A run that only violates properties in ways that its version is known for is run again with these
issues repaired. What the repaired run does not show is known; what it shows all the same has
another reason, and is a violation. The random streams of a world belong to its parts, so that a
repair changes what follows from the issue, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from rebalance_sim.protocol.versions.semantics import Semantics, simulated
from rebalance_sim.scenarios.result import (
    NOT_REPAIRED,
    PASSING,
    REPAIRED,
    UNPROVEN,
    KnownRow,
    RepairedRun,
    RunResult,
    ViolationRow,
)
from rebalance_sim.scenarios.scenario import Scenario

_THE_GROUP = "the group"
_NO_VERDICT = "budget"


def prove_known(
    scenario: Scenario, result: RunResult, run_once: Callable[[Scenario], RunResult]
) -> RunResult:
    """The result of a run that ended ``known``, with a verdict on each known issue that it shows.

    ``run_once`` runs a scenario as this one was run. A result that ended otherwise comes back as it
    is.
    """
    if result.outcome != "known":
        return result
    world = scenario.world
    semantics = simulated(world.semantics, defects=world.defects, repairs=world.repairs)
    repairs = _repairable(semantics, (row.issue for row in result.known_issues))
    twin: RunResult | None = None
    while repairs:
        twin = run_once(scenario.without(*repairs))
        # The repaired run may go another way, and show another known issue in the same place.
        others = _repairable(semantics, (o.issue for o in _same(result.known_issues, twin)))
        if set(others) <= set(repairs):
            break
        repairs = tuple(sorted({*repairs, *others}))
    rows = tuple(
        replace(row, verdict=_verdict(row, row.issue in repairs, twin))
        for row in result.known_issues
    )
    if twin is None:
        return replace(result, known_issues=rows)
    repaired = RepairedRun(
        repairs=repairs,
        scenario_hash=twin.scenario_hash,
        outcome=twin.outcome,
        reason=twin.reason,
        digest=twin.digest,
        steps=twin.steps,
    )
    return _judged(replace(result, known_issues=rows, repaired=repaired), repaired)


def _repairable(semantics: Semantics, issues: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({issue for issue in issues if semantics.can_repair(issue)}))


def _same(rows: Sequence[KnownRow], twin: RunResult) -> list[KnownRow]:
    """What the repaired run takes for known in the place of one of these."""
    return [other for other in twin.known_issues if any(_is_same(row, other) for row in rows)]


def _is_same(row: KnownRow, other: KnownRow) -> bool:
    return (
        row.property == other.property
        and row.group_id == other.group_id
        and (row.subject == other.subject or _THE_GROUP in (row.subject, other.subject))
    )


def _verdict(row: KnownRow, was_repaired: bool, twin: RunResult | None) -> str:
    if twin is None or not was_repaired or twin.outcome == _NO_VERDICT:
        return UNPROVEN
    if twin.outcome not in PASSING:
        shown = {(violation.property, violation.group_id) for violation in twin.violations}
        # After a violation nothing is judged any more: silence about the others means nothing.
        is_shown = (row.property, row.group_id) in shown
        return NOT_REPAIRED if is_shown or not shown else UNPROVEN
    return UNPROVEN if _same([row], twin) else REPAIRED


def _judged(result: RunResult, repaired: RepairedRun) -> RunResult:
    """The same run, with a violation for each issue that is no reason for what was seen."""
    if repaired.outcome in (*PASSING, _NO_VERDICT):
        return result
    refuted = [row for row in result.known_issues if row.verdict == NOT_REPAIRED]
    if repaired.outcome == "error":
        return replace(
            result, outcome="error", reason=f"{repaired.reason}; {_repaired_run(repaired)}"
        )
    if not refuted:
        # It violates something else, and so proves nothing about what is to be proven.
        refuted = [row for row in result.known_issues if row.issue in repaired.repairs]
    violations = tuple(_as_violation(row, repaired) for row in refuted)
    first = violations[0]
    is_late = all(row.is_late for row in refuted)
    return replace(
        result,
        outcome="stuck" if is_late else "violation",
        reason=f"{first.property} at step {first.step} ({first.at_ms} ms): {first.detail}",
        violations=violations,
    )


def _as_violation(row: KnownRow, repaired: RepairedRun) -> ViolationRow:
    return ViolationRow(
        property=row.property,
        sentence=row.sentence,
        step=row.step,
        at_ms=row.at_ms,
        detail=f"{row.detail}; looks like {row.issue}, but is not repaired by "
        f"{', '.join(repaired.repairs)}: {_repaired_run(repaired)}",
        group_id=row.group_id,
        open_faults=row.open_faults,
    )


def _repaired_run(repaired: RepairedRun) -> str:
    return f"the run without it ends {repaired.outcome}, {repaired.reason}"
