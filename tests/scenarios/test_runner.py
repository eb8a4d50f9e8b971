"""A run ends in one of six ways, and never with an exception."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from rebalance_sim.invariants.engine.discovery import PROPERTIES
from rebalance_sim.invariants.property import Kind, Property, Stuck, Violation
from rebalance_sim.invariants.step import Step, WorldView
from rebalance_sim.scenarios.defects import defect_scenario
from rebalance_sim.scenarios.result import OUTCOMES, RunResult
from rebalance_sim.scenarios.runner import run
from rebalance_sim.scenarios.scenario import parse_scenario
from rebalance_sim.sim.client.client_spec import OffsetReset
from rebalance_sim.sim.trace import FullTrace

SCENARIO = parse_scenario("""
name = "two members"

[world]
seed = 3
duration_ms = 10_000
quiet_period_ms = 10_000
topics = [{ name = "orders", partition_count = 4 }]

[[world.clients]]
name = "a"
topics = ["orders"]

[[world.clients]]
name = "b"
topics = ["orders"]
""")


class Exclusive(Property):
    id = "ownership.exclusive"
    sentence = "One owner at a time."


class Converges(Property):
    id = "liveness.converges"
    sentence = "It comes to rest."
    kind = Kind.EVENTUALLY


class LivenessCheck:
    """Judges the quiet period as a test says."""

    bound_ms = 15_000

    def __init__(self) -> None:
        self.since_ms = -1
        self.late: list[Stuck] = []

    def on_quiet_period_start(self, at_ms: int) -> None:
        self.since_ms = at_ms

    @property
    def due_ms(self) -> int:
        return self.bound_ms

    def not_judged(self, at_ms: int) -> str:
        return "" if at_ms >= self.bound_ms else "the quiet period ends too early"

    def verdict(self, at_ms: int) -> list[Stuck]:
        return self.late if (self.since_ms, at_ms) == (10_000, 20_000) else []


class Watcher:
    """Watches nothing, until a test teaches it what to find or to do at a step."""

    def __init__(self, view: WorldView) -> None:
        self.view = view
        self.violations: list[Violation] = []
        self.suspected: list[tuple[Violation, int]] = []
        self.at_step: dict[int, Callable[[Watcher, Step], Any]] = {}
        self.ending: Callable[[Watcher], Any] = lambda watcher: None
        self.liveness = LivenessCheck()

    def after_step(self, step: Step) -> None:
        self.at_step.get(step.index, lambda watcher, step: None)(self, step)

    def at_end(self) -> None:
        self.ending(self)

    def coverage(self) -> dict[str, int]:
        return {"watcher.seen": 1}

    def find(self, item: type[Property], step: int = 0) -> None:
        self.violations.append(
            Violation(property=item, step_index=step, at_ms=self.view.now_ms, detail="it broke")
        )


def _taught(teach: Callable[[Watcher], None]) -> Callable[[WorldView], Watcher]:
    def make(view: WorldView) -> Watcher:
        watcher = Watcher(view)
        teach(watcher)
        return watcher

    return make


def _raise(error: Exception) -> None:
    raise error


def test_a_run_in_which_every_property_holds_is_ok() -> None:
    result = run(SCENARIO, make_watcher=Watcher)
    assert (result.outcome, result.reason, result.violations) == ("ok", "", ())
    assert result.simulated_ms == 20_000
    assert result.steps > 50
    assert result.metrics["heartbeats_sent"] > 4
    assert result.coverage["watcher.seen"] == 1
    assert result.coverage["client.transition.JOINING>RECONCILING"] == 2
    assert (result.seed, result.scenario_hash) == (3, SCENARIO.hash)


def test_the_same_scenario_gives_the_same_result() -> None:
    assert run(SCENARIO, make_watcher=Watcher) == run(SCENARIO, make_watcher=Watcher)


def test_a_violated_property_is_told_with_step_and_time() -> None:
    def teach(watcher: Watcher) -> None:
        watcher.at_step[9] = lambda w, step: w.find(Exclusive, step.index)

    result = run(SCENARIO, make_watcher=_taught(teach))
    assert result.outcome == "violation"
    assert result.reason.startswith("ownership.exclusive at step 9 (")
    assert [(row.property, row.step) for row in result.violations] == [("ownership.exclusive", 9)]
    assert result.violations[0].sentence == "One owner at a time."


def test_a_group_that_does_not_come_to_rest_is_stuck_with_the_reason() -> None:
    def teach(watcher: Watcher) -> None:
        watcher.liveness.late = [
            Stuck(property=Converges, subject="a", reason="waits for b", since_ms=7)
        ]

    result = run(SCENARIO, make_watcher=_taught(teach))
    assert result.outcome == "stuck"
    assert result.reason == (
        f"liveness.converges at step {result.steps} (20000 ms): a waits for b since 7 ms"
    )
    assert [row.property for row in result.violations] == ["liveness.converges"]


def test_after_a_violated_property_the_quiet_period_is_not_judged() -> None:
    def teach(watcher: Watcher) -> None:
        watcher.at_step[9] = lambda w, step: w.find(Exclusive, step.index)
        watcher.liveness.late = [Stuck(property=Converges, subject="a", reason="waits")]

    result = run(SCENARIO, make_watcher=_taught(teach))
    assert [row.property for row in result.violations] == ["ownership.exclusive"]


def test_a_calm_that_is_too_short_to_judge_is_seen_in_the_coverage() -> None:
    short = replace(SCENARIO, world=replace(SCENARIO.world, quiet_period_ms=4_999))
    assert "liveness.judged" not in run(short, make_watcher=Watcher).coverage
    assert run(SCENARIO, make_watcher=Watcher).coverage["liveness.judged"] == 1


def away(processing_ms: int, **settings: Any) -> RunResult:
    """Two applications that commit by themselves, and take so long between two polls."""
    clients = (
        replace(client, processing_ms=processing_ms, enable_auto_commit=True, **settings)
        for client in SCENARIO.world.clients
    )
    world = replace(SCENARIO.world, clients=tuple(clients), quiet_period_ms=None)
    return run(replace(SCENARIO, world=world))


@pytest.mark.parametrize("settings", [{}, {"kind": "classic", "assignors": ("range",)}])
def test_the_quiet_period_has_time_for_applications_that_seldom_poll(
    settings: dict[str, Any],
) -> None:
    result = away(70_000, max_poll_interval_ms=300_000, **settings)
    assert (result.outcome, result.reason) == ("ok", "")
    result = away(150_000, max_poll_interval_ms=300_000, **settings)
    assert result.outcome == "not-judged"
    assert "stays away from poll" in result.reason


def batches_of(seconds: int) -> RunResult:
    """Two applications that stay so long with each batch, and have 15 s to give partitions up."""
    clients = (
        replace(
            client,
            processing_records_per_second=50,
            max_poll_records=50 * seconds,
            max_poll_interval_ms=15_000,
            auto_offset_reset=OffsetReset.EARLIEST,
        )
        for client in SCENARIO.world.clients
    )
    topics = (replace(SCENARIO.world.topics[0], records_per_second=200),)
    world = replace(
        SCENARIO.world,
        clients=tuple(clients),
        topics=topics,
        quiet_period_ms=None,
        data_plane=True,
        semantics="kafka-4.1-clean",
    )
    return run(replace(SCENARIO, world=world))


def test_who_needs_three_batches_to_give_partitions_up_has_to_have_time_for_them() -> None:
    assert batches_of(4).outcome in ("ok", "known")
    result = batches_of(6)
    assert result.outcome == "not-judged"
    assert "to give partitions up" in result.reason


def test_known_issues_are_counted_and_are_no_violation() -> None:
    def make(view: WorldView) -> Watcher:
        watcher = Watcher(view)
        if "D12" in view.semantics.shipped_defects:
            found = Violation(
                property=PROPERTIES[0],
                step_index=1,
                at_ms=0,
                detail="it broke",
                suspects=("D12",),
            )
            watcher.suspected = [(found, 2), (replace(found, subject="client a"), 1)]
        return watcher

    result = run(SCENARIO, make_watcher=make)
    assert (result.outcome, result.known) == ("known", {"D12": 3})
    assert "D12 (3 times)" in result.reason
    assert [row.times for row in result.known_issues] == [2, 1]


def test_an_exception_of_our_own_is_an_outcome_with_type_message_and_place() -> None:
    def teach(watcher: Watcher) -> None:
        watcher.at_step[5] = lambda w, step: _raise(ZeroDivisionError("two\nlines"))

    result = run(SCENARIO, make_watcher=_taught(teach))
    assert result.outcome == "error"
    assert result.reason.startswith("ZeroDivisionError: two lines (at test_runner:")
    assert "\n" not in result.reason
    assert "/" not in result.reason
    assert result.steps == 5


def test_an_exception_after_a_violated_property_does_not_hide_it() -> None:
    def teach(watcher: Watcher) -> None:
        watcher.at_step[5] = lambda w, step: w.find(Exclusive, step.index)
        watcher.at_step[6] = lambda w, step: _raise(RuntimeError("and then"))

    result = run(SCENARIO, make_watcher=_taught(teach))
    assert result.outcome == "violation"
    assert "; afterwards RuntimeError: and then" in result.reason


def test_a_run_that_is_too_long_is_cut_off_at_a_step() -> None:
    short = replace(SCENARIO, max_steps=40)
    result = run(short, make_watcher=Watcher)
    assert result.outcome == "budget"
    assert 40 <= result.steps < 50  # An event of the clock is finished, of however many steps.
    assert result == run(short, make_watcher=Watcher)
    assert result.reason == "stopped after max_steps (40)"


def test_a_run_reads_no_clock_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    usual, mine = run(SCENARIO), threading.get_ident()

    def only_for_others(real: Callable[..., Any], *arguments: Any) -> Any:
        if threading.get_ident() == mine:
            raise AssertionError("asked for the time")
        return real(*arguments)  # a server's thread, of another test

    for name in ("monotonic", "perf_counter", "process_time", "time", "sleep"):
        monkeypatch.setattr(f"time.{name}", partial(only_for_others, getattr(time, name)))
    assert run(SCENARIO) == usual


def test_memory_that_runs_out_is_no_outcome_of_a_run() -> None:
    def teach(watcher: Watcher) -> None:
        watcher.at_step[3] = lambda w, step: w.find(Exclusive, step.index)
        watcher.at_step[5] = lambda w, step: _raise(MemoryError())

    with pytest.raises(MemoryError):
        run(SCENARIO, make_watcher=_taught(teach))


def test_a_world_that_cannot_be_made_is_an_error_too() -> None:
    result = run(SCENARIO, make_watcher=lambda view: _raise(ValueError("no watcher")))  # type: ignore[arg-type, return-value]
    assert (result.outcome, result.steps) == ("error", 0)
    assert result.reason.startswith("ValueError: no watcher")


def test_a_trace_keeps_every_step_and_does_not_change_the_run() -> None:
    trace = FullTrace()
    result = run(SCENARIO, trace=trace, make_watcher=Watcher)
    assert len(trace.lines) == result.steps
    assert result.digest == run(SCENARIO, make_watcher=Watcher).digest


def test_an_interrupt_is_not_caught() -> None:
    def teach(watcher: Watcher) -> None:
        watcher.at_step[3] = lambda w, step: _raise(KeyboardInterrupt())  # type: ignore[arg-type]

    with pytest.raises(KeyboardInterrupt):
        run(SCENARIO, make_watcher=_taught(teach))


def test_every_outcome_has_a_meaning() -> None:
    assert list(OUTCOMES) == [
        "ok",
        "violation",
        "known",
        "stuck",
        "budget",
        "error",
        "not-judged",
        "partly-judged",
        "vacuous",
    ]


SPINNING = parse_scenario("""
name = "spinning"

