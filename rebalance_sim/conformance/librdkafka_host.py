"""The host of the librdkafka client: it also plays the connection to the coordinator.

librdkafka's application is inside a blocking ``consume`` unless it says that it is not, so what
waits for it runs at once. Not recorded, and therefore taken from the states that it logs: when a
broker could be asked for the coordinator, when a connection was established, and whether the main
thread looked while one was down (a connection that is back within a moment goes unnoticed). One
that is opened while all bytes are held back is established when they pass: what the member has sent
over it by then, and not given up, is sent then. Backoffs are
drawn, and draws are not recorded: those of searches are the shortest, and searches wait until they
were sent; those of repeated commits are the ones that fit.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

from rebalance_sim.conformance import client_input as feed
from rebalance_sim.conformance.client_host import ROUND_TRIP_MS, Order, ReplayHost
from rebalance_sim.conformance.client_observed import RecordedRequest
from rebalance_sim.conformance.client_trace import TraceEvent
from rebalance_sim.conformance.librdkafka_input import (
    CoordinatorChange,
    coordinator_changes,
    poll_check_lag_ms,
)
from rebalance_sim.protocol.clients.common import effects, events
from rebalance_sim.protocol.clients.common.backoff import BACKOFF_JITTER
from rebalance_sim.protocol.clients.common.consumer_config import ConsumerConfig
from rebalance_sim.protocol.clients.common.values import CallbackKind
from rebalance_sim.protocol.clients.librdkafka.consumer.librdkafka_consumer import LibrdkafkaMember
from rebalance_sim.protocol.clients.librdkafka.librdkafka_machine import LibrdkafkaMachine
from rebalance_sim.protocol.clients.librdkafka.librdkafka_states import CoordinatorState

_NO_BROKER_MS = 150  # for so long a search may wait for a broker that can be asked
_RETRY_BACKOFFS_MS = (100, 200)
_LONGEST_DRAW = 1.3  # the connection may not have been there when the backoff was over
_CLOCKS_MS = 3  # requests are stamped by the proxy, states by the client
_LOOK_MS = 2


class LibrdkafkaHost(ReplayHost):
    """One replay against ``LibrdkafkaMember``."""

    member: LibrdkafkaMachine

    callback_names: ClassVar[Mapping[CallbackKind, str]] = {
        CallbackKind.ASSIGNED: "on_assign",
        CallbackKind.REVOKED: "on_revoke",
        CallbackKind.LOST: "on_lost",
    }

    def __init__(self, process: feed.ClientProcess) -> None:
        self._drawn: list[RecordedRequest] = []  # commits for whose backoff a draw was made
        super().__init__(process)
        self._changes = coordinator_changes(process)
        self._is_away = True  # nothing is consumed before the application subscribes
        self._asked: list[int] = []  # searches without a recorded answer
        self._search_at_ms = self.now_ms  # when the last search left, or will
        self._connected_at_ms = self.now_ms  # when the last connection was or will be established

    def make_member(self) -> LibrdkafkaMachine:
        """See ``ReplayHost``."""
        config = self.process.config
        assert isinstance(config, ConsumerConfig)
        return LibrdkafkaMember(
            rules=self.rules,
            config=config,
            member_id=self.process.member_id,
            jitter=shortest,
            retry_jitter=self.draw_retry,
            now_ms=self.now_ms,
        )

    def search_body(self) -> Mapping[str, Any]:
        """See ``ReplayHost``."""
        return {"key": self.process.config.group_id, "key_type": 0}

    def schedule_inputs(self) -> None:
        """See ``ReplayHost``; and when the connection was seen to be down."""
        super().schedule_inputs()
        for change in self._changes:
            if change.leads("up", "query-coord"):
                look = partial(self._look_at_connection, change)
                end = self._next_change(change.at_ms, "wait-coord", "term")
                if end is not None and end.at_ms - change.at_ms <= _LOOK_MS:
                    # It looked before it learnt what was lost, for that ended its life.
                    self.at(change.at_ms, Order.KNOWLEDGE, look)
                else:
                    self.at(change.at_ms + _LOOK_MS, Order.TICK, look)

    def on_effect(self, effect: effects.Effect) -> None:
        """States, and what becomes of the connection."""
        match effect:
            case effects.OwnStateChanged():
                content = {"from": effect.from_state, "to": effect.to_state}
                # A search that waits for a broker is no search yet.
                waits = effect.to_state == CoordinatorState.WAIT_COORD.value
                self.observe(effect.what, content, self._search_at_ms if waits else None)
            case effects.ConnectCoordinator():
                self._connect()
            case effects.CloseConnection():
                self.forget(self.in_flight(searches_too=False))
            case _:
                pass  # the rest is not compared

    # --- the application --------------------------------------------------------------------------

    def feed(self, event: events.Event) -> None:
        """See ``ReplayHost``; whatever waits for the application then runs, if it can."""
        super().feed(event)
        if not self._is_away and self.member.poll_due_ms is not None:
            super().feed(events.Poll())

    def act(self, event: TraceEvent) -> None:
        """See ``ReplayHost``; and the application's ways to and from ``consume``."""
        action, kind = event.get("action", ""), event["kind"]
        super().act(event)
        if action.startswith("subscribe") and self._is_away:
            self._set_away(False)
        elif action == "stop_polling":
            if kind == "action_begin":
                lag_ms = poll_check_lag_ms(self.process, self.now_ms)
                self.member.poll_check_lag_ms = lag_ms
            self._set_away(kind == "action_begin")

    def _set_away(self, is_away: bool) -> None:
        self._is_away = is_away
        self.feed(events.PollingStopped() if is_away else events.PollingResumed())

    def end_callback(self, effect: effects.RunCallback, begin_ms: int, throws: bool) -> None:
        """See ``ReplayHost``; partitions are assigned and unassigned inside of the callback."""
        super().feed(events.CallbackCompleted(failed=throws))
        self.observe_callback(effect, begin_ms)
        if not self._is_away and self.member.poll_due_ms is not None:
            super().feed(events.Poll())

    # --- searches ---------------------------------------------------------------------------------

    def send(self, number: int, api: str, body: Mapping[str, Any]) -> None:
        """See ``ReplayHost``; a search waits for a broker that can be asked, all else for a
        connection whose first bytes are held back."""
        if api != "FindCoordinator":
            if self.now_ms < self._connected_at_ms:
                self.expect(number, api)
                sent = partial(self.send_now, number, api, body)
                self.at(self._connected_at_ms, Order.ANSWER, sent)
            else:
                super().send(number, api, body)
            return
        self._search_at_ms = self.now_ms
        span = self.unreachable_span
        waiting = self.recorded.waiting(api)
        if span is not None:
            self._search_at_ms = span.end_ms
        elif waiting and 0 < waiting[0].at_ms - self.now_ms <= _NO_BROKER_MS:
            self._search_at_ms = waiting[0].at_ms
        self.expect(number, api)
        if self._search_at_ms == self.now_ms:
            self.send_now(number, api, body)
        else:
            self.at(self._search_at_ms, Order.ANSWER, partial(self.send_now, number, api, body))

    def draw_retry(self) -> float:
        """The draw that lets a commit be repeated when it was; nominal if none fits."""
        for recorded in self.recorded.waiting("OffsetCommit"):
            if recorded in self._drawn:
                continue
            wait_ms = recorded.at_ms - self.now_ms
            for nominal_ms in _RETRY_BACKOFFS_MS:
                draw = (wait_ms / nominal_ms - 1) / BACKOFF_JITTER
                if -1 <= draw <= _LONGEST_DRAW:
                    self._drawn.append(recorded)
                    return min(draw, 1.0)
        return 0.0

    def on_unanswered(self, number: int, api: str) -> None:
        """See ``ReplayHost``; a search is lost when the client says that it looks again."""
        if api != "FindCoordinator":
            return
        self._asked.append(number)
        lost = self._next_change(self.now_ms - _CLOCKS_MS, "wait-coord", "query-coord")
        if lost is not None and lost.at_ms - self.now_ms <= _NO_BROKER_MS:
            at_ms = max(lost.at_ms, self.now_ms + ROUND_TRIP_MS)
            self.at(at_ms, Order.ANSWER, self._lose_searches)

    def answer(self, number: int, api: str, response: TraceEvent) -> None:
        """See ``ReplayHost``; an answer may reach a client that has closed its connection."""
        if api == "FindCoordinator" and self._looks_again():
            self._asked.append(number)
            self._lose_searches()
        else:
            super().answer(number, api, response)

    def _looks_again(self) -> bool:
        """Whether the client continued searching when this answer came, instead of handling it."""
        if self.member.coordinator_state is not CoordinatorState.WAIT_COORD:
            return False
        next_change = next(
            (
                change
                for change in self._changes
                if change.at_ms >= self.now_ms - _CLOCKS_MS and change.from_state == "wait-coord"
            ),
            None,
        )
        return (
            next_change is not None
            and next_change.to_state == "query-coord"
            and next_change.at_ms - self.now_ms <= _CLOCKS_MS
        )

    def _lose_searches(self) -> None:
        """The broker that was asked has closed its connection."""
        asked, self._asked = self._asked, []
        lost = self.forget(asked)
        if lost:
            self.feed(events.Disconnected(correlation_ids=lost))

    # --- the connection ---------------------------------------------------------------------------

    def _connect(self) -> None:
        if self.unreachable_span is not None:
            closed = events.CoordinatorConnectionClosed()
            at_ms = self.now_ms + ROUND_TRIP_MS
            self.at(at_ms, Order.ANSWER, partial(self.feed, closed))
            return
        delay_ms = ROUND_TRIP_MS
        if self.member.coordinator_state is CoordinatorState.WAIT_BROKER_TRANSPORT:
            delay_ms = max(delay_ms, self._recorded_setup_ms())
        connected_at_ms = self.now_ms + delay_ms
        let_through_ms = feed.let_through_ms(self._held, self.now_ms)
        if let_through_ms > self.now_ms:
            connected_at_ms = self._connected_at_ms = let_through_ms + ROUND_TRIP_MS
        self.at(connected_at_ms, Order.ANSWER, partial(self.feed, events.CoordinatorConnected()))

    def _recorded_setup_ms(self) -> int:
        """How long the connection took at the time that is nearest to now."""
        known = [c for c in self._changes if c.to_state == "wait-broker-transport"]
        begin = min(known, key=lambda c: abs(c.at_ms - self.now_ms), default=None)
        if begin is None:
            return 0
        up = self._next_change(begin.at_ms, "wait-broker-transport", "up")
        return 0 if up is None else up.at_ms - begin.at_ms

    def _look_at_connection(self, change: CoordinatorChange) -> None:
        """The main thread saw the connection down."""
        if self.member.coordinator_state is CoordinatorState.UP:
            self.feed(events.CoordinatorConnectionClosed(is_isolated=change.forgets_coordinator))

    def _next_change(
        self, from_ms: int, from_state: str, to_state: str
    ) -> CoordinatorChange | None:
        return next(
            (c for c in self._changes if c.at_ms >= from_ms and c.leads(from_state, to_state)), None
        )


def shortest() -> float:
    """Every backoff is as short as a draw can make it."""
    return -1.0
