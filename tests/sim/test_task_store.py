"""How good the copies of a Streams instance are, without an event for any record."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rebalance_sim.protocol.wire.topics import TopicPartition
from rebalance_sim.sim.client.task_store import TaskStore
from rebalance_sim.sim.data_plane.topic_logs import TopicLogs

TASK, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)


def store(*, produced: int = 0, state: int = 1_000, restored: int = 100) -> TaskStore:
    logs = TopicLogs()
    logs.create("t", range(2), records_per_second=produced, now_ms=0)
    return TaskStore(logs, state_records=state, restore_rate=restored)


def held(*tasks: TopicPartition) -> frozenset[TopicPartition]:
    return frozenset(tasks)


def test_a_copy_is_restored_while_somebody_has_the_task() -> None:
    tasks = store()
    tasks.hold("m", held(TASK), 0)
    assert [tasks.lag(TASK, ms) for ms in (0, 1_000, 5_000, 10_000, 99_000)] == [
        1_000,
        900,
        500,
        0,
        0,
    ]


def test_a_copy_that_no_one_has_stands_still_and_the_log_goes_on() -> None:
    tasks = store(produced=10, state=0)
    tasks.hold("m", held(TASK), 0)
    tasks.hold("m", held(), 1_000)
    assert tasks.lags(1_000) == {TASK: 0}
    assert tasks.lags(3_000) == {TASK: 20}
    tasks.hold("m", held(TASK), 3_000)
    assert tasks.lag(TASK, 3_100) == 11
    assert tasks.lag(TASK, 9_000) == 0


def test_members_of_one_instance_share_their_copies() -> None:
    tasks = store()
    tasks.hold("m", held(TASK), 0)
    tasks.hold("n", held(TASK, OTHER), 2_000)
    tasks.hold("m", held(), 3_000)
    assert tasks.lags(4_000) == {TASK: 600, OTHER: 800}


def test_a_copy_that_is_restored_more_slowly_than_the_log_grows_never_gets_there() -> None:
    tasks = store(produced=200)
    tasks.hold("m", held(TASK), 0)
    assert tasks.crossing_ms(TASK, 500, 0) is None
    assert tasks.lag(TASK, 10_000) == 2_000


def test_a_good_copy_that_is_held_stays_good_and_a_bad_one_that_is_not_stays_bad() -> None:
    tasks = store(produced=10, state=0)
    tasks.hold("m", held(TASK), 0)
    assert tasks.crossing_ms(TASK, 5, 0) is None
    tasks.hold("m", held(), 0)
    assert tasks.crossing_ms(TASK, 5, 60_000) is None


@given(
    produced=st.integers(0, 2_000),
    state=st.integers(0, 5_000),
    restored=st.integers(1, 3_000),
    limit=st.integers(0, 3_000),
    dropped_ms=st.none() | st.integers(0, 5_000),
    now_ms=st.integers(0, 6_000),
)
def test_a_crossing_is_the_first_millisecond_on_the_other_side(
    produced: int, state: int, restored: int, limit: int, dropped_ms: int | None, now_ms: int
) -> None:
    tasks = store(produced=produced, state=state, restored=restored)
    tasks.hold("m", held(TASK), 0)
    if dropped_ms is not None:
        tasks.hold("m", held(), dropped_ms)
        now_ms += dropped_ms
    at_ms = tasks.crossing_ms(TASK, limit, now_ms)
    before = tasks.lag(TASK, now_ms) <= limit
    if at_ms is None:
        for later_ms in (now_ms + 1, now_ms + 10_000, now_ms + 10_000_000):
            lag = tasks.lag(TASK, later_ms)
            assert lag <= limit + 1 if before else lag >= limit
    else:
        assert at_ms > now_ms
        assert (tasks.lag(TASK, at_ms) <= limit) is not before
        assert (tasks.lag(TASK, at_ms - 1) <= limit) is before
