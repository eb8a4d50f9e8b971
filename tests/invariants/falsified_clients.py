"""Mutants of the client that exist in these tests only: machines that were reached into, and steps
that no machine made. What has a mutant among the defects is not repeated here."""

from __future__ import annotations

import re
from typing import Any

from client_world import ClientWorld
from coordinator_world import GROUP, IMAGE
from falsified_coordinator import (
    FALSIFIED,
    current,
    epoch_record,
    mutant,
    parts_of,
    target,
    target_epoch_record,
)

from rebalance_sim.protocol.clients import ClientState, HeartbeatAnswered, Subscribe, Tick
from rebalance_sim.protocol.consumer.timer_keys import ConsumerTimer
from rebalance_sim.protocol.runtime.outcome import TimerKey
from rebalance_sim.protocol.wire.consumer_messages import ConsumerGroupHeartbeatResponse
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.topics import MetadataImage, Topic

__all__ = ["FALSIFIED"]


def settled() -> ClientWorld:
    """Two clients at rest at epoch 3, with two partitions each."""
    world = ClientWorld("a", "b", stop_at_first=False)
    assert world.violated == []
    return world


@mutant
def illegal_transition() -> ClientWorld:
    world = settled()
    world.falsify("a", Tick(), world.change_state("a", ClientState.ACKNOWLEDGING))
    return world


@mutant
def secret_transition() -> ClientWorld:
    world = settled()
    world.change_state("a", ClientState.RECONCILING)
    world.falsify("a", Tick())
    return world


@mutant
def epoch_regress() -> ClientWorld:
    world = settled()
    world.member("a").adopt_epoch(2)
    world.falsify("a", Tick())
    return world


@mutant
def fatal_revives() -> ClientWorld:
    world = settled()
    refusal = ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
    world.holds_heartbeats = True
    world.run_for(6_000)
    name, heartbeat = world.held_heartbeats.pop(0)
    world.handle(name, HeartbeatAnswered(correlation_id=heartbeat.correlation_id, response=refusal))
    assert ClientState.FATAL is world.member(name).state
    assert world.violated == []
    world.falsify(name, Tick(), world.change_state(name, ClientState.JOINING))
    return world


@mutant
def hasty_heartbeat() -> ClientWorld:
    world = settled()
    world.run_for(1_000)
    world.falsify("a", Tick(), (world.last_heartbeat("a"),))
    world.run_for(1_000)
    world.falsify("a", Tick(), (world.last_heartbeat("a"),))
    return world


@mutant
def bare_join() -> ClientWorld:
    world = settled()
    world.falsify("a", Tick(), (world.last_heartbeat("a", member_epoch=0),))
    return world


@mutant
def talks_when_fenced() -> ClientWorld:
    world = settled()
    world.member("a").adopt_epoch(0)
    effects = world.change_state("a", ClientState.FENCED)
    world.falsify("a", Tick(), (*effects, world.last_heartbeat("a")))
    return world


@mutant
def invents_epoch() -> ClientWorld:
    world = settled()
    world.run_for(5_000)
    world.falsify("a", Tick(), (world.last_heartbeat("a", member_epoch=17),))
    return world


@mutant
def impatient_poll_timer() -> ClientWorld:
    world = settled()
    member = world.member("a")
    effects = world.change_state("a", ClientState.PREPARE_LEAVING)
    member.adopt_epoch(-1)
    effects += world.change_state("a", ClientState.LEAVING, ClientState.STALE)
    world.falsify("a", Tick(), effects)
    return world


@mutant
def stale_current() -> ClientWorld:
    """The target moves a partition, and the client is lifted to its epoch with that partition."""
    world = settled()
    mine, others = parts_of(world, "id-a"), parts_of(world, "id-b")
    world.write(
        epoch_record(4, world.group.metadata_hash),
        target("id-a", *mine[1:]),
        target("id-b", *others, mine[0]),
        target_epoch_record(4),
        current("id-a", 4, mine[1:], previous=3),
    )
    world.member("a").adopt_epoch(4)
    world.falsify("a", Tick())
    return world


@mutant
def keeps_its_first_interval() -> ClientWorld:
    """The machine goes by another interval than it was told."""
    world = settled()
    world.member("a")._heartbeats.interval_ms = 7_777
    world.checker.check_fully(world.falsify("a", Tick()))
    return world


@mutant
def moving_deadline() -> ClientWorld:
    """An owner never acknowledges, and its rebalance timer is put off for ever."""
    world = settled()
    world.checker.liveness.on_quiet_period_start(world.now_ms)
    world.holds_heartbeats = True
    world.join("c")
    world.join("d")
    world.heartbeat("id-a", 3)
    world.shard.armed_timers.pop(TimerKey(ConsumerTimer.REBALANCE, GROUP, "id-a"))
    return world


@mutant
def stale_pattern() -> ClientWorld:
    """Topics have changed, and no heartbeat has the pattern resolved again."""
    world = settled()
    context: Any = vars(world.shard.coordinator)["_context"]
    context.compile_regex = lambda text: re.compile(text).fullmatch
    world.handle("a", Subscribe(topic_regex="o.*"))
    world.run_for(20_000)
    assert world.violated == []
    other = Topic(topic_id="id-other", name="other", partition_count=1)
    world.update_image(MetadataImage([*IMAGE.by_name.values(), other]))
    world.checker.liveness.on_quiet_period_start(world.now_ms)
    return world
