"""States of a member and the one table of legal changes between them.

Source: client §1.1, §1.2. What a state means for heartbeats and assignments, and which change of
state is legal, stands here; why a change happens is not known here.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType

from rebalance_sim.protocol.wire.errors import IllegalTransition


class ClientState(Enum):
    """State of a member on the client side. The value is the name that Kafka logs.

    The columns are those of client §1.1: ``sends_heartbeats``; ``is_urgent`` (the next heartbeat
    bypasses interval and backoff); ``takes_assignments``; ``is_in_group``.
    """

    #                   value             heartbeats, urgent, assignments, in group
    UNSUBSCRIBED = ("UNSUBSCRIBED", False, False, False, False)  # no subscription, or left
    JOINING = ("JOINING", True, True, True, True)  # wants in, epoch 0
    RECONCILING = ("RECONCILING", True, False, True, True)  # target differs from current
    ACKNOWLEDGING = ("ACKNOWLEDGING", True, True, True, True)  # the ack is still to be sent
    STABLE = ("STABLE", True, False, True, True)  # target is current, and the ack is sent
    FENCED = ("FENCED", False, False, False, False)  # expelled, giving partitions up
    PREPARE_LEAVING = ("PREPARE_LEAVING", True, False, False, True)  # the callback is running
    LEAVING = ("LEAVING", True, True, False, True)  # must send the leave heartbeat
    STALE = ("STALE", False, False, False, False)  # left: the application stopped polling
    FATAL = ("FATAL", False, False, False, False)  # unrecoverable error, terminal

    sends_heartbeats: bool
    is_urgent: bool
    takes_assignments: bool
    is_in_group: bool

    def __new__(
        cls, name: str, heartbeats: bool, urgent: bool, assignments: bool, in_group: bool
    ) -> ClientState:
        """Attach the columns to the member of the enumeration."""
        state = object.__new__(cls)
        state._value_ = name
        state.sends_heartbeats = heartbeats
        state.is_urgent = urgent
        state.takes_assignments = assignments
        state.is_in_group = in_group
        return state


_S = ClientState
_MEMBER = (_S.JOINING, _S.STABLE, _S.RECONCILING, _S.ACKNOWLEDGING)

_SOURCES: Mapping[ClientState, tuple[ClientState, ...]] = {
    _S.JOINING: (_S.UNSUBSCRIBED, _S.FENCED, _S.STALE),
    _S.RECONCILING: (_S.JOINING, _S.STABLE, _S.ACKNOWLEDGING),
    _S.ACKNOWLEDGING: (_S.RECONCILING,),
    _S.STABLE: (_S.JOINING, _S.RECONCILING, _S.ACKNOWLEDGING),
    _S.FENCED: (*_MEMBER, _S.PREPARE_LEAVING, _S.LEAVING),
    _S.PREPARE_LEAVING: (*_MEMBER, _S.UNSUBSCRIBED),
    _S.LEAVING: (_S.PREPARE_LEAVING,),
    _S.UNSUBSCRIBED: (_S.PREPARE_LEAVING, _S.LEAVING, _S.FENCED),
    _S.STALE: (_S.LEAVING,),
    _S.FATAL: (*_MEMBER, _S.PREPARE_LEAVING, _S.LEAVING, _S.UNSUBSCRIBED),
}

LEGAL_TRANSITIONS: Mapping[ClientState, frozenset[ClientState]] = MappingProxyType(
    {
        source: frozenset(
            target for target in ClientState if target is source or source in _SOURCES[target]
        )
        for source in ClientState
    }
)
"""State -> the states it may change to. Staying in a state is always legal."""


class ComputingState(Enum):
    """How far a member has come with a target for its group; the value says what it waits for."""

    IDLE = "nothing"
    PREPARING = "the answer to ConsumerGroupPrepareAssignment"
    PREPARE_LATER = "the heartbeat that brings its epoch, to prepare again"
    COMPUTING = "the assignor"
    INSTALLING = "the answer to ConsumerGroupInstallAssignment"
    INSTALL_LATER = "the heartbeat that brings its epoch, to install again"


def check_transition(source: ClientState, target: ClientState) -> None:
    """Raise IllegalTransition unless the table lists the change."""
    if target not in LEGAL_TRANSITIONS[source]:
        raise IllegalTransition(f"a member cannot go from {source.value} to {target.value}")
