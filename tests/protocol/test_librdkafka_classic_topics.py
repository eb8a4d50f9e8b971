"""What a classic librdkafka member makes of topics that come, go, and come again."""

from __future__ import annotations

import pytest
from manual_classic_member import Hand, metadata

from rebalance_sim.protocol.assignors.classic import LIBRDKAFKA_ASSIGNORS
from rebalance_sim.protocol.clients import (
    CallbackKind,
    CoordinatorConnected,
    OffsetFetchAnswered,
    PatternMatched,
    PositionsKnown,
    RequestMetadata,
    ResetPositions,
    SendCommit,
    SendJoinGroup,
    SendOffsetFetch,
    Subscribe,
)
from rebalance_sim.protocol.clients.java.classic import ClassicConsumerConfig
from rebalance_sim.protocol.clients.librdkafka import JoinState
from rebalance_sim.protocol.clients.librdkafka.classic import LibrdkafkaClassicMember
from rebalance_sim.protocol.wire.embedded import Assignment, NamedPartitions
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.offset_messages import OffsetFetchResponse
from rebalance_sim.protocol.wire.topics import TopicPartition

FOO = NamedPartitions("foo", (0, 1))
BAR = NamedPartitions("bar", (0, 1))
COOPERATIVE = "cooperative-sticky"


def of_topic(topic_id: str) -> set[TopicPartition]:
    """Both partitions of a topic."""
    return {TopicPartition(topic_id, number) for number in range(2)}


class LibrdkafkaHand(Hand):
    """See ``Hand``; the connection to the coordinator comes about at once."""

    assignors_by_name = LIBRDKAFKA_ASSIGNORS

    def make_member(self, config: ClassicConsumerConfig) -> LibrdkafkaClassicMember:
        return LibrdkafkaClassicMember(config=config, now_ms=0)

    def find(self, node_id: int = 0) -> None:
        super().find(node_id)
        self.tell(CoordinatorConnected())

    def gets(self, *named: NamedPartitions, generation_id: int = 5, name: str = "range") -> None:
        """The JoinGroup and the SyncGroup in flight are answered."""
        self.answer_join(
            generation_id=generation_id, protocol_name=name, leader="other", member_id="A"
        )
        self.answer_sync(assignment=Assignment(partitions=named))


def steady(assignor: str = "range", *named: NamedPartitions) -> LibrdkafkaHand:
    """A member of generation 5 that works on foo, or on what is named, and has positions."""
    given = named or (FOO,)
    known = {f"id-{one.topic}": one.topic for one in given}
    hand = LibrdkafkaHand(assignor, known_topics=known)
    hand.tell(Subscribe(topic_names=frozenset(known.values())))
    hand.joins()
    hand.gets(*given, name=assignor)
    hand.wait(0)
    assert hand.member.join_state is JoinState.STEADY
    answer_fetch(hand)
    hand.tell(PositionsKnown(positions=dict.fromkeys(hand.last(ResetPositions).partitions, 3)))
    assert hand.member.fetchable == frozenset(hand.member.assigned)
    return hand


def answer_fetch(hand: LibrdkafkaHand) -> None:
    fetch = hand.last(SendOffsetFetch)
    answer = OffsetFetchResponse(offsets={})
    hand.tell(OffsetFetchAnswered(correlation_id=fetch.correlation_id, response=answer))


def given_while_it_is_gone() -> LibrdkafkaHand:
    """Metadata lose the topic between JoinGroup and the assignment, which still has it."""
    hand = LibrdkafkaHand(known_topics={"id-1": "foo"}).joins()
    hand.tell(metadata({}))
    hand.gets(FOO)
    return hand


def test_what_is_given_of_a_topic_that_metadata_have_lost_stands_under_its_name() -> None:
    hand = given_while_it_is_gone()
    assert hand.member.target.partitions == of_topic("foo")
    assert hand.count(RequestMetadata) == 1
    assert hand.count(SendOffsetFetch) == 0


def test_it_has_its_new_id_by_the_end_of_a_callback_that_began_without() -> None:
    hand = given_while_it_is_gone()
    hand.tell(metadata({"id-2": "foo"}))
    hand.wait(0)
    assert hand.called_back() == [of_topic("foo")]
    assert set(hand.member.assigned) == of_topic("id-2")
    assert hand.last(SendOffsetFetch).request.partitions == of_topic("id-2")


