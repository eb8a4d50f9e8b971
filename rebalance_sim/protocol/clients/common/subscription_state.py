"""What the application has subscribed to, and what is assigned to it.

Source: client §0.2, §8. ``assigned`` is A of client §12, ``fetchable`` is F.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from rebalance_sim.protocol.clients.common.events import Subscribe
from rebalance_sim.protocol.clients.common.values import FetchState, PartitionState
from rebalance_sim.protocol.wire.topics import TopicPartition

_NO_NAMES: frozenset[str] = frozenset()

# Members of enums that every event asks for: to look one up takes as long as a call.
_FETCHING = FetchState.FETCHING


class SubscriptionState:
    """Subscription and assigned partitions of one consumer, shared by all parts of the member."""

    def __init__(self) -> None:
        self.exists = False
        self.has_listener = False
        self.topic_names = _NO_NAMES
        self.topic_regex: str | None = None
        self.assigned: dict[TopicPartition, PartitionState] = {}
        self.version = 0  # grows with every change of an assigned partition or its flags
        self._views_of_version = -1
        self._fetchable: frozenset[TopicPartition] = frozenset()
        self._initializing: frozenset[TopicPartition] = frozenset()

    def subscribe(self, event: Subscribe) -> None:
        """Replace the subscription; what is assigned stays until the coordinator takes it away."""
        self.exists = True
        self.has_listener = event.has_listener
        self.topic_names = event.topic_names
        self.topic_regex = event.topic_regex

    def cancel(self) -> None:
        """No subscription any more; what is assigned stays assigned."""
        self.exists = False
        self.topic_names = _NO_NAMES
        self.topic_regex = None

    def drop(self) -> None:
        """No subscription, nothing assigned."""
        self.cancel()
        self.clear()

    def clear(self) -> None:
        """Nothing is assigned any more."""
        if self.assigned:
            self.assigned = {}
            self.version += 1

    def assign(self, partitions: frozenset[TopicPartition], *, added_await_callback: bool) -> None:
        """Make ``partitions`` the assigned set.

        Kept partitions keep their position. Added ones start without one, and may not be fetched
        before the assigned callback if ``added_await_callback``. A kept partition that an earlier,
        failed reconciliation had marked for revocation is the member's again without that mark.
        """
        before = self.assigned
        after: dict[TopicPartition, PartitionState] = {}
        for partition in sorted(partitions):
            kept = before.get(partition)
            if kept is None:
                after[partition] = PartitionState(awaiting_assigned_callback=added_await_callback)
            else:
                kept.pending_revocation = False
                after[partition] = kept
        self.assigned = after
        self.version += 1

    def on_assigned_callback_done(self, partitions: frozenset[TopicPartition] | None) -> None:
        """The assigned callback has returned; None clears the flag of every assigned partition."""
        for partition, state in self.assigned.items():
            if partitions is None or partition in partitions:
                state.awaiting_assigned_callback = False
        self.version += 1

    def mark_pending_revocation(self, partitions: frozenset[TopicPartition]) -> None:
        """Stop fetching and handing out records of these partitions; they stay assigned."""
        for partition in partitions:
            state = self.assigned.get(partition)
            if state is not None:
                state.pending_revocation = True
        self.version += 1

    def call_off_revocation(self) -> None:
        """The target is what is owned again: what a failed revocation had marked stays."""
        marked = [state for state in self.assigned.values() if state.pending_revocation]
        for state in marked:
            state.pending_revocation = False
        if marked:
            self.version += 1

    def rename(
        self, renamed: Mapping[TopicPartition, TopicPartition], *, fetch_state: FetchState
    ) -> None:
        """The names of assigned topics stand for other ids than before: assigned partitions are
        those from now on, and are that far on the way to a position there."""
        self.assigned = {
            renamed.get(partition, partition): state for partition, state in self.assigned.items()
        }
        for partition in renamed.values():
            self.assigned[partition].fetch_state = fetch_state
        self.assigned = {partition: self.assigned[partition] for partition in sorted(self.assigned)}
        self.version += 1

    def set_positions(self, positions: Mapping[TopicPartition, int]) -> None:
        """Positions have been looked up: the partitions that wait for one are valid now."""
        for partition, position in positions.items():
            state = self.assigned.get(partition)
            if state is not None and state.fetch_state in (
                FetchState.AWAIT_VALIDATION,
                FetchState.AWAIT_RESET,
            ):
                state.fetch_state = _FETCHING
                state.position = position
                self.version += 1

    def advance(self, positions: Mapping[TopicPartition, int]) -> None:
        """Records were handed out up to these positions (no change of A, F or flags)."""
        for partition, position in positions.items():
            state = self.assigned.get(partition)
            if state is not None and state.fetch_state is _FETCHING:
                state.position = position

    def seek(self, positions: Mapping[TopicPartition, int]) -> None:
        """The application wants to be handed what comes from these positions on."""
        for partition, position in positions.items():
            state = self.assigned.get(partition)
            if state is not None and state.fetch_state is _FETCHING:
                self.assigned[partition] = replace(state, position=position)
                self.version += 1

    def consumed(self) -> dict[TopicPartition, int]:
        """Positions of all assigned partitions that have a valid one, in ascending order."""
        return {
            partition: state.position
            for partition, state in self.assigned.items()
            if state.fetch_state is _FETCHING
        }

    def set_fetch_state(self, partition: TopicPartition, fetch_state: FetchState) -> None:
        """The committed offset of an assigned partition is known: the next step is due."""
        self.assigned[partition].fetch_state = fetch_state
        self.version += 1

    @property
    def initializing(self) -> frozenset[TopicPartition]:
        """Partitions whose committed offset must be looked up now (client §8)."""
        if self._views_of_version != self.version:
            self._refresh_views()
        return self._initializing

    @property
    def fetchable(self) -> frozenset[TopicPartition]:
        """Partitions that may be fetched and handed out."""
        if self._views_of_version != self.version:
            self._refresh_views()
        return self._fetchable

    @property
    def deliverable(self) -> frozenset[TopicPartition]:
        """Partitions whose buffered records ``poll`` hands out."""
        return self.fetchable

    def _refresh_views(self) -> None:
        self._views_of_version = self.version
        self._fetchable = frozenset(p for p, s in self.assigned.items() if s.is_fetchable)
        self._initializing = frozenset(
            p
            for p, s in self.assigned.items()
            if s.fetch_state is FetchState.INITIALIZING
            and not s.pending_revocation
            and not s.awaiting_assigned_callback
        )
