"""One regular heartbeat, step by step (coordinator H1-H13).

Source: coordinator §2.4-§2.9. Handlers change nothing: they return records, and read the group as
it stood before the request plus their own updated member value.
"""

from __future__ import annotations

from dataclasses import replace

from rebalance_sim.protocol.consumer.client_side.selection import notify_chosen
from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup
from rebalance_sim.protocol.consumer.consumer_member import Member
from rebalance_sim.protocol.consumer.context import ConsumerContext
from rebalance_sim.protocol.consumer.error_messages import (
    fenced_instance,
    group_is_full,
    unknown_instance,
    unknown_member,
)
from rebalance_sim.protocol.consumer.member_update import Advance, is_at_rest
from rebalance_sim.protocol.consumer.regexes import resolution_timer
from rebalance_sim.protocol.consumer.removal import replace_static_member
from rebalance_sim.protocol.consumer.timer_keys import (
    join_key,
    rebalance_key,
    session_key,
    sync_key,
)
from rebalance_sim.protocol.runtime.group_type import Call
from rebalance_sim.protocol.runtime.outcome import CancelTimer, Outcome, ScheduleTimer, TimerCommand
from rebalance_sim.protocol.runtime.rebalance_causes import Rebalance
from rebalance_sim.protocol.wire.consumer_messages import (
    JOIN_EPOCH,
    STATIC_LEAVE_EPOCH,
    UNCHANGED_TIMEOUT_MS,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from rebalance_sim.protocol.wire.errors import ErrorCode, GroupError
from rebalance_sim.protocol.wire.records import MemberState, Record
from rebalance_sim.protocol.wire.topics import TopicPartition


def heartbeat(
    context: ConsumerContext, group: ConsumerGroup, call: Call[ConsumerGroupHeartbeatRequest]
) -> Outcome:
    """Handle a validated heartbeat at epoch 0 or above. Raises GroupError where it is refused."""
    request, now_ms = call.request, call.now_ms
    config, rules = context.config, context.rules
    if rules.is_refused_for_size(group, request, config.group_consumer_max_size):
        raise group_is_full(config.group_consumer_max_size)
    member_id = request.member_id or context.new_member_id()
    member, replaced_id, records = _resolve(context, group, request, member_id)
    updated = _merge(member, request, call.client_id, call.client_host)

    wall_ms = now_ms + context.wall_offset_ms
    if (
        updated is member
        and not records
        and is_at_rest(group, member, wall_ms)
        and not (rules.raises_epoch_for_ties and len(group.server_assignors) > 1)
    ):
        after, target_epoch = member, group.target_assignment_epoch
        target = group.target_of(member_id)
        rebalances: tuple[Rebalance, ...] = ()
    else:
        advance = Advance(
            context, group, member, updated, records=records, replaced_id=replaced_id, now_ms=now_ms
        )
        advance.note_subscription()
        advance.note_preference()
        advance.refresh_metadata()
        advance.assign()
        after = advance.reconcile(
            request.topic_partitions, forces_subscription=advance.is_subscription_changed
        )
        target_epoch, target = advance.target_epoch, advance.target
        rebalances = advance.rebalances
    timers = _timers(context, group, member, updated, after, replaced_id, now_ms)
    response = _response(context, group.group_id, member, after, request, target_epoch, target)
    if group.client_assignors:
        response, timers = _with_client_side(context, group, after, response, timers, now_ms)
    return Outcome(response, tuple(records), timers, rebalances=rebalances)


def _with_client_side(
    context: ConsumerContext,
    group: ConsumerGroup,
    after: Member,
    response: ConsumerGroupHeartbeatResponse,
    timers: tuple[TimerCommand, ...],
    now_ms: int,
) -> tuple[ConsumerGroupHeartbeatResponse, tuple[TimerCommand, ...]]:
    """coordinator §12.3, §12.7. Nothing can fail any more, so the computation may move on here."""
    should_compute, more = notify_chosen(context, group, after, now_ms)
    metadata = None
    if response.assignment is not None:
        target = group.target_metadata.get(after.member_id)
        metadata = context.rules.metadata_to_send(after.assignment_metadata, target)
    if should_compute or metadata is not None:
        response = replace(
            response, should_compute_assignment=should_compute, assignment_metadata=metadata
        )
    return response, (*timers, *more)


def _timers(
    context: ConsumerContext,
    group: ConsumerGroup,
    member: Member,
    updated: Member,
    after: Member,
    replaced_id: str | None,
    now_ms: int,
) -> tuple[TimerCommand, ...]:
    """coordinator §4.1, §7.2, H12. Nothing can fail any more: a resolution that is ordered here is
    marked as under way."""
    session = ScheduleTimer(
        session_key(group.group_id, after.member_id),
        now_ms + context.session_timeout_ms(group.group_id),
    )
    timers: list[TimerCommand] = []
    if after is not updated or (
        after.state is MemberState.UNREVOKED_PARTITIONS
        and context.rules.restarts_rebalance_timer(updated, after)
    ):
        timers.append(_rebalance_timer(group.group_id, after, now_ms))
    if updated is not member or group.subscribed_regexes:
        resolution = resolution_timer(context, group, member, updated, now_ms)
        if resolution is not None:
            timers.append(resolution)
    if member.classic_metadata is not None and context.rules.ends_timers_of_former_protocol:
        timers += _timers_of_this_protocol(group, after, replaced_id, now_ms)
    return (*timers, session)


def _timers_of_this_protocol(
    group: ConsumerGroup, after: Member, replaced_id: str | None, now_ms: int
) -> tuple[TimerCommand, ...]:
    """A classic member continues with this protocol, under its id or, as a static one, under
    another: no one waits for its JoinGroup or SyncGroup any more, but maybe for a revocation."""
    group_id = group.group_id
    classic_id = after.member_id if replaced_id is None else replaced_id
    group.awaited_rejoins.discard(classic_id)
    return (
        CancelTimer(join_key(group_id, classic_id)),
        CancelTimer(sync_key(group_id, classic_id)),
        _rebalance_timer(group_id, after, now_ms),
    )


# -- coordinator H4, H5: who is it ---------------------------------------------------------


def _resolve(
    context: ConsumerContext,
    group: ConsumerGroup,
    request: ConsumerGroupHeartbeatRequest,
    member_id: str,
) -> tuple[Member, str | None, list[Record]]:
    """The member, the id of the static predecessor it replaces, and the records of that."""
    if request.instance_id is not None:
        return _resolve_static(context, group, request, member_id, request.instance_id)
    member = group.members.get(member_id)
    if member is None:
        if request.member_epoch != JOIN_EPOCH:
            raise unknown_member(member_id, group.group_id)
        return Member(member_id=member_id), None, []
    _check_epoch(context, member, request)
    return member, None, []


def _resolve_static(
    context: ConsumerContext,
    group: ConsumerGroup,
    request: ConsumerGroupHeartbeatRequest,
    member_id: str,
    instance_id: str,
) -> tuple[Member, str | None, list[Record]]:
    holder = group.holder_of(instance_id)
    joins = request.member_epoch == JOIN_EPOCH
    if holder is None:
        if not joins:
            raise unknown_instance(instance_id)
        member = group.members.get(member_id) or Member(member_id=member_id)
        if not context.rules.may_take_instance(member, instance_id):
            raise GroupError(
                ErrorCode.INVALID_REQUEST,
                f"Member {member_id} has the instance id {member.instance_id}, "
                f"which can't be changed to {instance_id}.",
            )
        return member, None, []
    if not joins:
        if holder.member_id != member_id:
            raise fenced_instance(member_id, instance_id, holder.member_id)
        _check_epoch(context, holder, request)
        return holder, None, []
    if holder.member_epoch == STATIC_LEAVE_EPOCH or context.rules.takes_over_instance(holder):
        copy, records = replace_static_member(context, group, holder, member_id)
        return copy, holder.member_id, list(records)
    if context.rules.is_instance_taken(holder, request):
        raise GroupError(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} cannot join the group "
            f"because the instance id is owned by {holder.member_id} member.",
        )
    _check_epoch(context, holder, request)
    return holder, None, []


