"""Mutants of mixed groups and of conversions that exist in these tests only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from classic_world import ClassicWorld, subscription
from coordinator_world import GROUP, orders
from falsified_coordinator import epoch_record, mutant
from falsified_returns import FALSIFIED

from rebalance_sim.protocol.classic.classic_group import ClassicGroup
from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup
from rebalance_sim.protocol.consumer.timer_keys import ConsumerTimer
from rebalance_sim.protocol.migration.mixed import MixedJoin
from rebalance_sim.protocol.runtime.outcome import Outcome, ScheduleTimer, TimerKey
from rebalance_sim.protocol.wire.records import (
    ConsumerGroupCurrentMemberAssignment,
    ConsumerGroupMemberMetadata,
    ConsumerGroupMetadata,
    ConsumerGroupTargetAssignmentMember,
    GroupMetadata,
    OffsetCommit,
)

__all__ = ["FALSIFIED"]

Change = Callable[[Outcome], Outcome]
_G = TypeVar("_G", ConsumerGroup, ClassicGroup)


def mixed(**config: Any) -> ClassicWorld:
    """X (consumer protocol) and A (classic) with two partitions each, at epoch 3."""
    bench = ClassicWorld(stop_at_first=False, **config)
    bench.join("X")
    bench.enter("A")
    bench.heartbeat("X", 2, owned=orders(0, 1, 2, 3))
    bench.heartbeat("X", 2, owned=orders(0, 1))
    bench.join_group("A", metadata=subscription(generation=3))
    bench.sync_group("A", generation=3)
    assert bench.violated == []
    assert {m.member_epoch for m in bench.group.members.values()} == {3}
    return bench


def recorded(change: Callable[[Any], Any]) -> Change:
    """Other records; None leaves one out."""

    def falsify(outcome: Outcome) -> Outcome:
        records = tuple(r for r in map(change, outcome.records) if r is not None)
        return replace(outcome, records=records)

    return falsify


# -- classic H3-H5, H8, H10 ------------------------------------------------------------------


def arm(bench: ClassicWorld, kind: str, member_id: str) -> None:
    key = TimerKey(ConsumerTimer(kind), GROUP, member_id)
    bench.shard.armed_timers[key] = ScheduleTimer(key, bench.now_ms + 60_000)


@mutant
def hybrid_join_timer_kept() -> ClassicWorld:
    bench = mixed()
    arm(bench, "mixed-join", bench.ids["A"])
    done = MixedJoin(
        group_id=GROUP,
        member_id=bench.ids["A"],
        session_timeout_ms=10_000,
        rebalance_timeout_ms=20_000,
    )
    bench.written(done, Outcome())
    return bench


@mutant
def hybrid_sync_timer_kept() -> ClassicWorld:
    bench = mixed()
    arm(bench, "mixed-sync", bench.ids["A"])

    def keep(outcome: Outcome) -> Outcome:
        return replace(
            outcome, timers=tuple(t for t in outcome.timers if isinstance(t, ScheduleTimer))
        )

    bench.sync_group("A", generation=3, change=keep)
    return bench


@mutant
def hybrid_timer_of_consumer() -> ClassicWorld:
    bench = mixed()
    arm(bench, "mixed-sync", "X")
    bench.heartbeat("X", 3, rebalance_timeout_ms=30_000)
    return bench


# -- classic H6-H9, H13 ----------------------------------------------------------------------


def classic(**config: Any) -> ClassicWorld:
    """A (who leads) and B in a stable classic group."""
    return ClassicWorld(stop_at_first=False, **config).stable("A", "B")


@mutant
def conversion_without_tombstone() -> ClassicWorld:
    bench = classic()
    bench.join("X", change=recorded(lambda r: None if isinstance(r, GroupMetadata) else r))
    return bench


@mutant
def conversion_loses_member() -> ClassicWorld:
    bench = classic()
    gone = bench.ids["B"]
    bench.join("X", change=recorded(lambda r: None if getattr(r, "member_id", None) == gone else r))
    return bench


@mutant
def conversion_number_falls() -> ClassicWorld:
    bench = classic()

    def lower(record: Any) -> Any:
        if not isinstance(record, ConsumerGroupMetadata):
            return record
        assert record.value is not None
        value = replace(record.value, epoch=record.value.epoch - 1)
        return ConsumerGroupMetadata(record.group_id, value)

    bench.join("X", change=recorded(lower))
    return bench


@mutant
def conversion_drops_offsets() -> ClassicWorld:
    bench = classic()
    bench.commit_offset("A", bench.generation)
    tombstone = OffsetCommit(GROUP, "orders", 0, None)
    bench.join("X", change=lambda o: replace(o, records=(*o.records, tombstone)))
    return bench


@mutant
def conversion_not_back() -> ClassicWorld:
    """The last member of the consumer protocol goes, and A stays alone in a consumer group."""
    bench = mixed()
    bench.write(
        ConsumerGroupCurrentMemberAssignment(GROUP, "X", None),
        ConsumerGroupTargetAssignmentMember(GROUP, "X", None),
        ConsumerGroupMemberMetadata(GROUP, "X", None),
        epoch_record(4),
    )
    return bench


def memory(bench: ClassicWorld, group_class: type[_G]) -> dict[str, _G]:
    """The coordinator's own table of the groups of a class, to be falsified."""
    groups = bench.shard.coordinator.groups_of(group_class)
    assert isinstance(groups, dict)
    return groups
