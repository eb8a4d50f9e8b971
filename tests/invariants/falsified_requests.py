"""Mutants of what requests come to that exist in these tests only: effects, refusals, offsets.

Each returns a world in which a group had come to rest without a breach before one request was
handled wrongly.
"""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

from coordinator_world import FIRST, GROUP, CoordinatorWorld
from falsified_classic import recorded
from falsified_coordinator import mutant, settled
from falsified_records import FALSIFIED

from rebalance_sim.protocol.runtime.coordinator import EXPIRY_KEY
from rebalance_sim.protocol.runtime.group_directory import Directory
from rebalance_sim.protocol.runtime.outcome import Outcome
from rebalance_sim.protocol.wire.consumer_messages import (
    LEAVE_EPOCH,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.offset_messages import (
    OffsetCommitRequest,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from rebalance_sim.protocol.wire.records import OffsetCommit

__all__ = ["FALSIFIED"]


@mutant(settled)
def keeps_groups_of_no_one(world: CoordinatorWorld) -> None:
    """Everybody leaves, nothing was ever committed, and the next check leaves the group alone."""
    for member_id in ("a", "b"):
        world.heartbeat(member_id, LEAVE_EPOCH)
    with patch.object(Directory, "expired", lambda self, *, now_ms: []):
        world.fire(EXPIRY_KEY)


def commit_of(member_id: str, epoch: int) -> OffsetCommitRequest:
    """A commit of the first partition."""
    return OffsetCommitRequest(
        group_id=GROUP, member_id=member_id, generation_id_or_member_epoch=epoch, offsets={FIRST: 5}
    )


def fetch_of(member_id: str, epoch: int) -> OffsetFetchRequest:
    """A fetch of its offset."""
    return OffsetFetchRequest(
        group_id=GROUP, partitions=frozenset({FIRST}), member_id=member_id, member_epoch=epoch
    )


@mutant(settled)
def fetch_refused_for_nothing(world: CoordinatorWorld) -> None:
    request = fetch_of("a", 3)
    response = OffsetFetchResponse(error_code=ErrorCode.STALE_MEMBER_EPOCH)
    world.request(request, change=lambda outcome: Outcome(response))


@mutant(settled)
def empty_group_stays(world: CoordinatorWorld) -> None:
    world.heartbeat("a", -1)
    world.heartbeat("b", -1)
    response = DeleteGroupsResponse(group_id=GROUP, error_code=ErrorCode.NON_EMPTY_GROUP)
    world.request(DeleteGroupsRequest(group_id=GROUP), change=lambda outcome: Outcome(response))


@mutant(settled)
def stores_another_offset(world: CoordinatorWorld) -> None:
    def change(record: Any) -> Any:
        assert type(record) is OffsetCommit
        assert record.value is not None
        return OffsetCommit(*record[:3], record.value._replace(offset=6))

    world.request(commit_of("a", 3), change=recorded(change))
