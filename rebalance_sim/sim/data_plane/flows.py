"""How records flow through one client: out of the logs, into its buffer, through its application.

Time goes in whole milliseconds. In each of them a partition is first fetched from: what its log
has, at most what a fetch may bring, and what the buffer has room for. Then the application
processes as much as its rate allows, in equal shares; what one partition leaves of its share goes
to the others (max-min fair). Nothing is done for each millisecond, though: while all shares stay
the same everything moves along straight lines, and only where a line ends are new ones drawn.
Sources: client §8; a fluid in place of single fetches and batches is our own.

All is counted in whole parts of a record, so a stretch of time may be cut anywhere, and gives the
same. ``tests/sim/test_flows.py`` holds this against one that does go millisecond by millisecond,
and against one that handles every record, fetch and batch by itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass, field
from typing import Protocol

from rebalance_sim.protocol.wire.topics import TopicPartition
from rebalance_sim.sim.data_plane.poll_clock import PARTS, PollClock

PARTS_PER_MS = PARTS // 1_000
"""What a rate of one record per second brings in each millisecond."""

_NEVER = 1 << 62


@dataclass(slots=True, eq=False)
class Flow:
    """One partition at one client. Read-only outside of ``Flows``.

    ``rate`` is what its log grows by in each millisecond, from ``origin_ms`` on. ``position``:
    everything below has been processed; ``fetched``: everything below has been in the buffer.
    ``opens_ms``: from when on fetches bring anything; None while nothing is fetched. ``slowness``:
    how many times as long as others of the process its fetches take. ``is_served``:
    a ``poll`` has handed out its first record. The rest belongs to the present lines. All but times
    in parts of a record.
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
    takes_part: bool = False
    buffered: int = 0
    incoming: int = 0
    outgoing: int = 0

    def __post_init__(self) -> None:
        self.fetched = self.position

    def copy(self) -> Flow:
        """Another flow that stands where this one does."""
        twin = Flow(
            self.partition, rate=self.rate, origin_ms=self.origin_ms, position=self.position
        )
        twin.fetched = self.fetched
        twin.opens_ms = self.opens_ms
        twin.slowness = self.slowness
        twin.is_served = self.is_served
        return twin


class FlowWatcher(Protocol):
    """Records what flows."""

    def on_moved(self, flow: Flow, from_ms: int, to_ms: int, position: int) -> None:
        """A flow has gone along a line; ``position`` is where it was at ``from_ms``."""

    def on_first_record(self, flow: Flow, at_ms: int) -> None:
        """A ``poll`` has handed out the first record of a flow."""


class _Nobody:
    def on_moved(self, flow: Flow, from_ms: int, to_ms: int, position: int) -> None:
        pass

    def on_first_record(self, flow: Flow, at_ms: int) -> None:
        pass


