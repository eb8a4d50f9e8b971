"""What inconsistent input does, and how it is named (assignors §17)."""

from __future__ import annotations

import pytest
from assignor_builders import HOMOGENEOUS, group, member, targets

from rebalance_sim.protocol.assignors.server import (
    GroupSpec,
    MemberSpec,
    PartitionAssignorError,
    RangeAssignor,
    UniformAssignor,
    validate,
)
from rebalance_sim.protocol.wire.topics import TopicPartition

TWO_HOLD_ONE = group({"m1": member("foo", "foo[0]"), "m2": member("foo", "foo[0]")})
PHANTOM = group({"m1": member("foo", "foo[2]")})


@pytest.mark.parametrize(
    ("spec", "counts", "message"),
    [
        (TWO_HOLD_ONE, {"foo": 2}, "members m1 and m2 both hold .*foo.*0"),
        (PHANTOM, {"foo": 2}, "member m1: current partition .*2.* does not exist"),
        (group({}), {"foo": -1}, "topic foo: the partition count must be >= 0"),
        (
            group({"m1": member("foo"), "m2": member("bar")}, HOMOGENEOUS),
            {"foo": 1, "bar": 1},
            "members m1 and m2 of a homogeneous group subscribe to different topics",
        ),
        (
            group({"m1": member("", instance_id="i"), "m2": member("", instance_id="i")}),
            {},
            "members m1 and m2 share instance id i",
        ),
    ],
)
def test_validate_names_the_place(spec: GroupSpec, counts: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        validate(spec, counts)


def test_validate_accepts_partitions_of_a_deleted_topic() -> None:
    validate(group({"m1": member("foo", "gone[7]")}), {"foo": 2})


def test_uniform_refuses_leftovers_of_overlapping_targets() -> None:
    spec = group(
        {"m1": member("foo", "foo[0-1]"), "m2": member("foo", "foo[0-1]"), "m3": member("foo")}
    )
    with pytest.raises(PartitionAssignorError, match="left over"):
        UniformAssignor().assign(spec, {"foo": 3})


def test_uniform_refuses_overlapping_targets_where_the_counts_match() -> None:
    """As Kafka's own does (4.3.1): foo-1, which no one has, is left over."""
    with pytest.raises(PartitionAssignorError, match="left over"):
        UniformAssignor().assign(TWO_HOLD_ONE, {"foo": 2})


@pytest.mark.parametrize(
    "other",
    [member("foo"), member("foo", "foo[0]"), member("foo bar"), member("foo bar", "foo[0] bar[0]")],
    ids=["homogeneous", "beside a present one", "heterogeneous", "heterogeneous, beside others"],
)
@pytest.mark.parametrize("number", [2, -1])
def test_uniform_computes_no_target_while_somebody_has_a_partition_that_does_not_exist(
    other: MemberSpec, number: int
) -> None:
    """As a broker does: trace ``migration_partition_vanished`` of 4.3.1. Another 4.3.1 was asked
    with -1, too: UNKNOWN_SERVER_ERROR of both algorithms."""
    mine = member("foo", frozenset({TopicPartition("foo", number)}))
    spec = group({"m1": mine, "m2": other})
    with pytest.raises(PartitionAssignorError):
        UniformAssignor().assign(spec, {"foo": 2, "bar": 1})


def test_range_does_not_mind_a_partition_that_is_no_more() -> None:
    spec = group({"m1": member("foo", "foo[2]"), "m2": member("foo")})
    assert RangeAssignor().assign(spec, {"foo": 2}) == targets(m1="foo[0]", m2="foo[1]")
