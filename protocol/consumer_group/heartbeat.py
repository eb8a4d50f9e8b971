"""One regular heartbeat, step by step (H1 to H13).

Source: consumer-group-coordinator.md, sections 2.4 to 2.9. Handlers change nothing: they return
records, and read the group as it stood before the request plus their own updated member value.
"""

from __future__ import annotations

from dataclasses import replace

from protocol.assignors import SubscriptionType
from protocol.consumer_group.context import CoordinatorContext, metadata_hash
from protocol.consumer_group.group import ConsumerGroup, given, recount, subscription_type
from protocol.consumer_group.member import Member
from protocol.consumer_group.reconciliation import Reconciliation, reconcile
from protocol.consumer_group.refusals import (
    fenced_instance,
    unknown_instance,
    unknown_member,
)
from protocol.consumer_group.regexes import (
    abandoned_regex,
    check_regex,
    is_resolved,
    resolution_timer,
    subscribed_names,
)
from protocol.consumer_group.removal import (
    rebalance_key,
    replace_static_member,
    session_key,
)
from protocol.consumer_group.target import compute_target
from protocol.errors import ErrorCode, GroupError
from protocol.messages import (
    JOIN_EPOCH,
    STATIC_LEAVE_EPOCH,
    UNCHANGED_TIMEOUT_MS,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from protocol.outcome import CancelTimer, Outcome, ScheduleTimer, TimerCommand
from protocol.records import (
    ConsumerGroupCurrentMemberAssignment,
    ConsumerGroupMemberMetadata,
    ConsumerGroupMetadata,
    ConsumerGroupRegularExpression,
    GroupMetadataValue,
    MemberState,
    Record,
)
from protocol.topics import TopicPartition

__all__ = ["METADATA_REFRESH_INTERVAL_MS", "heartbeat"]

METADATA_REFRESH_INTERVAL_MS = 2_147_483_647
"""Effectively never: what triggers a refresh is a change of topics (section 7.3)."""


def heartbeat(
    context: CoordinatorContext,
    group: ConsumerGroup,
    request: ConsumerGroupHeartbeatRequest,
    *,
    now_ms: int,
    client_id: str,
    client_host: str,
) -> Outcome:
    """Handle a validated heartbeat at epoch 0 or above. Raises GroupError where it is refused."""
    config, rules = context.config, context.rules
    if rules.is_refused_for_size(group, request, config.group_consumer_max_size):
        raise GroupError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            "The consumer group has reached its maximum capacity of "
            f"{config.group_consumer_max_size} members.",
        )
    member_id = request.member_id or context.new_member_id()
    member, replaced_id, records = _resolve(context, group, request, member_id)
    updated = _merge(member, request, client_id, client_host)

    group_epoch = group.group_epoch
    type_of_subscriptions = None
    timers: list[TimerCommand] = []
    subscription_changed = bump = False
    if updated is not member:
        records.append(ConsumerGroupMemberMetadata(group.group_id, member_id, updated.metadata()))
        subscription_changed, bump = _compare_subscriptions(
            context, group, member, updated, records
        )
    bump = bump or group_epoch == 0
    if bump or (
        now_ms >= group.metadata_refresh_deadline_ms or group_epoch < group.metadata_refresh_epoch
    ):
        group_epoch, type_of_subscriptions, bump_records = _refresh_metadata(
            context, group, member, updated, bump=bump, now_ms=now_ms
        )
        records += bump_records

    target_epoch = group.target_assignment_epoch
    target = group.target_of(replaced_id or member_id)
    if (
        group_epoch > target_epoch
        and rules.assigns_in_heartbeat
        and _may_assign(context, group, now_ms)
    ):
        new_target = compute_target(
            context,
            group,
            group_epoch=group_epoch,
            subscription_type=type_of_subscriptions
            or rules.type_of_unchanged_group(group, _subscription_type(group, member, updated)),
            now_ms=now_ms,
            updated=updated,
            replaced_id=replaced_id,
        )
        records += new_target.records
        target_epoch, target = group_epoch, new_target.assignment[member_id]

    after = _reconcile(
        context,
        group,
        updated,
        request,
        target_epoch=target_epoch,
        target=target,
        subscription_changed=subscription_changed,
        is_new=member_id not in group.members and replaced_id is None,
    )
    if after is not updated:
        with_epochs = rules.writes_assignment_epochs
        records.append(
            ConsumerGroupCurrentMemberAssignment(
                group.group_id, member_id, after.current_assignment(with_epochs=with_epochs)
            )
        )
        timers.append(_rebalance_timer(group.group_id, after, now_ms))
    elif after.state is MemberState.UNREVOKED_PARTITIONS and rules.restarts_rebalance_timer(
        updated, after
    ):
        timers.append(_rebalance_timer(group.group_id, after, now_ms))
    if updated is not member or group.subscribed_regexes:
        # Only here, where nothing can fail any more: it marks the resolution as under way.
        resolution = resolution_timer(context, group, member, updated, now_ms)
        if resolution is not None:
            timers.append(resolution)
    timers.append(
        ScheduleTimer(
            session_key(group.group_id, member_id),
            now_ms + context.session_timeout_ms(group.group_id),
        )
    )
    return Outcome(
        _response(context, group.group_id, member, after, request, target_epoch, target),
        tuple(records),
        tuple(timers),
    )


# -- H4, H5: who is it ---------------------------------------------------------------------


