"""ConsumerGroupHeartbeat, from validation to what its records entail.

Source: coordinator §2.2, §2.5, §2.12.
"""

from __future__ import annotations

from dataclasses import replace

from rebalance_sim.protocol.consumer.client_side.selection import validate_assignors
from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup
from rebalance_sim.protocol.consumer.consumer_heartbeat import heartbeat
from rebalance_sim.protocol.consumer.context import ConsumerContext
from rebalance_sim.protocol.consumer.removal import leave, remove_members
from rebalance_sim.protocol.consumer.validation import validate_heartbeat
from rebalance_sim.protocol.runtime.group_type import Call
from rebalance_sim.protocol.runtime.outcome import Outcome
from rebalance_sim.protocol.runtime.rebalance_causes import RebalanceCause
from rebalance_sim.protocol.wire.consumer_messages import (
    JOIN_EPOCH,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from rebalance_sim.protocol.wire.errors import ErrorCode, GroupError

HeartbeatCall = Call[ConsumerGroupHeartbeatRequest]


def answer_heartbeat(context: ConsumerContext, call: HeartbeatCall) -> Outcome:
    """The heartbeat, whichever group it meets; only a conversion makes one of another type its
    own. A fresh group stays outside the table until its records are replayed."""
    request = call.request
    group = call.group if type(call.group) is ConsumerGroup else None
    try:
        validate(context, request)
        if group is None:
            if request.member_epoch != JOIN_EPOCH or call.group is not None:
                raise not_found(request, is_of_other_type=call.group is not None)
            group = new_group(context, request.group_id)
        outcome = apply_heartbeat(context, group, call)
    except GroupError as error:
        return _refused(context, group, call, error)
    return completed(context, group, outcome, call.now_ms)


def validate(context: ConsumerContext, request: ConsumerGroupHeartbeatRequest) -> None:
    """Raises GroupError for a request that is wrong whatever the group."""
    rules = context.rules
    validate_heartbeat(
        request,
        assignors=context.config.group_consumer_assignors,
        refuses_non_positive_rebalance_timeout=rules.refuses_non_positive_rebalance_timeout,
    )
    validate_assignors(request, is_known_field=rules.has_client_assignors)


def not_found(request: ConsumerGroupHeartbeatRequest, *, is_of_other_type: bool) -> GroupError:
    """coordinator §2.5, for an id that no consumer group has."""
    group_id = request.group_id
    kind = "Group" if request.member_epoch < JOIN_EPOCH else "Consumer group"
    return GroupError(
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Group {group_id} is not a consumer group."
        if is_of_other_type
        else f"{kind} {group_id} not found.",
    )


def new_group(context: ConsumerContext, group_id: str) -> ConsumerGroup:
    """A consumer group that no member has joined; it is in no table yet."""
    rules = context.rules
    return ConsumerGroup(
        group_id,
        initial_epoch=rules.initial_group_epoch,
        ownership=rules.ownership,
        tolerates_gaps=rules.tolerates_compacted_log,
        frees_former_instance_id=rules.frees_former_instance_id,
        timeline=context.timeline,
    )


def apply_heartbeat(context: ConsumerContext, group: ConsumerGroup, call: HeartbeatCall) -> Outcome:
    """Join, stay or leave. Raises GroupError."""
    if call.request.member_epoch < JOIN_EPOCH:
        return leave(context, group, call.request, now_ms=call.now_ms)
    return heartbeat(context, group, call)


def refusal(error: GroupError) -> Outcome:
    """The answer of a heartbeat that is refused."""
    return Outcome(
        ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=error.message)
    )


def _refused(
    context: ConsumerContext, group: ConsumerGroup | None, call: HeartbeatCall, error: GroupError
) -> Outcome:
    refused = refusal(error)
    member = None if group is None else group.members.get(call.request.member_id)
    if (
        group is None
        or member is None
        or error.code is not ErrorCode.FENCED_MEMBER_EPOCH
        or not context.rules.removes_fenced_member
    ):
        return refused
    outcome = remove_members(
        context,
        group,
        [member],
        now_ms=call.now_ms,
        cause=RebalanceCause.MEMBER_FENCED,
        response=refused.response,
    )
    return completed(context, group, outcome, call.now_ms)


def completed(
    context: ConsumerContext, group: ConsumerGroup, outcome: Outcome, now_ms: int
) -> Outcome:
    """The outcome of an operation with what its records entail."""
    if not outcome.records:
        return outcome
    records, timers = context.rules.follow_up(group, outcome.records, context.topic_ids, now_ms)
    if not records and not timers:
        return outcome
    return replace(outcome, records=outcome.records + records, timers=outcome.timers + timers)
