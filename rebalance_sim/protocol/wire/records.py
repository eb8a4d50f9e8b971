"""Records of the group log: the only way in which coordinator state changes.

Types 1 to 8 and 16 of coordinator §9.1. Each record class is one type; a tombstone is the same
class with ``value`` None. ``to_dict`` spells a record as the recorded broker traces do (topic ids
stay ids).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from enum import IntEnum
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from rebalance_sim.protocol.wire.assignment_messages import AssignmentMetadata, ClientAssignor
from rebalance_sim.protocol.wire.classic_messages import ClassicMemberMetadata
from rebalance_sim.protocol.wire.classic_records import ClassicGroupValue, classic_group_dict
from rebalance_sim.protocol.wire.topics import TopicPartition, group_by_topic
from rebalance_sim.protocol.wire.value import value

_Value = TypeVar("_Value")

VALUE_FIELDS = frozenset({"value", "metadata"})
"""Fields of a record that compaction does not look at; the type and all others are its key."""


class MemberState(IntEnum):
    """State byte of record 8 (coordinator §3.1)."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127


@value
class GroupMetadataValue:
    """``metadata_hash`` 0 means that no subscribed topic exists; it is then left out."""

    epoch: int
    metadata_hash: int


@value
class MemberMetadataValue:
    """What a member reported of itself: everything but epochs and assignments.

    ``classic_member_metadata`` is None for a member that uses the consumer protocol,
    ``client_assignors`` for one that offers none (coordinator §12.7).
    """

    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[str, ...]
    subscribed_topic_regex: str
    rebalance_timeout_ms: int
    server_assignor: str | None
    classic_member_metadata: ClassicMemberMetadata | None = None
    client_assignors: tuple[ClientAssignor, ...] | None = None


@value
class TargetMetadataValue:
    """``assignment_timestamp`` (ms) is None where the simulated version does not write it."""

    assignment_epoch: int
    assignment_timestamp: int | None


@value
class CurrentAssignmentValue:
    """Epochs, state and both partition sets of a member; each partition with its assignment epoch.

    ``with_epochs`` says whether the simulated version writes the assignment epochs (4.3);
    ``metadata`` is what a client-side assignor gave the member at this epoch (coordinator §12.7).
    """

    member_epoch: int
    previous_member_epoch: int
    state: MemberState
    assigned: Mapping[TopicPartition, int]
    pending_revocation: Mapping[TopicPartition, int]
    with_epochs: bool = True
    metadata: AssignmentMetadata | None = None


@value
class RegularExpressionValue:
    """Topics that a pattern matched. ``timestamp`` (ms): when it was handed to the resolver;
    ``version``: the metadata image it was matched against."""

    topics: tuple[str, ...]
    version: int
    timestamp: int


class OffsetCommitValue(NamedTuple):
    """A committed offset. ``leader_epoch`` is -1 unless the commit named one;
    ``expire_timestamp`` is None unless the commit asked for a retention;
    ``topic_id`` is None where the simulated version does not store it (coordinator §8.4)."""

    offset: int
    commit_timestamp: int
    leader_epoch: int = -1
    metadata: str = ""
    expire_timestamp: int | None = None
    topic_id: str | None = None

    def may_be_of(self, topic_id: str) -> bool:
        """Is it of this topic, as far as is known?"""
        return self.topic_id is None or self.topic_id == topic_id


class _OffsetCommitFields(NamedTuple):
    group_id: str
    topic: str
    partition: int
    value: OffsetCommitValue | None


class OffsetCommit(_OffsetCommitFields):
    """Record 1: a committed offset, keyed by the *name* of the topic.

    A tuple, as its value is: a group at rest writes nothing else, one for each partition, and a
    frozen dataclass takes several times as long to make.
    """

    __slots__ = ()
    type_id: ClassVar[int] = 1


@value(kw_only=False)
class TxnOffsetCommit:
    """Record 1 in a transactional batch: an offset that is pending until a marker of its producer
    (transactions §3)."""

    type_id: ClassVar[int] = 1
    group_id: str
    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    value: OffsetCommitValue


@value(kw_only=False)
class TransactionMarker:
    """A control record: what the producer has pending in the group is committed, or dropped.

    A broker writes one for each partition of ``__consumer_offsets``, the model for each group.
    """

    type_id: ClassVar[int] = 0  # No record of a group: it is about offsets.
    group_id: str
    producer_id: int
    producer_epoch: int
    value: bool
    """Whether the transaction has committed."""
    coordinator_epoch: int = 0
    """The leader epoch of the coordinator of transactions that had it written."""


