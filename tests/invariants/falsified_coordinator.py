"""Mutants of the coordinator that exist in these tests only: what a broken one would write or say.

Each returns a world in which that has happened, after a group had come to rest without a breach.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from client_world import ClientWorld
from coordinator_world import CONFIG, GROUP, ORDERS, CoordinatorWorld, orders

from rebalance_sim.invariants.step import StepKind
from rebalance_sim.protocol.consumer.timer_keys import session_key
from rebalance_sim.protocol.runtime.outcome import Outcome
from rebalance_sim.protocol.wire.consumer_messages import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.offset_messages import OffsetCommitRequest, OffsetCommitResponse
from rebalance_sim.protocol.wire.records import (
    ConsumerGroupCurrentMemberAssignment,
    ConsumerGroupMetadata,
    ConsumerGroupTargetAssignmentMember,
    ConsumerGroupTargetAssignmentMetadata,
    CurrentAssignmentValue,
    GroupMetadataValue,
    MemberState,
    OffsetCommit,
    OffsetCommitValue,
    TargetMetadataValue,
)
from rebalance_sim.protocol.wire.topics import TopicPartition

World = TypeVar("World", bound=CoordinatorWorld)

FALSIFIED: dict[str, Callable[[], CoordinatorWorld]] = {}


def told(make: Callable[[], Any], tell: Callable[..., object], *more: Any) -> Any:
    """A world that this makes, after what that tells."""
    world = make()
    tell(world, *more)
    return world


def mutant(make: Callable[[], World]) -> Callable[[Callable[[World], None]], None]:
    """Register, under its name, what a function does to a world that this makes."""

    def register(falsify: Callable[[World], None]) -> None:
        FALSIFIED[f"test:{falsify.__name__.replace('_', '-')}"] = partial(told, make, falsify)

    return register


def settled(**options: Any) -> CoordinatorWorld:
    """Two members at rest at epoch 3, with two partitions each."""
    world = CoordinatorWorld(stop_at_first=False, **options)
    world.join("a")
    world.join("b")
    world.settle("a", "b")
    assert world.violated == []
    return world


@mutant(settled)
def commit_for_another_topic(world: CoordinatorWorld) -> None:
    """A request names a topic by its id; its offset is stored for another one."""
    partition = TopicPartition(ORDERS.topic_id, 0)
    request = OffsetCommitRequest(
        group_id=GROUP,
        member_id="a",
        generation_id_or_member_epoch=world.group.members["a"].member_epoch,
        offsets={partition: 5},
        api_version=10,
    )
    stored = OffsetCommit(GROUP, "payments", 0, OffsetCommitValue(5, world.now_ms))
    response = OffsetCommitResponse(errors={partition: ErrorCode.NONE})
    world.write(stored, request=request, response=response)


def parts_of(world: CoordinatorWorld, member_id: str) -> list[int]:
    """Partition numbers of a member."""
    return sorted(p.partition for p in world.group.members[member_id].assigned)


def current(
    member_id: str,
    epoch: int,
    assigned: Any = (),
    pending: Any = (),
    *,
    state: MemberState = MemberState.STABLE,
    previous: int = 2,
) -> ConsumerGroupCurrentMemberAssignment:
    """Record 8 over partitions of ``orders``."""
    return ConsumerGroupCurrentMemberAssignment(
        GROUP,
        member_id,
        CurrentAssignmentValue(
            member_epoch=epoch,
            previous_member_epoch=previous,
            state=state,
            assigned=dict.fromkeys(sorted(orders(*assigned)), epoch),
            pending_revocation=dict.fromkeys(sorted(orders(*pending)), epoch),
        ),
    )


def epoch_record(epoch: int, metadata_hash: int = 1) -> ConsumerGroupMetadata:
    """Record 3."""
    return ConsumerGroupMetadata(
        GROUP, GroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    )


def target_epoch_record(epoch: int) -> ConsumerGroupTargetAssignmentMetadata:
    """Record 6."""
    return ConsumerGroupTargetAssignmentMetadata(
        GROUP, TargetMetadataValue(assignment_epoch=epoch, assignment_timestamp=0)
    )


def target(member_id: str, *numbers: int) -> ConsumerGroupTargetAssignmentMember:
    """Record 7."""
    return ConsumerGroupTargetAssignmentMember(GROUP, member_id, orders(*numbers))


@mutant(lambda: ClientWorld("a", "b", stop_at_first=False))
def early_release(world: CoordinatorWorld) -> None:
    assert world.violated == []
    world.write(current("id-a", 3, parts_of(world, "id-a")[1:]))


@mutant(settled)
def target_ahead(world: CoordinatorWorld) -> None:
    world.write(target_epoch_record(4))


@mutant(settled)
def epoch_falls(world: CoordinatorWorld) -> None:
    world.write(epoch_record(2), target_epoch_record(2))


@mutant(settled)
def member_ahead(world: CoordinatorWorld) -> None:
    world.write(current("a", 4, parts_of(world, "a")))


@mutant(settled)
def grant_while_revoking(world: CoordinatorWorld) -> None:
    held = parts_of(world, "a")
    free = next(n for n in range(4) if n not in held)
    state = MemberState.UNREVOKED_PARTITIONS
    world.write(current("a", 3, [*held[1:], free], held[:1], state=state))


@mutant(settled)
def double_target(world: CoordinatorWorld) -> None:
    world.write(epoch_record(4), target("a", 0, 1, 2), target("b", 2, 3), target_epoch_record(4))


@mutant(settled)
def target_of_other_topic(world: CoordinatorWorld) -> None:
    foreign = ConsumerGroupTargetAssignmentMember(
        GROUP, "a", frozenset({TopicPartition("id-payments", 0)})
    )
    world.write(epoch_record(4), foreign, target_epoch_record(4))


@mutant(settled)
def corrupt_counts(world: CoordinatorWorld) -> None:
    world.group.subscribed_topic_names["orders"] = 7
    world.group.static_members["i0"] = "a"
    world.join("c", instance_id="i1")


@mutant(lambda: settled(config=replace(CONFIG, group_consumer_max_size=2)))
def oversized(world: CoordinatorWorld) -> None:
    world.shard.coordinator._context.config = CONFIG
    world.join("c")


@mutant(settled)
def torn_batch(world: CoordinatorWorld) -> None:
    """It is noticed when the log is replayed, at the latest when it has doubled."""
    append = world.shard.append
    world.shard.append = lambda records: None  # type: ignore[method-assign]
    world.join("c")
    world.shard.append = append  # type: ignore[method-assign]
    for number in range(20):
        world.join(f"m{number:02}")


@mutant(settled)
def lost_commit(world: CoordinatorWorld) -> None:
    world.restart(world.shard.log[:-1])


@mutant(settled)
def handler_escapes(world: CoordinatorWorld) -> None:
    request = ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id="a", member_epoch=3)
    detail = "ReplayError: partition 0 is granted twice"
    world.show(StepKind.COORDINATOR_ESCAPED, shard=world.shard, request=request, detail=detail)


@mutant(settled)
def impatient_timer(world: CoordinatorWorld) -> None:
    world.now_ms = 1_000
    world.fire(session_key(GROUP, "a"))


@mutant(settled)
def refusal_with_records(world: CoordinatorWorld) -> None:
    def refuse(outcome: Outcome) -> Outcome:
        response = ConsumerGroupHeartbeatResponse(error_code=ErrorCode.INVALID_REQUEST)
        return replace(outcome, response=response)

    world.join("c", change=refuse)
