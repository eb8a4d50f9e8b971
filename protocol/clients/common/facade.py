"""What members of all kinds show alike, and the events that they take alike.

``MemberFacade`` stands beside the core of a kind: it has no variables of its own. ``JavaFacade``
adds what both protocols of the Java client have in common.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from rebalance_sim.protocol.assignors.client_side.client_side_assignor import PartitionAssignor
from rebalance_sim.protocol.clients.common import events
from rebalance_sim.protocol.clients.common.application import Application
from rebalance_sim.protocol.clients.common.effects import RunCallback
from rebalance_sim.protocol.clients.common.group_member import ClassicView
from rebalance_sim.protocol.clients.common.member_states import ComputingState
from rebalance_sim.protocol.clients.common.subscription_state import SubscriptionState
from rebalance_sim.protocol.clients.common.values import Call, PartitionState
from rebalance_sim.protocol.clients.java.offset_lookup import OffsetLookup
from rebalance_sim.protocol.wire.offset_messages import OffsetCommitResponse
from rebalance_sim.protocol.wire.topics import TopicPartition

__all__ = ["JavaFacade", "MemberFacade"]


class MemberFacade:
    """Events of the application's thread, and what hosts, invariants and traces read."""

    __slots__ = ()

    _application: Application
    subscription: SubscriptionState

    # --- events -----------------------------------------------------------------------------------

    def _on_tick(self, event: events.Tick) -> None:
        """Only time has passed; the parts look at it."""

    def _on_polling_resumed(self, event: events.PollingResumed) -> None:
        self._application.set_polling(True)

    def _on_polling_stopped(self, event: events.PollingStopped) -> None:
        self._application.set_polling(False)

    def _on_callback_completed(self, event: events.CallbackCompleted) -> None:
        self._application.callback_done(failed=event.failed, poll_follows=event.poll_follows)

    def _on_positions_known(self, event: events.PositionsKnown) -> None:
        self.subscription.set_positions(event.positions)

    # --- the application --------------------------------------------------------------------------

    @property
    def running_callback(self) -> RunCallback | None:
        """The callback that blocks the application."""
        return self._application.running

    @property
    def blocked_in(self) -> Call | None:
        """``unsubscribe`` or ``close``, while it has not returned."""
        return self._application.blocked_in

    @property
    def is_polling(self) -> bool:
        """Between ``PollingResumed`` and ``PollingStopped``."""
        return self._application.is_polling

    @property
    def last_poll_at_ms(self) -> int:
        """When the poll timer was last restarted."""
        return self._application.last_poll_at_ms

    @property
    def has_subscription(self) -> bool:
        """Whether the application is subscribed to anything."""
        return self.subscription.exists

    @property
    def subscribed_topic_names(self) -> frozenset[str]:
        """Topics of the subscription; with a pattern matched here, those that match."""
        return self.subscription.topic_names

    @property
    def metadata_topics(self) -> frozenset[str]:
        """Topics whose metadata the client wants: those that it subscribes to."""
        return self.subscribed_topic_names

    @property
    def subscribed_topic_regex(self) -> str | None:
        """The pattern that the broker matches."""
        return self.subscription.topic_regex

    # --- what only some kinds have ----------------------------------------------------------------

    @property
    def classic(self) -> ClassicView | None:
        """What only members of the classic protocol show."""
        return None

    @property
    def local_assignors(self) -> tuple[PartitionAssignor, ...]:
        """Its client-side assignors."""
        return ()

    @property
    def computing_state(self) -> ComputingState | None:
        """How far it has come with a target for its group."""
        return None

    # --- partitions -------------------------------------------------------------------------------

    @property
    def assigned(self) -> Mapping[TopicPartition, PartitionState]:
        """A of client §12: what ``assignment()`` of the consumer holds, with all flags."""
        return self.subscription.assigned

    @property
    def fetchable(self) -> frozenset[TopicPartition]:
        """F of client §12: partitions that may be fetched and handed out right now (client §8)."""
        return self.subscription.fetchable

    @property
    def deliverable(self) -> frozenset[TopicPartition]:
        """What ``poll`` hands buffered records out from: ``fetchable``, unless a defect is on."""
        return self.subscription.deliverable

    @property
    def ownership_version(self) -> int:
        """Grows whenever an assigned partition, one of its flags, or F changes."""
        return self.subscription.version


class _Commits(Protocol):
    """The part of a member that commits."""

    def commit(self, event: events.CommitOffsets) -> None: ...

    def on_answered(self, correlation_id: int, response: OffsetCommitResponse) -> None: ...


class _Calls(Protocol):
    """The part of a member that leaves."""

    is_closed: bool

    def unsubscribe(self) -> None: ...

    def close(self, event: events.Close) -> None: ...


class JavaFacade(MemberFacade):
    """What both protocols of the Java client have in common."""

    __slots__ = ()

    _commits: _Commits
    _calls: _Calls
    _lookup: OffsetLookup

    def _on_poll(self, event: events.Poll) -> None:
        if self.subscription.exists:
            self._application.poll()

    def _on_unsubscribe(self, event: events.Unsubscribe) -> None:
        self._calls.unsubscribe()

    def _on_close(self, event: events.Close) -> None:
        self._calls.close(event)

    def _on_commit_offsets(self, event: events.CommitOffsets) -> None:
        self._commits.commit(event)

    def _on_records_returned(self, event: events.RecordsReturned) -> None:
        self.subscription.advance(event.positions)

    def _on_commit_answered(self, event: events.CommitAnswered) -> None:
        self._commits.on_answered(event.correlation_id, event.response)

    def _on_offset_fetch_answered(self, event: events.OffsetFetchAnswered) -> None:
        self._lookup.on_answered(event.correlation_id, event.response)

    def _on_pattern_matched(self, event: events.PatternMatched) -> None:
        if self.subscription.exists:
            self.subscription.topic_names = event.topic_names

    @property
    def is_closed(self) -> bool:
        """``close`` has returned: the process may end."""
        return self._calls.is_closed
