"""Batches of several operations: what goes together, what fails together (coordinator §9.4)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import pytest
from worlds import SESSION_TIMEOUT_MS, Watched, client, spec

from rebalance_sim.invariants.step import StepKind
from rebalance_sim.protocol.hosting.error_answers import WriteError
from rebalance_sim.protocol.hosting.record_size import batch_bytes, record_bytes
from rebalance_sim.protocol.runtime.coordinator_config import CoordinatorConfig
from rebalance_sim.protocol.wire.records import OffsetCommit, OffsetCommitValue, Record
from rebalance_sim.sim.broker.held_answers import Answer, Asked, HeldAnswers
from rebalance_sim.sim.broker.log import ReplicaLog
from rebalance_sim.sim.broker.log_writer import LogWriter
from rebalance_sim.sim.clock import Clock
from rebalance_sim.sim.faults.append_failure import AppendFailure
from rebalance_sim.sim.faults.client_close import ClientClose
from rebalance_sim.sim.faults.client_crash import ClientCrash
from rebalance_sim.sim.faults.coordinator_move import CoordinatorMove
from rebalance_sim.sim.faults.fault import Fault
from rebalance_sim.sim.faults.offsets_list import OffsetsList
from rebalance_sim.sim.faults.replication_slowdown import ReplicationSlowdown

LINGER_MS = 10
SETTLED_MS = 10_000

# -- the writer ----------------------------------------------------------------------------


class Memory:
    """Stands for a coordinator: keeps what is in force, by offset."""

    def __init__(self) -> None:
        self.in_force: dict[int, Record] = {}

    def replay(self, record: Record, *, offset: int) -> None:
        """Put a record in force."""
        self.in_force[offset] = record


class Desk:
    """A writer with its log and clock; ``error`` is why the log takes nothing."""

    def __init__(self, *, linger_ms: int = LINGER_MS, max_bytes: int = 1_000_000) -> None:
        self.clock = Clock()
        self.log = ReplicaLog()
        self.memory: Any = Memory()
        self.error: WriteError | None = None
        self.written_at_ms: list[int] = []
        self.notified_at_ms: list[int] = []
        self.failed: list[tuple[int, WriteError]] = []
        ties = count()
        self.writer = LogWriter(
            self.log,
            clock=self.clock,
            tie_break=lambda: float(next(ties)),
            config=CoordinatorConfig(
                group_coordinator_append_linger_ms=linger_ms, message_max_bytes=max_bytes
            ),
            leader_epoch=lambda: 3,
            refuses=lambda: self.error,
            on_written=lambda: self.written_at_ms.append(self.clock.now_ms),
            on_late=lambda: self.notified_at_ms.append(self.clock.now_ms),
            on_failed=lambda offset, error: self.failed.append((offset, error)),
        )

    def add(self, *records: Record, is_atomic: bool = True) -> WriteError | None:
        """One operation."""
        return self.writer.add(self.memory, records, is_atomic=is_atomic)

    def advance_to(self, at_ms: int) -> None:
        """Let everything before a time happen, and what is due at it."""
        self.clock.run_until(at_ms + 1, lambda: True)
        self.clock.now_ms = at_ms


def commit(number: int) -> Record:
    """The commit of one offset; all are of the same size."""
    value = OffsetCommitValue(offset=number, metadata="", commit_timestamp=0)
    return OffsetCommit("group", "orders", number, value)


SIZE = record_bytes(commit(0))


def test_what_is_added_is_in_force_at_once_and_written_when_its_time_has_come() -> None:
    desk = Desk()
    desk.add(commit(0), commit(1))
    desk.advance_to(LINGER_MS - 1)
    desk.add(commit(2))
    assert sorted(desk.memory.in_force) == [0, 1, 2]
    assert desk.log.end_offset == 0
    assert desk.writer.end_offset == 3
    desk.advance_to(LINGER_MS)
    assert desk.log.remaining() == [commit(0), commit(1), commit(2)]
    assert desk.log.epochs == [3, 3, 3]
    assert desk.written_at_ms == [LINGER_MS]


def test_each_batch_has_a_time_of_its_own() -> None:
    desk = Desk()
    desk.add(commit(0))
    desk.advance_to(25)
    desk.add(commit(1))
    desk.advance_to(34)
    assert desk.log.end_offset == 1
    desk.advance_to(35)
    assert desk.written_at_ms == [LINGER_MS, 35]


def test_without_linger_each_operation_is_written_at_once() -> None:
    desk = Desk(linger_ms=0)
    desk.add(commit(0))
    assert desk.log.end_offset == 1
    assert not desk.writer.open_records()
    desk.advance_to(1_000)
    assert desk.notified_at_ms == [], "whoever adds tells the followers"


def test_an_adaptive_linger_waits_only_for_what_comes_at_the_same_time() -> None:
    desk = Desk(linger_ms=-1)
    desk.add(commit(0))
    desk.add(commit(1))
    assert desk.log.end_offset == 0
    desk.advance_to(0)
    assert desk.log.end_offset == 2
    assert desk.written_at_ms == [0]


def test_an_operation_that_does_not_fit_is_written_behind_the_batch() -> None:
    desk = Desk(max_bytes=batch_bytes(3 * SIZE))
    desk.add(commit(0), commit(1))
    desk.add(commit(2))
    assert desk.log.end_offset == 0
    desk.add(commit(3), commit(4))
    assert desk.log.end_offset == 3, "exactly full"
    assert desk.writer.end_offset == 5
    desk.advance_to(LINGER_MS)
    assert desk.log.end_offset == 5
    assert desk.written_at_ms == [0, LINGER_MS]
    assert desk.notified_at_ms == [LINGER_MS], (
        "nobody hears of anything while an operation is added"
    )


@pytest.mark.parametrize("linger_ms", [0, LINGER_MS])
def test_an_operation_that_fits_no_batch_is_refused_and_changes_nothing(linger_ms: int) -> None:
    desk = Desk(linger_ms=linger_ms, max_bytes=batch_bytes(2 * SIZE))
    assert desk.add(commit(0)) is None
    assert desk.add(commit(1), commit(2), commit(3)) is WriteError.TOO_LARGE
    assert sorted(desk.memory.in_force) == [0]
    desk.advance_to(LINGER_MS)
    assert desk.log.remaining() == [commit(0)]


@pytest.mark.parametrize("linger_ms", [0, LINGER_MS])
def test_what_need_not_be_atomic_may_go_into_several_batches(linger_ms: int) -> None:
    desk = Desk(linger_ms=linger_ms, max_bytes=batch_bytes(2 * SIZE))
    assert desk.add(*map(commit, range(5)), is_atomic=False) is None
    assert sorted(desk.memory.in_force) == [0, 1, 2, 3, 4]
    desk.advance_to(LINGER_MS)
    assert desk.log.remaining() == list(map(commit, range(5)))


def test_a_batch_that_cannot_be_written_is_lost_as_a_whole() -> None:
    desk = Desk()
    desk.add(commit(0))
    desk.advance_to(LINGER_MS)
    desk.add(commit(1))
    desk.add(commit(2))
    desk.error = WriteError.STORAGE
    desk.advance_to(2 * LINGER_MS)
    assert desk.failed == [(1, WriteError.STORAGE)]
    assert desk.log.end_offset == desk.writer.end_offset == desk.writer.own_end == 1
    desk.error = None
    desk.add(commit(3))
    desk.advance_to(3 * LINGER_MS)
    assert desk.log.remaining() == [commit(0), commit(3)]


def test_an_operation_that_needs_room_fails_with_the_batch_that_has_to_go_first() -> None:
    desk = Desk(max_bytes=batch_bytes(2 * SIZE))
    desk.add(commit(0), commit(1))
    desk.error = WriteError.NOT_ENOUGH_REPLICAS
    assert desk.add(commit(2)) is WriteError.NOT_ENOUGH_REPLICAS
    assert desk.failed == [(0, WriteError.NOT_ENOUGH_REPLICAS)]
    assert 2 not in desk.memory.in_force
    assert desk.writer.end_offset == 0


def test_a_batch_that_was_dropped_is_not_written_later() -> None:
    desk = Desk()
    desk.add(commit(0))
    assert desk.writer.drop() == 1
    desk.advance_to(5)
    desk.add(commit(1))
    desk.advance_to(LINGER_MS)
    assert desk.log.end_offset == 0
    desk.advance_to(5 + LINGER_MS)
    assert desk.log.remaining() == [commit(1)]


def test_a_record_takes_what_its_encoding_takes() -> None:
    """Versions of two bytes each, strings with two bytes of length, and numbers: by hand."""
    key = 2 + (2 + len("group")) + (2 + len("orders")) + 4
    value = 2 + 8 + 4 + (2 + len("")) + 8 + 16  # Offset, leader epoch, metadata, time, topic id.
    assert 10 + key + value == SIZE
    assert record_bytes(OffsetCommit("group", "orders", 0, None)) == 10 + key
    assert batch_bytes(0) == 61, "the head of a record batch of format 2"


# -- answers that wait ---------------------------------------------------------------------


def answer(operation: int) -> Answer:
    """An answer of which only the number matters."""
    nobody: Any = None
    return Answer(Asked(operation, nobody, 0, None), nobody)


def operations(answers: Iterable[Answer]) -> list[int]:
    """The requests that answers belong to."""
    return [answer.asked.operation for answer in answers if answer.asked is not None]


class Counter:
    """Answers that wait, and those whose time is up."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.timed_out: list[int] = []
        self.held = HeldAnswers(
            clock=self.clock,
            tie_break=lambda: 0.0,
            timeout_ms=100,
            on_timeout=lambda answer: self.timed_out.extend(operations([answer])),
        )

    def taken_to(self, high_watermark: int) -> list[int]:
        """Operations whose answers go at a high watermark."""
        return operations(self.held.take_to(high_watermark))


