"""One scenario of a hunt: run, judged as a sweep judges it, and what it has visited."""

from __future__ import annotations

from dataclasses import dataclass

from rebalance_sim.invariants.step import WorldView
from rebalance_sim.scenarios.counterfactual import Prove, prove_known
from rebalance_sim.scenarios.hunt.pairs import Interval, PairingChecker, setting_pairs
from rebalance_sim.scenarios.result import OUTCOMES, RunResult
from rebalance_sim.scenarios.runner import run
from rebalance_sim.scenarios.scenario import Scenario

NONDETERMINISTIC = "nondeterministic"
FAILED = ("violation", "stuck", "error", NONDETERMINISTIC)
"""Outcomes that are findings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """What a run came to. ``what`` is the property that it violated first, or the type of the
    exception. ``reached`` is its coverage with the pairs of requests and faults, ``settings`` the
    pairs of settings, both by name; ``intervals`` are operations that were under way in it."""

    outcome: str
    what: str = ""
    reason: str = ""
    steps: int = 0
    reached: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    intervals: tuple[Interval, ...] = ()

    @property
    def is_finding(self) -> bool:
        """Whether a sweep would report it as a failure."""
        return self.outcome in FAILED

    @property
    def has_ended(self) -> bool:
        """Whether the run came to its end, and no limit of the machine to it."""
        return self.outcome in OUTCOMES or self.outcome == NONDETERMINISTIC


def evaluate(scenario: Scenario) -> Evaluation:
    """Run a scenario once, without its known issues once more where it shows any, and again where
    it fails: a failure that does not come again says nothing about the protocol."""
    checkers: list[PairingChecker] = []

    def watch(view: WorldView) -> PairingChecker:
        checkers.append(PairingChecker(view))
        return checkers[-1]

    result = run(scenario, make_watcher=watch, prove=Prove.NONE)
    intervals = tuple(one for checker in checkers for one in checker.pairs.intervals)
    judged = prove_known(
        scenario, result, lambda repaired: run(repaired, prove=Prove.NONE), Prove.ALL
    )
    known = (f"known.{row.issue}.{row.property}" for row in judged.known_issues)
    return Evaluation(
        outcome=_outcome(scenario, judged),
        what=_what(judged),
        reason=judged.reason,
        steps=result.steps,
        reached=tuple(sorted({*result.coverage, *known})),
        settings=tuple(setting_pairs(scenario, result.coverage)),
        intervals=intervals,
    )


def _outcome(scenario: Scenario, result: RunResult) -> str:
    if result.outcome in ("violation", "stuck"):
        again = run(scenario, prove=Prove.NONE)
        if again.digest != result.digest:
            return NONDETERMINISTIC
    return result.outcome


def _what(result: RunResult) -> str:
    if result.violations:
        return result.violations[0].property
    return result.reason.partition(":")[0] if result.outcome == "error" else ""
