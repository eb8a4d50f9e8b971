"""The librdkafka member: ``LibrdkafkaMachine`` with the requests of the consumer protocol.

Source: client §10.1, over client §1-§8.
"""

from __future__ import annotations

from typing import ClassVar

from rebalance_sim.protocol.clients.common import events
from rebalance_sim.protocol.clients.librdkafka.consumer.librdkafka_consumer_core import (
    LibrdkafkaConsumerCore,
)
from rebalance_sim.protocol.clients.librdkafka.consumer.librdkafka_consumer_rebalance import (
    ConsumerRebalance,
)
from rebalance_sim.protocol.clients.librdkafka.consumer.librdkafka_heartbeats import Heartbeats


class LibrdkafkaMember(LibrdkafkaConsumerCore):
    """One consumer process that speaks the consumer protocol: see ``LibrdkafkaMachine``."""

    kind: ClassVar[str] = "librdkafka"

    _rebalance: ConsumerRebalance

    def _make_group_parts(self) -> tuple[ConsumerRebalance, Heartbeats]:
        rebalance = ConsumerRebalance(self, self._application, self._assignment, self._link)
        heartbeats = Heartbeats(self, self._application, self._link, rebalance, self._polls)
        rebalance.send_leave = heartbeats.send_leave
        return rebalance, heartbeats

    # --- events -----------------------------------------------------------------------------------

    def _on_poll_event(self) -> None:
        """The application is back."""
        self.waits_for_poll = False
        super()._on_poll_event()

    def _on_metadata_known(self, event: events.MetadataKnown) -> None:
        self.topic_names.update(event.topic_names)
        self._rebalance.on_names_known(event.topic_names)

    def reads_positions(self, event: events.Event, *, now_ms: int) -> bool:
        """Whether the interval commit is due, or a rebalance may begin, which ends all fetching."""
        if self.is_paused or not self.subscription.assigned:
            return False
        due_ms = self._commits.interval_due_ms()
        if self.must_rejoin or (due_ms is not None and due_ms <= now_ms):
            return True
        if isinstance(event, events.HeartbeatAnswered):
            response = event.response
            is_news = response.assignment is not None or response.error_code
            return bool(is_news) or self.next_target is not None
        return isinstance(event, events.MetadataKnown) and self.next_target is not None