def _resolve(
    context: CoordinatorContext,
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
    context: CoordinatorContext,
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
        return group.members.get(member_id) or Member(member_id=member_id), None, []
    if not joins:
        if holder.member_id != member_id:
            raise fenced_instance(member_id, instance_id, holder.member_id)
        _check_epoch(context, holder, request)
        return holder, None, []
    if holder.member_epoch == STATIC_LEAVE_EPOCH:
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
    context: CoordinatorContext, member: Member, request: ConsumerGroupHeartbeatRequest
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


# -- H6: what it tells about itself --------------------------------------------------------


def _merge(
    member: Member, request: ConsumerGroupHeartbeatRequest, client_id: str, client_host: str
) -> Member:
    """The member with every given field replaced; the very same value if nothing differs."""
    if (
        request.subscribed_topic_names is None
        and request.subscribed_topic_regex is None
        and request.rebalance_timeout_ms == UNCHANGED_TIMEOUT_MS
        and request.server_assignor is None
        and request.rack_id is None
        and request.instance_id in (None, member.instance_id)
        and member.client_id == client_id
        and member.client_host == client_host
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
    updated = replace(
        member,
        subscribed_topic_regex=regex,
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        client_id=client_id,
        client_host=client_host,
        rebalance_timeout_ms=timeout_ms,
        subscribed_topic_names=names,
        server_assignor=(
            member.server_assignor if request.server_assignor is None else request.server_assignor
        ),
    )
    return member if updated == member else updated


def _compare_subscriptions(
    context: CoordinatorContext,
    group: ConsumerGroup,
    member: Member,
    updated: Member,
    records: list[Record],
) -> tuple[bool, bool]:
    """H7: has the subscription changed, and does that raise the group epoch at once?

    A pattern raises it only if its topics are known already, or if it is dropped (section 7.2). A
    pattern that nobody has any more gets its tombstone here. Raises GroupError for a bad pattern.
    """
    bump = changed = updated.subscribed_topic_names != member.subscribed_topic_names
    regex = updated.subscribed_topic_regex
    if regex != member.subscribed_topic_regex:
        check_regex(context, group, regex)
        changed = True
        bump = bump or not regex or is_resolved(group, regex)
        gone_regex = abandoned_regex(group, member, regex)
        if gone_regex is not None:
            records.append(ConsumerGroupRegularExpression(group.group_id, gone_regex, None))
    return changed, bump


# -- H8, H9: does the group need a new target ----------------------------------------------


def _refresh_metadata(
    context: CoordinatorContext,
    group: ConsumerGroup,
    member: Member,
    updated: Member,
    *,
    bump: bool,
    now_ms: int,
) -> tuple[int, SubscriptionType, list[Record]]:
    """Look at topics and subscriptions again; returns group epoch, subscription type, records."""
    gone_regex = abandoned_regex(group, member, updated.subscribed_topic_regex)
    subscribed = subscribed_names(group, before=member, after=updated, gone_regex=gone_regex)
    new_hash = metadata_hash(subscribed, context.image)
    group_epoch = group.group_epoch
    records: list[Record] = []
    if bump or context.rules.notices_metadata(group, new_hash):
        group_epoch += 1
        value = GroupMetadataValue(epoch=group_epoch, metadata_hash=new_hash)
        records.append(ConsumerGroupMetadata(group.group_id, value))
    # Soft state, by design not part of any record: a rolled-back write shows as an epoch that the
    # group never reached, and so counts as expired (section 7.3).
    group.metadata_refresh_deadline_ms = now_ms + METADATA_REFRESH_INTERVAL_MS
    group.metadata_refresh_epoch = group_epoch
    return group_epoch, _subscription_type(group, member, updated), records


def _subscription_type(group: ConsumerGroup, member: Member, updated: Member) -> SubscriptionType:
    """Whether all members subscribe alike once ``member`` has become ``updated``."""
    names, regexes = dict(group.subscribed_topic_names), dict(group.subscribed_regexes)
    recount(names, member.subscribed_topic_names, updated.subscribed_topic_names)
    recount(regexes, given(member.subscribed_topic_regex), given(updated.subscribed_topic_regex))
    is_known = updated.member_id in group.members or (
        updated.instance_id is not None and updated.instance_id in group.static_members
    )
    return subscription_type(names, regexes, len(group.members) + (0 if is_known else 1))


def _may_assign(context: CoordinatorContext, group: ConsumerGroup, now_ms: int) -> bool:
    """H10, section 4.3: has the assignment interval passed since the last target?"""
    last_ms = group.target_assignment_timestamp
    return last_ms is None or now_ms - last_ms >= context.assignment_interval_ms(group.group_id)


# -- H11 to H13 ----------------------------------------------------------------------------


def _reconcile(
    context: CoordinatorContext,
    group: ConsumerGroup,
    member: Member,
    request: ConsumerGroupHeartbeatRequest,
    *,
    target_epoch: int,
    target: frozenset[TopicPartition],
    subscription_changed: bool,
    is_new: bool,
) -> Member:
    rules = context.rules
    if not subscription_changed and member.is_reconciled_to(target_epoch):
        return member
    if is_new and not rules.assigns_in_heartbeat:
        return member
    names = group.names_of(member)
    subscribed = context.topic_ids(names)
    return reconcile(
        Reconciliation(
            member=member,
            target_epoch=target_epoch,
            target=rules.target_in_force(target, subscribed),
            owned=rules.owned_as_reported(member, request.topic_partitions, target_epoch),
            is_free=lambda partition: rules.is_free(group, member, partition),
            gives_up=rules.gives_up(member, subscribed) if subscription_changed else None,
            subscribes_to_nothing=not names,
            revoking_epoch=rules.revoking_epoch(member),
        )
    )


def _rebalance_timer(group_id: str, member: Member, now_ms: int) -> TimerCommand:
    key = rebalance_key(group_id, member.member_id)
    if member.state is MemberState.UNREVOKED_PARTITIONS:
        return ScheduleTimer(key, now_ms + member.rebalance_timeout_ms, member.member_epoch)
    return CancelTimer(key)


def _response(
    context: CoordinatorContext,
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
