"""Members of a classic group that go: by their own word, or by silence."""

from __future__ import annotations

from typing import Any

import pytest
from classic_builders import SESSION_MS, ClassicBench, codes

from rebalance_sim.protocol.classic.classic_states import ClassicGroupState
from rebalance_sim.protocol.classic.operation import ClassicTimer
from rebalance_sim.protocol.runtime.outcome import TimerKey
from rebalance_sim.protocol.wire.classic_messages import (
    HeartbeatRequest,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
)
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.offset_messages import OffsetCommitRequest
from rebalance_sim.protocol.wire.topics import TopicPartition

EMPTY = ClassicGroupState.EMPTY
PREPARING = ClassicGroupState.PREPARING_REBALANCE
COMPLETING = ClassicGroupState.COMPLETING_REBALANCE
STABLE = ClassicGroupState.STABLE

NONE, UNKNOWN = ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID


def test_the_last_member_leaves_and_the_group_is_empty_at_once() -> None:
    bench = ClassicBench().stable("A")
    assert bench.leave("A") == [NONE]
    assert (bench.state, bench.generation) == (EMPTY, 2)
    assert bench.wrote() == "2"
    assert (bench.group.protocol_name, bench.group.leader_id) == (None, None)
    assert bench.group.protocol_type == "consumer", "the type survives"
    assert bench.timers() == set()


def test_a_member_leaves_and_the_others_rebalance() -> None:
    bench = ClassicBench().stable("A", "B")
    assert bench.leave("B") == [NONE]
    assert (bench.state, bench.generation) == (PREPARING, 2)
    assert bench.beat("B") is UNKNOWN
    assert codes(bench.send_join("A")) == [NONE]
    assert bench.generation == 3


def test_the_leader_leaves_and_the_lowest_id_leads() -> None:
    bench = ClassicBench().stable("A", "B", "C")
    bench.leave("A")
    assert bench.name(bench.group.leader_id) == "B"


def test_leaving_during_a_rebalance_may_end_it() -> None:
    bench = ClassicBench().stable("A", "B")
    bench.send_join("A")
    assert bench.leave("B") == [NONE]
    assert codes(bench.joined("A")) == [NONE]
    assert bench.generation == 3


def test_a_batch_is_answered_entry_by_entry_and_starts_one_rebalance() -> None:
    bench = ClassicBench().stable("A", "B", "C")
    generation = bench.generation
    assert bench.leave("B", "no one", ("C", "i"), ("", "i"), ("", None)) == [
        NONE,
        UNKNOWN,
        UNKNOWN,
        UNKNOWN,
        UNKNOWN,
    ]
    assert bench.members() == {"A", "C"}
    assert (bench.state, bench.generation) == (PREPARING, generation)


def test_a_batch_in_which_no_one_leaves_changes_nothing() -> None:
    bench = ClassicBench().stable("A")
    assert bench.leave("no one") == [UNKNOWN]
    assert bench.state is STABLE


def test_an_administrator_removes_a_static_member_by_its_instance_id() -> None:
    bench = ClassicBench().stable("A", instance="i")
    assert bench.leave(("", "j")) == [UNKNOWN]
    assert bench.leave(("no one", "i")) == [ErrorCode.FENCED_INSTANCE_ID]
    assert bench.leave(("", "i")) == [NONE]
    assert not bench.group.static_members


def test_a_group_that_is_not_there_has_no_members() -> None:
    assert ClassicBench().leave("A", "B") == [UNKNOWN, UNKNOWN]


@pytest.mark.parametrize("has_offsets", [False, True])
def test_members_of_no_group_at_all_are_refused(has_offsets: bool) -> None:
    bench = ClassicBench()
    if has_offsets:
        offsets = {TopicPartition("foo", 0): 1}
        commit = OffsetCommitRequest(
            group_id="", member_id="", generation_id_or_member_epoch=-1, offsets=offsets
        )
        bench.shard.request(commit)
    assert (bench.shard.coordinator.project("") is not None) == has_offsets
    sender: dict[str, Any] = {"group_id": "", "member_id": "A", "generation_id": 0}
    for request in (
        LeaveGroupRequest(group_id="", members=(MemberIdentity("A"),)),
        HeartbeatRequest(**sender),
        SyncGroupRequest(**sender),
    ):
        assert codes(bench.shard.request(request)) == [ErrorCode.INVALID_GROUP_ID]


