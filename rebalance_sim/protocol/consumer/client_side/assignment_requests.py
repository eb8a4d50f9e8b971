"""ConsumerGroupPrepareAssignment and ConsumerGroupInstallAssignment.

Source: coordinator §12.5, §12.6, whose ordered checks stand here in their order. The state that
both look at is in ``consumer/computation.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from rebalance_sim.protocol.consumer.client_side.selection import (
    computation_under_way,
    deadline_timer,
    offer_of,
)
from rebalance_sim.protocol.consumer.computation import (
    ComputationEvent,
    ComputationStep,
)
from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup
from rebalance_sim.protocol.consumer.consumer_member import Member
from rebalance_sim.protocol.consumer.context import ConsumerContext
from rebalance_sim.protocol.consumer.error_messages import unknown_member
from rebalance_sim.protocol.consumer.timer_keys import assignment_key, computation_key
from rebalance_sim.protocol.runtime.outcome import CancelTimer, Outcome, ScheduleTimer, TimerCommand
from rebalance_sim.protocol.wire.assignment_messages import (
    AssignmentMetadata,
    ConsumerGroupInstallAssignmentRequest,
    ConsumerGroupInstallAssignmentResponse,
    ConsumerGroupPrepareAssignmentRequest,
    ConsumerGroupPrepareAssignmentResponse,
    InstalledMember,
    PreparedMember,
)
from rebalance_sim.protocol.wire.errors import ErrorCode, GroupError
from rebalance_sim.protocol.wire.records import (
    ConsumerGroupTargetAssignmentMember,
    ConsumerGroupTargetAssignmentMetadata,
    Record,
    TargetMetadataValue,
)
from rebalance_sim.protocol.wire.topics import TopicPartition

AssignmentRequest = ConsumerGroupPrepareAssignmentRequest | ConsumerGroupInstallAssignmentRequest

_VERSION_LIMIT = 1 << 15
"""Metadata versions are sent to members in 16 bits, and handed in in 32 (coordinator §12.6)."""


def answer_assignment_request(
    context: ConsumerContext,
    groups: Mapping[str, ConsumerGroup],
    request: AssignmentRequest,
    *,
    now_ms: int,
) -> Outcome:
    """Answer one of the two requests. A refused one changes nothing."""
    is_prepare = isinstance(request, ConsumerGroupPrepareAssignmentRequest)
    try:
        if not context.rules.has_client_assignors:
            raise GroupError(ErrorCode.UNSUPPORTED_VERSION)
        group, member = _find(groups, request)
        if isinstance(request, ConsumerGroupPrepareAssignmentRequest):
            return _prepare(context, group, member, now_ms)
        return _install(context, group, request, now_ms)
    except GroupError as error:
        make = (
            ConsumerGroupPrepareAssignmentResponse
            if is_prepare
            else ConsumerGroupInstallAssignmentResponse
        )
        return Outcome(make(error_code=error.code, error_message=error.message))


def _find(
    groups: Mapping[str, ConsumerGroup], request: AssignmentRequest
) -> tuple[ConsumerGroup, Member]:
    """Checks 1 to 4, which both requests share."""
    if not request.group_id.strip():
        raise GroupError(ErrorCode.INVALID_REQUEST, "GroupId can't be empty.")
    if not request.member_id.strip():
        raise GroupError(ErrorCode.INVALID_REQUEST, "MemberId can't be empty.")
    if request.member_epoch < 0:
        raise GroupError(ErrorCode.INVALID_REQUEST, "MemberEpoch is invalid.")
    group = groups.get(request.group_id)
    if group is None:
        raise GroupError(
            ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {request.group_id} not found."
        )
    member = group.members.get(request.member_id)
    if member is None:
        raise unknown_member(request.member_id, request.group_id)
    if request.member_epoch != member.member_epoch:
        raise GroupError(
            ErrorCode.STALE_MEMBER_EPOCH,
            f"The received member epoch {request.member_epoch} does not match "
            f"the expected member epoch {member.member_epoch}.",
        )
    return group, member


def _not_chosen(member_id: str) -> GroupError:
    return GroupError(
        ErrorCode.UNKNOWN_MEMBER_ID,
        f"Member {member_id} was not chosen to compute this assignment.",
    )


# -- ConsumerGroupPrepareAssignment --------------------------------------------------------


def _prepare(
    context: ConsumerContext, group: ConsumerGroup, member: Member, now_ms: int
) -> Outcome:
    """The group as it stands now is what the member assigns, and what its result is judged by."""
    computation = computation_under_way(group)
    if computation is None or computation.member_id != member.member_id:
        raise _not_chosen(member.member_id)
    is_unnotified = computation.step is ComputationStep.CHOSEN
    prepared = prepared_group(context, group, computation.assignor_name)
    group.computation = computation.after(ComputationEvent.PREPARED, prepared=prepared)
    # A predecessor of this coordinator may have asked it, and then its time begins here.
    timers = deadline_timer(context, group, member, now_ms) if is_unnotified else ()
    return Outcome(prepared, (), timers)


def prepared_group(
    context: ConsumerContext, group: ConsumerGroup, assignor_name: str
) -> ConsumerGroupPrepareAssignmentResponse:
    """Members and subscribed topics of a group as a client-side assignor is to see them."""
    names_of_all: set[str] = set()
    topic_ids: dict[tuple[str, ...], frozenset[str]] = {}
    members = []
    for member_id in sorted(group.members):
        member = group.members[member_id]
        names = group.names_of(member)
        if names not in topic_ids:
            topic_ids[names] = context.topic_ids(names)
            names_of_all.update(names)
        offer = offer_of(member, assignor_name)
        prepared = PreparedMember(
            member_id=member_id,
            member_epoch=member.member_epoch,
            subscribed_topic_ids=topic_ids[names],
            topic_partitions=group.target_of(member_id),
            instance_id=member.instance_id,
            rack_id=member.rack_id,
        )
        if offer is not None:
            prepared = replace(
                prepared,
                reason=offer.reason,
                metadata_version=offer.metadata_version,
                metadata_bytes=offer.metadata_bytes,
            )
        members.append(prepared)
    by_name = context.image.by_name
    return ConsumerGroupPrepareAssignmentResponse(
        group_epoch=group.group_epoch,
        assignor_name=assignor_name,
        members=tuple(members),
        topics=tuple(by_name[name] for name in sorted(names_of_all) if name in by_name),
    )


# -- ConsumerGroupInstallAssignment --------------------------------------------------------


def _install(
    context: ConsumerContext,
    group: ConsumerGroup,
    request: ConsumerGroupInstallAssignmentRequest,
    now_ms: int,
) -> Outcome:
    """Checks 5 and 6, then the records of the new target.

    The group may have moved on since it was prepared; then a next target is due at once.
    """
    rules = context.rules
    computation = computation_under_way(group)
    if computation is None or not rules.is_computing(computation, request):
        raise _not_chosen(request.member_id)
    prepared = rules.group_to_judge_by(
        computation, lambda: prepared_group(context, group, computation.assignor_name)
    )
    problem = None if prepared is None else problem_of(prepared, request)
    if problem is not None:
        raise GroupError(ErrorCode.INVALID_ASSIGNMENT, problem)
    records = _target_records(context, group, request, now_ms)
    is_prepared = computation.prepared is not None
    group.computation = computation.after(ComputationEvent.INSTALLED) if is_prepared else None
    timers: list[TimerCommand] = [CancelTimer(computation_key(group.group_id))]
    if rules.is_outdated(group, request.group_epoch):
        timers.append(ScheduleTimer(assignment_key(group.group_id), now_ms))
    return Outcome(ConsumerGroupInstallAssignmentResponse(), records, tuple(timers))


def problem_of(
    prepared: ConsumerGroupPrepareAssignmentResponse,
    request: ConsumerGroupInstallAssignmentRequest,
) -> str | None:
    """Check 6: what is wrong with a result, judged by what it was computed from; None if nothing.

    Every partition of the topics is assigned, none twice, and all member ids are members.
    """
    members = {member.member_id for member in prepared.members}
    counts = {topic.topic_id: topic.partition_count for topic in prepared.topics}
    named: set[str] = set()
    assigned: set[TopicPartition] = set()
    for row in request.members:
        if row.member_id not in members:
            return f"{row.member_id} is no member of the group."
        if row.member_id in named:
            return f"{row.member_id} is named twice."
        named.add(row.member_id)
        if not -_VERSION_LIMIT <= row.metadata_version < _VERSION_LIMIT:
            return f"The metadata version {row.metadata_version} of {row.member_id} is invalid."
        for partition in sorted(row.partitions):
            topic_id, number = partition
            if not 0 <= number < counts.get(topic_id, 0):
                return f"Partition {topic_id}-{number} does not exist."
            if partition in assigned:
                return f"Partition {topic_id}-{number} is assigned twice."
            assigned.add(partition)
    for topic_id in sorted(counts):
        for number in range(counts[topic_id]):
            if TopicPartition(topic_id, number) not in assigned:
                return f"Partition {topic_id}-{number} is not assigned."
    return None


def _target_records(
    context: ConsumerContext,
    group: ConsumerGroup,
    request: ConsumerGroupInstallAssignmentRequest,
    now_ms: int,
) -> tuple[Record, ...]:
    """One record 7 per member whose target or metadata changes, then record 6.

    Results for members that have left are dropped; members that have joined have nothing yet. A
    static member that has taken the place of another meanwhile, which raises no epoch, gets what
    that one was given.
    """
    rows = context.rules.rows_to_install(group, request.members)
    records: list[Record] = []
    for member_id in sorted(context.rules.members_to_install(group, rows)):
        row = rows.get(member_id) or _nothing_for(group, member_id, request)
        metadata = AssignmentMetadata(
            error=request.error,
            metadata_version=row.metadata_version,
            metadata_bytes=row.metadata_bytes,
        )
        if (
            group.target_assignment.get(member_id) != row.partitions
            or group.target_metadata.get(member_id) != metadata
        ):
            records.append(
                ConsumerGroupTargetAssignmentMember(
                    group.group_id, member_id, row.partitions, metadata
                )
            )
    wall_ms = now_ms + context.wall_offset_ms
    timestamp = wall_ms if context.rules.writes_assignment_timestamp else None
    epoch = context.rules.epoch_to_install(group, request.group_epoch)
    value = TargetMetadataValue(assignment_epoch=epoch, assignment_timestamp=timestamp)
    records.append(ConsumerGroupTargetAssignmentMetadata(group.group_id, value))
    return tuple(records)


def _nothing_for(
    group: ConsumerGroup, member_id: str, request: ConsumerGroupInstallAssignmentRequest
) -> InstalledMember:
    """The share of a member that the result does not name: empty, in the member's own version."""
    computation, member = group.computation, group.members.get(member_id)
    name = computation.assignor_name if computation is not None else ""
    offer = None if member is None else offer_of(member, name)
    return InstalledMember(
        member_id=member_id,
        partitions=frozenset(),
        metadata_version=0 if offer is None else offer.metadata_version,
    )