@pytest.mark.parametrize("assignor", ["range", COOPERATIVE])
def test_a_topic_that_is_created_anew_begins_by_the_reset_policy(assignor: str) -> None:
    hand = steady(assignor)
    hand.tell(metadata({"id-2": "foo"}))
    assert set(hand.member.assigned) == of_topic("id-2")
    assert hand.last(ResetPositions).partitions == of_topic("id-2")
    assert hand.member.fetchable == frozenset()
    assert hand.member.join_state is JoinState.STEADY, "to it that is the same topic"
    hand.tell(PositionsKnown(positions=dict.fromkeys(of_topic("id-2"), 0)))
    assert hand.member.fetchable == of_topic("id-2")


def test_an_eager_member_gives_everything_up_when_a_topic_is_gone() -> None:
    hand = steady("range", BAR, FOO)
    hand.tell(metadata({"id-foo": "foo"}))
    hand.wait(1_000)
    assert hand.callbacks()[-1] is CallbackKind.REVOKED
    assert hand.called_back()[-1] == of_topic("id-bar") | of_topic("id-foo")
    assert hand.member.join_state is JoinState.WAIT_METADATA, "it asks once more for the topic"
    hand.tell(metadata({"id-foo": "foo"}))
    hand.wait(0)
    assert hand.last(SendJoinGroup).request.protocols[0].metadata.topics == ("foo",)


def test_a_cooperative_member_loses_what_is_gone_and_only_a_leader_joins_anew() -> None:
    hand = steady(COOPERATIVE, BAR, FOO)
    joins = hand.count(SendJoinGroup)
    hand.tell(metadata({"id-foo": "foo"}))
    hand.wait(1_000)
    assert hand.callbacks()[-1] is CallbackKind.LOST
    assert hand.called_back()[-1] == of_topic("id-bar")
    assert set(hand.member.assigned) == of_topic("id-foo")
    assert hand.count(SendCommit) == 0
    assert (hand.count(SendJoinGroup), hand.member.join_state) == (joins, JoinState.STEADY)


def test_a_pattern_is_what_it_matches_and_nothing_before_that_is_known() -> None:
    hand = LibrdkafkaHand(known_topics={"id-1": "foo", "id-2": "bar"})
    hand.tell(Subscribe(matches_locally=True))
    assert hand.count(RequestMetadata) == 1
    hand.wait(0)
    hand.find()
    hand.wait(2_000)
    assert hand.count(SendJoinGroup) == 0
    hand.tell(PatternMatched(topic_names=frozenset({"bar"})))
    hand.wait(0)
    assert hand.last(SendJoinGroup).request.protocols[0].metadata.topics == ("bar",)


def test_names_take_the_place_of_a_pattern_whatever_is_matched_later() -> None:
    hand = LibrdkafkaHand(known_topics={"id-1": "foo", "id-2": "bar"})
    hand.tell(Subscribe(matches_locally=True))
    hand.tell(Subscribe(topic_names=frozenset({"foo"})))
    hand.tell(PatternMatched(topic_names=frozenset({"bar"})))
    assert hand.member.subscribed_topic_names == {"foo"}


@pytest.mark.parametrize(
    ("code", "fields"),
    [
        (ErrorCode.MEMBER_ID_REQUIRED, {"member_id": "B"}),
        (ErrorCode.ILLEGAL_GENERATION, {}),
    ],
)
def test_a_cooperative_member_that_the_group_does_not_know_loses_all_before_it_joins(
    code: ErrorCode, fields: dict[str, str]
) -> None:
    hand = steady(COOPERATIVE)
    hand.member_rejoins()
    joins = hand.count(SendJoinGroup)
    hand.answer_join(error_code=code, **fields)
    assert hand.count(SendJoinGroup) == joins
    hand.wait(2_000)
    assert hand.callbacks()[-1] is CallbackKind.LOST
    assert not hand.member.assigned
    assert hand.last(SendJoinGroup).request.protocols[0].metadata.owned_partitions == ()


def test_a_cooperative_member_that_the_group_forgets_while_it_syncs_loses_all() -> None:
    hand = steady(COOPERATIVE)
    hand.member_rejoins()
    hand.answer_join(generation_id=6, protocol_name=COOPERATIVE, leader="other", member_id="A")
    hand.answer_sync(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
    hand.wait(2_000)
    assert hand.callbacks()[-1] is CallbackKind.LOST
    assert not hand.member.assigned
    assert hand.last(SendJoinGroup).request.member_id == ""


def test_a_cooperative_member_asks_for_another_id_with_all_that_it_has() -> None:
    """One with an instance id gets it at once, and is never told that it has lost anything."""
    hand = steady(COOPERATIVE)
    hand.member_rejoins()
    hand.answer_join(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
    hand.wait(1_000)
    request = hand.last(SendJoinGroup).request
    assert request.member_id == ""
    assert request.protocols[0].metadata.owned_partitions == (FOO,)
    assert set(hand.member.assigned) == of_topic("id-foo")
