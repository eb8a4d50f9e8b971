"""Timers that a batch has left behind, or taken with it, that could not be written."""

from __future__ import annotations

from typing import Any

import pytest
from coordinator_world import GROUP, CoordinatorWorld

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
