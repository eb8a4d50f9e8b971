"""Members in poll, or away from it, go through a rebalance as recorded ones do (``polls/``)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from worlds import Watched

from rebalance_sim.invariants.step import StepKind
from rebalance_sim.protocol.runtime.coordinator_config import CoordinatorConfig
from rebalance_sim.sim.faults.clients import SubscriptionChange
from rebalance_sim.sim.spec import ClientSpec, DelaySpec, NetworkSpec, TopicSpec, WorldSpec

FOLDER = Path(__file__).parent / "polls"
RECORDED = sorted(path.stem for path in FOLDER.glob("*-[0-9]*.jsonl"))
NOISE_MS = 1_500
"""How much later than the simulated ones a recorded member may be: a heartbeat that just missed,
and a machine with other work."""
PHASES = 30
CLASSIC = {"kind": "classic", "heartbeat_interval_ms": 1_000, "session_timeout_ms": 6_000}
SETTINGS: dict[str, dict[str, Any]] = {
    "consumer": {"kind": "java"},
    "eager": {**CLASSIC, "assignors": ("range",)},
    "cooperative": {**CLASSIC, "assignors": ("cooperative-sticky",)},
}

Callback = tuple[int, str, str, int]
"""When, of which client, which, and of how many partitions."""


def recorded(name: str) -> tuple[dict[str, Any], list[Callback], int]:
    """Its settings, its callbacks from C's subscription on, and the time of that."""
    head, *rows = map(json.loads, (FOLDER / f"{name}.jsonl").read_text().splitlines())
    [joined_ms] = [r["at_ms"] for r in rows if (r["client"], r["kind"]) == ("C", "subscribe")]
    callbacks = [
        (row["at_ms"], row["client"], row["kind"], len(row["partitions"]))
        for row in rows
        if "partitions" in row and row["at_ms"] > joined_ms
    ]
    return head, callbacks, joined_ms


def losses(callbacks: list[Callback]) -> int:
    return sum(kind == "lost" for _, _, kind, _ in callbacks)


def world(head: dict[str, Any], phase: int, duration_ms: int = 45_000) -> WorldSpec:
    # A little longer in each phase, so that polls move against heartbeats.
    away_ms = head["away_ms"] * (1_000 + phase) // 1_000
    # Every second poll of some submits no event: what differs repeats itself after two of them.
    starts_ms = {"A": 300, "B": 1_700 + phase * 613 % 4_000, "C": 20_500 + phase * 397 % 4_000}
    return WorldSpec(
        seed=phase,
        topics=(TopicSpec(name="orders", partition_count=6, records_per_second=100),),
        clients=tuple(
            ClientSpec(
                name=name,
                topics=("orders",),
                start_ms=start_ms,
                poll_timeout_ms=head["poll_timeout_ms"],
                processing_ms=away_ms,
                max_poll_interval_ms=head.get("max_poll_interval_ms", 300_000),
                **SETTINGS[head["protocol"]],
            )
            for name, start_ms in starts_ms.items()
        ),
        duration_ms=duration_ms,
        quiet_period_ms=1,
        network=NetworkSpec(latency=DelaySpec(min_ms=1, max_ms=3)),
        config=CoordinatorConfig(
            group_consumer_assignment_interval_ms=0,
            group_consumer_heartbeat_interval_ms=1_000,
            group_consumer_min_heartbeat_interval_ms=500,
            group_consumer_session_timeout_ms=6_000,
            group_consumer_min_session_timeout_ms=1_000,
            group_initial_rebalance_delay_ms=0,
        ),
    )


def callbacks_of(watched: Watched) -> Iterator[Callback]:
    for step in watched.steps(StepKind.CLIENT_EVENT):
        for effect in step.get("effects", ()):
            if effect["type"] == "RunCallback":
                kind = effect["kind"].removeprefix("onPartitions").lower()
                yield step["at_ms"], step["client"], kind, len(effect["partitions"])


@cache
def simulated(name: str) -> tuple[tuple[list[Callback], int], ...]:
    """Callbacks from C's start on and the time of that, in phases that differ."""
    head, _, _ = recorded(name)
    runs = []
    for phase in range(PHASES):
        spec = world(head, phase)
        watched = Watched(spec)
        watched.advance_to(45_000)
        joined_ms = spec.clients[2].start_ms
        runs.append(([one for one in callbacks_of(watched) if one[0] > joined_ms], joined_ms))
    return tuple(runs)


def first_partitions_ms(callbacks: list[Callback]) -> int:
    return next(at for at, client, kind, count in callbacks if client == "C" and count)


def end_ms(callbacks: list[Callback]) -> int:
    return max(at for at, _, kind, _ in callbacks if kind == "assigned")


