"""How long group epochs wait for their target and for their members."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from worlds import HEARTBEAT_INTERVAL_MS, Watched, client, spec

from rebalance_sim.protocol.consumer.consumer_group import GroupState
from rebalance_sim.protocol.runtime.coordinator_config import CoordinatorConfig
from rebalance_sim.protocol.wire.records import (
    ConsumerGroupMetadata,
    ConsumerGroupTargetAssignmentMetadata,
    GroupMetadataValue,
    Record,
    TargetMetadataValue,
)
from rebalance_sim.sim.faults.clients import ClientClose
from rebalance_sim.sim.faults.topics import TopicGrow
from rebalance_sim.sim.observe.epoch_delays import EpochDelays


class Story:
    """Batches that leaders write, at times."""

    def __init__(self) -> None:
        self.delays = EpochDelays()
        self.group = SimpleNamespace(state=GroupState.RECONCILING, group_epoch=0)

    def write(
        self,
        at_ms: int,
        *records: Record,
        state: GroupState = GroupState.ASSIGNING,
        leader: int = 0,
    ) -> None:
        for record in records:
            if isinstance(record, ConsumerGroupMetadata) and record.value is not None:
                self.group.group_epoch = record.value.epoch
        self.group.state = state
        coordinator = SimpleNamespace(groups_of=lambda kind: {"group": self.group})
        shard: Any = SimpleNamespace(coordinator=coordinator, leader_epoch=leader)
        self.delays.on_records(shard, records, at_ms)

    @property
    def assignment(self) -> tuple[int, int]:
        return self.delays.assignment.sum_ms, self.delays.assignment.longest_ms

    @property
    def reconciliation(self) -> tuple[int, int]:
        return self.delays.reconciliation.sum_ms, self.delays.reconciliation.longest_ms


def epoch(number: int) -> Record:
    return ConsumerGroupMetadata("group", GroupMetadataValue(epoch=number, metadata_hash=1))


def target(number: int) -> Record:
    value = TargetMetadataValue(assignment_epoch=number, assignment_timestamp=None)
    return ConsumerGroupTargetAssignmentMetadata("group", value)


def test_one_target_serves_every_epoch_that_waits() -> None:
    story = Story()
    story.write(1_000, epoch(2))
    story.write(1_300, epoch(3))
    story.write(2_000, target(3), state=GroupState.RECONCILING)
    assert story.assignment == (1_000 + 700, 1_000)
    assert story.delays.target_count == 1
    story.write(4_000, target(3), state=GroupState.STABLE)
    assert story.reconciliation == (3_000 + 2_700, 3_000)


def test_a_target_in_the_same_batch_is_no_delay() -> None:
    story = Story()
    story.write(500, epoch(2), target(2), state=GroupState.STABLE)
    assert (story.assignment, story.reconciliation) == ((0, 0), (0, 0))
    assert story.delays.target_count == 1


def test_a_group_that_is_empty_by_then_waits_for_nothing() -> None:
    story = Story()
    story.write(500, epoch(2), state=GroupState.EMPTY)
    story.write(9_000, epoch(3), target(3), state=GroupState.STABLE)
    assert (story.assignment, story.reconciliation) == ((0, 0), (0, 0))


def test_an_epoch_that_a_failover_takes_back_counts_from_its_second_coming() -> None:
    story = Story()
    story.write(1_000, epoch(5))
    story.write(4_000, epoch(5), leader=1)
    story.write(4_200, target(5), leader=1, state=GroupState.STABLE)
    assert (story.assignment, story.reconciliation) == ((200, 200), (200, 200))


def test_a_leader_that_has_been_replaced_does_not_count() -> None:
    story = Story()
    story.write(1_000, epoch(2), leader=1)
    story.write(1_500, epoch(3), target(3), leader=0, state=GroupState.STABLE)
    assert (story.assignment, story.reconciliation) == ((0, 0), (0, 0))
    story.write(1_600, target(2), leader=1, state=GroupState.STABLE)
    assert (story.assignment, story.reconciliation) == ((600, 600), (600, 600))


# --- in a world ----------------------------------------------------------------------------------


def measured(interval_ms: int, *clients: Any, **settings: Any) -> dict[str, float]:
    config = CoordinatorConfig(group_consumer_assignment_interval_ms=interval_ms)
    result = Watched(spec(*clients, config=config, **settings)).run()
    return dict(result.metrics)


def test_an_assignment_interval_saves_targets_and_costs_time() -> None:
    joiners = tuple(client(name, start_ms=10_000 + 100 * i) for i, name in enumerate("bcde"))
    at_once = measured(0, client("a"), *joiners)
    batched = measured(1_000, client("a"), *joiners)
    assert at_once["rebalances"] == batched["rebalances"] == 5
    assert at_once["targets_computed"] == 5
    assert at_once["assignment_delay_ms"] == 0
    # b comes long after the first target, and gets one of its own; c, d and e share the next one,
    # which the first heartbeat after the interval computes.
    assert batched["targets_computed"] == 3
    assert 700 <= batched["assignment_delay_ms_max"] <= HEARTBEAT_INTERVAL_MS
    assert batched["assignment_delay_ms"] > 2 * 700


def test_a_leave_waits_for_the_next_heartbeat_of_anybody() -> None:
    close = (ClientClose(at_ms=20_000, client="b"),)
    found = measured(0, client("a"), client("b"), faults=close)
    assert 0 < found["assignment_delay_ms"] <= HEARTBEAT_INTERVAL_MS
    assert found["assignment_delay_ms"] == found["assignment_delay_ms_max"]


def test_an_epoch_is_reconciled_when_the_member_has_acknowledged() -> None:
    grow = (TopicGrow(at_ms=20_000, topic="orders", partition_count=9),)
    found = measured(0, client("a"), faults=grow)
    # The heartbeat that notices bumps, assigns, and moves the one member there.
    assert found["reconciliation_delay_ms"] == 0
    two = measured(0, client("a"), client("b", start_ms=10_000))
    # a must be told, revoke, and acknowledge; then b is granted.
    assert 0 < two["reconciliation_delay_ms"] <= 2 * HEARTBEAT_INTERVAL_MS + 1_000
