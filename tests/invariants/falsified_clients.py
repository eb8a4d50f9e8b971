"""Mutants of the client that exist in these tests only: machines that were reached into, and steps
that no machine made. What has a mutant among the defects is not repeated here."""

from __future__ import annotations

import re
from typing import Any
from unittest.mock import patch

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

from rebalance_sim.protocol.clients import (
    ClientState,
    CommitAnswered,
    HeartbeatAnswered,
    SendCommit,
    Subscribe,
    Tick,
)
from rebalance_sim.protocol.clients.java.consumer.client_reconciliation import Reconciler
from rebalance_sim.protocol.consumer.timer_keys import ConsumerTimer
from rebalance_sim.protocol.runtime.outcome import TimerKey
from rebalance_sim.protocol.wire.consumer_messages import ConsumerGroupHeartbeatResponse
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.offset_messages import OffsetCommitResponse
from rebalance_sim.protocol.wire.topics import MetadataImage, Topic

__all__ = ["FALSIFIED"]


def settled() -> ClientWorld:
    """Two clients at rest at epoch 3, with two partitions each."""
    world = ClientWorld("a", "b", stop_at_first=False)
    assert world.violated == []
    return world


@mutant
def epoch_regress() -> ClientWorld:
    world = settled()
    world.member("a").adopt_epoch(2)
    world.falsify("a", Tick())
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


class _HoldsCommits(ClientWorld):
    """Commits are not answered before ``answer_commit``."""

    def __init__(self, *names: str, **options: Any) -> None:
        self.held_commits: list[tuple[str, SendCommit]] = []
        super().__init__(*names, **options)

    def carry_out(self, name: str, effect: Any) -> list[Any]:
        if isinstance(effect, SendCommit):
            self.held_commits.append((name, effect))
            return []
        return super().carry_out(name, effect)

    def answer_commit(self, code: ErrorCode) -> None:
        """Answer the only one there is."""
        [(name, commit)] = self.held_commits
        self.held_commits = []
        response = OffsetCommitResponse(errors=dict.fromkeys(commit.request.offsets, code))
        self.handle(name, CommitAnswered(correlation_id=commit.correlation_id, response=response))


class _CommitsByItself(_HoldsCommits):
    commits_by_itself = True


@mutant
def finishes_former_reconciliations() -> ClientWorld:
    """A client is fenced while it commits before a revocation, and goes on with it as a member
    that joins again."""

    def forgets_names_only(self: Any) -> None:
        self._has_overtaken_current = False
        self.topic_names.forget()

    world = _CommitsByItself("a", stop_at_first=False)
    world.held_commits.clear()
    world.start("b")
    while not world.held_commits:
        world.run_for(100)
    revoked = max(world.member("a").assigned.keys() - world.member("a").target.partitions)
    world.holds_heartbeats = True

    def answer_heartbeat(**fields: Any) -> None:
        while "a" not in dict(world.held_heartbeats):
            world.run_for(100)
        held, world.held_heartbeats = dict(world.held_heartbeats)["a"], []
        response = ConsumerGroupHeartbeatResponse(heartbeat_interval_ms=5_000, **fields)
        world.handle("a", HeartbeatAnswered(correlation_id=held.correlation_id, response=response))

    with patch.object(Reconciler, "on_rejoin", forgets_names_only):
        answer_heartbeat(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
        answer_heartbeat(
            error_code=ErrorCode.NONE,
            member_id="id-a",
            member_epoch=4,
            assignment=frozenset({revoked}),
        )
        world.answer_commit(ErrorCode.NONE)
        world.run_for(100)
    return world
