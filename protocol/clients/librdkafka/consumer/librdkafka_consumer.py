"""The librdkafka member: ``LibrdkafkaMachine`` with the requests of the consumer protocol.

Source: client §10.1, over client §1-§8.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from rebalance_sim.protocol.clients.common import events
from rebalance_sim.protocol.clients.common.consumer_config import ConsumerConfig
from rebalance_sim.protocol.clients.librdkafka.consumer.librdkafka_heartbeats import Heartbeats
from rebalance_sim.protocol.clients.librdkafka.librdkafka_machine import LibrdkafkaMachine
from rebalance_sim.protocol.clients.librdkafka.librdkafka_rebalance import Rebalance


class LibrdkafkaMember(LibrdkafkaMachine):
    """One consumer process that speaks the consumer protocol: see ``LibrdkafkaMachine``."""

    kind: ClassVar[str] = "librdkafka"

    __slots__ = ()

    _requests: Heartbeats

    def __init__(
        self,
        *,
        config: ConsumerConfig,
        member_id: str,
        jitter: Callable[[], float] = lambda: 0.0,
        retry_jitter: Callable[[], float] | None = None,
        now_ms: int,
    ) -> None:
        super().__init__(
            config=config,
            member_id=member_id,
            jitter=jitter,
            retry_jitter=retry_jitter,
            now_ms=now_ms,
        )
        self._rebalance = Rebalance(self, self._application, self._assignment, self._link)
        self._requests = Heartbeats(
            self, config, self._application, self._link, self._rebalance, self._polls
        )
        self._connect_rebalance()
        self._rebalance.send_leave = self._requests.send_leave

    # --- events -----------------------------------------------------------------------------------

    def _on_metadata_known(self, event: events.MetadataKnown) -> None:
        self.topic_names.update(event.topic_names)
        self._rebalance.on_names_known(event.topic_names)

    def reads_positions(self, event: events.Event, *, now_ms: int) -> bool:
        """Whether the interval commit is due, or a rebalance may begin, which ends all fetching."""
        if self.is_paused or not self.subscription.assigned:
            return False
        due_ms = self._commits.interval_due_ms
        if self.must_rejoin or (due_ms is not None and due_ms <= now_ms):
            return True
        if isinstance(event, events.HeartbeatAnswered):
            response = event.response
            is_news = response.assignment is not None or response.error_code
            return bool(is_news) or self.next_target is not None
        return isinstance(event, events.MetadataKnown) and self.next_target is not None