def test_answers_go_in_order_when_what_they_wait_for_is_committed() -> None:
    counter = Counter()
    for operation, offset in ((1, 5), (2, 5), (3, 8), (4, 9)):
        counter.held.hold(answer(operation), offset)
    assert counter.taken_to(4) == []
    assert counter.taken_to(8) == [1, 2, 3]
    assert counter.taken_to(9) == [4]


def test_an_answer_that_comes_to_wait_meanwhile_does_not_overtake_the_others() -> None:
    """An answer makes room on its connection, and the next request is handled, and committed."""
    counter = Counter()
    for operation in (1, 2):
        counter.held.hold(answer(operation), operation)
    going = counter.held.take_to(2)
    assert operations([next(going)]) == [1]
    counter.held.hold(answer(3), 3)
    assert counter.taken_to(3) == [2, 3]
    assert list(going) == []


def test_an_answer_waits_no_longer_than_the_commit_timeout() -> None:
    counter = Counter()
    counter.held.hold(answer(1), 1)
    counter.clock.run_until(61, lambda: True)
    counter.clock.now_ms = 60
    counter.held.hold(answer(2), 2)
    counter.clock.run_until(101, lambda: True)
    assert counter.timed_out == [1]
    counter.clock.run_until(161, lambda: True)
    assert counter.timed_out == [1, 2]


