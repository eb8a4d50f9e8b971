"""The variables of one classic member that all its parts share, and how they change.

Source: classic §4.1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from rebalance_sim.protocol.clients.common.classic_config import ClassicConsumerConfig
from rebalance_sim.protocol.clients.common.effects import OwnStateChanged
from rebalance_sim.protocol.clients.common.member_core import MemberCore
from rebalance_sim.protocol.clients.common.member_states import ClientState
from rebalance_sim.protocol.clients.common.values import CommitIdentity
from rebalance_sim.protocol.clients.java.classic.classic_member_rules import ClassicMemberRules
from rebalance_sim.protocol.clients.java.classic.classic_member_states import (
    ClassicState,
    check_classic_transition,
)
from rebalance_sim.protocol.clients.java.classic.reactions import Reset
from rebalance_sim.protocol.wire.classic_messages import NO_GENERATION
from rebalance_sim.protocol.wire.embedded import NamedPartitions

CLASSIC_STATE = "classic_state"
"""What ``OwnStateChanged`` calls the state of classic §4.1."""

# Members of enums that every event asks for: to look one up takes as long as a call.
_CLASSIC_STABLE = ClassicState.STABLE
_STABLE = ClientState.STABLE


class Generation(NamedTuple):
    """What the client knows of its membership. Id -1: none; member id "": none yet."""

    generation_id: int
    member_id: str
    protocol_name: str | None = None


NONE = Generation(NO_GENERATION, "")
"""Neither a generation nor a member id."""


class ClassicCore(MemberCore):
    """Shared variables; ``effects`` collects what the event being handled leads to.

    ``has_generation``: whether the client knows a generation and its own id in it.
    """

    config: ClassicConsumerConfig

    def __init__(
        self,
        *,
        config: ClassicConsumerConfig,
        rules: ClassicMemberRules,
        jitter: Callable[[], float],
        now_ms: int,
    ) -> None:
        super().__init__(config=config, member_id="", jitter=jitter, now_ms=now_ms)
        self.rules = rules
        self.classic_state = ClassicState.UNJOINED
        self.generation = NONE
        self.has_generation = False
        self.rejoin_needed = True
        self.rejoin_reason = ""
        self.needs_prepare = True
        self.is_leader = False
        self.connection_is_cut = False  # by this client: what is in flight is to be given up
        self.is_leaving = False  # inside ``unsubscribe`` or ``close``
        self.is_fatal = False
        self.matches_pattern = False  # the subscription is what a pattern matches now
        self.last_assigned: tuple[NamedPartitions, ...] | None = None
        self.last_assigned_generation_id = NO_GENERATION

    @property
    def is_dynamic(self) -> bool:
        """Without an instance id."""
        return self.config.group_instance_id is None

    # --- changes ----------------------------------------------------------------------------------

    def set_classic_state(self, state: ClassicState) -> None:
        """Go to ``state``. Raises IllegalTransition if the table forbids it."""
        if state is not self.classic_state:
            check_classic_transition(self.classic_state, state)
            self.effects.append(
                OwnStateChanged(
                    what=CLASSIC_STATE, from_state=self.classic_state.value, to_state=state.value
                )
            )
            self.classic_state = state
        self._note_identity()

    def set_generation(self, generation: Generation) -> None:
        """Take a generation, or the lack of one, over."""
        self.generation = generation
        self.has_generation = generation.generation_id != NO_GENERATION and bool(
            generation.member_id
        )
        self.member_id = generation.member_id
        self.member_epoch = max(generation.generation_id, 0)
        self._note_identity()

    def _note_identity(self) -> None:
        is_member = self.classic_state is _CLASSIC_STABLE and self.has_generation
        self.commit_identity = (
            CommitIdentity(self.member_id, self.member_epoch) if is_member else None
        )

    def request_rejoin(self, reason: str) -> None:
        """Let a ``poll`` join again; the next JoinGroup says why."""
        self.rejoin_needed = True
        self.rejoin_reason = reason

    def reset(self, reset: Reset, *, reason: str) -> None:
        """Forget the generation, or that and the member id; what is owned is lost then."""
        if reset is Reset.NOTHING:
            return
        self.set_classic_state(ClassicState.UNJOINED)
        member_id = self.generation.member_id if reset is Reset.GENERATION else ""
        self.set_generation(Generation(NO_GENERATION, member_id))
        self.request_rejoin(reason)
        self.needs_prepare = True

    # --- the state in the words of all kinds ------------------------------------------------------

    def state_shown(self, *, is_done: bool) -> ClientState:
        """The state that follows; ``is_done``: nothing of a rebalance is left, or to come."""
        if self.is_fatal:
            return ClientState.FATAL
        if self.is_leaving:
            has_left = not self.has_generation
            return ClientState.UNSUBSCRIBED if has_left else ClientState.PREPARE_LEAVING
        if not self.subscription.exists:
            return ClientState.UNSUBSCRIBED
        if self.poll_expired:
            return ClientState.STALE
        if not self.has_generation:
            return ClientState.FENCED if self.subscription.assigned else ClientState.JOINING
        if self.classic_state is _CLASSIC_STABLE and is_done:
            return _STABLE
        return ClientState.RECONCILING
