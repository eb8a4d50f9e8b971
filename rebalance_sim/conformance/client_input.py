"""What reached a client from outside, as far as a trace tells, and what has to be inferred.

Source: client §13. Answers and faults are recorded. Polls, metadata and looked-up positions are
not: they are inferred here from what the client did, so that a replay checks content and order,
hardly delays.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rebalance_sim.conformance.client_bodies import by_partition, partition_set
from rebalance_sim.conformance.client_trace import ClientProcess, TraceEvent
from rebalance_sim.protocol.wire.topics import TopicPartition

__all__ = [
    "ASYNC_COMMITS",
    "BLOCKING_ACTIONS",
    "SYNC_COMMITS",
    "Callback",
    "ClientProcess",
    "PositionFix",
    "RecordedPoll",
    "TopicName",
    "Unreachable",
    "action_events",
    "callbacks",
    "created_ms",
    "end_of_process_ms",
    "held_spans",
    "kill_times",
    "let_through_ms",
    "own_events",
    "pattern_matches",
    "polls",
    "positions",
    "returned_records",
    "topic_names",
    "unreachable_spans",
]

POLL_TIMEOUT_MS = 100
TIME_TOLERANCE_MS = 150
ONE_POLL_MS = 10  # two signs of a poll within this time mean the same poll
_LOOKUP_AFTER_POLL_MS = 12  # an OffsetFetch leaves at most so long after its poll
_RECORDS_AFTER_CALLBACK_MS = 15  # what a poll returns after a long callback comes at once
_PATTERN_LEAD_MS = 50  # a client-side match is known a little before the request that carries it
_NO_CALLBACK = 1_000_000_000

SYNC_COMMITS = frozenset({"commitSync", "commit(asynchronous=False)", "CommitUncommittedOffsets"})
ASYNC_COMMITS = frozenset({"commitAsync", "commit(asynchronous=True)"})
"""How the bindings of the clients call them."""

BLOCKING_ACTIONS = frozenset({"stop_polling", "unsubscribe"}) | SYNC_COMMITS
_SIGNS_OF_POLL = frozenset({"records", "assignment", "exception", "action"})
_ENDS_AN_EMPTY_POLL = frozenset({"assignment", "action_begin"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Callback:
    """A recorded run of a listener's method.

    ``commits_after_ms``: when ``commitSync`` was called inside, counted from the beginning.
    """

    name: str
    begin_ms: int
    length_ms: int
    throws: bool
    partitions: frozenset[TopicPartition]
    assignment_at_end: frozenset[TopicPartition] | None
    commits_after_ms: tuple[int, ...]

    def end_ms_if_begun_at(self, begin_ms: int) -> int:
        """When it ends if the member wants it at ``begin_ms``: then, or when the real one began.

        The application may have been busy for a moment, within the tolerance for times.
        """
        if 0 < self.begin_ms - begin_ms <= TIME_TOLERANCE_MS:
            begin_ms = self.begin_ms
        return begin_ms + self.length_ms


@dataclass(frozen=True, slots=True)
class Unreachable:
    """From ``begin_ms`` on, requests fail at once and searches wait until ``end_ms``."""

    begin_ms: int
    end_ms: int


@dataclass(frozen=True, slots=True)
class PositionFix:
    """A position looked up after the answer ``response_id`` is valid, not before ``at_ms``."""

    response_id: int
    at_ms: int
    partition: TopicPartition
    position: int


def own_events(process: ClientProcess, *kinds: str) -> Iterator[TraceEvent]:
    """The events of these kinds that are the client's own, in order."""
    for event in process.events:
        if event["kind"] in kinds and event["client"] not in ("admin", "broker"):
            yield event


def _answers(process: ClientProcess, api: str) -> Iterator[TraceEvent]:
    for event in own_events(process, "response"):
        if event["api"] == api and event.get("delivered", True):
            yield event


def created_ms(process: ClientProcess) -> int:
    """When the process created its consumer."""
    return int(next(e["at_ms"] for e in own_events(process, "action") if e["action"] == "create"))


def end_of_process_ms(process: ClientProcess) -> int:
    """When the process was gone; a closed consumer says nothing any more."""
    for event in process.events:
        if event["kind"] in ("exit", "process_end") or event.get("action") == "kill -9":
            return int(event["at_ms"])
    return int(process.events[-1]["at_ms"])


