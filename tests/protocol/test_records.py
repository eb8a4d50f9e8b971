"""``to_dict`` spells every record without loss (coordinator §9.1)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from coordinator_builders import GROUP_ID
from hypothesis import given
from hypothesis import strategies as st

from rebalance_sim.protocol.wire.records import (
    ConsumerGroupCurrentMemberAssignment,
    ConsumerGroupMemberMetadata,
    ConsumerGroupMetadata,
    ConsumerGroupPartitionMetadata,
    ConsumerGroupRegularExpression,
    ConsumerGroupTargetAssignmentMember,
    ConsumerGroupTargetAssignmentMetadata,
    CurrentAssignmentValue,
    GroupMetadata,
    GroupMetadataValue,
    MemberMetadataValue,
    MemberState,
    OffsetCommit,
    OffsetCommitValue,
    Record,
    RegularExpressionValue,
    TargetMetadataValue,
    to_dict,
)
from rebalance_sim.protocol.wire.topics import TopicPartition

names = st.text("abc.#-", min_size=1, max_size=4)
numbers = st.integers(0, 2**31 - 1)
epochs = st.integers(-2, 100)
partitions = st.builds(TopicPartition, names, st.integers(0, 30))
with_epochs = st.dictionaries(partitions, st.integers(0, 9), max_size=6)


@st.composite
def current_assignments(draw: st.DrawFn) -> CurrentAssignmentValue:
    has_epochs = draw(st.booleans())
    held = draw(with_epochs)
    if not has_epochs:
        held = dict.fromkeys(held, 0)
    pending = {p: e for p, e in held.items() if draw(st.booleans())}
    return CurrentAssignmentValue(
        member_epoch=draw(epochs),
        previous_member_epoch=draw(epochs),
        state=draw(st.sampled_from(MemberState)),
        assigned={p: e for p, e in held.items() if p not in pending},
        pending_revocation=pending,
        with_epochs=has_epochs,
    )


group_values = st.builds(
    GroupMetadataValue, epoch=epochs, metadata_hash=st.integers(-(2**63), 2**63 - 1)
)
member_values = st.builds(
    MemberMetadataValue,
    instance_id=st.none() | names,
    rack_id=st.none() | names,
    client_id=names,
    client_host=st.just(""),
    subscribed_topic_names=st.lists(names, unique=True).map(lambda n: tuple(sorted(n))),
    subscribed_topic_regex=names,
    rebalance_timeout_ms=numbers,
    server_assignor=st.none() | names,
)
target_values = st.builds(
    TargetMetadataValue, assignment_epoch=epochs, assignment_timestamp=st.none() | numbers
)
regex_values = st.builds(
    RegularExpressionValue,
    topics=st.lists(names, unique=True).map(tuple),
    version=st.just(0),
    timestamp=numbers,
)
offset_values = st.builds(
    OffsetCommitValue,
    offset=numbers,
    commit_timestamp=numbers,
    metadata=names,
    expire_timestamp=st.none() | numbers,
    topic_id=st.none() | names,
)
group = st.just(GROUP_ID)
records: st.SearchStrategy[Record] = st.one_of(
    st.builds(GroupMetadata, group),
    st.builds(ConsumerGroupPartitionMetadata, group),
    st.builds(ConsumerGroupMetadata, group, st.none() | group_values),
    st.builds(ConsumerGroupMemberMetadata, group, names, st.none() | member_values),
    st.builds(ConsumerGroupTargetAssignmentMetadata, group, st.none() | target_values),
    st.builds(
        ConsumerGroupTargetAssignmentMember, group, names, st.none() | st.frozensets(partitions)
    ),
    st.builds(
        ConsumerGroupCurrentMemberAssignment, group, names, st.none() | current_assignments()
    ),
    st.builds(ConsumerGroupRegularExpression, group, names, st.none() | regex_values),
    st.builds(OffsetCommit, group, names, st.integers(0, 9), st.none() | offset_values),
)

TYPES = {
    kind.__name__: kind
    for kind in (
        GroupMetadata,
        ConsumerGroupPartitionMetadata,
        ConsumerGroupMetadata,
        ConsumerGroupMemberMetadata,
        ConsumerGroupTargetAssignmentMetadata,
        ConsumerGroupTargetAssignmentMember,
        ConsumerGroupCurrentMemberAssignment,
        ConsumerGroupRegularExpression,
        OffsetCommit,
    )
}


def from_dict(spelled: Mapping[str, Any]) -> Record:
    """Read a record as the traces spell it; client hosts and image versions are not spelled."""
    kind, key, value = TYPES[spelled["type"]], spelled["key"], spelled["value"]
    if kind in (GroupMetadata, ConsumerGroupPartitionMetadata):
        assert value is None
        return kind(GROUP_ID)  # type: ignore[call-arg, return-value]
    arguments = [GROUP_ID, *key.values()]
    return kind(*arguments, None if value is None else value_of(kind, value))  # type: ignore


def value_of(kind: type, value: Mapping[str, Any]) -> Any:
    if kind is ConsumerGroupMetadata:
        return GroupMetadataValue(**{"metadata_hash": 0, **value})
    if kind is ConsumerGroupMemberMetadata:
        subscribed = tuple(value["subscribed_topic_names"])
        return MemberMetadataValue(
            **{**value, "subscribed_topic_names": subscribed, "client_host": ""}
        )
    if kind is ConsumerGroupTargetAssignmentMetadata:
        return TargetMetadataValue(**{"assignment_timestamp": None, **value})
    if kind is ConsumerGroupTargetAssignmentMember:
        return frozenset(with_epochs_of(value["topic_partitions"]))
    if kind is ConsumerGroupCurrentMemberAssignment:
        both = value["assigned_partitions"], value["partitions_pending_revocation"]
        return CurrentAssignmentValue(
            member_epoch=value["member_epoch"],
            previous_member_epoch=value["previous_member_epoch"],
            state=MemberState(value["state"]),
            assigned=with_epochs_of(both[0]),
            pending_revocation=with_epochs_of(both[1]),
            with_epochs=any("assignment_epochs" in row for rows in both for row in rows),
        )
    if kind is ConsumerGroupRegularExpression:
        topics, timestamp = tuple(value["topics"]), value["timestamp"]
        return RegularExpressionValue(topics=topics, version=0, timestamp=timestamp)
    return OffsetCommitValue(**value)


def with_epochs_of(rows: list[Mapping[str, Any]]) -> dict[TopicPartition, int]:
    found: dict[TopicPartition, int] = {}
    for row in rows:
        assert row["partitions"] == sorted(set(row["partitions"]))
        assert row["partitions"]
        zeros = [0] * len(row["partitions"])
        for number, epoch in zip(
            row["partitions"], row.get("assignment_epochs", zeros), strict=True
        ):
            found[TopicPartition(row["topic_id"], number)] = epoch
    assert [row["topic_id"] for row in rows] == sorted({row["topic_id"] for row in rows})
    return found


@given(records)
def test_a_spelled_record_can_be_read_back(record: Record) -> None:
    spelled = to_dict(record)
    assert (spelled["value"] is None) is (record.value is None)
    read = from_dict(json.loads(json.dumps(spelled)))
    if isinstance(record, ConsumerGroupCurrentMemberAssignment) and record.value is not None:
        is_empty = not record.value.assigned and not record.value.pending_revocation
        assert read.value is not None
        if is_empty:  # No row shows whether there would be epochs.
            assert isinstance(read.value, CurrentAssignmentValue)
            assert to_dict(read) == spelled
            return
    assert read == record


def test_a_hash_of_0_and_a_missing_time_are_left_out() -> None:
    assert to_dict(
        ConsumerGroupMetadata(GROUP_ID, GroupMetadataValue(epoch=3, metadata_hash=0))
    ) == {"type": "ConsumerGroupMetadata", "key": {}, "value": {"epoch": 3}}
    value = TargetMetadataValue(assignment_epoch=3, assignment_timestamp=None)
    assert to_dict(ConsumerGroupTargetAssignmentMetadata(GROUP_ID, value))["value"] == {
        "assignment_epoch": 3
    }


def test_what_is_no_record_is_refused() -> None:
    with pytest.raises(TypeError, match="not a record"):
        to_dict(ConsumerGroupMetadata(GROUP_ID, "nonsense"))  # type: ignore[arg-type]
