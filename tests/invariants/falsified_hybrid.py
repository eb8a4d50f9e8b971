"""Mutants of mixed groups and of conversions that exist in these tests only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from classic_world import ClassicWorld, subscription
from coordinator_world import orders
from falsified_classic import FALSIFIED
from falsified_coordinator import mutant

from rebalance_sim.protocol.classic.classic_group import ClassicGroup
from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup
from rebalance_sim.protocol.runtime.outcome import Outcome
from rebalance_sim.protocol.wire.records import (
    GroupMetadata,
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
