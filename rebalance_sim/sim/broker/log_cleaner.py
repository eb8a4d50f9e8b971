"""The log cleaner of a broker, for one replica: without it a long run keeps every commit there was.

Source: coordinator §9.3, and Kafka's ``log.cleaner.*`` settings (``LogCleanerManager``). The
segment that is written to is left alone, and the rest is gone over once half of it has not been.
At Kafka's segment size that is after a million records: hours of a small group, minutes of a large
one that commits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from rebalance_sim.sim.broker.environment import BrokerEnvironment
from rebalance_sim.sim.broker.log import ReplicaLog

BACKOFF_MS = 15_000
"""``log.cleaner.backoff.ms``: how often the cleaner looks what there is to do."""

LEAST_DIRTY_SHARE = 0.5
"""``log.cleaner.min.cleanable.ratio``."""

RECORD_BYTES = 100
"""What a record takes in a segment: of a committed offset some 60, and its names."""


class CleaningBroker(Protocol):
    """Whose log cleaner it is."""

    is_alive: bool

    def defers(self, function: Callable[..., None], *arguments: Any) -> bool: ...


class CleanedReplica(Protocol):
    """The replica whose log is cleaned."""

    log: ReplicaLog
    tie_break: Callable[[], float]

    @property
    def broker(self) -> CleaningBroker: ...
    def compact(self, cleaned_to: int, *, drops_tombstones: bool) -> int: ...


class LogCleaner:
    """Cleans a replica when it has enough to clean."""

    def __init__(self, replica: CleanedReplica, environment: BrokerEnvironment) -> None:
        self._replica = replica
        self._clock = environment.clock
        segment_bytes = environment.spec.offsets_topic_segment_bytes
        replica.log.watch(max(1, segment_bytes // RECORD_BYTES), self._on_rolled)

    def _on_rolled(self) -> None:
        """A new segment was begun."""
        at_ms = self._clock.now_ms + BACKOFF_MS
        self._clock.call_at(at_ms, self._replica.tie_break(), self._on_look)

    def _on_look(self, _: None) -> None:
        broker, log = self._replica.broker, self._replica.log
        if not broker.is_alive or broker.defers(self._on_look, None):
            return
        dirty = log.active_from - log.cleaned_to
        if dirty > 0 and dirty >= LEAST_DIRTY_SHARE * (dirty + log.cleaned_count):
            # No run lasts as long as delete.retention.ms, which is a day.
            self._replica.compact(log.active_from, drops_tombstones=False)
