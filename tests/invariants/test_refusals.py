"""A request that is right, and refused all the same: whatever the code is, a law of refusals says
that there is no cause for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from classic_world import ClassicWorld, refused
from coordinator_world import CoordinatorWorld, orders
from falsified_classic import mixed
from falsified_classic import world as classic
from falsified_coordinator import settled
from falsified_requests import FIRST, commit_of

from rebalance_sim.invariants.engine.discovery import INVARIANTS
from rebalance_sim.invariants.laws import offset_refusals, refusals
from rebalance_sim.protocol.runtime.outcome import Outcome
from rebalance_sim.protocol.wire.classic_messages import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from rebalance_sim.protocol.wire.consumer_messages import (
    ConsumerGroupHeartbeatResponse,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.offset_messages import (
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)

OF_REFUSALS = {refusals.__name__, offset_refusals.__name__}
LAWS = {law.id for law in INVARIANTS if law.__module__ in OF_REFUSALS}
ALL_BUT_NONE = [code for code in ErrorCode if code]


def refusing(code: ErrorCode) -> Callable[[Outcome], Outcome]:
    """A heartbeat is refused, and does nothing."""
    return lambda outcome: Outcome(ConsumerGroupHeartbeatResponse(error_code=code))


def at_rest(code: ErrorCode) -> CoordinatorWorld:
    world = settled()
    world.heartbeat("a", 3, change=refusing(code))
    return world


def joins_again(code: ErrorCode) -> CoordinatorWorld:
    world = settled()
    world.join("a", change=refusing(code))
    return world


def misses_an_answer(code: ErrorCode) -> CoordinatorWorld:
    world = settled()
    world.heartbeat("a", 2, owned=orders(), change=refusing(code))
    return world


def joins_as_holder(code: ErrorCode) -> CoordinatorWorld:
    world = CoordinatorWorld(stop_at_first=False)
    world.join("a", instance_id="i")
    world.join("a", instance_id="i", change=refusing(code))
    return world


def comes_back(code: ErrorCode) -> CoordinatorWorld:
    world = CoordinatorWorld(stop_at_first=False)
    world.join("a", instance_id="i")
    world.heartbeat("a", -2, instance_id="i")
    world.join("b", instance_id="i", change=refusing(code))
    return world


def leaves(code: ErrorCode) -> CoordinatorWorld:
    world = settled()
    world.heartbeat("a", -1, change=refusing(code))
    return world


def converts(code: ErrorCode) -> CoordinatorWorld:
    world = classic()
    world.join("X", change=refusing(code))
    return world


def classic_at_rest(code: ErrorCode) -> CoordinatorWorld:
    world = classic()
    world.beat("B", change=refused(code))
    return world


def mixed_at_rest(code: ErrorCode) -> CoordinatorWorld:
    world = mixed()
    world.beat("A", generation=3, change=refused(code))
    return world


def classic_leaves(code: ErrorCode) -> ClassicWorld:
    world = classic()
    member_id = world.ids["B"]
    answer = LeaveGroupResponse(members=(MemberResponse(member_id, None, code),))
    request = LeaveGroupRequest(group_id=world.group_id, members=(MemberIdentity(member_id),))
    world.request(request, change=lambda outcome: Outcome(answer))
    return world


def answered(world: CoordinatorWorld, request: Any, answer: Any) -> CoordinatorWorld:
    world.request(request, change=lambda outcome: Outcome(answer))
    return world


def commits(code: ErrorCode) -> CoordinatorWorld:
    return answered(settled(), commit_of("a", 3), OffsetCommitResponse(errors={FIRST: code}))


def fetches(code: ErrorCode) -> CoordinatorWorld:
    world = settled()
    request = OffsetFetchRequest(
        group_id=world.group_id, partitions=frozenset({FIRST}), member_id="a", member_epoch=3
    )
    return answered(world, request, OffsetFetchResponse(error_code=code))


def deletes_empty_group(code: ErrorCode) -> CoordinatorWorld:
    world = settled()
    world.heartbeat("a", -1)
    world.heartbeat("b", -1)
    request = DeleteGroupsRequest(group_id=world.group_id)
    return answered(world, request, DeleteGroupsResponse(group_id=world.group_id, error_code=code))


@pytest.mark.parametrize(
    "story",
    [
        at_rest,
        joins_again,
        misses_an_answer,
        joins_as_holder,
        comes_back,
        leaves,
        converts,
        classic_at_rest,
        mixed_at_rest,
        classic_leaves,
        commits,
        fetches,
        deletes_empty_group,
    ],
)
def test_no_code_refuses_a_request_that_is_right(
    story: Callable[[ErrorCode], CoordinatorWorld],
) -> None:
    unnoticed = [code.name for code in ALL_BUT_NONE if not LAWS & {*story(code).violated}]
    assert unnoticed == []


def test_a_commit_of_an_older_epoch_is_refused_for_what_was_lost_alone() -> None:
    """All that ``a`` has kept since epoch 1 may be committed at epoch 2 (KAFKA-20066)."""
    world = settled()
    kept = min(world.group.members["a"].assigned)
    errors = {kept: ErrorCode.STALE_MEMBER_EPOCH}
    answered(world, commit_of("a", 2), OffsetCommitResponse(errors=errors))
    assert world.violated == ["offsets.commit_refusal_cause"]
