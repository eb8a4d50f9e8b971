"""Mutants of the coordinator of classic and mixed groups that exist in these tests only.

Each returns a world in which a group had come to rest without a breach, and was then reached into.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from classic_world import ClassicWorld, StubClient, refused, subscription
from coordinator_world import orders
from falsified_clients import FALSIFIED
from falsified_coordinator import mutant

from rebalance_sim.protocol.clients.common.group_member import ClassicView
from rebalance_sim.protocol.clients.java.classic.classic_member_states import ClassicState
from rebalance_sim.protocol.runtime.outcome import Outcome
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.offset_messages import OffsetCommitResponse
from rebalance_sim.protocol.wire.records import GroupMetadata

__all__ = ["FALSIFIED"]

Change = Callable[[Outcome], Outcome]


def world(**options: Any) -> ClassicWorld:
    """A (who leads) and B in a stable group."""
    return ClassicWorld(stop_at_first=False, **options).stable("A", "B")


def store(outcome: Outcome) -> Outcome:
    """A refused commit is stored all the same."""
    response: Any = outcome.response
    accepted = dict.fromkeys(response.errors, ErrorCode.NONE)
    return replace(outcome, response=OffsetCommitResponse(errors=accepted))


@mutant(world)
def classic_commit_unfenced(bench: ClassicWorld) -> None:
    bench.commit_offset("A", bench.generation - 1, change=store)


@mutant(world)
def classic_ghost_heartbeat(bench: ClassicWorld) -> None:
    bench.leave_group("B")
    bench.beat("B", change=refused(ErrorCode.NONE))


@mutant(world)
def classic_eager_keeps(bench: ClassicWorld) -> None:
    """It has sent JoinGroup, and not given up what it had."""
    state = ClassicState.PREPARING_REBALANCE
    view = ClassicView(is_cooperative=False, state=state, is_rebalancing=True)
    kept = dict.fromkeys(orders(0))
    bench.show_client(StubClient("A", classic=view, assigned=kept))


@mutant(world)
def classic_double_assignment(bench: ClassicWorld) -> None:
    """A, which is a client, leads another generation, and gives a partition twice."""
    bench.show_client(StubClient("A", member_id=bench.ids["A"], member_epoch=bench.generation))
    bench.join_group("A")
    bench.join_group("B")
    bench.sync_group("A", {"A": (0, 1), "B": (1, 2, 3)})


def silent(outcome: Outcome) -> Outcome:
    """No one who waits is answered."""
    return replace(outcome, completions=())


@mutant(world)
def classic_refuses_silently(bench: ClassicWorld) -> None:
    bench.sync_group("B", generation=bench.generation - 1, change=silent)
    while bench.now_ms < 40_000:
        bench.advance_to(bench.now_ms + 4_000)
        bench.sync_group("A")


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


@mutant(world)
def conversion_without_tombstone(bench: ClassicWorld) -> None:
    bench.join("X", change=recorded(lambda r: None if isinstance(r, GroupMetadata) else r))


@mutant(world)
def conversion_loses_member(bench: ClassicWorld) -> None:
    gone = bench.ids["B"]
    bench.join("X", change=recorded(lambda r: None if getattr(r, "member_id", None) == gone else r))
