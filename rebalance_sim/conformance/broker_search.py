"""Looking for what a recording does not contain, from its first difference on.

The trace is replayed with 0 in answer to every question. Where it differs first, each question
that came up shortly before is answered otherwise, one at a time; what makes the replay agree for
longest is kept, and the search continues with the next difference. Nothing is taken that leaves as
many differences as there were. Where no single change does, a timer is late to just then, and one
more thing is changed: a machine that is busy is late with more than one thing.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import NamedTuple, cast

from rebalance_sim.conformance.broker_run import BrokerRun, Exchange
from rebalance_sim.conformance.broker_trace import BrokerTrace
from rebalance_sim.conformance.log_compare import LogDifference
from rebalance_sim.conformance.tolerances import LATE_MS, Question, Subject, Tolerance
from rebalance_sim.protocol.runtime.outcome import TimerKey

_T = Tolerance

_GIVE_UP_AFTER = 4
"""Differences without an explanation, after which all that follow stay so."""

_LATE_TIMERS = 3
"""Timers that are tried as one of two causes."""

_LONG_MS = 5_000
"""What agrees for so long is no accident: no better change is looked for."""

_TARGET_REACH_MS = 3_000
"""How long before a difference the time of a target may have been its cause."""

_REACH: Mapping[str, tuple[int, int]] = {
    _T.SHARED_NAME: (1, 1_000),
    _T.LATE_RESOLUTION: (6, 2_000),
    _T.LATE_TIMER: (8, 1_000),
    _T.METADATA_TIME: (2, 2_000),
    _T.PASSING_TOPIC: (8, 60_000),
    _T.COMMIT_TIME: (2, 1_000),
    _T.CONFIG_TIME: (2, 60_000),
    _T.OTHER_TOPICS: (6, 2_000),
    _T.OTHER_RECORDS: (1, 0),
    _T.SLOT_ORDER: (4, 60_000),
    _T.LEADER: (2, 60_000),
    _T.SLOW_REQUEST: (6, 2_000),
    _T.LOAD_TIME: (2, 60_000),
    _T.PLACE_OF_ID: (12, 600_000),
}
"""Tolerance -> how many of its questions are tried, at most how long before a difference. Those
that are tried first are preferred among causes that explain as much."""


class Place(NamedTuple):
    """Where a replay can differ: ``kind`` is "answer", "batch" or "extra"."""

    at_ms: int
    kind: str
    position: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What one replay came to. ``differences`` are in order of time."""

    answers_total: int
    batches_total: int
    differences: Mapping[Place, Exchange | LogDifference]
    asked: tuple[Question, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """What the search has found.

    ``plain`` is the replay without it, ``final`` that with ``answers``; ``causes`` says of each
    place that differs in the first alone which of the answers explains it.
    """

    plain: Result
    final: Result
    answers: Mapping[Subject, int]
    causes: Mapping[Place, Subject]


_Found = tuple[Subject, Mapping[Subject, int], Result]
"""The last thing that was changed, all answers with it, and what the replay comes to."""


def explain(trace: BrokerTrace) -> Explained:
    """Replay a trace, and look for the smallest changes that make it agree."""
    answers: Mapping[Subject, int] = {}
    plain = result = run(trace, answers)
    causes: dict[Place, Subject] = {}
    given_up: set[Place] = set()
    while len(given_up) < _GIVE_UP_AFTER:
        first = _first(result, given_up)
        if first is None:
            break
        found = _cause(trace, answers, result, first, given_up) or _second_cause(
            trace, answers, result, first, given_up
        )
        if found is None:
            given_up.add(first)
            continue
        subject, answers, better = found
        causes.update(dict.fromkeys(result.differences.keys() - better.differences, subject))
        result = better
    causes = {
        place: causes[place] for place in plain.differences if place not in result.differences
    }
    return Explained(plain=plain, final=result, answers=answers, causes=causes)


def run(trace: BrokerTrace, answers: Mapping[Subject, int]) -> Result:
    """One whole replay."""
    replay = BrokerRun(trace, answers)
    return _result(trace, replay, list(replay.exchanges()))


def _result(trace: BrokerTrace, replay: BrokerRun, exchanges: Sequence[Exchange]) -> Result:
    differences: dict[Place, Exchange | LogDifference] = {
        Place(exchange.step["at_ms"], "answer", exchange.index): exchange
        for exchange in exchanges
        if exchange.differs
    }
    for index, one in enumerate(replay.finish()):
        kind = "extra" if one.batch is None else "batch"
        place = Place(one.at_ms, kind, index if one.batch is None else one.batch)
        differences[place] = one
    return Result(
        answers_total=sum(exchange.is_compared for exchange in exchanges),
        batches_total=len(trace.log),
        differences={place: differences[place] for place in sorted(differences)},
        asked=tuple(replay.unknowns.asked),
    )


def _first(result: Result, given_up: AbstractSet[Place]) -> Place | None:
    return next((place for place in result.differences if place not in given_up), None)


def _cause(
    trace: BrokerTrace,
    answers: Mapping[Subject, int],
    result: Result,
    first: Place,
    given_up: AbstractSet[Place],
) -> _Found | None:
    """The one change that lets the replay agree for longest, or None if there is none."""
    best: _Found | None = None
    best_ms = first.at_ms
    for subject, value in _changes(trace, result, first, answers):
        changed = {**answers, subject: value}
        trial = _trial(trace, changed, first, given_up)
        if trial is None or len(trial.differences) >= len(result.differences):
            continue
        next_first = _first(trial, given_up)
        if next_first is None or next_first.at_ms > first.at_ms + _LONG_MS:
            return subject, changed, trial
        if next_first.at_ms > best_ms:
            best, best_ms = (subject, changed, trial), next_first.at_ms
    return best


def _second_cause(
    trace: BrokerTrace,
    answers: Mapping[Subject, int],
    result: Result,
    first: Place,
    given_up: AbstractSet[Place],
) -> _Found | None:
    """The same with a timer that is late to the difference as well."""
    at_ms = first.at_ms + (first.kind == "answer")
    late = [
        question
        for question in reversed(result.asked)
        if question.subject.tolerance in _LATE
        and 0 < at_ms - question.at_ms <= question.most
        and question.subject not in answers
    ]
    for question in late[:_LATE_TIMERS]:
        with_it = {**answers, question.subject: at_ms - question.at_ms}
        other = run(trace, with_it)
        asked = replace(result, asked=other.asked)
        found = _cause(trace, with_it, asked, first, given_up)
        if found is not None:
            return found
    return None


def _trial(
    trace: BrokerTrace,
    answers: Mapping[Subject, int],
    first: Place,
    given_up: AbstractSet[Place],
) -> Result | None:
    """A replay that agrees up to what differed first, and there; None if it does not."""
    replay = BrokerRun(trace, answers)
    exchanges: list[Exchange] = []
    is_past = False
    for exchange in replay.exchanges():
        exchanges.append(exchange)
        at_ms = exchange.step["at_ms"]
        if not is_past and at_ms > first.at_ms:
            is_past = True
            # Ids that the coordinator makes may have no name yet.
            count = 0 if trace.generated else sum(b.at_ms <= first.at_ms for b in trace.log)
            for one in replay.log_differences(count, until_ms=0) if count else ():
                if Place(one.at_ms, "batch", one.batch or 0) not in given_up:
                    return None
        place = Place(at_ms, "answer", exchange.index)
        if not is_past and exchange.differs and place not in given_up:
            return None
    return _result(trace, replay, exchanges)


def _changes(
    trace: BrokerTrace, result: Result, first: Place, answers: Mapping[Subject, int]
) -> Iterator[tuple[Subject, int]]:
    """Other answers to the questions that came up before a difference, the newest first."""
    moments = _moments(trace, first.at_ms + LATE_MS)
    by_tolerance: dict[str, list[Question]] = {}
    for question in reversed(result.asked):
        from_ms = question.at_ms + min(question.least, 0)
        if from_ms <= first.at_ms and question.most > question.least:
            by_tolerance.setdefault(question.subject.tolerance, []).append(question)
    for tolerance, (count, reach_ms) in _REACH.items():
        for question in by_tolerance.get(tolerance, ())[:count]:
            if question.at_ms < first.at_ms - reach_ms:
                break
            for value in _values(question, moments):
                if value != answers.get(question.subject, 0):
                    yield question.subject, value
    # The next target depends on the time of the last one, which the log tells to the millisecond.
    targets = _target_times(trace, first)
    for question in by_tolerance.get(_T.SLOW_REQUEST, ()):
        for at_ms in targets:
            value = at_ms - question.at_ms
            if 0 < value <= question.most and value != answers.get(question.subject, 0):
                yield question.subject, value
    yield from _slow_starts(trace, result, first, answers)


def _slow_starts(
    trace: BrokerTrace, result: Result, first: Place, answers: Mapping[Subject, int]
) -> Iterator[tuple[Subject, int]]:
    """Requests that have set a timer which was due about then, and later if they were slow."""
    slow = [one for one in result.asked if one.subject.tolerance == _T.SLOW_REQUEST]
    for timer in result.asked:
        if timer.subject.tolerance != _T.LATE_TIMER or abs(timer.at_ms - first.at_ms) > LATE_MS:
            continue
        key, _ = cast("tuple[TimerKey, int]", timer.subject.what)
        of_member = [
            one
            for one in slow
            if one.at_ms <= timer.at_ms
            and trace.member_of(cast(int, one.subject.what)) == key.member_id
        ]
        for request in of_member[-1:]:
            for value in {first.at_ms + 1 - timer.at_ms, request.most}:
                if 0 < value <= request.most and value != answers.get(request.subject, 0):
                    yield request.subject, value


_LATE = frozenset({_T.LATE_TIMER, _T.LATE_RESOLUTION})
_IN_MS = frozenset(
    (
        _T.LATE_TIMER,
        _T.LATE_RESOLUTION,
        _T.METADATA_TIME,
        _T.SLOW_REQUEST,
        _T.CONFIG_TIME,
    )
)


def _values(question: Question, moments: list[int]) -> list[int]:
    """Answers worth trying: all, or those that put something in another order with what else has
    happened."""
    if question.subject.tolerance not in _IN_MS:
        return list(range(question.most + 1))
    low = bisect_left(moments, question.at_ms + question.least)
    high = bisect_right(moments, question.at_ms + question.most)
    values = {moment - question.at_ms for moment in moments[low:high]}
    return sorted({question.least, question.most, 0} | values, key=abs)


def _target_times(trace: BrokerTrace, first: Place) -> list[int]:
    """When targets were computed in the seconds before a difference, the newest first."""
    times = {
        record["value"].get("assignment_timestamp", 0)
        for batch in trace.log
        for record in batch.records
        if record["type"] == "ConsumerGroupTargetAssignmentMetadata" and record["value"]
    }
    early_ms = first.at_ms - _TARGET_REACH_MS
    return sorted((at_ms for at_ms in times if early_ms <= at_ms <= first.at_ms), reverse=True)


def _moments(trace: BrokerTrace, late_ms: int) -> list[int]:
    """Times about which something may have been the other way round: just after each step, and all
    that the log tells, up to ``late_ms``."""
    moments = {step["at_ms"] + 1 for step in trace.steps}
    for batch in trace.log:
        moments.add(batch.at_ms)
        for record in batch.records:
            value = record["value"] or {}
            moments.update(item for key, item in value.items() if "timestamp" in key)
    return sorted(moment for moment in moments if moment <= late_ms)
