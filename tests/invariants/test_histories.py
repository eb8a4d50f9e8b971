"""Correct coordinators satisfy every property, whatever they are sent, in any order, and worse."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from classic_world import CLASSIC_CONFIG, ClassicWorld, subscription
from coordinator_world import FIRST, GROUP
from hypothesis import given, settings
from hypothesis import strategies as st

from rebalance_sim.invariants.known.known_issues import KNOWN_ISSUES
from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup
from rebalance_sim.protocol.wire.topics import MetadataImage, Topic

CONSUMER_VERBS = (
    *("consume", "consume", "ack", "ack", "beat_on", "beat_on", "full", "old"),
    *("go", "go_for_a_while", "commit", "wait"),
)
CLASSIC_VERBS = ("enter", "rejoin", "rejoin", "sync", "sync", "beat", "leave", "commit", "wait")
WORLD_VERBS = ("topics", "restart", "hold", "release", "fail")
CONSUMERS, CLASSIC = ("X", "Y", "sX", "sY"), ("A", "B", "C", "sD", "sE")
"""Those that begin with s are static; each two of them share an instance id."""

TOPICS = (("orders",), ("orders", "payments"), ("payments",), ("missing",))


def actions(verbs: tuple[str, ...], names: tuple[str, ...]) -> Any:
    """What is done, by whom, and how."""
    verb = st.sampled_from((*verbs, *verbs, *WORLD_VERBS))
    return st.lists(st.tuples(verb, st.sampled_from(names), st.integers(0, 7)), max_size=50)


def play(world: ClassicWorld, action: tuple[str, str, int]) -> None:
    """Do one thing to the coordinator; members act on what it has of them, or nearly so."""
    verb, name, number = action
    group = world.shard.coordinator.groups_of(ConsumerGroup).get(GROUP)
    member = group.members.get(world.ids.get(name, name)) if group else None
    instance = "i" if name.startswith("s") else None
    assigned = frozenset(member.assigned) if member else frozenset()
    held = assigned | frozenset(member.pending_revocation) if member else frozenset()
    epoch = member.member_epoch if member else world.generation
    speaks_consumer = member is not None and epoch > 0 and not member.classic_metadata
    match verb:
        case "consume":
            world.join(name, *TOPICS[number % 4], instance_id=instance)
        case "ack" if speaks_consumer:
            world.heartbeat(name, epoch, owned=assigned, instance_id=instance)
        case "beat_on":
            owned = (None, held)[number % 2]
            world.heartbeat(name, epoch or 1, owned=owned, instance_id=instance)
        case "full" if speaks_consumer:
            names, owned = TOPICS[number % 4], (assigned, held)[number % 2]
            fields: dict[str, Any] = {"subscribed_topic_names": names, "instance_id": instance}
            world.heartbeat(name, epoch, owned=owned, rebalance_timeout_ms=20_000, **fields)
        case "old" if member and speaks_consumer:
            other = (member.previous_member_epoch, epoch - 1, epoch + 1)[number % 3]
            owned = (None, assigned, held)[number // 3]
            world.heartbeat(name, other, owned=owned, instance_id=instance)
        case "go":
            world.heartbeat(name, -1, instance_id=instance)
        case "go_for_a_while" if instance:
            world.heartbeat(name, -2, instance_id=instance)
        case "enter" | "rejoin":
            join(world, action, held if number % 3 else assigned, epoch)
        case "sync":
            classic = world.classic_or_none()
            ids = sorted(classic.members) if classic and number else []
            give = {i: tuple(range(4))[n :: len(ids)] for n, i in enumerate(ids)}
            world.sync_group(name, give, generation=epoch, instance=instance)
        case "beat":
            world.beat(name, generation=epoch - (number == 0), instance=instance)
        case "leave":
            world.leave_group(name, instance=instance)
        case "commit" if assigned or member is None:
            world.commit_offset(name, epoch - number // 6, partition=min(assigned, default=FIRST))
        case "wait":
            world.advance_to(world.now_ms + (1, 500, 1_500, 21_000)[number % 4])
        case "topics":
            world.update_image(_other_topics(world, number))
        case "restart":
            world.commits_at_once = True
            world.commit()
            world.restart()
        case "hold":
            world.commits_at_once = False
        case "release":
            world.commits_at_once = True
            world.commit()
        case "fail" if group is None:
            world.fail_writes()
    world.advance_to(world.now_ms)


def join(world: ClassicWorld, action: tuple[str, str, int], claims: Any, epoch: int) -> None:
    """A JoinGroup that claims to own these."""
    verb, name, number = action
    owned: dict[str, tuple[int, ...]] = {}
    for topic_id, partition in sorted(claims) if name in world.ids and number else ():
        topic = topic_id.removeprefix("id-")
        owned[topic] = (*owned.get(topic, ()), partition)
    fields: dict[str, Any] = {
        "instance": "i" if name.startswith("s") else None,
        "protocols": (("range",), ("range", "sticky"), ("sticky", "range"))[number % 3],
        "metadata": subscription(TOPICS[number % 2], owned, epoch),
        "rebalance_timeout_ms": (1_000, 60_000)[number // 4],
        "session_timeout_ms": (1_000, 4_000)[number % 2],
        "api_version": 9 if number < 6 else 5,
    }
    if verb == "enter":
        world.enter(name, member_id=None if number else "", **fields)
    else:
        world.join_group(name, **fields)


def _other_topics(world: ClassicWorld, number: int) -> MetadataImage:
    """``payments`` deleted, recreated under another id, or grown; the latter alone where there
    are classic members, who hold by name."""
    topic = world.image.by_name.get("payments")
    if topic is None or (number % 4 == 0 and not world.ids):
        again = Topic(topic_id=f"id-{world.image.version}", name="payments", partition_count=3)
        return world.image.with_topic(again)
    if number % 4 == 1 and not world.ids:
        return world.image.without_topic("payments")
    count = min(topic.partition_count + 1, 6)
    return world.image.with_topic(replace(topic, partition_count=count))


def satisfies(
    version: str, history: Any, *, known_issues: Any = KNOWN_ISSUES, **config: Any
) -> None:
    """Neither step by step nor in any full check is anything found that these known issues cannot
    be the reason of."""
    settings_of_broker = replace(CLASSIC_CONFIG, **config)
    world = ClassicWorld(version, config=settings_of_broker, known_issues=known_issues)
    world.after_step = world.checker.check_fully
    for action in history:
        play(world, action)
        assert not world.checker.violations, str(world.first)


VERSIONS = ("kafka-4.3", "kafka-4.1", "kip-848")


@pytest.mark.parametrize("version", (*VERSIONS, *(f"{version}-clean" for version in VERSIONS)))
@given(history=actions(CONSUMER_VERBS, CONSUMERS))
@settings(max_examples=150, deadline=None)
def test_a_correct_coordinator_of_consumer_groups_satisfies_every_property(version, history):
    """Of a group that may be full."""
    satisfies(
        version, history, group_consumer_max_size=3, group_consumer_assignment_interval_ms=1_000
    )


@pytest.mark.parametrize("delay_ms", [0, 500])
@given(history=actions(CLASSIC_VERBS, CLASSIC))
@settings(max_examples=150, deadline=None)
def test_a_correct_coordinator_of_classic_groups_satisfies_every_property(delay_ms, history):
    """Of a group that may be full; no known issue is an excuse."""
    satisfies(
        "kafka-4.3",
        history,
        known_issues={},
        group_max_size=4,
        group_initial_rebalance_delay_ms=delay_ms,
    )


@pytest.mark.parametrize("version", (*VERSIONS, "kafka-4.3-clean"))
@pytest.mark.parametrize("policy", ["bidirectional", "upgrade", "downgrade", "disabled"])
@given(
    history=actions((*CONSUMER_VERBS, *CLASSIC_VERBS), (*CONSUMERS, *CLASSIC[1:4])),
    interval_ms=st.sampled_from([0, 1_000]),
)
@settings(max_examples=30, deadline=None)
def test_a_correct_coordinator_of_mixed_groups_satisfies_every_property(
    version, policy, history, interval_ms
):
    """Under every policy, and in every version."""
    satisfies(
        version,
        history,
        group_consumer_migration_policy=policy,
        group_consumer_assignment_interval_ms=interval_ms,
    )
