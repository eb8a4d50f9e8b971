"""Each defect of classic clients does its harm in a story, and no one else does it."""

from __future__ import annotations

import pytest
from classic_driver import ClassicStory

from rebalance_sim.protocol.classic.classic_states import ClassicGroupState
from rebalance_sim.protocol.clients.common.effects import SendCommit, SendSyncGroup
from rebalance_sim.protocol.clients.java.classic.classic_member_rules import ClassicMemberRules
from rebalance_sim.protocol.defects import DEFECTS
from rebalance_sim.protocol.versions.semantics import DEFAULT_SEMANTICS, SEMANTICS

CLEAN = ClassicMemberRules
Rules = type[ClassicMemberRules]


def rules_with(name: str) -> Rules:
    return DEFAULT_SEMANTICS.with_defects(name).rules(ClassicMemberRules)


def ms_until_stable_after_a_lost_sync(rules: Rules) -> int:
    story = ClassicStory(rules=rules)
    story.start("A")
    story.run_for(2_000)
    story.lose("B", SendSyncGroup, what="response")
    story.start("B")
    began_ms = story.now_ms
    while story.group.state is not ClassicGroupState.STABLE or len(story.group.members) < 2:
        story.run_for(50)
    owned = story.owned()
    while sorted(" ".join(owned.values()).split()) != ["foo-0", "foo-1", "foo-2", "foo-3"]:
        story.run_for(50)
        owned = story.owned()
    return story.now_ms - began_ms


def test_kafka_13214_makes_the_group_wait_for_somebody_who_is_gone() -> None:
    assert ms_until_stable_after_a_lost_sync(CLEAN) < 5_000
    # The session of the id that was thrown away has to end first.
    assert ms_until_stable_after_a_lost_sync(rules_with("KAFKA-13214")) > 8_000


def fetchable_while_committing(rules: Rules) -> int:
    story = ClassicStory(rules=rules)
    story.start("A")
    story.run_for(500)
    story.consume("A", 5)
    story.start("B")
    while not story.requests("A", SendCommit):
        story.run_for(1)
    return len(story.member("A").fetchable)


def test_kafka_14196_hands_out_records_behind_the_committed_position() -> None:
    assert fetchable_while_committing(CLEAN) == 0
    assert fetchable_while_committing(rules_with("KAFKA-14196")) == 4


@pytest.mark.parametrize("version", SEMANTICS)
@pytest.mark.parametrize("name", ["KAFKA-13214", "KAFKA-14196"])
def test_a_defect_is_one_switch_and_off_by_default(version: str, name: str) -> None:
    before = SEMANTICS[version]
    after = before.with_defects(name)
    assert not issubclass(before.rules(ClassicMemberRules), DEFECTS[name].rules[0])
    assert issubclass(after.rules(ClassicMemberRules), DEFECTS[name].rules[0])
    assert after.coordinator is before.coordinator
    assert after.member is before.member
