"""The variables of one member that all its parts share, and how they change.

Source: client §0.2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rebalance_sim.protocol.clients.common.backoff import BACKOFF_JITTER, backoff_ms
from rebalance_sim.protocol.clients.common.effects import Effect, StateChanged
from rebalance_sim.protocol.clients.common.member_config import MemberConfig
from rebalance_sim.protocol.clients.common.member_states import ClientState
from rebalance_sim.protocol.clients.common.requests import Requests
from rebalance_sim.protocol.clients.common.subscription_state import SubscriptionState
from rebalance_sim.protocol.clients.common.values import (
    NO_ASSIGNMENT,
    CommitIdentity,
    PartitionState,
)
from rebalance_sim.protocol.wire.topics import TopicPartition


class MemberCore:
    """Shared variables; ``effects`` collects what the event being handled leads to."""

    def __init__(
        self,
        *,
        config: MemberConfig,
        member_id: str,
        jitter: Callable[[], float],
        now_ms: int,
    ) -> None:
        self.config = config
        self.jitter = jitter
        self.now_ms = now_ms
        self.effects: list[Effect] = []
        self.requests = Requests(self.effects)
        self.state = ClientState.UNSUBSCRIBED
        self.transition_count = 0
        self.member_id = member_id
        self.member_epoch = 0
        self.commit_identity: CommitIdentity | None = None
        self.current = NO_ASSIGNMENT
        self.target = NO_ASSIGNMENT
        self.coordinator_id: int | None = None
        self.poll_expired = False
        self.subscription = SubscriptionState()
        self.ownership_version = 0
        self.assigned: Mapping[TopicPartition, PartitionState] = self.subscription.assigned
        self.fetchable: frozenset[TopicPartition] = frozenset()
        self.initializing: frozenset[TopicPartition] = frozenset()
        self._deliverable: frozenset[TopicPartition] = frozenset()
        self.is_closed = False

    def draw_backoff_ms(self, attempt: int, jitter: Callable[[], float] | None = None) -> int:
        """How long to wait after the ``attempt``-th failure (from 0) before another attempt."""
        return backoff_ms(
            attempt,
            initial_ms=self.config.retry_backoff_ms,
            max_ms=self.config.retry_backoff_max_ms,
            jitter=(jitter or self.jitter)() * BACKOFF_JITTER,
        )

    def show_state(self, state: ClientState) -> None:
        """Go to ``state``, and report that; staying is nothing."""
        if state is not self.state:
            self._change_state(state)

    def _change_state(self, state: ClientState) -> None:
        self.effects.append(
            StateChanged(from_state=self.state, to_state=state, member_epoch=self.member_epoch)
        )
        self.state = state
        self.transition_count += 1

    def adopt_epoch(self, member_epoch: int) -> None:
        """Take an epoch over; only one above 0 makes commits count as a member's."""
        if member_epoch == self.member_epoch:
            return
        self.member_epoch = member_epoch
        self.commit_identity = (
            CommitIdentity(self.member_id, member_epoch) if member_epoch > 0 else None
        )

    def forget_assignments(self) -> None:
        """Nothing is assigned, nothing has been reconciled, nothing has been received."""
        self.subscription.clear()
        self.current = NO_ASSIGNMENT
        self.target = NO_ASSIGNMENT
