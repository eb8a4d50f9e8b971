"""The host of a Java client that speaks the classic protocol.

Its ``poll`` waits for records and continues at once with whatever else happens meanwhile, so polls
need not be inferred: the application polls whenever the member wants it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rebalance_sim.conformance import client_input as feed
from rebalance_sim.conformance.classic_bodies import (
    classic_heartbeat_body,
    classic_heartbeat_response,
    join_body,
    join_response,
    leave_body,
    leave_response,
    sync_body,
    sync_response,
)
from rebalance_sim.conformance.client_host import LATE_TICK_MS, ROUND_TRIP_MS, Order, ReplayHost
from rebalance_sim.conformance.client_trace import TraceEvent
from rebalance_sim.protocol.clients.common import effects, events
from rebalance_sim.protocol.clients.common.classic_config import ClassicConsumerConfig
from rebalance_sim.protocol.clients.java.classic.java_classic import ClassicConsumer

_ANSWERS: Mapping[str, tuple[Callable[..., events.Event], Callable[[Mapping[str, Any]], Any]]] = {
    "JoinGroup": (events.JoinGroupAnswered, join_response),
    "SyncGroup": (events.SyncGroupAnswered, sync_response),
    "Heartbeat": (events.ClassicHeartbeatAnswered, classic_heartbeat_response),
    "LeaveGroup": (events.LeaveGroupAnswered, leave_response),
}
"""Api -> the event that brings its answer, and what reads a recorded one."""

_REQUESTS: Mapping[type, tuple[str, Callable[[Any], dict[str, Any]]]] = {
    effects.SendJoinGroup: ("JoinGroup", join_body),
    effects.SendSyncGroup: ("SyncGroup", sync_body),
    effects.SendClassicHeartbeat: ("Heartbeat", classic_heartbeat_body),
    effects.SendLeaveGroup: ("LeaveGroup", leave_body),
}
"""Effect -> its api, and what spells the request."""

_WAKE_UP_MS = 1


class ClassicExchanges(ReplayHost):
    """What hosts of all classic clients do with requests and answers."""

    def on_effect(self, effect: effects.Effect) -> None:
        """Requests of the classic protocol; a leader asks for topics, and knows them soon."""
        if type(effect) in _REQUESTS:
            sent: Any = effect
            api, body = _REQUESTS[type(effect)]
            self.send(sent.correlation_id, api, self.as_sent(api, body(sent.request)))
        elif isinstance(effect, effects.RequestMetadata):
            self.at(self.now_ms + ROUND_TRIP_MS, Order.KNOWLEDGE, self.know_topics)
        else:
            super().on_effect(effect)

    def as_sent(self, api: str, body: dict[str, Any]) -> dict[str, Any]:
        """The request in the version of this client."""
        return body

    def late_tick_ms(self, deadline_ms: int) -> int:
        """See ``ReplayHost``; a thread sleeps until it is woken."""
        waiting = self.recorded.waiting("Heartbeat")
        if waiting and 0 < waiting[0].at_ms - deadline_ms <= LATE_TICK_MS:
            return waiting[0].at_ms
        return deadline_ms

    def answer(self, number: int, api: str, response: TraceEvent) -> None:
        """See ``ReplayHost``."""
        if api not in _ANSWERS:
            super().answer(number, api, response)
        elif self.forget([number]):
            event, read = _ANSWERS[api]
            self.feed(event(correlation_id=number, response=read(response["body"])))


class ClassicHost(ClassicExchanges):
    """One replay against ``ClassicConsumer``."""

    member: ClassicConsumer

    def __init__(self, process: feed.ClientProcess) -> None:
        super().__init__(process)
        self._poll_at_ms: int | None = None

    def make_member(self) -> ClassicConsumer:
        """See ``ReplayHost``."""
        config = self.process.config
        assert isinstance(config, ClassicConsumerConfig)
        return ClassicConsumer(
            config=config,
            rules=self.rules,
            now_ms=self.now_ms,
        )

    def schedule_inputs(self) -> None:
        """See ``ReplayHost``; topics are there from the beginning."""
        super().schedule_inputs()
        self.at(self.now_ms, Order.KNOWLEDGE, self.know_topics)

    def act(self, event: TraceEvent) -> None:
        """See ``ReplayHost``; the application polls once it has subscribed."""
        super().act(event)
        if event.get("action", "").startswith("subscribe"):
            self.feed(events.PollingResumed())

    def feed(self, event: events.Event) -> None:
        """See ``ReplayHost``; the ``poll`` around it continues with what is due by then."""
        super().feed(event)
        due_ms = self.member.poll_due_ms
        if due_ms is not None and self.member.is_polling:
            at_ms = max(due_ms, self.now_ms)
            if self._poll_at_ms is None or at_ms < self._poll_at_ms:
                self._poll_at_ms = at_ms
                self.at(at_ms, Order.POLL, self._poll)

    def _poll(self) -> None:
        self._poll_at_ms = None
        due_ms = self.member.poll_due_ms
        if due_ms is not None and due_ms <= self.now_ms and self.member.is_polling:
            self.feed(events.Poll())

    def late_tick_ms(self, deadline_ms: int) -> int:
        """See ``ReplayHost``. While bytes are held back it is not seen when a heartbeat is sent;
        as elsewhere, a thread needs a moment to wake up."""
        if self.seen_ms("Heartbeat") > self.now_ms:
            return deadline_ms + _WAKE_UP_MS
        return super().late_tick_ms(deadline_ms)

    # --- effects ----------------------------------------------------------------------------------

    def on_effect(self, effect: effects.Effect) -> None:
        """What this client logs nothing of is not compared; topics are there from the beginning."""
        if isinstance(effect, effects.CloseConnection):
            self.forget(self.in_flight(searches_too=False))
        elif not isinstance(effect, effects.RequestMetadata):
            super().on_effect(effect)

    def end_callback(self, effect: effects.RunCallback, begin_ms: int, throws: bool) -> None:
        """See ``ReplayHost``."""
        self.observe_callback(effect, begin_ms)
        self.feed(events.CallbackCompleted(failed=throws))
