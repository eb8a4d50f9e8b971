"""Correct coordinators satisfy every property, whatever they are sent."""

from __future__ import annotations

import pytest
from coordinator_world import CoordinatorWorld
from hypothesis import given, settings
from random_history import ACTIONS, RANDOM_CONFIG, play

VERSIONS = ("kafka-4.3", "kafka-4.1", "kip-848")


@pytest.mark.parametrize("version", VERSIONS)
@given(actions=ACTIONS)
@settings(max_examples=400, deadline=None)
def test_a_correct_coordinator_satisfies_every_property(version, actions):
    """The clean rules break nothing, neither step by step nor in any full check."""
    world = CoordinatorWorld(version, config=RANDOM_CONFIG)
    world.after_step = world.checker.check_fully
    for action in actions:
        play(world, action)
        assert not world.checker.unexplained, str(world.first)
