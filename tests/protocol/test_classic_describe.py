"""DescribeGroups, as brokers of Apache Kafka 4.1.2 and 4.3.1 answered it."""

from __future__ import annotations

from typing import Any

import pytest
from classic_builders import GROUP_ID, ClassicBench, assignment, subscription

from rebalance_sim.protocol.wire.classic_messages import DescribedGroup, DescribeGroupsRequest
from rebalance_sim.protocol.wire.errors import ErrorCode


def described(bench: ClassicBench, *group_ids: str, version: int = 6) -> list[DescribedGroup]:
    request = DescribeGroupsRequest(group_ids=group_ids or (GROUP_ID,), api_version=version)
    rows: Any = bench.shard.request(request)
    return list(rows)


def test_a_stable_group_shows_its_assignor_and_all_of_its_members() -> None:
    bench = ClassicBench()
    bench.join("A", instance="i-a")
    bench.sync("A", give={"A": (0, 1, 2, 3)}, instance="i-a")
    [group] = described(bench)
    assert (group.error_code, group.group_state) == (ErrorCode.NONE, "Stable")
    assert (group.protocol_type, group.protocol_data) == ("consumer", "range")
    [member] = group.members
    assert (member.member_id, member.group_instance_id) == (bench.id("A"), "i-a")
    assert member.client_id == "A"
    assert member.member_metadata == subscription()
    assert member.member_assignment == assignment(0, 1, 2, 3)


def test_before_the_leader_has_synced_nothing_is_shown_but_who_is_there() -> None:
    bench = ClassicBench()
    bench.join("A")
    [group] = described(bench)
    assert (group.group_state, group.protocol_data) == ("CompletingRebalance", "")
    assert group.protocol_type == "consumer"
    [member] = group.members
    assert (member.member_metadata, member.member_assignment) == (None, None)


def test_in_the_next_rebalance_the_assignment_is_still_shown_and_the_metadata_is_not() -> None:
    bench = ClassicBench().stable("A")
    bench.join("B")
    [group] = described(bench)
    assert (group.group_state, group.protocol_data) == ("PreparingRebalance", "")
    shown = {bench.name(m.member_id): (m.member_metadata, m.member_assignment)
             for m in group.members}  # fmt: skip
    assert shown == {"A": (None, assignment(0, 1, 2, 3)), "B": (None, None)}


def test_an_empty_group_keeps_its_protocol_type() -> None:
    bench = ClassicBench().stable("A")
    bench.leave("A")
    bench.wait(1)
    [group] = described(bench)
    assert group == DescribedGroup(group_id=GROUP_ID, group_state="Empty", protocol_type="consumer")


def test_a_group_of_offsets_only_has_no_type() -> None:
    bench = ClassicBench()
    bench.commit_offset("", generation=-1)
    assert described(bench) == [DescribedGroup(group_id=GROUP_ID, group_state="Empty")]


@pytest.mark.parametrize("version", [5, 6])
def test_what_is_no_classic_group_is_dead_and_an_error_from_version_6_on(version: int) -> None:
    bench = ClassicBench()
    bench.consume("m-1", subscribed_topic_names=("foo",))
    rows = described(bench, GROUP_ID, "missing", version=version)
    assert [(row.group_id, row.group_state) for row in rows] == [
        (GROUP_ID, "Dead"),
        ("missing", "Dead"),
    ]
    assert [row.members for row in rows] == [(), ()]
    found = [(row.error_code, row.error_message) for row in rows]
    if version == 5:
        assert found == [(ErrorCode.NONE, None)] * 2
    else:
        assert found == [
            (ErrorCode.GROUP_ID_NOT_FOUND, f"Group {GROUP_ID} is not a classic group."),
            (ErrorCode.GROUP_ID_NOT_FOUND, "Group missing not found."),
        ]
