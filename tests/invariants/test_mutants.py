"""Every promise is broken by every defect and mutant that it claims to notice."""

from __future__ import annotations

from functools import cache

import pytest
from falsified_clients import FALSIFIED

from invariants.checker import Checker
from invariants.registry import PROMISES
from scenarios.runner import run
from scenarios.zoo import zoo_scenario

LATE_MS = 10_000_000

CLAIMS = [(promise.id, name) for promise in PROMISES for name in promise.broken_by]


@cache
def broken_by(name: str) -> frozenset[str]:
    """Ids of all promises that a defect breaks, in a scenario of the zoo or a falsified world."""
    if name in FALSIFIED:
        world = FALSIFIED[name]()
        late = world.checker.liveness.verdict(LATE_MS)
        return frozenset(world.broken) | {s.promise.id for s in late if s.known_as is None}
    return _broken_in_zoo(name, with_defect=True)


@cache
def _broken_in_zoo(name: str, *, with_defect: bool) -> frozenset[str]:
    checkers: list[Checker] = []

    def watch(view):
        checkers.append(Checker(view, stop_at_first=False))
        return checkers[0]

    scenario = zoo_scenario(name, with_defect=with_defect)
    result = run(scenario, make_watcher=watch)
    late = checkers[0].liveness.verdict(result.simulated_ms)
    return frozenset(v.promise.id for v in checkers[0].unexplained) | {
        stuck.promise.id for stuck in late if stuck.known_as is None
    }


@pytest.mark.parametrize(("promise_id", "name"), CLAIMS, ids=lambda value: value)
def test_a_promise_is_broken_by_what_it_claims_to_notice(promise_id, name):
    """An invariant that never fired on a planted bug has proved nothing."""
    assert promise_id in broken_by(name)


@pytest.mark.parametrize(
    "name", sorted({name for _, name in CLAIMS if not name.startswith("test:")})
)
def test_the_same_scenario_breaks_nothing_without_the_defect(name):
    """It is the defect that fires the promise, not the scenario."""
    assert _broken_in_zoo(name, with_defect=False) == frozenset()