def callbacks(process: ClientProcess) -> list[Callback]:
    """All callbacks, in order."""
    found: list[Callback] = []
    commits = [
        e["at_ms"] for e in own_events(process, "action_begin") if e["action"] in SYNC_COMMITS
    ]
    open_event: TraceEvent | None = None
    for event in own_events(process, "callback_begin", "callback_end"):
        if event["kind"] == "callback_begin":
            open_event = event
            continue
        if open_event is None:
            continue
        begin_ms, end_ms = open_event["at_ms"], event["at_ms"]
        found.append(
            Callback(
                name=event["callback"],
                begin_ms=begin_ms,
                length_ms=end_ms - begin_ms,
                throws=event["throws"],
                partitions=partition_set(open_event["partitions"]),
                assignment_at_end=partition_set(event["assignment"]),
                commits_after_ms=tuple(
                    at_ms - begin_ms for at_ms in commits if begin_ms <= at_ms < end_ms
                ),
            )
        )
        open_event = None
    if open_event is not None:  # the process ended inside the callback
        found.append(
            Callback(
                name=open_event["callback"],
                begin_ms=open_event["at_ms"],
                length_ms=1_000_000_000,
                throws=False,
                partitions=partition_set(open_event["partitions"]),
                assignment_at_end=None,
                commits_after_ms=(),
            )
        )
    return found


# --- polls ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RecordedPoll:
    """An iteration of ``poll``; perhaps only shown by the so-manieth callback, which ran in it."""

    at_ms: int
    shown_by_callback: int = _NO_CALLBACK

    @property
    def is_shown_by_callback(self) -> bool:
        """Whether nothing but a callback shows it."""
        return self.shown_by_callback != _NO_CALLBACK


def polls(process: ClientProcess) -> list[RecordedPoll]:
    """When iterations of ``poll`` began (client §13, row "polls")."""
    blocked = _blocked_spans(process)
    found: list[RecordedPoll] = []
    last_shown_ms = -ONE_POLL_MS
    previous: _Sign | None = None
    for sign in _signs_of_polls(process):
        if _is_within(sign.at_ms, blocked):
            continue
        if previous is not None:
            between = _polls_before(sign, previous.at_ms)
            found.extend(RecordedPoll(t) for t in between if not _is_within(t, blocked))
        if sign.at_ms - last_shown_ms >= ONE_POLL_MS:
            last_shown_ms = sign.at_ms
            found.append(RecordedPoll(sign.at_ms, sign.shown_by_callback))
        previous = sign
    return found


@dataclass(frozen=True, slots=True)
class _Sign:
    """A poll surely began at ``at_ms``; or, inside a poll, the application ran a callback then.

    ``ends_empty_poll``: the poll before it had returned nothing, after its whole timeout.
    """

    at_ms: int
    ends_empty_poll: bool = False
    shown_by_callback: int = _NO_CALLBACK


def _signs_of_polls(process: ClientProcess) -> list[_Sign]:
    """What the trace shows of polls, in order; nothing is polled before ``subscribe``.

    Offset fetches leave with a poll, and so do commits, unless the application makes them itself.
    """
    leaves_with_poll = {"OffsetFetch"}
    if process.config.enable_auto_commit:
        leaves_with_poll.add("OffsetCommit")
    signs: list[_Sign] = []
    is_subscribed = False
    callback_count = 0
    for event in process.events:
        kind, action, at_ms = event["kind"], event.get("action", ""), event["at_ms"]
        if event["client"] in ("admin", "broker"):
            continue
        is_subscribed = is_subscribed or action.startswith("subscribe")
        if not is_subscribed:
            continue
        if kind == "request" and event["api"] in leaves_with_poll:
            if not signs or at_ms - signs[-1].at_ms > _LOOKUP_AFTER_POLL_MS:
                signs.append(_Sign(at_ms))
        elif kind == "callback_begin":
            signs.append(_Sign(at_ms, shown_by_callback=callback_count))
            callback_count += 1
        elif (
            kind in _SIGNS_OF_POLL
            or (kind == "action_end" and not action.startswith("close"))
            or (kind == "action_begin" and action not in BLOCKING_ACTIONS)
        ):
            signs.append(_Sign(at_ms, kind in _ENDS_AN_EMPTY_POLL))
    return signs


