"""The host that drives a member from a trace: it plays the network, the broker and the application.

Source: client §13. Answers are the recorded ones, handed to the member's own requests; what the
member asks for is recorded with its time, for the comparison. What differs by kind of client stands
in ``java_host`` and ``librdkafka_host``.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

from rebalance_sim.conformance import client_input as feed
from rebalance_sim.conformance.client_bodies import (
    by_partition,
    commit_body,
    commit_response,
    fetch_body,
    fetch_response,
    heartbeat_body,
    heartbeat_response,
    search_error,
)
from rebalance_sim.conformance.client_input import Unreachable
from rebalance_sim.conformance.client_observed import (
    SAME_REQUEST_WINDOW_MS,
    Observed,
    RecordedRequests,
)
from rebalance_sim.conformance.client_trace import ClientProcess, TraceEvent
from rebalance_sim.protocol.clients.common import effects, events
from rebalance_sim.protocol.clients.common.group_member import GroupMember
from rebalance_sim.protocol.clients.common.values import CallbackKind, MembershipOperation
from rebalance_sim.protocol.clients.versions import client_rules
from rebalance_sim.protocol.versions.semantics import DEFAULT_SEMANTICS
from rebalance_sim.protocol.wire.errors import ErrorCode

LATE_TICK_MS = 150  # a heartbeat may leave so late: a client's thread sleeps until it is woken
ROUND_TRIP_MS = 1
_EVENT_LIMIT = 200_000


class Order:
    """What happens first within one millisecond."""

    KNOWLEDGE, ANSWER, LOSS, RECORDS, CALLBACK_END, ACTION, POLL, TICK = range(8)


class ReplayHost:
    """One replay. A kind of client makes its member and adds what its application does."""

    callback_names: ClassVar[Mapping[CallbackKind, str]] = {
        kind: kind.value for kind in CallbackKind
    }
    """How traces of this kind of client name its callbacks; as Java does, unless it says."""

    def __init__(self, process: ClientProcess) -> None:
        self.process = process
        self.now_ms = feed.created_ms(process)
        self.member = self.make_member()
        self.recorded = RecordedRequests(process)
        self._end_ms = feed.end_of_process_ms(process)
        self._observed: list[Observed] = []
        self._queue: list[tuple[int, int, int, Callable[[], None]]] = []
        self._sequence = 0
        self._in_flight: dict[int, str] = {}
        self.unreachable = feed.unreachable_spans(process)
        self._held = feed.held_spans(process)
        self._callbacks = feed.callbacks(process)
        self._callback_counts: dict[CallbackKind, int] = {}
        self._names: dict[str, str] = {}
        self._fixes = feed.positions(process)
        self._async_count = 0

    def run(self) -> list[Observed]:
        """Play everything that is recorded, and let the member's own deadlines come."""
        self.schedule_inputs()
        self.feed(events.Tick())
        for _ in range(_EVENT_LIMIT):
            tick_ms = self._next_tick_ms()
            if self._queue and (tick_ms is None or self._queue[0][:2] <= (tick_ms, Order.TICK)):
                at_ms, _, _, action = heapq.heappop(self._queue)
                if at_ms > self._end_ms:
                    return self._observed
                self.now_ms = max(self.now_ms, at_ms)
                action()
            elif tick_ms is not None and tick_ms <= self._end_ms:
                self.now_ms = max(self.now_ms, tick_ms)
                self.feed(events.Tick())
            else:
                return self._observed
        raise RuntimeError(f"{self.process.name}: the member does not come to rest")

    # --- what a kind of client adds ---------------------------------------------------------------

    def make_member(self) -> GroupMember:
        """The member, as it is when the process creates its consumer."""
        raise NotImplementedError

    @property
    def rules(self) -> Any:
        """Those of its kind and version, with the issues that were released."""
        return client_rules(self.process.kind, self.process.version, DEFAULT_SEMANTICS)

    def search_body(self) -> Mapping[str, Any]:
        """What a search for the coordinator looks like in a trace, in its newest version."""
        return {"key_type": 0, "coordinator_keys": [self.process.config.group_id]}

    def end_callback(self, effect: effects.RunCallback, begin_ms: int, throws: bool) -> None:
        """The running callback returns."""
        raise NotImplementedError

    def on_effect(self, effect: effects.Effect) -> None:
        """An effect that only this kind of client has, or that only its traces show."""

    def delay_of_callback_ms(self) -> int:
        """How long a callback that is asked for now waits for an application that is blocked."""
        return 0

    # --- inputs -----------------------------------------------------------------------------------

    def at(self, at_ms: int, order: int, action: Callable[[], None]) -> None:
        """Do something later."""
        self._sequence += 1
        heapq.heappush(self._queue, (max(at_ms, self.now_ms), order, self._sequence, action))

    def schedule_inputs(self) -> None:
        """Enter everything that is known beforehand."""
        process = self.process
        for name in feed.topic_names(process):
            self.schedule_name(name)
        for at_ms in feed.kill_times(process):
            self.at(at_ms, Order.ANSWER, partial(self._lose_connection, searches_too=True))
        for span in self.unreachable:
            self.at(span.begin_ms, Order.ANSWER, partial(self._lose_connection, searches_too=False))
        for event in feed.action_events(process):
            self.at(event["at_ms"], Order.ACTION, partial(self.act, event))
        for at_ms, positions in feed.returned_records(process):
            records = events.RecordsReturned(positions=positions)
            self.at(at_ms, Order.RECORDS, partial(self.feed, records))

    def schedule_name(self, name: feed.TopicName) -> None:
        """A topic becomes known."""
        self.at(name.at_ms, Order.KNOWLEDGE, partial(self.know, name.topic))

    def know(self, topic: str) -> None:
        """The client's metadata has this topic from now on."""
        self._names[topic] = topic
        self.feed(events.MetadataKnown(topic_names=dict(self._names)))

    def know_topics(self) -> None:
        """The client's metadata has every topic of the trace, with its partitions."""
        topics = self.process.topics
        self.feed(events.MetadataKnown(topic_names={t: t for t in topics}, partition_counts=topics))

    def _schedule_positions(self, response_id: int) -> None:
        """An offset fetch has been answered: the positions that follow from it come in time."""
        for fix in self._fixes:
            if fix.response_id == response_id:
                known = events.PositionsKnown(positions={fix.partition: fix.position})
                self.at(fix.at_ms, Order.KNOWLEDGE, partial(self.feed, known))

    def act(self, event: TraceEvent) -> None:
        """The application calls its consumer."""
        action = event.get("action", "")
        if action == "subscribe":
            names = frozenset(event["topics"])
            has_listener = event.get("listener", True)
            self.feed(events.Subscribe(topic_names=names, has_listener=has_listener))
        elif action == "subscribe_pattern":
            self.feed(events.Subscribe(topic_regex=event["pattern"]))
        elif action == "subscribe_java_pattern":
            self.feed(events.Subscribe(matches_locally=True))
        elif action in feed.ASYNC_COMMITS and self.member.running_callback is None:
            if event["kind"] != "action_end":
                self.commit(is_sync=False, offsets=event.get("offsets"))
        elif event["kind"] != "action_begin":
            return
        elif action == "unsubscribe":
            self.feed(events.Unsubscribe())
        elif action.startswith("close"):
            option = action.removeprefix("close").strip("()")
            operation = MembershipOperation(option) if option else MembershipOperation.DEFAULT
            self.feed(events.Close(operation=operation))
        elif action in feed.SYNC_COMMITS and self.member.running_callback is None:
            self.commit(is_sync=True, offsets=event.get("offsets"))

    def commit(self, *, is_sync: bool, offsets: Mapping[str, Any] | None) -> None:
        """The application commits these offsets, or all that it may."""
        self._async_count += 1
        self.feed(
            events.CommitOffsets(
                commit_id=self._async_count,
                is_sync=is_sync,
                offsets=by_partition(offsets) if offsets else None,
            )
        )

    # --- ticks ------------------------------------------------------------------------------------

    def _next_tick_ms(self) -> int | None:
        """The member's deadline; a heartbeat waits for the recorded time if that is a bit later."""
        deadline_ms = self.member.next_deadline_ms
        if deadline_ms is None or deadline_ms != self.member.next_heartbeat_due_ms:
            return deadline_ms
        return self.late_tick_ms(deadline_ms)

    def late_tick_ms(self, deadline_ms: int) -> int:
        """When the heartbeat that is due at ``deadline_ms`` was sent."""
        waiting = self.recorded.waiting("ConsumerGroupHeartbeat")
        if not waiting or not 0 < waiting[0].at_ms - deadline_ms <= LATE_TICK_MS:
            return deadline_ms
        # The proxy may have seen it late; then the next one comes less than an interval after it.
        interval_ms = self.member.heartbeat_interval_ms
        sent_ms = waiting[0].at_ms
        for count, later in enumerate(waiting[1:], 1):
            if later.body["topic_partitions"] is not None:
                break
            sent_ms = min(sent_ms, later.at_ms - count * interval_ms)
        return max(sent_ms, deadline_ms)

    # --- effects ----------------------------------------------------------------------------------

    def feed(self, event: events.Event) -> None:
        """Hand an event to the member, and carry out what it wants."""
        for effect in self.member.on_event(event, now_ms=self.now_ms):
            self._carry_out(effect)

    def _carry_out(self, effect: effects.Effect) -> None:
        match effect:
            case effects.SendHeartbeat(correlation_id=number, request=heartbeat):
                self.send(number, "ConsumerGroupHeartbeat", heartbeat_body(heartbeat))
            case effects.FindCoordinator(correlation_id=number):
                self.send(number, "FindCoordinator", self.search_body())
            case effects.SendCommit(correlation_id=number, request=commit):
                self.send(number, "OffsetCommit", commit_body(commit))
            case effects.SendOffsetFetch(correlation_id=number, request=fetch):
                self.send(number, "OffsetFetch", fetch_body(fetch))
            case effects.RunCallback():
                self._run_callback(effect)
            case _:
                self.on_effect(effect)

    def observe(self, what: str, content: Mapping[str, Any], at_ms: int | None = None) -> None:
        """Note what the member did."""
        self._observed.append(Observed(self.now_ms if at_ms is None else at_ms, what, content))

    @property
    def callback_count(self) -> int:
        """How many callbacks have been asked for."""
        return sum(self._callback_counts.values())

    def _run_callback(self, effect: effects.RunCallback) -> None:
        name = self.callback_names[effect.kind]
        count = self._callback_counts.get(effect.kind, 0)
        self._callback_counts[effect.kind] = count + 1
        recorded = [callback for callback in self._callbacks if callback.name == name]
        match = recorded[count] if count < len(recorded) else None
        begin_ms = self.now_ms + self.delay_of_callback_ms()
        end_ms = begin_ms if match is None else match.end_ms_if_begun_at(begin_ms)
        if match is not None:
            for after_ms in match.commits_after_ms:
                commit = partial(self.commit, is_sync=True, offsets=None)
                self.at(begin_ms + after_ms, Order.ACTION, commit)
        throws = match is not None and match.throws
        self.at(end_ms, Order.CALLBACK_END, partial(self.end_callback, effect, begin_ms, throws))

    def observe_callback(self, effect: effects.RunCallback, begin_ms: int) -> None:
        """Note a callback that is over, and what is assigned at its end."""
        content = {
            "callback": self.callback_names[effect.kind],
            "partitions": effect.partitions,
            "assignment_at_end": frozenset(self.member.assigned),
        }
        self.observe("callback", content, begin_ms)

    # --- the network ------------------------------------------------------------------------------

    @property
    def unreachable_span(self) -> Unreachable | None:
        """The time for which no broker can be reached now, if that is so."""
        return next((s for s in self.unreachable if s.begin_ms <= self.now_ms < s.end_ms), None)

    def expect(self, number: int, api: str) -> None:
        """A request is in flight from now on, or waits to be sent."""
        self._in_flight[number] = api

    def send(self, number: int, api: str, body: Mapping[str, Any]) -> None:
        """Send a request; while no broker can be reached, a search waits, and the rest fails."""
        self.expect(number, api)
        span = self.unreachable_span
        if span is None:
            self.send_now(number, api, body)
        elif api == "FindCoordinator":
            self.at(span.end_ms, Order.ANSWER, partial(self.send_now, number, api, body))
        else:
            self.at(self.now_ms + ROUND_TRIP_MS, Order.ANSWER, partial(self._lose, [number]))

    def send_now(self, number: int, api: str, body: Mapping[str, Any]) -> None:
        """Send a request, and let its recorded answer come at its time."""
        if number not in self._in_flight:
            return
        recorded = self.recorded.take(api, body, self.now_ms)
        seen_ms = self.seen_ms(api)
        if recorded is not None and recorded.waited_for_connection:
            setup_ms = recorded.at_ms - self.now_ms
            seen_ms += setup_ms if 0 < setup_ms <= SAME_REQUEST_WINDOW_MS else 0
        self.observe(api, body, seen_ms)
        if recorded is None or recorded.response is None:
            self.on_unanswered(number, api)
            return
        response = recorded.response
        at_ms = max(response["at_ms"], self.now_ms + ROUND_TRIP_MS)
        if response.get("delivered", True):
            self.at(at_ms, Order.ANSWER, partial(self.answer, number, api, response))
        else:
            # What came over the connection in that millisecond came before it was lost.
            self.at(at_ms, Order.LOSS, partial(self._lose_connection, searches_too=False))

    def seen_ms(self, api: str) -> int:
        """When a request that is sent now is seen on its way. After ``hold_all_bytes`` the proxy
        passes on what was sent meanwhile, and stamps it then."""
        return feed.let_through_ms(self._held, self.now_ms)

    def on_unanswered(self, number: int, api: str) -> None:
        """A request has been sent for which no answer is recorded."""

    def answer(self, number: int, api: str, response: TraceEvent) -> None:
        """The recorded answer to a request has come."""
        body = response["body"]
        if self._in_flight.pop(number, None) is None:
            return  # its connection was lost meanwhile
        if api == "ConsumerGroupHeartbeat":
            self.feed(
                events.HeartbeatAnswered(correlation_id=number, response=heartbeat_response(body))
            )
        elif api == "OffsetCommit":
            self.feed(events.CommitAnswered(correlation_id=number, response=commit_response(body)))
        elif api == "OffsetFetch":
            self.feed(
                events.OffsetFetchAnswered(correlation_id=number, response=fetch_response(body))
            )
            self._schedule_positions(response["id"])
        else:
            error_code = search_error(body)
            if error_code is ErrorCode.NONE:
                self.feed(events.CoordinatorFound(correlation_id=number, node_id=1))
            else:
                self.feed(
                    events.CoordinatorSearchFailed(correlation_id=number, error_code=error_code)
                )

    def _lose_connection(self, *, searches_too: bool) -> None:
        self._lose(self.in_flight(searches_too=searches_too))

    def in_flight(self, *, searches_too: bool) -> list[int]:
        """What waits for an answer."""
        return [
            number
            for number, api in self._in_flight.items()
            if searches_too or api != "FindCoordinator"
        ]

    def forget(self, numbers: Sequence[int]) -> tuple[int, ...]:
        """These requests are in flight no more; those of them that were."""
        return tuple(n for n in numbers if self._in_flight.pop(n, None) is not None)

    def _lose(self, numbers: Sequence[int]) -> None:
        lost = self.forget(numbers)
        if lost:
            self.feed(events.Disconnected(correlation_ids=lost))