def _check_epoch(
    context: ConsumerContext, member: Member, request: ConsumerGroupHeartbeatRequest
) -> None:
    if context.rules.accepts_epoch(member, request):
        return
    received, stored = request.member_epoch, member.member_epoch
    relation = "greater" if received > stored else "smaller"
    raise GroupError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {relation} member epoch ({received}) than the one known "
        f"by the group coordinator ({stored}). The member must abandon all its partitions and "
        "rejoin.",
    )


# -- coordinator H6: what it reports of itself ---------------------------------------------


def _merge(
    member: Member, request: ConsumerGroupHeartbeatRequest, client_id: str, client_host: str
) -> Member:
    """The member with every given field replaced; the very same value if nothing differs."""
    if (
        request.subscribed_topic_names is None
        and request.subscribed_topic_regex is None
        and request.rebalance_timeout_ms == UNCHANGED_TIMEOUT_MS
        and request.server_assignor is None
        and request.client_assignors is None
        and request.rack_id is None
        and request.instance_id in (None, member.instance_id)
        and member.client_id == client_id
        and member.client_host == client_host
        and member.classic_metadata is None
    ):
        return member
    names = member.subscribed_topic_names
    if request.subscribed_topic_names is not None:
        names = tuple(sorted(set(request.subscribed_topic_names)))
    timeout_ms = member.rebalance_timeout_ms
    if request.rebalance_timeout_ms != UNCHANGED_TIMEOUT_MS:
        timeout_ms = request.rebalance_timeout_ms
    regex = member.subscribed_topic_regex
    if request.subscribed_topic_regex is not None:
        regex = request.subscribed_topic_regex
    server_assignor, client_assignors = member.server_assignor, member.client_assignors
    if request.server_assignor is not None:  # The two exclude each other (coordinator §12.1).
        server_assignor, client_assignors = request.server_assignor, ()
    if request.client_assignors is not None and request.client_assignors != client_assignors:
        client_assignors = request.client_assignors
    if client_assignors:
        server_assignor = None
    updated = replace(
        member,
        subscribed_topic_regex=regex,
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        client_id=client_id,
        client_host=client_host,
        rebalance_timeout_ms=timeout_ms,
        subscribed_topic_names=names,
        server_assignor=server_assignor,
        client_assignors=client_assignors,
        classic_metadata=None,
    )
    return member if updated == member else updated


