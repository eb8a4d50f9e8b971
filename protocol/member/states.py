"""States of a member and the one table of legal changes between them.

Source: consumer-client.md, sections 1.1 and 1.2. Everything that says which change of state is legal
stands here; nothing here knows why a change happens.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType

from protocol.errors import IllegalTransition

__all__ = [
    "HEARTBEATING_STATES",
    "LEGAL_TRANSITIONS",
    "NOT_IN_GROUP_STATES",
    "TAKES_ASSIGNMENT_STATES",
    "ClientState",
    "check_transition",
]


class ClientState(Enum):
    """State of a member on the client side. The value is the name that Kafka logs."""

    UNSUBSCRIBED = "UNSUBSCRIBED"  # no subscription, or left
    JOINING = "JOINING"  # wants in, epoch 0
    RECONCILING = "RECONCILING"  # the target differs from the current assignment
    ACKNOWLEDGING = "ACKNOWLEDGING"  # reconciled, the acknowledgement is still to be sent
    STABLE = "STABLE"  # the target is the current assignment, and that has been sent
    FENCED = "FENCED"  # expelled, giving partitions up
    PREPARE_LEAVING = "PREPARE_LEAVING"  # leaving on purpose, the callback is running
    LEAVING = "LEAVING"  # must send the leave heartbeat
    STALE = "STALE"  # left because the application stopped polling
    FATAL = "FATAL"  # unrecoverable error, terminal


_S = ClientState

_SOURCES: dict[ClientState, tuple[ClientState, ...]] = {
    _S.JOINING: (_S.UNSUBSCRIBED, _S.FENCED, _S.STALE),
    _S.RECONCILING: (_S.JOINING, _S.STABLE, _S.ACKNOWLEDGING),
    _S.ACKNOWLEDGING: (_S.RECONCILING,),
    _S.STABLE: (_S.JOINING, _S.RECONCILING, _S.ACKNOWLEDGING),
    _S.FENCED: (
        _S.JOINING,
        _S.STABLE,
        _S.RECONCILING,
        _S.ACKNOWLEDGING,
        _S.PREPARE_LEAVING,
        _S.LEAVING,
    ),
    _S.PREPARE_LEAVING: (
        _S.JOINING,
        _S.STABLE,
        _S.RECONCILING,
        _S.ACKNOWLEDGING,
        _S.UNSUBSCRIBED,
    ),
    _S.LEAVING: (_S.PREPARE_LEAVING,),
    _S.UNSUBSCRIBED: (_S.PREPARE_LEAVING, _S.LEAVING, _S.FENCED),
    _S.STALE: (_S.LEAVING,),
    _S.FATAL: (
        _S.JOINING,
        _S.STABLE,
        _S.RECONCILING,
        _S.ACKNOWLEDGING,
        _S.PREPARE_LEAVING,
        _S.LEAVING,
        _S.UNSUBSCRIBED,
    ),
}

LEGAL_TRANSITIONS: Mapping[ClientState, frozenset[ClientState]] = MappingProxyType(
    {
        source: frozenset(
            target
            for target in ClientState
            if target is source or source in _SOURCES.get(target, ())
        )
        for source in ClientState
    }
)
"""State -> the states it may change to. Staying in a state is always legal."""

HEARTBEATING_STATES = frozenset(
    {
        _S.JOINING,
        _S.RECONCILING,
        _S.ACKNOWLEDGING,
        _S.STABLE,
        _S.PREPARE_LEAVING,
        _S.LEAVING,
    }
)
TAKES_ASSIGNMENT_STATES = frozenset({_S.JOINING, _S.RECONCILING, _S.ACKNOWLEDGING, _S.STABLE})
NOT_IN_GROUP_STATES = frozenset({_S.UNSUBSCRIBED, _S.FENCED, _S.STALE, _S.FATAL})


def check_transition(source: ClientState, target: ClientState) -> None:
    """Raise IllegalTransition unless the table lists the change."""
    if target not in LEGAL_TRANSITIONS[source]:
        raise IllegalTransition(f"a member cannot go from {source.value} to {target.value}")