def test_what_will_never_be_committed_is_taken_out_of_the_queue() -> None:
    counter = Counter()
    for operation in (1, 2, 3):
        counter.held.hold(answer(operation), operation)
    assert operations(counter.held.take_beyond(1)) == [2, 3]
    assert counter.taken_to(3) == [1]


# -- worlds --------------------------------------------------------------------------------


def story(*planned: Fault, linger_ms: int = LINGER_MS, **settings: Any) -> Watched:
    """Two clients that commit, and a broker that gathers what it writes."""
    clients = [client(name, enable_auto_commit=True) for name in ("a", "b")]
    config = CoordinatorConfig(
        group_consumer_assignment_interval_ms=0,
        group_coordinator_append_linger_ms=linger_ms,
        **settings,
    )
    return Watched(spec(*clients, faults=planned, config=config))


def story_of_a_join(*planned: Fault, linger_ms: int) -> Watched:
    """The same, and c joins with what arrives at 20052 ms."""
    watched = story(*planned, linger_ms=linger_ms).world.spec
    return Watched(replace(watched, clients=(*watched.clients, client("c", start_ms=20_000))))


def codes(watched: Watched, request: str) -> Sequence[str]:
    """The errors of all answers to requests of a type, once the group has settled."""
    found = []
    for step in watched.steps(StepKind.RESPONSE_RELEASED):
        if step["request"]["type"] == request and step["at_ms"] > SETTLED_MS:
            response = step["response"]
            found += list(response.get("errors", {}).values()) or [response.get("error_code")]
    return [code for code in found if code not in (None, "NONE")]


