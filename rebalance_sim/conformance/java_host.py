"""The host of the Java client: what its application does is inferred from the trace.

Source: client §13.
"""

from __future__ import annotations

from functools import partial

from rebalance_sim.conformance import client_input as feed
from rebalance_sim.conformance.client_host import Order, ReplayHost
from rebalance_sim.protocol.clients.common.consumer_config import ConsumerConfig
from rebalance_sim.protocol.clients.common.effects import Effect, RunCallback, StateChanged
from rebalance_sim.protocol.clients.common.events import CallbackCompleted, PatternMatched, Poll
from rebalance_sim.protocol.clients.common.member_states import ClientState
from rebalance_sim.protocol.clients.common.values import Call
from rebalance_sim.protocol.clients.java.consumer.java_consumer import ConsumerMember

_SAME_POLL_MS = 30  # how late a callback may begin in the poll that is known to have run it


class JavaHost(ReplayHost):
    """One replay against ``ConsumerMember``."""

    def __init__(self, process: feed.ClientProcess) -> None:
        super().__init__(process)
        self._late_names: list[feed.TopicName] = []
        self._finished_reconciliations = 0
        self._next_poll_ms = 0  # a poll that followed a callback at once is not counted twice

    def make_member(self) -> ConsumerMember:
        """See ``ReplayHost``."""
        config = self.process.config
        assert isinstance(config, ConsumerConfig)
        return ConsumerMember(
            config=config,
            member_id=self.process.member_id,
            rules=self.rules,
            now_ms=self.now_ms,
        )

    def schedule_inputs(self) -> None:
        """See ``ReplayHost``; polls, and what a pattern matches, besides."""
        super().schedule_inputs()
        for at_ms, names in feed.pattern_matches(self.process):
            matched = PatternMatched(topic_names=names)
            self.at(at_ms, Order.KNOWLEDGE, partial(self.feed, matched))
        for poll in feed.polls(self.process):
            self.at(poll.at_ms, Order.POLL, partial(self._poll, poll))

    def schedule_name(self, name: feed.TopicName) -> None:
        """See ``ReplayHost``; a late name comes when the member has acknowledged as often as the
        real client had."""
        if name.after_reconciliations == 0:
            super().schedule_name(name)
        else:
            self._late_names.append(name)

    def on_effect(self, effect: Effect) -> None:
        """Changes of state; errors, results, and what no trace holds are not compared."""
        if not isinstance(effect, StateChanged):
            return
        self._count_reconciliation(effect)
        self.observe(
            "state",
            {
                "from": effect.from_state.value,
                "to": effect.to_state.value,
                "member_epoch": effect.member_epoch,
            },
        )

    def _count_reconciliation(self, effect: StateChanged) -> None:
        if (effect.from_state, effect.to_state) != (
            ClientState.RECONCILING,
            ClientState.ACKNOWLEDGING,
        ):
            return
        self._finished_reconciliations += 1
        for name in self._late_names:
            if name.after_reconciliations == self._finished_reconciliations:
                self.at(name.at_ms, Order.KNOWLEDGE, partial(self.know, name.topic))

    def _poll(self, poll: feed.RecordedPoll) -> None:
        """Poll, unless the application cannot, or the callback that shows this poll has begun."""
        member = self.member
        is_blocked = member.running_callback is not None or member.blocked_in is not None
        is_over = poll.shown_by_callback < self.callback_count
        if is_blocked or is_over or self.now_ms < self._next_poll_ms:
            return
        self.feed(Poll())
        # The callback may have been asked for in the same millisecond, and inside the same poll.
        is_shown = poll.shown_by_callback < self.callback_count
        again_ms = self.now_ms + feed.ONE_POLL_MS
        if poll.is_shown_by_callback and not is_shown and again_ms <= poll.at_ms + _SAME_POLL_MS:
            self.at(again_ms, Order.POLL, partial(self._poll, poll))

    def delay_of_callback_ms(self) -> int:
        """``unsubscribe`` looks for callbacks only after it has waited for one poll's length."""
        is_in_unsubscribe = self.member.blocked_in is Call.UNSUBSCRIBE
        return feed.POLL_TIMEOUT_MS if is_in_unsubscribe else 0

    def end_callback(self, effect: RunCallback, begin_ms: int, throws: bool) -> None:
        """See ``ReplayHost``; one that outlasts its ``poll`` is followed by the next at once."""
        self.observe_callback(effect, begin_ms)
        outlasts_poll = self.now_ms - begin_ms >= feed.POLL_TIMEOUT_MS
        if outlasts_poll:
            self._next_poll_ms = self.now_ms + feed.ONE_POLL_MS
        self.feed(CallbackCompleted(failed=throws, poll_follows=outlasts_poll))