[world]
seed = 1
duration_ms = 30_000
defects = ["KAFKA-17293"]
topics = [{ name = "orders", partition_count = 4 }]
brokers = { count = 1 }

[[world.clients]]
name = "a"
topics = ["orders"]
max_poll_interval_ms = 5_000

[[world.faults]]
kind = "poll_stall"
at_ms = 4_000
duration_ms = 8_000
client = "a"

[[world.faults]]
kind = "broker_crash"
at_ms = 6_000
duration_ms = 7_000
""")
"""A member wants in, keeps to a dead coordinator, and tries again at once whenever it fails."""


def test_a_client_that_tries_again_at_once_lets_time_pass() -> None:
    assert run(SPINNING, properties=()).outcome == "ok"


def test_a_run_in_which_time_stands_still_is_stopped_and_says_where(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("rebalance_sim.sim.client.client_connections._FAILURES_PER_MS", 10**9)
    monkeypatch.setattr("rebalance_sim.sim.clock.EVENTS_AT_ONE_INSTANT", 1_000)
    result = run(SPINNING, properties=())
    assert (result.outcome, result.violations) == ("budget", ())
    assert result.reason == (
        f"stopped at {result.simulated_ms} ms, because time did not pass any more: 1002 events "
        "there, the last step client.event Disconnected of a"
    )
    assert 12_000 <= result.simulated_ms < 13_000


def test_only_the_properties_that_are_chosen_are_checked() -> None:
    scenario = defect_scenario("mut-early-grant")
    ids = {row.property for row in run(scenario).violations}
    assert ids
    others = [item for item in PROPERTIES if item.id not in ids]
    assert ids.isdisjoint(row.property for row in run(scenario, properties=others).violations)
    assert run(scenario, properties=()).violations == ()
