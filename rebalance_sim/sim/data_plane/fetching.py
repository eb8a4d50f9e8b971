"""What fetches bring to one client in a millisecond, and how what it processes is shared out.

Source: client §8. All in parts of a record (``poll_clock.PARTS``), as in ``flows.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rebalance_sim.sim.data_plane.flow import Flow
from rebalance_sim.sim.data_plane.poll_clock import PARTS

NEVER_MS = 1 << 62


@dataclass(slots=True, eq=False)
class Fetching:
    """``fetch``: what one fetch of a partition brings at most; ``room``: what is buffered of it at
    most; ``latency_ms``: how long a fetch takes."""

    fetch: int
    room: int
    latency_ms: int

    def takes_ms(self, flow: Flow) -> int:
        """How long a fetch of this partition takes."""
        return self.latency_ms * flow.slowness

    def take_in(self, flow: Flow, now_ms: int) -> int:
        """Say what comes in; for how many milliseconds nothing does, if nothing does, or until
        there is more."""
        steps = flow.steps
        if steps is None:
            return self._take_in(flow, now_ms)
        while steps and steps[0][0] <= now_ms:
            flow.base = steps.popleft()[1]
        until_ms = steps[0][0] - now_ms if steps else NEVER_MS
        return min(until_ms, self._take_in(flow, now_ms))

    def _take_in(self, flow: Flow, now_ms: int) -> int:
        flow.incoming = flow.gap = 0
        if flow.opens_ms is None:
            return NEVER_MS
        if now_ms < flow.opens_ms:
            return flow.opens_ms - now_ms
        takes_ms = self.takes_ms(flow)
        grown_ms = now_ms + 1 - takes_ms - flow.origin_ms
        gap = flow.gap = flow.rate * grown_ms + flow.base - flow.fetched
        if gap <= 0:
            return -gap // flow.rate + 1 if flow.rate else NEVER_MS
        flow.incoming = min(gap, self.fetch // takes_ms, self.room - flow.buffered)
        return NEVER_MS

    def lasts_ms(self, flow: Flow) -> int:
        """For how many milliseconds exactly this comes in, while as much goes out as now."""
        incoming, outgoing, gap = flow.incoming, flow.outgoing, flow.gap
        last = NEVER_MS
        if gap > 0:
            room = self.room - flow.buffered
            is_fetch_full = incoming == self.fetch // self.takes_ms(flow)
            is_log_end = incoming == gap == flow.rate
            is_buffer_full = incoming == room == outgoing
            if not (is_fetch_full or is_log_end or is_buffer_full):
                return 1
            if incoming > flow.rate:
                last = (gap - incoming) // (incoming - flow.rate) + 1
            if incoming > outgoing:
                last = min(last, (room - incoming) // (incoming - outgoing) + 1)
        if flow.end is not None and incoming:
            last = min(last, _before_limit_ms(flow, flow.end))
        return last


def _before_limit_ms(flow: Flow, end: int) -> int:
    """For how long what is fetched ends before, or right at, a limit."""
    for mark in (end, end + PARTS):
        if flow.fetched < mark:
            return -(-(mark - flow.fetched) // flow.incoming)
    return NEVER_MS


def share_out(served: Sequence[Flow], total: int, capacity: int | None) -> int | None:
    """Give out what is processed in equal shares; the largest share if there is not enough for
    all. ``total``: what all of them offer."""
    if capacity is None or total <= capacity:
        for flow in served:
            flow.outgoing = flow.offer
        return None
    level = _level(sorted(flow.offer for flow in served), capacity)
    for flow in served:
        flow.outgoing = min(level, flow.offer)
    return level


def _level(wanted: Sequence[int], capacity: int) -> int:
    """The share that no one exceeds; ``wanted`` in ascending order, more than there is."""
    count = len(wanted)
    for want in wanted:
        if want * count > capacity:
            break
        capacity -= want
        count -= 1
    return capacity // count
