"""Replaying a real broker's trace against the pure coordinator.

The same requests, in the same order, at their times; responses must be equal field by field, and
the group log record by record. The replay owns the clock.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from rebalance_sim.conformance.broker_steps import PARKED, Steps
from rebalance_sim.conformance.broker_trace import BrokerTrace
from rebalance_sim.conformance.log_compare import LogComparison, Write, compare_log
from rebalance_sim.conformance.member_order import Place, PlacedIds, places_among
from rebalance_sim.conformance.spelling import Spelling
from rebalance_sim.protocol.assignors.server import (
    DEFAULT_ASSIGNORS,
    UniformAssignor,
    java_hash_map_order,
)
from rebalance_sim.protocol.hosting.minimal_shard import MinimalShard
from rebalance_sim.protocol.migration.migration_rules import MigrationRules
from rebalance_sim.protocol.runtime.coordinator import EXPIRY_KEY
from rebalance_sim.protocol.runtime.outcome import ScheduleTimer
from rebalance_sim.protocol.versions.semantics import Semantics
from rebalance_sim.protocol.wire.records import Record
from rebalance_sim.protocol.wire.topics import MetadataImage, Topic
from rebalance_sim.re2_engine import compile_re2

_LOAD_WINDOW_MS, _STEP_MS = 10_000, 50
_LEADERS = 3
"""Among how many members the leader of a converted group is looked for."""
_PASSES = 2
"""How often the places of generated ids are gone through."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerReplayReport:
    """Outcome of one trace. ``needs`` names what the model lacks to replay it; then nothing ran."""

    name: str
    needs: str | None = None
    responses_ok: int = 0
    responses_total: int = 0
    batches_ok: int = 0
    batches_total: int = 0
    first_difference: str | None = None

    @property
    def passed(self) -> bool:
        """Everything was replayed, and nothing differed."""
        return self.needs is None and self.first_difference is None

    def to_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One replayed step: what was asked, what the real broker answered, what the model did."""

    index: int
    step: Mapping[str, Any]
    got: Any
    records: tuple[dict[str, Any], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Guess:
    """What a recording does not contain.

    How long before the step after a restart the log was loaded; where the ids stand that the
    coordinator made; which member leads a group that is converted back.
    """

    load_before_ms: int = 0
    places: tuple[Place, ...] = ()
    leader: int = 0


def replay_broker_trace(trace: BrokerTrace) -> BrokerReplayReport:
    """Replay and compare. What the recording leaves open is guessed: the possibilities are tried in
    a fixed order, and the first one without a difference, or else the one that fits best, counts.
    """
    _, report = _best_guess(trace)
    return report


def replay_steps(trace: BrokerTrace) -> Iterator[Exchange]:
    """The trace step by step, for people who want to read along."""
    guess, _ = _best_guess(trace)
    yield from _Replay(trace, guess).exchanges()


def _best_guess(trace: BrokerTrace) -> tuple[_Guess, BrokerReplayReport]:
    best, report, ids_made = _try(trace, _Guess())
    if report.passed:
        return best, report
    for guess in _plain_guesses(trace):
        best, report = _better(best, report, guess, _try(trace, guess)[1])
        if report.passed:
            return best, report
    for _ in range(_PASSES):
        for index, leader in product(range(ids_made), range(_LEADERS)):
            best, report = _place(trace, index, replace(best, leader=leader), best, report)
            if report.passed:
                return best, report
    return best, report


def _place(
    trace: BrokerTrace, index: int, base: _Guess, best: _Guess, report: BrokerReplayReport
) -> tuple[_Guess, BrokerReplayReport]:
    """Try all places for one generated id, everything else as in ``base``."""
    places = [*base.places, *(Place() for _ in range(index + 1 - len(base.places)))]
    for place in places_among(_chosen_ids(trace)):
        places[index] = place
        guess = replace(base, places=tuple(places))
        best, report = _better(best, report, guess, _try(trace, guess)[1])
        if report.passed:
            break
    return best, report


def _try(trace: BrokerTrace, guess: _Guess) -> tuple[_Guess, BrokerReplayReport, int]:
    replay = _Replay(trace, guess)
    return guess, replay.run(), replay.ids_made


def _better(
    best: _Guess, best_report: BrokerReplayReport, guess: _Guess, report: BrokerReplayReport
) -> tuple[_Guess, BrokerReplayReport]:
    if report.passed or _score(report) > _score(best_report):
        return guess, report
    return best, best_report


def _score(report: BrokerReplayReport) -> int:
    return report.responses_ok + report.batches_ok


def _plain_guesses(trace: BrokerTrace) -> Iterator[_Guess]:
    """Guesses that leave the ids where they are."""
    if any(step["op"] == "restart_broker" for step in trace.steps):
        for load_before_ms in range(_STEP_MS, _LOAD_WINDOW_MS + 1, _STEP_MS):
            yield _Guess(load_before_ms=load_before_ms)
    yield from (_Guess(leader=leader) for leader in range(1, _LEADERS))


def _chosen_ids(trace: BrokerTrace) -> list[str]:
    """Member ids that the script chose itself."""
    return [
        step["request"]["member_id"]
        for step in trace.steps
        if step["op"] == "heartbeat" and step["request"]["member_id"]
    ]


def _as_on_a_broker(semantics: Semantics, guess: _Guess) -> Semantics:
    """Ties that a real broker breaks by the order of its hash maps are broken the same way."""
    ties = {
        "assignors": {**DEFAULT_ASSIGNORS, "uniform": UniformAssignor(order=java_hash_map_order)},
        "first_member": lambda self, member_ids: java_hash_map_order(member_ids)[0],
        "first_converted": lambda self, ids: sorted(ids)[guess.leader % len(ids)],
    }
    return semantics.changed_by(type("ReplayRules", (MigrationRules,), ties))


class _Replay:
    def __init__(self, trace: BrokerTrace, guess: _Guess) -> None:
        self._trace = trace
        self._guess = guess
        self._spelling = Spelling(trace.topics)
        self._new_id = PlacedIds(guess.places)
        image = MetadataImage(
            Topic(topic_id=self._spelling.topic_id(name), name=name, partition_count=count)
            for name, count in trace.topics.items()
        )
        self._shard = MinimalShard(
            config=trace.config,
            semantics=_as_on_a_broker(trace.semantics, guess),
            image=image,
            new_member_id=self._new_id,
            compile_regex=compile_re2,
        )
        self._shard.timers.pop(EXPIRY_KEY)
        self._steps = Steps(self._shard, self._spelling, trace.path)
        self._expiries = _expiry_times(trace)
        self._writes: list[tuple[int, int, str, tuple[Record, ...]]] = []
        self._seen_batches = 0

    @property
    def ids_made(self) -> int:
        """How many member ids the coordinator has made."""
        return self._new_id.made

    def run(self) -> BrokerReplayReport:
        total = ok = 0
        first: str | None = None
        for exchange in self.exchanges():
            expected = exchange.step.get("response")
            if expected is None or exchange.got is None:
                continue
            total += 1
            if expected == exchange.got:
                ok += 1
            elif first is None:
                first = _describe_difference(exchange)
        log = self._finish()
        return BrokerReplayReport(
            name=self._trace.name,
            responses_ok=ok,
            responses_total=total,
            batches_ok=log.batches_ok,
            batches_total=log.batches_total,
            first_difference=first or log.first_difference,
        )

    def exchanges(self) -> Iterator[Exchange]:
        hashes: dict[int, int] = {}
        steps = self._trace.steps
        for index, step in enumerate(steps):
            at_ms = step["at_ms"]
            later = steps[index + 1]["at_ms"] if index + 1 < len(steps) else at_ms
            self._advance_to(at_ms)
            before = len(self._writes)
            got = self._take(step, later)
            self._collect(until_ms=later, cause=f"step {index + 1} ({step['op']})")
            if got is PARKED:
                # The recorder waited for the answer before it went on to the next step.
                self._advance_to(later)
                got = self._steps.answer(step)
            records = tuple(
                self._spelling.record(record, hashes)
                for *_, written in self._writes[before:]
                for record in written
            )
            yield Exchange(
                index=index, step=step, got="no answer" if got is PARKED else got, records=records
            )

    def _take(self, step: Mapping[str, Any], next_ms: int) -> Any:
        if step["op"] != "restart_broker":
            return self._steps.take(step)
        # Timers of the old process must not fire while the broker is away.
        self._shard.timers.clear()
        self._shard.advance_to(max(step["at_ms"], next_ms - self._guess.load_before_ms))
        self._shard.restart()
        self._shard.timers.pop(EXPIRY_KEY)
        return None

    def _finish(self) -> LogComparison:
        """Let the clock run on to the end of the log. Names are spelled now that all are bound."""
        last_step_ms = self._trace.steps[-1]["at_ms"]
        if self._trace.log:
            self._advance_to(max(last_step_ms, self._trace.log[-1]["at_ms"] + 100))
        hashes: dict[int, int] = {}
        writes = [
            Write(
                from_ms=from_ms,
                until_ms=until_ms,
                cause=cause,
                records=tuple(self._spelling.record(record, hashes) for record in records),
            )
            for from_ms, until_ms, cause, records in self._writes
        ]
        return compare_log(
            [dict(batch) for batch in self._trace.log], writes, last_step_ms=last_step_ms
        )

    # -- time ------------------------------------------------------------------------------

    def _advance_to(self, at_ms: int) -> None:
        while self._expiries and self._expiries[0] <= at_ms:
            expiry_ms = self._expiries.pop(0)
            self._run_clock_to(expiry_ms)
            self._shard.timers[EXPIRY_KEY] = ScheduleTimer(EXPIRY_KEY, expiry_ms)
            self._shard.fire(EXPIRY_KEY)
            self._shard.timers.pop(EXPIRY_KEY)
            self._collect(until_ms=expiry_ms, cause="expiry of empty groups")
        self._run_clock_to(at_ms)

    def _run_clock_to(self, at_ms: int) -> None:
        shard = self._shard
        while shard.timers:
            due_ms = min(timer.at_ms for timer in shard.timers.values())
            if due_ms > at_ms:
                break
            shard.advance_to(due_ms)
            self._collect(until_ms=due_ms, cause="a timer")
        shard.advance_to(at_ms)

    def _collect(self, *, until_ms: int, cause: str) -> None:
        """Note what the shard wrote since the last call, and the window in which it may have."""
        for at_ms, records in self._shard.batches[self._seen_batches :]:
            self._writes.append((at_ms, max(at_ms, until_ms), cause, records))
        self._seen_batches = len(self._shard.batches)


def _expiry_times(trace: BrokerTrace) -> list[int]:
    """When the broker's periodic job deleted the empty group: its phase is the broker's own, so it
    is taken from the recording. A deletion that a step asked for is none of these, and neither is
    a conversion, which writes more than tombstones."""
    asked = [step["at_ms"] for step in trace.steps if step["op"] == "delete_group"]
    times = []
    for batch in trace.log:
        records = batch["records"]
        deletes = all(record["value"] is None for record in records) and any(
            record["type"] in ("ConsumerGroupMetadata", "GroupMetadata") for record in records
        )
        if deletes and not any(0 <= batch["at_ms"] - at_ms <= 200 for at_ms in asked):
            times.append(batch["at_ms"])
    return times


def _describe_difference(exchange: Exchange) -> str:
    step = exchange.step
    return (
        f"step {exchange.index + 1} at {step['at_ms']} ms: {step['op']}\n"
        f"  request:  {json.dumps(step.get('request'), sort_keys=True)}\n"
        f"  expected: {json.dumps(step['response'], sort_keys=True)}\n"
        f"  got:      {json.dumps(exchange.got, sort_keys=True)}"
    )
