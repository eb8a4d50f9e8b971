"""What a shipped version is known to violate is suspected of its known issues, and nothing else."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from coordinator_world import CONFIG, CoordinatorWorld

from rebalance_sim.invariants.engine.discovery import INVARIANTS, LIVENESS
from rebalance_sim.invariants.known.known_issues import (
    KNOWN_ISSUES,
    every_issue,
    page_of,
    suspects_of,
)
from rebalance_sim.protocol.defects import DEFECTS
from rebalance_sim.protocol.versions.semantics import SEMANTICS
from rebalance_sim.protocol.versions.shared_defects import EVERY_VERSION

ROOT = Path(__file__).parents[2]


def world_of(story, semantics, known_issues=KNOWN_ISSUES) -> CoordinatorWorld:
    """The story is told in it; a group has one member at most where a story fills it."""
    config = replace(CONFIG, group_consumer_max_size=1) if story is full_group else CONFIG
    world = CoordinatorWorld(semantics, config=config, known_issues=known_issues)
    story(world)
    return world


def lost_static_join(world: CoordinatorWorld) -> None:
    """The answer to a static join is lost, and the client repeats it."""
    world.join("a", instance_id="i")
    world.join("a", instance_id="i")


def full_group(world: CoordinatorWorld) -> None:
    """A static member leaves a full group for a while and returns under another id."""
    world.join("a", instance_id="i")
    world.heartbeat("a", -2, instance_id="i")
    world.join("b", instance_id="i")


def fenced_rejoin(world: CoordinatorWorld) -> None:
    """A member that is past its first epoch joins again."""
    world.join("a")
    world.join("b")
    world.settle("a", "b")
    world.join("a")


def fenced_rejoin_without_instance(world: CoordinatorWorld) -> None:
    """A static member leaves for a while, and joins under its id as a dynamic one."""
    world.join("a", instance_id="i")
    world.heartbeat("a", -2, instance_id="i")
    world.join("a")


def dropped_topic(world: CoordinatorWorld) -> None:
    """A member that is revoking drops a topic in the same heartbeat."""
    world.join("a", "orders", "payments")
    world.join("b")
    epoch = world.group.members["a"].member_epoch
    world.heartbeat("a", epoch)
    held = world.group.members["a"]
    owned = frozenset(held.assigned) | frozenset(held.pending_revocation)
    world.heartbeat("a", epoch, owned=owned, subscribed_topic_names=("orders",))


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
def test_a_shipped_defect_is_suspected_in_its_version_and_news_where_it_was_switched_on(
    story, defect, version
):
    """The run continues. A sweep for that very defect must report it."""
    world = world_of(story, SEMANTICS[version])
    ((violation, times),) = world.checker.suspected
    assert defect in violation.suspects and times == 1
    assert world.checker.violations == [] and not world.checker.is_stopped

    semantics = SEMANTICS[version].with_defects(defect)
    world = world_of(story, semantics, {defect: KNOWN_ISSUES[defect]})
    assert [one.property for one in world.checker.violations] == [violation.property]


@pytest.mark.parametrize("story", [fenced_rejoin, dropped_topic])
def test_what_a_version_has_fixed_does_not_happen_there(story):
    """kafka-4.3 accepts the rejoin and gives the topic up."""
    checker = world_of(story, "kafka-4.3").checker
    assert checker.violations == [] and checker.suspected == []


def test_suspected_violations_are_counted_and_kept_once():
    """A client that is refused for ever must not fill the memory."""
    world = world_of(lost_static_join, "kafka-4.3")
    for _ in range(5):
        world.join("a", instance_id="i")
    ((violation, times),) = world.checker.suspected
    assert (violation.property.id, violation.subject, times) == ("refusal.cause", "member a", 6)


def test_a_version_without_the_defect_has_no_excuse():
    """kip-848 is a text; of what brokers shipped with it knows nothing."""
    assert "refusal.cause" not in suspects_of(SEMANTICS["kip-848"])
    assert suspects_of(SEMANTICS["kafka-4.3"])["refusal.cause"] == ("KAFKA-20601", "PR-23542")
    repaired = SEMANTICS["kafka-4.3"].without("PR-23542")
    assert suspects_of(repaired)["refusal.cause"] == ("KAFKA-20601",)
    assert suspects_of(SEMANTICS["kafka-4.3-clean"]) == {}


def test_without_known_issues_everything_is_a_violation():
    world = world_of(lost_static_join, "kafka-4.3", {})
    assert world.violated == ["refusal.cause"]
    assert world.checker.suspected == []


def test_every_known_issue_belongs_to_a_property():
    """An entry for a property that is gone would never be asked."""
    assert {id_ for ids in KNOWN_ISSUES.values() for id_ in ids} <= {
        spec.id for spec in (*INVARIANTS, *LIVENESS)
    }


def test_every_issue_is_one_of_some_version_and_has_a_repair():
    """What could not be repaired could not be held against a run without it."""
    versions = [one for name, one in SEMANTICS.items() if not name.endswith("-clean")]
    shipped = {issue for semantics in versions for issue in semantics.shipped_defects}
    assert KNOWN_ISSUES.keys() <= shipped <= DEFECTS.keys()
    for semantics in versions:
        assert set(EVERY_VERSION) <= set(semantics.shipped_defects)
        assert all(semantics.can_repair(issue) for issue in semantics.shipped_defects)
        assert SEMANTICS[f"{semantics.name}-clean"].shipped_defects == ()


def anchors(page: Path) -> set[str]:
    """What the headings of a page can be linked by."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


@pytest.mark.parametrize("issue", sorted(every_issue()))
def test_an_issue_has_a_title_and_a_section(issue: str) -> None:
    title, page = page_of(issue)
    assert title and title != issue
    file, _, anchor = page.partition("#")
    assert anchor in anchors(ROOT / file)
