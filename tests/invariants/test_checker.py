"""The checker: what it reports, when it stops, and what a steady heartbeat costs."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import pytest
from client_world import ClientWorld
from coordinator_world import FIRST, GROUP, ORDERS, CoordinatorWorld, OneShard
from falsified_coordinator import current, parts_of, settled
from falsified_requests import fetch_of

from rebalance_sim.invariants.engine.discovery import INVARIANTS
from rebalance_sim.invariants.engine.listeners import Listeners
from rebalance_sim.invariants.laws import log
from rebalance_sim.invariants.property import Finding, Interest, Property
from rebalance_sim.invariants.step import StepKind
from rebalance_sim.protocol.clients.common.events import CommitAnswered
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.offset_messages import OffsetCommitResponse
from rebalance_sim.protocol.wire.records import OffsetCommit, OffsetCommitValue, TxnOffsetCommit
from rebalance_sim.protocol.wire.topics import TopicPartition


class Counting(Property):
    """Counts how often it is asked, and finds nothing."""

    id = "test.counting"
    sentence = "Nothing is counted."
    asked: ClassVar[list[str]] = []

    def on_heartbeat(self, step, before) -> None:
        self.asked.append("on_heartbeat")

    def on_change(self, step, change) -> None:
        self.asked.append("on_change")

    def on_sent(self, step, entry, request, state) -> None:
        self.asked.append("on_sent")

    def on_effects(self, step, entry) -> None:
        self.asked.append("on_effects")

    def on_moved(self, step, entry) -> None:
        self.asked.append("on_moved")


def test_it_stops_at_the_first_violation_and_says_where():
    """The shadow model is of no use after that."""
    world = CoordinatorWorld()
    world.join("a")
    world.write(current("b", 2, [0]))
    assert world.checker.is_stopped
    assert len(world.violated) == 1
    assert world.first.step_index == 5
    assert str(world.first).startswith("coordinator.exclusive_ownership at step 5 (0 ms): orders-0")
    world.write(current("a", 9))
    assert len(world.violated) == 1


def test_it_goes_on_if_asked_to_and_reports_each_property_once():
    """A run that continues shows all properties that one defect violates."""
    world = settled()
    everything = [*parts_of(world, "a"), *parts_of(world, "b")]
    for _ in range(3):
        world.write(current("a", 4, everything))
    assert len(set(world.violated)) == len(world.violated) > 1


def test_steady_heartbeats_reach_no_invariant():
    """What was right the last time, and is repeated, needs no judgement."""
    world = ClientWorld("a", "b", properties=(Counting,))
    Counting.asked.clear()
    world.run_for(60_000)
    assert Counting.asked == []


def test_a_steady_heartbeat_would_be_found_right_by_everybody(monkeypatch):
    """The short cut changes nothing: without it the verdict is the same."""
    world = ClientWorld("a", "b", stop_at_first=False)
    monkeypatch.setattr(type(world.checker), "_is_steady", lambda *_: False)
    world.run_for(60_000)
    assert world.violated == []


def test_a_full_check_comes_after_as_many_steps_as_asked_for():
    """And after more of them, where the group is larger than that."""
    world = CoordinatorWorld(full_every=10)
    for number in range(25):
        world.join(f"m{number:02}", "missing")
    assert world.checker.full_count >= 3
    before = world.checker.full_count
    for number in range(25, 50):
        world.join(f"m{number:02}", "missing")
    assert world.checker.full_count - before < before


def test_no_full_check_comes_unasked():
    """0 turns it off."""
    world = CoordinatorWorld(full_every=0)
    world.join("a")
    assert world.checker.full_count == 0


def deposed() -> tuple[CoordinatorWorld, OneShard]:
    """A new leader has loaded the log and gone on; the old one has not noticed."""
    world = settled()
    old = world.shard
    new = OneShard("broker-1", world.new_coordinator())
    new.leader_epoch, new.log, new.high_watermark = 1, list(old.log), old.high_watermark
    world.shard = new
    world.load()
    world.heartbeat("a", -1)
    world.shard = old
    return world, new


def test_a_deposed_leader_has_books_of_its_own():
    """It continues from its own log, and does not confuse those of the new leader."""
    world, new = deposed()
    world.commits_at_once = False
    world.join("c")
    world.shard = new
    world.heartbeat("b", 3)
    assert world.violated == []


def test_a_deposed_leader_does_not_serve_the_group_even_if_no_one_else_does():
    """Clients are not held against what was never committed."""
    world, new = deposed()
    assert world.checker.model.acting_ledger() is None
    world.shard = new
    assert world.checker.model.acting_ledger() is not None


def test_two_leaders_that_both_commit_are_found():
    """One offset is committed twice, with different records."""
    world, _ = deposed()
    world.join("c")
    assert world.violated == ["log.committed_kept"]


def test_a_commit_that_is_seen_during_a_load_forgets_nothing_that_was_committed_before():
    """A new leader that hears how far its log is committed while it loads, and lacks a record."""
    world = settled()
    new = OneShard("broker-1", world.new_coordinator())
    new.leader_epoch, new.is_active = 1, False
    new.log = world.shard.log[:-1]
    new.high_watermark = new.log_end_offset
    world.show(StepKind.LOG_TRUNCATED, shard=new)
    new.log = [*new.log, new.log[-1]]
    new.high_watermark = new.log_end_offset
    world.show(StepKind.LOG_COMMITTED, shard=new)
    new.is_active, world.shard = True, new
    world.load()
    assert "log.committed_kept" in world.violated


@pytest.mark.parametrize("is_stable", [True, False])
def test_what_is_pending_is_known_after_a_load_whoever_fetched_before(is_stable):
    """A fetch that does not wait has offsets looked at before there are transactions."""
    world = settled()
    world.request(replace(fetch_of("a", 3), require_stable=is_stable))
    world.write(TxnOffsetCommit(GROUP, ORDERS.name, 0, 1, 0, OffsetCommitValue(5, 0)))
    world.restart()
    refused = {FIRST: ErrorCode.UNSTABLE_OFFSET_COMMIT}
    assert (world.request(fetch_of("a", 3)).errors, world.violated) == (refused, [])


def test_every_invariant_can_be_switched_off_by_leaving_it_out():
    """A visible decision: the checker takes the list."""
    kinds = tuple(k for k in INVARIANTS if k.id != "coordinator.exclusive_ownership")
    world = CoordinatorWorld(properties=kinds, stop_at_first=False)
    world.join("a")
    world.write(current("a", 2, [0, 1, 2, 3]))
    assert "coordinator.exclusive_ownership" not in world.violated


def test_a_fault_step_is_taken_without_complaint():
    """It changes nothing that is checked."""
    world = settled()
    world.show(StepKind.FAULT, detail="nothing happens")
    assert world.violated == []


class OfRefusals(Property):
    """Is asked about refused commits alone."""

    id = "test.of_refusals"
    sentence = "No commit is refused."
    interest = Interest(events=(), refusals=(CommitAnswered,))

    def on_event(self, step, entry) -> Finding | None:
        return Finding("one was")


def test_an_answer_without_an_error_is_not_asked_of_who_wants_refusals():
    """One partition that was refused is enough."""
    world = CoordinatorWorld()
    chosen = Listeners([OfRefusals(world.checker.model)], world.checker.visits)
    good = {TopicPartition("t", 0): ErrorCode.NONE}
    bad = {**good, TopicPartition("t", 1): ErrorCode.STALE_MEMBER_EPOCH}
    asked = []
    for errors in (good, bad):
        event = CommitAnswered(correlation_id=1, response=OffsetCommitResponse(errors=errors))
        asked.append(len(chosen.of_event(event)))
    assert asked == [0, 1]


class OfTombstones(Property):
    """Is asked about what is written beside commits."""

    id = "test.of_tombstones"
    sentence = "Nothing is written but commits."
    interest = Interest(is_beyond_commits=True)

    def on_append(self, step) -> Finding | None:
        return Finding("something was")


@pytest.mark.parametrize(("values", "is_asked"), [((1, 2), False), ((1, None), True)])
def test_who_wants_more_than_commits_is_asked_where_one_offset_is_deleted(values, is_asked):
    """A batch of offsets that are stored is none of its business."""
    world = CoordinatorWorld(properties=(OfTombstones,))
    records = [
        OffsetCommit("g", "t", n, None if offset is None else OffsetCommitValue(offset, 0))
        for n, offset in enumerate(values)
    ]
    world.write(*records)
    assert world.violated == (["test.of_tombstones"] if is_asked else [])


def long_committed(monkeypatch) -> CoordinatorWorld:
    """A world that has committed more than is kept record by record."""
    monkeypatch.setattr(log.CommittedKept, "kept", 4)
    world = settled()
    for number in range(20):
        world.join(f"m{number:02}", "missing")
    return world


def test_what_is_kept_of_committed_records_does_not_grow(monkeypatch):
    """A long run needs no more memory for it, and a leader that has everything is right."""
    world = long_committed(monkeypatch)
    world.restart(list(world.shard.log))
    world.join("last")
    (kept,) = (i for i in world.checker._invariants if type(i) is log.CommittedKept)
    assert len(world.shard.log) > 40
    assert len(kept._recent) <= 16
    assert kept._end == world.shard.high_watermark
    assert world.violated == []


def test_a_record_that_was_committed_long_ago_is_missed_by_a_new_leader(monkeypatch):
    """Compacted is not forgotten."""
    world = long_committed(monkeypatch)
    log = list(world.shard.log)
    place = next(i for i, r in enumerate(log) if getattr(r, "member_id", "") == "m00")
    log[place] = current("somebody", 1, [])
    world.restart(log)
    assert "log.committed_kept" in world.violated
