"""As what topics stand in offset requests, and what a member does when an id is unknown.

The expectations were seen on kafka-clients 4.3.1 and Apache Kafka 4.3.1: a topic deleted, and one
created again under its name, beneath a running consumer.
"""

from __future__ import annotations

import pytest
from member_driver import Story, sent

from rebalance_sim.protocol.clients.common.effects import RequestMetadata
from rebalance_sim.protocol.clients.common.events import CommitOffsets, MetadataKnown
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.offset_messages import OffsetFetchResponse
from rebalance_sim.protocol.wire.topics import TopicPartition

P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


def stable(*, uses_topic_ids: bool | None) -> Story:
    """A member that owns P0 and P1, whose offsets it has asked for; the topic's id is its name."""
    story = Story(uses_topic_ids=uses_topic_ids)
    story.stabilise(0, 1, consumed=False)
    story.poll()
    return story


def commit(story: Story) -> None:
    story.handle(CommitOffsets(commit_id=len(story.commits), offsets={P0: 7}, is_sync=True))


def wire(story: Story) -> tuple[int, dict[str, str]]:
    request = story.commits[-1].request
    return request.api_version, dict(request.wire_topics)


@pytest.mark.parametrize(
    ("uses_topic_ids", "expected"),
    [(True, (10, {})), (False, (9, {"orders": "orders"})), (None, (9, {}))],
)
def test_what_stands_in_a_request(
    uses_topic_ids: bool | None, expected: tuple[int, dict[str, str]]
) -> None:
    story = stable(uses_topic_ids=uses_topic_ids)
    commit(story)
    assert wire(story) == expected
    fetch = story.fetches[-1].request
    assert (fetch.api_version, dict(fetch.wire_topics)) == expected


def test_a_topic_that_the_metadata_have_no_id_of_is_named() -> None:
    story = stable(uses_topic_ids=True)
    story.handle(MetadataKnown(topic_names={"payments": "payments"}))
    commit(story)
    assert wire(story) == (9, {"orders": "orders"})


def test_a_topic_that_has_another_id_by_now_is_committed_under_that() -> None:
    """Positions belong to names: what was reached in the old topic goes to the new one."""
    story = stable(uses_topic_ids=True)
    story.handle(MetadataKnown(topic_names={"orders:2": "orders"}))
    commit(story)
    assert wire(story) == (10, {"orders": "orders:2"})
    assert dict(story.commits[-1].request.offsets) == {P0: 7}


def test_an_unknown_id_is_tried_again_with_newer_metadata() -> None:
    story = stable(uses_topic_ids=True)
    commit(story)
    effects = story.answer_commit(ErrorCode.UNKNOWN_TOPIC_ID)
    assert any(isinstance(effect, RequestMetadata) for effect in effects)
    story.handle(MetadataKnown(topic_names={"payments": "payments"}))
    story.wait(200)
    assert wire(story) == (9, {"orders": "orders"})
    assert len(story.commits) == 2


def test_a_fetch_of_an_unknown_id_is_tried_again_with_newer_metadata() -> None:
    story = stable(uses_topic_ids=True)
    assert [fetch.request.api_version for fetch in story.fetches] == [10]
    effects = story.answer_fetch(OffsetFetchResponse(errors={P0: ErrorCode.UNKNOWN_TOPIC_ID}))
    assert "RequestMetadata" in [type(effect).__name__ for effect in effects]
    story.handle(MetadataKnown(topic_names={"orders:2": "orders"}))
    assert sent(story.wait(200)) == ["SendOffsetFetch"]
    assert dict(story.fetches[-1].request.wire_topics) == {"orders": "orders:2"}