@pytest.mark.quick_one_of(3)
@pytest.mark.parametrize("name", RECORDED)
@pytest.mark.parametrize("moment", [first_partitions_ms, end_ms])
def test_a_rebalance_takes_as_long_as_a_recorded_one(name: str, moment: Any) -> None:
    """The recorded time lies among those of runs whose polls have other phases."""
    _, callbacks, joined_ms = recorded(name)
    took_ms = moment(callbacks) - joined_ms
    possible = [moment(of_run) - since_ms for of_run, since_ms in simulated(name)]
    assert min(possible) <= took_ms <= max(possible) + NOISE_MS


@pytest.mark.parametrize("name", RECORDED)
@pytest.mark.parametrize("client", ["A", "B"])
def test_those_who_give_up_partitions_are_told_in_the_same_order(name: str, client: str) -> None:
    _, callbacks, _ = recorded(name)
    told = [(kind, count) for _, whose, kind, count in callbacks if whose == client]
    for of_run, _ in simulated(name):
        assert [(kind, count) for _, whose, kind, count in of_run if whose == client] == told


@pytest.mark.parametrize(
    ("protocol", "phase"),
    [
        *(("consumer", phase) for phase in (1, 2, 4, 5, 7)),
        *(("cooperative", phase) for phase in range(5)),
    ],
)
def test_a_group_whose_applications_are_away_for_too_long_may_never_come_to_rest(
    protocol: str, phase: int
) -> None:
    """As in the recording, members lose all they have in each half minute of the last minute."""
    head, callbacks, _ = recorded(f"{protocol}-for-too-long")
    watched = Watched(world(head, phase, 120_000))
    watched.advance_to(120_000)
    for those in (callbacks, list(callbacks_of(watched))):
        for from_ms in (60_000, 90_000):
            assert any(
                from_ms <= at < from_ms + 30_000 and kind == "lost" and count
                for at, _, kind, count in those
            )


@pytest.mark.parametrize("phase", [0, 3, 14, 17, 19])
def test_such_a_group_comes_to_rest_if_its_polls_fit(phase: int) -> None:
    """As in another recording, someone is removed before, and nothing changes in the end."""
    _, callbacks, _ = recorded("consumer-for-too-long-at-rest")
    head, _, _ = recorded("consumer-for-too-long")
    watched = Watched(world(head, phase, 150_000))
    watched.advance_to(150_000)
    simulated_callbacks = list(callbacks_of(watched))
    assert losses(simulated_callbacks)
    for those in (callbacks, simulated_callbacks):
        assert not [kind for at, _, kind, _ in those if 90_000 <= at < 150_000]


@pytest.mark.parametrize("phase", range(5))
def test_an_eager_group_comes_to_rest_however_long_its_applications_are_away(phase: int) -> None:
    head, callbacks, _ = recorded("eager-for-too-long")
    watched = Watched(world(head, phase, 120_000))
    watched.advance_to(120_000)
    for those in (callbacks, list(callbacks_of(watched))):
        assert not [kind for at, _, kind, _ in those if 45_000 <= at < 120_000]
        assert "lost" not in {kind for _, _, kind, _ in those}


@pytest.mark.parametrize(
    "name",
    [
        "consumer-every-second-poll",
        "consumer44-every-second-poll",
        "cooperative-every-second-poll",
    ],
)
def test_a_consumer_alone_loses_as_much_as_a_recorded_one(name: str) -> None:
    """It polls every 6 s, and ``max_poll_interval_ms`` is 10 s."""
    head, *rows = map(json.loads, (FOLDER / f"{name}.jsonl").read_text().splitlines())
    spec = world(head, 0, 80_000)
    watched = Watched(WorldSpec(**{**vars_of(spec), "clients": spec.clients[:1]}))
    watched.advance_to(80_000)
    recorded_losses = sum(row["kind"] == "lost" for row in rows)
    assert abs(losses(list(callbacks_of(watched))) - recorded_losses) <= 1


def test_who_unsubscribes_after_a_revocation_is_told_of_it_twice() -> None:
    """The new set is taken over with onPartitionsAssigned, which never comes then (client R8)."""
    rows = [json.loads(line) for line in (FOLDER / "unsubscribe-after-revoked.jsonl").open()]
    revoked = [set(row["partitions"]) for row in rows[1:] if row["kind"] == "revoked"]
    assert revoked[0] < revoked[1]
    head, _, _ = recorded("consumer-2000")
    calm = Watched(world(head, 3))
    calm.advance_to(45_000)
    [told_ms] = [at for at, *told in callbacks_of(calm) if told == ["B", "revoked", 1]]
    leaves = SubscriptionChange(at_ms=told_ms + 500, client="B", topics=())
    watched = Watched(WorldSpec(**{**vars_of(world(head, 3)), "faults": (leaves,)}))
    watched.advance_to(told_ms + 2_000)
    counts = [count for _, *told, count in callbacks_of(watched) if told == ["B", "revoked"]]
    assert counts == [1, 3]


def vars_of(spec: WorldSpec) -> dict[str, Any]:
    return {name: getattr(spec, name) for name in spec.__slots__}
