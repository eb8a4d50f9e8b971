"""One direction of a TCP connection: bytes in order, held back while packets get lost."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from rebalance_sim.sim.clock import Clock
from rebalance_sim.sim.network.link import Link

_RETRANSMISSION_MS = 200
"""Linux' lower bound of the retransmission timeout: what it is where answers take less."""

HANDSHAKE_RETRANSMISSION_MS = 1_000
"""The same for a connection that is being set up (RFC 6298)."""

_RETRANSMISSION_MAX_MS = 120_000


def retransmission_at_ms(first_ms: int, now_ms: int, timeout_ms: int) -> int:
    """When a packet that got lost at ``first_ms`` is sent again, from ``now_ms`` on.

    TCP doubles the time between two tries, up to two minutes (RFC 6298, and Linux' limit).
    """
    at_ms = first_ms + timeout_ms
    while at_ms < now_ms:
        timeout_ms = min(2 * timeout_ms, _RETRANSMISSION_MAX_MS)
        at_ms += timeout_ms
    return at_ms


class Pipe:
    """One direction of a connection: first in, first out, with a delay for each message.

    What a partition holds arrives after its end with the next retransmission, and so does
    everything behind it.
    """

    __slots__ = (
        "_clock",
        "_deliver",
        "_extra_ms",
        "_held",
        "_held_since_ms",
        "_is_closed",
        "_last_ms",
        "_link",
        "_messages",
        "_node_id",
        "blocked",
    )

    def __init__(
        self,
        clock: Clock,
        link: Link,
        deliver: Callable[[Any], None],
        *,
        node_id: int,
        extra_ms: int = 0,
    ) -> None:
        self._clock = clock
        self._link = link
        self._node_id = node_id
        self._extra_ms = extra_ms
        self._deliver = deliver
        self._messages: deque[Any] = deque()
        self._last_ms = 0
        self._held = 0
        self._held_since_ms: int | None = None  # until something gets through again
        self.blocked = False
        self._is_closed = False

    @property
    def outlives_sender(self) -> bool:
        """Whether something is on its way that was sent before the sender closed, or died."""
        return self._is_closed and len(self._messages) > 1

    def close(self, last: Any) -> None:
        """Send this, and nothing after it."""
        self._is_closed = True
        self.send(last)

    def send(self, message: Any) -> None:
        """Let the message arrive after a delay, and after everything sent before."""
        self._messages.append(message)
        self._schedule(self._clock.now_ms)

    def set_blocked(self, blocked: bool) -> None:
        """Stop arrivals, or let what was held arrive once it is sent again."""
        self.blocked = blocked
        if self._held and not blocked:
            assert self._held_since_ms is not None
            held, self._held = self._held, 0
            now_ms = self._clock.now_ms
            again_ms = retransmission_at_ms(self._held_since_ms, now_ms, _RETRANSMISSION_MS)
            for _ in range(held):
                self._schedule(again_ms)

    def clear(self) -> None:
        """Lose everything that is on its way."""
        self._messages.clear()
        self._held = 0

    def _schedule(self, sent_ms: int) -> None:
        link = self._link
        if link.broker_factors:
            at_ms = sent_ms + link.delay_ms(self._extra_ms, self._node_id)
        else:  # What it would answer, without a call.
            at_ms = sent_ms + (link.sample_ms() + self._extra_ms) * link.factor
        if at_ms < self._last_ms:
            at_ms = self._last_ms
        self._last_ms = at_ms
        self._clock.call_at(at_ms, link.tie_break(), self._arrive)

    def _arrive(self, _: None) -> None:
        if self.blocked:
            if self._held_since_ms is None:
                self._held_since_ms = self._clock.now_ms
            self._held += 1
        elif self._messages:
            self._held_since_ms = None
            self._deliver(self._messages.popleft())
