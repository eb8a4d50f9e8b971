"""What a classic librdkafka member makes of topics that come, go, and come again."""

from __future__ import annotations

from dataclasses import replace

import pytest
from manual_classic_member import Driver, metadata

from rebalance_sim.protocol.assignors.classic import LIBRDKAFKA_ASSIGNORS
from rebalance_sim.protocol.clients.common.classic_config import ClassicConsumerConfig
from rebalance_sim.protocol.clients.common.effects import (
    RequestMetadata,
    ResetPositions,
    SendCommit,
    SendJoinGroup,
    SendOffsetFetch,
)
from rebalance_sim.protocol.clients.common.events import (
    CoordinatorConnected,
    MetadataKnown,
    OffsetFetchAnswered,
    PatternMatched,
    PositionsKnown,
    Subscribe,
)
from rebalance_sim.protocol.clients.common.values import CallbackKind
from rebalance_sim.protocol.clients.librdkafka.classic.librdkafka_classic import (
    LibrdkafkaClassicMember,
)
from rebalance_sim.protocol.clients.librdkafka.librdkafka_rules import LibrdkafkaRules
from rebalance_sim.protocol.clients.librdkafka.librdkafka_states import JoinState
from rebalance_sim.protocol.versions.semantics import DEFAULT_SEMANTICS, SEMANTICS
from rebalance_sim.protocol.wire.classic_messages import JoinGroupResponseMember
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


class LibrdkafkaDriver(Driver):
    """See ``Hand``; the connection to the coordinator is established at once."""

    assignors_by_name = LIBRDKAFKA_ASSIGNORS

    def make_member(self, config: ClassicConsumerConfig) -> LibrdkafkaClassicMember:
        return LibrdkafkaClassicMember(
            config=config, rules=DEFAULT_SEMANTICS.rules(LibrdkafkaRules), now_ms=0
        )

    def find(self, node_id: int = 0) -> None:
        super().find(node_id)
        self.handle(CoordinatorConnected())

    def gets(self, *named: NamedPartitions, generation_id: int = 5, name: str = "range") -> None:
        """The JoinGroup and the SyncGroup in flight are answered."""
        self.answer_join(
            generation_id=generation_id, protocol_name=name, leader="other", member_id="A"
        )
        self.answer_sync(assignment=Assignment(partitions=named))


class CleanDriver(LibrdkafkaDriver):
    """The same without known issues."""

    def make_member(self, config: ClassicConsumerConfig) -> LibrdkafkaClassicMember:
        rules = SEMANTICS["kafka-4.3-clean"].rules(LibrdkafkaRules)
        return LibrdkafkaClassicMember(config=config, rules=rules, now_ms=0)


def steady(assignor: str = "range", *named: NamedPartitions) -> LibrdkafkaDriver:
    """A member of generation 5 that works on foo, or on what is named, and has positions."""
    given = named or (FOO,)
    known = {f"id-{one.topic}": one.topic for one in given}
    driver = LibrdkafkaDriver(assignor, known_topics=known)
    driver.handle(Subscribe(topic_names=frozenset(known.values())))
    driver.joins()
    driver.gets(*given, name=assignor)
    driver.wait(0)
    assert driver.member.join_state is JoinState.STEADY
    answer_fetch(driver)
    driver.handle(
        PositionsKnown(positions=dict.fromkeys(driver.last(ResetPositions).partitions, 3))
    )
    assert driver.member.fetchable == frozenset(driver.member.assigned)
    return driver


def answer_fetch(driver: LibrdkafkaDriver) -> None:
    fetch = driver.last(SendOffsetFetch)
    answer = OffsetFetchResponse(offsets={})
    driver.handle(OffsetFetchAnswered(correlation_id=fetch.correlation_id, response=answer))


def given_while_it_is_gone() -> LibrdkafkaDriver:
    """Metadata lose the topic between JoinGroup and the assignment, which still has it."""
    driver = LibrdkafkaDriver(known_topics={"id-1": "foo"}).joins()
    driver.handle(metadata({}))
    driver.gets(FOO)
    return driver


def test_what_is_given_of_a_topic_that_metadata_have_lost_stands_under_its_name() -> None:
    driver = given_while_it_is_gone()
    assert driver.member.target.partitions == of_topic("foo")
    assert driver.count(RequestMetadata) == 1
    assert driver.count(SendOffsetFetch) == 0


def test_it_has_its_new_id_by_the_end_of_a_callback_that_began_without() -> None:
    driver = given_while_it_is_gone()
    driver.handle(metadata({"id-2": "foo"}))
    driver.wait(0)
    assert driver.called_back() == [of_topic("foo")]
    assert set(driver.member.assigned) == of_topic("id-2")
    assert driver.last(SendOffsetFetch).request.partitions == of_topic("id-2")


@pytest.mark.parametrize("assignor", ["range", COOPERATIVE])
def test_a_topic_that_is_created_anew_begins_by_the_reset_policy(assignor: str) -> None:
    driver = steady(assignor)
    driver.handle(metadata({"id-2": "foo"}))
    assert set(driver.member.assigned) == of_topic("id-2")
    assert {driver.last(ResetPositions).partitions} == {frozenset(of_topic("id-2"))}
    assert driver.member.fetchable == frozenset()
    assert driver.member.join_state is JoinState.STEADY, "to it that is the same topic"
    driver.handle(PositionsKnown(positions=dict.fromkeys(of_topic("id-2"), 0)))
    assert driver.member.fetchable == of_topic("id-2")


