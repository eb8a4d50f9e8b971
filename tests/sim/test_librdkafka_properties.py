"""Properties about clients judge librdkafka clients too, and ask of them only what is theirs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from worlds import client, spec

from rebalance_sim.invariants.engine.checker import Checker
from rebalance_sim.invariants.engine.discovery import INVARIANTS, LIVENESS
from rebalance_sim.protocol.clients.common.values import CallbackKind
from rebalance_sim.protocol.clients.kinds import CLASSIC, JAVA, LIBRDKAFKA_KINDS
from rebalance_sim.protocol.clients.librdkafka.assignment import Assignment
from rebalance_sim.protocol.clients.librdkafka.consumer.librdkafka_heartbeats import Heartbeats
from rebalance_sim.protocol.clients.librdkafka.coordinator_connection import CoordinatorLink
from rebalance_sim.protocol.clients.librdkafka.librdkafka_commits import Commits
from rebalance_sim.protocol.clients.librdkafka.librdkafka_rebalance import Rebalance
from rebalance_sim.protocol.wire.consumer_messages import LEAVE_EPOCH, ConsumerGroupHeartbeatRequest
from rebalance_sim.sim.faults.clients import CallbackSlowdown, ClientClose, PollStall
from rebalance_sim.sim.faults.connections import ClientPartition, ConnectionLoss
from rebalance_sim.sim.faults.fault import Fault
from rebalance_sim.sim.network.link import Moment
from rebalance_sim.sim.spec import ClientSpec, TopicSpec
from rebalance_sim.sim.world import World

FAULTS: tuple[Fault, ...] = (
    ConnectionLoss(at_ms=17_000, client="a", moment=Moment.BEFORE_RESPONSE),
    CallbackSlowdown(at_ms=20_000, duration_ms=15_000, client="a", callback_ms=1_500),
    ClientPartition(at_ms=40_000, duration_ms=8_000, client="b"),
    PollStall(at_ms=60_000, duration_ms=20_000, client="a"),
    ClientPartition(at_ms=100_000, duration_ms=60_000, client="b"),
    ClientClose(at_ms=180_000, client="a", down_ms=2_000),
)
"""A slow rebalance when b joins, an answer that does not come, a stall, a fence, a leave."""


def settings_of(name: str, **settings: Any) -> ClientSpec:
    return client(
        name, kind="librdkafka", enable_auto_commit=True, max_poll_interval_ms=10_000, **settings
    )


def story() -> tuple[World, Checker]:
    """A world of two librdkafka clients, one of them static."""
    checkers: list[Checker] = []

    def make_checker(view: World) -> Checker:
        checkers.append(Checker(view, stop_at_first=False, known_issues={}))
        return checkers[-1]

    world = World(
        spec(
            settings_of("a", instance_id="seat"),
            settings_of("b", start_ms=20_000),
            topics=(TopicSpec(name="orders", partition_count=6, records_per_second=10),),
            faults=FAULTS,
            duration_ms=200_000,
        ),
        make_checker=make_checker,
    )
    return world, checkers[0]


def violates(spec: str) -> bool:
    """Whether this property is violated at some time; what comes after that is not looked at."""
    world, checker = story()
    for at_ms in range(1_000, 200_000, 1_000):
        world.advance_to(at_ms)
        if any(violation.property.id == spec for violation in checker.violations):
            return True
    return False


def test_a_correct_client_satisfies_every_property_in_this_story() -> None:
    world, checker = story()
    world.run()
    assert [str(violation) for violation in checker.violations] == []


# --- mutants: each replaces one rule of the machine ----------------------------------------------


def _nothing(*arguments: Any) -> None:
    """In place of what a mutant leaves out."""


def _sent_as_if_newer(original: Callable[..., None]) -> Callable[..., None]:
    def transmit(self: Commits, commit: Any) -> None:
        epoch = commit.request.generation_id_or_member_epoch
        commit.request = replace(commit.request, generation_id_or_member_epoch=epoch + 1)
        original(self, commit)

    return transmit


def _lost_always(self: Rebalance, task: Any) -> bool:
    task.kind = CallbackKind.LOST
    return True


def _static_leaves_for_good(original: Callable[..., None]) -> Callable[..., None]:
    def emit(
        self: Heartbeats, request: ConsumerGroupHeartbeatRequest, *, is_leave: bool = False
    ) -> None:
        if request.member_epoch < 0:
            request = replace(request, member_epoch=LEAVE_EPOCH)
        original(self, request, is_leave=is_leave)

    return emit


MUTANTS: dict[str, tuple[type, str, Any, str]] = {
    "gives a heartbeat up without its connection": (
        CoordinatorLink,
        "cut",
        _nothing,
        "client.hb.one_in_flight",
    ),
    "fetches during callbacks": (Rebalance, "_pause", _nothing, "client.fetch.subset"),
    "revokes nothing but loses all": (
        Rebalance,
        "_name_callback",
        _lost_always,
        "client.callback.identity",
    ),
    "signs commits with the next epoch": (
        Commits,
        "_transmit",
        _sent_as_if_newer(Commits._transmit),
        "client.commit.epoch",
    ),
    "a static member leaves for good": (
        Heartbeats,
        "_emit",
        _static_leaves_for_good(Heartbeats._emit),
        "client.leave.once",
    ),
    "keeps what it has given up": (Assignment, "remove", _nothing, "client.revoke_before_ack"),
}


@pytest.mark.parametrize("name", sorted(MUTANTS))
def test_a_client_with_a_bug_breaks_the_property(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    part, method, mutant, property_id = MUTANTS[name]
    monkeypatch.setattr(part, method, mutant)
    assert violates(property_id)


# --- which properties are about whom
# ---------------------------------------------------------------


def test_a_property_about_java_alone_says_so() -> None:
    of_java = [
        spec
        for spec in (*INVARIANTS, *LIVENESS)
        if set(spec.client_kinds).isdisjoint(LIBRDKAFKA_KINDS)
    ]
    assert {spec.client_kinds for spec in of_java} <= {(JAVA,), (CLASSIC,), (JAVA, CLASSIC)}
    assert all("Java" in spec.sentence for spec in of_java)
    of_clients = [i for i in INVARIANTS if i.id.startswith(("client.", "classic.client."))]
    assert 0 < len(of_java) < len(of_clients) / 2
