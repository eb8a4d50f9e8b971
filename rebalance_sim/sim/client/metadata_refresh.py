"""When a client asks for metadata to which no coordinator reports topics.

It asks every ``metadata.max.age.ms``; and while a topic that it wants to know of is not there,
again after ``retry.backoff.ms``, then after twice that, and so on up to ``retry.backoff.max.ms``.
So a topic that is created late is seen within a second, and one that grows within minutes (read in
the byte code of kafka-clients 4.3.1, where UNKNOWN_TOPIC_OR_PARTITION asks for the next answer).
"""

from __future__ import annotations

from rebalance_sim.sim.client.ports import Process
from rebalance_sim.sim.clock import Clock
from rebalance_sim.sim.network.cluster_requests import MetadataResponse

_RETRY_BACKOFF_MS = 100
_RETRY_BACKOFF_MAX_MS = 1_000


class TopicWatch:
    """Watches over the topics of one process."""

    __slots__ = ("_backoff_ms", "_client", "_clock", "_is_waiting", "seen", "seen_ms")

    def __init__(self, client: Process, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._backoff_ms = _RETRY_BACKOFF_MS
        self._is_waiting = False  # to ask again for what was missing
        self.seen_ms = -1
        """When metadata came last; -1: never."""
        self.seen: MetadataResponse | None = None
        """What the client has taken for the topics that there are: others, where metadata lags."""

    def begin(self) -> None:
        """Metadata have been asked for; they will be old."""
        at_ms = self._clock.now_ms + self._client.spec.metadata_max_age_ms
        self._clock.call_at(at_ms, self._client.tie_break(), self._on_old)

    def on_metadata(self, seen: MetadataResponse) -> None:
        """Metadata has come."""
        self.seen, self.seen_ms = seen, self._clock.now_ms
        if self._client.member.metadata_topics <= seen.partition_counts.keys():
            self._backoff_ms = _RETRY_BACKOFF_MS
            return
        if self._is_waiting:
            return
        self._is_waiting = True
        at_ms = self._clock.now_ms + self._backoff_ms
        self._backoff_ms = min(2 * self._backoff_ms, _RETRY_BACKOFF_MAX_MS)
        self._clock.call_at(at_ms, self._client.tie_break(), self._on_missing)

    def _on_old(self, _: None) -> None:
        if not self._client.defers(self._on_old, None):
            self._client.refresh_metadata()
            self.begin()

    def _on_missing(self, _: None) -> None:
        if not self._client.defers(self._on_missing, None):
            self._is_waiting = False
            self._client.refresh_metadata()
