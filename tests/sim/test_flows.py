"""Straight lines against what they stand for: single milliseconds, and single records."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st
from record_by_record import Consumer, Partition
from reference_flows import NaiveFlow, NaiveFlows

from rebalance_sim.protocol.wire.topics import TopicPartition
from rebalance_sim.sim.client.client_spec import ClientSpec
from rebalance_sim.sim.data_plane.fetch_buffer import capacity_of
from rebalance_sim.sim.data_plane.flow import PARTS_PER_MS, Flow
from rebalance_sim.sim.data_plane.flows import Flows
from rebalance_sim.sim.data_plane.poll_clock import PARTS, PollClock


class Notes:
    """What a watcher is told."""

    def __init__(self) -> None:
        self.first_ms: dict[int, list[int]] = {}
        self.seen: dict[int, int] = {}

    def on_moved(self, flow: Flow, from_ms: int, to_ms: int, position: int) -> None:
        assert self.seen.get(flow.partition.partition, from_ms) == from_ms
        self.seen[flow.partition.partition] = to_ms

    def on_first_record(self, flow: Flow, at_ms: int) -> None:
        self.first_ms.setdefault(flow.partition.partition, []).append(at_ms)


@dataclass
class Pair:
    """The same client twice."""

    fetch_records: int
    latency_ms: int
    records_per_second: int | None
    max_poll_records: int = 500
    interval_ms: int = 100
    phase_ms: int = 37
    has_clock: bool = False
    in_flight: int | None = None
    notes: Notes = field(default_factory=Notes)

    def __post_init__(self) -> None:
        rate = self.records_per_second
        capacity = None if rate is None else rate * PARTS_PER_MS
        clock = None
        if self.has_clock and capacity is not None:
            clock = PollClock(
                interval_ms=self.interval_ms,
                phase_ms=self.phase_ms,
                batch=self.max_poll_records * PARTS,
                capacity=capacity,
                now_ms=0,
            )
        self.clock = clock
        self.fast = Flows(
            fetch_records=self.fetch_records,
            latency_ms=self.latency_ms,
            capacity=capacity,
            polls=clock,
            watcher=self.notes,
            now_ms=0,
            in_flight=self.in_flight,
        )
        self.naive = NaiveFlows(
            fetch_records=self.fetch_records,
            latency_ms=self.latency_ms,
            capacity=capacity,
            batch_records=self.max_poll_records if clock else None,
            interval_ms=self.interval_ms,
            phase_ms=self.phase_ms,
            in_flight=self.in_flight,
        )
        self.flows: list[Flow] = []

    def go(self, span_ms: int) -> None:
        until_ms = self.naive.now_ms + span_ms
        self.naive.run(until_ms)
        self.fast.roll(until_ms)
        self.compare()

    def compare(self) -> None:
        now_ms = self.naive.now_ms
        for fast, naive in zip(self.flows, self.naive.flows, strict=True):
            assert self.fast.processed(fast, now_ms) == naive.position // PARTS
            assert self.fast.fetched(fast, now_ms) == naive.fetched // PARTS
            assert naive.position <= naive.fetched
            if self.in_flight is not None:
                assert self.fast.handed_out(now_ms)[fast] == naive.handed_out // PARTS
        if self.clock and self.naive.is_serving and not self.naive.is_frozen:
            assert self.clock.next_ms == self.naive.next_poll_ms

    def settle(self) -> None:
        """Everything, to the last part of a record."""
        now_ms = self.naive.now_ms
        self.fast.settle(now_ms)
        for number, (fast, naive) in enumerate(zip(self.flows, self.naive.flows, strict=True)):
            assert (fast.position, fast.fetched) == (naive.position, naive.fetched)
            # The millisecond that begins now is still to come where every one is taken by itself.
            firsts_ms = [ms for ms in self.notes.first_ms.get(number, []) if ms < now_ms]
            assert firsts_ms == naive.first_records_ms

    def look_ahead(self, *, limit_ms: int, horizon_ms: int) -> None:
        """The first batch that lasts so long, foreseen, and then lived through."""
        now_ms = self.naive.now_ms
        foreseen_ms = self.fast.first_long_batch_ms(limit_ms, now_ms, horizon_ms)
        self.naive.run(horizon_ms)
        long_ms = [at for at, lasts in self.naive.batches if at >= now_ms and lasts >= limit_ms]
        is_able = self.clock and self.naive.is_serving and not self.naive.is_frozen
        assert foreseen_ms == (long_ms[0] if long_ms and is_able else None)

    def look_for_limit(self, horizon_ms: int) -> None:
        """When a record at a limit is come to, foreseen, and then lived through."""
        now_ms = self.naive.now_ms
        foreseen_ms = self.fast.first_at_limit_ms(now_ms, horizon_ms)
        is_able = (self.naive.is_serving or self.in_flight is not None) and not self.naive.is_frozen
        while not self.naive.is_at_limit() and self.naive.now_ms < horizon_ms:
            self.naive.run(self.naive.now_ms + 1)
        found_ms = self.naive.now_ms if self.naive.is_at_limit() and is_able else None
        assert foreseen_ms == found_ms
        self.fast.roll(self.naive.now_ms)

    def look_for_drain(self, number: int) -> None:
        """When workers are done with a partition that is handed out no more."""
        now_ms = self.naive.now_ms
        flow, naive = self.flows[number], self.naive.flows[number]
        foreseen_ms = self.fast.drained_ms(frozenset({flow.partition}), now_ms, now_ms + 2_000)
        while naive.position < naive.handed_out and self.naive.now_ms < now_ms + 2_000:
            self.naive.run(self.naive.now_ms + 1)
        assert foreseen_ms == self.naive.now_ms
        self.fast.roll(self.naive.now_ms)

    def live(self, actions: list[tuple[Any, ...]]) -> None:
        """In ``poll``, with a partition, all of this happens."""
        for action in (("serve", True), ("add", 100, 1_000, 30), *actions):
            self.act(action)

    def act(self, action: tuple[Any, ...]) -> None:
        now_ms = self.naive.now_ms
        match action:
            case ("add", rate, age_ms, behind):
                rate *= PARTS_PER_MS
                end = rate * age_ms // PARTS
                start = max(0, end - behind) * PARTS
                number = len(self.flows)
                flow = Flow(
                    TopicPartition("t", number),
                    rate=rate,
                    origin_ms=now_ms - age_ms,
                    position=start,
                )
                self.flows.append(flow)
                self.fast.add(flow, now_ms)
                self.naive.flows.append(
                    NaiveFlow(rate=rate, origin_ms=now_ms - age_ms, position=start)
                )
                self.act(("open", number))
            case ("open", which) if self.flows:
                index = which % len(self.flows)
                self.fast.open(self.flows[index], now_ms)
                self.naive.open(index)
            case ("close", which) if self.flows:
                index = which % len(self.flows)
                self.fast.close(self.flows[index], now_ms)
                self.naive.flows[index].opens_ms = None
            case ("serve", value) if not self.naive.is_frozen:
                self.fast.set_serving(value, now_ms)
                self.naive.set_serving(value)
            case ("freeze",):
                if self.naive.is_frozen:
                    self.fast.thaw(now_ms)
                else:
                    self.fast.freeze(now_ms)
                self.naive.is_frozen = not self.naive.is_frozen
            case ("latency", value):
                self.fast.set_latency(value, now_ms)
                self.naive.latency_ms = value
            case ("limit", which, ahead) if self.flows:
                index = which % len(self.flows)
                limit = self.naive.flows[index].position // PARTS + ahead
                self.fast.set_limit(self.flows[index], limit if ahead else None, now_ms)
                self.naive.flows[index].limit = limit * PARTS if ahead else None
            case ("go", span_ms):
                self.go(span_ms)


RATES = st.sampled_from([0, 1, 3, 10, 99, 100, 101, 1_000, 7_777, 100_000])
ACTIONS = st.one_of(
    st.tuples(st.just("add"), RATES, st.integers(0, 20_000), st.sampled_from([0, 0, 1, 50, 5_000])),
    st.tuples(st.just("open"), st.integers(0, 9)),
    st.tuples(st.just("close"), st.integers(0, 9)),
    st.tuples(st.just("serve"), st.booleans()),
    st.tuples(st.just("freeze")),
    st.tuples(st.just("latency"), st.sampled_from([1, 5, 40])),
    st.tuples(st.just("limit"), st.integers(0, 9), st.sampled_from([0, 1, 2, 30, 400])),
    st.tuples(st.just("go"), st.sampled_from([1, 2, 17, 500, 3_000])),
)


@given(
    fetch_records=st.sampled_from([1, 7, 100, 1_000]),
    latency_ms=st.sampled_from([1, 5, 40]),
    records_per_second=st.sampled_from([None, 1, 50, 100, 333, 2_000, 250_000]),
    max_poll_records=st.sampled_from([1, 10, 500]),
    interval_ms=st.sampled_from([1, 50, 100]),
    has_clock=st.booleans(),
    actions=st.lists(ACTIONS, max_size=25),
)
def test_lines_are_exactly_what_single_milliseconds_add_up_to(
    fetch_records: int,
    latency_ms: int,
    records_per_second: int | None,
    max_poll_records: int,
    interval_ms: int,
    has_clock: bool,
    actions: list[tuple[Any, ...]],
) -> None:
    pair = Pair(
        fetch_records=fetch_records,
        latency_ms=latency_ms,
        records_per_second=records_per_second,
        max_poll_records=max_poll_records,
        interval_ms=interval_ms,
        has_clock=has_clock,
    )
    pair.live(actions)
    pair.go(1_000)
    pair.look_ahead(limit_ms=500, horizon_ms=pair.naive.now_ms + 3_000)
    pair.go(0)
    pair.settle()
    # New lines are drawn where something happens, or where a partition's lot changes.
    changes = len(actions) + 3 * len(pair.flows) * (len(actions) + 1)
    assert pair.fast.line_count <= 20 + 4 * changes


@given(
    fetch_records=st.sampled_from([1, 7, 100]),
    latency_ms=st.sampled_from([1, 5, 40]),
    records_per_second=st.sampled_from([1, 50, 333, 2_000]),
    in_flight=st.sampled_from([1, 10, 500]),
    actions=st.lists(ACTIONS, max_size=25),
)
def test_workers_go_on_with_what_they_were_handed_and_no_further(
    fetch_records: int,
    latency_ms: int,
    records_per_second: int,
    in_flight: int,
    actions: list[tuple[Any, ...]],
) -> None:
    pair = Pair(
        fetch_records=fetch_records,
        latency_ms=latency_ms,
        records_per_second=records_per_second,
        in_flight=in_flight,
    )
    pair.live(actions)
    pair.go(300)
    pair.look_for_limit(pair.naive.now_ms + 1_000)
    if not pair.naive.is_frozen:
        pair.act(("serve", False))
        pair.look_for_drain(0)
    pair.go(0)
    pair.settle()


@given(
    records_per_second=st.sampled_from([None, 50, 333, 2_000]),
    has_clock=st.booleans(),
    actions=st.lists(ACTIONS, max_size=25),
)
def test_a_record_at_a_limit_is_foreseen(
    records_per_second: int | None, has_clock: bool, actions: list[tuple[Any, ...]]
) -> None:
    pair = Pair(
        fetch_records=100, latency_ms=5, records_per_second=records_per_second, has_clock=has_clock
    )
    pair.live(actions)
    pair.act(("limit", 0, 30))
    pair.look_for_limit(pair.naive.now_ms + 2_000)
    pair.go(0)
    pair.settle()


LOGS = st.tuples(
    st.sampled_from([1, 10, 50, 100, 300]), st.sampled_from([0, 2_000]), st.sampled_from([0, 100])
)
PARTITIONS = st.one_of(
    st.lists(LOGS, min_size=1, max_size=4),
    st.tuples(LOGS, st.integers(1, 4)).map(lambda alike: [alike[0]] * alike[1]),
)


@given(
    logs=PARTITIONS,
    fetch_records=st.sampled_from([50, 100, 500]),
    latency_ms=st.sampled_from([1, 5, 10]),
    records_per_second=st.sampled_from([None, 20, 50, 200, 1_000]),
    max_poll_records=st.sampled_from([1, 10, 50]),
)
def test_a_fluid_goes_as_far_as_single_records_within_two_batches(
    logs: list[tuple[int, int, int]],
    fetch_records: int,
    latency_ms: int,
    records_per_second: int | None,
    max_poll_records: int,
) -> None:
    rate = records_per_second or 0
    # A partition is fetched again when nothing of it is buffered, so it misses turns; the fluid
    # knows nothing of that. All together still process as much, if a fetch takes a fraction of the
    # time of a batch; and partitions that are alike still get the same.
    assume(4 * latency_ms * rate <= max_poll_records * 1_000)
    pair = Pair(
        fetch_records=fetch_records,
        latency_ms=latency_ms,
        records_per_second=records_per_second,
        max_poll_records=max_poll_records,
        has_clock=rate > 0 and max_poll_records * 1_000 > rate * 100,
    )
    pair.act(("serve", True))
    for log in logs:
        pair.act(("add", *log))
    partitions = [
        Partition(records_per_second=log[0], origin_ms=-log[1], start=flow.position // PARTS)
        for log, flow in zip(logs, pair.flows, strict=True)
    ]
    consumer = Consumer(
        partitions,
        latency_ms=latency_ms,
        fetch_records=fetch_records,
        max_poll_records=max_poll_records,
        records_per_second=records_per_second,
    )
    # A poll of the fluid's client waits for the grid, and no partition for a whole fetch.
    in_hand = rate * pair.interval_ms // 1_000 if rate else len(logs) * fetch_records
    of_one = 2 * max_poll_records if rate else fetch_records
    for now_ms in range(3_000):
        consumer.step(now_ms)
        pair.fast.roll(now_ms + 1)
        ahead = [
            pair.fast.processed(flow, now_ms + 1) - partition.processed_to
            for flow, partition in zip(pair.flows, partitions, strict=True)
        ]
        if len(set(logs)) == 1:
            assert max(map(abs, ahead)) <= of_one + len(logs)
        assert abs(sum(ahead)) <= in_hand + 2 * len(logs) + 2


@given(
    backlogs=st.lists(st.sampled_from([0, 40, 400]), min_size=1, max_size=4),
    records_per_second=st.sampled_from([None, 1_000, 10_000]),
    max_poll_records=st.sampled_from([1, 7, 50]),
    away_ms=st.sampled_from([50, 120, 600]),
)
def test_an_application_that_is_away_goes_as_far_as_its_polls_within_two_batches(
    backlogs: list[int],
    records_per_second: int | None,
    max_poll_records: int,
    away_ms: int,
) -> None:
    """All of a backlog is there from the beginning, and batches fit into the time away."""
    rate = records_per_second
    assume(rate is None or max_poll_records * 1_000 <= rate * away_ms)
    settings = ClientSpec(
        name="a",
        max_poll_records=max_poll_records,
        processing_ms=away_ms,
        processing_records_per_second=rate,
    )
    fluid = Flows(
        fetch_records=500,
        latency_ms=1,
        capacity=capacity_of(settings),
        polls=None,
        watcher=Notes(),
        now_ms=0,
    )
    fluid.set_serving(True, 0)
    partitions, flows = [], []
    for number, backlog in enumerate(backlogs):
        log = Partition(records_per_second=1_000, origin_ms=-backlog, start=0)
        log.log_end = lambda at_ms, end=backlog: end  # type: ignore[method-assign,misc]
        flow = Flow(TopicPartition("T", number), rate=0, origin_ms=0, position=0)
        flow.fetched = backlog * PARTS
        fluid.add(flow, 0)
        partitions.append(log)
        flows.append(flow)
    consumer = Consumer(
        partitions,
        latency_ms=1,
        fetch_records=500,
        max_poll_records=max_poll_records,
        records_per_second=rate,
        away_ms=away_ms,
    )
    for now_ms in range(3_000):
        consumer.step(now_ms)
        fluid.roll(now_ms + 1)
        done = sum(fluid.processed(flow, now_ms + 1) for flow in flows)
        assert abs(done - sum(one.processed_to for one in partitions)) <= (
            2 * max_poll_records + len(backlogs)
        )


def test_a_batch_in_hand_is_ended_before_the_next_poll() -> None:
    """An application that was kept from its records, or did not run, continues where it was."""
    pair = Pair(
        fetch_records=1_000,
        latency_ms=1,
        records_per_second=100,
        max_poll_records=50,
        has_clock=True,
    )
    pair.act(("serve", True))
    pair.act(("add", 1_000, 5_000, 5_000))
    pair.go(1_000)
    back_ms = pair.fast.next_poll_ms(1_000)
    assert 1_000 < back_ms < 1_500  # batches of half a second
    pair.act(("serve", False))
    pair.go(2_000)
    pair.act(("serve", True))
    assert pair.fast.next_poll_ms(3_000) == back_ms + 2_000
    pair.act(("serve", False))
    pair.act(("freeze",))
    pair.go(5_000)
    pair.act(("freeze",))
    pair.act(("serve", True))
    assert pair.fast.next_poll_ms(8_000) == back_ms + 7_000
    pair.go(2_000)
