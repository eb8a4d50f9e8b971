"""What a classic member is assigned of topics that its metadata do not have, or not any more."""

from __future__ import annotations

from manual_classic_member import Driver, metadata

from rebalance_sim.protocol.clients.common.effects import (
    RequestMetadata,
    ResetPositions,
    RunCallback,
    SendCommit,
    SendJoinGroup,
    SendOffsetFetch,
    ValidatePositions,
)
from rebalance_sim.protocol.clients.common.events import OffsetFetchAnswered
from rebalance_sim.protocol.clients.common.member_states import ClientState
from rebalance_sim.protocol.wire.embedded import Assignment, NamedPartitions
from rebalance_sim.protocol.wire.offset_messages import OffsetFetchResponse
from rebalance_sim.protocol.wire.topics import TopicPartition

FOO = NamedPartitions("foo", (0, 1))
BY_NAME = {TopicPartition("foo", number) for number in range(2)}
BY_ID = {TopicPartition("id-1", number) for number in range(2)}


def with_an_unknown_topic(assignor: str = "range") -> Driver:
    """A member of generation 5 that was given a topic which its metadata do not have."""
    driver = Driver(assignor, known_topics={}).joins()
    driver.answer_join(generation_id=5, protocol_name=assignor, leader="other", member_id="A")
    driver.answer_sync(assignment=Assignment(partitions=(FOO,)))
    driver.wait(0)
    return driver


def test_a_member_takes_over_what_its_metadata_do_not_have_and_asks_for_more() -> None:
    driver = with_an_unknown_topic()
    assert driver.member.state is ClientState.STABLE
    assert set(driver.member.assigned) == BY_NAME
    assert driver.last(RunCallback).partitions == BY_NAME
    assert driver.count(RequestMetadata) == 1


def test_nothing_is_looked_up_fetched_or_committed_before_the_topic_is_known() -> None:
    driver = with_an_unknown_topic()
    driver.handle(metadata({"id-9": "other"}))
    driver.wait(20_000)
    assert driver.count(SendOffsetFetch) == 0
    assert driver.count(SendCommit) == 0
    assert driver.member.fetchable == frozenset()


def test_the_committed_offset_is_looked_up_when_the_topic_is_known() -> None:
    driver = with_an_unknown_topic()
    driver.handle(metadata({"id-1": "foo"}))
    driver.wait(0)
    assert set(driver.member.assigned) == BY_ID
    assert driver.count(ResetPositions) == 0, "nothing is known against what is committed"
    fetch = driver.last(SendOffsetFetch)
    offsets = dict.fromkeys(BY_ID, 7)
    answer = OffsetFetchResponse(offsets=offsets)
    driver.handle(OffsetFetchAnswered(correlation_id=fetch.correlation_id, response=answer))
    assert driver.last(ValidatePositions).positions == offsets
    assert driver.count(RunCallback) == 1, "the application has heard of it already"


def test_a_cooperative_member_says_that_it_owns_what_its_metadata_do_not_have() -> None:
    driver = with_an_unknown_topic("cooperative-sticky")
    driver.member_rejoins()
    (protocol,) = driver.last(SendJoinGroup).request.protocols
    assert protocol.metadata.owned_partitions == (FOO,)


def test_what_is_assigned_again_stays_the_same_when_metadata_have_lost_its_topic() -> None:
    driver = Driver("cooperative-sticky", known_topics={"id-1": "foo"}).joins()
    driver.answer_join(
        generation_id=5, protocol_name="cooperative-sticky", leader="other", member_id="A"
    )
    driver.answer_sync(assignment=Assignment(partitions=(FOO,)))
    driver.wait(0)
    driver.handle(metadata({}))
    driver.member_rejoins()
    driver.answer_join(
        generation_id=6, protocol_name="cooperative-sticky", leader="other", member_id="A"
    )
    driver.answer_sync(assignment=Assignment(partitions=(FOO,)))
    driver.wait(0)
    assert set(driver.member.assigned) == BY_ID
    assert [partitions for partitions in driver.called_back() if partitions] == [BY_ID]
