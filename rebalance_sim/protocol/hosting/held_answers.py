"""Answers that wait for their commit.

Source: coordinator §9.4: an answer goes when the high watermark has reached what it waits for, or
as an error when that takes too long, or can never happen.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from rebalance_sim.protocol.hosting.ports import Alarms, Reply
from rebalance_sim.protocol.runtime.outcome import Continuation
from rebalance_sim.protocol.wire.consumer_messages import Response


class Asked:
    """A request that a shard has taken, and where its answer goes.

    It stands for itself as the token of a parked request (classic §2), and is forgotten when no one
    is going to answer it any more. ``operation`` is 0 while no listener has seen it handled.
    """

    __slots__ = ("is_answered", "operation", "reply", "request")

    def __init__(self, operation: int, request: Any, reply: Reply) -> None:
        self.operation = operation
        self.request = request
        self.reply = reply
        self.is_answered = False


@dataclass(slots=True, eq=False)
class Answer:
    """What waits for a commit: an answer, something that is to happen then, or both.

    ``asked`` is None for what a timer did. ``response`` is None where nothing is answered yet, or
    by a completion; if the write fails, requests that are not answered by then get an error. While
    it waits, it does so for the high watermark to reach ``offset``, until ``deadline_ms``.
    """

    asked: Asked | None
    response: Response | None
    on_commit: Continuation | None = None
    offset: int = 0
    deadline_ms: int = 0


class AnswersWake(NamedTuple):
    """The answer that has waited longest may have waited too long."""


class HeldAnswers:
    """First in, first out: offsets never go back, and every answer may wait equally long."""

    def __init__(self, alarms: Alarms, *, timeout_ms: int) -> None:
        self._alarms = alarms
        self._timeout_ms = timeout_ms
        self._held: deque[Answer] = deque()
        self._has_wake = False

    def __iter__(self) -> Iterator[Answer]:
        """All that wait, in order."""
        return iter(self._held)

    def hold(self, answer: Answer, offset: int, now_ms: int) -> None:
        """Keep an answer until the high watermark has reached an offset."""
        answer.offset = offset
        answer.deadline_ms = now_ms + self._timeout_ms
        self._held.append(answer)
        self._watch()

    def take_to(self, high_watermark: int) -> Iterator[Answer]:
        """What may go now, in order; usually all there is.

        Each is taken as it is asked for: an answer may be followed by a request that is handled,
        and even committed, before the next one goes, and must not overtake it.
        """
        while self._held and self._held[0].offset <= high_watermark:
            yield self._held.popleft()

    def take_beyond(self, offset: int) -> list[Answer]:
        """What waits for more than this offset, in order: that will never be committed."""
        kept = [answer for answer in self._held if answer.offset <= offset]
        taken = [answer for answer in self._held if answer.offset > offset]
        self._held = deque(kept)
        return taken

    def take_all(self) -> list[Answer]:
        """Whatever waits."""
        taken = list(self._held)
        self._held.clear()
        return taken

    def take_late(self, now_ms: int) -> Iterator[Answer]:
        """At a wake-up: what has waited too long, each as it is asked for."""
        self._has_wake = False
        while self._held and self._held[0].deadline_ms <= now_ms:
            yield self._held.popleft()
        self._watch()

    def _watch(self) -> None:
        """One wake-up at a time waits for the oldest."""
        if not self._has_wake and self._held:
            self._has_wake = True
            self._alarms.wake_at(self._held[0].deadline_ms, AnswersWake())
