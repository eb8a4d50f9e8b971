"""Correct coordinators keep all promises about classic and mixed groups, whatever comes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from classic_world import CLASSIC_CONFIG, ClassicWorld, subscription
from coordinator_world import GROUP
from hypothesis import given, settings
from hypothesis import strategies as st

NAMES = ("A", "B", "C", "sD", "sE")
"""Those that begin with s are static; both of them share an instance id in mixed groups."""

CLASSIC_VERBS = ("join", "join", "enter", "sync", "sync", "beat", "leave", "commit", "wait")
WORLD_VERBS = ("restart", "hold", "release", "fail")
ACTIONS = st.lists(
    st.tuples(
        st.sampled_from((*CLASSIC_VERBS, *CLASSIC_VERBS, *WORLD_VERBS)),
        st.sampled_from(NAMES),
        st.integers(0, 7),
    ),
    max_size=60,
)


def instance_of(name: str) -> str | None:
    return name if name.startswith("s") else None


def play(world: ClassicWorld, action: tuple[str, str, int]) -> None:
    """Do one thing to the coordinator."""
    verb, name, number = action
    instance = instance_of(name)
    fields: dict[str, Any] = {
        "instance": instance,
        "protocols": (("range",), ("range", "sticky"), ("sticky", "range"))[number % 3],
        "metadata": subscription(generation=number % 2),
        "session_timeout_ms": (1_000, 4_000)[number % 2],
        "rebalance_timeout_ms": (1_000, 3_000)[number // 4],
        "api_version": 9 if number < 6 else 5,
    }
    match verb:
        case "join":
            world.join_group(name, member_id="" if number == 7 else None, **fields)
        case "enter":
            world.enter(name, **fields)
        case "sync":
            group = world.classic_or_none()
            ids = sorted(group.members) if group and number else []
            give = {i: tuple(range(4))[n :: len(ids)] for n, i in enumerate(ids)}
            world.sync_group(name, give, instance=instance)
        case "beat":
            world.beat(name, generation=world.generation - (number == 0), instance=instance)
        case "leave":
            world.leave_group(name, instance=instance)
        case "commit":
            world.commit_offset(name, world.generation - number // 3)
        case "wait":
            world.advance_to(world.now_ms + (1, 400, 1_100, 5_000)[number % 4])
        case "restart":
            world.commits_at_once = True
            world.commit()
            world.restart()
        case "hold":
            world.commits_at_once = False
        case "release":
            world.commits_at_once = True
            world.commit()
        case "fail":
            world.fail_writes()
    world.advance_to(world.now_ms)


@pytest.mark.parametrize("delay_ms", [0, 500])
@given(actions=ACTIONS)
@settings(max_examples=150, deadline=None)
def test_a_correct_coordinator_keeps_every_promise_about_classic_groups(delay_ms, actions):
    """Neither step by step nor in any full check is anything found."""
    config = replace(CLASSIC_CONFIG, group_initial_rebalance_delay_ms=delay_ms, group_max_size=4)
    world = ClassicWorld(config=config)
    world.after_step = world.checker.check_fully
    for action in actions:
        play(world, action)
        assert not world.checker.unexplained, str(world.first)
    assert world.group_id == GROUP
