"""The poll timer: it is looked at twice a second, and only while the application stays away.

Source: client §10.1 (row "poll expiry"). Inside of a blocking poll, callbacks included, no time
runs; and a member that was never assigned anything is not watched.
"""

from __future__ import annotations

from collections.abc import Callable

from rebalance_sim.protocol.clients.common.application import Application
from rebalance_sim.protocol.clients.common.values import nobody_listens
from rebalance_sim.protocol.clients.librdkafka.librdkafka_core import LibrdkafkaCore

POLL_CHECK_INTERVAL_MS = 500
"""How often the timer is looked at, counted from the last assigned callback. Each look sets the
next, so what a thread is late adds up: ``poll_check_lag_ms``."""


class PollWatch:
    """Notices that an application has stayed away from ``poll`` for too long: ``on_expired``."""

    def __init__(self, core: LibrdkafkaCore, application: Application) -> None:
        self._core = core
        self._application = application
        self._is_on = False
        self._since_ms = 0
        self.on_expired: Callable[[], None] = nobody_listens

    def switch(self, is_on: bool) -> None:
        """Start or restart to watch, or stop."""
        self._is_on = is_on
        self._since_ms = self._core.now_ms

    @property
    def is_overdue(self) -> bool:
        """Whether the application has been away for more than ``max_poll_interval_ms``."""
        application = self._application
        if application.is_polling:
            return False
        away_ms = self._core.now_ms - application.last_poll_at_ms
        return away_ms > self._core.config.max_poll_interval_ms

    @property
    def deadline_ms(self) -> int | None:
        """When it will be noticed, if the application stays away."""
        if not self._is_on or self._application.is_polling:
            return None
        over_ms = self._application.last_poll_at_ms + self._core.config.max_poll_interval_ms + 1
        since_ms = self._since_ms + self._core.poll_check_lag_ms
        checks = max(-((since_ms - over_ms) // POLL_CHECK_INTERVAL_MS), 1)
        return since_ms + checks * POLL_CHECK_INTERVAL_MS

    def run(self) -> None:
        """Time is up: heartbeats end."""
        deadline_ms = self.deadline_ms
        core = self._core
        if deadline_ms is None or core.now_ms < deadline_ms:
            return
        self._is_on = False
        core.has_missed_polls = core.poll_expired = True
        away_ms = core.now_ms - self._application.last_poll_at_ms
        self._application.queue_error(
            None,
            f"max.poll.interval.ms exceeded by {away_ms - core.config.max_poll_interval_ms} ms",
        )
        self.on_expired()

    def on_poll(self) -> None:
        """The application is back."""
        if self._core.has_missed_polls:
            self._core.expedite_heartbeat()