class Flows:
    """All flows of one client process.

    ``fetch_records`` bounds one fetch of a partition, which takes ``latency_ms``, and so what is
    buffered of it; ``capacity`` is what the application processes in each millisecond (None:
    whatever comes). ``polls`` is the clock of an application that batches may keep. Everything is
    as of ``roll``, which has to come before any change.
    """

    def __init__(
        self,
        *,
        fetch_records: int,
        latency_ms: int,
        capacity: int | None,
        polls: PollClock | None,
        watcher: FlowWatcher,
        now_ms: int,
    ) -> None:
        self._flows: list[Flow] = []
        self._room = fetch_records * PARTS
        self._latency_ms = latency_ms
        self._capacity = capacity
        self._polls = polls
        self._watcher = watcher
        self._is_serving = False
        self._is_frozen = False
        self._frozen_ms = 0
        self._rest_ms = 0
        """What a batch was still to take when the application was kept from it."""
        self._since_ms = now_ms
        self._until_ms = now_ms
        self._buffered = 0
        self._growth = 0
        self._is_fed = False
        self.line_count = 0  # how often new lines were drawn: what all of this costs

    # --- reading ----------------------------------------------------------------------------------

    def processed(self, flow: Flow, at_ms: int) -> int:
        """Offset behind the last whole record that is processed; not before the last ``roll``."""
        return (flow.position + flow.outgoing * (at_ms - self._since_ms)) // PARTS

    def fetched(self, flow: Flow, at_ms: int) -> int:
        """Offset behind the last whole record that was fetched; not before the last ``roll``."""
        return (flow.fetched + flow.incoming * (at_ms - self._since_ms)) // PARTS

    def handed_out(self, at_ms: int) -> dict[Flow, int]:
        """For each flow the offset behind the last record that a ``poll`` has handed out.

        That is what is processed, and in the middle of a batch what will be when that ends.
        """
        self.roll(at_ms)
        end_ms = at_ms if self._polls is None else self._polls.next_ms
        if end_ms <= at_ms or not self._is_serving or self._is_frozen:
            span_ms, flows = at_ms - self._since_ms, self._flows
            return {flow: (flow.position + flow.outgoing * span_ms) // PARTS for flow in flows}
        future = self._future(at_ms)
        future.roll(end_ms)
        return {
            flow: min(self.fetched(flow, at_ms), future.processed(twin, end_ms))
            for flow, twin in zip(self._flows, future._flows, strict=True)
        }

    def next_poll_ms(self, at_ms: int) -> int:
        """When the application is back at ``poll``, at ``at_ms`` or later."""
        if self._polls is None:
            return at_ms
        self.roll(at_ms)
        return max(at_ms, self._polls.next_ms)

    def batch_ms(self, at_ms: int) -> int:
        """How long the batch lasts that a ``poll`` at ``at_ms`` hands out."""
        if self._polls is None or not self._is_serving:
            return 0
        self.roll(at_ms)
        return self._polls.batch_ms(self._buffered + self._growth * (at_ms - self._since_ms))

    def has_records(self, at_ms: int) -> bool:
        """Whether a ``poll`` hands out records: some are buffered, or come in."""
        self.roll(at_ms)
        buffered = self._buffered + self._growth * (at_ms - self._since_ms)
        return buffered >= PARTS or self._is_fed

    @property
    def longest_batch_ms(self) -> int:
        """The longest batch so far; 0 for an application that none has kept for long."""
        return 0 if self._polls is None else self._polls.longest_ms

    # --- time -------------------------------------------------------------------------------------

    def roll(self, to_ms: int) -> None:
        """Let everything flow until ``to_ms``."""
        while True:
            if self._until_ms <= self._since_ms:
                self._draw_lines()
            if to_ms < self._until_ms:
                if self._polls is not None:
                    self._pass_polls(to_ms)
                return
            self._pass_polls(self._until_ms)
            self._settle(self._until_ms)

    def settle(self, to_ms: int) -> None:
        """``roll``, and report everything to the watcher up to ``to_ms``."""
        self.roll(to_ms)
        self._settle(to_ms)

    def first_long_batch_ms(self, limit_ms: int, now_ms: int, horizon_ms: int) -> int | None:
        """The first ``poll`` from ``now_ms`` on whose batch lasts at least ``limit_ms``, if nothing
        else changes; None if there is none before ``horizon_ms``."""
        if self._polls is None or not self._is_serving or self._is_frozen:
            return None
        return self._future(now_ms)._find_long_batch(limit_ms, horizon_ms)

    def _future(self, now_ms: int) -> Flows:
        """What becomes of all this if nothing else happens. The batch in hand stays in hand."""
        self.settle(now_ms)
        future = Flows(
            fetch_records=self._room // PARTS,
            latency_ms=self._latency_ms,
            capacity=self._capacity,
            polls=None if self._polls is None else self._polls.copy(),
            watcher=_Nobody(),
            now_ms=now_ms,
        )
        future._flows = [flow.copy() for flow in self._flows]
        future._is_serving = self._is_serving
        return future

    def _find_long_batch(self, limit_ms: int, horizon_ms: int) -> int | None:
        polls = self._polls
        assert polls is not None
        while self._since_ms < horizon_ms:
            self._draw_lines()
            until_ms = min(self._until_ms, horizon_ms)
            if self._pass_polls(until_ms, limit_ms):
                return polls.next_ms
            self._settle(until_ms)
        return None

    def _pass_polls(self, until_ms: int, limit_ms: int | None = None) -> bool:
        if self._polls is None or not self._is_serving or self._is_frozen:
            return False
        if self._buffered < PARTS and not self._is_fed:
            # A ``poll`` that has nothing to hand out waits.
            self._polls.next_ms = max(self._polls.next_ms, until_ms)
            return False
        return self._polls.run(
            until_ms,
            since_ms=self._since_ms,
            buffered=self._buffered,
            growth=self._growth,
            limit_ms=limit_ms,
        )

    def _settle(self, to_ms: int) -> None:
        from_ms = self._since_ms
        span_ms = to_ms - from_ms
        if span_ms == 0:
            return
        for flow in self._flows:
            before = flow.position
            flow.position += flow.outgoing * span_ms
            flow.fetched += flow.incoming * span_ms
            if flow.takes_part and not flow.is_served:
                flow.is_served = True
                self._watcher.on_first_record(flow, from_ms)
            self._watcher.on_moved(flow, from_ms, to_ms, before)
        self._buffered += self._growth * span_ms
        self._since_ms = to_ms

    def _change(self, now_ms: int) -> None:
        if self._until_ms > self._since_ms or self._since_ms < now_ms:
            self.settle(now_ms)
            self._until_ms = now_ms

    # --- changes ----------------------------------------------------------------------------------

    def add(self, flow: Flow, now_ms: int) -> None:
        """A partition has a position, and may be handed out."""
        self._change(now_ms)
        self._flows.append(flow)

    def remove(self, flow: Flow, now_ms: int) -> None:
        """A partition is gone, with what is buffered of it."""
        self._change(now_ms)
        self._flows.remove(flow)

    def open(self, flow: Flow, now_ms: int) -> None:
        """Begin to fetch. What comes is handed out by a later ``poll``."""
        self._change(now_ms)
        flow.opens_ms = now_ms + self._fetch_ms(flow)
        flow.is_served = flow.is_served and flow.fetched - flow.position >= PARTS

    def close(self, flow: Flow, now_ms: int) -> None:
        """Fetch no more; what is buffered stays."""
        self._change(now_ms)
        flow.opens_ms = None

    def cut(self, flow: Flow, end_offset: int, now_ms: int) -> None:
        """Hand out no more: what is buffered is dropped, but for what the application has got."""
        self._change(now_ms)
        flow.opens_ms = None
        flow.fetched = max(flow.position, end_offset * PARTS)

    def set_latency(self, latency_ms: int, now_ms: int) -> None:
        """The network is slower, or faster, than before."""
        if latency_ms != self._latency_ms:
            self._change(now_ms)
            self._latency_ms = latency_ms

    def set_slowness(self, flow: Flow, slowness: int, now_ms: int) -> None:
        """The way to the leader of a partition is slower, or faster, than before."""
        if slowness != flow.slowness:
            self._change(now_ms)
            flow.slowness = slowness

    def set_serving(self, is_serving: bool, now_ms: int) -> None:
        """The application goes back to its records, inside a ``poll`` or to the rest of the batch
        in hand, or is kept from them."""
        if is_serving is self._is_serving:
            return
        self._change(now_ms)
        self._is_serving = is_serving
        if self._polls is None:
            return
        if is_serving:
            self._polls.next_ms = now_ms + self._rest_ms
        else:
            self._rest_ms = max(0, self._polls.next_ms - now_ms)

    def freeze(self, now_ms: int) -> None:
        """The process does not run."""
        self._change(now_ms)
        self._is_frozen = True
        self._frozen_ms = now_ms

    def thaw(self, now_ms: int) -> None:
        """The process runs again; the batch in hand ends later by as much."""
        self._change(now_ms)
        self._is_frozen = False
        if self._polls is not None:
            self._polls.next_ms += now_ms - self._frozen_ms

    # --- lines ------------------------------------------------------------------------------------

    def _draw_lines(self) -> None:
        """What each flow takes in and gives out from now on, and for how long that lasts."""
        now_ms = self._since_ms
        self.line_count += 1
        if self._is_frozen:
            for flow in self._flows:
                flow.incoming = flow.outgoing = 0
                flow.takes_part = False
            self._buffered = self._growth = 0
            self._is_fed = False
            self._until_ms = _NEVER
            return
        last = _NEVER
        total = 0
        for flow in self._flows:
            flow.buffered = flow.fetched - flow.position
            last = min(last, self._take_in(flow, now_ms))
            flow.outgoing = 0
            flow.takes_part = False
            if self._is_serving:
                last = min(last, self._admit(flow, now_ms))
                if flow.takes_part:
                    total += flow.buffered + flow.incoming
        level = self._share_out(total) if self._is_serving else None
        self._buffered = self._growth = 0
        for flow in self._flows:
            last = min(last, self._lasts(flow, level, now_ms))
            self._buffered += flow.buffered
            self._growth += flow.incoming - flow.outgoing
        self._is_fed = any(flow.incoming for flow in self._flows)
        self._until_ms = now_ms + last

    def _gap(self, flow: Flow, now_ms: int) -> int:
        """What the log has for the fetch of this millisecond; below 0 while it lags behind."""
        return flow.rate * (now_ms + 1 - self._fetch_ms(flow) - flow.origin_ms) - flow.fetched

    def _fetch_ms(self, flow: Flow) -> int:
        return self._latency_ms * flow.slowness

    def _take_in(self, flow: Flow, now_ms: int) -> int:
        """Say what comes in; for how many milliseconds nothing does, if nothing does."""
        flow.incoming = 0
        if flow.opens_ms is None:
            return _NEVER
        if now_ms < flow.opens_ms:
            return flow.opens_ms - now_ms
        gap = self._gap(flow, now_ms)
        if gap <= 0:
            return -gap // flow.rate + 1 if flow.rate else _NEVER
        flow.incoming = min(gap, self._room // self._fetch_ms(flow), self._room - flow.buffered)
        return _NEVER

    def _admit(self, flow: Flow, now_ms: int) -> int:
        """Let a ``poll`` hand out a flow's first record; how long until that may happen."""
        flow.takes_part = flow.is_served
        if flow.is_served:
            return _NEVER
        if flow.buffered < PARTS:
            missing = PARTS - flow.buffered
            return -(-missing // flow.incoming) if flow.incoming else _NEVER
        next_ms = now_ms if self._polls is None else self._polls.next_ms
        if next_ms > now_ms:
            return next_ms - now_ms
        flow.takes_part = True
        return _NEVER

    def _share_out(self, total: int) -> int | None:
        """Give out what is processed; the largest share if there is not enough for all."""
        capacity = self._capacity
        if capacity is None or total <= capacity:
            for flow in self._flows:
                if flow.takes_part:
                    flow.outgoing = flow.buffered + flow.incoming
            return None
        served = [flow for flow in self._flows if flow.takes_part]
        level = _level(sorted(flow.buffered + flow.incoming for flow in served), capacity)
        for flow in served:
            flow.outgoing = min(level, flow.buffered + flow.incoming)
        return level

    def _lasts(self, flow: Flow, level: int | None, now_ms: int) -> int:
        """For how many milliseconds a flow takes in and gives out exactly this."""
        incoming, outgoing = flow.incoming, flow.outgoing
        last = _NEVER
        if flow.opens_ms is not None and now_ms >= flow.opens_ms:
            gap = self._gap(flow, now_ms)
            if gap > 0:
                room = self._room - flow.buffered
                is_fetch_full = incoming == self._room // self._fetch_ms(flow)
                is_log_end = incoming == gap == flow.rate
                is_buffer_full = incoming == room == outgoing
                if not (is_fetch_full or is_log_end or is_buffer_full):
                    return 1
                if incoming > flow.rate:
                    last = (gap - incoming) // (incoming - flow.rate) + 1
                if incoming > outgoing:
                    last = min(last, (room - incoming) // (incoming - outgoing) + 1)
        if flow.takes_part and self._is_serving:
            if level is not None and outgoing == level:
                if outgoing > incoming:
                    spare = flow.buffered + incoming - level
                    last = min(last, spare // (outgoing - incoming) + 1)
            elif flow.buffered:
                return 1
        return last


def _level(wanted: Iterable[int], capacity: int) -> int:
    """The share that nobody exceeds; ``wanted`` in ascending order, more than there is."""
    wanted = list(wanted)
    count = len(wanted)
    for want in wanted:
        if want * count > capacity:
            break
        capacity -= want
        count -= 1
    return capacity // count
