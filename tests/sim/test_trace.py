"""Traces: a digest that notices every difference, and lines that a program can read."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from random_worlds import random_spec
from worlds import orders

from rebalance_sim.invariants.step import Step, StepKind
from rebalance_sim.protocol.consumer.timer_keys import session_key
from rebalance_sim.protocol.runtime.outcome import ScheduleTimer
from rebalance_sim.protocol.wire.consumer_messages import ConsumerGroupHeartbeatResponse
from rebalance_sim.protocol.wire.records import (
    ConsumerGroupCurrentMemberAssignment,
    ConsumerGroupMetadata,
    ConsumerGroupTargetAssignmentMember,
    CurrentAssignmentValue,
    GroupMetadataValue,
    MemberState,
    OffsetCommit,
    OffsetCommitValue,
)
from rebalance_sim.sim.trace import FullTrace, Trace
from rebalance_sim.sim.world import World


class StubShard:
    name = "broker-0"
    number = 0
    leader_epoch = 3
    log_end_offset = 10
    high_watermark = 8


def current(**changes: object) -> ConsumerGroupCurrentMemberAssignment:
    fields = {
        "member_epoch": 5,
        "previous_member_epoch": 4,
        "state": MemberState.STABLE,
        "assigned": dict.fromkeys(orders(0, 1), 5),
        "pending_revocation": dict.fromkeys(orders(2), 5),
        **changes,
    }
    return ConsumerGroupCurrentMemberAssignment("group", "m", CurrentAssignmentValue(**fields))


def request_step(**changes: object) -> Step:
    step = Step()
    step.kind = StepKind.COORDINATOR_REQUEST
    step.at_ms = 1_000
    step.operation = 7
    step.shard = StubShard()  # type: ignore[assignment]
    step.response = ConsumerGroupHeartbeatResponse(member_id="m", member_epoch=5)
    for name, value in changes.items():
        setattr(step, name, value)
    return step


def digest_of(step: Step) -> str:
    trace = Trace()
    trace.on_step(step)
    return trace.digest()


DIFFERENCES: list[Callable[[], Step]] = [
    lambda: request_step(),
    lambda: request_step(at_ms=1_001),
    lambda: request_step(operation=8),
    lambda: request_step(kind=StepKind.RESPONSE_RELEASED),
    lambda: request_step(response=ConsumerGroupHeartbeatResponse(member_id="m", member_epoch=6)),
    lambda: request_step(
        response=ConsumerGroupHeartbeatResponse(member_epoch=5, assignment=frozenset())
    ),
    lambda: request_step(
        response=ConsumerGroupHeartbeatResponse(member_epoch=5, assignment=orders(1))
    ),
    lambda: request_step(
        records=(ConsumerGroupMetadata("group", GroupMetadataValue(epoch=1, metadata_hash=2)),)
    ),
    lambda: request_step(
        records=(ConsumerGroupMetadata("group", GroupMetadataValue(epoch=2, metadata_hash=2)),)
    ),
    lambda: request_step(records=(ConsumerGroupMetadata("group", None),)),
    lambda: request_step(records=(ConsumerGroupTargetAssignmentMember("group", "m", orders(1)),)),
    lambda: request_step(records=(ConsumerGroupTargetAssignmentMember("group", "n", orders(1)),)),
    lambda: request_step(records=(ConsumerGroupTargetAssignmentMember("group", "m", orders()),)),
    lambda: request_step(records=(ConsumerGroupTargetAssignmentMember("group", "m", None),)),
    lambda: request_step(records=(current(),)),
    lambda: request_step(records=(current(member_epoch=6),)),
    lambda: request_step(records=(current(previous_member_epoch=3),)),
    lambda: request_step(records=(current(state=MemberState.UNREVOKED_PARTITIONS),)),
    lambda: request_step(records=(current(assigned=dict.fromkeys(orders(0), 5)),)),
    lambda: request_step(records=(current(pending_revocation={}),)),
    lambda: request_step(
        records=(
            current(
                assigned=dict.fromkeys(orders(2), 5),
                pending_revocation=dict.fromkeys(orders(0, 1), 5),
            ),
        )
    ),
    lambda: request_step(
        records=(
            OffsetCommit("group", "orders", 1, OffsetCommitValue(offset=5, commit_timestamp=9)),
        )
    ),
    lambda: request_step(
        records=(
            OffsetCommit("group", "orders", 1, OffsetCommitValue(offset=6, commit_timestamp=9)),
        )
    ),
    lambda: request_step(
        records=(
            OffsetCommit("group", "orders", 2, OffsetCommitValue(offset=5, commit_timestamp=9)),
        )
    ),
]


def test_steps_that_differ_have_different_digests() -> None:
    assert len({digest_of(build()) for build in DIFFERENCES}) == len(DIFFERENCES)


@pytest.mark.parametrize("build", DIFFERENCES)
def test_equal_steps_have_equal_digests(build: Callable[[], Step]) -> None:
    assert digest_of(build()) == digest_of(build())


def test_the_order_of_steps_counts() -> None:
    one, other = Trace(), Trace()
    first, second = DIFFERENCES[0](), DIFFERENCES[1]()
    for step in (first, second):
        one.on_step(step)
    for step in (second, first):
        other.on_step(step)
    assert one.digest() != other.digest()


def test_asking_for_the_digest_does_not_change_it() -> None:
    one, other = Trace(), Trace()
    for step in (DIFFERENCES[0](), DIFFERENCES[1]()):
        one.on_step(step)
        one.digest()
        other.on_step(step)
    assert one.digest() == other.digest()


def test_a_full_trace_has_the_digest_of_a_lean_one_and_a_line_for_each_step() -> None:
    full = FullTrace()
    result = World(random_spec(5), trace=full).run()
    assert result.digest == World(random_spec(5)).run().digest
    steps = [json.loads(line) for line in full.lines]
    assert [step["step"] for step in steps] == list(range(1, result.steps + 1))
    times = [step["at_ms"] for step in steps]
    assert times == sorted(times)


def test_a_full_trace_holds_no_memory_address() -> None:
    full = FullTrace()
    World(random_spec(5), trace=full).run()
    assert not any("object at 0x" in line or "<" in line for line in full.lines)


def test_a_timer_is_told_by_its_key() -> None:
    full = FullTrace()
    step = request_step(timers=(ScheduleTimer(session_key("group", "m"), 5),))
    full.on_step(step)
    (line,) = full.lines
    assert json.loads(line)["timers"][0]["key"]["member_id"] == "m"
