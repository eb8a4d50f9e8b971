"""The bytes that Streams members and their assignor exchange."""

from __future__ import annotations

import pytest
from assignor_builders import parts
from hypothesis import given
from hypothesis import strategies as st

from rebalance_sim.protocol.assignors.client_side.streams_metadata import (
    StreamsAssignment,
    StreamsMember,
    decode_assignment,
    decode_member,
    encode_assignment,
    encode_member,
)
from rebalance_sim.protocol.wire.topics import TopicPartition

tasks = st.builds(TopicPartition, st.text(max_size=4), st.integers(0, 2**32 - 1))
members = st.builds(
    StreamsMember,
    process_id=st.text(max_size=8),
    client_tags=st.dictionaries(st.text(max_size=4), st.text(max_size=4), max_size=3),
    topology_hash=st.integers(-(2**63), 2**63 - 1),
    task_lags=st.dictionaries(tasks, st.integers(-(2**63), 2**63 - 1), max_size=5),
)
task_sets = st.frozensets(tasks, max_size=4)
assignments = st.builds(StreamsAssignment, active=task_sets, standby=task_sets, warm_up=task_sets)


@given(members)
def test_a_member_comes_back_as_it_was(member: StreamsMember) -> None:
    assert decode_member(encode_member(member, 1), 1) == member


@given(members)
def test_version_0_knows_neither_tags_nor_topology(member: StreamsMember) -> None:
    expected = StreamsMember(process_id=member.process_id, task_lags=member.task_lags)
    assert decode_member(encode_member(member, 0), 0) == expected


@given(assignments)
def test_an_assignment_comes_back_as_it_was(assignment: StreamsAssignment) -> None:
    assert decode_assignment(encode_assignment(assignment, 1), 1) == assignment


@given(assignments)
def test_to_version_0_a_warm_up_is_a_standby(assignment: StreamsAssignment) -> None:
    decoded = decode_assignment(encode_assignment(assignment, 0), 0)
    assert decoded.active == assignment.active
    assert decoded.standby == assignment.standby | assignment.warm_up
    assert (decoded.warm_up, decoded.tasks) == (frozenset(), assignment.tasks)


@given(members, st.sampled_from([0, 1]), st.data())
def test_bytes_that_are_cut_short_or_too_long_are_refused(
    member: StreamsMember, version: int, data: st.DataObject
) -> None:
    encoded = encode_member(member, version)
    cut = data.draw(st.integers(0, len(encoded) - 1))
    with pytest.raises(ValueError, match="the metadata ends within"):
        decode_member(encoded[:cut], version)
    with pytest.raises(ValueError, match="1 bytes follow the metadata"):
        decode_member(encoded + b"\0", version)


@pytest.mark.parametrize("version", [-1, 2])
def test_versions_that_no_one_knows_are_refused(version: int) -> None:
    with pytest.raises(ValueError, match=f"version {version} of the metadata is not known"):
        encode_member(StreamsMember(process_id="p"), version)
    with pytest.raises(ValueError, match=f"version {version} of the metadata is not known"):
        decode_assignment(b"", version)


def test_the_layout_is_what_it_is() -> None:
    """Bytes of one release are read by the next: a change needs a new version."""
    member = StreamsMember(
        process_id="p",
        client_tags={"z": "x"},
        topology_hash=-1,
        task_lags={TopicPartition("t", 2): 7},
    )
    version_0 = "00000001 70  00000001  00000001 74 00000001 00000002 0000000000000007"
    tags = "00000001 00000001 7a 00000001 78"
    assert encode_member(member, 0) == bytes.fromhex(version_0)
    assert encode_member(member, 1) == bytes.fromhex(f"{version_0} {tags} ffffffffffffffff")
    reported = StreamsAssignment(active=parts("t[1]"), warm_up=parts("t[2]"))
    one = "00000001 00000001 74 00000001 0000000"
    assert encode_assignment(reported, 1) == bytes.fromhex(f"{one}1 00000000 {one}2")


def test_a_member_that_was_told_nothing_has_nothing() -> None:
    assert decode_assignment(b"", 0) == decode_assignment(b"", 1) == StreamsAssignment()