# -- coordinator H13 -----------------------------------------------------------------------


def _rebalance_timer(group_id: str, member: Member, now_ms: int) -> TimerCommand:
    key = rebalance_key(group_id, member.member_id)
    if member.state is MemberState.UNREVOKED_PARTITIONS:
        return ScheduleTimer(key, now_ms + member.rebalance_timeout_ms, member.member_epoch)
    return CancelTimer(key)


def _response(
    context: ConsumerContext,
    group_id: str,
    before: Member,
    after: Member,
    request: ConsumerGroupHeartbeatRequest,
    target_epoch: int,
    target: frozenset[TopicPartition],
) -> ConsumerGroupHeartbeatResponse:
    assignment = None
    if request.is_full or (
        after.assigned is not before.assigned and after.assigned != before.assigned
    ):
        assignment = frozenset(after.assigned)
    pending: frozenset[TopicPartition] | None = None
    if context.rules.reports_pending:
        # The text repeats the assignment in every answer; before the first target there is none.
        assignment = frozenset(after.assigned) if after.member_epoch > 0 else None
        pending = frozenset()
        if after.member_epoch == target_epoch:
            pending = target - frozenset(after.assigned)
    return ConsumerGroupHeartbeatResponse(
        member_id=after.member_id,
        member_epoch=after.member_epoch,
        heartbeat_interval_ms=context.heartbeat_interval_ms(group_id),
        assignment=assignment,
        pending_topic_partitions=pending,
    )
