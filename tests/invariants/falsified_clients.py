"""Mutants of the client that exist in these tests only: machines that were reached into, and steps
that no machine made. What has a mutant among the defects is not repeated here."""

from __future__ import annotations

import re
from typing import Any

from client_world import ClientWorld
from coordinator_world import GROUP, IMAGE
from falsified_coordinator import FALSIFIED, mutant

from rebalance_sim.protocol.clients.common.events import Subscribe, Tick
from rebalance_sim.protocol.clients.common.member_states import ClientState
from rebalance_sim.protocol.consumer.timer_keys import ConsumerTimer
from rebalance_sim.protocol.runtime.outcome import TimerKey
from rebalance_sim.protocol.wire.offset_messages import OffsetCommitRequest
from rebalance_sim.protocol.wire.topics import MetadataImage, Topic, TopicPartition

__all__ = ["FALSIFIED"]


def settled() -> ClientWorld:
    """Two clients at rest at epoch 3, with two partitions each."""
    world = ClientWorld("a", "b", stop_at_first=False)
    assert world.violated == []
    return world


@mutant(settled)
def epoch_regress(world: ClientWorld) -> None:
    world.member("a").adopt_epoch(2)
    world.falsify("a", Tick())


@mutant(settled)
def hasty_heartbeat(world: ClientWorld) -> None:
    world.run_for(1_000)
    world.falsify("a", Tick(), (world.last_heartbeat("a"),))
    world.run_for(1_000)
    world.falsify("a", Tick(), (world.last_heartbeat("a"),))


@mutant(settled)
def fails_for_nothing(world: ClientWorld) -> None:
    world.falsify("a", Tick(), world.change_state("a", ClientState.FATAL))


@mutant(settled)
def bare_join(world: ClientWorld) -> None:
    world.falsify("a", Tick(), (world.last_heartbeat("a", member_epoch=0),))


@mutant(settled)
def moving_deadline(world: ClientWorld) -> None:
    """An owner never acknowledges, and its rebalance timer is put off for ever."""
    world.checker.liveness.on_quiet_period_start(world.now_ms)
    world.holds_heartbeats = True
    world.join("c")
    world.join("d")
    world.heartbeat("id-a", 3)
    world.shard.armed_timers.pop(TimerKey(ConsumerTimer.REBALANCE, GROUP, "id-a"))


@mutant(settled)
def stale_pattern(world: ClientWorld) -> None:
    """Topics have changed, and no heartbeat has the pattern resolved again."""
    context: Any = vars(world.shard.coordinator)["_context"]
    context.compile_regex = lambda text: re.compile(text).fullmatch
    world.handle("a", Subscribe(topic_regex="o.*"))
    world.run_for(20_000)
    assert world.violated == []
    other = Topic(topic_id="id-other", name="other", partition_count=1)
    world.update_image(MetadataImage([*IMAGE.by_name.values(), other]))
    world.checker.liveness.on_quiet_period_start(world.now_ms)


@mutant(settled)
def commit_for_former_topic(world: ClientWorld) -> None:
    """The name of a topic that is gone belongs to another one."""
    request = OffsetCommitRequest(
        group_id=GROUP,
        member_id="id-a",
        generation_id_or_member_epoch=3,
        offsets={TopicPartition("id-former", 0): 5},
        wire_topics={"id-former": "orders"},
    )
    world.request(request)
