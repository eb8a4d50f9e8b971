"""Mutants of what ends a generation of a classic group, and of what static members that return are
told; they exist in these tests only."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

from classic_world import ClassicWorld
from falsified_classic import FALSIFIED, world
from falsified_coordinator import mutant

from rebalance_sim.protocol.classic import leave, static_replacement

__all__ = ["FALSIFIED"]


def with_seats(**options: Any) -> ClassicWorld:
    """A (who leads) and B in a stable group, each with an instance id."""
    bench = ClassicWorld(stop_at_first=False, **options)
    bench.enter("A", instance="a")
    bench.enter("B", instance="b")
    bench.join_group("A", instance="a")
    bench.sync_group("B", instance="b")
    bench.sync_group("A", {"A": (0, 1), "B": (2, 3)}, instance="a")
    assert bench.classic.state.value == "Stable"
    assert bench.violated == []
    return bench


@mutant
def classic_rebalance_for_nothing() -> ClassicWorld:
    """A LeaveGroup that removes nobody ends the generation."""
    bench = world()
    with patch.object(leave, "_member_id"), patch.object(leave, "_remove"):
        bench.leave_group("nobody")
    return bench


@mutant
def classic_rebalance_for_an_heir() -> ClassicWorld:
    """A static member that returns as it went ends the generation."""
    bench = with_seats(semantics="kafka-4.3-clean")
    with patch.object(static_replacement, "topics_of", lambda protocols: object()):
        bench.join_group("B", instance="b", member_id="")
    return bench


@mutant
def classic_former_leader() -> ClassicWorld:
    """The leader returns, and is told that the one before leads, as if it knew no better."""
    bench = with_seats()
    with patch.object(static_replacement, "_FIRST_VERSION_WITH_SKIP_ASSIGNMENT", 100):
        bench.join_group("A", instance="a", member_id="")
    return bench
