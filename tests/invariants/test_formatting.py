"""Values in plain words."""

from __future__ import annotations

from rebalance_sim.invariants.formatting import first_difference, listed, plain
from rebalance_sim.protocol.clients.common.values import NO_ASSIGNMENT, LocalAssignment
from rebalance_sim.protocol.wire.records import MemberState, OffsetCommitValue
from rebalance_sim.protocol.wire.topics import TopicPartition

ONE, TWO = TopicPartition("id-orders", 1), TopicPartition("id-orders", 2)


def name_of(partition: TopicPartition) -> str:
    return f"orders-{partition.partition}"


def test_values_are_told_by_name_in_ascending_order():
    reported = {
        "none": None,
        "orders-1": ONE,
        "[orders-1, orders-2]": frozenset({TWO, ONE}),
        "[orders-1: 5, orders-2: 7]": {TWO: 7, ONE: 5},
        "[]": frozenset(),
        "UNREVOKED_PARTITIONS": MemberState.UNREVOKED_PARTITIONS,
        "[a, b]": ("a", "b"),
        "17": 17,
        "local epoch 3, partitions [orders-2]": LocalAssignment(3, frozenset({TWO})),
    }
    assert {plain(value, name_of): value for value in reported.values()} == reported


def test_an_empty_list_has_a_word():
    assert listed([]) == "none"
    assert listed([1, 2]) == "1, 2"


def test_maps_differ_at_their_first_key():
    found, expected = {"a": 1, "b": 2, "c": 3}, {"a": 1, "b": 5}
    assert first_difference("vote of {}", found, expected, name_of) == ("vote of b", "2", "5")


def test_a_key_that_only_one_has_is_missing_in_the_other():
    assert first_difference("epoch of {}", {ONE: 4}, {}, name_of) == (
        "epoch of orders-1",
        "4",
        "missing",
    )
    value = OffsetCommitValue(offset=1, commit_timestamp=0)
    assert first_difference("offset", None, value, name_of) == ("offset", "missing", "there")


def test_values_with_fields_differ_at_their_first_field():
    found = OffsetCommitValue(offset=1, commit_timestamp=0)
    expected = OffsetCommitValue(offset=1, commit_timestamp=9, metadata="x")
    assert first_difference("record at offset 3", found, expected, name_of) == (
        "commit timestamp of record at offset 3",
        "0",
        "9",
    )
    target = LocalAssignment(0, frozenset({ONE}))
    assert first_difference("target", target, NO_ASSIGNMENT, name_of)[0] == "local epoch of target"
