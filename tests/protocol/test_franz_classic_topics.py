"""What a classic franz-go member makes of partitions whose topic its metadata do not have yet."""

from __future__ import annotations

import pytest
from manual_classic_member import Driver, metadata

from rebalance_sim.protocol.assignors.classic import FRANZ_ASSIGNORS
from rebalance_sim.protocol.clients.common.classic_config import ClassicConsumerConfig
from rebalance_sim.protocol.clients.common.effects import (
    ResetPositions,
    SendOffsetFetch,
    ValidatePositions,
)
from rebalance_sim.protocol.clients.common.events import (
    OffsetFetchAnswered,
    PositionsKnown,
)
from rebalance_sim.protocol.clients.franz.classic.franz_classic import FranzClassicMember
from rebalance_sim.protocol.wire.embedded import Assignment, NamedPartitions
from rebalance_sim.protocol.wire.offset_messages import NO_OFFSET, OffsetFetchResponse
from rebalance_sim.protocol.wire.topics import TopicPartition

COOPERATIVE = "cooperative-sticky"


def of_topic(topic_id: str) -> frozenset[TopicPartition]:
    """Both partitions of a topic."""
    return frozenset(TopicPartition(topic_id, number) for number in range(2))


class FranzDriver(Driver):
    """See ``Driver``."""

    assignors_by_name = FRANZ_ASSIGNORS

    def make_member(self, config: ClassicConsumerConfig) -> FranzClassicMember:
        return FranzClassicMember(config=config, now_ms=0)

    def fetched(self) -> SendOffsetFetch:
        """The newest request for committed offsets."""
        fetch = self.last(SendOffsetFetch)
        assert isinstance(fetch, SendOffsetFetch)
        return fetch

    def answer_fetch(self, fetch: SendOffsetFetch, offset: int) -> None:
        """All that it asks for is committed there."""
        asked = fetch.request.partitions or ()
        response = OffsetFetchResponse(offsets=dict.fromkeys(sorted(asked), offset))
        event = OffsetFetchAnswered(correlation_id=fetch.correlation_id, response=response)
        self.handle(event)


def given_while_it_is_gone(assignor: str) -> FranzDriver:
    """Metadata lose the topic between JoinGroup and the assignment, which still has it."""
    driver = FranzDriver(assignor, known_topics={"id-1": "foo"})
    driver.handle(metadata({"id-1": "foo"}))  # which it has asked for as it subscribed
    driver.joins()
    driver.handle(metadata({}))
    driver.answer_join(generation_id=5, protocol_name=assignor, leader="other", member_id="A")
    driver.answer_sync(assignment=Assignment(partitions=(NamedPartitions("foo", (0, 1)),)))
    driver.wait(0)
    assert driver.member.assigned.keys() == of_topic("foo")
    return driver


def assert_starts_at(driver: FranzDriver, offset: int) -> None:
    """The offsets in flight are those of the new id, and consuming starts there."""
    assert driver.fetched().request.partitions == of_topic("id-2")
    driver.answer_fetch(driver.fetched(), offset)
    assert driver.last(ValidatePositions).positions.keys() == of_topic("id-2")
    driver.handle(PositionsKnown(positions=dict.fromkeys(of_topic("id-2"), offset)))
    assert driver.member.fetchable == of_topic("id-2")
    assert {state.position for state in driver.member.assigned.values()} == {offset}


@pytest.mark.parametrize("assignor", ["range", COOPERATIVE])
def test_who_has_asked_for_a_position_by_name_asks_again_when_the_id_is_known(
    assignor: str,
) -> None:
    driver = given_while_it_is_gone(assignor)
    driver.answer_fetch(driver.fetched(), NO_OFFSET)
    assert driver.last(ResetPositions).partitions == of_topic("foo")
    driver.handle(metadata({"id-2": "foo"}))
    driver.handle(PositionsKnown(positions={}))
    assert_starts_at(driver, 7)


@pytest.mark.parametrize("assignor", ["range", COOPERATIVE])
def test_an_answer_by_name_says_nothing_of_the_topic_that_has_an_id_by_now(assignor: str) -> None:
    driver = given_while_it_is_gone(assignor)
    by_name = driver.fetched()
    driver.handle(metadata({"id-2": "foo"}))
    driver.answer_fetch(by_name, NO_OFFSET)
    assert driver.count(ResetPositions) == 0, "what is committed is not skipped"
    assert_starts_at(driver, 7)


def test_an_id_that_is_known_while_the_group_rebalances_is_asked_for_after_that() -> None:
    driver = given_while_it_is_gone(COOPERATIVE)
    driver.answer_fetch(driver.fetched(), NO_OFFSET)
    driver.member_rejoins()
    count = driver.count(SendOffsetFetch)
    driver.handle(metadata({"id-2": "foo"}))
    assert driver.count(SendOffsetFetch) == count
    driver.answer_join(generation_id=6, protocol_name=COOPERATIVE, leader="other", member_id="A")
    driver.answer_sync(assignment=Assignment(partitions=(NamedPartitions("foo", (0, 1)),)))
    driver.wait(0)
    assert_starts_at(driver, 7)