def test_an_eager_member_gives_everything_up_when_a_topic_is_gone() -> None:
    driver = steady("range", BAR, FOO)
    driver.handle(metadata({"id-foo": "foo"}))
    driver.wait(1_000)
    assert driver.callbacks()[-1] is CallbackKind.REVOKED
    assert driver.called_back()[-1] == of_topic("id-bar") | of_topic("id-foo")
    assert driver.member.join_state is JoinState.WAIT_METADATA, "it asks once more for the topic"
    driver.handle(metadata({"id-foo": "foo"}))
    driver.wait(0)
    assert driver.last(SendJoinGroup).request.protocols[0].metadata.topics == ("foo",)


def test_a_cooperative_member_loses_what_is_gone_and_only_a_leader_joins_anew() -> None:
    driver = steady(COOPERATIVE, BAR, FOO)
    joins = driver.count(SendJoinGroup)
    driver.handle(metadata({"id-foo": "foo"}))
    driver.wait(1_000)
    assert driver.callbacks()[-1] is CallbackKind.LOST
    assert driver.called_back()[-1] == of_topic("id-bar")
    assert set(driver.member.assigned) == of_topic("id-foo")
    assert driver.count(SendCommit) == 0
    assert (driver.count(SendJoinGroup), driver.member.join_state) == (joins, JoinState.STEADY)


def test_a_pattern_is_what_it_matches_and_nothing_before_that_is_known() -> None:
    driver = LibrdkafkaDriver(known_topics={"id-1": "foo", "id-2": "bar"})
    driver.handle(Subscribe(matches_locally=True))
    assert driver.count(RequestMetadata) == 1
    driver.wait(0)
    driver.find()
    driver.wait(2_000)
    assert driver.count(SendJoinGroup) == 0
    driver.handle(PatternMatched(topic_names=frozenset({"bar"})))
    driver.wait(0)
    assert driver.last(SendJoinGroup).request.protocols[0].metadata.topics == ("bar",)


def test_names_take_the_place_of_a_pattern_whatever_is_matched_later() -> None:
    driver = LibrdkafkaDriver(known_topics={"id-1": "foo", "id-2": "bar"})
    driver.handle(Subscribe(matches_locally=True))
    driver.handle(Subscribe(topic_names=frozenset({"foo"})))
    driver.handle(PatternMatched(topic_names=frozenset({"bar"})))
    assert driver.member.subscribed_topic_names == {"foo"}


@pytest.mark.parametrize(
    ("has_issue", "leads", "joins_again"),
    [(False, True, True), (True, True, False), (False, False, False)],
)
def test_a_leader_that_watches_all_topics_joins_when_that_of_another_grows(
    has_issue: bool, leads: bool, joins_again: bool
) -> None:
    """Without librdkafka-4533, once; a follower looks at its own topics in any case."""
    topics = {"id-foo": "foo", "id-bar": "bar"}
    driver = (LibrdkafkaDriver if has_issue else CleanDriver)(known_topics=topics)
    driver.joins()
    own = driver.last(SendJoinGroup).request.protocols[0].metadata
    others = replace(own, topics=("bar",))
    rows = (JoinGroupResponseMember("A", None, own), JoinGroupResponseMember("B", None, others))
    driver.answer_join(
        generation_id=5,
        protocol_name="range",
        leader="A" if leads else "B",
        member_id="A",
        members=rows if leads else (),
    )
    driver.handle(metadata(topics))
    driver.answer_sync(assignment=Assignment(partitions=(FOO,)))
    driver.wait(0)
    count = driver.count(SendJoinGroup)
    driver.handle(MetadataKnown(topic_names=topics, partition_counts={"foo": 2, "bar": 3}))
    driver.wait(1_000)
    assert driver.count(SendJoinGroup) - count == joins_again


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
    driver = steady(COOPERATIVE)
    driver.member_rejoins()
    joins = driver.count(SendJoinGroup)
    driver.answer_join(error_code=code, **fields)
    assert driver.count(SendJoinGroup) == joins
    driver.wait(2_000)
    assert driver.callbacks()[-1] is CallbackKind.LOST
    assert not driver.member.assigned
    assert driver.last(SendJoinGroup).request.protocols[0].metadata.owned_partitions == ()


def test_a_cooperative_member_that_the_group_forgets_while_it_syncs_loses_all() -> None:
    driver = steady(COOPERATIVE)
    driver.member_rejoins()
    driver.answer_join(generation_id=6, protocol_name=COOPERATIVE, leader="other", member_id="A")
    driver.answer_sync(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
    driver.wait(2_000)
    assert driver.callbacks()[-1] is CallbackKind.LOST
    assert not driver.member.assigned
    assert driver.last(SendJoinGroup).request.member_id == ""


def test_a_cooperative_member_asks_for_another_id_with_all_that_it_has() -> None:
    """One with an instance id gets it at once, and is never told that it has lost anything."""
    driver = steady(COOPERATIVE)
    driver.member_rejoins()
    driver.answer_join(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
    driver.wait(2_000)
    request = driver.last(SendJoinGroup).request
    assert request.member_id == ""
    assert request.protocols[0].metadata.owned_partitions == (FOO,)
    assert set(driver.member.assigned) == of_topic("id-foo")
