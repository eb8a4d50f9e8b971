"""Timers, fencing by timers, and the assignment interval (coordinator §4.1-§4.3)."""

from __future__ import annotations

from typing import Any

import pytest
from coordinator_builders import Bench, assert_refused, both_versions, parts

from rebalance_sim.protocol.wire.consumer_messages import AlterGroupConfigRequest

SESSION_MS = 45_000


def revoking(version: str = "kafka-4.3", **config: Any) -> Bench:
    """A is told to revoke foo-2, and B waits for it."""
    bench = Bench(version, **config)
    bench.join("A", rebalance_timeout_ms=20_000)
    bench.join("B", rebalance_timeout_ms=20_000)
    bench.beat("A")
    assert bench.pending("A") == "foo-2"
    return bench


# -- 4.1 the session -----------------------------------------------------------------------


@both_versions
def test_every_heartbeat_restarts_the_session_and_its_end_removes_the_member(version: str) -> None:
    bench = Bench(version)
    bench.join("A")
    bench.join("B")
    bench.settle()
    bench.wait(30_000)
    bench.beat("A")
    assert bench.timer_at("session", "A") == SESSION_MS
    assert bench.timer_at("session", "B") == 15_000
    bench.wait(14_999)
    assert bench.wrote == ""
    bench.wait(1)
    assert bench.wrote == "8†B 7†B 5†B 3"
    assert bench.state == "Assigning"
    message = "Member B is not a member of group group."
    assert_refused(bench.beat("B", epoch=3), "UNKNOWN_MEMBER_ID", message)


def test_neither_commits_nor_fetches_nor_refusals_nor_leaves_restart_a_session() -> None:
    bench = Bench()
    bench.join("A", instance_id="i")
    bench.wait(1_000)
    epoch = bench.member("A").member_epoch
    bench.commit("A", epoch, {"foo-0": 1})
    bench.fetched("foo-0", member_id="A", member_epoch=epoch)
    bench.beat("A", epoch=epoch + 1)
    bench.describe()
    bench.go_away("A", "i")
    assert bench.timer_at("session", "A") == SESSION_MS - 1_000


def test_a_generated_id_has_a_session_too() -> None:
    bench = Bench()
    response = bench.join("", api_version=0)
    assert bench.timer_at("session", response.member_id or "") == SESSION_MS


def test_two_sessions_that_end_together_bump_twice() -> None:
    bench = Bench()
    bench.join("A")
    bench.join("B")
    bench.wait(SESSION_MS)
    assert bench.wrote == "8†A 7†A 5†A 3 8†B 7†B 5†B 3"
    assert bench.state == "Empty"


def test_a_timer_of_somebody_unknown_does_nothing() -> None:
    bench = revoking()
    session, rebalance = bench.timer("session", "A"), bench.timer("rebalance", "A")
    assert session is not None
    assert rebalance is not None
    coordinator = bench.shard.coordinator
    bench.leave("A")
    for timer in (session, rebalance):
        assert coordinator.fire(timer.key, epoch=timer.epoch, now_ms=1).records == ()
    empty = Bench().shard.coordinator
    assert empty.fire(session.key, now_ms=1).records == ()


# -- 4.1 the rebalance timer ---------------------------------------------------------------


@both_versions
def test_the_rebalance_timer_starts_when_the_member_is_told_and_not_at_the_bump(
    version: str,
) -> None:
    bench = Bench(version)
    bench.join("A", rebalance_timeout_ms=20_000)
    bench.join("B", rebalance_timeout_ms=20_000)
    assert bench.timer("rebalance", "A") is None
    assert bench.timer("rebalance", "B") is None  # Who only waits has none.
    bench.wait(3_000)
    bench.beat("A")
    assert bench.timer_at("rebalance", "A") == 20_000


