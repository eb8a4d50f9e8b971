"""The classic franz-go member: ``FranzMachine`` with the requests of the classic protocol.

Source: franz §7; classic §2-§4.
"""

from __future__ import annotations

from enum import Enum
from typing import ClassVar

from rebalance_sim.protocol.clients.common import events
from rebalance_sim.protocol.clients.common.effects import RequestMetadata, ResetPositions
from rebalance_sim.protocol.clients.common.group_member import ClassicView
from rebalance_sim.protocol.clients.common.member_states import ClientState
from rebalance_sim.protocol.clients.common.values import FetchState
from rebalance_sim.protocol.clients.franz.classic.franz_classic_core import FranzClassicCore
from rebalance_sim.protocol.clients.franz.classic.manage import Manage
from rebalance_sim.protocol.wire.classic_messages import NO_GENERATION
from rebalance_sim.protocol.wire.topics import TopicPartition

_S = ClientState
_NOTHING: frozenset[TopicPartition] = frozenset()


class FranzClassicState(Enum):
    """Where the goroutine is that manages the group."""

    IDLE = "idle"
    JOINING = "joining"
    SYNCING = "syncing"
    IN_SESSION = "in session"
    WAITING = "waiting"


class FranzClassicMember(FranzClassicCore):
    """One consumer process that speaks the classic protocol: see ``FranzMachine``."""

    kind: ClassVar[str] = "franz-classic"

    _manager: Manage

    def _make_manager(self) -> Manage:
        manager = Manage(
            self, self._application, self._coordinator, self._session, self._fetches, self._commits
        )
        manager.on_left = self.on_left
        return manager

    # --- events -----------------------------------------------------------------------------------

    def _on_subscribe(self, event: events.Subscribe) -> None:
        super()._on_subscribe(event)
        if event.matches_locally:
            self.effects.append(RequestMetadata())

    def _on_pattern_matched(self, event: events.PatternMatched) -> None:
        if event.topic_names != self.subscription.topic_names:
            self.subscription.topic_names = event.topic_names
            self._start_if_wanted()
            self._manager.look_at_topics()

    def _on_metadata_known(self, event: events.MetadataKnown) -> None:
        found, renamed = self.catalogue.on_metadata(event, sorted(self._owned()))
        if found:
            self._session.rename(found, fetch_state=FetchState.INITIALIZING)
        if renamed:
            self._session.rename(renamed, fetch_state=FetchState.AWAIT_RESET)
            assigned = frozenset(renamed.values()).intersection(self.subscription.assigned)
            if assigned:
                self.effects.append(ResetPositions(partitions=assigned))
        super()._on_metadata_known(event)
        self._manager.look_at_topics()

    # --- what everybody reads ---------------------------------------------------------------------

    @property
    def classic(self) -> ClassicView:
        """Its mode, and where the goroutine is that manages the group."""
        manager = self._manager
        state = FranzClassicState.WAITING
        if not self.is_managing:
            state = FranzClassicState.IDLE
        elif self._session.is_open:
            state = FranzClassicState.IN_SESSION
        elif manager.is_syncing:
            state = FranzClassicState.SYNCING
        elif manager.is_joining:
            state = FranzClassicState.JOINING
        # Who goes over to eager still has everything until the session begins.
        keeps = self.is_cooperative or self.is_downgraded
        return ClassicView(keeps, state, manager.is_joining)

    def _state_shown(self) -> ClientState:
        if self.is_leaving:
            return _S.UNSUBSCRIBED if self._call is None else _S.PREPARE_LEAVING
        if not self.subscription.exists:
            return _S.UNSUBSCRIBED
        if self._manager.is_giving_up:
            return _S.FENCED
        if self.generation_id == NO_GENERATION or self.now_assigned is None:
            return _S.JOINING
        is_steady = self._session.is_at_rest and not self._manager.is_rejoin_due
        return _S.STABLE if is_steady else _S.RECONCILING
