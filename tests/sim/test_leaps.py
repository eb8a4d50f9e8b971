"""A run that leaps over rest: step by step the same scenario with what comes later moved nearer,
and the outcome of the run that does not leap."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from worlds import client, spec

from rebalance_sim.invariants.laws.commits import StartCommitted
from rebalance_sim.invariants.step import CommitsLeftOut
from rebalance_sim.protocol.runtime.coordinator_config import CoordinatorConfig
from rebalance_sim.protocol.runtime.outcome import Outcome
from rebalance_sim.scenarios.generate.generator import generate
from rebalance_sim.scenarios.runner import run
from rebalance_sim.scenarios.scenario import Scenario
from rebalance_sim.sim.clock import Clock
from rebalance_sim.sim.data_plane.workers_spec import WorkersSpec
from rebalance_sim.sim.faults.brokers import BrokerBounce, BrokerIsolation, BrokerPause
from rebalance_sim.sim.faults.clients import (
    ClientClose,
    ClientCrash,
    ClientPause,
    MetadataLag,
    PollStall,
)
from rebalance_sim.sim.faults.connections import NetworkSlowdown
from rebalance_sim.sim.faults.coordinators import CoordinatorMove, CoordinatorStall, ZombieLeader
from rebalance_sim.sim.faults.fault import Fault
from rebalance_sim.sim.faults.topics import TopicGrow
from rebalance_sim.sim.spec import DelaySpec, NetworkSpec, TopicSpec, WorldSpec
from rebalance_sim.sim.steps import Steps
from rebalance_sim.sim.trace import FullTrace
from rebalance_sim.sim.world import World

LASTS = ("duration_ms", "down_ms")
COMMITTING: list[dict[str, Any]] = [
    {},
    {"auto_commit_interval_ms": 1_000, "processing_ms": 1_000},
    {"enable_auto_commit": False, "manual_commit_interval_ms": 4_000, "processing_ms": 100},
]
"""In which intervals a client commits."""


def leaping(of: WorldSpec) -> tuple[World, FullTrace]:
    trace = FullTrace()
    world = World(of, trace=trace)
    world.run(owes_nothing=lambda: True)
    return world, trace


def moved_nearer(of: WorldSpec, clock: Clock) -> WorldSpec:
    """The scenario without the time that a run has left out."""

    def nearer(at_ms: int) -> int:
        left_out_ms = 0
        for now_ms, span_ms in clock.leaps:
            left_out_ms += max(0, min(span_ms, at_ms - now_ms - left_out_ms))
        return at_ms - left_out_ms

    def moved(fault: Any) -> Fault:
        at_ms = nearer(fault.at_ms)
        lasts = {
            name: nearer(fault.at_ms + getattr(fault, name)) - at_ms
            for name in LASTS
            if getattr(fault, name, None) is not None
        }
        return replace(fault, at_ms=at_ms, **lasts)

    assert of.quiet_period_ms is not None
    duration_ms = nearer(of.duration_ms)
    return replace(
        of,
        clients=tuple(replace(one, start_ms=nearer(one.start_ms)) for one in of.clients),
        faults=tuple(map(moved, of.faults)),
        duration_ms=duration_ms,
        quiet_period_ms=nearer(of.duration_ms + of.quiet_period_ms) - duration_ms,
    )


def bring_sessions_nearer(world: World, clock: Clock, trace: FullTrace) -> None:
    """Sessions of members that are gone, when a run has left some of them out."""
    rows = [row for row in map(json.loads, trace.lines) if row["kind"] == "leapt"]
    for (now_ms, span_ms), row in zip(clock.leaps, rows, strict=True):
        for timer in row.get("timers", ()):
            assert timer["key"]["kind"].endswith("session")
            world.advance_to(now_ms)
            shard = world.groups[timer["key"]["group_id"]].acting_shard()
            assert shard is not None
            member_id = timer["key"]["member_id"]
            [key] = [key for key in shard.armed_timers if key.member_id == member_id]
            shard.timers.bring_nearer(key, span_ms)


def steps_of(trace: FullTrace) -> list[dict[str, Any]]:
    """What happened, one step after the other; without when, as leaps are in that."""
    rows = [json.loads(line) for line in trace.lines]
    for row in rows:
        del row["step"], row["at_ms"]
        row.get("fault", {}).pop("at_ms", None)
        for name in LASTS:
            row.get("fault", {}).pop(name, None)
    return [row for row in rows if row["kind"] != "leapt"]


def fault_at(at_ms: int, kind: str, lasts_ms: int) -> Fault:
    made: dict[str, Fault] = {
        "crash": ClientCrash(at_ms=at_ms, client="a", down_ms=lasts_ms),
        "close": ClientClose(at_ms=at_ms, client="b", down_ms=lasts_ms),
        "pause": ClientPause(at_ms=at_ms, client="a", duration_ms=lasts_ms),
        "stall": PollStall(at_ms=at_ms, client="b", duration_ms=lasts_ms),
        "slow": NetworkSlowdown(at_ms=at_ms, client="a", factor=10, duration_ms=lasts_ms),
        "move": CoordinatorMove(at_ms=at_ms),
        "grow": TopicGrow(at_ms=at_ms, topic="orders", partition_count=9),
    }
    return made[kind]


FAULTS = st.lists(
    st.tuples(
        st.integers(60, 500),
        st.sampled_from(["crash", "close", "pause", "stall", "slow", "move", "grow"]),
        st.integers(1, 120),
    ),
    max_size=4,
    unique_by=lambda drawn: drawn[1],
)


@settings(max_examples=25, deadline=None)
@example(kinds=["java", "java"], drawn=[(60, "close", 22)], seed=0)
@given(
    kinds=st.lists(st.sampled_from(["java", "classic", "librdkafka"]), min_size=2, max_size=2),
    drawn=FAULTS,
    seed=st.integers(0, 1_000),
)
def test_a_leap_is_the_same_scenario_moved_nearer(
    kinds: list[str], drawn: list[tuple[int, str, int]], seed: int
) -> None:
    of = spec(
        client("a", kind=kinds[0], enable_auto_commit=True),
        client("b", kind=kinds[0], start_ms=70_000),
        client("c", kind=kinds[1], group_id="other", topics=("payments",)),
        faults=tuple(fault_at(at * 1_000, kind, lasts * 1_000) for at, kind, lasts in drawn),
        topics=(
            TopicSpec(name="orders", partition_count=6),
            TopicSpec(name="payments", partition_count=2),
        ),
        network=NetworkSpec(latency=DelaySpec(min_ms=1, max_ms=4)),
        seed=seed,
        duration_ms=650_000,
        quiet_period_ms=300_000,
    )
    world, trace = leaping(of)
    assert world.clock.leapt_ms > 100_000
    assert world.now_ms == of.duration_ms + 300_000
    near_trace = FullTrace()
    near = World(moved_nearer(of, world.clock), trace=near_trace)
    bring_sessions_nearer(near, world.clock, trace)
    near.run()
    assert steps_of(trace) == steps_of(near_trace)


def at_rest(*faults: Fault, **changes: Any) -> WorldSpec:
    """Two consumers with nothing to do, for minutes before and after ``faults``."""
    return spec(
        client("a", enable_auto_commit=True),
        client("b", enable_auto_commit=True),
        topics=(TopicSpec(name="orders", partition_count=6, records_per_second=10),),
        faults=faults,
        **{"duration_ms": 600_000, "quiet_period_ms": 500_000, **changes},
    )


def both(of: WorldSpec) -> tuple[Any, Any]:
    scenario = Scenario(name="rest", world=of)
    return run(scenario, leaps=True), run(scenario)


def test_minutes_of_rest_cost_seconds_of_it() -> None:
    leapt, whole = both(at_rest())
    assert leapt.steps < whole.steps / 20
    assert (leapt.outcome, leapt.simulated_ms) == ("ok", whole.simulated_ms)
    assert (leapt.leapt_ms > 900_000, whole.leapt_ms) == (True, 0)


@pytest.mark.parametrize("has_data_plane", [False, True])
def test_counters_go_on_at_their_rate_and_nothing_else_changes(has_data_plane: bool) -> None:
    leapt, whole = (result.metrics for result in both(at_rest(data_plane=has_data_plane)))
    counters = {"heartbeats_sent", "commits_sent", "records_written"}
    assert {name for name in whole if leapt[name] != whole[name]} <= counters
    for name in counters:
        assert leapt[name] == pytest.approx(whole[name], rel=0.02)


@pytest.mark.parametrize("kind", ["java", "librdkafka"])
def test_the_session_of_a_member_that_is_gone_ends_when_it_would_have(kind: str) -> None:
    """A session timeout of five minutes, of which most is left out; what is judged of removals is
    judged with all of it."""
    config = CoordinatorConfig(
        group_consumer_session_timeout_ms=300_000,
        group_consumer_max_session_timeout_ms=300_000,
    )
    of = spec(
        client("a", kind=kind, enable_auto_commit=True),
        client("b", kind=kind, enable_auto_commit=True),
        topics=(TopicSpec(name="orders", partition_count=6, records_per_second=10),),
        faults=(ClientCrash(at_ms=100_000, client="a"),),
        config=config,
        duration_ms=600_000,
        quiet_period_ms=1_500_000,
    )
    leapt, whole = both(of)
    assert (leapt.outcome, leapt.violations) == ("ok", ())
    waited_ms = whole.metrics["crash_detection_ms_max"]
    assert waited_ms > 290_000
    # The crash comes somewhere in the interval of a heartbeat, at another place than in the other.
    assert leapt.metrics["crash_detection_ms_max"] == pytest.approx(waited_ms, abs=5_100)
    assert max(span for _, span in leapt.leaps if span < 300_000) > 250_000


KINDS: dict[str, dict[str, Any]] = {
    "java": {},
    "classic": {},
    "librdkafka": {},
    "librdkafka-classic": {"assignors": ("range",)},
    "franz": {},
    "franz-classic": {"assignors": ("cooperative-sticky",)},
}


def two_of(
    kind: str, settings_of_a: dict[str, Any], records_per_second: int = 10, **changes: Any
) -> WorldSpec:
    """Two consumers of a kind that commit, the first with these settings."""
    return spec(
        client("a", kind=kind, **KINDS[kind], **{"enable_auto_commit": True, **settings_of_a}),
        client("b", kind=kind, **KINDS[kind], enable_auto_commit=True),
        topics=(
            TopicSpec(name="orders", partition_count=6, records_per_second=records_per_second),
        ),
        **changes,
    )


@pytest.mark.quick_one_of(9)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("records_per_second", [0, 10])
@pytest.mark.parametrize(
    "settings_of_a",
    [
        {"auto_commit_interval_ms": 1_000, "processing_ms": 1_000},
        {"auto_commit_interval_ms": 500, "processing_ms": 1_000},
        {"auto_commit_interval_ms": 500, "processing_ms": 100, "manual_commit_interval_ms": 4_100},
        {"enable_auto_commit": False, "manual_commit_interval_ms": 500, "processing_ms": 2_000},
        {"manual_commit_interval_ms": 700, "commits_synchronously": True, "processing_ms": 2_000},
        {"processing_ms": 2_000, "processing_max_ms": 4_000},
    ],
)
@pytest.mark.parametrize("has_data_plane", [False, True])
def test_what_clients_commit_goes_on_as_their_library_and_application_do_it(
    kind: str, records_per_second: int, settings_of_a: dict[str, Any], has_data_plane: bool
) -> None:
    """Java commits in a poll, and all; others what has moved, whenever it is due."""
    of = two_of(
        kind,
        settings_of_a,
        records_per_second,
        duration_ms=30_000,
        quiet_period_ms=420_000,
        data_plane=has_data_plane,
    )
    leapt, whole = both(of)
    assert leapt.leapt_ms > 120_000
    for name in ("heartbeats_sent", "commits_sent", "records_written"):
        assert leapt.metrics[name] == pytest.approx(whole.metrics[name], rel=0.05, abs=6)


def test_a_world_is_not_at_rest_before_a_member_has_heard_what_it_was_assigned() -> None:
    """Seed 910002 of dense, as KIP-848 reads: who gives partitions up has them assigned to another
    member, which hears of it with its next heartbeat."""
    leapt, whole = both(generate("dense", 910002).world)
    assert leapt.leapt_ms > 0
    for name in ("partition_moves", "unowned_partition_ms"):
        assert leapt.metrics[name] == whole.metrics[name]


def test_a_world_is_not_at_rest_before_the_patterns_of_all_members_are_resolved() -> None:
    """Seed 56 of production: a member brings a pattern within ten seconds of the last resolution,
    and the next one rebalances the group."""
    leapt, whole = both(generate("production", 56).world)
    assert leapt.leapt_ms > 0
    assert leapt.metrics["settling_ms"] == pytest.approx(whole.metrics["settling_ms"], rel=0.05)


def test_patterns_that_are_resolved_again_count_while_time_is_left_out() -> None:
    of = spec(
        *(client(name, topics=(), topic_regex="ord.*") for name in ("a", "b")),
        duration_ms=400_000,
        quiet_period_ms=3_200_000,
    )
    leapt, whole = both(of)
    assert leapt.leapt_ms > 3_000_000
    assert whole.metrics["group_records_written"] > 10
    for name, of_one in (("group_records_written", 1), ("group_bytes_written", 200)):
        assert leapt.metrics[name] == pytest.approx(whole.metrics[name], abs=of_one)


def test_a_world_is_not_at_rest_while_an_administrator_removes_a_member() -> None:
    """Seed 920006 of dense: the request to a coordinator that is cut off arrives after 12 s."""
    leapt, whole = both(generate("dense", 920006).world)
    assert leapt.leapt_ms > 0
    assert leapt.metrics["rebalances"] == whole.metrics["rebalances"]


def test_a_world_is_not_at_rest_while_a_request_of_a_dead_process_is_on_its_way() -> None:
    """Seed 10072 of dense: a JoinGroup gets through 40 s after its process was replaced."""
    leapt, whole = both(generate("dense", 10072).world)
    assert leapt.leapt_ms > 0
    assert leapt.metrics["partition_moves"] == whole.metrics["partition_moves"]
    assert leapt.simulated_ms == whole.simulated_ms


def test_rest_is_seen_without_waiting_for_a_heartbeat() -> None:
    """Heartbeats come each 5 s, but the first of all makes sure of these topics."""
    faults = [
        ClientCrash(at_ms=at_ms, client="a", down_ms=50)
        for at_ms in range(100_000, 500_000, 60_000)
    ]
    leapt, _ = both(at_rest(*faults))
    assert len(leapt.leaps) > 2 * len(faults)


@pytest.mark.quick_one_of(7)
@pytest.mark.parametrize("at_ms", [400_700, 403_200])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("has_data_plane", "settings_of_a"),
    [
        *product((False, True), COMMITTING),
        (True, {"processing_records_per_second": 20}),
        (True, {"workers": WorkersSpec(records_per_second=25, in_flight_max=40)}),
    ],
)
def test_a_crash_after_a_leap_has_as_much_delivered_again_as_without_it(
    kind: str, at_ms: int, settings_of_a: dict[str, Any], has_data_plane: bool
) -> None:
    """It shows how long ago each client has committed, and what; no commit is due just then."""
    of = two_of(
        kind,
        settings_of_a,
        faults=(ClientCrash(at_ms=at_ms, client="a", down_ms=1_000),),
        data_plane=has_data_plane,
        duration_ms=600_000,
        quiet_period_ms=700_000,
    )
    leapt, whole = both(of)
    assert leapt.leapt_ms > 700_000
    a_second = 3 * 10
    for name in ("records_redelivered", "records_skipped", "records_lost"):
        found = whole.metrics.get(name, 0)
        assert leapt.metrics.get(name, 0) == pytest.approx(found, abs=a_second / 2)


def test_a_backlog_is_worked_off_while_the_rest_is_left_out() -> None:
    """Half an hour down, and an application that is hardly faster than what is produced."""
    down = ClientClose(at_ms=60_000, client="a", down_ms=1_800_000)
    of = spec(
        client("a", enable_auto_commit=True, processing_records_per_second=80),
        topics=(TopicSpec(name="orders", partition_count=6, records_per_second=10),),
        faults=(down,),
        data_plane=True,
        duration_ms=7_200_000,
        quiet_period_ms=500_000,
    )
    leapt, whole = both(of)
    assert whole.metrics["lag_records_max"] > 10 * 1_790
    assert leapt.steps < whole.steps / 20
    for name in ("lag_record_seconds", "lag_records_max", "records_processed", "records_delivered"):
        assert leapt.metrics[name] == pytest.approx(whole.metrics[name], rel=0.001)


def test_what_lasts_over_a_leap_is_measured_in_full() -> None:
    """No one consumes ``orders`` for five minutes, nine of which in ten are left out."""
    down = [ClientClose(at_ms=100_000, client=name, down_ms=300_000) for name in ("a", "b")]
    leapt, whole = (result.metrics for result in both(at_rest(*down)))
    assert whole["unowned_partition_ms"] > 6 * 300_000
    for name in ("unowned_partition_ms", "unowned_partition_ms_max", "group_stopped_ms"):
        assert leapt[name] == pytest.approx(whole[name], rel=0.02)


@pytest.mark.parametrize(
    "fault",
    [
        ClientCrash(at_ms=599_000, client="a", down_ms=None),
        PollStall(at_ms=200_000, client="a", duration_ms=350_000),
        TopicGrow(at_ms=300_000, topic="orders", partition_count=9),
        BrokerBounce(at_ms=300_000, down_ms=20_000, gap_ms=60_000),
    ],
    ids=lambda fault: fault.kind,
)
def test_what_is_still_to_come_of_a_fault_is_not_left_out(fault: Fault) -> None:
    """A session that runs out, a poll that is late, partitions that are still to be seen, brokers
    that are still to go."""
    leapt, whole = both(at_rest(fault))
    assert leapt.leapt_ms > 0
    assert (leapt.outcome, leapt.simulated_ms) == (whole.outcome, whole.simulated_ms)
    for name in ("rebalances", "session_timeouts", "partition_moves", "joins_sent"):
        assert leapt.metrics[name] == whole.metrics[name]


@pytest.mark.parametrize("of_fault", [CoordinatorStall, BrokerPause, BrokerIsolation, ZombieLeader])
def test_a_fault_that_holds_something_up_lasts_as_long_as_it_is_to(of_fault: type[Fault]) -> None:
    """Shortly after it began no one waits yet."""
    lasts: Any = {"at_ms": 200_000, "duration_ms": 40_000}
    world, _ = leaping(at_rest(of_fault(**lasts)))
    left_out_ms = 0
    for now_ms, span_ms in world.clock.leaps:
        at_ms = now_ms + left_out_ms
        assert at_ms + span_ms <= 200_000 or at_ms >= 240_000
        left_out_ms += span_ms
    assert left_out_ms > 100_000


@pytest.mark.parametrize("at_ms", [400_000, 520_000, 830_000])
def test_who_looks_for_topics_sees_a_new_partition_when_it_would_without_a_leap(at_ms: int) -> None:
    """Every five minutes, counted from when it started."""
    of = spec(
        client("a", kind="classic"),
        faults=(TopicGrow(at_ms=at_ms, topic="orders", partition_count=9),),
        duration_ms=1_200_000,
        quiet_period_ms=500_000,
    )
    leapt, whole = both(of)
    assert leapt.leapt_ms > 800_000
    for result in (leapt, whole):
        waits_ms = 300_000 - at_ms % 300_000
        assert result.metrics["unowned_partition_ms_max"] == pytest.approx(waits_ms, abs=5_000)


def test_who_was_shown_old_topics_sees_the_new_ones_the_next_time() -> None:
    """Of the looks at 600 s and at 900 s the first comes while metadata lags."""
    grows = TopicGrow(at_ms=400_000, topic="orders", partition_count=9)
    of = spec(
        client("a", kind="classic"),
        faults=(MetadataLag(at_ms=390_000, client="a", duration_ms=300_000), grows),
        duration_ms=1_200_000,
        quiet_period_ms=500_000,
    )
    leapt, whole = both(of)
    assert leapt.leapt_ms > 700_000
    for result in (leapt, whole):
        assert result.metrics["unowned_partition_ms_max"] == pytest.approx(500_000, abs=5_000)


def test_times_are_those_of_the_scenario() -> None:
    of = at_rest(ClientCrash(at_ms=500_000, client="a", down_ms=20_000))
    _, trace = leaping(of)
    rows = [json.loads(line) for line in trace.lines]
    assert [row["at_ms"] for row in rows if row["kind"] == "client.crashed"] == [500_000]
    assert sum(row["event"] for row in rows if row["kind"] == "leapt") > 700_000


def test_a_clock_does_not_leap_over_what_is_planned() -> None:
    clock, seen = Clock(), []

    def note(argument: str) -> None:
        seen.append((argument, clock.now_ms, clock.simulated_ms))

    clock.call_at(50, 0.5, note, "a deadline")
    clock.plan_at(1_000, 0.5, note, "a fault")
    clock.run_until(10)
    with pytest.raises(ValueError, match="not empty"):
        clock.leap(991)
    clock.leap(900)
    clock.run_until(2_000)
    assert seen == [("a deadline", 50, 950), ("a fault", 100, 1_000)]
    assert [clock.simulated_at(now_ms) for now_ms in (9, 10, 100)] == [9, 910, 1_000]


def test_who_starts_before_what_a_leap_has_written_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The law is shown one record more than is committed, and no commit follows by itself."""
    written = Steps.written

    def shows_more(steps: Steps, shard: Any, on_commit: Any, outcome: Any, detail: str) -> None:
        if isinstance(on_commit, CommitsLeftOut):
            values = [one.value._replace(offset=one.value.offset + 1) for one in outcome.records]
            more = zip(outcome.records, values, strict=True)
            outcome = Outcome(None, tuple(one._replace(value=value) for one, value in more))
        written(steps, shard, on_commit, outcome, detail)

    of = two_of(
        "java",
        {"auto_commit_interval_ms": 20_000},
        faults=(ClientCrash(at_ms=514_000, client="a", down_ms=20_000),),
        data_plane=True,
        duration_ms=600_000,
        quiet_period_ms=500_000,
    )
    scenario = Scenario(name="rest", world=of)
    assert run(scenario, leaps=True, properties=[StartCommitted]).outcome == "ok"
    monkeypatch.setattr(Steps, "written", shows_more)
    found = run(scenario, leaps=True, properties=[StartCommitted])
    assert {row.property for row in found.violations} == {"client.start.committed"}


