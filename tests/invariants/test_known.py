"""What a shipped version is known for is told apart from a new breach, by its own signature."""

from __future__ import annotations

from dataclasses import replace

import pytest
from coordinator_world import CONFIG, CoordinatorWorld

from rebalance_sim.invariants.engine.discovery import INVARIANTS, LIVENESS
from rebalance_sim.invariants.known.known_issues import KNOWN_ISSUES, explain
from rebalance_sim.invariants.property import Finding
from rebalance_sim.protocol.versions.semantics import SEMANTICS


def lost_static_join(semantics) -> CoordinatorWorld:
    """The answer to a static join is lost, and the client repeats it."""
    world = CoordinatorWorld(semantics)
    world.join("a", instance_id="i")
    world.join("a", instance_id="i")
    return world


def full_group(semantics) -> CoordinatorWorld:
    """A static member leaves a full group for a while and returns under another id."""
    world = CoordinatorWorld(semantics, config=replace(CONFIG, group_consumer_max_size=1))
    world.join("a", instance_id="i")
    world.heartbeat("a", -2, instance_id="i")
    world.join("b", instance_id="i")
    return world


def fenced_rejoin(semantics) -> CoordinatorWorld:
    """A member that is past its first epoch joins again."""
    world = CoordinatorWorld(semantics)
    world.join("a")
    world.join("b")
    world.settle("a", "b")
    world.join("a")
    return world


def fenced_rejoin_without_instance(semantics) -> CoordinatorWorld:
    """A static member leaves for a while, and joins under its id as a dynamic one."""
    world = CoordinatorWorld(semantics)
    world.join("a", instance_id="i")
    world.heartbeat("a", -2, instance_id="i")
    world.join("a")
    return world


def dropped_topic(semantics) -> CoordinatorWorld:
    """A member that is revoking drops a topic in the same heartbeat."""
    world = CoordinatorWorld(semantics)
    world.join("a", "orders", "payments")
    world.join("b")
    epoch = world.group.members["a"].member_epoch
    world.heartbeat("a", epoch)
    held = world.group.members["a"]
    owned = frozenset(held.assigned) | frozenset(held.pending_revocation)
    world.heartbeat("a", epoch, owned=owned, subscribed_topic_names=("orders",))
    return world


@pytest.mark.parametrize(
    ("story", "defect", "version"),
    [
        (lost_static_join, "PR-23542", "kafka-4.3"),
        (lost_static_join, "PR-23542", "kafka-4.1"),
        (full_group, "KAFKA-20601", "kafka-4.3"),
        (full_group, "KAFKA-20601", "kafka-4.1"),
        (fenced_rejoin, "KAFKA-19233", "kafka-4.1"),
        (fenced_rejoin_without_instance, "KAFKA-19233", "kafka-4.1"),
        (dropped_topic, "KAFKA-19431", "kafka-4.1"),
    ],
)
def test_a_shipped_defect_is_known_in_its_version_and_news_where_it_was_switched_on(
    story, defect, version
):
    """The run goes on; nothing is unexplained. A sweep for that very defect must report it."""
    world = story(SEMANTICS[version])
    assert [v.known_as for v in world.checker.violations] == [defect]
    assert world.checker.unexplained == []
    assert not world.checker.is_stopped

    world = story(SEMANTICS[version].with_defects(defect))
    assert len(world.checker.unexplained) == 1


@pytest.mark.parametrize("story", [fenced_rejoin, dropped_topic])
def test_what_a_version_has_fixed_does_not_happen_there(story):
    """kafka-4.3 accepts the rejoin and gives the topic up."""
    assert story("kafka-4.3").checker.violations == []


def test_known_violations_are_counted_and_kept_once():
    """A client that is refused for ever must not fill the memory."""
    world = lost_static_join("kafka-4.3")
    for _ in range(5):
        world.join("a", instance_id="i")
    assert world.checker.known_counts["refusal.own_instance", "PR-23542"] == 6
    assert len(world.checker.violations) == 1


def explained(version: str, evidence: dict[str, object]) -> str | None:
    """The known issue that explains a refusal with this evidence."""
    found = explain(
        SEMANTICS[version], "refusal.own_instance", Finding("refused", evidence), step=7, at_ms=70
    )
    return found and found.issue


def test_another_code_at_the_same_property_is_not_known():
    """The signature is the defect's own; the property alone explains nothing."""
    evidence = {"code": "FENCED_INSTANCE_ID", "request_epoch": 4, "holder": "a", "member": "a"}
    assert explained("kafka-4.3", evidence) is None


def test_a_version_without_the_defect_has_no_excuse():
    """kip-848 is a text; of what brokers shipped with it knows nothing."""
    evidence = {"code": "UNRELEASED_INSTANCE_ID", "request_epoch": 0, "holder": "a", "member": "a"}
    assert explained("kip-848", evidence) is None
    assert explained("kafka-4.3", evidence) == "PR-23542"


def test_every_known_issue_belongs_to_a_property():
    """An entry for a property that is gone would never be asked."""
    assert {id_ for entry in KNOWN_ISSUES for id_ in entry.property_ids} <= {
        spec.id for spec in (*INVARIANTS, *LIVENESS)
    }