def _polls_before(sign: _Sign, begin_ms: int) -> list[int]:
    """Empty polls between one that is known and a sign of the next."""
    if sign.ends_empty_poll:
        first = begin_ms + (sign.at_ms - begin_ms) % POLL_TIMEOUT_MS
        times = range(first, sign.at_ms, POLL_TIMEOUT_MS)
    else:
        times = range(begin_ms + POLL_TIMEOUT_MS, sign.at_ms, POLL_TIMEOUT_MS)
    # A callback does not show when its poll began, so another may have begun just before.
    distance_ms = ONE_POLL_MS if sign.shown_by_callback == _NO_CALLBACK else 1
    return [t for t in times if t - begin_ms >= ONE_POLL_MS and sign.at_ms - t >= distance_ms]


def _blocked_spans(process: ClientProcess) -> list[tuple[int, int]]:
    """Open intervals in which the application is in a callback or a blocking call."""
    spans: list[tuple[int, int]] = []
    for callback in callbacks(process):
        spans.append((callback.begin_ms, callback.begin_ms + callback.length_ms))
    begun: dict[str, int] = {}
    for event in own_events(process, "action_begin", "action_end"):
        action = event["action"]
        if event["kind"] == "action_begin":
            begun[action] = event["at_ms"]
            if action.startswith("close"):
                # Nothing is polled at the beginning of close, nor ever after.
                spans.append((event["at_ms"] - 1, 1_000_000_000))
        elif action in BLOCKING_ACTIONS and action in begun:
            spans.append((begun[action], event["at_ms"]))
    return spans


def _is_within(at_ms: int, spans: Iterable[tuple[int, int]]) -> bool:
    return any(begin < at_ms < end for begin, end in spans)


# --- metadata, patterns, positions ---------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TopicName:
    """A topic is known from ``at_ms`` on, but not before so many reconciliations have finished."""

    topic: str
    at_ms: int
    after_reconciliations: int


def topic_names(process: ClientProcess) -> list[TopicName]:
    """When names of topics were known (client §13, row "metadata")."""
    found: dict[str, TopicName] = {}
    for event in own_events(process, "metadata"):
        for topic in event["topics"]:
            found.setdefault(topic, TopicName(topic, event["at_ms"], 0))
    for answer in _answers(process, "ConsumerGroupHeartbeat"):
        for topic in answer["body"].get("assignment") or {}:
            if topic not in found:
                found[topic] = _known_at(process, topic, answer["at_ms"])
    return list(found.values())


def _known_at(process: ClientProcess, topic: str, named_ms: int) -> TopicName:
    """The name was late if the member acknowledged something before the topic's first callback."""
    first_callback_ms = min(
        (c.begin_ms for c in callbacks(process) if _has(c, topic) and c.begin_ms >= named_ms),
        default=named_ms,
    )
    finished_ms = [
        e["at_ms"]
        for e in own_events(process, "state")
        if (e["from"], e["to"]) == ("RECONCILING", "ACKNOWLEDGING")
    ]
    was_late = any(named_ms <= at_ms < first_callback_ms for at_ms in finished_ms)
    count = sum(at_ms < first_callback_ms for at_ms in finished_ms)
    return TopicName(topic, named_ms, count if was_late else 0)


def _has(callback: Callback, topic: str) -> bool:
    return any(partition.topic_id == topic for partition in callback.partitions)


def pattern_matches(process: ClientProcess) -> list[tuple[int, frozenset[str]]]:
    """When a pattern that the client matches by itself began to match which topics."""
    if not any(e["action"] == "subscribe_java_pattern" for e in own_events(process, "action")):
        return []
    matches: list[tuple[int, frozenset[str]]] = []
    known: frozenset[str] = frozenset()
    for event in own_events(process, "request"):
        if event["api"] != "ConsumerGroupHeartbeat" or event["body"]["member_epoch"] <= 0:
            continue
        names = event["body"]["subscribed_topic_names"]
        if names is not None and frozenset(names) != known:
            known = frozenset(names)
            matches.append((event["at_ms"] - _PATTERN_LEAD_MS, known))
    return matches


