"""Mutants of what requests come to that exist in these tests only: effects, refusals, offsets.

Each returns a world in which a group had come to rest without a breach before one request was
handled wrongly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from coordinator_world import ORDERS, CoordinatorWorld
from falsified_coordinator import mutant, settled
from falsified_records import FALSIFIED

from rebalance_sim.protocol.runtime.coordinator import EXPIRY_KEY
from rebalance_sim.protocol.runtime.group_directory import Directory
from rebalance_sim.protocol.runtime.outcome import Outcome
from rebalance_sim.protocol.wire.consumer_messages import (
    LEAVE_EPOCH,
)
from rebalance_sim.protocol.wire.records import (
    ConsumerGroupTargetAssignmentMember,
)
from rebalance_sim.protocol.wire.topics import TopicPartition

__all__ = ["FALSIFIED"]

Change = Callable[[Outcome], Outcome]
FIRST = TopicPartition(ORDERS.topic_id, 0)


# -- heartbeats: refusals --------------------------------------------------------------------


# -- heartbeats: effects ---------------------------------------------------------------------


def targets(change: Callable[[list[Any]], Iterable[Any]]) -> Change:
    """An outcome with other records of the target's shares."""

    def falsify(outcome: Outcome) -> Outcome:
        kind = ConsumerGroupTargetAssignmentMember
        shares = [r for r in outcome.records if type(r) is kind]
        first = outcome.records.index(shares[0])
        rest = [r for r in outcome.records[first:] if type(r) is not kind]
        return replace(outcome, records=(*outcome.records[:first], *change(shares), *rest))

    return falsify


# -- epochs, timers, patterns, assignors -----------------------------------------------------


# -- classic requests ------------------------------------------------------------------------


# -- what expires ----------------------------------------------------------------------------


@mutant
def keeps_groups_of_nobody() -> CoordinatorWorld:
    """Everybody leaves, nothing was ever committed, and the next check leaves the group alone."""
    world = settled()
    for member_id in ("a", "b"):
        world.heartbeat(member_id, LEAVE_EPOCH)
    with patch.object(Directory, "expired", lambda self, *, now_ms: []):
        world.fire(EXPIRY_KEY)
    return world
