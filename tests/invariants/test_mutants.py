"""Every promise is broken by every defect and mutant that it claims to notice."""

from __future__ import annotations

import re
from functools import cache

import pytest
from falsified_records import FALSIFIED

from rebalance_sim.invariants.engine.checker import Checker
from rebalance_sim.invariants.engine.registry import PROMISES
from rebalance_sim.scenarios.defects import zoo_scenario
from rebalance_sim.scenarios.runner import run

LATE_MS = 10_000_000

CLAIMS = [(promise.id, name) for promise in PROMISES for name in promise.broken_by]


@cache
def findings(name: str, *, with_defect: bool = True) -> tuple[tuple[str, str], ...]:
    """(promise id, what was seen) of everything that a defect breaks, in a scenario of the zoo or a
    falsified world."""
    if name in FALSIFIED:
        world = FALSIFIED[name]()
        late = world.checker.liveness.verdict(LATE_MS)
        violations = world.checker.violations
    else:
        checkers: list[Checker] = []

        def watch(view):
            checkers.append(Checker(view, stop_at_first=False))
            return checkers[0]

        result = run(zoo_scenario(name, with_defect=with_defect), make_watcher=watch)
        late = checkers[0].liveness.verdict(result.simulated_ms)
        violations = checkers[0].unexplained
    return (
        *((v.promise.id, v.detail) for v in violations),
        *((s.promise.id, f"{s.subject} {s.reason}") for s in late if s.known_as is None),
    )


def broken_by(name: str, *, with_defect: bool = True) -> frozenset[str]:
    """Ids of all promises that a defect breaks."""
    return frozenset(promise_id for promise_id, _ in findings(name, with_defect=with_defect))


@pytest.mark.parametrize(("promise_id", "name"), CLAIMS, ids=lambda value: value)
def test_a_promise_is_broken_by_what_it_claims_to_notice(promise_id, name):
    """An invariant that never fired on a planted bug has proved nothing."""
    assert promise_id in broken_by(name)


@pytest.mark.parametrize(
    "name", sorted({name for _, name in CLAIMS if not name.startswith("test:")})
)
def test_the_same_scenario_breaks_nothing_without_the_defect(name):
    """It is the defect that fires the promise, not the scenario."""
    assert broken_by(name, with_defect=False) == frozenset()


CODE = re.compile(
    r"\w+\(\w+=|\w+\(\{|[\[({]['\"]|<\w|\bNone\b|\bTrue\b|\bFalse\b|0x[0-9a-f]{6}"
    r"|TopicPartition|frozenset|mappingproxy"
)
"""What a value of Python looks like when it is printed as it is."""


@pytest.mark.parametrize("name", sorted({name for _, name in CLAIMS}))
def test_what_was_seen_is_told_in_plain_words(name):
    """A reader of a failure need not know the classes of this simulator."""
    spilt = [(id_, detail) for id_, detail in findings(name) if CODE.search(detail)]
    assert spilt == []


def test_every_safety_promise_is_told_by_some_finding():
    """Otherwise the test above would not have seen its words."""
    told = {promise_id for _, name in CLAIMS for promise_id, _ in findings(name)}
    assert told == {promise.id for promise in PROMISES}