def test_a_leap_ends_less_than_an_interval_before_a_fault() -> None:
    """Both clients send heartbeats, and commit, every five seconds."""
    of = at_rest(ClientCrash(at_ms=500_000, client="a", down_ms=20_000), data_plane=True)
    leapt, _ = both(of)
    now_ms, span_ms = leapt.leaps[0]
    assert 500_000 - 5_000 - 1_000 <= now_ms + span_ms < 500_000


def test_what_is_planned_and_forgotten_keeps_nothing_from_being_left_out() -> None:
    """A process that is to come back an hour later does so when faults stop."""
    down = ClientCrash(at_ms=500_000, client="a", down_ms=3_600_000)
    leapt, whole = both(at_rest(down))
    assert leapt.steps < whole.steps / 10
    assert leapt.metrics == pytest.approx(whole.metrics, rel=0.05, abs=15)


def test_a_group_that_need_not_come_to_rest_is_left_out_once_it_has() -> None:
    """Its application polls too seldom to give partitions up in time."""
    slow = client("a", enable_auto_commit=True, processing_ms=20_000, max_poll_interval_ms=50_000)
    of = spec(slow, duration_ms=60_000, quiet_period_ms=1_500_000)
    leapt, whole = both(of)
    assert leapt.steps < whole.steps / 10
    assert (leapt.outcome, leapt.reason) == (whole.outcome, whole.reason)
    assert leapt.outcome == "not-judged"


def test_a_quiet_period_that_is_too_short_for_its_bounds_is_not_judged_either_way() -> None:
    leapt, whole = both(at_rest(quiet_period_ms=200_000))
    assert leapt.leapt_ms > 0
    assert (leapt.outcome, leapt.reason) == (whole.outcome, whole.reason)
    assert leapt.outcome == "not-judged"


def test_a_quiet_period_that_becomes_longer_is_not_left_out_with_a_start_in_it() -> None:
    """Seed 131 of faulty: a process starts between the end that was planned and the later one."""
    scenario = generate("faulty", 131)
    leapt, whole = run(scenario, leaps=True), run(scenario)
    assert (leapt.outcome, leapt.simulated_ms) == (whole.outcome, whole.simulated_ms)
