"""Mutants of what requests come to that exist in these tests only: effects, refusals, offsets.

Each returns a world in which a group had come to rest without a breach before one request was
handled wrongly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from classic_world import ClassicWorld, refused
from coordinator_world import GROUP, IMAGE, ORDERS, CoordinatorWorld
from falsified_classic import world as classic_world
from falsified_coordinator import answering, epoch_record, mutant, refusing, settled
from falsified_hybrid import mixed, recorded
from falsified_records import FALSIFIED

from rebalance_sim.protocol.consumer.timer_keys import join_key, session_key
from rebalance_sim.protocol.runtime.coordinator import EXPIRY_KEY
from rebalance_sim.protocol.runtime.group_directory import Directory
from rebalance_sim.protocol.runtime.outcome import Completion, Outcome, ScheduleTimer
from rebalance_sim.protocol.wire.classic_messages import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
    SyncGroupResponse,
)
from rebalance_sim.protocol.wire.consumer_messages import (
    LEAVE_EPOCH,
    ConsumerGroupHeartbeatResponse,
)
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.records import (
    ConsumerGroupCurrentMemberAssignment,
    ConsumerGroupMetadata,
    ConsumerGroupRegularExpression,
    ConsumerGroupTargetAssignmentMember,
    ConsumerGroupTargetAssignmentMetadata,
    RegularExpressionValue,
    TargetMetadataValue,
)
from rebalance_sim.protocol.wire.topics import TopicPartition

__all__ = ["FALSIFIED"]

Change = Callable[[Outcome], Outcome]
FIRST = TopicPartition(ORDERS.topic_id, 0)


def without(*kinds: type) -> Change:
    """An outcome that lacks records of these types."""
    return recorded(lambda record: None if type(record) in kinds else record)


def with_records(*more: Any) -> Change:
    """An outcome with more records."""
    return lambda outcome: replace(outcome, records=(*outcome.records, *more))


# -- heartbeats: refusals --------------------------------------------------------------------


@mutant
def refuses_without_cause() -> CoordinatorWorld:
    world = settled()
    world.heartbeat("a", 3, change=refusing(ErrorCode.GROUP_MAX_SIZE_REACHED))
    return world


@mutant
def accepts_unknown_assignor() -> CoordinatorWorld:
    """A preference that nobody can serve is taken note of nowhere, and not refused."""
    world = settled()
    reported = ConsumerGroupHeartbeatResponse(
        member_id="a", member_epoch=3, heartbeat_interval_ms=5_000
    )
    timer = ScheduleTimer(session_key(GROUP, "a"), world.now_ms + 45_000)
    world.heartbeat(
        "a", 3, server_assignor="best", change=lambda outcome: Outcome(reported, (), (timer,))
    )
    return world


# -- heartbeats: effects ---------------------------------------------------------------------


@mutant
def idle_bump() -> CoordinatorWorld:
    world = settled()
    target = ConsumerGroupTargetAssignmentMetadata(
        GROUP, TargetMetadataValue(assignment_epoch=4, assignment_timestamp=world.now_ms)
    )
    world.heartbeat("a", 3, change=with_records(epoch_record(4, world.group.metadata_hash), target))
    return world


@mutant
def bump_forgotten() -> CoordinatorWorld:
    world = settled()
    kinds = (
        ConsumerGroupMetadata,
        ConsumerGroupTargetAssignmentMember,
        ConsumerGroupTargetAssignmentMetadata,
        ConsumerGroupCurrentMemberAssignment,
    )
    world.heartbeat(
        "a",
        3,
        subscribed_topic_names=("orders", "payments"),
        change=lambda outcome: answering(assignment=None, member_epoch=3)(without(*kinds)(outcome)),
    )
    return world


def targets(change: Callable[[list[Any]], Iterable[Any]]) -> Change:
    """An outcome with other records of the target's shares."""

    def falsify(outcome: Outcome) -> Outcome:
        kind = ConsumerGroupTargetAssignmentMember
        shares = [r for r in outcome.records if type(r) is kind]
        first = outcome.records.index(shares[0])
        rest = [r for r in outcome.records[first:] if type(r) is not kind]
        return replace(outcome, records=(*outcome.records[:first], *change(shares), *rest))

    return falsify


def current_of(member_id: str, **fields: Any) -> Change:
    """Another current assignment of a member."""

    def change(record: Any) -> Any:
        if type(record) is ConsumerGroupCurrentMemberAssignment and record.member_id == member_id:
            value: Any = record.value
            return replace(record, value=replace(value, **fields))
        return record

    return recorded(change)


# -- epochs, timers, patterns, assignors -----------------------------------------------------


@mutant
def timer_outlives_member() -> CoordinatorWorld:
    world = settled()
    world.heartbeat("b", -1, change=lambda outcome: replace(outcome, timers=()))
    return world


