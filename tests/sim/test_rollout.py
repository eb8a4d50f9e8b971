"""Pods are replaced as Kubernetes does it, worked out by hand."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest
from worlds import Watched, client, of_file, spec

from rebalance_sim.invariants.step import StepKind
from rebalance_sim.sim.faults.clients import CallbackSlowdown, ClientCrash
from rebalance_sim.sim.faults.fault import Fault
from rebalance_sim.sim.faults.scaling import Rollout


def times(watched: Watched, kind: StepKind, name: str) -> list[int]:
    """When a process of this client started, or was killed."""
    return [step["at_ms"] for step in watched.steps(kind, client=name)]


def starts(watched: Watched, names: str) -> dict[str, list[int]]:
    return {name: times(watched, StepKind.CLIENT_STARTED, name) for name in names}


def closes(watched: Watched, names: Collection[str]) -> dict[str, int]:
    """When the application of each began to close, in seconds."""
    found: dict[str, int] = {}
    for step in watched.steps(StepKind.CLIENT_EVENT):
        if step["client"] in names and step["event"]["type"] == "Close":
            found.setdefault(step["client"], step["at_ms"] // 1_000)
    return found


def rolled_out(names: str, *others: Fault, settings: Any = None, **values: Any) -> Watched:
    """A world after a rollout that begins at 10 s, and takes no longer than 50 s."""
    fault = Rollout(at_ms=10_000, **values)
    watched = Watched(
        spec(*(client(name, **(settings or {})) for name in names), faults=(*others, fault))
    )
    watched.run()
    return watched


def test_pods_of_a_stateful_set_are_restarted_one_by_one_the_last_one_first() -> None:
    watched = rolled_out("abc", start_ms=2_000, ready_ms=5_000)
    # Each is stopped when the one before has been ready for a second at most: 2 + 5 s later.
    assert starts(watched, "abc") == {"c": [0, 12_000], "b": [0, 19_000], "a": [0, 26_000]}
    assert closes(watched, "abc") == {"c": 10, "b": 17, "a": 24}


def test_two_at_a_time_if_two_may_be_unavailable() -> None:
    watched = rolled_out("abc", start_ms=2_000, ready_ms=5_000, max_unavailable=2)
    assert starts(watched, "abc") == {"c": [0, 12_000], "b": [0, 12_000], "a": [0, 19_000]}


def test_a_surge_of_one_starts_the_next_pod_when_the_last_is_ready() -> None:
    watched = rolled_out(
        "abxy",
        clients=("a", "b"),
        successors=("x", "y"),
        max_surge=1,
        max_unavailable=0,
        start_ms=1_000,
        ready_ms=4_000,
    )
    # x is created at 10 s and ready at 15 s: a goes, y is created, ready at 20 s: b goes.
    assert starts(watched, "abxy") == {"a": [0], "b": [0], "x": [11_000], "y": [16_000]}
    assert closes(watched, "ab") == {"a": 15, "b": 20}
    assert watched.fetchable("x") | watched.fetchable("y") == set(range(6))


def test_without_a_surge_a_pod_is_created_when_another_begins_to_terminate() -> None:
    watched = rolled_out(
        "abxy", clients=("a", "b"), successors=("x", "y"), start_ms=1_000, ready_ms=4_000
    )
    assert closes(watched, "ab") == {"a": 10, "b": 15}
    assert starts(watched, "xy") == {"x": [11_000], "y": [16_000]}


def test_all_at_once_if_all_may_be_there_twice() -> None:
    watched = rolled_out(
        "abxy",
        clients=("a", "b"),
        successors=("x", "y"),
        max_surge=2,
        max_unavailable=0,
        ready_ms=4_000,
    )
    assert starts(watched, "xy") == {"x": [10_000], "y": [10_000]}
    assert closes(watched, "ab") == {"a": 14, "b": 14}


@pytest.mark.parametrize(("grace_ms", "killed"), [(3_000, [13_000]), (30_000, [])])
def test_a_close_that_takes_longer_than_the_grace_period_is_cut_off(
    grace_ms: int, killed: list[int]
) -> None:
    slow = CallbackSlowdown(at_ms=9_000, duration_ms=5_000, client="b", callback_ms=8_000)
    watched = rolled_out(
        "ab", slow, start_ms=1_000, ready_ms=1_000, termination_grace_period_ms=grace_ms
    )
    assert times(watched, StepKind.CLIENT_CRASHED, "b") == killed
    # onPartitionsRevoked would end at 18 s; the pod comes back when the process has ended.
    [_, again_ms] = starts(watched, "b")["b"]
    assert again_ms == 13_000 if killed else 18_000 <= again_ms < 18_100


def test_a_rollout_waits_for_a_pod_that_something_else_keeps_down() -> None:
    crash = ClientCrash(at_ms=11_000, client="a", down_ms=9_000)
    watched = rolled_out("abc", crash, start_ms=2_000, ready_ms=5_000)
    # c would be ready at 17 s; a starts at 20 s and is ready at 25 s.
    assert closes(watched, "abc") == {"c": 10, "b": 25, "a": 32}


def test_the_quiet_period_ends_a_rollout_and_starts_who_is_down() -> None:
    watched = rolled_out("abc", start_ms=70_000, ready_ms=5_000)
    assert starts(watched, "abc") == {"a": [0], "b": [0], "c": [0, 60_000]}


def test_the_example_replaces_five_pods_then_five() -> None:
    watched = Watched(of_file("experiments/scenarios/rollout.toml"))
    watched.advance_to(300_000)
    started = [times(watched, StepKind.CLIENT_STARTED, f"next-{number:02}") for number in range(10)]
    # Three at once, and two for the two that may be missing; ready 4 + 10 s later, when five old
    # ones go and the last five come.
    assert started == 5 * [[124_000]] + 5 * [[138_000]]
    closed = closes(watched, [f"app-{number:02}" for number in range(10)])
    assert sorted(closed.values()) == 2 * [120] + 5 * [134] + 3 * [148]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"max_unavailable": 0}, "max_surge and max_unavailable must not both be 0"),
        ({"max_surge": 1}, "max_surge needs successors"),
        ({"successors": ("x",)}, "clients must name those that successors replace"),
        ({"clients": ("x",), "successors": ("x",)}, "must not name the same client"),
        ({"ready_ms": -1}, "ready_ms must be >= 0, got -1"),
    ],
)
def test_a_rollout_that_cannot_be_is_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Rollout(at_ms=1, **values)


def test_a_rollout_without_some_of_its_pods_is_one_of_the_others() -> None:
    rollout = Rollout(at_ms=1, clients=("a", "b"), successors=("x", "y"))
    left = rollout.without(clients=("a", "y"))
    assert left is not None
    assert (left.clients, left.successors) == (("b",), ("x",))
    assert rollout.without(clients=("x", "y")) is None
    assert rollout.without(clients=("a", "b")) is None
