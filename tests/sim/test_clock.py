"""The clock: order, ties, and where it stops."""

from __future__ import annotations

import simpy

from rebalance_sim.sim.clock import EVENTS_AT_ONE_INSTANT, Clock


def note(seen: list[tuple[int, str]], clock: Clock) -> object:
    def call(argument: object) -> None:
        seen.append((clock.now_ms, argument))

    return call


def test_calls_happen_in_order_of_time_then_of_priority() -> None:
    clock, seen = Clock(), []
    call = note(seen, clock)
    clock.call_at(5, 0.9, call, "late choice")
    clock.call_at(7, 0.1, call, "later")
    clock.call_at(5, 0.2, call, "early choice")
    clock.run_until(10)
    assert seen == [(5, "early choice"), (5, "late choice"), (7, "later")]


def test_ties_are_counted() -> None:
    clock, seen = Clock(), []
    for at_ms in (3, 3, 3, 4, 6, 6):
        clock.call_at(at_ms, 0.5, note(seen, clock))
    clock.run_until(10)
    assert clock.tie_count == 3


def test_the_end_of_a_run_belongs_to_the_next() -> None:
    clock, seen = Clock(), []
    clock.call_at(10, 0.5, note(seen, clock), "at the border")
    assert clock.run_until(10)
    assert seen == []
    assert clock.now_ms == 10
    clock.run_until(11)
    assert seen == [(10, "at the border")]


def test_a_budget_stops_the_clock_where_it_is() -> None:
    clock, seen = Clock(), []
    clock.call_at(1, 0.5, note(seen, clock), "before")
    clock.call_at(2, 0.5, lambda _: clock.stop())
    clock.call_at(3, 0.5, note(seen, clock), "after")
    assert not clock.run_until(10)
    assert clock.now_ms == 2
    assert seen == [(1, "before")]
    assert clock.run_until(10)
    assert seen == [(1, "before"), (3, "after")]


def test_a_time_that_has_passed_means_now() -> None:
    clock, seen = Clock(), []
    clock.run_until(10)
    clock.call_at(3, 0.5, note(seen, clock), "overdue")
    clock.run_until(20)
    assert seen == [(10, "overdue")]


def test_ordinary_processes_of_simpy_run_on_the_same_clock() -> None:
    clock, seen = Clock(), []

    def process(env: simpy.Environment) -> object:
        yield env.timeout(4)
        seen.append(env.now)

    clock.process(process(clock))
    clock.run_until(10)
    assert seen == [4]


def test_a_clock_that_stands_still_is_stopped() -> None:
    clock = Clock()

    def again(_: None) -> None:
        clock.call_at(clock.now_ms, 0.5, again)

    clock.call_at(7, 0.5, again)
    assert not clock.run_until(10)
    assert (clock.stands_still, clock.now_ms) == (True, 7)
    assert clock.events_now == EVENTS_AT_ONE_INSTANT + 2


def test_many_events_at_each_of_many_instants_are_no_standstill() -> None:
    clock, seen = Clock(), []
    instants = 3
    for at_ms in range(instants):
        for _ in range(EVENTS_AT_ONE_INSTANT // 2):
            clock.call_at(at_ms, 0.5, note(seen, clock))
    assert clock.run_until(10)
    assert not clock.stands_still
    assert len(seen) == instants * (EVENTS_AT_ONE_INSTANT // 2)
