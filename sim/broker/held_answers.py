"""Answers that wait for their commit.

Source: coordinator §9.4: an answer goes when the high watermark has reached what it waits for, or
as an error when that takes too long, or can never happen.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from rebalance_sim.protocol.wire.consumer_messages import Response
from rebalance_sim.sim.clock import Call, Clock

if TYPE_CHECKING:
    from rebalance_sim.sim.network.network import Connection

__all__ = ["Answer", "Asked", "HeldAnswers"]


class Asked:
    """A request that a shard has taken, and where its answer goes.

    It stands for itself as the token of a parked request (classic §2), and is forgotten when nobody
    is going to answer it any more.
    """

    __slots__ = ("connection", "correlation_id", "is_answered", "operation", "request")

    def __init__(
        self, operation: int, connection: Connection, correlation_id: int, request: Any
    ) -> None:
        self.operation = operation
        self.connection = connection
        self.correlation_id = correlation_id
        self.request = request
        self.is_answered = False


class Answer(NamedTuple):
    """What waits for a commit: an answer, something that is to happen then, or both.

    ``asked`` is None for what a timer did. ``response`` is None where nothing is answered yet, or
    by a completion; if the write fails, whoever has not been answered by then is told.
    """

    asked: Asked | None
    response: Response | None
    on_commit: object | None = None


class _Held(NamedTuple):
    offset: int
    deadline_ms: int
    answer: Answer


class HeldAnswers:
    """First in, first out: offsets never go back, and every answer may wait equally long."""

    def __init__(
        self,
        *,
        clock: Clock,
        tie_break: Callable[[], float],
        timeout_ms: int,
        on_timeout: Callable[[Answer], None],
    ) -> None:
        self._clock = clock
        self._tie_break = tie_break
        self._timeout_ms = timeout_ms
        self._on_timeout = on_timeout
        self._held: deque[_Held] = deque()
        self._has_watchdog = False

    def hold(self, answer: Answer, offset: int) -> None:
        """Keep an answer until the high watermark has reached an offset."""
        self._held.append(_Held(offset, self._clock.now_ms + self._timeout_ms, answer))
        self._watch()

    def take_to(self, high_watermark: int) -> Iterator[Answer]:
        """What may go now, in order; usually all there is.

        Each is taken as it is asked for: an answer may let in a request that is handled, and even
        committed, before the next one goes, and must not overtake it.
        """
        while self._held and self._held[0].offset <= high_watermark:
            yield self._held.popleft().answer

    def take_beyond(self, offset: int) -> list[Answer]:
        """What waits for more than this offset, in order: that will never be committed."""
        kept = [held for held in self._held if held.offset <= offset]
        taken = [held.answer for held in self._held if held.offset > offset]
        self._held = deque(kept)
        return taken

    def take_all(self) -> list[Answer]:
        """Whatever waits."""
        taken = [held.answer for held in self._held]
        self._held.clear()
        return taken

    def _watch(self) -> None:
        """One call at a time waits for the oldest."""
        if not self._has_watchdog and self._held:
            self._has_watchdog = True
            self._clock.call_at(self._held[0].deadline_ms, self._tie_break(), self._on_deadline)

    def _on_deadline(self, call: Call) -> None:
        self._has_watchdog = False
        while self._held and self._held[0].deadline_ms <= self._clock.now_ms:
            self._on_timeout(self._held.popleft().answer)
        self._watch()
