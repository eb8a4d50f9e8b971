"""One partition at one client, as ``flows.py`` lets it flow."""

from __future__ import annotations

from collections import deque
from dataclasses import KW_ONLY, dataclass, field
from typing import Protocol

from rebalance_sim.protocol.wire.topics import TopicPartition
from rebalance_sim.sim.data_plane.poll_clock import PARTS

PARTS_PER_MS = PARTS // 1_000
"""What a rate of one record per second brings in each millisecond."""


@dataclass(slots=True, eq=False)
class Flow:
    """One partition at one client. Read-only outside of ``Flows``.

    ``rate`` is what its log grows by in each millisecond, from ``origin_ms`` on; one that does not
    has ``base``, and ``steps`` say when fetches bring how much in all. ``position``:
    everything below has been processed; ``fetched``: everything below has been in the buffer.
    ``opens_ms``: from when on fetches bring anything; None while nothing is fetched. ``slowness``:
    how many times as long as others of the process its fetches take. ``is_served``:
    a ``poll`` has handed out its first record. ``limit``: from here on nothing is processed; None:
    everything is. ``is_met``: the application has come to the record there. ``handed_out``, of an
    application with workers: everything below is with them. The rest belongs to the present lines:
    ``gap`` is what the log has for the fetch of their first millisecond, below 0 while it lags
    behind. All but times in parts of a record.
    """

    partition: TopicPartition
    _: KW_ONLY
    rate: int
    origin_ms: int
    position: int
    fetched: int = field(init=False)
    opens_ms: int | None = None
    slowness: int = 1
    is_served: bool = False
    limit: int | None = None
    is_met: bool = False
    handed_out: int = field(init=False)
    base: int = 0
    steps: deque[tuple[int, int]] | None = None
    takes_part: bool = False
    end: int | None = None
    buffered: int = 0
    gap: int = 0
    incoming: int = 0
    outgoing: int = 0

    def __post_init__(self) -> None:
        self.fetched = self.handed_out = self.position

    @property
    def offer(self) -> int:
        """What may be processed of it in the next millisecond, at most."""
        present = self.buffered + self.incoming
        return present if self.end is None else min(present, self.end - self.position)

    @property
    def is_at_end(self) -> bool:
        """Whether nothing more of it is for the application, though more is there."""
        return self.end is not None and self.fetched >= self.end

    def copy(self) -> Flow:
        """Another flow that stands where this one does."""
        copy = Flow(
            self.partition, rate=self.rate, origin_ms=self.origin_ms, position=self.position
        )
        copy.fetched = self.fetched
        copy.opens_ms = self.opens_ms
        copy.slowness = self.slowness
        copy.is_served = self.is_served
        copy.limit = self.limit
        copy.is_met = self.is_met
        copy.handed_out = self.handed_out
        copy.base = self.base
        copy.steps = None if self.steps is None else self.steps.copy()
        return copy


class FlowWatcher(Protocol):
    """Records what flows."""

    def on_moved(self, flow: Flow, from_ms: int, to_ms: int, position: int) -> None:
        """A flow has gone along a line; ``position`` is where it was at ``from_ms``."""

    def on_first_record(self, flow: Flow, at_ms: int) -> None:
        """A ``poll`` has handed out the first record of a flow."""