@pytest.mark.parametrize("linger_ms", [-1, 5, 50])
def test_a_group_lives_as_well_with_batches(linger_ms: int) -> None:
    watched = story(linger_ms=linger_ms)
    watched.run()
    assert watched.fetchable("a") | watched.fetchable("b") == set(range(6))


def test_operations_of_one_window_are_committed_together() -> None:
    together = story(linger_ms=50)
    alone = story(linger_ms=0)
    for watched in (together, alone):
        watched.advance_to(2_000)
    ends = [s["high_watermark"] for s in together.steps(StepKind.LOG_COMMITTED)]
    assert ends[-1] == alone.steps(StepKind.LOG_COMMITTED)[-1]["high_watermark"]
    assert len(set(ends)) < len({s["high_watermark"] for s in alone.steps(StepKind.LOG_COMMITTED)})
    joins = [s for s in together.steps(StepKind.COORDINATOR_REQUEST) if s.get("records")]
    first = joins[0]
    assert first["log_end_offset"] == len(first["records"])
    [answer] = together.steps(StepKind.RESPONSE_RELEASED, operation=first["operation"])
    assert answer["at_ms"] > first["at_ms"] + 50


@pytest.mark.parametrize("linger_ms", [-1, 0, 50])
def test_nobody_is_answered_before_the_high_watermark_has_passed_what_was_decided(
    linger_ms: int,
) -> None:
    """Nor who wrote nothing, while a batch is open or a replica slow."""
    slow = ReplicationSlowdown(at_ms=4_000, duration_ms=9_000, factor=200)
    watched = story(slow, linger_ms=linger_ms)
    watched.advance_to(30_000)
    handled = {s["operation"]: s for s in watched.steps(StepKind.COORDINATOR_REQUEST)}
    waits = set()
    for step in watched.steps(StepKind.RESPONSE_RELEASED):
        request = handled.get(step.get("operation"))
        if request is not None:
            assert step["high_watermark"] >= request["log_end_offset"]
            waits.add(step["at_ms"] - request["at_ms"])
    assert min(waits) == 0
    assert max(waits) >= 400 + max(linger_ms, 0), "two milliseconds, two hundred times"


@pytest.mark.parametrize("linger_ms", [0, LINGER_MS])
@pytest.mark.parametrize(
    ("error", "code"),
    [
        (WriteError.STORAGE, "NOT_COORDINATOR"),
        (WriteError.NOT_ENOUGH_REPLICAS, "COORDINATOR_NOT_AVAILABLE"),
    ],
)
def test_a_broker_that_cannot_write_says_so_and_loses_nothing(
    linger_ms: int, error: WriteError, code: str
) -> None:
    failure = AppendFailure(at_ms=11_000, duration_ms=8_000, error=error)
    watched = story(failure, linger_ms=linger_ms)
    watched.advance_to(11_000)
    leader = watched.world.acting_shard()
    assert leader is not None
    end = leader.log_end_offset
    watched.advance_to(18_999)
    assert leader.log_end_offset == end
    assert set(codes(watched, "OffsetCommitRequest")) == {code}
    assert codes(watched, "ConsumerGroupHeartbeatRequest") == [], (
        "a steady heartbeat writes nothing"
    )
    watched.run()
    assert leader.log_end_offset > end