def resolved(at_ms: int, *topics: str) -> ConsumerGroupRegularExpression:
    """Record 16 of the pattern ``ord``."""
    value = RegularExpressionValue(topics=topics, version=IMAGE.version, timestamp=at_ms)
    return ConsumerGroupRegularExpression(GROUP, "ord", value)


@mutant
def vote_ignored() -> CoordinatorWorld:
    """Everybody asks for range, and two members get each other's share."""
    world = CoordinatorWorld(stop_at_first=False)
    world.join("a", server_assignor="range")
    world.join("b", server_assignor="range")
    world.settle("a", "b")
    assert world.violated == []

    def swap(shares: list[Any]) -> list[Any]:
        first, second, *others = shares
        return [
            replace(first, value=second.value),
            replace(second, value=first.value),
            *others,
        ]

    world.join("c", server_assignor="range", change=targets(swap))
    return world


# -- classic requests ------------------------------------------------------------------------


def sync_refused(code: ErrorCode) -> Change:
    """The parked SyncGroup is answered at once."""
    return lambda outcome: replace(
        outcome,
        completions=tuple(
            Completion(token, SyncGroupResponse(error_code=code))
            for token, _ in outcome.completions
        ),
    )


@mutant
def classic_refuses_right_protocol() -> ClassicWorld:
    """A SyncGroup to a stable group that names the right assignor."""
    bench = classic_world()
    bench.sync_group("B", change=sync_refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
    return bench


@mutant
def classic_refuses_present_generation() -> ClassicWorld:
    bench = classic_world()
    bench.beat("B", change=refused(ErrorCode.ILLEGAL_GENERATION))
    return bench


@mutant
def classic_parked_for_nothing() -> ClassicWorld:
    """Somebody who waits for the leader is sent back, and nothing has happened."""
    bench = classic_world()
    bench.leave_group("B")
    bench.enter("C")
    bench.join_group("A")
    bench.sync_group("C")
    response = SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
    waiting = Completion(bench._operations, response)
    bench.beat("A", change=lambda outcome: replace(outcome, completions=(waiting,)))
    return bench


@mutant
def classic_leave_refused() -> ClassicWorld:
    bench = classic_world()
    member_id = bench.ids["B"]
    row = MemberResponse(member_id, None, ErrorCode.UNKNOWN_MEMBER_ID)
    bench.request(
        LeaveGroupRequest(group_id=GROUP, members=(MemberIdentity(member_id),)),
        change=lambda outcome: Outcome(LeaveGroupResponse(members=(row,))),
    )
    return bench


@mutant
def classic_session_too_long() -> ClassicWorld:
    """A member is watched as if it had asked for five minutes less a bit."""
    bench = classic_world()

    def longer(outcome: Outcome) -> Outcome:
        (session,) = outcome.timers
        assert isinstance(session, ScheduleTimer)
        return replace(outcome, timers=(session._replace(at_ms=session.at_ms + 5_000),))

    bench.beat("B", change=longer)
    return bench


@mutant
def classic_sync_phase_too_short() -> ClassicWorld:
    bench = classic_world()
    bench.join_group("A")

    def shorter(outcome: Outcome) -> Outcome:
        timers = tuple(
            timer._replace(at_ms=timer.at_ms - 5_000)
            if isinstance(timer, ScheduleTimer) and timer.key.kind == "classic-sync"
            else timer
            for timer in outcome.timers
        )
        return replace(outcome, timers=timers)

    bench.join_group("B", change=shorter)
    return bench


@mutant
def hybrid_not_called_back() -> ClassicWorld:
    bench = mixed()
    bench.join("Y")
    bench.beat("A", generation=3, change=refused(ErrorCode.NONE))
    return bench


@mutant
def hybrid_called_back_for_nothing() -> ClassicWorld:
    bench = mixed()
    bench.beat("A", generation=3, change=refused(ErrorCode.REBALANCE_IN_PROGRESS))
    return bench


@mutant
def hybrid_sync_refused() -> ClassicWorld:
    bench = mixed()
    response = SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    bench.sync_group("A", generation=3, change=lambda outcome: Outcome(response))
    return bench


@mutant
def hybrid_long_wait() -> ClassicWorld:
    """A member that is called back may take longer than it said."""
    bench = mixed()
    bench.join("Y")

    def longer(outcome: Outcome) -> Outcome:
        session, join = outcome.timers
        assert isinstance(join, ScheduleTimer)
        return replace(outcome, timers=(session, join._replace(at_ms=join.at_ms + 5_000)))

    bench.beat("A", generation=3, change=longer)
    return bench


@mutant
def hybrid_wait_for_nobody() -> ClassicWorld:
    bench = mixed()
    timer = ScheduleTimer(join_key(GROUP, bench.ids["A"]), bench.now_ms + 20_000)
    bench.beat(
        "A", generation=3, change=lambda outcome: replace(outcome, timers=(*outcome.timers, timer))
    )
    return bench


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
