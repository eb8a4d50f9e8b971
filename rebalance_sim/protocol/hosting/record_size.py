"""About how many bytes a record, and a batch of them, takes in the log.

Lengths of Kafka's encoding of keys and values (coordinator §9.1), near enough for the question
whether a batch is full: strings and lists with their lengths, numbers of fixed width, topic ids of
16 bytes.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from rebalance_sim.protocol.wire.classic_records import ClassicMemberValue
from rebalance_sim.protocol.wire.embedded import Assignment, NamedPartitions, Subscription
from rebalance_sim.protocol.wire.records import (
    ConsumerGroupCurrentMemberAssignment,
    ConsumerGroupMemberMetadata,
    ConsumerGroupRegularExpression,
    ConsumerGroupTargetAssignmentMember,
    GroupMetadata,
    OffsetCommit,
    Record,
    TransactionMetadata,
    TxnOffsetCommit,
)
from rebalance_sim.protocol.wire.topics import TopicPartition

_BATCH_HEAD = 61
_RECORD_HEAD = 10
"""Length, attributes, deltas of time and offset, lengths of key and value; most are varints."""
_VERSION = 2
_TOPIC_ID = 16


def batch_bytes(records_bytes: int) -> int:
    """A batch whose records take this much."""
    return _BATCH_HEAD + records_bytes


def record_bytes(record: Record) -> int:
    """One record, with its key."""
    size = _RECORD_HEAD + _VERSION + _text(record.group_id)
    match record:
        case OffsetCommit():
            size += _text(record.topic) + 4
            if record.value is not None:
                size += _VERSION + 8 + 4 + _text(record.value.metadata) + 8 + _TOPIC_ID
        case TxnOffsetCommit():
            size += _text(record.topic) + 4
            size += _VERSION + 8 + 4 + _text(record.value.metadata) + 8 + _TOPIC_ID
        case TransactionMetadata():
            size += _text(record.transactional_id) + _VERSION + 8 + 2 + 4 + 1 + 8 + 8
        case ConsumerGroupCurrentMemberAssignment():
            size += _text(record.member_id)
            if record.value is not None:
                value = record.value
                # An assignment epoch beside each partition.
                size += _VERSION + 9 + _partitions(value.assigned, 8)
                size += _partitions(value.pending_revocation, 8)
        case ConsumerGroupTargetAssignmentMember():
            size += _text(record.member_id)
            if record.value is not None:
                size += _VERSION + _partitions(record.value, 4)
        case ConsumerGroupMemberMetadata():
            size += _text(record.member_id)
            if record.value is not None:
                meta = record.value
                texts = (
                    meta.instance_id,
                    meta.rack_id,
                    meta.client_id,
                    meta.client_host,
                    meta.subscribed_topic_regex,
                    meta.server_assignor,
                    *meta.subscribed_topic_names,
                )
                size += _VERSION + 4 + sum(_text(text or "") for text in texts)
        case GroupMetadata():
            if record.value is not None:
                group = record.value
                names = (group.protocol_type, group.protocol or "", group.leader or "")
                size += _VERSION + 4 + 8 + 4 + sum(map(_text, names))
                size += sum(map(_classic_member, group.members))
        case ConsumerGroupRegularExpression():
            size += _text(record.regular_expression)
            if record.value is not None:
                size += _VERSION + 8 + sum(map(_text, record.value.topics))
        case _:
            size += _VERSION + 12  # Epochs, hashes, timestamps.
    return size


def _classic_member(member: ClassicMemberValue) -> int:
    """A member of a classic group, with its subscription and its assignment in their own
    encoding (classic §1.7, §8.1)."""
    texts = (member.member_id, member.group_instance_id, member.client_id, member.client_host)
    size = 8 + sum(_text(text or "") for text in texts)
    for embedded in (member.subscription, member.assignment):
        size += 4
        match embedded:
            case bytes():
                size += len(embedded)
            case Subscription():
                size += _VERSION + 4 + sum(map(_text, embedded.topics)) + 4
                size += _named(embedded.owned_partitions) + 4 + _text(embedded.rack_id or "")
            case Assignment():
                size += _VERSION + _named(embedded.partitions) + 4
    return size


def _named(topics: Iterable[NamedPartitions]) -> int:
    return 4 + sum(_text(topic) + 4 + 4 * len(partitions) for topic, partitions in topics)


@lru_cache(maxsize=1024)
def _text(text: str) -> int:
    return 2 + len(text.encode())


def _partitions(partitions: Iterable[TopicPartition], bytes_each: int) -> int:
    listed = list(partitions)
    topics = {partition.topic_id for partition in listed}
    return 4 + len(topics) * (_TOPIC_ID + 4) + len(listed) * bytes_each
