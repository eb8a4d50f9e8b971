"""The hosts of franz-go's clients, of either protocol.

The application polls on and on, unless it stays with what a poll returned, so polls need not be
inferred. Not recorded, and therefore inferred: metadata, which are there from the beginning; the
jitter of backoffs, which is the one that fits; that the first request over a connection that was
closed meanwhile is lost; and when kgo had begun to count the interval of commits.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

from rebalance_sim.conformance import client_input as feed
from rebalance_sim.conformance.classic_host import ClassicExchanges
from rebalance_sim.conformance.client_host import (
    ROUND_TRIP_MS,
    Order,
    ReplayHost,
)
from rebalance_sim.conformance.client_trace import TraceEvent
from rebalance_sim.protocol.clients.common import events
from rebalance_sim.protocol.clients.common.backoff import BACKOFF_JITTER
from rebalance_sim.protocol.clients.common.client_kind import NewMember
from rebalance_sim.protocol.clients.common.effects import RunCallback
from rebalance_sim.protocol.clients.common.values import CallbackKind
from rebalance_sim.protocol.clients.franz.franz_machine import FranzMachine
from rebalance_sim.protocol.wire.topics import TopicPartition

_APIS = (
    *("FindCoordinator", "ConsumerGroupHeartbeat", "OffsetCommit", "OffsetFetch"),
    *("JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup"),
)
_BACKOFFS_MS = (250, 500, 1_000, 2_000, 4_000)
_LONGEST_DRAW = 1.3  # on a busy machine a goroutine wakes up late


class FranzHost(ReplayHost):
    """One replay against a member of franz-go."""

    member: FranzMachine

    callback_names: ClassVar[Mapping[CallbackKind, str]] = {
        CallbackKind.ASSIGNED: "OnPartitionsAssigned",
        CallbackKind.REVOKED: "OnPartitionsRevoked",
        CallbackKind.LOST: "OnPartitionsLost",
    }

    def __init__(self, process: feed.ClientProcess) -> None:
        super().__init__(process)
        self._is_away = True
        self._poll_at_ms: int | None = None
        self._is_cut = False  # connections were closed, and nothing was sent since
        self._called_back: frozenset[TopicPartition] = frozenset()

    def make_member(self) -> FranzMachine:
        """See ``ReplayHost``."""
        process = self.process
        new = NewMember(
            config=process.config,
            member_id=process.member_id,
            rules=self.rules,
            jitter=self.draw,
            now_ms=self.now_ms,
        )
        member = process.kind.make(new)
        assert isinstance(member, FranzMachine)
        return member

    def draw(self) -> float:
        """The draw after which the next request left when it did; nominal if none fits."""
        times = [r.at_ms for api in _APIS for r in self.recorded.waiting(api)]
        for at_ms in sorted(times):
            for nominal_ms in _BACKOFFS_MS:
                draw = ((at_ms - self.now_ms) / nominal_ms - 1) / BACKOFF_JITTER
                if -1 <= draw <= _LONGEST_DRAW:
                    return min(draw, 1.0)
        return 0.0

    # --- inputs -----------------------------------------------------------------------------------

    def schedule_inputs(self) -> None:
        """See ``ReplayHost``; and topics, as soon as the client looks for its coordinator."""
        super().schedule_inputs()
        first = self.recorded.waiting("FindCoordinator")
        self.at(first[0].at_ms if first else self.now_ms, Order.KNOWLEDGE, self.know_topics)
        for at_ms in feed.kill_times(self.process):
            self.at(at_ms, Order.LOSS, self._cut)

    def schedule_name(self, name: feed.TopicName) -> None:
        """See ``ReplayHost``; names are known with the topics."""

    def _cut(self) -> None:
        self._is_cut = True

    def feed(self, event: events.Event) -> None:
        """See ``ReplayHost``; the application polls again when it has got records, unless it stays
        with them, and as soon as a poll does anything."""
        super().feed(event)
        if isinstance(event, events.RecordsReturned):
            self.at(self.now_ms, Order.POLL, self._poll_again)
        due_ms = self.member.poll_due_ms
        if due_ms is not None and not self._is_away:
            at_ms = max(due_ms, self.now_ms)
            if self._poll_at_ms is None or at_ms < self._poll_at_ms:
                self._poll_at_ms = at_ms
                self.at(at_ms, Order.POLL, self._poll)

    @property
    def _may_poll(self) -> bool:
        member = self.member
        is_free = member.running_callback is None and member.blocked_in is None
        return is_free and not self._is_away and not member.is_closed

    def _poll_again(self) -> None:
        if self._may_poll:
            self.feed(events.Poll())

    def _poll(self) -> None:
        self._poll_at_ms = None
        due_ms = self.member.poll_due_ms
        if due_ms is not None and due_ms <= self.now_ms and self._may_poll:
            self.feed(events.Poll())

    def act(self, event: TraceEvent) -> None:
        """See ``ReplayHost``; and the application's ways to and from a poll."""
        action = event.get("action", "")
        if action in feed.SYNC_COMMITS and self._is_in_callback(event["at_ms"]):
            return  # made when the callback runs
        super().act(event)
        if action == "subscribe":
            self._set_away(False)
        elif action == "stop_polling":
            self._set_away(event["kind"] == "action_begin")

    def _is_in_callback(self, at_ms: int) -> bool:
        return any(0 <= at_ms - c.begin_ms <= c.length_ms for c in feed.callbacks(self.process))

    def _set_away(self, is_away: bool) -> None:
        self._is_away = is_away
        self.feed(events.PollingStopped() if is_away else events.PollingResumed())

    def end_callback(self, effect: RunCallback, begin_ms: int, throws: bool) -> None:
        """See ``ReplayHost``; kgo says nowhere what is assigned: a trace has what callbacks had."""
        if effect.kind is CallbackKind.ASSIGNED:
            self._called_back |= effect.partitions
        else:
            self._called_back -= effect.partitions
        content = {
            "callback": self.callback_names[effect.kind],
            "partitions": effect.partitions,
            "assignment_at_end": self._called_back,
        }
        self.observe("callback", content, begin_ms)
        self.feed(events.CallbackCompleted(failed=throws))

    # --- the network ------------------------------------------------------------------------------

    def send(self, number: int, api: str, body: Mapping[str, Any]) -> None:
        """See ``ReplayHost``; ids that kgo makes are numbered as those of the trace."""
        if self._is_cut and api != "FindCoordinator":
            self._is_cut = False
            lost = events.Disconnected(correlation_ids=(number,))
            self.at(self.now_ms + ROUND_TRIP_MS, Order.LOSS, partial(self.feed, lost))
            return
        if "member_id" in body:
            body = {**body, "member_id": _numbered(body["member_id"])}
        if "groups" in body:
            (group,) = body["groups"]
            body = {**body, "groups": [{**group, "member_id": _numbered(group["member_id"])}]}
        super().send(number, api, body)


class FranzClassicHost(ClassicExchanges, FranzHost):
    """One that speaks the classic protocol."""


def _numbered(member_id: str | None) -> str | None:
    """``A#1~2`` of the member is the next id of the trace, ``A#2``."""
    if not member_id or "~" not in member_id:
        return member_id
    base, _, count = member_id.partition("~")
    client, _, number = base.partition("#")
    return f"{client}#{int(number) + int(count) - 1}"
