"""Mutants of requests about offsets that exist in these tests only."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from coordinator_world import GROUP, CoordinatorWorld
from falsified_classic import world as classic_world
from falsified_coordinator import mutant, settled
from falsified_hybrid import recorded
from falsified_requests import FALSIFIED, FIRST, without

from rebalance_sim.protocol.runtime.outcome import Outcome
from rebalance_sim.protocol.wire.consumer_messages import DeleteGroupsRequest, DeleteGroupsResponse
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.offset_messages import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from rebalance_sim.protocol.wire.records import OffsetCommit

__all__ = ["FALSIFIED"]


def commit_of(member_id: str, epoch: int) -> OffsetCommitRequest:
    """A commit of the first partition."""
    return OffsetCommitRequest(
        group_id=GROUP,
        member_id=member_id,
        generation_id_or_member_epoch=epoch,
        offsets={FIRST: 5},
    )


def unsigned_fetch() -> OffsetFetchRequest:
    """A fetch of the first partition that does not wait, by somebody who is no member."""
    return OffsetFetchRequest(group_id=GROUP, partitions=frozenset({FIRST}), require_stable=False)


@mutant
def commit_refused_for_nothing() -> CoordinatorWorld:
    world = settled()
    response = OffsetCommitResponse(errors={FIRST: ErrorCode.FENCED_MEMBER_EPOCH})
    world.request(commit_of("a", 2), change=lambda outcome: Outcome(response))
    return world


@mutant
def classic_commit_refused_for_nothing() -> CoordinatorWorld:
    bench = classic_world()
    response = OffsetCommitResponse(errors={FIRST: ErrorCode.ILLEGAL_GENERATION})
    bench.commit_offset("A", bench.generation, change=lambda outcome: Outcome(response))
    return bench


@mutant
def fetch_refused_for_nothing() -> CoordinatorWorld:
    world = settled()
    request = OffsetFetchRequest(
        group_id=GROUP, partitions=frozenset({FIRST}), member_id="a", member_epoch=3
    )
    response = OffsetFetchResponse(error_code=ErrorCode.STALE_MEMBER_EPOCH)
    world.request(request, change=lambda outcome: Outcome(response))
    return world


@mutant
def delete_of_subscribed_offset() -> CoordinatorWorld:
    world = settled()
    request = OffsetDeleteRequest(group_id=GROUP, partitions=frozenset({FIRST}))
    response = OffsetDeleteResponse(errors={FIRST: ErrorCode.NONE})
    world.request(request, change=lambda outcome: Outcome(response))
    return world


@mutant
def consumers_keep_offsets() -> CoordinatorWorld:
    bench = classic_world()
    request = OffsetDeleteRequest(group_id=GROUP, partitions=frozenset({FIRST}))
    response = OffsetDeleteResponse(error_code=ErrorCode.NON_EMPTY_GROUP)
    bench.request(request, change=lambda outcome: Outcome(response))
    return bench


@mutant
def empty_group_stays() -> CoordinatorWorld:
    world = settled()
    world.heartbeat("a", -1)
    world.heartbeat("b", -1)
    response = DeleteGroupsResponse(group_id=GROUP, error_code=ErrorCode.NON_EMPTY_GROUP)
    world.request(DeleteGroupsRequest(group_id=GROUP), change=lambda outcome: Outcome(response))
    return world


@mutant
def stores_another_offset() -> CoordinatorWorld:
    world = settled()

    def change(record: Any) -> Any:
        assert type(record) is OffsetCommit
        assert record.value is not None
        return OffsetCommit(*record[:3], record.value._replace(offset=6))

    world.request(commit_of("a", 3), change=recorded(change))
    return world


@mutant
def accepted_and_not_stored() -> CoordinatorWorld:
    world = settled()
    world.request(commit_of("a", 3), change=without(OffsetCommit))
    return world


@mutant
def fetch_without_text() -> CoordinatorWorld:
    world = settled()
    world.request(replace(commit_of("a", 3), metadata={FIRST: "note"}))
    without_text = OffsetFetchResponse(offsets={FIRST: 5})
    world.request(unsigned_fetch(), change=lambda outcome: Outcome(without_text))
    return world


def with_leader_epoch() -> OffsetCommitRequest:
    """A commit of the first partition, read from its leader of epoch 7."""
    return replace(commit_of("a", 3), leader_epochs={FIRST: 7})


@mutant
def stores_no_leader_epoch() -> CoordinatorWorld:
    world = settled()

    def change(record: Any) -> Any:
        assert type(record) is OffsetCommit
        assert record.value is not None
        return OffsetCommit(*record[:3], record.value._replace(leader_epoch=-1))

    world.request(with_leader_epoch(), change=recorded(change))
    return world


@mutant
def fetch_without_leader_epoch() -> CoordinatorWorld:
    world = settled()
    world.request(with_leader_epoch())
    without_epoch = OffsetFetchResponse(offsets={FIRST: 5})
    world.request(unsigned_fetch(), change=lambda outcome: Outcome(without_epoch))
    return world
