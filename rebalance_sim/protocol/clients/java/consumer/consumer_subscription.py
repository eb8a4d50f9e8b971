"""Subscription and positions of the asynchronous consumer, where defects get them wrong.

Source: client §7, §8.
"""

from __future__ import annotations

from rebalance_sim.protocol.clients.common.subscription_state import SubscriptionState
from rebalance_sim.protocol.clients.common.values import FetchState
from rebalance_sim.protocol.clients.java.consumer.member_rules import MemberRules
from rebalance_sim.protocol.wire.topics import TopicPartition

# Members of enums that every event asks for: to look one up takes as long as a call.
_FETCHING = FetchState.FETCHING


class ConsumerSubscription(SubscriptionState):
    """``SubscriptionState`` with the rules of what is committed and what is handed out."""

    def __init__(self, rules: MemberRules) -> None:
        super().__init__()
        self._rules = rules
        self._released: dict[TopicPartition, int] = {}  # stays empty but for one mutant
        self._deliverable: frozenset[TopicPartition] = frozenset()
        self._deliverable_version = -1

    def clear(self) -> None:
        """See ``SubscriptionState``."""
        self._remember_released(frozenset())
        super().clear()

    def assign(self, partitions: frozenset[TopicPartition], *, added_await_callback: bool) -> None:
        """See ``SubscriptionState``."""
        self._remember_released(partitions)
        super().assign(partitions, added_await_callback=added_await_callback)

    def _remember_released(self, kept: frozenset[TopicPartition]) -> None:
        if self._rules.forgets_released_positions:
            return
        for partition, state in self.assigned.items():
            if partition not in kept and state.fetch_state is _FETCHING:
                self._released[partition] = state.position

    def consumed(self) -> dict[TopicPartition, int]:
        """See ``SubscriptionState``."""
        return self._released | {
            partition: self._rules.offset_to_commit(state)
            for partition, state in self.assigned.items()
            if state.fetch_state is _FETCHING
        }

    @property
    def deliverable(self) -> frozenset[TopicPartition]:
        """See ``SubscriptionState``."""
        if self._deliverable_version != self.version:
            self._deliverable_version = self.version
            self._deliverable = frozenset(
                p for p, s in self.assigned.items() if self._rules.delivers_records_of(s)
            )
        return self._deliverable
