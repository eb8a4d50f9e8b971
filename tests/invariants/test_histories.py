"""Correct coordinators satisfy every property, whatever they are sent."""

from __future__ import annotations

import pytest
from coordinator_world import CoordinatorWorld
from hypothesis import given, settings
from random_history import ACTIONS, RANDOM_CONFIG, play

from rebalance_sim.invariants.known.known_issues import KNOWN_ISSUES

VERSIONS = ("kafka-4.3", "kafka-4.1", "kip-848")
CLEAN_VERSIONS = tuple(f"{version}-clean" for version in VERSIONS)


@pytest.mark.parametrize("version", (*VERSIONS, *CLEAN_VERSIONS))
@given(actions=ACTIONS)
@settings(max_examples=200, deadline=None)
def test_a_correct_coordinator_satisfies_every_property(version, actions):
    """Neither step by step nor in any full check; a version that has not got its known issues
    violates nothing, another one only what these may."""
    world = CoordinatorWorld(version, config=RANDOM_CONFIG, known_issues=KNOWN_ISSUES)
    world.after_step = world.checker.check_fully
    for action in actions:
        play(world, action)
        assert not world.checker.violations, str(world.first)