@both_versions
def test_idle_heartbeats_do_not_prolong_a_revocation(version: str) -> None:
    bench = revoking(version)
    bench.wait(15_000)
    bench.beat("A")
    bench.beat("A", owned="foo[0-2]")
    assert bench.timer_at("rebalance", "A") == 5_000
    bench.beat("B")
    bench.wait(5_000)
    assert bench.wrote == "8†A 7†A 5†A 3"
    bench.beat("B")
    assert bench.assigned("B") == "foo-0 foo-1 foo-2"


@both_versions
def test_an_acknowledgement_ends_the_rebalance_timer(version: str) -> None:
    bench = revoking(version)
    bench.beat("A", owned="foo[0,1]")
    assert bench.timer("rebalance", "A") is None


def test_the_timeout_is_that_of_the_member_at_this_moment() -> None:
    bench = revoking()
    bench.beat("A", rebalance_timeout_ms=1_000)
    assert bench.timer_at("rebalance", "A") == 20_000
    bench.beat("A", owned="foo[0,1]")
    bench.join("C")
    bench.beat("A")
    assert bench.timer_at("rebalance", "A") == 1_000


@both_versions
def test_a_second_revocation_starts_the_timer_anew(version: str) -> None:
    bench = revoking(version)
    bench.wait(5_000)
    bench.join("C")
    bench.beat("A", owned="foo[0,1]")
    assert bench.pending("A") == "foo-1"
    timer = bench.timer("rebalance", "A")
    assert timer is not None
    assert bench.timer_at("rebalance", "A") == 20_000
    assert timer.epoch == bench.member("A").member_epoch


def test_a_rebalance_timer_of_an_earlier_epoch_does_nothing() -> None:
    bench = revoking()
    timer = bench.timer("rebalance", "A")
    assert timer is not None
    coordinator = bench.shard.coordinator
    assert coordinator.fire(timer.key, epoch=timer.epoch - 1, now_ms=1).records == ()
    assert coordinator.fire(timer.key, epoch=timer.epoch, now_ms=1).records != ()


# -- 9.5 after a load ----------------------------------------------------------------------


def test_a_load_arms_full_timeouts_for_everybody() -> None:
    bench = revoking()
    bench.join("S", instance_id="i")
    bench.go_away("S", "i")
    bench.wait(10_000)
    bench.shard.restart()
    assert {m: bench.timer_at("session", m) for m in "ABS"} == dict.fromkeys("ABS", SESSION_MS)
    assert bench.timer_at("rebalance", "A") == 20_000
    assert bench.timer("rebalance", "B") is None
    bench.beat("B")
    bench.wait(20_000)
    assert "A" not in bench.group.members


def test_a_load_computes_nothing_but_the_first_heartbeat_looks_at_topics() -> None:
    bench = Bench()
    bench.join("A")
    bench.join("B")
    bench.leave("B")
    bench.shard.restart()
    assert bench.state == "Assigning"
    bench.beat("A")
    assert bench.wrote == "7A 6 8A"
    topics_seen = bench.group.metadata_hash
    bench.shard.timers.clear()
    grown = Bench(topics={"foo": 4})
    for record in bench.shard.log:
        grown.shard.coordinator.replay(record, strict=False)
    assert grown.group.metadata_hash == topics_seen
    grown.beat("A")
    assert grown.wrote == "3 7A 6 8A"


# -- 4.3 the assignment interval -----------------------------------------------------------


def with_interval(version: str = "kafka-4.3", interval_ms: int = 1_000, **options: Any) -> Bench:
    """A bench whose time has begun: a target of time 0 is one of no known time."""
    bench = Bench(version, group_consumer_assignment_interval_ms=interval_ms, **options)
    bench.wait(1)
    return bench


def test_4_1_has_no_assignment_interval() -> None:
    bench = with_interval("kafka-4.1")
    for number, member_id in enumerate("ABC", start=1):
        bench.join(member_id)
        assert bench.epochs == (number, number)