def test_a_parked_join_of_a_leaving_member_is_answered_but_a_parked_sync_is_not() -> None:
    bench = ClassicBench().stable("A", "B")
    bench.send_join("A")
    bench.leave("A")
    assert codes(bench.joined("A")) == [UNKNOWN]
    bench.send_join("B")
    bench.join("C")
    bench.send_join("B")
    assert (bench.state, bench.sync("C")) == (COMPLETING, None)
    bench.leave("C")
    assert bench.synced("C") is None


# -- pending ids ---------------------------------------------------------------------------


def test_a_pending_id_that_leaves_lets_the_join_phase_end() -> None:
    bench = ClassicBench().stable("A")
    bench.send_join("B")
    bench.send_join("A")
    assert bench.state is PREPARING
    assert bench.leave("B") == [NONE]
    assert (bench.state, bench.generation) == (COMPLETING, 2)


def test_a_pending_id_that_leaves_a_stable_group_still_counts_as_somebody_who_left() -> None:
    bench = ClassicBench().stable("A")
    bench.send_join("B")
    bench.leave("B")
    assert bench.state is PREPARING


def test_a_pending_id_that_leaves_an_empty_group_starts_nothing() -> None:
    bench = ClassicBench()
    bench.send_join("A")
    assert bench.leave("A") == [NONE]
    assert (bench.state, bench.generation) == (EMPTY, 0)


def test_the_last_member_leaves_while_an_id_is_pending() -> None:
    bench = ClassicBench().stable("A")
    bench.send_join("B")
    bench.leave("A")
    assert bench.state is PREPARING
    assert bench.due_ms("classic-join") == bench.shard.now_ms, "no one supplies a timeout"
    bench.wait(0)
    assert (bench.state, bench.generation) == (EMPTY, 2)
    assert codes(bench.send_join("B")) == [NONE]
    assert bench.generation == 3


# -- silence -------------------------------------------------------------------------------


def test_a_silent_member_is_out_after_its_session_and_the_others_rebalance() -> None:
    bench = ClassicBench().stable("A", "B")
    bench.wait(SESSION_MS - 1)
    bench.beat("A")
    bench.wait(1)
    assert bench.members() == {"A"}
    assert (bench.state, bench.beat("A")) == (PREPARING, ErrorCode.REBALANCE_IN_PROGRESS)


def test_all_are_silent_and_the_group_is_empty() -> None:
    bench = ClassicBench().stable("A", "B")
    generation = bench.generation
    bench.wait(SESSION_MS)
    assert (bench.state, bench.generation) == (EMPTY, generation + 1)
    assert bench.timers() == set()


def test_a_silent_member_delays_the_join_phase_no_longer_than_its_session() -> None:
    bench = ClassicBench().stable("A", "B", rebalance_ms=60_000)
    bench.send_join("A", rebalance_ms=60_000)
    bench.wait(SESSION_MS)
    assert (bench.state, bench.members()) == (COMPLETING, {"A"})
    assert codes(bench.joined("A")) == [NONE]


def test_a_session_of_a_member_that_is_gone_ends_without_effect() -> None:
    bench = ClassicBench().stable("A", "B")
    key = next(k for k in bench.shard.timers if k.member_id == bench.id("B"))
    bench.leave("B")
    outcome = bench.shard.coordinator.fire(key, now_ms=bench.shard.now_ms)
    assert (outcome.records, outcome.timers, outcome.completions) == ((), (), ())
    bench.leave("A")
    bench.shard.coordinator.fire(key, now_ms=bench.shard.now_ms)


@pytest.mark.parametrize("kind", ClassicTimer)
def test_timers_of_a_group_that_is_gone_do_nothing(kind: ClassicTimer) -> None:
    bench = ClassicBench()
    outcome = bench.shard.coordinator.fire(TimerKey(kind, "gone", "A"), now_ms=0)
    assert (outcome.records, outcome.timers, outcome.completions) == ((), (), ())
