"""The threads of a group coordinator: how long events wait, and for what."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from worlds import Watched, client, of_file, spec

from rebalance_sim.invariants.step import StepKind
from rebalance_sim.sim.broker.event_processing_spec import EventProcessingSpec
from rebalance_sim.sim.broker.event_processor import EventProcessor, EventQueue
from rebalance_sim.sim.clock import Clock
from rebalance_sim.sim.faults.brokers import BrokerCrash
from rebalance_sim.sim.faults.coordinators import CoordinatorStall
from rebalance_sim.sim.spec import BrokerSpec, DelaySpec
from rebalance_sim.sim.streams import Streams
from rebalance_sim.sim.world import World

MS = 1_000


class Threads:
    """Some shards with the threads of one broker, and what was handled when."""

    def __init__(self, *, shards: int, threads: int) -> None:
        self.clock = Clock()
        self.handled: list[tuple[int, str]] = []
        broker: Any = SimpleNamespace(node_id=0, meters=None, defers=lambda *_: False)
        environment: Any = SimpleNamespace(clock=self.clock, streams=Streams(1))
        processing = EventProcessingSpec(group_coordinator_threads=threads)
        self.processor = EventProcessor(broker, processing, environment)
        self.shards = [SimpleNamespace(is_active=True, is_stalled=False) for _ in range(shards)]
        self.queues: list[EventQueue] = [self.processor.new_queue(shard) for shard in self.shards]

    def put(self, shard: int, name: str, us: int) -> None:
        self.queues[shard].put(self._done, (name,), us)

    def _done(self, name: str) -> None:
        self.handled.append((self.clock.now_ms, name))

    def at(self, at_ms: int, function: Callable[..., None], *arguments: Any) -> None:
        self.clock.call_at(at_ms, 0.5, lambda _: function(*arguments))

    def run(self) -> list[tuple[int, str]]:
        self.clock.run_until(10_000)
        return self.handled


def test_events_of_one_shard_are_handled_one_after_the_other_by_however_many_threads() -> None:
    threads = Threads(shards=1, threads=4)
    for name in "abc":
        threads.put(0, name, 10 * MS)
    assert threads.run() == [(10, "a"), (20, "b"), (30, "c")]


def test_so_many_shards_are_worked_for_at_a_time_as_there_are_threads() -> None:
    threads = Threads(shards=3, threads=2)
    for shard, name in enumerate("abc"):
        threads.put(shard, name, 10 * MS)
    handled = threads.run()
    assert [at_ms for at_ms, _ in handled] == [10, 10, 20]
    assert handled[2] == (20, "c")


def test_what_is_less_than_a_millisecond_adds_up() -> None:
    threads = Threads(shards=1, threads=1)
    for name in "abcdefgh":
        threads.put(0, name, 250)
    assert [at_ms for at_ms, _ in threads.run()] == [0, 0, 0, 1, 1, 1, 1, 2]


def test_a_high_watermark_is_known_when_an_event_is_handled() -> None:
    threads = Threads(shards=1, threads=1)
    threads.put(0, "first", 10 * MS)
    threads.put(0, "second", 10 * MS)
    for _ in range(2):  # The shard learns where it is now, and that is the same twice.
        threads.at(5, threads.queues[0].put_high_watermark, partial(threads._done, "committed"))
    assert threads.run() == [(10, "committed"), (10, "first"), (20, "second")]


def test_a_shard_that_stalls_keeps_no_thread() -> None:
    threads = Threads(shards=2, threads=1)
    threads.shards[0].is_stalled = True
    threads.put(0, "stalled", 10 * MS)
    threads.put(1, "other", 10 * MS)

    def resume() -> None:
        threads.shards[0].is_stalled = False
        threads.queues[0].resume()

    threads.at(100, resume)
    assert threads.run() == [(10, "other"), (110, "stalled")]


def test_a_shard_that_is_not_active_refuses_at_once() -> None:
    threads = Threads(shards=1, threads=1)
    threads.shards[0].is_active = False
    threads.put(0, "refused", 10 * MS)
    assert threads.run() == [(0, "refused")]


def test_what_a_crashed_process_was_busy_with_is_not_done() -> None:
    threads = Threads(shards=1, threads=1)
    threads.put(0, "lost", 10 * MS)
    threads.put(0, "lost too", 10 * MS)

    def crash() -> None:
        threads.processor.reset()
        threads.queues[0].clear()
        threads.put(0, "of the next process", 10 * MS)

    threads.at(5, crash)
    assert threads.run() == [(15, "of the next process")]


# --- in worlds -----------------------------------------------------------------------------------


def brokers(**settings: Any) -> BrokerSpec:
    """Those of ``worlds.spec`` with more said of them."""
    return BrokerSpec(
        replication=DelaySpec(min_ms=2),
        load=DelaySpec(min_ms=20),
        metadata=DelaySpec(min_ms=5),
        **settings,
    )


def first_request(**processing: int) -> tuple[int, int]:
    """When the first heartbeat of a lone consumer was handled, and when it was answered."""
    of = {"event_processing": EventProcessingSpec(**processing)} if processing else {}
    watched = Watched(spec(client("a"), brokers=brokers(**of)))
    watched.run()
    handled = watched.steps(StepKind.COORDINATOR_REQUEST)[0]
    answered = next(
        step
        for step in watched.steps(StepKind.RESPONSE_RELEASED)
        if step["at_ms"] >= handled["at_ms"] and "member_epoch" in str(step["response"])
    )
    return handled["at_ms"], answered["at_ms"]


def test_a_heartbeat_is_handled_when_its_time_is_over_and_answered_when_its_target_is() -> None:
    handled_ms, answered_ms = first_request()
    assert first_request(consumer_group_heartbeat_us=50 * MS) == (
        handled_ms + 50,
        answered_ms + 50,
    )
    # One member and six partitions, of 20 ms each: then the shard learns what has been committed.
    assert first_request(assignor_ns=20_000_000) == (handled_ms, handled_ms + 120)


def test_times_of_other_requests_do_not_count_for_a_heartbeat() -> None:
    assert first_request(join_group_us=50 * MS, offset_commit_us=50 * MS) == first_request()


def test_a_load_takes_what_there_is_to_read_and_what_any_load_takes() -> None:
    crash = BrokerCrash(at_ms=30_000, duration_ms=5_000)
    seen = {}
    for rate in (None, 10):
        world = World(
            spec(client("a"), faults=(crash,), brokers=brokers(load_records_per_second=rate)),
            metrics_interval_ms=100,
        )
        world.advance_to(60_000)
        records = len(world.brokers[1].replicas[0].log.remaining())
        samples = world.result().samples
        seen[rate] = {
            s.value for s in samples if s.metric == "partition_load_time_max" and s.node_id == 1
        }
    # Nothing is written after the load but what the only member continues with, which is nothing.
    assert seen == {None: {20}, 10: {20 + records * 100}}


def test_metrics_show_how_long_events_wait_and_how_idle_the_threads_are() -> None:
    processing = EventProcessingSpec(consumer_group_heartbeat_us=100 * MS)
    stall = CoordinatorStall(at_ms=30_000, duration_ms=12_000)
    world = World(
        spec(
            *(client(name) for name in "abcde"),
            faults=(stall,),
            brokers=brokers(event_processing=processing),
        ),
        metrics_interval_ms=10_000,
    )
    world.advance_to(60_001)
    found = {(s.metric, s.at_ms): s.value for s in world.result().samples if s.node_id == 0}
    # Each of five members sends two heartbeats in 10 s: one second of work for four threads.
    assert found["thread_idle_ratio_avg", 30_000] == pytest.approx(1 - 1 / 40)
    assert found["event_processing_time_ms_max", 30_000] == 100
    assert found["event_queue_size", 30_000] == 0
    assert found["event_queue_size", 40_000] == 5  # One of each member, which waits for its answer.
    assert found["event_queue_time_ms_max", 50_000] > 7_000  # They came within 5 s of the stall.


def test_in_the_example_everything_is_handled_by_one_thread_in_turn() -> None:
    world = of_file("experiments/scenarios/busy_coordinator.toml")
    watched = Watched(replace(world, duration_ms=60_500))
    watched.advance_to(60_500)
    left = [
        step["at_ms"]
        for step in watched.steps(StepKind.COORDINATOR_REQUEST)
        if step["at_ms"] >= 60_000 and step["request"].get("member_epoch") == -1
    ]
    # 200 members leave at once, for half a millisecond each.
    assert len(left) == 200
    assert 99 <= max(left) - min(left) <= 110
    assert max(map(left.count, left)) <= 2


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"other_us": -1}, "other_us must be >= 0, got -1"),
        ({"join_group_us": -5}, "join_group_us must be >= 0, got -5"),
        ({"group_coordinator_threads": 0}, "group_coordinator_threads must be >= 1, got 0"),
    ],
)
def test_a_time_that_cannot_be_is_refused(values: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        EventProcessingSpec(**values)
