"""What random requests have shown to be right, though a property once called it wrong."""

from __future__ import annotations

from dataclasses import replace

import coordinator_world
import pytest
from classic_world import CLASSIC_CONFIG, ClassicWorld, subscription
from coordinator_world import FIRST, GROUP, ORDERS, PAYMENTS, CoordinatorWorld, orders
from falsified_classic import mixed
from falsified_requests import commit_of

from rebalance_sim.invariants.step import StepKind
from rebalance_sim.protocol.wire.classic_messages import LeaveGroupRequest, MemberIdentity
from rebalance_sim.protocol.wire.consumer_messages import ConsumerGroupDescribeRequest
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.topics import MetadataImage

MINUTE_MS = 60_000


def test_a_retention_counts_from_when_a_group_emptied_though_that_was_not_written() -> None:
    """coordinator §8.5: a classic group is in memory; its records may have failed."""
    config = replace(
        CLASSIC_CONFIG,
        offsets_retention_minutes=1,
        offsets_retention_check_interval_ms=MINUTE_MS + 1_000,
    )
    world = ClassicWorld(config=config).stable("A")
    leave = LeaveGroupRequest(group_id=GROUP, members=(MemberIdentity(world.ids["A"], None),))
    world.request(leave, change=lambda outcome: replace(outcome, records=()))
    world.now_ms = 50_000
    assert world.request(commit_of("", -1)).errors == {FIRST: ErrorCode.NONE}
    world.advance_to(MINUTE_MS + 1_000)
    assert world.classic_or_none() is None
    assert world.violated == []


def test_topics_that_a_failed_batch_has_seen_are_news_to_the_next_one() -> None:
    """coordinator §9.4: what a failed batch wrote was never written."""
    world = mixed()
    world.update_image(MetadataImage([replace(ORDERS, partition_count=6), PAYMENTS]))
    world.commits_at_once = False
    end, timers = world.shard.log_end_offset, dict(world.shard.armed_timers)
    world.heartbeat("X", 3, owned=orders(0, 1))
    assert world.group.group_epoch == 4
    del world.shard.log[end:]
    world.shard.armed_timers.update(timers)
    world.shard.coordinator = world.new_coordinator()
    for record in world.shard.log:
        world.shard.coordinator.replay(record, strict=False)
    world.show(StepKind.LOG_TRUNCATED, shard=world.shard)
    assert world.group.group_epoch == 3
    world.join_group("A", metadata=subscription(generation=3))
    assert world.group.group_epoch == 4
    assert world.violated == []


def test_a_group_without_an_id_is_described_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    """coordinator §6.3: also where offsets are committed under that id."""
    monkeypatch.setattr(coordinator_world, "GROUP", "")
    world = CoordinatorWorld()
    commit = replace(commit_of("", -1), group_id="")
    assert world.request(commit).errors == {FIRST: ErrorCode.NONE}
    describe = ConsumerGroupDescribeRequest(group_ids=("", GROUP))
    rows = world.request(describe)
    assert [row.error_code for row in rows] == [
        ErrorCode.INVALID_GROUP_ID,
        ErrorCode.GROUP_ID_NOT_FOUND,
    ]
    assert world.violated == []
    world.request(
        describe,
        change=lambda outcome: replace(
            outcome, response=tuple(replace(r, error_code=ErrorCode.NONE) for r in rows)
        ),
    )
    assert world.violated != []
