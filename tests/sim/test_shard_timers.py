"""Timers of a shard: they fire at the time last asked for, and re-arming them costs no event."""

from __future__ import annotations

from worlds import SESSION_TIMEOUT_MS, Watched, client, spec

from rebalance_sim.invariants.step import StepKind
from rebalance_sim.protocol.consumer.timer_keys import session_key
from rebalance_sim.protocol.runtime.outcome import CancelTimer, ScheduleTimer
from rebalance_sim.sim.faults.clients import ClientCrash
from rebalance_sim.sim.world import World

KEY = session_key("no-such-group", "no one")


def active_world() -> World:
    """A world without clients, whose shard is active; its timers find no group and do nothing."""
    world = World(spec(duration_ms=60_000))
    world.advance_to(1_000)
    return world


def fired(world: World, at_ms: int) -> bool:
    """Whether the timer is still armed just before a time, and gone just after it."""
    armed = world.brokers[0].replicas[0].shard.armed_timers
    world.advance_to(at_ms)
    before = KEY in armed
    world.advance_to(at_ms + 1)
    return before and KEY not in armed


def test_a_timer_fires_at_its_time() -> None:
    world = active_world()
    world.brokers[0].replicas[0].shard.timers.apply((ScheduleTimer(KEY, 5_000),))
    assert fired(world, 5_000)


def test_a_timer_that_is_armed_again_fires_at_the_later_time_only() -> None:
    world = active_world()
    shard = world.brokers[0].replicas[0].shard
    shard.timers.apply((ScheduleTimer(KEY, 5_000),))
    shard.timers.apply((ScheduleTimer(KEY, 9_000),))
    assert fired(world, 9_000)


def test_a_timer_can_be_brought_forward() -> None:
    world = active_world()
    shard = world.brokers[0].replicas[0].shard
    shard.timers.apply((ScheduleTimer(KEY, 9_000),))
    shard.timers.apply((ScheduleTimer(KEY, 5_000),))
    assert fired(world, 5_000)


def test_a_cancelled_timer_does_not_fire_and_can_be_armed_anew() -> None:
    world = active_world()
    shard = world.brokers[0].replicas[0].shard
    shard.timers.apply((ScheduleTimer(KEY, 5_000), CancelTimer(KEY)))
    assert KEY not in shard.armed_timers
    shard.timers.apply((ScheduleTimer(KEY, 8_000),))
    assert fired(world, 8_000)


def test_re_arming_a_timer_adds_no_event() -> None:
    world = active_world()
    shard = world.brokers[0].replicas[0].shard
    shard.timers.apply((ScheduleTimer(KEY, 5_000),))
    before = len(world.clock._queue)
    for at_ms in range(5_001, 5_500):
        shard.timers.apply((ScheduleTimer(KEY, at_ms),))
    assert len(world.clock._queue) == before


def test_the_queue_of_events_does_not_grow_while_a_group_idles() -> None:
    watched = Watched(spec(client("a"), client("b"), duration_ms=600_000))
    watched.advance_to(60_000)
    early = len(watched.world.clock._queue)
    watched.advance_to(590_000)
    assert len(watched.world.clock._queue) <= early


def test_a_session_timer_fires_a_session_after_the_last_heartbeat() -> None:
    faults = (ClientCrash(at_ms=33_333, client="b"),)
    watched = Watched(spec(client("a"), client("b"), faults=faults, duration_ms=100_000))
    watched.advance_to(99_000)
    member_id = watched.world.clients()["b"].member.member_id
    heartbeats = [
        step["at_ms"]
        for step in watched.steps(StepKind.COORDINATOR_REQUEST)
        if step["request"].get("member_id") == member_id
    ]
    (expiry,) = watched.steps(StepKind.COORDINATOR_TIMER)
    assert expiry["event"]["member_id"] == member_id
    assert expiry["at_ms"] == heartbeats[-1] + SESSION_TIMEOUT_MS
