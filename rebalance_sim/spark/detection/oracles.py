"""What judges a run with a defect: the laws, or a reference without the defect beside it."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from rebalance_sim.scenarios.counterfactual import Prove
from rebalance_sim.scenarios.leaping import run_leaping
from rebalance_sim.scenarios.rule_differences import Rules, watched_by
from rebalance_sim.scenarios.scenario import Scenario

DIFFERS = "differs"
"""Outcome of a run in which the reference decides otherwise."""


class Oracle(StrEnum):
    """Who says that something is wrong."""

    LAWS = "laws"
    """A property is violated, the run is stuck, or fails. So are wrong rules noticed of which
    there is no other version."""
    REFERENCE = "reference"
    """Machines without the defect, fed the same, decide otherwise."""


class Judged(NamedTuple):
    """A run: its outcome, its digest if it has one, and the violated property, the decision that
    differs, or the reason."""

    outcome: str
    digest: str
    what: str


def judged(scenario: Scenario, oracle: Oracle) -> Judged:
    """Run a scenario until the oracle finds something, or nothing can happen any more."""
    return by_laws(scenario) if oracle is Oracle.LAWS else by_reference(scenario)


def by_laws(scenario: Scenario) -> Judged:
    """What the laws say, up to the first that is violated."""
    result = run_leaping(scenario, prove=Prove.NONE, ends_at_violation=True)
    what = result.violations[0].property if result.violations else result.reason
    if result.outcome == "error":
        what = f"error: {result.reason.partition(':')[0]}"
    return Judged(result.outcome, result.digest, what)


def by_reference(scenario: Scenario) -> Judged:
    """The first decision that differs from that of the version without what is switched on."""
    try:
        lock_step = watched_by(scenario, Rules(scenario.world.semantics), ends_at_difference=True)
    except MemoryError:
        raise
    except Exception as problem:  # of the machines of the run: the pair lets its own pass
        return Judged("error", "", f"error: {type(problem).__name__}")
    if not lock_step.differences:
        return Judged("ok", "", "")
    first = lock_step.differences[0]
    return Judged(DIFFERS, "", f"{first.machine}, {first.given}: {first.what}")