class TransactionState(IntEnum):
    """States of transactions §2, with Kafka's numbers."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5


@value
class TransactionValue:
    """What the coordinator of transactions knows of a transactional id.

    ``previous_epoch``: the epoch that a repeated request may name, -1 for none. ``group_ids``:
    the groups whose offsets are in the transaction, in ascending order. ``started_ms``: by the wall
    clock, 0 if none is ongoing.
    """

    producer_id: int
    producer_epoch: int
    previous_epoch: int
    transaction_timeout_ms: int
    state: TransactionState
    group_ids: tuple[str, ...] = ()
    started_ms: int = 0


@value(kw_only=False)
class TransactionMetadata:
    """Record 0 of ``__transaction_state``."""

    type_id: ClassVar[int] = 0  # Likewise.
    group_id: ClassVar[str] = ""
    transactional_id: str
    value: TransactionValue


@value(kw_only=False)
class _GroupRecord(Generic[_Value]):
    """One record per group of the type; ``value`` None is a tombstone."""

    type_id: ClassVar[int]
    group_id: str
    value: _Value | None = None


@value(kw_only=False)
class _MemberRecord(Generic[_Value]):
    """One record per member of a group; ``value`` None is a tombstone."""

    type_id: ClassVar[int]
    group_id: str
    member_id: str
    value: _Value | None


class GroupMetadata(_GroupRecord[ClassicGroupValue]):
    """Record 2: a classic group."""

    __slots__ = ()
    type_id = 2


class ConsumerGroupMetadata(_GroupRecord[GroupMetadataValue]):
    """Record 3: the group epoch."""

    __slots__ = ()
    type_id = 3


class ConsumerGroupPartitionMetadata(_GroupRecord[None]):
    """Record 4: written as a tombstone only (coordinator §8.6)."""

    __slots__ = ()
    type_id = 4


class ConsumerGroupMemberMetadata(_MemberRecord[MemberMetadataValue]):
    """Record 5: a member's metadata."""

    __slots__ = ()
    type_id = 5


class ConsumerGroupTargetAssignmentMetadata(_GroupRecord[TargetMetadataValue]):
    """Record 6: the target epoch."""

    __slots__ = ()
    type_id = 6


@value(kw_only=False)
class ConsumerGroupTargetAssignmentMember(_MemberRecord[frozenset[TopicPartition]]):
    """Record 7: the target of one member, with what a client-side assignor says beside it."""

    type_id = 7
    metadata: AssignmentMetadata | None = None


class ConsumerGroupCurrentMemberAssignment(_MemberRecord[CurrentAssignmentValue]):
    """Record 8: the current assignment of one member."""

    __slots__ = ()
    type_id = 8


@value(kw_only=False)
class ConsumerGroupRegularExpression:
    """Record 16: what a pattern resolves to."""

    type_id: ClassVar[int] = 16
    group_id: str
    regular_expression: str
    value: RegularExpressionValue | None


Record = (
    OffsetCommit
    | TxnOffsetCommit
    | TransactionMarker
    | TransactionMetadata
    | GroupMetadata
    | ConsumerGroupRegularExpression
    | ConsumerGroupMetadata
    | ConsumerGroupPartitionMetadata
    | ConsumerGroupMemberMetadata
    | ConsumerGroupTargetAssignmentMetadata
    | ConsumerGroupTargetAssignmentMember
    | ConsumerGroupCurrentMemberAssignment
)


def _partition_list(partitions: Mapping[TopicPartition, int], with_epochs: bool) -> list[Any]:
    rows: list[Any] = []
    for topic_id, numbers in group_by_topic(partitions).items():
        row: dict[str, Any] = {"topic_id": topic_id, "partitions": numbers}
        if with_epochs:
            row["assignment_epochs"] = [partitions[TopicPartition(topic_id, p)] for p in numbers]
        rows.append(row)
    return rows


