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

from rebalance_sim.protocol.wire.topics import TopicPartition
from rebalance_sim.sim.data_plane.fetching import NEVER_MS, Fetching, share_out
from rebalance_sim.sim.data_plane.flow import Flow, FlowWatcher
from rebalance_sim.sim.data_plane.poll_clock import PARTS, PollClock


class _Unwatched:
    def on_moved(self, flow: Flow, from_ms: int, to_ms: int, position: int) -> None:
        pass

    def on_first_record(self, flow: Flow, at_ms: int) -> None:
        pass


class Flows:
    """All flows of one client process.

    ``fetch_records`` bounds one fetch of a partition, which takes ``latency_ms``, and so what is
    buffered of it; ``capacity`` is what the application processes in each millisecond (None:
    whatever comes). ``polls`` is the clock of an application that batches may keep. ``in_flight``:
    workers process what a ``poll`` has handed out, at most so many records of each partition at a
    time, whatever the application does meanwhile; None: it processes them itself. Everything is as
    of ``roll``, which has to come before any change.
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
        in_flight: int | None = None,
    ) -> None:
        self._flows: list[Flow] = []
        self._in_flight = None if in_flight is None else in_flight * PARTS
        fetch = fetch_records * PARTS
        self._fetching = Fetching(fetch, fetch + (self._in_flight or 0), latency_ms)
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
        if self._in_flight is not None:
            return {flow: self._with_workers(flow, at_ms) // PARTS for flow in self._flows}
        end_ms = at_ms if self._polls is None else self._polls.next_ms
        if end_ms <= at_ms or not self._is_serving or self._is_frozen:
            span_ms, flows = at_ms - self._since_ms, self._flows
            return {flow: (flow.position + flow.outgoing * span_ms) // PARTS for flow in flows}
        future = self._future(at_ms)
        future.roll(end_ms)
        return {
            flow: min(self.fetched(flow, at_ms), future.processed(later, end_ms))
            for flow, later in zip(self._flows, future._flows, strict=True)
        }

    def _with_workers(self, flow: Flow, at_ms: int) -> int:
        """What they have been handed; no more while the application is not in ``poll``."""
        if not self._is_serving or self._is_frozen or self._in_flight is None:
            return flow.handed_out
        span_ms = at_ms - self._since_ms
        fetched = flow.fetched + flow.incoming * span_ms
        room = flow.position + flow.outgoing * span_ms + self._in_flight
        return max(flow.handed_out, min(fetched, room))

    def drained_ms(self, partitions: frozenset[TopicPartition], now_ms: int, until_ms: int) -> int:
        """When workers are done with what they were handed of these partitions, if that is no
        later than ``until_ms``, and else that."""
        future = self._future(now_ms)
        flows = [flow for flow in future._flows if flow.partition in partitions]
        while future._since_ms < until_ms and any(f.position < f.handed_out for f in flows):
            future._draw_lines()
            future._settle(min(future._until_ms, until_ms))
        return min(future._since_ms, until_ms)

    def first_at_limit_ms(self, now_ms: int, horizon_ms: int) -> int | None:
        """When the application first comes to the record at a limit, if nothing else changes; None
        if it does not before ``horizon_ms``."""
        if self._is_frozen or all(f.limit is None or f.is_met for f in self._flows):
            return None
        if not self._works:
            return None
        future = self._future(now_ms)
        while not future.at_limit():
            if future._since_ms >= horizon_ms:
                return None
            future._draw_lines()
            until_ms = min(future._until_ms, horizon_ms)
            future._pass_polls(until_ms)
            future._settle(until_ms)
        return future._since_ms

    def at_limit(self) -> list[Flow]:
        """The flows whose next record is the one at their limit, and is there."""
        return [
            flow
            for flow in self._flows
            if flow.limit is not None and not flow.is_met
            and flow.is_served and flow.position >= flow.limit
            and min(flow.fetched, self._end_of_work(flow)) >= flow.limit + PARTS
        ]  # fmt: skip

    def _end_of_work(self, flow: Flow) -> int:
        is_kept = self._in_flight is not None and not self._is_serving
        return flow.handed_out if is_kept else NEVER_MS

    @property
    def _works(self) -> bool:
        """Whether anything is processed: by the application in ``poll``, or by its workers."""
        return self._is_serving or self._in_flight is not None

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
            fetch_records=self._fetching.fetch // PARTS,
            latency_ms=self._fetching.latency_ms,
            capacity=self._capacity,
            polls=None if self._polls is None else self._polls.copy(),
            watcher=_Unwatched(),
            now_ms=now_ms,
            in_flight=None if self._in_flight is None else self._in_flight // PARTS,
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
        polls = self._polls
        if polls is None or not self._is_serving or self._is_frozen or polls.next_ms >= until_ms:
            return False
        end_ms = min(until_ms, self._empty_ms)
        if end_ms > self._since_ms and polls.run(
            end_ms,
            since_ms=self._since_ms,
            buffered=self._buffered,
            growth=self._growth,
            limit_ms=limit_ms,
        ):
            return True
        if end_ms < until_ms:  # A ``poll`` that has nothing to hand out waits.
            polls.next_ms = max(polls.next_ms, until_ms)
        return False

    @property
    def _empty_ms(self) -> int:
        """When less than a record is buffered, and nothing comes in, if lines go on."""
        if self._is_fed:
            return NEVER_MS
        if self._buffered < PARTS:
            return self._since_ms
        if not self._growth:
            return NEVER_MS
        return self._since_ms + (self._buffered - PARTS) // -self._growth + 1

    def _settle(self, to_ms: int) -> None:
        from_ms = self._since_ms
        span_ms = to_ms - from_ms
        if span_ms == 0:
            return
        for flow in self._flows:
            if self._in_flight is not None:
                flow.handed_out = self._with_workers(flow, to_ms)
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
        flow.opens_ms = now_ms + self._fetching.takes_ms(flow)
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
        flow.handed_out = min(flow.handed_out, flow.fetched)

    def extend(self, flow: Flow, base: int, now_ms: int) -> None:
        """A log that grows in steps has so much now; fetches bring it."""
        self._change(now_ms)
        assert flow.steps is not None
        at_ms = now_ms + self._fetching.takes_ms(flow)
        last_ms = flow.steps[-1][0] if flow.steps else at_ms
        flow.steps.append((max(at_ms, last_ms), base))

    def set_limit(self, flow: Flow, limit: int | None, now_ms: int) -> None:
        """From this offset on nothing is processed; None: everything is again."""
        self._change(now_ms)
        flow.limit = None if limit is None else limit * PARTS
        flow.is_met = False

    def finish(self, flow: Flow, now_ms: int) -> int:
        """Workers process what they have of it after all; how many records that are."""
        self._change(now_ms)
        before = flow.position
        flow.position = max(before, flow.handed_out)
        return flow.position // PARTS - before // PARTS

    def set_latency(self, latency_ms: int, now_ms: int) -> None:
        """The network is slower, or faster, than before."""
        if latency_ms != self._fetching.latency_ms:
            self._change(now_ms)
            self._fetching.latency_ms = latency_ms

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
            self._until_ms = NEVER_MS
            return
        last = NEVER_MS
        total = 0
        for flow in self._flows:
            flow.buffered = flow.fetched - flow.position
            lasts = self._fetching.take_in(flow, now_ms)
            if lasts < last:  # ``min`` takes several times as long.
                last = lasts
            flow.outgoing = 0
            flow.end = self._end_of(flow)
            flow.takes_part = False
            if self._is_serving:
                lasts = self._admit(flow, now_ms)
                if lasts < last:
                    last = lasts
            elif self._works:
                flow.takes_part = flow.is_served
            if flow.takes_part:
                total += flow.offer
        level = None
        if self._works:
            level = share_out([f for f in self._flows if f.takes_part], total, self._capacity)
        self._buffered = self._growth = 0
        self._is_fed = False
        for flow in self._flows:
            lasts = self._lasts(flow, level)
            if lasts < last:
                last = lasts
            if flow.end is not None and flow.is_at_end:
                self._buffered += flow.end - flow.position
                self._growth -= flow.outgoing
            else:
                self._buffered += flow.buffered
                self._growth += flow.incoming - flow.outgoing
                self._is_fed = self._is_fed or flow.incoming > 0
        self._until_ms = now_ms + last

    def _end_of(self, flow: Flow) -> int | None:
        """Up to where a flow is processed, if there is a limit to that at present."""
        ends = [] if flow.limit is None else [flow.limit]
        if self._in_flight is not None and not self._is_serving:
            ends.append(flow.handed_out)
        return max(flow.position, min(ends)) if ends else None

    def _admit(self, flow: Flow, now_ms: int) -> int:
        """Let a ``poll`` hand out a flow's first record; how long until that may happen."""
        flow.takes_part = flow.is_served
        if flow.is_served:
            return NEVER_MS
        if flow.buffered < PARTS:
            missing = PARTS - flow.buffered
            return -(-missing // flow.incoming) if flow.incoming else NEVER_MS
        next_ms = now_ms if self._polls is None else self._polls.next_ms
        if next_ms > now_ms:
            return next_ms - now_ms
        flow.takes_part = True
        return NEVER_MS

    def _lasts(self, flow: Flow, level: int | None) -> int:
        """For how many milliseconds a flow takes in and gives out exactly this."""
        incoming, outgoing = flow.incoming, flow.outgoing
        last = self._fetching.lasts_ms(flow)
        if flow.takes_part:
            if flow.end is not None:
                if not outgoing:
                    return last
                left = flow.end - flow.position
                last = min(last, left // outgoing)
                if left <= flow.buffered + incoming:
                    return last
            if level is not None and outgoing == level:
                if outgoing > incoming:
                    spare = flow.buffered + incoming - level
                    last = min(last, spare // (outgoing - incoming) + 1)
            elif flow.buffered:
                return 1
        return last
