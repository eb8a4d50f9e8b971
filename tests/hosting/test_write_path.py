"""The write path and the answers that wait, without a coordinator (coordinator §9.4)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from list_host import Alarms

from rebalance_sim.protocol.hosting.error_answers import WriteError
from rebalance_sim.protocol.hosting.held_answers import Answer, AnswersWake, Asked, HeldAnswers
from rebalance_sim.protocol.hosting.ports import Escape, Failure
from rebalance_sim.protocol.hosting.record_size import batch_bytes, record_bytes
from rebalance_sim.protocol.hosting.write_path import BatchWake, LostBatch, WritePath
from rebalance_sim.protocol.wire.errors import ReplayError
from rebalance_sim.protocol.wire.records import OffsetCommit, OffsetCommitValue, Record

LINGER_MS = 10

# -- the writer ----------------------------------------------------------------------------


class Memory:
    """Stands for a coordinator: keeps what is in force, by offset. ``refused``: a record that
    contradicts its state."""

    def __init__(self) -> None:
        self.in_force: dict[int, Record] = {}
        self.refused: Record | None = None

    def replay_batch(self, records: Sequence[Record], *, offset: int) -> None:
        """Put records in force, as far as they go."""
        for place, record in enumerate(records):
            if record == self.refused:
                raise ReplayError("it contradicts what is there")
            self.in_force[offset + place] = record

    def revert_to(self, offset: int) -> None:
        """Forget what came from this offset on."""
        self.in_force = {at: record for at, record in self.in_force.items() if at < offset}


class Desk:
    """A writer with its journal, which is a list, and wake-ups. ``error``: why nothing can be
    appended."""

    def __init__(self, *, linger_ms: int = LINGER_MS, max_bytes: int = 1_000_000) -> None:
        self.now_ms = 0
        self.written_at_ms: list[int] = []
        self.published_at_ms: list[int] = []
        self.records: list[Record] = []
        self.error: WriteError | None = None
        self.alarms = Alarms()
        self.memory: Any = Memory()
        self.lost: list[tuple[int, WriteError]] = []
        self.writer = WritePath(
            self,
            self.alarms,
            linger_ms=linger_ms,
            max_bytes=max_bytes,
            on_lost=self._on_lost,
        )

    @property
    def end_offset(self) -> int:
        return len(self.records)

    def append(self, records: Sequence[Record]) -> WriteError | None:
        if self.error is None:
            self.written_at_ms.append(self.now_ms)
            self.records += records
        return self.error

    def publish(self) -> None:
        self.published_at_ms.append(self.now_ms)

    def _on_lost(self, lost: LostBatch) -> None:
        self.memory.revert_to(lost.offset)
        self.lost.append((lost.offset, lost.error))

    def add(self, *records: Record, is_atomic: bool = True) -> Failure | None:
        """One operation."""
        return self.writer.add(self.memory, records, self.now_ms, is_atomic=is_atomic)

    def advance_to(self, at_ms: int) -> None:
        """Let everything happen that is due by then."""
        while (due := self.alarms.next_until(at_ms)) is not None:
            self.now_ms = due[0]
            assert isinstance(due[1], BatchWake)
            self.writer.on_wake(due[1])
        self.now_ms = at_ms


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
    assert desk.end_offset == 0
    assert desk.writer.end_offset == 3
    desk.advance_to(LINGER_MS)
    assert desk.records == [commit(0), commit(1), commit(2)]
    assert desk.written_at_ms == [LINGER_MS]


def test_each_batch_has_a_time_of_its_own() -> None:
    desk = Desk()
    desk.add(commit(0))
    desk.advance_to(25)
    desk.add(commit(1))
    desk.advance_to(34)
    assert desk.end_offset == 1
    desk.advance_to(35)
    assert desk.written_at_ms == [LINGER_MS, 35]


def test_without_linger_each_operation_is_written_at_once() -> None:
    desk = Desk(linger_ms=0)
    desk.add(commit(0))
    assert desk.end_offset == 1
    assert not desk.writer.batch
    desk.advance_to(1_000)
    assert desk.published_at_ms == [], "who adds publishes"


def test_an_adaptive_linger_waits_only_for_what_comes_at_the_same_time() -> None:
    desk = Desk(linger_ms=-1)
    desk.add(commit(0))
    desk.add(commit(1))
    assert desk.end_offset == 0
    desk.advance_to(0)
    assert desk.end_offset == 2
    assert desk.written_at_ms == [0]


def test_an_operation_that_does_not_fit_is_written_behind_the_batch() -> None:
    desk = Desk(max_bytes=batch_bytes(3 * SIZE))
    desk.add(commit(0), commit(1))
    desk.add(commit(2))
    assert desk.end_offset == 0
    desk.add(commit(3), commit(4))
    assert desk.end_offset == 3, "exactly full"
    assert desk.writer.end_offset == 5
    desk.advance_to(LINGER_MS)
    assert desk.end_offset == 5
    assert desk.written_at_ms == [0, LINGER_MS]
    assert desk.published_at_ms == [LINGER_MS], "not while an operation is added"


@pytest.mark.parametrize("linger_ms", [0, LINGER_MS])
def test_an_operation_that_fits_no_batch_is_refused_and_changes_nothing(linger_ms: int) -> None:
    desk = Desk(linger_ms=linger_ms, max_bytes=batch_bytes(2 * SIZE))
    assert desk.add(commit(0)) is None
    assert desk.add(commit(1), commit(2), commit(3)) is WriteError.TOO_LARGE
    assert sorted(desk.memory.in_force) == [0]
    desk.advance_to(LINGER_MS)
    assert desk.records == [commit(0)]


@pytest.mark.parametrize("linger_ms", [0, LINGER_MS])
def test_what_need_not_be_atomic_may_go_into_several_batches(linger_ms: int) -> None:
    desk = Desk(linger_ms=linger_ms, max_bytes=batch_bytes(2 * SIZE))
    assert desk.add(*map(commit, range(5)), is_atomic=False) is None
    assert sorted(desk.memory.in_force) == [0, 1, 2, 3, 4]
    desk.advance_to(LINGER_MS)
    assert desk.records == list(map(commit, range(5)))


def test_a_batch_that_cannot_be_written_is_lost_as_a_whole() -> None:
    desk = Desk()
    desk.add(commit(0))
    desk.advance_to(LINGER_MS)
    desk.add(commit(1))
    desk.add(commit(2))
    desk.error = WriteError.STORAGE
    desk.advance_to(2 * LINGER_MS)
    assert desk.lost == [(1, WriteError.STORAGE)]
    assert desk.end_offset == desk.writer.end_offset == desk.writer.own_end == 1
    desk.error = None
    desk.add(commit(3))
    desk.advance_to(3 * LINGER_MS)
    assert desk.records == [commit(0), commit(3)]


def test_an_operation_that_needs_room_fails_with_the_batch_that_has_to_go_first() -> None:
    desk = Desk(max_bytes=batch_bytes(2 * SIZE))
    desk.add(commit(0), commit(1))
    desk.error = WriteError.NOT_ENOUGH_REPLICAS
    assert desk.add(commit(2)) is WriteError.NOT_ENOUGH_REPLICAS
    assert desk.lost == [(0, WriteError.NOT_ENOUGH_REPLICAS)]
    assert 2 not in desk.memory.in_force
    assert desk.writer.end_offset == 0


@pytest.mark.parametrize("linger_ms", [0, LINGER_MS])
def test_an_operation_that_contradicts_the_state_leaves_nothing_behind(linger_ms: int) -> None:
    desk = Desk(linger_ms=linger_ms)
    desk.add(commit(0))
    desk.memory.refused = commit(2)
    failure = desk.add(commit(1), commit(2), commit(3))
    assert isinstance(failure, Escape)
    assert isinstance(failure.problem, ReplayError)
    assert sorted(desk.memory.in_force) == [0]
    assert desk.writer.end_offset == 1
    desk.add(commit(4))
    desk.advance_to(LINGER_MS)
    assert desk.records == [commit(0), commit(4)]


def test_without_linger_what_cannot_be_written_is_not_in_force() -> None:
    desk = Desk(linger_ms=0)
    desk.error = WriteError.STORAGE
    assert desk.add(commit(0), commit(1)) is WriteError.STORAGE
    assert desk.memory.in_force == {}
    assert desk.lost == [], "no one else waits for it"


def test_a_batch_that_was_dropped_is_not_written_later() -> None:
    desk = Desk()
    desk.add(commit(0))
    assert desk.writer.drop() == (1, (), ())
    desk.advance_to(5)
    desk.add(commit(1))
    desk.advance_to(LINGER_MS)
    assert desk.end_offset == 0
    desk.advance_to(5 + LINGER_MS)
    assert desk.records == [commit(1)]


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
    unset: Any = None
    return Answer(Asked(operation, None, unset), unset)


def operations(answers: Iterable[Answer]) -> list[int]:
    """The requests that answers belong to."""
    return [answer.asked.operation for answer in answers if answer.asked is not None]


class Counter:
    """Answers that wait, and those whose time is up."""

    def __init__(self) -> None:
        self.alarms = Alarms()
        self.timed_out: list[int] = []
        self.held = HeldAnswers(self.alarms, timeout_ms=100)

    def hold(self, operation: int, offset: int, now_ms: int = 0) -> None:
        """Let an answer wait."""
        self.held.hold(answer(operation), offset, now_ms)

    def taken_to(self, high_watermark: int) -> list[int]:
        """Operations whose answers go at a high watermark."""
        return operations(self.held.take_to(high_watermark))

    def wait_until(self, at_ms: int) -> None:
        """Let everything happen that is due by then."""
        while (due := self.alarms.next_until(at_ms)) is not None:
            assert isinstance(due[1], AnswersWake)
            self.timed_out += operations(self.held.take_late(due[0]))


def test_answers_go_in_order_when_what_they_wait_for_is_committed() -> None:
    counter = Counter()
    for operation, offset in ((1, 5), (2, 5), (3, 8), (4, 9)):
        counter.hold(operation, offset)
    assert counter.taken_to(4) == []
    assert counter.taken_to(8) == [1, 2, 3]
    assert counter.taken_to(9) == [4]


def test_an_answer_that_comes_to_wait_meanwhile_does_not_overtake_the_others() -> None:
    """An answer makes room on its connection, and the next request is handled, and committed."""
    counter = Counter()
    for operation in (1, 2):
        counter.hold(operation, operation)
    going = counter.held.take_to(2)
    assert operations([next(going)]) == [1]
    counter.hold(3, 3)
    assert counter.taken_to(3) == [2, 3]
    assert list(going) == []


def test_an_answer_waits_no_longer_than_the_commit_timeout() -> None:
    counter = Counter()
    counter.hold(1, 1)
    counter.hold(2, 2, now_ms=60)
    counter.wait_until(99)
    assert counter.timed_out == []
    counter.wait_until(159)
    assert counter.timed_out == [1]
    counter.wait_until(160)
    assert counter.timed_out == [1, 2]
    assert not counter.alarms.asked, "no one waits any more"


def test_what_will_never_be_committed_is_taken_out_of_the_queue() -> None:
    counter = Counter()
    for operation in (1, 2, 3):
        counter.hold(operation, operation)
    assert operations(counter.held.take_beyond(1)) == [2, 3]
    assert counter.taken_to(3) == [1]
