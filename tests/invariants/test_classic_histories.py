"""Correct coordinators satisfy all properties about classic and mixed groups, whatever comes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from classic_world import CLASSIC_CONFIG, ClassicWorld, subscription
from coordinator_world import GROUP
from hypothesis import given, settings
from hypothesis import strategies as st

from rebalance_sim.invariants.known.known_issues import KNOWN_ISSUES
from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup

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
def test_a_correct_coordinator_satisfies_every_property_about_classic_groups(delay_ms, actions):
    """Neither step by step nor in any full check is anything found."""
    config = replace(CLASSIC_CONFIG, group_initial_rebalance_delay_ms=delay_ms, group_max_size=4)
    world = ClassicWorld(config=config)
    world.after_step = world.checker.check_fully
    for action in actions:
        play(world, action)
        assert not world.checker.violations, str(world.first)
    assert world.group_id == GROUP


# --- both protocols ------------------------------------------------------------------------------

CONSUMERS = ("X", "Y", "sZ")
MIXED_VERBS = (
    *("consume", "consume", "ack", "ack", "beat_on", "go", "go_for_a_while"),
    *("enter", "rejoin", "rejoin", "sync", "beat", "leave", "commit", "wait", "topics"),
)
MIXED_ACTIONS = st.lists(
    st.tuples(
        st.sampled_from((*MIXED_VERBS, *MIXED_VERBS, "restart", "hold", "release")),
        st.sampled_from(("A", "B", "sD", *CONSUMERS)),
        st.integers(0, 7),
    ),
    max_size=60,
)


def play_mixed(world: ClassicWorld, action: tuple[str, str, int]) -> None:
    """Do one thing to the coordinator; members act on what it has of them, or nearly so."""
    verb, name, number = action
    group = world.shard.coordinator.groups_of(ConsumerGroup).get(GROUP)
    member = group.members.get(world.ids.get(name, name)) if group else None
    instance = "i" if name.startswith("s") else None
    assigned = frozenset(member.assigned) if member else frozenset()
    generation = member.member_epoch if member else world.generation
    topics = (("orders",), ("orders", "payments"))[number % 2]
    match verb:
        case "consume":
            world.join(name, *topics, instance_id=instance)
        case "ack" if member and generation > 0 and not member.classic_metadata:
            world.heartbeat(name, generation, owned=assigned, instance_id=instance)
        case "beat_on" if member and generation > 0 and not member.classic_metadata:
            world.heartbeat(name, generation, instance_id=instance)
        case "go":
            world.heartbeat(name, -1, instance_id=instance)
        case "go_for_a_while" if instance:
            world.heartbeat(name, -2, instance_id=instance)
        case "enter" | "rejoin":
            owned: dict[str, tuple[int, ...]] = {}
            held = {*assigned, *(member.pending_revocation if member else ())}
            claims = (assigned, held, ())[number % 3]
            if member is None or member.classic_metadata is None or number == 0:
                claims = ()  # A newcomer has nothing to claim.
            for topic_id, partition in sorted(claims):
                topic = topic_id.removeprefix("id-")
                owned[topic] = (*owned.get(topic, ()), partition)
            fields: dict[str, Any] = {
                "instance": instance,
                "metadata": subscription(topics, owned, generation),
                "rebalance_timeout_ms": (1_000, 60_000)[number // 4],
                "session_timeout_ms": 4_000,
            }
            if verb == "enter":
                world.enter(name, member_id=None if number else "", **fields)
            else:
                world.join_group(name, **fields)
        case "sync":
            classic = world.classic_or_none()
            ids = sorted(classic.members) if classic else []
            give = {i: tuple(range(4))[n :: len(ids)] for n, i in enumerate(ids)}
            world.sync_group(name, give, generation=generation, instance=instance)
        case "beat":
            world.beat(name, generation=generation, instance=instance)
        case "leave":
            world.leave_group(name, instance=instance)
        case "commit" if assigned:
            world.commit_offset(name, generation, partition=min(assigned))
        case "wait":
            world.advance_to(world.now_ms + (1, 500, 1_500, 20_000)[number % 4])
        case "topics":
            topic = world.image.by_name["payments"]
            count = min(topic.partition_count + 1, 6)
            world.update_image(world.image.with_topic(replace(topic, partition_count=count)))
        case "restart":
            world.commits_at_once = True
            world.commit()
            world.restart()
        case "hold":
            world.commits_at_once = False
        case "release":
            world.commits_at_once = True
            world.commit()
    world.advance_to(world.now_ms)


@pytest.mark.parametrize("version", ["kafka-4.3", "kafka-4.1", "kip-848", "kafka-4.3-clean"])
@pytest.mark.parametrize("policy", ["bidirectional", "upgrade", "downgrade", "disabled"])
@given(actions=MIXED_ACTIONS, interval_ms=st.sampled_from([0, 1_000]))
@settings(max_examples=30, deadline=None)
def test_a_correct_coordinator_satisfies_every_property_about_mixed_groups(
    version, policy, actions, interval_ms
):
    """Under every policy, and in every version."""
    config = replace(
        CLASSIC_CONFIG,
        group_consumer_migration_policy=policy,
        group_consumer_assignment_interval_ms=interval_ms,
    )
    world = ClassicWorld(version, config=config, known_issues=KNOWN_ISSUES)
    world.after_step = world.checker.check_fully
    for action in actions:
        play_mixed(world, action)
        assert not world.checker.violations, str(world.first)
