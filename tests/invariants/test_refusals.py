"""A request that is right, and refused all the same: whatever the code is, a law of refusals says
that there is no cause for it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from classic_world import ClassicWorld, refused
from coordinator_world import FIRST, CoordinatorWorld, orders
from falsified_classic import mixed
from falsified_classic import world as classic
from falsified_coordinator import settled, told
from falsified_requests import commit_of, fetch_of

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
from rebalance_sim.protocol.wire.offset_messages import OffsetCommitResponse, OffsetFetchResponse

OF_REFUSALS = {refusals.__name__, offset_refusals.__name__}
LAWS = {law.id for law in INVARIANTS if law.__module__ in OF_REFUSALS}
ALL_BUT_NONE = [code for code in ErrorCode if code]


def refusing(code: ErrorCode) -> Callable[[Outcome], Outcome]:
    """A heartbeat is refused, and does nothing."""
    return lambda outcome: Outcome(ConsumerGroupHeartbeatResponse(error_code=code))


STORIES: dict[str, Callable[[ErrorCode], CoordinatorWorld]] = {}


def story(make: Callable[[], Any]) -> Callable[[Callable[[Any, ErrorCode], object]], None]:
    """Of a request that is refused with a code, in a world that this makes."""

    def register(tell: Callable[[Any, ErrorCode], object]) -> None:
        STORIES[tell.__name__] = partial(told, make, tell)

    return register


def static() -> CoordinatorWorld:
    world = CoordinatorWorld(stop_at_first=False)
    world.join("a", instance_id="i")
    return world


@story(settled)
def at_rest(world: CoordinatorWorld, code: ErrorCode) -> None:
    world.heartbeat("a", 3, change=refusing(code))


@story(settled)
def joins_again(world: CoordinatorWorld, code: ErrorCode) -> None:
    world.join("a", change=refusing(code))


@story(settled)
def misses_an_answer(world: CoordinatorWorld, code: ErrorCode) -> None:
    world.heartbeat("a", 2, owned=orders(), change=refusing(code))


@story(static)
def joins_as_holder(world: CoordinatorWorld, code: ErrorCode) -> None:
    world.join("a", instance_id="i", change=refusing(code))


@story(static)
def comes_back(world: CoordinatorWorld, code: ErrorCode) -> None:
    world.heartbeat("a", -2, instance_id="i")
    world.join("b", instance_id="i", change=refusing(code))


@story(settled)
def leaves(world: CoordinatorWorld, code: ErrorCode) -> None:
    world.heartbeat("a", -1, change=refusing(code))


@story(classic)
def converts(world: ClassicWorld, code: ErrorCode) -> None:
    world.join("X", change=refusing(code))


@story(classic)
def classic_at_rest(world: ClassicWorld, code: ErrorCode) -> None:
    world.beat("B", change=refused(code))


@story(mixed)
def mixed_at_rest(world: ClassicWorld, code: ErrorCode) -> None:
    world.beat("A", generation=3, change=refused(code))


def answer(world: CoordinatorWorld, request: Any, response: Any) -> None:
    world.request(request, change=lambda outcome: Outcome(response))


@story(classic)
def classic_leaves(world: ClassicWorld, code: ErrorCode) -> None:
    member_id = world.ids["B"]
    request = LeaveGroupRequest(group_id=world.group_id, members=(MemberIdentity(member_id),))
    answer(world, request, LeaveGroupResponse(members=(MemberResponse(member_id, None, code),)))


@story(settled)
def commits(world: CoordinatorWorld, code: ErrorCode) -> None:
    answer(world, commit_of("a", 3), OffsetCommitResponse(errors={FIRST: code}))


@story(settled)
def fetches(world: CoordinatorWorld, code: ErrorCode) -> None:
    answer(world, fetch_of("a", 3), OffsetFetchResponse(error_code=code))


@story(settled)
def deletes_empty_group(world: CoordinatorWorld, code: ErrorCode) -> None:
    world.heartbeat("a", -1)
    world.heartbeat("b", -1)
    request = DeleteGroupsRequest(group_id=world.group_id)
    answer(world, request, DeleteGroupsResponse(group_id=world.group_id, error_code=code))


@pytest.mark.parametrize("name", STORIES)
def test_no_code_refuses_a_request_that_is_right(name: str) -> None:
    unnoticed = [code.name for code in ALL_BUT_NONE if not LAWS & {*STORIES[name](code).violated}]
    assert unnoticed == []


def test_a_commit_of_an_older_epoch_is_refused_for_what_was_lost_alone() -> None:
    """All that ``a`` has kept since epoch 1 may be committed at epoch 2 (KAFKA-20066)."""
    world = settled()
    kept = min(world.group.members["a"].assigned)
    errors = {kept: ErrorCode.STALE_MEMBER_EPOCH}
    answer(world, commit_of("a", 2), OffsetCommitResponse(errors=errors))
    assert world.violated == ["offsets.commit_refusal_cause"]
