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
