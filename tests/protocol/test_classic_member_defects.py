"""Each defect of classic clients does its harm in a story, and no one else does it."""

from __future__ import annotations

import pytest
from classic_driver import ClassicStory

from rebalance_sim.protocol.classic.classic_states import ClassicGroupState
from rebalance_sim.protocol.clients import (
    CommitAnswered,
    CommitOffsets,
    SendCommit,
    SendJoinGroup,
    SendSyncGroup,
)
from rebalance_sim.protocol.clients.java.classic.classic_member_rules import ClassicMemberRules
from rebalance_sim.protocol.clients.java.classic.classic_member_states import ClassicState
from rebalance_sim.protocol.defects import DEFECTS
from rebalance_sim.protocol.versions.semantics import DEFAULT_SEMANTICS, SEMANTICS
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.offset_messages import OffsetCommitResponse

CLEAN = ClassicMemberRules
LOST = "onPartitionsLost"
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


def owned_after_an_outdated_commit_is_refused(rules: Rules) -> str:
    """A commit of the generation before is refused while the second JoinGroup of a cooperative
    member is parked."""
    story = ClassicStory(rules=rules, assignors=("cooperative-sticky",), enable_auto_commit=False)
    member = story.start("A")
    story.run_for(500)
    story.consume("A", 5)
    story.start("B")
    story.handle("A", CommitOffsets(commit_id=1, is_sync=False))
    process = story.processes["A"]
    commit = next(e for e in process.requests if isinstance(e, SendCommit))
    # Its answer is on its way until the generation is over.
    process.in_flight.discard(commit.correlation_id)
    joins = len(story.requests("A", SendJoinGroup))
    while len(story.requests("A", SendJoinGroup)) < joins + 2:
        story.run_for(1)
    assert member.classic_state is ClassicState.PREPARING_REBALANCE
    refused = OffsetCommitResponse(
        errors=dict.fromkeys(commit.request.offsets, ErrorCode.ILLEGAL_GENERATION)
    )
    story.handle("A", CommitAnswered(correlation_id=commit.correlation_id, response=refused))
    story.run_for(5_000)
    return " ".join(kind for kind, partitions in story.callbacks("A") if kind == LOST)


def test_librdkafka_4908_loses_everything_over_a_commit_of_the_generation_before() -> None:
    assert owned_after_an_outdated_commit_is_refused(CLEAN) == ""
    assert owned_after_an_outdated_commit_is_refused(rules_with("librdkafka-4908")) == LOST


@pytest.mark.parametrize("version", SEMANTICS)
@pytest.mark.parametrize("name", ["KAFKA-13214", "KAFKA-14196", "librdkafka-4908"])
def test_a_defect_is_one_switch_and_off_by_default(version: str, name: str) -> None:
    before = SEMANTICS[version]
    after = before.with_defects(name)
    assert not issubclass(before.rules(ClassicMemberRules), DEFECTS[name].rules[0])
    assert issubclass(after.rules(ClassicMemberRules), DEFECTS[name].rules[0])
    assert after.coordinator is before.coordinator
    assert after.member is before.member
