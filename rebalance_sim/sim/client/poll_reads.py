"""What polls lead to: an answer that only a ``poll`` reads, and the first records of partitions."""

from __future__ import annotations

from collections.abc import Callable

from rebalance_sim.protocol.clients.common.events import Event
from rebalance_sim.sim.client.ports import Process
from rebalance_sim.sim.clock import Clock


class UnreadAnswer:
    """The answer that waits for a ``poll``. ``in_poll_ms``: when the application is in one."""

    def __init__(self, process: Process, clock: Clock, in_poll_ms: Callable[[], int]) -> None:
        self._process = process
        self._clock = clock
        self._in_poll_ms = in_poll_ms
        self._unread: tuple[int, Event] | None = None

    def waits(self, correlation_id: int, answer: Event) -> bool:
        """Whether an answer has to wait for a ``poll``; it is read there."""
        unread = (correlation_id, answer)
        if self._is_read_now(unread):
            return False
        self._unread = unread
        return True

    def read(self) -> None:
        """A ``poll`` reads it, unless its request was given up."""
        unread, self._unread = self._unread, None
        if unread is not None and unread[0] in self._process.member.open_requests:
            self._process.take(unread[1])

    def _is_read_now(self, unread: tuple[int, Event]) -> bool:
        at_ms = self._in_poll_ms()
        if at_ms <= self._clock.now_ms:
            return True
        self._clock.call_at(at_ms, self._process.tie_break(), self._on_poll, unread)
        return False

    def _on_poll(self, unread: tuple[int, Event]) -> None:
        if unread is not self._unread or self._process.defers(self._on_poll, unread):
            return
        if self._is_read_now(unread):
            self.read()


class FirstRecords:
    """Who comes to have partitions gets the first records when polls have led to them: one of their
    events has a committed position validated, the next one fetches (client §0.1).

    ``at_ms``: from when on they are there. ``are_validated``: the last positions that were looked
    up were committed ones.
    ``on_there``: called when the first records are there.
    """

    def __init__(
        self, process: Process, clock: Clock, looks_every_ms: int, on_there: Callable[[], None]
    ) -> None:
        self._process = process
        self._clock = clock
        self._looks_every_ms = looks_every_ms
        self._on_there = on_there
        self.had_deliverable = False
        self.at_ms = 0
        self.are_validated = False

    def look(self, has_deliverable: bool) -> None:
        """The member has come to have partitions that records are handed out from, or has none."""
        self.had_deliverable = has_deliverable
        if has_deliverable and self.are_validated:
            at_ms = self.at_ms = self._clock.now_ms + 2 * self._looks_every_ms
            self._clock.call_at(at_ms, self._process.tie_break(), self._on_fetched)

    def _on_fetched(self, _: None) -> None:
        if not self._process.defers(self._on_fetched, None):
            self._on_there()
