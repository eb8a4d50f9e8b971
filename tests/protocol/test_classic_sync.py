"""SyncGroup and Heartbeat in a classic group: what waits for a commit, and what a failure does."""

from __future__ import annotations

import pytest
from classic_builders import (
    SESSION_MS,
    ClassicBench,
    HoldingShard,
    codes,
    held,
    spelled,
    subscription,
)

from rebalance_sim.protocol.classic.classic_states import ClassicGroupState
from rebalance_sim.protocol.versions.semantics import SEMANTICS
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.records import GroupMetadata

PREPARING = ClassicGroupState.PREPARING_REBALANCE
COMPLETING = ClassicGroupState.COMPLETING_REBALANCE
STABLE = ClassicGroupState.STABLE


def completing(**options: object) -> ClassicBench:
    """A leads and B follows; generation 2 waits for its assignment."""
    bench = ClassicBench(**options)  # type: ignore[arg-type]
    bench.join("A")
    bench.join("B")
    bench.send_join("A")
    bench.joined("B")
    assert (bench.state, bench.generation) == (COMPLETING, 2)
    if isinstance(bench.shard, HoldingShard):
        bench.shard.commit()
    return bench


# -- the assignment ------------------------------------------------------------------------


def test_everybody_gets_its_share_when_the_leaders_record_is_committed() -> None:
    bench = completing(holds_commits=True)
    assert bench.sync("B") is None
    assert bench.sync("A", give={"A": (0, 1), "B": (2, 3)}) is None
    assert bench.wrote() == "2"
    assert bench.state is COMPLETING
    assert not bench.shard.answers
    held(bench).commit()
    assert bench.state is STABLE
    leader, follower = bench.synced("A"), bench.synced("B")
    assert leader is not None and follower is not None
    assert (spelled(leader.assignment), spelled(follower.assignment)) == ([0, 1], [2, 3])
    assert (leader.protocol_type, leader.protocol_name) == ("consumer", "range")


def test_a_follower_that_syncs_later_is_answered_at_once() -> None:
    bench = completing()
    bench.sync("A", give={"A": (0, 1), "B": (2, 3)})
    response = bench.sync("B")
    assert response is not None
    assert spelled(response.assignment) == [2, 3]
    assert not bench.group.pending_sync
    assert "classic-sync" not in bench.timers()


def test_who_is_forgotten_gets_no_assignment_and_made_up_ids_are_ignored() -> None:
    bench = completing()
    bench.sync("A", give={"A": (0,), "no one": (1, 2, 3)})
    response = bench.sync("B")
    assert response is not None
    assert response.assignment is None
    assert set(bench.group.members) == {bench.id("A"), bench.id("B")}


def test_the_record_holds_the_metadata_of_the_selected_protocol_and_the_time_of_the_join() -> None:
    bench = ClassicBench()
    bench.join("A", protocols=("range", "sticky"), metadata=subscription(generation=7))
    bench.wait(250)
    bench.sync("A", give={"A": (0, 1, 2, 3)})
    _, (record,) = bench.shard.batches[-1]
    assert isinstance(record, GroupMetadata) and record.value is not None
    value = record.value
    assert (value.generation, value.protocol, value.leader) == (1, "range", bench.id("A"))
    assert value.current_state_timestamp == 0
    (member,) = value.members
    assert member.subscription == subscription(generation=7)
    assert spelled(member.assignment) == [0, 1, 2, 3]
    assert bench.group.state_timestamp_ms == 250


def test_an_assignment_that_commits_after_another_rebalance_began_counts_for_nothing() -> None:
    bench = completing(holds_commits=True)
    bench.sync("A", give={"A": (0, 1), "B": (2, 3)})
    bench.send_join("B", metadata=subscription(generation=2))
    assert codes(bench.synced("A")) == [ErrorCode.REBALANCE_IN_PROGRESS]
    held(bench).commit()
    assert bench.state is PREPARING
    assert bench.group.members[bench.id("A")].assignment is None


