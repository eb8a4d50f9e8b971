"""What one client process takes in: partitions it fetches, its buffer, and the batch in hand.

Source: client §8. A partition flows from when it has a position and may be handed out; it is
fetched while it is fetchable and its leader can be reached. What is buffered of one that may not be
handed out any more is dropped, but for what the application has got already.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from rebalance_sim.protocol.clients.common.values import PartitionState
from rebalance_sim.protocol.wire.topics import TopicPartition
from rebalance_sim.sim.broker.output_log import OutputLog
from rebalance_sim.sim.data_plane.fetch_ports import FetchingProcess, FetchSettings, Plane
from rebalance_sim.sim.data_plane.flow import PARTS_PER_MS, Flow
from rebalance_sim.sim.data_plane.flows import Flows
from rebalance_sim.sim.data_plane.poison_pills import PoisonPillSpec
from rebalance_sim.sim.data_plane.poll_clock import PARTS, PollClock
from rebalance_sim.sim.data_plane.workers_spec import WhenRevoked


class _Life:
    """A partition of this client from its first position to its release: one PartitionState.

    The flow of one that applications write to in transactions, whose log is ``output``, is one of
    the records that it is handed; they are counted, and so is ``delivered_to``. All others count by
    offsets. ``seen``: where that log ended for it when it polled last."""

    __slots__ = (
        "begun_at",
        "delivered_to",
        "flow",
        "is_fetched",
        "is_handed_out",
        "output",
        "seen",
        "state",
    )

    def __init__(self, state: PartitionState, flow: Flow, output: OutputLog | None) -> None:
        self.state = state
        self.flow = flow
        self.output = output
        self.begun_at = self.seen = state.position
        self.delivered_to = flow.position // PARTS
        self.is_fetched = False
        self.is_handed_out = True


class Intake:
    """The flows of one client, and what invariants may ask about them.

    Records go on while a leap leaves out what machines do, so all of it is in ``simulated_ms``.

    ``batches_keep_it``: the application may be handed a batch that lasts longer than
    ``processing_ms``; ``overruns_poll_interval``: one that lasts for ``max_poll_interval_ms`` or
    longer.
    """

    def __init__(self, plane: Plane, process: FetchingProcess, *, poll_phase_ms: int) -> None:
        spec = process.spec
        self._name = process.name
        self._member = process.member
        self._clock = plane.clock
        self._logs = plane.topic_logs
        self._plane = plane
        self._progress = plane.progress[process.member.config.group_id]
        self._link = plane.network.link(process.name)
        self._latency_ms = plane.network.spec.fetch_latency_ms
        self.isolation_level = spec.isolation_level
        self._max_poll_interval_ms = spec.max_poll_interval_ms
        self._end_ms = plane.end_ms
        rate = spec.processing_records_per_second
        workers = self._workers = spec.workers
        if workers is not None:
            rate = workers.records_per_second
        polls = None
        if (
            workers is None
            and rate is not None
            and spec.max_poll_records * 1_000 > rate * spec.processing_ms
        ):
            polls = PollClock(
                interval_ms=max(1, spec.processing_ms),
                phase_ms=poll_phase_ms,
                batch=spec.max_poll_records * PARTS,
                capacity=rate * PARTS_PER_MS,
                now_ms=self._clock.simulated_ms,
            )
        self.batches_keep_it = polls is not None
        self.overruns_poll_interval = (
            polls is not None
            and polls.batch_ms(spec.max_poll_records * PARTS) >= spec.max_poll_interval_ms
        )
        self._flows = Flows(
            fetch_records=spec.max_partition_fetch_records,
            latency_ms=self._latency_ms * self._link.factor,
            capacity=capacity_of(spec),
            polls=polls,
            watcher=self,
            now_ms=self._clock.simulated_ms,
            in_flight=None if workers is None else workers.in_flight_max,
        )
        self.on_leaders_changed: Callable[[], None] = lambda: None
        self._lives: dict[TopicPartition, _Life] = {}
        self._assigned_ms: dict[TopicPartition, int] = {}
        self._version = -1
        self._is_serving = False

    # --- what the application and the process say -------------------------------------------------

    def look(self, *, is_serving: bool) -> bool:
        """Has an event changed what flows? ``is_serving``: the application takes records."""
        version = self._member.ownership_version
        if version == self._version:
            if is_serving == self._is_serving:
                return False
        else:
            self._version = version
            self._refresh()
        if is_serving != self._is_serving:
            self._is_serving = is_serving
            self._flows.set_serving(is_serving, self._clock.simulated_ms)
        return True

    @property
    def is_serving(self) -> bool:
        """Whether the application takes records: it waits for nothing else, such as a commit."""
        return self._is_serving

    def look_at_leaders(self) -> None:
        """Leaders have moved, or can be reached now where they could not before, or not any more;
        or the way to them takes longer."""
        now_ms = self._clock.simulated_ms
        self._flows.set_latency(self._latency_ms * self._link.factor, now_ms)
        for partition, life in self._lives.items():
            self._flows.set_slowness(life.flow, self._plane.slowness(self._name, partition), now_ms)
        self._fetch_where_possible()
        self.on_leaders_changed()

    def freeze(self) -> None:
        """The process does not run from now on."""
        self._flows.freeze(self._clock.simulated_ms)

    def thaw(self) -> None:
        """The process runs again."""
        self._flows.thaw(self._clock.simulated_ms)

    def end(self) -> None:
        """The process is gone."""
        self.deliver()
        self._workers = None  # They are gone with it.
        for partition in list(self._lives):
            self._drop(partition)

    def settle(self, now_ms: int) -> None:
        """Tell the data plane of everything up to now."""
        self._flows.settle(now_ms)

    # --- what they ask ----------------------------------------------------------------------------

    def positions(self) -> dict[TopicPartition, int]:
        """Partitions of which records were handed out that the member does not know of, with the
        position behind the last of them."""
        self.deliver()
        return {
            partition: position
            for partition, life in self._lives.items()
            if life.is_handed_out
            and (position := self._offset(life, life.delivered_to)) > life.state.position
        }

    def deliver(self) -> None:
        """Count what was handed out since this was last asked."""
        now_ms = self._clock.simulated_ms
        handed_out = self._flows.handed_out(now_ms)
        for partition, life in self._lives.items():
            end = handed_out[life.flow]
            if end > life.delivered_to:
                self._progress.on_delivered(partition, life.delivered_to, end)
                life.delivered_to = end
            if life.output is not None and self._is_serving and life.is_handed_out:
                life.seen = life.output.end_for(self.isolation_level)

    def processed_offsets(self) -> dict[TopicPartition, int]:
        """Of each partition the offset behind the last record that is processed."""
        now_ms = self._clock.simulated_ms
        self._flows.roll(now_ms)
        return {
            p: self._offset(life, self._flows.processed(life.flow, now_ms))
            for p, life in self._lives.items()
        }

    def committed_at(self, at_ms: int, *, counts_handed_out: bool) -> dict[TopicPartition, int]:
        """What a commit at this time would have named, if all has gone on as it does now: what was
        processed, or handed out."""
        now_ms, flows = self._clock.simulated_ms, self._flows
        flows.roll(now_ms)
        handed_out = flows.handed_out(now_ms) if counts_handed_out else {}
        found = {}
        for partition, life in self._lives.items():
            count, flow = flows.processed(life.flow, at_ms), life.flow
            if flow in handed_out:
                count += handed_out[flow] - flows.processed(flow, now_ms)
            found[partition] = self._offset(life, count)
        return found

    def drained_ms(self, partitions: frozenset[TopicPartition], longest_ms: int) -> int:
        """When workers are done with what they have of these partitions, but for a limit."""
        clock = self._clock
        until_ms = clock.simulated_ms + longest_ms
        return self._flows.drained_ms(partitions, clock.simulated_ms, until_ms) - clock.leapt_ms

    # --- poison pills -----------------------------------------------------------------------------

    def first_pill_ms(self) -> int | None:
        """When the application comes to the next one, if nothing else happens, in
        ``simulated_ms``; None if it does not."""
        return self._flows.first_at_limit_ms(self._clock.simulated_ms, self._end_ms)

    def meet_pills(self) -> list[tuple[TopicPartition, PoisonPillSpec]]:
        """Those that it has come to now, for the first time in this process."""
        self._flows.settle(self._clock.simulated_ms)
        found = []
        for flow in self._flows.at_limit():
            flow.is_met = True
            offset = flow.limit // PARTS if flow.limit is not None else 0
            pill = self._plane.pills.first(
                self._plane.name_of(flow.partition), flow.partition, offset
            )
            if pill is not None:
                self._plane.pills.hits[flow.partition, offset] += 1
                found.append((flow.partition, pill[1]))
        return found

    def pass_pill(self, partition: TopicPartition) -> None:
        """The record at which a partition stands is done with, in whatever way."""
        life = self._lives.get(partition)
        if life is not None and life.flow.limit is not None and life.flow.is_met:
            self._look_for_pill(life.flow, life.flow.limit // PARTS + 1)

    def forget_pills(self) -> None:
        """All records are like others from now on."""
        for life in self._lives.values():
            if life.flow.limit is not None:
                self._flows.set_limit(life.flow, None, self._clock.simulated_ms)

    def _look_for_pill(self, flow: Flow, offset: int) -> None:
        pill = self._plane.pills.first(self._plane.name_of(flow.partition), flow.partition, offset)
        limit = None if pill is None else pill[0]
        self._flows.set_limit(flow, limit, self._clock.simulated_ms)

    # --- batches ----------------------------------------------------------------------------------

    def next_poll_ms(self) -> int:
        """When the application is back at ``poll``: now, unless a batch keeps it."""
        clock = self._clock
        return self._flows.next_poll_ms(clock.simulated_ms) - clock.leapt_ms

    @property
    def has_records(self) -> bool:
        """Whether a ``poll`` hands out records now."""
        return self._is_serving and self._flows.has_records(self._clock.simulated_ms)

    def batch_ms(self) -> int:
        """How long the batch lasts that a ``poll`` hands out now."""
        return self._flows.batch_ms(self._clock.simulated_ms)

    def first_long_batch_ms(self) -> int | None:
        """The next ``poll`` after which the application is away for ``max_poll_interval_ms``, if
        nothing else happens, in ``simulated_ms``; None if that does not come."""
        return self._flows.first_long_batch_ms(
            self._max_poll_interval_ms, self._clock.simulated_ms, self._end_ms
        )

    @property
    def longest_batch_ms(self) -> int:
        """The longest batch so far; 0 for an application that none has kept for long."""
        return self._flows.longest_batch_ms

    def fetched_offset(self, partition: TopicPartition) -> int | None:
        """Offset behind the last record that has been fetched; None for one that does not flow."""
        life = self._lives.get(partition)
        now_ms = self._clock.simulated_ms
        self._flows.roll(now_ms)
        return None if life is None else self._offset(life, self._flows.fetched(life.flow, now_ms))

    def begun_offset(self, partition: TopicPartition) -> int | None:
        """Offset of the first record that it was to be handed; None for one that does not flow."""
        life = self._lives.get(partition)
        return None if life is None else life.begun_at

    def handed_out_offset(self, partition: TopicPartition) -> int | None:
        """Offset behind the last record that a ``poll`` has handed out; None as above."""
        self.deliver()
        life = self._lives.get(partition)
        return None if life is None else self._offset(life, life.delivered_to)

    def processed_offset(self, partition: TopicPartition) -> int | None:
        """Offset behind the last record that the application is done with; None as above.

        Once it is back at ``poll`` that is all it was handed, though the fluid may come to a record
        or two a little later, when the shares have changed in the middle of the batch.
        """
        life = self._lives.get(partition)
        if life is None:
            return None
        now_ms, flows = self._clock.simulated_ms, self._flows
        flows.roll(now_ms)
        processed = flows.processed(life.flow, now_ms)
        if processed < life.delivered_to and flows.next_poll_ms(now_ms) == now_ms:
            processed = life.delivered_to
        return self._offset(life, processed)

    def log_end_offset(self, partition: TopicPartition) -> int:
        """Offset of the next record that is going to be produced."""
        return self._logs.end_offset(partition, self._clock.simulated_ms)

    def lag(self) -> int:
        """How many records there are that it has not processed yet."""
        offsets = self.processed_offsets()
        return sum(max(0, self.log_end_offset(p) - offset) for p, offset in offsets.items())

    # --- records of transactions ------------------------------------------------------------------

    def _offset(self, life: _Life, count: int) -> int:
        """The position of a consumer that has come so far with a partition."""
        if life.output is None:
            return count
        return life.output.position(self.isolation_level, count, life.seen)

    def records_between(self, partition: TopicPartition, start: int, end: int) -> int:
        """How many records there are for the application between two offsets."""
        output = self._logs.outputs.get(partition)
        if output is None:
            return end - start
        return output.below(self.isolation_level, end) - output.below(self.isolation_level, start)

    def records_handed_out(self, partition: TopicPartition) -> int:
        """How many records of a partition that flows ``poll`` has returned so far."""
        self.deliver()
        life = self._lives[partition]
        if life.output is None:
            return life.delivered_to - life.begun_at
        return life.delivered_to - life.output.below(self.isolation_level, life.begun_at)

    def on_written(self, partition: TopicPartition) -> None:
        """The log of a partition has more."""
        life = self._lives.get(partition)
        if life is not None and life.output is not None:
            count = life.output.count(self.isolation_level) * PARTS
            self._flows.extend(life.flow, count, self._clock.simulated_ms)

    # --- partitions -------------------------------------------------------------------------------

    def _refresh(self) -> None:
        member = self._member
        assigned = member.assigned
        now_ms = self._clock.simulated_ms
        self.deliver()
        for partition, life in list(self._lives.items()):
            if assigned.get(partition) is not life.state:
                self._drop(partition)
        self._assigned_ms = {p: self._assigned_ms.get(p, now_ms) for p in assigned}
        deliverable = member.deliverable
        for partition in assigned:
            life_or_none = self._lives.get(partition)
            if life_or_none is not None:
                self._allow(partition, life_or_none, partition in deliverable)
            elif partition in deliverable:
                self._begin(partition)
        self._fetch_where_possible()

    def _begin(self, partition: TopicPartition) -> None:
        state = self._member.assigned[partition]
        now_ms = self._clock.simulated_ms
        output, position = self._logs.outputs.get(partition), state.position
        if output is not None:
            position = output.below(self.isolation_level, position)
        flow = Flow(
            partition,
            rate=self._logs.rate_of(partition.topic_id) * PARTS_PER_MS,
            origin_ms=self._logs.origin_ms(partition),
            position=position * PARTS,
            slowness=self._plane.slowness(self._name, partition),
        )
        if output is not None:
            flow.base, flow.steps = output.count(self.isolation_level) * PARTS, deque()
        self._lives[partition] = _Life(state, flow, output)
        self._flows.add(flow, now_ms)
        if self._plane.pills.are_there:
            self._look_for_pill(flow, state.position)
        self._progress.of(partition).begin(
            flow,
            name=self._name,
            assigned_ms=self._assigned_ms[partition],
            now_ms=now_ms,
            settle=self.settle,
        )

    def _allow(self, partition: TopicPartition, life: _Life, is_handed_out: bool) -> None:
        if life.is_handed_out == is_handed_out:
            return
        life.is_handed_out = is_handed_out
        progress = self._progress.of(partition)
        if is_handed_out:
            progress.regain(life.flow)
        else:
            now_ms = self._clock.simulated_ms
            life.is_fetched = False
            self._flows.cut(life.flow, life.delivered_to, now_ms)
            progress.lose(life.flow, now_ms)

    def _drop(self, partition: TopicPartition) -> None:
        life = self._lives.pop(partition)
        now_ms = self._clock.simulated_ms
        self._flows.settle(now_ms)
        if self._workers is not None and self._workers.when_revoked is WhenRevoked.CONTINUE:
            start = life.flow.position // PARTS
            count = self._flows.finish(life.flow, now_ms)
            self._progress.of(partition).finish(start, start + count)
        self._flows.remove(life.flow, now_ms)
        self._progress.of(partition).end(life.flow, now_ms)

    def _fetch_where_possible(self) -> None:
        """Begin to fetch where a leader can be reached, and stop where it cannot."""
        fetchable = self._member.fetchable
        for partition, life in self._lives.items():
            is_fetched = partition in fetchable and self._plane.can_reach(self._name, partition)
            if is_fetched == life.is_fetched:
                continue
            life.is_fetched = is_fetched
            if is_fetched:
                self._flows.open(life.flow, self._clock.simulated_ms)
            else:
                self._flows.close(life.flow, self._clock.simulated_ms)

    # --- what flows -------------------------------------------------------------------------------

    def on_moved(self, flow: Flow, from_ms: int, to_ms: int, position: int) -> None:
        """A flow has gone along a line."""
        self._progress.of(flow.partition).on_moved(flow, to_ms, position)

    def on_first_record(self, flow: Flow, at_ms: int) -> None:
        """A ``poll`` has handed out the first record of a flow."""
        self._progress.of(flow.partition).on_first_record(flow, at_ms)


def capacity_of(spec: FetchSettings) -> int | None:
    """What is processed in each millisecond, in parts of a record; None: whatever comes.

    A batch that fits into the interval is handed out once in it, so that ``poll`` is a limit, too:
    on average, where times away are drawn. With workers the application polls at all times.
    """
    if spec.workers is not None:
        return spec.workers.records_per_second * PARTS_PER_MS
    rate = spec.processing_records_per_second
    limits = [] if rate is None else [rate * PARTS_PER_MS]
    twice_away_ms = spec.processing_ms + (spec.processing_max_ms or spec.processing_ms)
    if twice_away_ms:
        limits.append(max(1, 2 * spec.max_poll_records * PARTS // twice_away_ms))
    return min(limits, default=None)
