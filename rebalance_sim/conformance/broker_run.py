"""One replay of a broker's trace, with given answers to what the recording does not contain.

The same requests, in the same order, at their times. The replay owns the clock.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice, permutations
from math import factorial
from typing import Any

from rebalance_sim.conformance.as_on_a_broker import as_on_a_broker
from rebalance_sim.conformance.broker_steps import PARKED, TOPIC_CHANGES, Steps
from rebalance_sim.conformance.broker_trace import BrokerTrace
from rebalance_sim.conformance.log_compare import LogDifference, Write, compare_log
from rebalance_sim.conformance.member_order import made_id, places_among, real_suffix
from rebalance_sim.conformance.spelling import GROUP, Spelling
from rebalance_sim.conformance.tolerances import (
    CONFIG_LATE_MS,
    LATE_MS,
    Subject,
    Tolerance,
    Unknowns,
)
from rebalance_sim.protocol.assignors.server.java_order import java_hash_map_slots
from rebalance_sim.protocol.consumer.timer_keys import ConsumerTimer
from rebalance_sim.protocol.hosting.minimal_shard import MinimalShard
from rebalance_sim.protocol.runtime.coordinator import EXPIRY_KEY
from rebalance_sim.protocol.runtime.coordinator_config import ConfigsInForce
from rebalance_sim.protocol.runtime.outcome import ScheduleTimer
from rebalance_sim.protocol.versions.semantics import Semantics
from rebalance_sim.protocol.wire.records import Record, TransactionMarker, TransactionMetadata
from rebalance_sim.protocol.wire.topics import MetadataImage, Topic
from rebalance_sim.re2_engine import compile_re2

_T = Tolerance

_LOAD_WINDOW_MS, _LOAD_STEP_MS = 10_000, 50
_NOT_RECORDED = (TransactionMarker, TransactionMetadata)
"""Control records, and records of another topic."""
_OTHER_TOPIC = "\0elsewhere"
"""Begins the names of topics of other users of the broker."""
_UNTIMED = frozenset({"sleep", "restart_broker", "await"})
"""Steps that are no request of this moment."""
_READS = frozenset({"describe", "describe_classic", "list_groups", "offset_fetch"})
"""Steps that are answered from what is committed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One replayed step: what was asked, what the real broker answered, what the model did."""

    index: int
    step: Mapping[str, Any]
    got: Any
    written: tuple[Record, ...]

    @property
    def is_compared(self) -> bool:
        """Steps that ask nothing are not, and neither are changes of topics."""
        return self.step.get("response") is not None and self.got is not None

    @property
    def differs(self) -> bool:
        """The model answered otherwise."""
        return self.is_compared and self.step["response"] != self.got

    def __str__(self) -> str:
        step = self.step
        return (
            f"step {self.index + 1} at {step['at_ms']} ms: {step['op']}\n"
            f"  request:  {json.dumps(step.get('request'), sort_keys=True)}\n"
            f"  expected: {json.dumps(step['response'], sort_keys=True)}\n"
            f"  got:      {json.dumps(self.got, sort_keys=True)}"
        )


class BrokerRun:
    """A replay. ``exchanges`` goes through the steps once, then ``finish`` compares the log;
    ``unknowns`` has the questions that have come up."""

    def __init__(self, trace: BrokerTrace, answers: Mapping[Subject, int]) -> None:
        self._trace = trace
        self.unknowns = Unknowns(answers)
        self._spelling = Spelling(trace.topics)
        self._ids_made = 0
        self._places = list(places_among(() if trace.generated else trace.chosen_ids))
        self._ticket: str | None = None
        self._slot_orders: dict[tuple[str, ...], int] = {}
        self._other_topics = 0
        self._hashes: dict[int, int] = {}
        image = MetadataImage(
            Topic(topic_id=self._spelling.topic_id(name), name=name, partition_count=count)
            for name, count in trace.topics.items()
        )
        self._passed_ms = self._ids_passed = self._committed_by_ms = 0
        self._made_until: dict[str, tuple[int, int]] = {}
        self._shard = MinimalShard(
            config=trace.config,
            semantics=self._as_on_a_broker(trace.semantics),
            image=image,
            new_member_id=self._new_id,
            compile_regex=_matching_own_topics,
        )
        self._shard.timers.pop(EXPIRY_KEY)
        # A time of 0 in a record means that there is none, and no broker lives then.
        self._shard.coordinator.set_wall_clock(1)
        self._steps = Steps(self._shard, self._spelling, trace.path, self.unknowns)
        self._scheduled: list[tuple[int, int, str, Callable[[], None]]] = [
            (at_ms, at_ms, "expiry of empty groups", self._expire) for at_ms in _expiry_times(trace)
        ]
        self._writes: list[tuple[int, int, str, tuple[Record, ...]]] = []
        self._seen_batches = 0

    def exchanges(self) -> Iterator[Exchange]:
        """Carry out the steps, one after the other."""
        steps = self._trace.steps
        has_patterns = False
        for index, step in enumerate(steps):
            at_ms = step["at_ms"]
            later = steps[index + 1]["at_ms"] if index + 1 < len(steps) else at_ms
            self._advance_to(at_ms)
            before = len(self._writes)
            if step["op"] == "heartbeat" and has_patterns:
                self._see_other_topics(index, at_ms)
            got = self._take(index, step, later)
            until_ms = max(later, self._committed_by_ms)
            self._collect(until_ms=until_ms, cause=f"step {index + 1} ({step['op']})")
            if got is PARKED:
                # The recorder waited for the answer before it continued to the next step.
                self._advance_to(later)
                got = self._steps.answer(step)
            has_patterns |= bool(step.get("request", {}).get("subscribed_topic_regex"))
            yield Exchange(
                index=index,
                step=step,
                got="no answer" if got is PARKED else got,
                written=tuple(
                    record for *_, records in self._writes[before:] for record in records
                ),
            )

    def spelled(self, records: Iterable[Record]) -> tuple[dict[str, Any], ...]:
        """Records as the trace spells them, with the names that are bound so far."""
        return tuple(self._spelling.record(record, self._hashes) for record in records)

    def finish(self) -> Iterator[LogDifference]:
        """Let the clock run on to the end of the log, and compare it. Names are spelled now that
        all are bound."""
        last_step_ms = self._trace.steps[-1]["at_ms"]
        if self._trace.log:
            self._advance_to(max(last_step_ms, self._trace.log[-1].at_ms + 100))
        return self.log_differences(len(self._trace.log), last_step_ms)

    def log_differences(self, batch_count: int, until_ms: int) -> Iterator[LogDifference]:
        """Compare what has been written so far with the first batches of the log; the model may
        not have written more until then."""
        self._hashes = {}
        writes = (
            Write(from_ms=from_ms, until_ms=late_ms, cause=cause, records=self.spelled(records))
            for from_ms, late_ms, cause, records in self._writes
        )
        return compare_log(self._trace.log[:batch_count], writes, last_step_ms=until_ms)

    # -- steps -----------------------------------------------------------------------------

    def _take(self, index: int, step: Mapping[str, Any], next_ms: int) -> Any:
        op, at_ms = step["op"], step["at_ms"]
        if op in TOPIC_CHANGES:
            self._change_topics(index, step, next_ms)
            return None
        if op == "restart_broker":
            self._restart(index, at_ms, next_ms)
            return None
        if op in _UNTIMED:
            return self._steps.take(step)
        in_ms = self._trace.answered_ms[index]
        is_parked = "async" in step
        most = min(in_ms - at_ms, LATE_MS) if is_parked else in_ms - at_ms
        lag_ms = self.unknowns.ask(_T.SLOW_REQUEST, index, at_ms=at_ms, most=most)
        if is_parked and at_ms + lag_ms > next_ms:
            # Requests of other connections overtake it.
            cause = f"step {index + 1} ({op})"
            self._schedule(at_ms + lag_ms, at_ms + lag_ms, cause, partial(self._take_late, step))
            return None
        self._advance_to(at_ms + lag_ms)
        self._ticket = step.get("async")
        if op in _READS and not step.get("request", {}).get("require_stable"):
            self._see_other_records(index)
        else:
            self._commit()
        if op == "alter_group_config":
            return self._alter_config(index, step)
        if op == "join_group" and is_parked and self._shard.coordinator.project(GROUP) is None:
            self._hold_commits(index)
        return self._steps.take(step)

    def _hold_commits(self, index: int) -> None:
        """The join that makes a group is answered before it is committed, and a read that comes
        between does not see the group (classic §2.2)."""
        at_ms = self._shard.now_ms
        if self.unknowns.ask(_T.COMMIT_TIME, index, at_ms=at_ms, most=1):
            self._shard.commits = False
            self._committed_by_ms = at_ms + LATE_MS
            self._schedule(at_ms + LATE_MS, at_ms + LATE_MS, "a commit", self._commit)

    def _commit(self) -> None:
        if not self._shard.commits:
            self._shard.commits = True
            self._committed_by_ms = 0
            self._shard.publish()

    def _alter_config(self, index: int, step: Mapping[str, Any]) -> Any:
        """The answer tells of what the settings will be: they are carried out again when they come
        into force."""
        coordinator = self._shard.coordinator
        before = ConfigsInForce(broker=coordinator.config, groups=coordinator.group_configs)
        at_ms = self._shard.now_ms
        late_ms = self.unknowns.ask(_T.CONFIG_TIME, index, at_ms=at_ms, most=CONFIG_LATE_MS)
        answer = self._steps.take(step)
        if late_ms:
            coordinator.update_configs(before)
            at_ms += late_ms
            self._schedule(at_ms, at_ms, "settings", partial(self._come_into_force, step))
        return answer

    def _come_into_force(self, step: Mapping[str, Any]) -> None:
        self._commit()
        self._steps.take(step)

    def _take_late(self, step: Mapping[str, Any]) -> None:
        self._ticket = step["async"]
        self._steps.take(step)

    def _schedule(self, at_ms: int, until_ms: int, cause: str, act: Callable[[], None]) -> None:
        self._scheduled.append((at_ms, until_ms, cause, act))
        self._scheduled.sort(key=lambda item: item[0])

    def _change_topics(self, index: int, step: Mapping[str, Any], next_ms: int) -> None:
        at_ms = step["at_ms"]
        seen_ms = self._trace.seen_ms.get(index, at_ms)
        least = max(at_ms - seen_ms, -LATE_MS)
        off_ms = self.unknowns.ask(
            _T.METADATA_TIME, index, at_ms=seen_ms, least=least, most=LATE_MS
        )
        if step["op"] == "create_topic":
            self._made_until[step["topic"]] = (seen_ms, step["partitions"])
        change = partial(self._steps.change_topics, step)
        cause = f"step {index + 1} ({step['op']})"
        self._schedule(seen_ms + off_ms, max(seen_ms + off_ms, next_ms), cause, change)
        self._advance_to(at_ms)

    def _restart(self, index: int, at_ms: int, next_ms: int) -> None:
        # Timers of the old process must not fire while the broker is away.
        self._shard.timers.clear()
        most = _LOAD_WINDOW_MS // _LOAD_STEP_MS
        before = self.unknowns.ask(_T.LOAD_TIME, index, at_ms=at_ms, most=most) * _LOAD_STEP_MS
        self._shard.now_ms = max(self._shard.now_ms, at_ms, next_ms - before)
        self._shard.restart()
        self._shard.timers.pop(EXPIRY_KEY)

    # -- what the recording leaves open ----------------------------------------------------

    def _as_on_a_broker(self, semantics: Semantics) -> Semantics:
        """What a recording shows is decided as on a broker: ties by the order of its hash maps, and
        the end of a join phase in a timer."""
        return as_on_a_broker(
            semantics,
            order=self._order,
            leader=self._leader,
            resolution_began_ms=self._began_ms,
        )

    def _began_ms(self, scheduled_at_ms: int) -> int:
        """A resolution that ends late may have begun late: the log tells when it did."""
        offset_ms = self._shard.coordinator.wall_offset_ms
        times = (at_ms + offset_ms for at_ms in self._trace.resolved_ms)
        late_ms = self._shard.now_ms + offset_ms
        return next((at for at in times if scheduled_at_ms <= at <= late_ms), scheduled_at_ms)

    def _order(self, member_ids: Collection[str]) -> list[str]:
        return [
            member_id
            for slot in java_hash_map_slots(member_ids)
            for member_id in (slot if len(slot) == 1 else self._order_within(slot))
        ]

    def _order_within(self, slot: list[str]) -> tuple[str, ...]:
        """Java keeps the order of insertion, which the recording does not tell."""
        ids = tuple(slot)
        now_ms = self._shard.now_ms
        order = self.unknowns.ask(
            _T.SLOT_ORDER, (now_ms, ids), at_ms=now_ms, most=factorial(len(ids)) - 1
        )
        if order:
            self._slot_orders[ids] = order
        return next(islice(permutations(ids), self._slot_orders.get(ids, 0), None))

    def _leader(self, member_ids: Collection[str]) -> str:
        now_ms = self._shard.now_ms
        rank = self.unknowns.ask(_T.LEADER, now_ms, at_ms=now_ms, most=len(member_ids) - 1)
        return sorted(member_ids)[rank]

    def _new_id(self) -> str:
        real = self._trace.generated.get(self._ticket or "")
        if real is not None:
            return real_suffix(real)
        most = len(self._places) - 1
        number = self._ids_made
        self._ids_made += 1
        place = self.unknowns.ask(_T.PLACE_OF_ID, number, at_ms=self._shard.now_ms, most=most)
        return made_id(number + 1, self._places[place])

    def _see_other_records(self, index: int) -> None:
        """A group that was dropped without a record is shown until another record is committed."""
        if self.unknowns.ask(_T.OTHER_RECORDS, index, at_ms=self._shard.now_ms, most=1):
            self._shard.foreign_count += 1
            self._shard.publish()

    def _see_other_topics(self, index: int, at_ms: int) -> None:
        if self.unknowns.ask(_T.OTHER_TOPICS, index, at_ms=at_ms, most=1):
            self._other_topics += 1
            name = f"{_OTHER_TOPIC}-{self._other_topics}"
            other = Topic(topic_id=name, name=name, partition_count=1)
            self._shard.update_image(self._shard.coordinator.image.with_topic(other))

    def _passes(self, name: str, timer: ScheduleTimer) -> bool:
        """Show the topic under an id that is not to stay. The recorder makes a topic again and
        again until its id is in order, so that a timer can fire meanwhile."""
        until_ms, count = self._made_until[name]
        shard = self._shard
        now_ms, image = shard.now_ms, shard.coordinator.image
        if not self._passed_ms < now_ms <= until_ms or name in image.by_name:
            return False
        what = (name, timer.key, timer.at_ms)
        seen = self.unknowns.ask(_T.PASSING_TOPIC, what, at_ms=now_ms, most=2)
        if not seen:
            return False
        self._ids_passed += seen == 1
        self._passed_ms = now_ms
        topic = Topic(
            topic_id=f"{name}#passing-{self._ids_passed}", name=name, partition_count=count
        )
        shard.update_image(image.with_topic(topic))
        return True

    def _delay(self, timer: ScheduleTimer, *, is_due: bool = False) -> int:
        """How late a timer fires; ``is_due``: now, so that the question is noted."""
        kind: Tolerance = (
            _T.LATE_RESOLUTION if timer.key.kind is ConsumerTimer.REGEX else _T.LATE_TIMER
        )
        what = (timer.key, timer.at_ms)
        if is_due:
            return self.unknowns.ask(kind, what, at_ms=timer.at_ms, most=LATE_MS)
        return self.unknowns.foreseen(kind, what)

    # -- time ------------------------------------------------------------------------------

    def _advance_to(self, at_ms: int) -> None:
        while self._scheduled and self._scheduled[0][0] <= at_ms:
            due_ms, until_ms, cause, act = self._scheduled.pop(0)
            self._run_clock_to(due_ms)
            act()
            self._collect(until_ms=until_ms, cause=cause)
        self._run_clock_to(at_ms)

    def _run_clock_to(self, at_ms: int) -> None:
        """Fire what is due, and wait; of timers due at once the one that was armed first."""
        shard = self._shard
        while shard.timers:
            due_ms, timer = self._next_timer()
            if due_ms > at_ms:
                break
            self._delay(timer, is_due=True)
            shard.now_ms = max(shard.now_ms, due_ms)
            passing = [name for name in self._made_until if self._passes(name, timer)]
            shard.fire(timer.key)
            for name in passing:
                shard.update_image(shard.coordinator.image.without_topic(name))
            self._collect(until_ms=due_ms, cause="a timer")
        shard.now_ms = max(shard.now_ms, at_ms)

    def _next_timer(self) -> tuple[int, ScheduleTimer]:
        """A broker's timers fire in the order in which they are due, so that one that is late holds
        up those behind it; patterns are resolved beside them."""
        by_place: dict[bool, ScheduleTimer] = {}
        for timer in self._shard.timers.values():
            is_beside = timer.key.kind is ConsumerTimer.REGEX
            if is_beside not in by_place or timer.at_ms < by_place[is_beside].at_ms:
                by_place[is_beside] = timer
        return min(
            ((timer.at_ms + self._delay(timer), timer) for timer in by_place.values()),
            key=lambda item: item[0],
        )

    def _expire(self) -> None:
        shard = self._shard
        shard.timers[EXPIRY_KEY] = ScheduleTimer(EXPIRY_KEY, shard.now_ms)
        shard.fire(EXPIRY_KEY)
        shard.timers.pop(EXPIRY_KEY)

    def _collect(self, *, until_ms: int, cause: str) -> None:
        """Note what the shard wrote since the last call, and the window in which it may have."""
        for at_ms, written in self._shard.batches[self._seen_batches :]:
            records = tuple(one for one in written if not isinstance(one, _NOT_RECORDED))
            if records:
                self._writes.append((at_ms, max(at_ms, until_ms), cause, records))
        self._seen_batches = len(self._shard.batches)


def _matching_own_topics(pattern: str) -> Callable[[str], bool]:
    """Patterns begin with what the names of the recorder's topics begin with."""
    matches = compile_re2(pattern)
    return lambda name: not name.startswith(_OTHER_TOPIC) and matches(name)


def _expiry_times(trace: BrokerTrace) -> list[int]:
    """When the broker's periodic job deleted the empty group: its phase is the broker's own, so it
    is taken from the recording. A deletion that a step asked for is none of these, and neither is
    a conversion, which writes more than tombstones."""
    asked = [step["at_ms"] for step in trace.steps if step["op"] == "delete_group"]
    times = []
    for batch in trace.log:
        records = batch.records
        deletes = all(record["value"] is None for record in records) and any(
            record["type"] in ("ConsumerGroupMetadata", "GroupMetadata") for record in records
        )
        if deletes and not any(0 <= batch.at_ms - at_ms <= 200 for at_ms in asked):
            times.append(batch.at_ms)
    return times