def test_an_assignment_of_an_older_generation_counts_for_nothing() -> None:
    bench = completing(holds_commits=True)
    bench.sync("A", give={"A": (0, 1), "B": (2, 3)})
    bench.send_join("B", metadata=subscription(generation=2))
    bench.send_join("A", metadata=subscription(generation=2))
    assert (bench.state, bench.generation) == (COMPLETING, 3)
    held(bench).commit()
    assert bench.state is COMPLETING


def test_a_failed_write_starts_the_group_over() -> None:
    bench = completing(holds_commits=True)
    bench.sync("B")
    bench.sync("A", give={"A": (0, 1), "B": (2, 3)})
    held(bench).fail(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert codes(bench.synced("A"), bench.synced("B")) == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2
    assert (bench.state, bench.generation) == (PREPARING, 2)
    assert "classic-join" in bench.timers()


def test_a_rebalance_answers_every_parked_sync_and_renews_its_session() -> None:
    bench = completing()
    bench.wait(SESSION_MS - 1)
    bench.beat("A")
    bench.sync("B")
    bench.wait(SESSION_MS - 1)
    bench.join("C")
    assert codes(bench.synced("B")) == [ErrorCode.REBALANCE_IN_PROGRESS]
    assert bench.due_ms("classic-session", "B") == bench.shard.now_ms + SESSION_MS


# -- refusals ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"generation": 1}, ErrorCode.ILLEGAL_GENERATION),
        ({"generation": 3}, ErrorCode.ILLEGAL_GENERATION),
        ({"protocol": "sticky"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"instance": "i"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"protocol": None, "protocol_type": None}, None),
        ({}, None),
    ],
)
def test_who_may_sync(fields: dict[str, object], code: ErrorCode | None) -> None:
    bench = completing()
    response = bench.sync("B", **fields)  # type: ignore[arg-type]
    assert codes(response) == [code]
    if response is not None:
        assert (response.protocol_name, response.assignment) == (None, None)


def test_in_the_first_join_phase_no_assignor_is_the_wrong_one() -> None:
    """``GroupMetadataManager.isProtocolInconsistent``: what is not there differs from nothing."""
    bench = ClassicBench(delay_ms=3_000)
    bench.join("A")
    assert codes(bench.sync("A", protocol="sticky")) == [ErrorCode.REBALANCE_IN_PROGRESS]


def test_a_sync_is_answered_with_the_assignor_that_it_names_and_its_sender_offers() -> None:
    bench = ClassicBench(SEMANTICS["kafka-4.3-clean"])
    bench.join("A", protocols=("range", "sticky"))
    bench.sync("A", give={"A": (0,)})
    response = bench.sync("A", protocol="sticky")
    assert response is not None
    assert (response.protocol_name, spelled(response.assignment)) == ("sticky", [0])
    assert codes(bench.sync("A", protocol="roundrobin")) == [ErrorCode.INCONSISTENT_GROUP_PROTOCOL]


def test_no_one_syncs_in_a_group_that_is_missing_or_empty() -> None:
    bench = ClassicBench()
    assert codes(bench.sync("A", generation=1)) == [ErrorCode.UNKNOWN_MEMBER_ID]
    bench.send_join("A")
    assert codes(bench.sync("A", generation=0)) == [ErrorCode.UNKNOWN_MEMBER_ID]


def test_a_sync_during_the_join_phase_is_told_so_after_its_generation_is_checked() -> None:
    bench = ClassicBench().stable("A", "B")
    bench.join("C")
    assert codes(bench.sync("B")) == [ErrorCode.REBALANCE_IN_PROGRESS]
    assert codes(bench.sync("B", generation=1)) == [ErrorCode.ILLEGAL_GENERATION]


# -- the deadline --------------------------------------------------------------------------