def test_the_first_target_is_immediate_and_later_ones_wait() -> None:
    bench = with_interval()
    assert bench.join("A").assignment == parts("foo[0-2]")
    assert bench.group.target_assignment_timestamp == 1
    response = bench.join("B")
    assert bench.wrote == "5B 3 8B"
    assert (bench.epochs, bench.state) == ((3, 2), "Assigning")
    assert (response.member_epoch, response.assignment) == (2, frozenset())
    assert bench.view("B") == "2/0 STABLE -"
    bench.join("C")
    bench.beat("B")
    bench.beat("A")
    assert bench.wrote == ""
    bench.wait(999)
    bench.beat("A")
    assert bench.wrote == ""
    bench.wait(1)
    assert bench.wrote == ""
    response = bench.beat("C")
    assert bench.wrote == "7A 7B 7C 6 8C"
    assert bench.epochs == (4, 4)
    assert response.member_epoch == 4
    assert bench.group.target_assignment_timestamp == 1_001


def test_what_a_departed_member_had_stays_unassigned_until_the_next_target() -> None:
    bench = with_interval()
    bench.join("A")
    bench.join("B")
    bench.wait(1_000)
    bench.settle()
    bench.leave("B")
    assert bench.wrote == "8†B 7†B 5†B 3"
    bench.beat("A")
    assert bench.wrote == ""
    bench.wait(1_000)
    assert bench.beat("A").assignment == parts("foo[0-2]")


def test_a_grown_topic_bumps_at_once_and_is_assigned_later() -> None:
    bench = with_interval()
    bench.join("A")
    bench.set_topic("foo", 4)
    bench.beat("A")
    assert bench.wrote == "3"
    bench.wait(1_000)
    bench.beat("A")
    assert bench.wrote == "7A 6 8A"


def test_an_unsubscribed_topic_is_given_up_within_the_interval() -> None:
    """coordinator §3.4; the answer shows the smaller assignment, an empty one included."""
    bench = with_interval(topics={"foo": 1, "bar": 1})
    bench.join("A", "bar foo")
    response = bench.beat("A", topics="bar")
    assert bench.wrote == "5A 3 8A"
    assert bench.view("A") == "2/2 UNREVOKED bar-0 (foo-0)"
    assert response.assignment == parts("bar[0]")
    assert bench.timer_at("rebalance", "A") == 60_000
    bench.wait(500)
    response = bench.beat("A", topics="")
    assert bench.view("A") == "2/2 UNREVOKED - (bar-0 foo-0)"
    assert response.assignment == frozenset()
    assert bench.timer_at("rebalance", "A") == 60_000
    bench.beat("A", owned="")
    assert bench.view("A") == "2/2 STABLE -"
    assert bench.timer("rebalance", "A") is None


def test_a_topic_already_let_go_is_given_up_without_a_revocation() -> None:
    bench = with_interval(topics={"foo": 1, "bar": 1})
    bench.join("A", "bar foo")
    bench.beat("A", owned="bar[0]", topics="bar")
    assert bench.view("A") == "2/2 STABLE bar-0"
    assert bench.group.epoch_of(next(iter(parts("foo[0]")))) == -1


@pytest.mark.parametrize("broker_ms", [0, 1_000])
def test_a_group_may_have_its_own_interval(broker_ms: int) -> None:
    bench = with_interval(interval_ms=broker_ms)
    settings = {"consumer.assignment.interval.ms": 300}
    bench.send(AlterGroupConfigRequest(group_id="group", configs=settings))
    bench.join("A")
    bench.join("B")
    assert bench.epochs == (3, 2)
    bench.wait(300)
    bench.beat("B")
    assert bench.epochs == (3, 3)


def test_the_time_of_the_last_target_survives_a_restart() -> None:
    bench = with_interval()
    bench.join("A")
    bench.join("B")
    bench.wait(500)
    bench.shard.restart()
    bench.beat("A")
    assert bench.epochs == (3, 2)
    bench.wait(500)
    bench.beat("A")
    assert bench.epochs == (3, 3)
