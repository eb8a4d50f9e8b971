"""Each timer of a member says how many members it has removed, for both protocols."""

from __future__ import annotations

import pytest
from classic_builders import GROUP_ID, TIMER_KINDS, ClassicBench
from mixed_builders import mixed

from rebalance_sim.protocol.runtime.outcome import TimerKey


def timed_out(bench: ClassicBench, kind: str, name: str = "") -> int:
    """What a timer that is armed says when it fires."""
    key = TimerKey(TIMER_KINDS[kind], GROUP_ID, bench.id(name) if name else "")
    timer = bench.shard.timers[key]
    fired = bench.shard.coordinator.fire(key, epoch=timer.epoch, now_ms=timer.at_ms)
    return fired.timed_out


def test_a_session_that_runs_out_removes_one_member() -> None:
    assert timed_out(ClassicBench().stable("A", "B"), "classic-session", "B") == 1


def test_a_session_of_an_id_that_was_not_used_removes_no_member() -> None:
    bench = ClassicBench().stable("A")
    bench.send_join("B")
    assert timed_out(bench, "classic-session", "B") == 0


def test_a_join_phase_that_runs_out_removes_those_who_have_not_joined_again() -> None:
    bench = ClassicBench().stable("A", "B", "C")
    bench.send_join("A", reason="more")
    assert timed_out(bench, "classic-join") == 2


def test_an_initial_delay_that_is_over_removes_no_member() -> None:
    bench = ClassicBench(delay_ms=3_000)
    bench.join("A")
    assert timed_out(bench, "classic-join") == 0


def test_a_sync_phase_that_runs_out_removes_those_who_have_not_synced() -> None:
    bench = ClassicBench().stable("A")
    bench.join("B")
    bench.send_join("A")
    assert bench.joined("B")
    bench.sync("B")
    assert timed_out(bench, "classic-sync") == 1


@pytest.mark.parametrize("kind", ["session", "mixed-join", "mixed-sync"])
def test_each_timer_of_a_member_in_a_mixed_group_removes_one_member(kind: str) -> None:
    bench = mixed()
    if kind == "mixed-join":
        bench.consume("Y")
        bench.beat("A", generation=3)
    elif kind == "mixed-sync":
        bench.join("A")
    assert timed_out(bench, kind, "A") == 1


def test_a_revocation_that_is_not_acknowledged_removes_one_member() -> None:
    bench = ClassicBench()
    bench.consume("X")
    bench.consume("Y")
    bench.consume("X", 2)
    assert timed_out(bench, "rebalance", "X") == 1
