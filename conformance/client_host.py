"""The host that drives a member from a trace: it plays the network, the broker and the application.

Source: consumer-client.md, section 13. Answers are the recorded ones, handed to the member's own
requests; what the member asks for is recorded with its time, for the comparison.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from conformance import client_feed as feed
from conformance.client_bodies import (
    by_partition,
    commit_body,
    commit_response,
    fetch_body,
    fetch_response,
    heartbeat_body,
    heartbeat_response,
    search_error,
)
from conformance.client_trace import ClientProcess, TraceEvent
from protocol.errors import ErrorCode
from protocol.member import (
    Call,
    CallbackCompleted,
    ClientState,
    Close,
    CommitAnswered,
    CommitOffsets,
    ConsumerMember,
    CoordinatorFound,
    CoordinatorSearchFailed,
    Disconnected,
    Effect,
    Event,
    FindCoordinator,
    HeartbeatAnswered,
    MembershipOperation,
    MetadataKnown,
    OffsetFetchAnswered,
    PatternMatched,
    Poll,
    PositionsKnown,
    RecordsReturned,
    RunCallback,
    SendCommit,
    SendHeartbeat,
    SendOffsetFetch,
    StateChanged,
    Subscribe,
    Tick,
    Unsubscribe,
)
from protocol.semantics import SEMANTICS

__all__ = ["Observed", "drive"]

_SAME_REQUEST_WINDOW_MS = 700
_LATE_TICK_MS = 150  # a heartbeat may leave so late: J's loop sleeps in the network until woken
_ROUND_TRIP_MS = 1
_SAME_POLL_MS = 30  # how late a callback may begin in the poll that is known to have run it
_SAME_CONNECT_MS = 10  # requests so close to the first on a connection have waited with it
_EVENT_LIMIT = 200_000

# What happens first within one millisecond.
_KNOWLEDGE, _ANSWER, _RECORDS, _CALLBACK_END, _ACTION, _POLL, _TICK = range(7)

_APIS = ("ConsumerGroupHeartbeat", "FindCoordinator", "OffsetCommit", "OffsetFetch")


@dataclass(frozen=True, slots=True)
class Observed:
    """Something that the member did, in the words of a trace. ``what`` is its kind or its api."""

    at_ms: int
    what: str
    content: Mapping[str, Any]


class _Recorded:
    """A recorded request and what became of it.

    ``waited_for_connection``: its connection was new, so that the proxy saw it late.
    """

    __slots__ = ("at_ms", "body", "is_taken", "response", "waited_for_connection")

    def __init__(
        self, event: TraceEvent, response: TraceEvent | None, *, waited_for_connection: bool
    ) -> None:
        self.at_ms: int = event["at_ms"]
        self.body: Mapping[str, Any] = event["body"]
        self.response = event if not event.get("delivered", True) else response
        self.is_taken = False
        self.waited_for_connection = waited_for_connection


def drive(process: ClientProcess) -> list[Observed]:
    """Run a member through one recorded process; what it did, in order."""
    return _Host(process).run()


class _Host:
    """One replay."""

    def __init__(self, process: ClientProcess) -> None:
        self._process = process
        self._created_ms = feed.created_ms(process)
        self._end_ms = feed.end_of_process_ms(process)
        self._member = ConsumerMember(
            config=process.config,
            member_id=process.member_id,
            rules=SEMANTICS["kafka-4.3"].member(),
            now_ms=self._created_ms,
        )
        self._now_ms = self._created_ms
        self._observed: list[Observed] = []
        self._queue: list[tuple[int, int, int, Callable[[], None]]] = []
        self._sequence = 0
        self._recorded = _recorded_requests(process)
        self._in_flight: dict[int, str] = {}
        self._unreachable = feed.unreachable_spans(process)
        self._callbacks = feed.callbacks(process)
        self._callback_counts: dict[str, int] = {}
        self._names: dict[str, str] = {}
        self._late_names: list[feed.TopicName] = []
        self._finished_reconciliations = 0
        self._fixes = feed.positions(process)
        self._next_poll_ms = 0  # a poll that followed a callback at once is not counted twice
        self._async_count = 0

    def run(self) -> list[Observed]:
        """Play everything that is recorded, and let the member's own deadlines come."""
        self._schedule_inputs()
        self._feed(Tick())
        for _ in range(_EVENT_LIMIT):
            tick_ms = self._next_tick_ms()
            if self._queue and (tick_ms is None or self._queue[0][:2] <= (tick_ms, _TICK)):
                at_ms, _, _, action = heapq.heappop(self._queue)
                if at_ms > self._end_ms:
                    return self._observed
                self._now_ms = max(self._now_ms, at_ms)
                action()
            elif tick_ms is not None and tick_ms <= self._end_ms:
                self._now_ms = max(self._now_ms, tick_ms)
                self._feed(Tick())
            else:
                return self._observed
        raise RuntimeError(f"{self._process.name}: the member does not come to rest")

    # --- inputs -----------------------------------------------------------------------------------

    def _at(self, at_ms: int, order: int, action: Callable[[], None]) -> None:
        self._sequence += 1
        heapq.heappush(self._queue, (max(at_ms, self._now_ms), order, self._sequence, action))

    def _schedule_inputs(self) -> None:
        process = self._process
        for name in feed.topic_names(process):
            if name.after_reconciliations == 0:
                self._at(name.at_ms, _KNOWLEDGE, partial(self._know, name.topic))
            else:
                self._late_names.append(name)
        for at_ms, names in feed.pattern_matches(process):
            self._at(at_ms, _KNOWLEDGE, partial(self._feed, PatternMatched(topic_names=names)))
        for at_ms in feed.kill_times(process):
            self._at(at_ms, _ANSWER, partial(self._lose_connection, searches_too=True))
        for span in self._unreachable:
            self._at(span.begin_ms, _ANSWER, partial(self._lose_connection, searches_too=False))
        for event in feed.action_events(process):
            self._at(event["at_ms"], _ACTION, partial(self._act, event))
        for at_ms, positions in feed.returned_records(process):
            records = RecordsReturned(positions=positions)
            self._at(at_ms, _RECORDS, partial(self._feed, records))
        for poll in feed.polls(process):
            self._at(poll.at_ms, _POLL, partial(self._poll, poll))

    def _know(self, topic: str) -> None:
        self._names[topic] = topic
        self._feed(MetadataKnown(topic_names=dict(self._names)))

    def _count_reconciliation(self, effect: StateChanged) -> None:
        """Late names come when the member has acknowledged as often as the real client had."""
        if (effect.from_state, effect.to_state) != (
            ClientState.RECONCILING,
            ClientState.ACKNOWLEDGING,
        ):
            return
        self._finished_reconciliations += 1
        for name in self._late_names:
            if name.after_reconciliations == self._finished_reconciliations:
                self._at(name.at_ms, _KNOWLEDGE, partial(self._know, name.topic))

    def _schedule_positions(self, response_id: int) -> None:
        """An offset fetch has been answered: the positions that follow from it come in time."""
        for fix in self._fixes:
            if fix.response_id == response_id:
                known = PositionsKnown(positions={fix.partition: fix.position})
                self._at(fix.at_ms, _KNOWLEDGE, partial(self._feed, known))

    def _act(self, event: TraceEvent) -> None:
        action = event.get("action", "")
        if action == "subscribe":
            self._feed(Subscribe(topic_names=frozenset(event["topics"])))
        elif action == "subscribe_pattern":
            self._feed(Subscribe(topic_regex=event["pattern"]))
        elif action == "subscribe_java_pattern":
            self._feed(Subscribe(matches_locally=True))
        elif event["kind"] != "action_begin":
            return
        elif action == "unsubscribe":
            self._feed(Unsubscribe())
        elif action.startswith("close"):
            option = action.removeprefix("close").strip("()")
            operation = MembershipOperation(option) if option else MembershipOperation.DEFAULT
            self._feed(Close(operation=operation))
        elif action in ("commitSync", "commitAsync") and self._member.running_callback is None:
            self._commit(is_sync=action == "commitSync", offsets=event.get("offsets"))

    def _commit(self, *, is_sync: bool, offsets: Mapping[str, Any] | None) -> None:
        self._async_count += 1
        self._feed(
            CommitOffsets(
                commit_id=self._async_count,
                is_sync=is_sync,
                offsets=by_partition(offsets) if offsets else None,
            )
        )

    def _poll(self, poll: feed.RecordedPoll) -> None:
        """Poll, unless the application cannot, or the callback that shows this poll has begun."""
        member = self._member
        is_blocked = member.running_callback is not None or member.blocked_in is not None
        is_over = poll.shown_by_callback < sum(self._callback_counts.values())
        if is_blocked or is_over or self._now_ms < self._next_poll_ms:
            return
        self._feed(Poll())
        # The callback may have been asked for in the same millisecond, and inside the same poll.
        is_shown = poll.shown_by_callback < sum(self._callback_counts.values())
        again_ms = self._now_ms + feed.ONE_POLL_MS
        if poll.is_shown_by_callback and not is_shown and again_ms <= poll.at_ms + _SAME_POLL_MS:
            self._at(again_ms, _POLL, partial(self._poll, poll))

    # --- ticks ------------------------------------------------------------------------------------

    def _next_tick_ms(self) -> int | None:
        """The member's deadline; a heartbeat waits for the recorded time if that is a bit later."""
        deadline_ms = self._member.next_deadline_ms
        if deadline_ms is None or deadline_ms != self._member.next_heartbeat_due_ms:
            return deadline_ms
        waiting = [r for r in self._recorded["ConsumerGroupHeartbeat"] if not r.is_taken]
        if not waiting or not 0 < waiting[0].at_ms - deadline_ms <= _LATE_TICK_MS:
            return deadline_ms
        # The proxy may have seen it late; then the next one comes less than an interval after it.
        interval_ms = self._member.heartbeat_interval_ms
        sent_ms = waiting[0].at_ms
        for count, later in enumerate(waiting[1:], 1):
            if later.body["topic_partitions"] is not None:
                break
            sent_ms = min(sent_ms, later.at_ms - count * interval_ms)
        return max(sent_ms, deadline_ms)

    # --- effects ----------------------------------------------------------------------------------

    def _feed(self, event: Event) -> None:
        for effect in self._member.on_event(event, now_ms=self._now_ms):
            self._carry_out(effect)

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case SendHeartbeat(correlation_id=number, request=heartbeat):
                self._send(number, "ConsumerGroupHeartbeat", heartbeat_body(heartbeat))
            case FindCoordinator(correlation_id=number):
                body = {"key_type": 0, "coordinator_keys": [self._process.config.group_id]}
                self._send(number, "FindCoordinator", body)
            case SendCommit(correlation_id=number, request=commit):
                self._send(number, "OffsetCommit", commit_body(commit))
            case SendOffsetFetch(correlation_id=number, request=fetch):
                self._send(number, "OffsetFetch", fetch_body(fetch))
            case RunCallback():
                self._run_callback(effect)
            case StateChanged():
                self._count_reconciliation(effect)
                self._observe(
                    "state",
                    {
                        "from": effect.from_state.value,
                        "to": effect.to_state.value,
                        "member_epoch": effect.member_epoch,
                    },
                )
            case _:
                pass  # the rest is not compared: errors, results, requests that no trace holds

    def _observe(self, what: str, content: Mapping[str, Any], at_ms: int | None = None) -> None:
        self._observed.append(Observed(self._now_ms if at_ms is None else at_ms, what, content))

    def _run_callback(self, effect: RunCallback) -> None:
        name = effect.kind.value
        count = self._callback_counts.get(name, 0)
        self._callback_counts[name] = count + 1
        recorded = [callback for callback in self._callbacks if callback.name == name]
        match = recorded[count] if count < len(recorded) else None
        # ``unsubscribe`` looks for callbacks only after it has waited for one poll's length.
        is_in_unsubscribe = self._member.blocked_in is Call.UNSUBSCRIBE
        begin_ms = self._now_ms + (feed.POLL_TIMEOUT_MS if is_in_unsubscribe else 0)
        end_ms = begin_ms if match is None else match.end_ms_if_begun_at(begin_ms)
        if match is not None:
            for after_ms in match.commits_after_ms:
                self._at(
                    begin_ms + after_ms,
                    _ACTION,
                    partial(self._commit, is_sync=True, offsets=None),
                )
        self._at(
            end_ms,
            _CALLBACK_END,
            partial(self._end_callback, effect, begin_ms, match is not None and match.throws),
        )

    def _end_callback(self, effect: RunCallback, begin_ms: int, throws: bool) -> None:
        self._observe(
            "callback",
            {
                "callback": effect.kind.value,
                "partitions": effect.partitions,
                "assignment_at_end": frozenset(self._member.assigned),
            },
            begin_ms,
        )
        outlasts_poll = self._now_ms - begin_ms >= feed.POLL_TIMEOUT_MS
        if outlasts_poll:
            self._next_poll_ms = self._now_ms + feed.ONE_POLL_MS
        self._feed(CallbackCompleted(failed=throws, poll_follows=outlasts_poll))

    # --- the network ------------------------------------------------------------------------------

    def _send(self, number: int, api: str, body: Mapping[str, Any]) -> None:
        self._in_flight[number] = api
        span = next((s for s in self._unreachable if s.begin_ms <= self._now_ms < s.end_ms), None)
        if span is None:
            self._send_now(number, api, body)
        elif api == "FindCoordinator":
            self._at(span.end_ms, _ANSWER, partial(self._send_now, number, api, body))
        else:
            self._at(self._now_ms + _ROUND_TRIP_MS, _ANSWER, partial(self._lose, [number]))

    def _send_now(self, number: int, api: str, body: Mapping[str, Any]) -> None:
        if number not in self._in_flight:
            return
        recorded = self._take_recorded(api, body)
        seen_ms = self._now_ms
        if recorded is not None and recorded.waited_for_connection:
            setup_ms = recorded.at_ms - self._now_ms
            seen_ms += setup_ms if 0 < setup_ms <= _SAME_REQUEST_WINDOW_MS else 0
        self._observe(api, body, seen_ms)
        if recorded is None or recorded.response is None:
            return
        response = recorded.response
        at_ms = max(response["at_ms"], self._now_ms + _ROUND_TRIP_MS)
        if response.get("delivered", True):
            self._at(at_ms, _ANSWER, partial(self._answer, number, api, response))
        else:
            self._at(at_ms, _ANSWER, partial(self._lose_connection, searches_too=False))

    def _take_recorded(self, api: str, body: Mapping[str, Any]) -> _Recorded | None:
        """The recorded request that this one stands for: equal and near, else the next."""
        waiting = [recorded for recorded in self._recorded[api] if not recorded.is_taken]
        if not waiting:
            return None
        chosen = waiting[0]
        for recorded in waiting:
            if (
                abs(recorded.at_ms - self._now_ms) <= _SAME_REQUEST_WINDOW_MS
                and recorded.body == body
            ):
                chosen = recorded
                break
        chosen.is_taken = True
        return chosen

    def _answer(self, number: int, api: str, response: TraceEvent) -> None:
        body = response["body"]
        if self._in_flight.pop(number, None) is None:
            return  # its connection was lost meanwhile
        if api == "ConsumerGroupHeartbeat":
            self._feed(HeartbeatAnswered(correlation_id=number, response=heartbeat_response(body)))
        elif api == "OffsetCommit":
            self._feed(CommitAnswered(correlation_id=number, response=commit_response(body)))
        elif api == "OffsetFetch":
            self._feed(OffsetFetchAnswered(correlation_id=number, response=fetch_response(body)))
            self._schedule_positions(response["id"])
        else:
            error_code = search_error(body)
            if error_code is ErrorCode.NONE:
                self._feed(CoordinatorFound(correlation_id=number, node_id=1))
            else:
                self._feed(CoordinatorSearchFailed(correlation_id=number, error_code=error_code))

    def _lose_connection(self, *, searches_too: bool) -> None:
        self._lose(
            [
                number
                for number, api in self._in_flight.items()
                if searches_too or api != "FindCoordinator"
            ]
        )

    def _lose(self, numbers: Sequence[int]) -> None:
        lost = tuple(number for number in numbers if self._in_flight.pop(number, None) is not None)
        if lost:
            self._feed(Disconnected(correlation_ids=lost))


def _recorded_requests(process: ClientProcess) -> dict[str, list[_Recorded]]:
    responses = {e["id"]: e for e in process.events if e["kind"] == "response"}
    recorded: dict[str, list[_Recorded]] = {api: [] for api in _APIS}
    first_on_connection: dict[int, int] = {}
    for event in process.events:
        if event["kind"] != "request":
            continue
        at_ms, connection = event["at_ms"], event["conn"]
        first_ms = first_on_connection.setdefault(connection, at_ms)
        if event["api"] in recorded:
            recorded[event["api"]].append(
                _Recorded(
                    event,
                    responses.get(event["id"]),
                    waited_for_connection=at_ms - first_ms <= _SAME_CONNECT_MS,
                )
            )
    return recorded
