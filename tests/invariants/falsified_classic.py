"""Mutants of the coordinator of classic groups that exist in these tests only.

Each returns a world in which a group had come to rest without a breach, and was then reached into.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from classic_world import ClassicWorld, StubClient, refused
from coordinator_world import orders
from falsified_clients import FALSIFIED
from falsified_coordinator import mutant

from rebalance_sim.protocol.assignors.classic import CLASSIC_ASSIGNORS
from rebalance_sim.protocol.clients import ClassicView, ClientState
from rebalance_sim.protocol.clients.common.classic_config import ClassicConsumerConfig
from rebalance_sim.protocol.clients.java.classic.classic_member_states import ClassicState
from rebalance_sim.protocol.runtime.outcome import Outcome
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.offset_messages import OffsetCommitResponse

__all__ = ["FALSIFIED"]


def world(**options: Any) -> ClassicWorld:
    """A (who leads) and B in a stable group."""
    return ClassicWorld(stop_at_first=False, **options).stable("A", "B")


# -- classic C1, C2 --------------------------------------------------------------------------


# -- classic C3, C4 --------------------------------------------------------------------------


# -- classic C5, C6 --------------------------------------------------------------------------


# -- classic C7, C8, C15 ---------------------------------------------------------------------


def store(outcome: Outcome) -> Outcome:
    """A refused commit is stored all the same."""
    response: Any = outcome.response
    accepted = dict.fromkeys(response.errors, ErrorCode.NONE)
    return replace(outcome, response=OffsetCommitResponse(errors=accepted))


@mutant
def classic_commit_unfenced() -> ClassicWorld:
    bench = world()
    bench.commit_offset("A", bench.generation - 1, change=store)
    return bench


@mutant
def classic_ghost_heartbeat() -> ClassicWorld:
    bench = world()
    bench.leave_group("B")
    bench.beat("B", change=refused(ErrorCode.NONE))
    return bench


# -- classic C12, C14 ------------------------------------------------------------------------


# -- classic C9-C11 --------------------------------------------------------------------------


@mutant
def classic_eager_keeps() -> ClassicWorld:
    """It has sent JoinGroup, and not given up what it had."""
    bench = world()
    state = ClassicState.PREPARING_REBALANCE
    view = ClassicView(is_cooperative=False, state=state, is_rebalancing=True)
    kept = dict.fromkeys(orders(0))
    bench.show_client(StubClient("A", classic=view, assigned=kept))
    return bench


def show_leader(bench: ClassicWorld) -> None:
    """A is a client."""
    client = StubClient("A", member_id=bench.ids["A"], member_epoch=bench.generation)
    bench.show_client(client)


def given(**shares: tuple[int, ...]) -> ClassicWorld:
    """A, which is a client, leads another generation, and gives this."""
    bench = world()
    show_leader(bench)
    bench.join_group("A")
    bench.join_group("B")
    bench.sync_group("A", shares)
    return bench


@mutant
def classic_double_assignment() -> ClassicWorld:
    return given(A=(0, 1), B=(1, 2, 3))


# -- classic C13 -----------------------------------------------------------------------------


def quiet(bench: ClassicWorld, *, epoch: int) -> ClassicWorld:
    """A is a client that should be at work, and a long quiet period has passed."""
    bench.show_client(
        StubClient(
            "A",
            member_id=bench.ids["A"],
            member_epoch=epoch,
            state=ClientState.STABLE,
            has_subscription=True,
            subscribed_topic_names=frozenset({"orders"}),
            is_polling=True,
            is_closed=False,
            blocked_in=None,
            leave_is_pending=False,
            heartbeat_interval_ms=0,
            config=ClassicConsumerConfig(
                group_id="group", assignors=(CLASSIC_ASSIGNORS["range"],), max_poll_interval_ms=1
            ),
        )
    )
    bench.checker.liveness.on_quiet_period_start(bench.now_ms)
    return bench


# -- always answered -------------------------------------------------------------------------


def silent(outcome: Outcome) -> Outcome:
    """Nobody who waits is answered."""
    return replace(outcome, completions=())


@mutant
def classic_refuses_silently() -> ClassicWorld:
    bench = world()
    bench.sync_group("B", generation=bench.generation - 1, change=silent)
    while bench.now_ms < 40_000:
        bench.advance_to(bench.now_ms + 4_000)
        bench.sync_group("A")
    return bench
