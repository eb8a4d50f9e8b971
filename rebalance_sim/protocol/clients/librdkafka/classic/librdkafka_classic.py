"""The classic librdkafka member: ``LibrdkafkaMachine`` with the requests of the classic protocol.

Source: client §10.1; classic §2-§4.
"""

from __future__ import annotations

from typing import ClassVar

from rebalance_sim.protocol.clients.common import events
from rebalance_sim.protocol.clients.common.classic_topics import TopicCatalogue
from rebalance_sim.protocol.clients.common.deadlines import earliest
from rebalance_sim.protocol.clients.common.effects import RequestMetadata, ResetPositions
from rebalance_sim.protocol.clients.common.seen_names import SeenNames
from rebalance_sim.protocol.clients.common.values import FetchState
from rebalance_sim.protocol.clients.librdkafka.classic.librdkafka_classic_core import (
    LibrdkafkaClassicCore,
)
from rebalance_sim.protocol.clients.librdkafka.classic.librdkafka_classic_heartbeats import (
    ClassicHeartbeats,
)
from rebalance_sim.protocol.clients.librdkafka.classic.librdkafka_classic_rebalance import (
    ClassicRebalance,
)
from rebalance_sim.protocol.clients.librdkafka.classic.librdkafka_joining import Joining
from rebalance_sim.protocol.clients.librdkafka.librdkafka_states import JoinState
from rebalance_sim.protocol.wire.errors import ErrorCode


class _Requests:
    """``GroupRequests`` of the classic protocol: what joins, and what keeps the member in."""

    def __init__(self, heartbeats: ClassicHeartbeats, joining: Joining) -> None:
        self.heartbeats = heartbeats
        self.joining = joining

    def run(self) -> None:
        """See ``GroupRequests``."""
        if not self.joining.is_stuck:
            self.heartbeats.run()
            self.joining.run()

    @property
    def deadline_ms(self) -> int | None:
        """See ``GroupRequests``."""
        if self.joining.is_stuck:
            return None
        return earliest(self.heartbeats.deadline_ms, self.joining.deadline_ms)

    @property
    def due_ms(self) -> int | None:
        """See ``GroupRequests``."""
        return None if self.joining.is_stuck else self.heartbeats.due_ms


class LibrdkafkaClassicMember(LibrdkafkaClassicCore):
    """One consumer process that speaks the classic protocol: see ``LibrdkafkaMachine``."""

    kind: ClassVar[str] = "librdkafka-classic"
    joins_without_topics: ClassVar[bool] = False

    _rebalance: ClassicRebalance
    _requests: _Requests

    def _make_group_parts(self) -> tuple[ClassicRebalance, _Requests]:
        rebalance = ClassicRebalance(self, self._application, self._assignment, self._link)
        self._catalogue = TopicCatalogue(SeenNames(self.topic_names, lambda: rebalance.owned))
        self._assignment.without_id = self._catalogue.without_id
        joining = Joining(
            self, self._application, self._link, rebalance, self._polls, self._catalogue
        )
        rebalance.send_leave = joining.send_leave
        return rebalance, _Requests(ClassicHeartbeats(self, self._link, rebalance), joining)

    def _on_membership_lost(self, error_code: ErrorCode) -> None:
        """A commit was refused; one that joins already has learnt of it by other ways."""
        state = self.join_state
        if error_code is ErrorCode.ILLEGAL_GENERATION and self._rebalance.is_running:
            if not self.rules.keeps_generation_while_rebalancing:
                self.drop_generation()
        elif state is JoinState.STEADY:
            self.forget_identity(error_code)
            self._rebalance.give_up_and_rejoin(is_lost=True)
        elif state is JoinState.WAIT_UNASSIGN_TO_COMPLETE:
            self.forget_identity(error_code)

    # --- events -----------------------------------------------------------------------------------

    def _on_subscribe(self, event: events.Subscribe) -> None:
        """Patterns are matched by the client, with whatever its metadata show."""
        self._rebalance.subscribe(event)
        if event.matches_locally:
            self.effects.append(RequestMetadata())
        self._requests.joining.on_subscription_changed()

    def _on_pattern_matched(self, event: events.PatternMatched) -> None:
        self._rebalance.on_pattern_matched(event.topic_names)
        self._requests.joining.on_subscription_changed()

    def _on_metadata_known(self, event: events.MetadataKnown) -> None:
        """Topics are known by name: one that was recreated is the same to this client."""
        found, renamed = self._catalogue.on_metadata(event, self._rebalance.owned)
        if found:
            self._rebalance.rename(found)
            self._assignment.rename(found, fetch_state=FetchState.INITIALIZING)
        if renamed:
            self._rebalance.rename(renamed)
            # An old position means nothing in a new topic.
            self._assignment.rename(renamed, fetch_state=FetchState.AWAIT_RESET)
            assigned = frozenset(renamed.values()).intersection(self.subscription.assigned)
            if assigned:
                self.effects.append(ResetPositions(partitions=assigned))
        if found or renamed:
            self._assignment.serve()
        self._requests.joining.on_metadata()

    def reads_positions(self, event: events.Event, *, now_ms: int) -> bool:
        """Whether the interval commit is due, or a rebalance may begin, which ends all fetching."""
        if self.is_paused or not self.subscription.assigned:
            return False
        due_ms = self._commits.interval_due_ms()
        if due_ms is not None and due_ms <= now_ms:
            return True
        if isinstance(event, events.Tick):
            return self.session_due_ms is not None and self.session_due_ms <= now_ms
        return isinstance(event, _MAY_BEGIN_A_REBALANCE)


_MAY_BEGIN_A_REBALANCE = (
    events.ClassicHeartbeatAnswered,
    events.SyncGroupAnswered,
    events.MetadataKnown,
    events.PatternMatched,
    events.Subscribe,
    events.CommitAnswered,
)
