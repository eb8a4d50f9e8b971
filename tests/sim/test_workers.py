"""Workers behind the poll loop: what is lost, done twice, or waited for, by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from worlds import Watched, client, spec

from rebalance_sim.invariants.step import StepKind
from rebalance_sim.protocol.clients.kinds import EVERY_KIND
from rebalance_sim.protocol.wire.topics import TopicPartition
from rebalance_sim.scenarios.generate.generator import generate
from rebalance_sim.scenarios.runner import run
from rebalance_sim.sim.data_plane.workers_spec import Commits, WhenRevoked, WorkersSpec
from rebalance_sim.sim.faults.clients import ClientCrash, PollStall
from rebalance_sim.sim.spec import BrokerSpec, DelaySpec, OffsetReset, TopicSpec

SLOW = WorkersSpec(records_per_second=50, in_flight_max=400)
"""Half of what comes: so many are in flight soon."""


def pool(name: str, workers: WorkersSpec = SLOW, **settings: Any) -> Any:
    defaults: dict[str, Any] = {
        "enable_auto_commit": False,
        "manual_commit_interval_ms": 1_000,
        "auto_offset_reset": OffsetReset.EARLIEST,
    }
    return client(name, workers=workers, **{**defaults, **settings})


def world_of(*clients: Any, partition_count: int = 1, **settings: Any) -> Watched:
    topic = TopicSpec(name="orders", partition_count=partition_count, records_per_second=100)
    defaults: dict[str, Any] = {"topics": (topic,), "data_plane": True, "duration_ms": 100_000}
    return Watched(spec(*clients, **{**defaults, **settings}))


def lag(watched: Watched, number: int = 0) -> int:
    partition = TopicPartition("orders:1", number)
    return watched.world.data_plane.progress["group"].lags()[partition]


def test_records_in_flight_are_handed_out_and_not_processed() -> None:
    watched = world_of(pool("a"))
    watched.advance_to(60_000)
    metrics = watched.world.result().metrics
    # 50 a second for 60 s are processed, and 400 more are with the workers.
    assert metrics["records_processed"] == pytest.approx(3_000, abs=25)
    assert metrics["records_delivered"] - metrics["records_processed"] == pytest.approx(400, abs=2)


def test_an_application_with_workers_stays_in_the_group_although_a_batch_takes_longer() -> None:
    watched = world_of(pool("a", max_poll_interval_ms=5_000))
    watched.advance_to(90_000)
    assert not [
        step
        for step in watched.steps(StepKind.CLIENT_EVENT, client="a")
        for effect in step.get("effects", ())
        if effect["type"] == "StateChanged" and effect["to_state"] == "STALE"
    ]


def test_workers_go_on_while_the_application_does_not_poll_with_what_they_have() -> None:
    stall = PollStall(at_ms=50_000, client="a", duration_ms=30_000)
    watched = world_of(pool("a", max_poll_interval_ms=60_000), faults=(stall,))
    watched.advance_to(50_000)
    before = watched.world.result().metrics["records_processed"]
    watched.advance_to(79_000)
    done = watched.world.result().metrics["records_processed"] - before
    assert done == pytest.approx(400, abs=2)


@pytest.mark.parametrize("kind", EVERY_KIND)
@pytest.mark.parametrize("commits", Commits)
def test_after_a_crash_what_was_in_flight_is_done_again_or_lost(
    kind: str, commits: Commits
) -> None:
    """It is in flight at the crash; whether it was committed decides what becomes of it."""
    crash = ClientCrash(at_ms=50_500, client="a", down_ms=None)
    lists = {"assignors": ("range",)}
    watched = world_of(
        pool("a", replace(SLOW, commits=commits), kind=kind, **lists),
        pool("b", WorkersSpec(records_per_second=1_000), kind=kind, start_ms=52_000, **lists),
        faults=(crash,),
        quiet_period_ms=100_000,
    )
    metrics = watched.run().metrics
    if commits is Commits.PROCESSED:
        assert metrics["records_lost"] == 0
        # 400 that were in flight, and half a second to a second and a half of what was processed.
        assert 400 <= metrics["records_redelivered"] <= 400 + 150
    else:
        # Up to a second and a half of what was handed out was not committed.
        assert 400 - 150 <= metrics["records_lost"] <= 400
        assert metrics["records_redelivered"] <= 150


@pytest.mark.parametrize("kind", ["java", "classic"])
def test_a_revocation_waits_for_workers_as_long_as_it_is_told_to(kind: str) -> None:
    """400 records at 50 a second take eight seconds; the newcomer waits for them."""
    found = {}
    for drain_ms in (0, 3_000, 30_000):
        workers = replace(SLOW, drain_ms=drain_ms)
        lists = {"kind": kind, "assignors": ("cooperative-sticky",)}
        watched = world_of(
            pool("a", workers, **lists),
            pool("b", workers, start_ms=60_000, **lists),
            partition_count=2,
        )
        watched.advance_to(60_000)
        in_flight = 2 * 400
        watched.run()
        begun = [
            (step["at_ms"], effect)
            for step in watched.steps(StepKind.CLIENT_EVENT, client="a")
            for effect in step.get("effects", ())
            if effect["type"] == "RunCallback" and effect["kind"] == "onPartitionsRevoked"
        ]
        since_ms, effect = begun[0]
        [ended_ms, *_] = [
            step["at_ms"]
            for step in watched.steps(StepKind.CLIENT_EVENT, client="a")
            if step["at_ms"] >= since_ms and step["event"]["type"] == "CallbackCompleted"
        ]
        assert len(effect["partitions"]) == 1
        found[drain_ms] = ended_ms - since_ms
    # The other partition has its half of the workers meanwhile.
    assert found[0] == 0
    assert found[3_000] == 3_000
    assert found[30_000] == pytest.approx(in_flight * 1_000 / 50, abs=200)


@pytest.mark.parametrize("kind", ["java", "classic"])
def test_no_commit_that_a_callback_has_kept_goes_behind_that_of_the_callback(kind: str) -> None:
    """Commits are due every second, and the callback drains for eight and commits at its end."""
    lists = {"kind": kind, "assignors": ("cooperative-sticky",), "commits_when_revoked": True}
    clients = (pool("a", **lists), pool("b", start_ms=60_000, **lists))
    watched = world_of(*clients, partition_count=2)
    metrics = watched.run().metrics
    committed: dict[str, int] = {}
    for step in watched.steps(StepKind.COORDINATOR_REQUEST):
        if step["request"]["type"] == "OffsetCommitRequest":
            for partition, offset in step["request"]["offsets"].items():
                assert offset >= committed.get(partition, 0)
                committed[partition] = offset
    assert len(committed) == 2
    assert metrics["partition_moves"] == 1
    assert metrics["records_reprocessed"] == 0


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_an_application_may_take_back_what_its_client_has_committed(kind: str) -> None:
    """The client commits what it hands out, and the application what workers have done of that. It
    crashes at any point between two commits: the last one is stored, and may not be answered."""
    lists = {"kind": kind, "assignors": ("range",)}
    brokers = BrokerSpec(
        replication=DelaySpec(min_ms=300), load=DelaySpec(min_ms=20), metadata=DelaySpec(min_ms=5)
    )
    clients = (
        pool("a", enable_auto_commit=True, auto_commit_interval_ms=900, **lists),
        pool("b", start_ms=30_000, **lists),
    )
    has_gone_back = False
    for at_ms in range(20_000, 22_000, 250):
        crash = ClientCrash(at_ms=at_ms, client="a", down_ms=None)
        settings = {"faults": (crash,), "brokers": brokers, "duration_ms": 60_000}
        watched = world_of(*clients, **settings)
        watched.run()
        assert not watched.suspected()
        stored = [
            max(step["request"]["offsets"].values())
            for step in watched.steps(StepKind.COORDINATOR_REQUEST)
            if step["request"]["type"] == "OffsetCommitRequest" and step["at_ms"] < 30_000
        ]
        has_gone_back |= stored[-1] < stored[-2]
    assert has_gone_back


def test_what_workers_do_with_a_lost_partition_is_counted_or_not_done() -> None:
    found = {}
    for way in (WhenRevoked.DISCARD, WhenRevoked.CONTINUE):
        workers = replace(SLOW, when_revoked=way)
        clients = (pool("a", workers), pool("b", workers, start_ms=60_000))
        found[way] = world_of(*clients, partition_count=2).run().metrics
    late = {way: metrics["records_processed_after_loss"] for way, metrics in found.items()}
    assert late[WhenRevoked.DISCARD] == 0
    assert late[WhenRevoked.CONTINUE] == pytest.approx(400, abs=10)
    again = {way: metrics["records_reprocessed"] for way, metrics in found.items()}
    # The new owner has them too, since they were not committed.
    more = again[WhenRevoked.CONTINUE] - again[WhenRevoked.DISCARD]
    assert more == pytest.approx(400, abs=55)


@pytest.mark.parametrize("seed", range(12))
def test_what_is_processed_was_handed_out_and_what_is_lost_was_not_processed(seed: int) -> None:
    """Of every record that was handed out: it is processed, lost, or still in flight or committed
    by somebody who dropped it and was followed by no one."""
    scenario = generate("applications", seed)
    metrics = run(scenario).metrics
    once = metrics["records_delivered"] - metrics["records_redelivered"]
    done = metrics["records_processed"] - metrics["records_reprocessed"]
    assert 0 <= metrics["records_lost"] <= once - done


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"processing_records_per_second": 5}, "workers and processing_records_per_second"),
        ({"listener": False}, "workers: when_revoked is drain"),
    ],
)
def test_workers_that_contradict_something_are_refused(
    changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        pool("a", **changes)


def test_workers_without_records_are_refused() -> None:
    with pytest.raises(ValueError, match="a has workers, which process nothing"):
        world_of(pool("a"), data_plane=False)


# --- without a listener ---------------------------------------------------------------------------


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_without_a_listener_no_callback_runs(kind: str) -> None:
    lists = {"kind": kind, "assignors": ("range",)}
    clients = [client(n, listener=False, **lists) for n in "ab"]
    watched = Watched(spec(*clients, duration_ms=40_000))
    metrics = watched.run().metrics
    assert metrics["callbacks_run"] == 0
    assert watched.fetchable("a") | watched.fetchable("b") == set(range(6))


def test_a_newcomer_of_librdkafka_waits_for_no_application_without_a_listener() -> None:
    """The application is away; with a listener its client has to wait for it to come back."""
    found = {}
    for listener in (True, False):
        stall = PollStall(at_ms=20_000, client="a", duration_ms=100_000)
        clients = [
            client("a", kind="librdkafka", listener=listener),
            client("b", kind="librdkafka", listener=listener, start_ms=30_000),
        ]
        watched = Watched(spec(*clients, faults=(stall,), duration_ms=150_000))
        watched.advance_to(60_000)
        found[listener] = watched.fetchable("b")
    assert found[True] == set()
    assert len(found[False]) == 3


def test_a_callback_without_a_listener_is_refused() -> None:
    with pytest.raises(ValueError, match="listener is false"):
        client("a", listener=False, commits_when_revoked=True)
