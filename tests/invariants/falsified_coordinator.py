"""Mutants of the coordinator that exist in these tests only: what a broken one would write or say.

Each returns a world in which that has happened, after a group had come to rest without a breach.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

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

FALSIFIED: dict[str, Callable[[], CoordinatorWorld]] = {}


def mutant(function: Callable[[], CoordinatorWorld]) -> Callable[[], CoordinatorWorld]:
    """Register under the function's name."""
    FALSIFIED[f"test:{function.__name__.replace('_', '-')}"] = function
    return function


def settled(**options: Any) -> CoordinatorWorld:
    """Two members at rest at epoch 3, with two partitions each."""
    world = CoordinatorWorld(stop_at_first=False, **options)
    world.join("a")
    world.join("b")
    world.settle("a", "b")
    assert world.violated == []
    return world


@mutant
def commit_for_another_topic() -> CoordinatorWorld:
    """A request names a topic by its id; its offset is stored for another one."""
    world = settled()
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
    return world


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


@mutant
def early_release() -> CoordinatorWorld:
    world = ClientWorld("a", "b", stop_at_first=False)
    assert world.violated == []
    world.write(current("id-a", 3, parts_of(world, "id-a")[1:]))
    return world


@mutant
def target_ahead() -> CoordinatorWorld:
    world = settled()
    world.write(target_epoch_record(4))
    return world


@mutant
def epoch_falls() -> CoordinatorWorld:
    world = settled()
    world.write(epoch_record(2), target_epoch_record(2))
    return world


@mutant
def member_ahead() -> CoordinatorWorld:
    world = settled()
    world.write(current("a", 4, parts_of(world, "a")))
    return world


@mutant
def grant_while_revoking() -> CoordinatorWorld:
    world = settled()
    held = parts_of(world, "a")
    free = next(n for n in range(4) if n not in held)
    state = MemberState.UNREVOKED_PARTITIONS
    world.write(current("a", 3, [*held[1:], free], held[:1], state=state))
    return world


@mutant
def double_target() -> CoordinatorWorld:
    world = settled()
    world.write(epoch_record(4), target("a", 0, 1, 2), target("b", 2, 3), target_epoch_record(4))
    return world


@mutant
def target_of_other_topic() -> CoordinatorWorld:
    world = settled()
    foreign = ConsumerGroupTargetAssignmentMember(
        GROUP, "a", frozenset({TopicPartition("id-payments", 0)})
    )
    world.write(epoch_record(4), foreign, target_epoch_record(4))
    return world


@mutant
def corrupt_counts() -> CoordinatorWorld:
    world = settled()
    world.group.subscribed_topic_names["orders"] = 7
    world.group.static_members["i0"] = "a"
    world.join("c", instance_id="i1")
    return world


@mutant
def oversized() -> CoordinatorWorld:
    world = settled(config=replace(CONFIG, group_consumer_max_size=2))
    world.shard.coordinator._context.config = CONFIG
    world.join("c")
    return world


@mutant
def torn_batch() -> CoordinatorWorld:
    """It is noticed when the log is replayed, at the latest when it has doubled."""
    world = settled()
    append = world.shard.append
    world.shard.append = lambda records: None  # type: ignore[method-assign]
    world.join("c")
    world.shard.append = append  # type: ignore[method-assign]
    for number in range(20):
        world.join(f"m{number:02}")
    return world


@mutant
def lost_commit() -> CoordinatorWorld:
    world = settled()
    world.restart(world.shard.log[:-1])
    return world


@mutant
def handler_escapes() -> CoordinatorWorld:
    world = settled()
    request = ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id="a", member_epoch=3)
    detail = "ReplayError: partition 0 is granted twice"
    world.show(StepKind.COORDINATOR_ESCAPED, shard=world.shard, request=request, detail=detail)
    return world


@mutant
def impatient_timer() -> CoordinatorWorld:
    world = settled()
    world.now_ms = 1_000
    world.fire(session_key(GROUP, "a"))
    return world


@mutant
def refusal_with_records() -> CoordinatorWorld:
    world = settled()

    def refuse(outcome: Outcome) -> Outcome:
        response = ConsumerGroupHeartbeatResponse(error_code=ErrorCode.INVALID_REQUEST)
        return replace(outcome, response=response)

    world.join("c", change=refuse)
    return world
