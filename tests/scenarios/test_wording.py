"""Requests and answers of a trace in a few words each."""

from __future__ import annotations

from typing import Any

from rebalance_sim.scenarios.traces.wording import Wording


def _leave(*members: dict[str, Any]) -> str:
    request = {"type": "LeaveGroupRequest", "group_id": "group", "members": list(members)}
    return Wording(()).request(request)


def test_a_leave_names_the_reasons_of_its_members() -> None:
    first = {"member_id": "a", "reason": "the consumer is being closed"}
    second = {"member_id": "", "group_instance_id": "seat", "reason": ""}
    assert _leave(first) == "LeaveGroup of a: the consumer is being closed"
    assert _leave(second) == "LeaveGroup of seat"
    third = {"member_id": "b", "reason": "bored"}
    assert _leave(first, second, third) == (
        "LeaveGroup of a, seat, b: bored, the consumer is being closed"
    )


def test_partitions_that_follow_one_another_are_told_by_the_first_and_the_last() -> None:
    few = [f"orders:1/{number}" for number in (3, 0, 1, 2)]
    assert Wording(()).partitions(few) == "orders-0,1,2,3"
    many = [f"orders:1/{number}" for number in (*range(20), 30, 31, 40)]
    assert Wording(()).partitions(many) == "orders-0..19,30,31,40"
