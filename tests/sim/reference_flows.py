"""Flows as they are defined, one millisecond after the other: what ``sim.data_plane.flows`` is held
against.

Nothing here is shared with it but the unit in which records are counted.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

from rebalance_sim.sim.data_plane.poll_clock import PARTS


@dataclass
class NaiveFlow:
    """One partition; the fields are those of ``sim.data_plane.flows.Flow``."""

    rate: int
    origin_ms: int
    position: int
    fetched: int = 0
    opens_ms: int | None = None
    is_served: bool = False
    limit: int | None = None
    handed_out: int = 0
    first_records_ms: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.fetched = self.handed_out = self.position


class NaiveFlows:
    """Every millisecond by itself; ``batches`` are (time of the poll, ms that it keeps)."""

    def __init__(
        self,
        *,
        fetch_records: int,
        latency_ms: int,
        capacity: int | None,
        batch_records: int | None = None,
        interval_ms: int = 1,
        phase_ms: int = 0,
        in_flight: int | None = None,
    ) -> None:
        self.now_ms = 0
        self.flows: list[NaiveFlow] = []
        self.in_flight = None if in_flight is None else in_flight * PARTS
        self.fetch = fetch_records * PARTS
        self.room = self.fetch + (self.in_flight or 0)
        self.latency_ms = latency_ms
        self.capacity = capacity
        self.batch_records = batch_records
        self.interval_ms = interval_ms
        self.phase_ms = phase_ms
        self.is_serving = False
        self.is_frozen = False
        self.next_poll_ms = 0
        self.rest_ms = 0
        self.batches: list[tuple[int, int]] = []

    def run(self, until_ms: int) -> None:
        """Go there in steps of a millisecond."""
        while self.now_ms < until_ms:
            if self.is_frozen:
                self.next_poll_ms += 1
            else:
                self._step()
            self.now_ms += 1

    def _step(self) -> None:
        now_ms = self.now_ms
        buffered = sum(min(flow.fetched, self._end(flow)) - flow.position for flow in self.flows)
        is_poll = self.batch_records is None or (self.is_serving and self.next_poll_ms == now_ms)
        if is_poll and self.is_serving:
            for flow in self.flows:
                if not flow.is_served and flow.fetched - flow.position >= PARTS:
                    flow.is_served = True
                    flow.first_records_ms.append(now_ms)
        fetched = [self._fetched_now(flow) for flow in self.flows]
        is_fed = False
        for flow, count in zip(self.flows, fetched, strict=True):
            is_fed = is_fed or (count > 0 and flow.fetched < self._end(flow))
            flow.fetched += count
        if self.is_serving or self.in_flight is not None:
            self._process()
        if self.is_serving:
            for flow in self.flows:
                if self.in_flight is not None:
                    most = min(flow.fetched, flow.position + self.in_flight)
                    flow.handed_out = max(flow.handed_out, most)
            if self.batch_records is not None and is_poll:
                if buffered < PARTS and not is_fed:
                    self.next_poll_ms = now_ms + 1  # A poll that has nothing to hand out waits.
                else:
                    self._plan_poll(buffered)

    def _fetched_now(self, flow: NaiveFlow) -> int:
        if flow.opens_ms is None or self.now_ms < flow.opens_ms:
            return 0
        end = flow.rate * (self.now_ms + 1 - self.latency_ms - flow.origin_ms)
        room = self.room - (flow.fetched - flow.position)
        return max(0, min(end - flow.fetched, self.fetch // self.latency_ms, room))

    def _process(self) -> None:
        """Deal out the millisecond: who wants no more than an equal share gets what it wants,
        and the others share the rest."""
        left = self.capacity
        waiting = [flow for flow in self.flows if flow.is_served]
        while waiting:
            least = min(waiting, key=self._want)
            want = self._want(least)
            if left is not None and Fraction(left, len(waiting)) < want:
                for flow in waiting:
                    flow.position += left // len(waiting)
                return
            least.position += want
            left = None if left is None else left - want
            waiting.remove(least)

    def _end(self, flow: NaiveFlow) -> int:
        """Up to where a flow is processed: to its limit, and by workers of an application that is
        not in ``poll``, to what they have been handed."""
        end = 1 << 62 if flow.limit is None else flow.limit
        if self.in_flight is not None and not self.is_serving:
            end = min(end, flow.handed_out)
        return max(end, flow.position)

    def _want(self, flow: NaiveFlow) -> int:
        return min(flow.fetched, self._end(flow)) - flow.position

    def is_at_limit(self) -> bool:
        """Whether the next record of some flow is the one at its limit, and is there."""
        for flow in self.flows:
            there = flow.fetched
            if self.in_flight is not None and not self.is_serving:
                there = min(there, flow.handed_out)
            if flow.limit is None or not flow.is_served or flow.position < flow.limit:
                continue
            if there >= flow.limit + PARTS:
                return True
        return False

    def _plan_poll(self, buffered: int) -> None:
        assert self.batch_records is not None
        assert self.capacity is not None
        records = min(self.batch_records, buffered // PARTS)
        lasts_ms = -(-records * PARTS // self.capacity)
        self.batches.append((self.now_ms, lasts_ms))
        if lasts_ms > self.interval_ms:
            self.next_poll_ms = self.now_ms + lasts_ms
            return
        at_ms = self.now_ms + 1
        while (at_ms - self.phase_ms) % self.interval_ms:
            at_ms += 1
        self.next_poll_ms = at_ms

    def open(self, index: int) -> None:
        """As ``Flows.open``."""
        flow = self.flows[index]
        flow.opens_ms = self.now_ms + self.latency_ms
        flow.is_served = flow.is_served and flow.fetched - flow.position >= PARTS

    def set_serving(self, is_serving: bool) -> None:
        """As ``Flows.set_serving``."""
        if is_serving is self.is_serving:
            return
        self.is_serving = is_serving
        if is_serving:
            self.next_poll_ms = self.now_ms + self.rest_ms
        else:
            self.rest_ms = max(0, self.next_poll_ms - self.now_ms)
