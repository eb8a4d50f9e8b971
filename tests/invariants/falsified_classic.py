"""Mutants of the coordinator of classic groups that exist in these tests only.

Each returns a world in which a group had come to rest without a breach, and was then reached into.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from classic_world import ClassicWorld, StubClient, assignment, refused, subscription
from coordinator_world import orders
from falsified_clients import FALSIFIED
from falsified_coordinator import mutant

from rebalance_sim.protocol.assignors.classic import CLASSIC_ASSIGNORS
from rebalance_sim.protocol.classic.operation import ClassicTimer
from rebalance_sim.protocol.clients import ClassicView, ClientState
from rebalance_sim.protocol.clients.common.classic_config import ClassicConsumerConfig
from rebalance_sim.protocol.clients.java.classic.classic_member_states import ClassicState
from rebalance_sim.protocol.clients.kinds import LIBRDKAFKA_CLASSIC
from rebalance_sim.protocol.clients.librdkafka.librdkafka_states import JoinState
from rebalance_sim.protocol.runtime.outcome import Completion, Outcome, TimerKey
from rebalance_sim.protocol.versions.semantics import SEMANTICS
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.offset_messages import OffsetCommitResponse

__all__ = ["FALSIFIED"]


def world(**options: Any) -> ClassicWorld:
    """A (who leads) and B in a stable group."""
    return ClassicWorld(stop_at_first=False, **options).stable("A", "B")


def completed(change: Callable[[Any], Any]) -> Callable[[Outcome], Outcome]:
    """Changes what parked requests are told."""

    def falsify(outcome: Outcome) -> Outcome:
        reported = tuple(Completion(t, change(response)) for t, response in outcome.completions)
        return replace(outcome, completions=reported)

    return falsify


# -- classic C1, C2 --------------------------------------------------------------------------


# -- classic C3, C4 --------------------------------------------------------------------------


# -- classic C5, C6 --------------------------------------------------------------------------


# -- classic C7, C8, C15 ---------------------------------------------------------------------


@mutant
def classic_sync_before_commit() -> ClassicWorld:
    """The coordinator does not wait for the record of its leader."""
    bench = world()
    bench.leave_group("B")
    bench.join_group("A")
    bench.commits_at_once = False
    operation = bench._operations + 1

    def answer_at_once(outcome: Outcome) -> Outcome:
        reported = Outcome(None, (), (), ())
        assert outcome.on_commit is not None
        reported = bench.shard.coordinator.committed(outcome.on_commit, now_ms=bench.now_ms)
        assert [token for token, _ in reported.completions] == [operation]
        return replace(outcome, completions=reported.completions, on_commit=None)

    bench.sync_group("A", {"A": (0, 1)}, change=answer_at_once)
    return bench


@mutant
def classic_sync_of_another() -> ClassicWorld:
    bench = world()
    bench.sync_group(
        "B", change=completed(lambda reported: replace(reported, assignment=assignment(0)))
    )
    return bench


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
def classic_commit_while_completing() -> ClassicWorld:
    bench = world()
    bench.leave_group("B")
    bench.join_group("A")
    bench.commit_offset("A", bench.generation, change=store)
    return bench


@mutant
def classic_ghost_heartbeat() -> ClassicWorld:
    bench = world()
    bench.leave_group("B")
    bench.beat("B", change=refused(ErrorCode.NONE))
    return bench


@mutant
def classic_ghost_sync() -> ClassicWorld:
    bench = world()
    bench.leave_group("B")
    bench.sync_group(
        "B", change=completed(lambda reported: replace(reported, error_code=ErrorCode.NONE))
    )
    return bench


# -- classic C12, C14 ------------------------------------------------------------------------


@mutant
def classic_no_sync_deadline() -> ClassicWorld:
    """KAFKA-12890."""
    semantics = SEMANTICS["kafka-4.3"].with_defects("KAFKA-12890")
    bench = ClassicWorld(semantics, stop_at_first=False)
    bench.enter("A")
    return bench


@mutant
def classic_join_timer_lost() -> ClassicWorld:
    bench = world()
    bench.leave_group("B")
    del bench.shard.armed_timers[TimerKey(ClassicTimer.JOIN, bench.group_id)]
    bench.beat("A")
    return bench


@mutant
def classic_session_lost() -> ClassicWorld:
    bench = world()
    bench.beat("A", change=lambda outcome: replace(outcome, timers=()))
    del bench.shard.armed_timers[TimerKey(ClassicTimer.SESSION, bench.group_id, bench.ids["A"])]
    bench.beat("A", change=lambda outcome: replace(outcome, timers=()))
    return bench


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


@mutant
def librdkafka_eager_keeps() -> ClassicWorld:
    """Likewise, in librdkafka's words."""
    bench = world()
    kept = dict.fromkeys(orders(0))
    bench.show_client(
        StubClient(
            "A",
            kind=LIBRDKAFKA_CLASSIC,
            classic=ClassicView(
                is_cooperative=False, state=JoinState.WAIT_SYNC, is_rebalancing=True
            ),
            assigned=kept,
        )
    )
    return bench


@mutant
def classic_double_consumption() -> ClassicWorld:
    bench = world()
    for name in "AB":
        bench.show_client(
            StubClient(
                name,
                member_id=bench.ids[name],
                member_epoch=bench.generation,
                fetchable=orders(0),
            )
        )
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


@mutant
def classic_gap_in_assignment() -> ClassicWorld:
    return given(A=(0,), B=(2, 3))


@mutant
def classic_transfer_at_once() -> ClassicWorld:
    """B claims orders-1, and A is given it."""
    bench = ClassicWorld(stop_at_first=False)
    cooperative: dict[str, Any] = {"protocols": ("cooperative-sticky",)}
    bench.stable("A", "B", **cooperative)
    show_leader(bench)
    bench.join_group("A", **cooperative)
    owned = subscription(owned={"orders": (1, 3)}, generation=bench.generation)
    bench.join_group("B", metadata=owned, **cooperative)
    bench.sync_group("A", {"A": (0, 1, 2), "B": (3,)})
    return bench


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


@mutant
def classic_never_synced() -> ClassicWorld:
    """The leader never says who gets what."""
    bench = world()
    bench.leave_group("B")
    bench.join_group("A")
    return quiet(bench, epoch=bench.generation)


@mutant
def classic_nobody_works() -> ClassicWorld:
    """A is given everything, and fetches nothing."""
    bench = world()
    bench.leave_group("B")
    bench.join_group("A")
    bench.sync_group("A", {"A": (0, 1, 2, 3)})
    return quiet(bench, epoch=bench.generation)


# -- always answered -------------------------------------------------------------------------


def silent(outcome: Outcome) -> Outcome:
    """Nobody who waits is answered."""
    return replace(outcome, completions=())


@mutant
def classic_refuses_silently() -> ClassicWorld:
    bench = world()
    bench.sync_group("B", generation=bench.generation - 1, change=silent)
    bench.advance_to(bench.now_ms + 1)
    bench.sync_group("A")
    return bench


@mutant
def classic_forgets_the_replaced() -> ClassicWorld:
    bench = world()
    bench.enter("C", instance="i")
    bench.join_group("A")
    bench.join_group("B")
    bench.sync_group("C", instance="i")
    bench.join_group("C", instance="i", member_id="", change=silent)
    bench.advance_to(bench.now_ms + 1)
    bench.sync_group("B")
    return bench
