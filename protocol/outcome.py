"""What a coordinator hands back to its host: a response, records, and timer commands.

The host owns log, clock and network. It must replay ``records`` into the coordinator before the
next call, and may release ``response`` only when they are committed
(consumer-group-coordinator.md, section 9.4).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from protocol.messages import Response
from protocol.records import Record

__all__ = ["CancelTimer", "Outcome", "ScheduleTimer", "TimerCommand", "TimerKey"]


class TimerKey(NamedTuple):
    """Identity of a timer: scheduling an existing key replaces it (section 4.1)."""

    kind: str
    group_id: str
    member_id: str = ""


class ScheduleTimer(NamedTuple):
    """Arm, or re-arm, the timer to fire at ``at_ms``. ``epoch`` is handed back when it fires."""

    key: TimerKey
    at_ms: int
    epoch: int = 0


class CancelTimer(NamedTuple):
    """Disarm the timer; a no-op if it is not armed."""

    key: TimerKey


TimerCommand = ScheduleTimer | CancelTimer


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of one operation. ``response`` is None for operations nobody waits for (timers)."""

    response: Response | None = None
    records: tuple[Record, ...] = ()
    timers: tuple[TimerCommand, ...] = ()
