"""Faults of clients that come in numbers, and of one connection: what becomes of the group."""

from __future__ import annotations

from dataclasses import replace

import pytest
from worlds import Watched, client, spec

from rebalance_sim.invariants.step import StepKind
from rebalance_sim.protocol.clients.kinds import EVERY_KIND
from rebalance_sim.scenarios.defects import defect_scenario
from rebalance_sim.scenarios.runner import run
from rebalance_sim.sim.faults.clients import CallbackSlowdown, ClientClose, ClientCrash
from rebalance_sim.sim.faults.connections import ConnectionBlackhole
from rebalance_sim.sim.faults.deployments import CrashLoop, FleetRestart, SurgeDeploy
from rebalance_sim.sim.faults.fault import Fault

ALL = set(range(6))
_LIST = ("range",)


def owned(watched: Watched, *names: str) -> set[int]:
    """What these clients may fetch together."""
    return set().union(*(watched.fetchable(name) for name in names))


def starts(watched: Watched, name: str) -> list[int]:
    """When processes of a client have started."""
    return [step["at_ms"] for step in watched.steps(StepKind.CLIENT_STARTED, client=name)]


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_a_connection_that_dies_silently_is_replaced_when_a_request_times_out(kind: str) -> None:
    """With a session that is longer than that the client stays a member."""
    hole = ConnectionBlackhole(at_ms=20_000, duration_ms=100_000, client="a")
    of_client = {"kind": kind, "assignors": _LIST, "request_timeout_ms": 8_000}
    clients = (client("a", **of_client), client("b", **of_client))
    watched = Watched(spec(*clients, faults=(hole,), duration_ms=150_000))
    watched.advance_to(20_001)
    before = watched.fetchable("a")
    watched.advance_to(100_000)  # librdkafka's classic client waits for its session
    assert owned(watched, "a", "b") == ALL
    assert len(watched.fetchable("a")) == 3
    if kind != "librdkafka-classic":
        assert watched.fetchable("a") == before
    watched.run()


def test_only_the_connections_of_that_moment_die() -> None:
    hole = ConnectionBlackhole(at_ms=20_000, duration_ms=40_000, client="a")
    watched = Watched(spec(client("a", request_timeout_ms=8_000), faults=(hole,)))
    watched.advance_to(50_000)
    answered = [
        step["at_ms"]
        for step in watched.steps(StepKind.CLIENT_EVENT, client="a")
        if step["event"]["type"] == "HeartbeatAnswered" and step["at_ms"] > 20_000
    ]
    assert answered and 28_000 < answered[0] < 35_000


@pytest.mark.parametrize("graceful", [True, False])
def test_a_fleet_is_restarted_at_once(graceful: bool) -> None:
    fault = FleetRestart(at_ms=20_000, down_ms=3_000, graceful=graceful)
    watched = Watched(spec(client("a"), client("b"), client("c"), faults=(fault,)))
    watched.advance_to(22_900)
    assert not any(process.is_alive for process in watched.world.clients().values())
    watched.run()
    assert [starts(watched, name) for name in "abc"] == [[0, 23_000]] * 3
    assert owned(watched, "a", "b", "c") == ALL


def test_a_crash_loop_leaves_a_member_behind_for_each_process() -> None:
    loop = CrashLoop(at_ms=20_000, client="a", count=4, up_ms=2_000, down_ms=1_000)
    watched = Watched(spec(client("a"), client("b"), faults=(loop,)))
    watched.advance_to(30_500)
    assert starts(watched, "a") == [0, 21_000, 24_000, 27_000, 30_000]
    assert len(watched.group().members) >= 5
    watched.run()
    assert owned(watched, "a", "b") == ALL


def test_new_clients_start_before_the_old_ones_stop() -> None:
    surge = SurgeDeploy(at_ms=20_000, clients=("a", "b"), successors=("c", "d"), overlap_ms=10_000)
    away: tuple[Fault, ...] = tuple(ClientClose(at_ms=5_000, client=name) for name in "cd")
    watched = Watched(spec(*(client(name) for name in "abcd"), faults=(*away, surge)))
    watched.advance_to(19_000)
    assert owned(watched, "a", "b") == ALL
    watched.advance_to(29_000)
    assert all(len(watched.fetchable(name)) in (1, 2) for name in "abcd")
    watched.run()
    assert owned(watched, "c", "d") == ALL
    assert not watched.world.clients()["a"].is_alive


def test_who_is_down_when_it_is_replaced_does_not_come_back() -> None:
    away = ClientClose(at_ms=5_000, client="b")
    surge = SurgeDeploy(at_ms=20_000, clients=("a",), successors=("b",), overlap_ms=10_000)
    crash = ClientCrash(at_ms=25_000, client="a", down_ms=20_000)
    watched = Watched(spec(client("a"), client("b"), faults=(away, surge, crash)))
    watched.run()
    assert len(starts(watched, "a")) == 1
    assert watched.fetchable("b") == ALL


def test_who_is_still_closing_comes_back_for_the_surge() -> None:
    slow = CallbackSlowdown(at_ms=18_000, duration_ms=12_000, client="c", callback_ms=10_000)
    away = ClientClose(at_ms=19_000, client="c")
    surge = SurgeDeploy(at_ms=20_000, clients=("a", "b"), successors=("c",), overlap_ms=15_000)
    watched = Watched(spec(*(client(name) for name in "abc"), faults=(slow, away, surge)))
    watched.advance_to(20_001)
    assert watched.world.clients()["c"].is_alive  # onPartitionsRevoked is running
    watched.run()
    assert len(starts(watched, "c")) == 2
    assert watched.fetchable("c") == ALL


def test_a_surge_needs_somebody_on_either_side() -> None:
    with pytest.raises(ValueError, match="must name a client each"):
        SurgeDeploy(at_ms=1, clients=("a",), successors=())
    with pytest.raises(ValueError, match="the same client"):
        SurgeDeploy(at_ms=1, clients=("a",), successors=("a",))
    surge = SurgeDeploy(at_ms=1, clients=("a", "b"), successors=("c",))
    left = surge.without(clients=("a",))
    assert left is not None and left.clients == ("b",)
    assert surge.without(clients=("c",)) is None


def test_who_starts_where_a_closing_consumer_has_committed_reads_records_again() -> None:
    """b, which has what a had, is killed after a has taken its committed offset back."""
    scenario = defect_scenario("sim-closing-commit")
    killed = ClientCrash(at_ms=25_950, client="b", down_ms=3_000)
    world = replace(scenario.world, defects=(), faults=(*scenario.world.faults, killed))
    shipped = run(replace(scenario, world=world))
    assert shipped.outcome == "known", shipped.reason
    assert {(row.issue, row.property) for row in shipped.known_issues} == {
        ("sim-closing-commit", name)
        for name in ("client.commit.owned", "client.start.committed", "offsets.commit_of_owner")
    }
    repaired = run(replace(scenario, world=replace(world, repairs=("sim-closing-commit",))))
    assert repaired.outcome == "ok", repaired.reason