def test_a_batch_that_fails_fails_for_everybody_who_waits_for_it() -> None:
    """Also for who wrote nothing, but may not be told anything before the batch is committed."""
    watched = story_of_a_join(
        OffsetsList(at_ms=20_100, require_stable=True),
        AppendFailure(at_ms=20_200, duration_ms=200),
        linger_ms=200,
    )
    watched.advance_to(20_260)
    [failed] = watched.steps(StepKind.LOG_TRUNCATED)
    since = [s for s in watched.steps(StepKind.COORDINATOR_REQUEST) if s["at_ms"] >= 20_050]
    assert [len(s.get("records", ())) > 0 for s in since] == [True, False]
    for step in since:
        [answer] = watched.steps(StepKind.RESPONSE_RELEASED, operation=step["operation"])
        assert answer["at_ms"] == failed["at_ms"]
        assert "NOT_COORDINATOR" in str(answer["response"])
    assert len(watched.group().members) == 2
    watched.run()
    assert len(watched.group().members) == 3


@pytest.mark.parametrize("linger_ms", [0, LINGER_MS])
def test_a_timer_whose_records_could_not_be_written_fires_again(linger_ms: int) -> None:
    crash = ClientCrash(at_ms=10_000, client="b")
    failure = AppendFailure(at_ms=40_000, duration_ms=16_000)
    watched = story(crash, failure, linger_ms=linger_ms)
    watched.advance_to(55_999)
    assert len(watched.group().members) == 2
    assert 10_000 + SESSION_TIMEOUT_MS < 55_500
    watched.advance_to(57_000)
    assert len(watched.group().members) == 1
    watched.run()


def story_of_a_leave(*planned: Fault) -> Watched:
    """b leaves at a time when nothing can be written: a leave is not repeated."""
    watched = story(
        ClientClose(at_ms=20_500, client="b"),
        AppendFailure(at_ms=20_000, duration_ms=2_000),
        *planned,
    ).world.spec
    return Watched(replace(watched, clients=(client("a"), client("b"))))


def test_a_timer_that_went_with_a_failed_batch_is_a_known_issue() -> None:
    """coordinator D14: nobody looks after the session of b any more."""
    watched = story_of_a_leave()
    watched.world.run()
    checker = watched.checkers["group"]
    assert {(v.property.id, v.known_as) for v in checker.violations} == {
        ("coordinator.timers_armed", "D14")
    }
    late = checker.liveness.verdict(watched.world.now_ms)
    assert {stuck.known_as for stuck in late} == {"D14"}
    assert {stuck.property.id for stuck in late} >= {"liveness.ghosts_gone"}
    assert len(watched.group().members) == 2


def test_a_load_gives_such_a_member_its_timer_back() -> None:
    watched = story_of_a_leave(CoordinatorMove(at_ms=25_000))
    watched.world.run()
    assert watched.late() == {}
    assert len(watched.group().members) == 1


def test_a_leader_that_resigns_takes_its_open_batch_with_it() -> None:
    """The answer is an error, and the member joins again where it finds a coordinator."""
    watched = story_of_a_join(CoordinatorMove(at_ms=20_100), linger_ms=500)
    watched.run()
    [lost] = watched.steps(StepKind.LOG_TRUNCATED)
    assert lost["shard"] == "broker-0"
    assert lost["at_ms"] < 20_200
    assert len(watched.group().members) == 3


@pytest.mark.parametrize("linger_ms", [0, LINGER_MS])
def test_a_join_that_fits_no_batch_fails_for_good(linger_ms: int) -> None:
    watched = story(linger_ms=linger_ms, message_max_bytes=300)
    watched.advance_to(15_000)
    assert watched.state("a") == watched.state("b") == "FATAL"
    leader = watched.world.acting_shard()
    assert leader is not None
    assert leader.log_end_offset == 0
    assert any("UNKNOWN_SERVER_ERROR" in line for line in watched.trace.lines)
