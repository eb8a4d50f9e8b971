"""When the next request of a kind may be sent: one in flight, and backoff after an answer.

Source: client §2.1, §2.2.
"""

from __future__ import annotations

from collections.abc import Callable

from rebalance_sim.protocol.clients.common.member_config import MemberConfig

BACKOFF_JITTER = 0.2
"""Share by which a backoff may differ from its nominal length, up or down."""


def backoff_ms(attempt: int, *, initial_ms: int, max_ms: int, jitter: float) -> int:
    """Length of the backoff after the ``attempt``-th failure (from 0), in milliseconds.

    It doubles from ``initial_ms`` to ``max_ms``; ``jitter`` -0.2 makes it 20 % shorter. Jitter
    never lifts it above ``max_ms``.
    """
    if max_ms <= initial_ms:
        return initial_ms
    # The bound on the exponent keeps the power small; 2**32 is past any maximum in use.
    term = min(initial_ms * (1 << min(attempt, 32)), max_ms)
    return min(int(term * (1 + jitter)), max_ms)


class RequestPacer:
    """Request state of one kind of request.

    ``jitter`` answers a number in [-1, 1]; ``jitter_share`` scales it.
    """

    __slots__ = (
        "_initial_ms",
        "_jitter",
        "_jitter_share",
        "_max_ms",
        "attempts",
        "backoff_until_ms",
        "in_flight",
    )

    def __init__(
        self,
        config: MemberConfig,
        jitter: Callable[[], float],
        *,
        jitter_share: float = BACKOFF_JITTER,
    ) -> None:
        self._initial_ms = config.retry_backoff_ms
        self._max_ms = config.retry_backoff_max_ms
        self._jitter = jitter
        self._jitter_share = jitter_share
        self.in_flight = False
        self.attempts = 0  # failures in a row
        self.backoff_until_ms: int | None = None  # None: nothing received yet, or reset

    def may_send(self, now_ms: int) -> bool:
        """Whether nothing is in flight and the backoff is over."""
        return not self.in_flight and (
            self.backoff_until_ms is None or now_ms >= self.backoff_until_ms
        )

    def on_sent(self) -> None:
        """A request has been handed to the host."""
        self.in_flight = True

    def on_success(self, now_ms: int) -> None:
        """The minimum backoff runs from the receipt of a good answer, too."""
        self.in_flight = False
        self.attempts = 0
        self.backoff_until_ms = now_ms + self._draw(0)

    def on_failure(self, now_ms: int) -> None:
        """A request failed, or was answered with an error: the backoff grows."""
        self.in_flight = False
        self.backoff_until_ms = now_ms + self._draw(self.attempts)
        self.attempts += 1

    def reset(self) -> None:
        """Forget everything: the next request may leave at once."""
        self.in_flight = False
        self.attempts = 0
        self.backoff_until_ms = None

    def _draw(self, attempt: int) -> int:
        return backoff_ms(
            attempt,
            initial_ms=self._initial_ms,
            max_ms=self._max_ms,
            jitter=self._jitter() * self._jitter_share,
        )