def test_who_does_not_sync_in_time_is_out_and_the_others_start_over() -> None:
    bench = ClassicBench().stable("A", "B", rebalance_ms=5_000)
    bench.send_join("A", rebalance_ms=5_000)
    bench.send_join("B", rebalance_ms=5_000)
    bench.joined("A")
    bench.sync("B")
    bench.wait(4_999)
    assert bench.beat("A") is ErrorCode.NONE, "a heartbeat does not stand for the sync"
    assert bench.members() == {"A", "B"}
    bench.wait(1)
    assert bench.members() == {"B"}
    assert codes(bench.synced("B")) == [ErrorCode.REBALANCE_IN_PROGRESS]
    assert bench.state is PREPARING


def test_a_static_member_that_does_not_sync_is_out_as_well() -> None:
    bench = ClassicBench()
    bench.join("A", instance="i", rebalance_ms=5_000)
    bench.wait(5_000)
    assert bench.state is ClassicGroupState.EMPTY
    assert bench.generation == 2
    assert bench.wrote() == "2"


def test_the_deadline_also_holds_in_a_stable_group() -> None:
    bench = completing()
    bench.sync("A", give={"A": (0, 1), "B": (2, 3)})
    assert bench.state is STABLE
    for _ in range(3):
        bench.wait(SESSION_MS - 1)
        bench.beat("A")
        bench.beat("B")
    assert bench.members() == {"A"}


def test_a_deadline_of_an_older_generation_does_nothing() -> None:
    bench = completing()
    deadline = bench.shard.timers[next(k for k in bench.shard.timers if k.kind == "classic-sync")]
    assert deadline.epoch == 2
    outcome = bench.shard.coordinator.fire(deadline.key, epoch=1, now_ms=bench.shard.now_ms)
    assert (outcome.records, outcome.timers, outcome.completions) == ((), (), ())
    assert bench.state is COMPLETING


def test_a_deadline_that_runs_out_after_the_last_sync_does_nothing() -> None:
    bench = completing()
    key = next(k for k in bench.shard.timers if k.kind == "classic-sync")
    bench.settle()
    outcome = bench.shard.coordinator.fire(key, epoch=2, now_ms=bench.shard.now_ms)
    assert (outcome.records, outcome.timers, outcome.completions) == ((), (), ())
    assert bench.state is STABLE


# -- heartbeats ----------------------------------------------------------------------------


def test_heartbeats_tell_the_state_and_renew_the_session() -> None:
    bench = completing()
    bench.wait(1_000)
    assert bench.beat("B") is ErrorCode.NONE, "not REBALANCE_IN_PROGRESS while it completes"
    assert bench.due_ms("classic-session", "B") == bench.shard.now_ms + SESSION_MS
    bench.settle()
    bench.wait(1_000)
    assert bench.beat("B") is ErrorCode.NONE
    bench.join("C")
    bench.wait(1_000)
    assert bench.beat("B") is ErrorCode.REBALANCE_IN_PROGRESS
    assert bench.due_ms("classic-session", "B") == bench.shard.now_ms + SESSION_MS


@pytest.mark.parametrize(
    ("name", "generation", "instance", "code"),
    [
        ("B", 1, None, ErrorCode.ILLEGAL_GENERATION),
        ("B", 3, None, ErrorCode.ILLEGAL_GENERATION),
        ("no one", 2, None, ErrorCode.UNKNOWN_MEMBER_ID),
        ("B", 2, "i", ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_a_wrong_heartbeat_is_refused_and_renews_nothing(
    name: str, generation: int, instance: str | None, code: ErrorCode
) -> None:
    bench = completing()
    due_ms = bench.due_ms("classic-session", "B")
    bench.wait(100)
    assert bench.beat(name, generation=generation, instance=instance) is code
    assert bench.due_ms("classic-session", "B") == due_ms


def test_a_heartbeat_to_nothing_is_from_an_unknown_member() -> None:
    assert ClassicBench().beat("A", generation=1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_answer_from_a_stable_group_does_not_renew_the_session() -> None:
    bench = ClassicBench().stable("A", "B")
    due_ms = bench.due_ms("classic-session", "B")
    bench.wait(500)
    assert codes(bench.sync("B")) == [ErrorCode.NONE]
    assert bench.due_ms("classic-session", "B") == due_ms
