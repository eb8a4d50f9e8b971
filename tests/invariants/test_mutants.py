"""Every property is violated by every defect and mutant that it claims to notice.

That nothing is violated without the defect, ``tests/scenarios/test_defects.py`` says.
"""

from __future__ import annotations

import re
from functools import cache

import pytest
from falsified_at_work import CLEAN, FALSIFIED, at_work, watched

from rebalance_sim.invariants.engine.discovery import INVARIANTS, LIVENESS
from rebalance_sim.scenarios.defects import defect_scenario

LATE_MS = 10_000_000

CLAIMS = [(spec.id, name) for spec in (*INVARIANTS, *LIVENESS) for name in spec.violated_by]


@cache
def findings(name: str) -> tuple[tuple[str, str], ...]:
    """(property id, what was seen) of everything that a defect violates, in a defect's scenario or
    a falsified world."""
    world = FALSIFIED[name]() if name in FALSIFIED else watched(defect_scenario(name))
    late = world.checker.liveness.verdict(LATE_MS)
    return (
        *((v.property.id, v.detail) for v in world.checker.violations),
        *((s.property.id, f"{s.subject} {s.reason}") for s in late if not s.suspects),
    )


def violated_by(name: str) -> frozenset[str]:
    """Ids of all properties that a defect violates."""
    return frozenset(property_id for property_id, _ in findings(name))


@pytest.mark.quick_one_of(2)
@pytest.mark.parametrize(("property_id", "name"), CLAIMS, ids=lambda value: value)
def test_a_property_is_violated_by_what_it_claims_to_notice(property_id, name):
    """An invariant that never fired on a planted bug has proved nothing."""
    assert property_id in violated_by(name)


@pytest.mark.parametrize(("profile", "seed"), sorted(CLEAN))
def test_the_runs_that_mutants_are_put_into_are_clean_without(profile, seed):
    """It is the mutant that violates the property, not the run."""
    world = at_work(profile, seed)
    late = world.checker.liveness.verdict(LATE_MS)
    assert [*world.checker.violations, *late] == []


CODE = re.compile(
    r"\w+\(\w+=|\w+\(\{|[\[({]['\"]|<\w|\bNone\b|\bTrue\b|\bFalse\b|0x[0-9a-f]{6}"
    r"|TopicPartition|frozenset|mappingproxy"
)
"""What a value of Python looks like when it is printed as it is."""


@pytest.mark.quick_one_of(3)
@pytest.mark.parametrize("name", sorted({name for _, name in CLAIMS}))
def test_what_was_seen_is_told_in_plain_words(name):
    """A reader of a failure need not know the classes of this simulator."""
    spilt = [(id_, detail) for id_, detail in findings(name) if CODE.search(detail)]
    assert spilt == []


def test_every_invariant_is_reported_by_some_finding():
    """Otherwise the test above would not have seen its words."""
    reported = {property_id for _, name in CLAIMS for property_id, _ in findings(name)}
    assert reported == {spec.id for spec in (*INVARIANTS, *LIVENESS)}
