"""What judges a defect in a run: the laws, or machines beside the run, fed the same."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from rebalance_sim.invariants.reference.tree import Place, places_of
from rebalance_sim.protocol.defects import DEFECTS
from rebalance_sim.scenarios.counterfactual import Prove
from rebalance_sim.scenarios.leaping import run_leaping
from rebalance_sim.scenarios.rule_differences import first_differences
from rebalance_sim.scenarios.scenario import Scenario

DIFFERS = "differs"
"""Outcome of a run in which the reference decides otherwise."""


class Oracle(StrEnum):
    """Who says that something is wrong."""

    LAWS = "laws"
    """A property is violated, the run is stuck, or fails. So are wrong rules noticed of which
    there is no other version."""
    REFERENCE = "reference"
    """Machines with the defect, fed the same as those of a run without, decide otherwise."""


class Judged(NamedTuple):
    """A run: its outcome, its digest if it has one, and the violated property, the decision that
    differs, or the reason."""

    outcome: str
    digest: str
    what: str


def by_laws(scenario: Scenario) -> Judged:
    """What the laws say, up to the first that is violated."""
    result = run_leaping(scenario, prove=Prove.NONE, ends_at_violation=True)
    what = result.violations[0].property if result.violations else result.reason
    if result.outcome == "error":
        what = f"error: {result.reason.partition(':')[0]}"
    return Judged(result.outcome, result.digest, what)


def by_reference(scenario: Scenario, defects: Iterable[str]) -> dict[str, Judged]:
    """What the first decision is that each defect takes otherwise in the run of this scenario."""
    return {
        defect: Judged("ok", "", "")
        if first is None
        else Judged(DIFFERS, "", f"{first.machine}, {first.given}: {first.what}")
        for defect, first in first_differences(scenario, defects).items()
    }


def is_in_sight(defect_id: str) -> bool:
    """Whether machines decide all that the defect changes: where no decision differs, the run with
    it is the run without."""
    return Place.HOST not in places_of(DEFECTS[defect_id].rules)
