"""States of a classic group member on the client's side, and their legal changes.

Source: classic §4.1. The values are Kafka's own names.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType

from rebalance_sim.protocol.wire.errors import IllegalTransition


class ClassicState(Enum):
    """How far a member is with its membership."""

    UNJOINED = "UNJOINED"  # not in a group, or no longer
    PREPARING_REBALANCE = "PREPARING_REBALANCE"  # JoinGroup has been sent
    COMPLETING_REBALANCE = "COMPLETING_REBALANCE"  # it was answered, SyncGroup has been sent
    STABLE = "STABLE"  # that was answered, too

    def __init__(self, name: str) -> None:
        self.is_rebalancing = name in ("PREPARING_REBALANCE", "COMPLETING_REBALANCE")
        """Between the sending of a JoinGroup and the answer to the SyncGroup."""
        self.has_joined = name in ("COMPLETING_REBALANCE", "STABLE")
        """Whether heartbeats are sent."""


_S = ClassicState

LEGAL_CLASSIC_TRANSITIONS: Mapping[ClassicState, frozenset[ClassicState]] = MappingProxyType(
    {
        _S.UNJOINED: frozenset({_S.UNJOINED, _S.PREPARING_REBALANCE}),
        # A failed attempt leaves the state as it is, and the next one begins from there.
        _S.PREPARING_REBALANCE: frozenset(
            {_S.PREPARING_REBALANCE, _S.COMPLETING_REBALANCE, _S.UNJOINED}
        ),
        _S.COMPLETING_REBALANCE: frozenset({_S.STABLE, _S.PREPARING_REBALANCE, _S.UNJOINED}),
        _S.STABLE: frozenset({_S.PREPARING_REBALANCE, _S.UNJOINED}),
    }
)
"""State -> the states it may change to."""


def check_classic_transition(source: ClassicState, target: ClassicState) -> None:
    """Raise IllegalTransition unless the table lists the change."""
    if target not in LEGAL_CLASSIC_TRANSITIONS[source]:
        raise IllegalTransition(f"a classic member cannot go from {source.value} to {target.value}")
