"""Leaving one property out never changes what another finds.

Each of 112 failing runs (every defect's scenario that violates a property, every known issue's, and
13 seeds of profiles) is watched by several checkers at once: one with all properties, and one with
each of some properties alone. By default these are the properties that the run violates, and a few
others, so that all runs together ask each property alone several times. None of the checkers stops
at a violation, or a property would miss what comes after another one's.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from rebalance_sim.invariants.engine.checker import Checker
from rebalance_sim.invariants.engine.discovery import INVARIANTS, LIVENESS
from rebalance_sim.invariants.model.ledger import Change
from rebalance_sim.invariants.property import Property
from rebalance_sim.invariants.step import Step, WorldView
from rebalance_sim.scenarios.defects import DEFECTS, defect_scenario
from rebalance_sim.scenarios.generate.generator import generate
from rebalance_sim.scenarios.runner import run
from rebalance_sim.scenarios.scenario import Scenario, load_scenario

KNOWN_ISSUES = Path(__file__).parents[2] / "scenarios" / "known_issues"
SEEDS = {
    "chaos": (8, 9, 25),
    "faulty": (18,),
    "groups": (9, 19),
    "librdkafka_classic": (25,),
    "migration": (8,),
    "operations": (19, 20),
    "whole": (2, 9),
}
"""Seeds of profiles in which a known issue shows."""

RUNS = {
    **{
        f"defect/{name}": partial(defect_scenario, name)
        for name, defect in DEFECTS.items()
        if defect.has_scenario and not defect.measured
    },
    **{
        f"issue/{path.stem}": partial(load_scenario, path)
        for path in sorted(KNOWN_ISSUES.glob("*.toml"))
    },
    **{
        f"seed/{profile}/{seed}": partial(generate, profile, seed=seed)
        for profile, seeds in SEEDS.items()
        for seed in seeds
    },
}

ALL = (*INVARIANTS, *LIVENESS)
OTHERS_PER_RUN = 5
"""Properties that a run asks alone, beside those that it violates."""

Verdict = list[tuple[Any, ...]]


class Several:
    """A watcher for the runner that lets several checkers look at one group."""

    def __init__(self, view: WorldView, selections: Iterable[tuple[type[Property], ...]]) -> None:
        self.checkers = [
            Checker(view, properties=selection, stop_at_first=False) for selection in selections
        ]
        self.unexplained: list[Any] = []
        self.known: list[Any] = []
        self.known_counts: dict[tuple[str, str], int] = {}
        self.liveness = self

    def after_step(self, step: Step) -> None:
        for checker in self.checkers:
            checker.after_step(step)

    def at_end(self) -> None:
        for checker in self.checkers:
            checker.at_end()

    def coverage(self) -> dict[str, int]:
        return {}

    def on_quiet_period_start(self, at_ms: int) -> None:
        for checker in self.checkers:
            checker.liveness.on_quiet_period_start(at_ms)

    due_ms = 0

    def not_judged(self, at_ms: int) -> str:
        return ""

    def verdict(self, at_ms: int) -> list[Any]:
        return []


def verdicts(
    scenario: Scenario, selections: list[tuple[type[Property], ...]]
) -> list[dict[str, Verdict]]:
    """For each selection: property id -> what it found in this run, in all groups."""
    watchers: list[Several] = []

    def watch(view: WorldView) -> Several:
        watchers.append(Several(view, selections))
        return watchers[-1]

    result = run(scenario, make_watcher=watch)
    assert result.outcome != "error", result.reason
    found: list[dict[str, Verdict]] = [{} for _ in selections]
    for watcher in watchers:
        for verdict, checker in zip(found, watcher.checkers, strict=True):
            for v in checker.violations:
                line = (v.step_index, v.detail, v.known_as)
                verdict.setdefault(v.property.id, []).append(line)
            for (property_id, issue), count in checker.known_counts.items():
                verdict.setdefault(property_id, []).append((issue, count))
            for late in checker.liveness.verdict(result.simulated_ms):
                verdict.setdefault(late.property.id, []).append((str(late), late.known_as))
    return found


def violated(scenario: Scenario) -> list[type[Property]]:
    """The properties that the run violates, or would without known issues."""
    (found,) = verdicts(scenario, [ALL])
    return [item for item in ALL if item.id in found]


def assert_independent(scenario: Scenario, alone: Iterable[type[Property]]) -> None:
    """Each of these finds alone what it finds among all."""
    chosen = list(dict.fromkeys(alone))
    together, *each = verdicts(scenario, [ALL, *((item,) for item in chosen)])
    for item, found in zip(chosen, each, strict=True):
        expected = {item.id: together[item.id]} if item.id in together else {}
        assert found == expected


def test_there_are_more_than_a_hundred_failing_runs() -> None:
    assert len(RUNS) > 100


@pytest.mark.parametrize("name", RUNS)
def test_a_property_finds_alone_what_it_finds_among_all(name: str) -> None:
    """Those that the run violates, and ``OTHERS_PER_RUN`` more in turn."""
    scenario = RUNS[name]()
    mine = violated(scenario)
    assert mine, "the run violates nothing"
    start = list(RUNS).index(name) * OTHERS_PER_RUN
    others = [ALL[n % len(ALL)] for n in range(start, start + OTHERS_PER_RUN)]
    assert_independent(scenario, [*mine, *others])


class Spoiler(Property):
    """Forgets what a batch has taken from whom, before others look at it."""

    id = "test.spoiler"
    sentence = "Nothing is spoilt."
    judges_mixed = True

    def on_change(self, step: Step, change: Change) -> None:
        change.taken.clear()


def test_a_property_that_wrote_into_the_model_would_be_found() -> None:
    """The comparison sees what such a property keeps from others."""
    scenario = defect_scenario("mut-early-grant")
    sound, spoilt = verdicts(scenario, [ALL, (Spoiler, *ALL)])
    assert sound != spoilt
