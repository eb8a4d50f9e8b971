"""What of a classic group survives a failover, and what parked requests are told."""

from __future__ import annotations

import pytest
from classic_builders import GROUP_ID, SESSION_MS, ClassicBench, codes, subscription

from rebalance_sim.protocol.classic.classic_group import ClassicGroup
from rebalance_sim.protocol.classic.classic_states import ClassicGroupState
from rebalance_sim.protocol.wire.classic_records import ClassicGroupValue, ClassicMemberValue
from rebalance_sim.protocol.wire.errors import ErrorCode

EMPTY = ClassicGroupState.EMPTY
PREPARING = ClassicGroupState.PREPARING_REBALANCE
COMPLETING = ClassicGroupState.COMPLETING_REBALANCE
STABLE = ClassicGroupState.STABLE


def test_a_stable_group_comes_back_as_it_was_synced() -> None:
    bench = ClassicBench().stable("A", "B", protocols=("range", "sticky"))
    before = bench.group
    bench.wait(5_000)
    bench.shard.restart()
    after = bench.group
    assert after is not before
    assert (after.state, after.generation_id, after.leader_id) == (
        STABLE,
        before.generation_id,
        before.leader_id,
    )
    assert set(after.members) == set(before.members)
    assert after.subscribed_topics == {"foo"}
    assert after.state_timestamp_ms == before.written.current_state_timestamp  # type: ignore[union-attr]
    for member_id, member in after.members.items():
        assert member.assignment == before.members[member_id].assignment
        assert member.protocol_names() == ("range",), "only the selected protocol survives"
    assert bench.due_ms("classic-session", "A") == bench.shard.now_ms + SESSION_MS
    assert bench.beat("A") is ErrorCode.NONE


def test_a_client_that_offers_two_protocols_no_longer_matches_after_a_load() -> None:
    both = ("range", "sticky")
    bench = ClassicBench().stable("A", "B", protocols=both)
    assert codes(bench.send_join("B", protocols=both)) == [ErrorCode.NONE]
    bench.shard.restart()
    assert bench.send_join("B", protocols=both) is None
    assert bench.state is PREPARING


def test_an_unfinished_rebalance_is_forgotten_and_its_generation_is_used_again() -> None:
    bench = ClassicBench().stable("A")
    bench.join("B")
    bench.send_join("A")
    assert (bench.state, bench.generation) == (COMPLETING, 2)
    bench.shard.restart()
    assert (bench.state, bench.generation) == (STABLE, 1)
    assert bench.beat("A", generation=2) is ErrorCode.ILLEGAL_GENERATION
    assert bench.beat("B", generation=2) is ErrorCode.UNKNOWN_MEMBER_ID
    assert codes(bench.send_join("A")) == [ErrorCode.NONE]
    assert bench.generation == 2


def test_a_member_that_had_left_is_back_as_a_ghost_until_its_session_ends() -> None:
    bench = ClassicBench().stable("A", "B")
    bench.leave("B")
    bench.shard.restart()
    assert bench.members() == {"A", "B"}
    bench.wait(SESSION_MS - 1)
    bench.beat("A")
    bench.wait(1)
    assert bench.members() == {"A"}


def test_an_empty_group_comes_back_with_its_type_and_generation() -> None:
    bench = ClassicBench().stable("A")
    bench.leave("A")
    bench.shard.restart()
    assert (bench.state, bench.generation, bench.group.protocol_type) == (EMPTY, 2, "consumer")
    assert not bench.group.is_simple
    assert bench.group.subscribed_topics == frozenset()


def test_pending_ids_do_not_survive() -> None:
    bench = ClassicBench()
    bench.send_join("A")
    bench.shard.restart()
    assert bench.state is EMPTY
    assert codes(bench.send_join("A")) == [ErrorCode.UNKNOWN_MEMBER_ID]


def test_a_group_that_has_become_too_large_starts_over_at_the_load() -> None:
    bench = ClassicBench().stable("A", "B", "C")
    records = list(bench.shard.log)
    small = ClassicBench(group_max_size=2)
    for record in records:
        small.shard.coordinator.replay(record, strict=False)
    timers = small.shard.coordinator.on_loaded(now_ms=0)
    assert small.state is PREPARING
    assert "classic-join" in {timer.key.kind for timer in timers}


def test_an_old_record_without_a_rebalance_timeout_falls_back_to_the_session() -> None:
    value = ClassicGroupValue(
        protocol_type="consumer",
        generation=4,
        protocol="range",
        leader="m",
        current_state_timestamp=None,
        members=(
            ClassicMemberValue(
                member_id="m",
                group_instance_id=None,
                client_id="c",
                client_host="h",
                rebalance_timeout_ms=-1,
                session_timeout_ms=7_000,
                subscription=subscription(),
                assignment=None,
            ),
        ),
    )
    group = ClassicGroup.from_record(GROUP_ID, value)
    assert group.members["m"].rebalance_timeout_ms == 7_000
    assert (group.state, group.leader_id, group.state_timestamp_ms) == (STABLE, "m", None)


def test_a_record_that_the_group_wrote_itself_changes_nothing_when_it_is_replayed() -> None:
    bench = ClassicBench().stable("A")
    bench.join("B")
    before = bench.group
    _, (record,) = bench.shard.batches[-1]
    bench.shard.coordinator.replay(record)
    assert bench.group is before
    assert (bench.state, bench.members()) == (PREPARING, {"A", "B"})


def test_another_coordinator_follows_the_same_log_record_by_record() -> None:
    bench = ClassicBench().stable("A")
    follower = ClassicBench()
    for at in (1, 2, 3):
        for record in list(bench.shard.log):
            follower.shard.coordinator.replay(record)
        assert follower.generation == bench.generation == at
        bench.stable(f"B{at}")


# -- unloading -----------------------------------------------------------------------------


def test_parked_requests_are_told_that_the_coordinator_has_moved() -> None:
    bench = ClassicBench().stable("A", "B")
    bench.join("C")
    bench.send_join("B")
    completions = bench.shard.coordinator.on_unloaded(now_ms=0)
    assert [c.token for c in completions] == ["join B", "join C"]
    assert codes(*(c.response for c in completions)) == [ErrorCode.NOT_COORDINATOR] * 2
    assert bench.group.num_awaiting_join == 0


def test_parked_syncs_are_told_as_well_and_a_dead_group_answers_no_one() -> None:
    bench = ClassicBench().stable("A", "B")
    bench.send_join("A")
    bench.send_join("B")
    bench.sync("B")
    completions = bench.shard.coordinator.on_unloaded(now_ms=0)
    assert [c.token for c in completions] == ["sync B"]
    gone = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert bench.state is ClassicGroupState.DEAD
    assert bench.beat("A") is gone
    assert codes(bench.send_join("A"), bench.sync("A")) == [gone, gone]
    assert bench.commit_offset("A", bench.generation) is gone
    with pytest.raises(AssertionError):
        bench.leave("A")  # the whole request is refused, not its entries
