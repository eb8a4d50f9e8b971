"""What the model keeps of a batch that could not be written: timers, and what came before it."""

from __future__ import annotations

from typing import Any

import pytest
from coordinator_world import GROUP, CoordinatorWorld

from rebalance_sim.invariants.model.classic_model import ClassicModel, Converted, Written
from rebalance_sim.invariants.model.failed_writes import FailedWrites
from rebalance_sim.protocol.consumer.timer_keys import session_key
from rebalance_sim.protocol.runtime.outcome import CancelTimer, ScheduleTimer

KEY = session_key(GROUP, "a")


@pytest.mark.parametrize(
    ("command", "is_left"),
    [
        (None, True),
        (ScheduleTimer(session_key(GROUP, "b"), 100), True),
        (ScheduleTimer(session_key("another", "a"), 100), True),
        (ScheduleTimer(KEY, 100), False),
        (CancelTimer(KEY), False),
    ],
)
def test_a_timer_is_what_a_failed_batch_left_until_it_is_set_anew(
    command: Any, is_left: bool
) -> None:
    """However late it fires: a coordinator may stall."""
    world = CoordinatorWorld()
    world.join("a")
    failed_writes = FailedWrites(GROUP)
    ledger = world.checker.model.ledger_of(world.shard)
    failed_writes.note(world.shard, ledger, 7, 70)
    failed_writes.note_timers(world.shard, () if command is None else (command,))
    seen = failed_writes.left_armed(world.shard, "a", "session")
    assert (seen is not None) is is_left


def test_a_timer_that_a_failed_batch_cancelled_is_not_left() -> None:
    world = CoordinatorWorld()
    world.join("a")
    failed_writes = FailedWrites(GROUP)
    ledger = world.checker.model.ledger_of(world.shard)
    failed_writes.note(world.shard, ledger, 7, 70)
    del world.shard.armed_timers[KEY]
    failed_writes.note(world.shard, ledger, 8, 80)
    assert failed_writes.left_armed(world.shard, "a", "session") is None
    assert failed_writes.lost(world.shard, "a", "session") is not None


@pytest.mark.parametrize(("end_offset", "generations"), [(10, {2}), (11, set()), (4, set())])
def test_what_was_written_for_a_classic_group_counts_again_with_the_group(
    end_offset: int, generations: set[int]
) -> None:
    """A conversion at offset 10 is undone, or not; what comes after the end of the log is lost."""
    written = {2: Written(5, {}), 3: Written(12, {})}
    model = ClassicModel(converted=[Converted(3, 10, written=written)])
    undone = model.undone_by(end_offset)
    assert (undone is not None) is (end_offset <= 10)
    assert set(model.written) == generations
