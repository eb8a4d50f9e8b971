"""OffsetCommit, OffsetFetch and OffsetDelete."""

from __future__ import annotations

from typing import Any

from rebalance_sim.conformance.codec import Message
from rebalance_sim.gateway.call import Call
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.offset_messages import (
    NO_LEADER_EPOCH,
    NO_MEMBER_EPOCH,
    NO_OFFSET,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from rebalance_sim.protocol.wire.topics import TopicPartition

_FIRST_FETCH_WITH_ERROR = 2
_FIRST_FETCH_OF_SEVERAL = 8
_OF_PARTITIONS = (ErrorCode.UNSTABLE_OFFSET_COMMIT,)
"""Errors that brokers give to partitions, and not to a group."""


class Named:
    """How the topics of one request stand on the wire, and in the core."""

    def __init__(self, call: Call) -> None:
        self._topics = call.site.topics
        self.wire_topics: dict[str, str] = {}

    def partition(self, row: Message, number: int) -> TopicPartition:
        """A partition of the topic of this row."""
        if "topic_id" in row:
            return TopicPartition(self._topics.topic_id(row["topic_id"]), number)
        name = row["name"]
        held = self._topics.by_name.get(name)
        topic_id = name if held is None else held.topic.topic_id
        self.wire_topics[topic_id] = name
        return TopicPartition(topic_id, number)

    def row(self, topic_id: str) -> Message:
        """The topic in an answer."""
        name = self.wire_topics.get(topic_id) or topic_id.rpartition("#")[0] or topic_id
        return {"topic_id": self._topics.uuid_of(topic_id), "name": name}


async def offset_commit(call: Call) -> Message:
    """OffsetCommit. The group of a version without members is checked as that of no member."""
    said, named = call.message, Named(call)
    rows = [
        (topic, [(named.partition(topic, p["partition_index"]), p) for p in topic["partitions"]])
        for topic in said["topics"]
    ]
    flat = [pair for _, pairs in rows for pair in pairs]
    retention = said.get("retention_time", -1)
    answer: OffsetCommitResponse = await call.ask(
        OffsetCommitRequest(
            group_id=said["group_id"],
            member_id=said["member_id"],
            generation_id_or_member_epoch=said["generation_id_or_member_epoch"],
            group_instance_id=said.get("group_instance_id"),
            offsets={partition: p["committed_offset"] for partition, p in flat},
            metadata={
                partition: p["committed_metadata"]
                for partition, p in flat
                if p["committed_metadata"]
            },
            leader_epochs={
                partition: p["committed_leader_epoch"]
                for partition, p in flat
                if p.get("committed_leader_epoch", NO_LEADER_EPOCH) != NO_LEADER_EPOCH
            },
            api_version=call.version,
            wire_topics=named.wire_topics,
            retention_time_ms=None if retention < 0 else retention,
        )
    )
    return {
        "topics": [
            {key: topic[key] for key in ("name", "topic_id") if key in topic}
            | {
                "partitions": [
                    {"partition_index": number, "error_code": answer.errors[partition]}
                    for partition, _ in pairs
                    for number in (partition.partition,)
                ]
            }
            for topic, pairs in rows
        ]
    }


async def offset_fetch(call: Call) -> Message:
    """OffsetFetch: of one group, from version 8 on of several."""
    said = call.message
    if call.version < _FIRST_FETCH_OF_SEVERAL:
        return await _fetch(call, said, said.get("require_stable", False))
    groups = [await _fetch(call, row, said["require_stable"]) for row in said["groups"]]
    return {"groups": groups}


async def _fetch(call: Call, said: Message, require_stable: bool) -> Message:
    named = Named(call)
    topics = said["topics"]
    asked = None
    if topics is not None:
        asked = frozenset(
            named.partition(topic, number)
            for topic in topics
            for number in topic["partition_indexes"]
        )
    answer: OffsetFetchResponse = await call.ask(
        OffsetFetchRequest(
            group_id=said["group_id"],
            partitions=asked,
            member_id=said.get("member_id"),
            member_epoch=said.get("member_epoch", NO_MEMBER_EPOCH),
            require_stable=require_stable,
            api_version=call.version,
            wire_topics=named.wire_topics,
        )
    )
    code = of_partitions = answer.error_code
    shown = {*answer.offsets, *answer.errors}
    if code and (code in _OF_PARTITIONS or call.version < _FIRST_FETCH_WITH_ERROR):
        shown, code = set(asked or ()), ErrorCode.NONE
    by_topic: dict[str, list[Any]] = {}
    for partition in sorted(shown):
        by_topic.setdefault(partition.topic_id, []).append(
            {
                "partition_index": partition.partition,
                "committed_offset": answer.offsets.get(partition, NO_OFFSET),
                "committed_leader_epoch": answer.leader_epochs.get(partition, NO_LEADER_EPOCH),
                "metadata": answer.metadata.get(partition, ""),
                "error_code": answer.errors.get(partition, of_partitions),
            }
        )
    return {
        "group_id": said["group_id"],
        "error_code": code,
        "topics": [
            named.row(topic_id) | {"partitions": partitions}
            for topic_id, partitions in by_topic.items()
        ],
    }


async def offset_delete(call: Call) -> Message:
    """OffsetDelete."""
    said, named = call.message, Named(call)
    rows = [
        (topic, [named.partition(topic, p["partition_index"]) for p in topic["partitions"]])
        for topic in said["topics"]
    ]
    answer = await call.ask(
        OffsetDeleteRequest(
            group_id=said["group_id"],
            partitions=frozenset(partition for _, partitions in rows for partition in partitions),
            wire_topics=named.wire_topics,
        )
    )
    if answer.error_code:
        return {"error_code": answer.error_code}
    return {
        "error_code": answer.error_code,
        "topics": [
            {
                "name": topic["name"],
                "partitions": [
                    {"partition_index": one.partition, "error_code": answer.errors[one]}
                    for one in partitions
                ],
            }
            for topic, partitions in rows
        ],
    }