def positions(process: ClientProcess) -> list[PositionFix]:
    """When looked-up positions became valid (client §13, row "positions")."""
    fixes: list[PositionFix] = []
    waiting: dict[TopicPartition, int] = {}  # partition -> id of the answer
    last_commit_ms = 0  # a commit that lacks a partition was made before its position was valid
    for event in process.events:
        if event["client"] in ("admin", "broker"):
            continue
        at_ms = event["at_ms"]
        if event["kind"] == "response" and event["api"] == "OffsetFetch":
            if event.get("delivered", True):
                for partition in by_partition(_fetched(event["body"])):
                    waiting[partition] = event["id"]
        elif event["kind"] == "records":
            for partition, (first, _) in by_partition(event["offsets"]).items():
                if partition in waiting:
                    fixes.append(PositionFix(waiting.pop(partition), at_ms, partition, first))
        elif event["kind"] == "request" and event["api"] == "OffsetCommit":
            for partition, offset in by_partition(event["body"]["topics"]).items():
                if partition in waiting:
                    valid_ms = max(at_ms - POLL_TIMEOUT_MS, last_commit_ms + 1)
                    fixes.append(PositionFix(waiting.pop(partition), valid_ms, partition, offset))
            last_commit_ms = at_ms
    return fixes


def _fetched(body: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    topics: Mapping[str, Mapping[str, Any]] = body["groups"][0]["topics"]
    return topics


# --- faults --------------------------------------------------------------------------------------


def kill_times(process: ClientProcess) -> list[int]:
    """When all connections of the client were closed."""
    return [e["at_ms"] for e in own_events(process, "fault") if e["what"] == "kill_connections"]


def unreachable_spans(process: ClientProcess) -> list[Unreachable]:
    """While connections are refused, or the broker is stopped, up to the first request after."""
    spans: list[Unreachable] = []
    begin_ms: int | None = None
    for event in process.events:
        what = event.get("what") or event.get("action")
        if what == "refuse_connections" or (event["client"] == "broker" and what == "stop"):
            begin_ms = event["at_ms"] if begin_ms is None else begin_ms
        elif begin_ms is not None and (
            what == "accept_connections_again"
            or (event["client"] == "broker" and what == "started")
        ):
            spans.append(Unreachable(begin_ms, _first_request_after(process, event["at_ms"])))
            begin_ms = None
    if begin_ms is not None:
        spans.append(Unreachable(begin_ms, 1_000_000_000))
    return spans


def held_spans(process: ClientProcess) -> list[tuple[int, int]]:
    """While all bytes of the client were held back: (from, to)."""
    spans: list[tuple[int, int]] = []
    begin_ms: int | None = None
    for event in own_events(process, "fault"):
        if event["what"] == "hold_all_bytes":
            begin_ms = event["at_ms"]
        elif event["what"] == "release_held_bytes" and begin_ms is not None:
            spans.append((begin_ms, event["at_ms"]))
            begin_ms = None
    return spans


def let_through_ms(spans: Sequence[tuple[int, int]], now_ms: int) -> int:
    """When what is sent now is seen, given the ``held_spans`` in which all waits for their end."""
    return next((end for begin, end in spans if begin <= now_ms < end), now_ms)


def _first_request_after(process: ClientProcess, at_ms: int) -> int:
    later = (e["at_ms"] for e in own_events(process, "request") if e["at_ms"] >= at_ms)
    return min(later, default=1_000_000_000)


def action_events(process: ClientProcess) -> Sequence[TraceEvent]:
    """What the application did, in order, but for subscriptions that its own client refused."""
    found: list[TraceEvent] = []
    for event in own_events(process, "action", "action_begin", "action_end", "exception"):
        if event["kind"] != "exception":
            found.append(event)
        elif event.get("during", "").startswith("subscribe"):
            found.pop()
    return found


def returned_records(process: ClientProcess) -> list[tuple[int, dict[TopicPartition, int]]]:
    """When ``poll`` returned records, and the positions after that.

    A callback that outlasts its ``poll`` is followed by what that ``poll`` returns, before the next
    one begins (client §0.1): such records count from the end of the callback on.
    """
    ends = [c.begin_ms + c.length_ms for c in callbacks(process) if c.length_ms >= POLL_TIMEOUT_MS]
    found: list[tuple[int, dict[TopicPartition, int]]] = []
    for event in own_events(process, "records"):
        at_ms = event["at_ms"]
        for end_ms in ends:
            if 0 <= at_ms - end_ms <= _RECORDS_AFTER_CALLBACK_MS:
                ends.remove(end_ms)
                at_ms = end_ms
                break
        offsets = by_partition(event["offsets"])
        found.append((at_ms, {p: last + 1 for p, (_, last) in offsets.items()}))
    return found