def _value_dict(record: Record) -> dict[str, Any] | None:
    if record.value is None:
        return None
    match record:
        case ConsumerGroupMetadata(value=GroupMetadataValue() as group):
            out: dict[str, Any] = {"epoch": group.epoch}
            if group.metadata_hash:
                out["metadata_hash"] = group.metadata_hash
            return out
        case ConsumerGroupMemberMetadata(value=MemberMetadataValue() as member):
            return _member_dict(member)
        case ConsumerGroupTargetAssignmentMetadata(value=TargetMetadataValue() as target):
            out = {"assignment_epoch": target.assignment_epoch}
            if target.assignment_timestamp is not None:
                out["assignment_timestamp"] = target.assignment_timestamp
            return out
        case ConsumerGroupTargetAssignmentMember(value=frozenset() as partitions):
            rows = group_by_topic(partitions).items()
            return {
                "topic_partitions": [{"topic_id": t, "partitions": ps} for t, ps in rows],
                **_metadata_dict(record.metadata),
            }
        case ConsumerGroupCurrentMemberAssignment(value=CurrentAssignmentValue() as current):
            epochs = current.with_epochs
            return {
                "member_epoch": current.member_epoch,
                "previous_member_epoch": current.previous_member_epoch,
                "state": int(current.state),
                "assigned_partitions": _partition_list(current.assigned, epochs),
                "partitions_pending_revocation": _partition_list(
                    current.pending_revocation, epochs
                ),
                **_metadata_dict(current.metadata),
            }
        case ConsumerGroupRegularExpression(value=RegularExpressionValue() as resolved):
            return {"topics": list(resolved.topics), "timestamp": resolved.timestamp}
        case OffsetCommit(value=OffsetCommitValue() as commit):
            return _offset_dict(commit)
        case TxnOffsetCommit():
            producer = {"producer_id": record.producer_id, "producer_epoch": record.producer_epoch}
            return _offset_dict(record.value) | producer
        case TransactionMarker():
            return {"committed": record.value, "coordinator_epoch": record.coordinator_epoch}
        case TransactionMetadata(value=transaction):
            return dataclasses.asdict(transaction)
        case GroupMetadata(value=ClassicGroupValue() as classic):
            return classic_group_dict(classic)
    raise TypeError(f"not a record: {record!r}")


def _member_dict(member: MemberMetadataValue) -> dict[str, Any]:
    out: dict[str, Any] = {
        "instance_id": member.instance_id,
        "rack_id": member.rack_id,
        "client_id": member.client_id,
        "subscribed_topic_names": list(member.subscribed_topic_names),
        "subscribed_topic_regex": member.subscribed_topic_regex,
        "rebalance_timeout_ms": member.rebalance_timeout_ms,
        "server_assignor": member.server_assignor,
    }
    if member.classic_member_metadata is not None:
        timeout_ms = member.classic_member_metadata.session_timeout_ms
        out["classic_member_metadata"] = {"session_timeout_ms": timeout_ms}
    if member.client_assignors is not None:
        out["assignors"] = [
            {
                "name": assignor.name,
                "minimum_version": assignor.minimum_version,
                "maximum_version": assignor.maximum_version,
                "reason": assignor.reason,
                "version": assignor.metadata_version,
                "metadata": assignor.metadata_bytes.hex(),
            }
            for assignor in member.client_assignors
        ]
    return out


def _metadata_dict(metadata: AssignmentMetadata | None) -> dict[str, Any]:
    """The extra fields of records 7 and 8; none where a broker's own assignor was at work."""
    if metadata is None:
        return {}
    return {
        "error": metadata.error,
        "metadata_version": metadata.metadata_version,
        "metadata": metadata.metadata_bytes.hex(),
    }


def _offset_dict(commit: OffsetCommitValue) -> dict[str, Any]:
    out: dict[str, Any] = {
        "offset": commit.offset,
        "leader_epoch": commit.leader_epoch,
        "metadata": commit.metadata,
        "commit_timestamp": commit.commit_timestamp,
    }
    if commit.expire_timestamp is not None:
        out["expire_timestamp"] = commit.expire_timestamp
    if commit.topic_id is not None:
        out["topic_id"] = commit.topic_id
    return out


def to_dict(record: Record) -> dict[str, Any]:
    """``{type, key, value}`` with Kafka's field names; value None is a tombstone."""
    key: dict[str, Any] = {}
    match record:
        case OffsetCommit() | TxnOffsetCommit():
            key = {"topic": record.topic, "partition": record.partition}
        case TransactionMarker():
            key = {"producer_id": record.producer_id, "producer_epoch": record.producer_epoch}
        case TransactionMetadata():
            key = {"transactional_id": record.transactional_id}
        case ConsumerGroupRegularExpression():
            key = {"regular_expression": record.regular_expression}
        case (
            ConsumerGroupMemberMetadata()
            | ConsumerGroupTargetAssignmentMember()
            | ConsumerGroupCurrentMemberAssignment()
        ):
            key = {"member_id": record.member_id}
    return {"type": type(record).__name__, "key": key, "value": _value_dict(record)}
