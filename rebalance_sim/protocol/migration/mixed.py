"""Classic requests to a consumer group: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

A classic member is translated onto the engine of the consumer protocol: its generation is its
member epoch, its SyncGroup fetches what it may use now. Nothing is parked. Source:
classic §7.4-§7.7.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rebalance_sim.protocol.classic.operation import Operation
from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup
from rebalance_sim.protocol.consumer.consumer_member import Member
from rebalance_sim.protocol.consumer.context import metadata_hash
from rebalance_sim.protocol.consumer.error_messages import (
    fenced_instance,
    group_is_full,
    unknown_instance,
    unknown_member,
)
from rebalance_sim.protocol.consumer.member_update import Advance
from rebalance_sim.protocol.consumer.ownership_rules import NO_OWNER
from rebalance_sim.protocol.consumer.regexes import resolution_timer
from rebalance_sim.protocol.consumer.removal import remove_members, replace_static_member
from rebalance_sim.protocol.consumer.timer_keys import (
    join_key,
    rebalance_key,
    session_key,
    sync_key,
)
from rebalance_sim.protocol.migration.downgrade import can_downgrade_by_replacement, downgrade
from rebalance_sim.protocol.migration.migration_rules import MigrationContext
from rebalance_sim.protocol.runtime.group_type import Call
from rebalance_sim.protocol.runtime.outcome import (
    CancelTimer,
    Continuation,
    Outcome,
    ScheduleTimer,
    TimerCommand,
)
from rebalance_sim.protocol.runtime.rebalance_causes import cause_of_leave
from rebalance_sim.protocol.wire.classic_messages import (
    ClassicMemberMetadata,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
    SyncGroupRequest,
    SyncGroupResponse,
    names_of,
)
from rebalance_sim.protocol.wire.embedded import (
    CONSUMER_PROTOCOL_TYPE,
    NamedPartitions,
    Subscription,
    assignment_of,
    partitions_of,
)
from rebalance_sim.protocol.wire.errors import ErrorCode, GroupError
from rebalance_sim.protocol.wire.records import MemberState, Record
from rebalance_sim.protocol.wire.topics import MetadataImage, TopicPartition

MixedHandler = Callable[[MigrationContext, Call[Any]], Outcome]
"""What handles a classic request that meets a consumer group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MixedJoin(Continuation):
    """A classic member's JoinGroup, whose timers start when its records are committed."""

    group_id: str
    member_id: str
    session_timeout_ms: int
    rebalance_timeout_ms: int

    def committed(self, context: MigrationContext, *, now_ms: int) -> Outcome:
        """The member has rejoined; it has to fetch its assignment in time."""
        group = context.groups_of(ConsumerGroup).get(self.group_id)
        member = None if group is None else group.members.get(self.member_id)
        if group is None or member is None or not context.rules.awaits_requests_of(member):
            return Outcome()
        group.awaited_rejoins.discard(self.member_id)
        group_id, member_id = self.group_id, self.member_id
        return Outcome(
            timers=(
                CancelTimer(join_key(group_id, member_id)),
                ScheduleTimer(session_key(group_id, member_id), now_ms + self.session_timeout_ms),
                ScheduleTimer(sync_key(group_id, member_id), now_ms + self.rebalance_timeout_ms),
            )
        )


# -- JoinGroup -----------------------------------------------------------------------------


def join(context: MigrationContext, call: Call[JoinGroupRequest]) -> Outcome:
    """classic §7.5. A refusal carries no member id."""
    request, group = call.request, call.group
    try:
        _check_admission(context, group, request)
        if not request.member_id and context.rules.requires_member_id(request):
            # Nothing is stored: the id is as good as any other that the member might bring.
            new_id = context.new_member_id()
            code = ErrorCode.MEMBER_ID_REQUIRED
            return Outcome(JoinGroupResponse(error_code=code, member_id=new_id))
        stored, replaced, records = _resolve(context, group, request)
        updated = _merge(context, stored, request, call.client_id, call.client_host)
        return _advance(context, group, request, stored, updated, replaced, records, call.now_ms)
    except GroupError as error:
        return Outcome(JoinGroupResponse(error_code=error.code))


def _check_admission(
    context: MigrationContext, group: ConsumerGroup, request: JoinGroupRequest
) -> None:
    config, rules = context.config, context.rules
    if not rules.admits_classic_member(config.group_consumer_migration_policy):
        raise GroupError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if rules.is_refused_for_size(group, request, config.group_consumer_max_size):
        raise group_is_full(config.group_consumer_max_size)
    names = {name for name, _ in request.protocols}
    common = [
        name
        for name, count in group.classic_protocols.items()
        if count == group.classic_member_count
    ]
    if (
        request.protocol_type != CONSUMER_PROTOCOL_TYPE
        or not names
        or (group.classic_member_count and names.isdisjoint(common))
    ):
        raise GroupError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def _resolve(
    context: MigrationContext, group: ConsumerGroup, request: JoinGroupRequest
) -> tuple[Member, Member | None, list[Record]]:
    """The member, the static predecessor it replaces, and the records of that."""
    member_id = request.member_id or context.new_member_id()
    instance_id = request.group_instance_id
    if instance_id is None:
        member = group.members.get(member_id)
        if member is None and request.member_id:
            subscription = request.protocols[0].metadata
            if isinstance(subscription, Subscription) and context.rules.is_former_member(
                subscription
            ):
                raise unknown_member(member_id, group.group_id)
        return member or Member(member_id=member_id), None, []
    holder = group.holder_of(instance_id)
    if request.member_id:
        if holder is None:
            raise unknown_instance(instance_id)
        if holder.member_id != member_id:
            raise fenced_instance(member_id, instance_id, holder.member_id)
        return holder, None, []
    if holder is None:
        return Member(member_id=member_id), None, []
    copy, records = replace_static_member(context, group, holder, member_id)
    return copy, holder, list(records)


def _merge(
    context: MigrationContext,
    stored: Member,
    request: JoinGroupRequest,
    client_id: str,
    client_host: str,
) -> Member:
    """The member with everything that a JoinGroup brings; the same object if nothing differs."""
    subscription = request.protocols[0].metadata
    if not isinstance(subscription, Subscription):
        raise GroupError(ErrorCode.UNKNOWN_SERVER_ERROR)
    timeout_ms = request.effective_rebalance_timeout_ms
    instance_id = request.group_instance_id
    updated = replace(
        stored,
        # An empty instance id is one as any other (classic §7.5).
        instance_id=stored.instance_id if instance_id is None else instance_id,
        rack_id=subscription.rack_id or stored.rack_id,
        client_id=client_id,
        client_host=client_host,
        rebalance_timeout_ms=stored.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        subscribed_topic_names=tuple(sorted(set(subscription.topics))),
        subscribed_topic_regex=(
            "" if context.rules.drops_pattern_of_predecessor else stored.subscribed_topic_regex
        ),
        client_assignors=(),
        classic_metadata=ClassicMemberMetadata(
            session_timeout_ms=request.session_timeout_ms, supported_protocols=request.protocols
        ),
    )
    return stored if updated == stored else updated


def _advance(
    context: MigrationContext,
    group: ConsumerGroup,
    request: JoinGroupRequest,
    stored: Member,
    updated: Member,
    replaced: Member | None,
    records: list[Record],
    now_ms: int,
) -> Outcome:
    advance = Advance(
        context,
        group,
        stored,
        updated,
        records=records,
        replaced_id=replaced.member_id if replaced else None,
        now_ms=now_ms,
    )
    advance.note_subscription()
    is_changed = advance.is_bumped
    advance.refresh_metadata()
    op = Operation(context, now_ms=now_ms)
    op.records = advance.records
    if context.rules.ends_timers_of_former_protocol:
        op.timers += _ended_timers(group, stored, replaced)
    op.rebalances += advance.rebalances
    former = replaced or (
        None if request.group_instance_id is None else group.members.get(stored.member_id)
    )
    if former is not None and can_downgrade_by_replacement(context, group, former):
        after = _downgrade(context, group, op, advance, former, is_changed)
    else:
        advance.assign()
        after = _reconcile(context, advance)
        _order_resolution(context, group, advance, op)
        if context.rules.watches_from_write:
            key = session_key(group.group_id, after.member_id)
            op.timers.append(ScheduleTimer(key, now_ms + request.session_timeout_ms))
        op.on_commit = MixedJoin(
            group_id=group.group_id,
            member_id=after.member_id,
            session_timeout_ms=request.session_timeout_ms,
            rebalance_timeout_ms=after.rebalance_timeout_ms,
        )
    return op.outcome(
        JoinGroupResponse(
            generation_id=after.member_epoch,
            protocol_type=CONSUMER_PROTOCOL_TYPE,
            protocol_name=request.protocols[0].name,
            member_id=after.member_id,
        )
    )


def _ended_timers(
    group: ConsumerGroup, stored: Member, replaced: Member | None
) -> tuple[TimerCommand, ...]:
    """What is not waited for any more. Who was revoking continues as a classic member: it is the
    SyncGroup that is waited for; a static one that was replaced need not send any."""
    group_id = group.group_id
    if stored.classic_metadata is None:
        former_id = stored.member_id if replaced is None else replaced.member_id
        return (CancelTimer(rebalance_key(group_id, former_id)),)
    if replaced is None:
        return ()
    former_id = replaced.member_id
    return CancelTimer(join_key(group_id, former_id)), CancelTimer(sync_key(group_id, former_id))


def _downgrade(
    context: MigrationContext,
    group: ConsumerGroup,
    op: Operation,
    advance: Advance,
    former: Member,
    is_changed: bool,
) -> Member:
    """classic §7.8, second trigger. If a rebalance follows, there is nothing to reconcile for."""
    rules = context.rules
    rebalances = (
        rules.rebalances_for_due_target(is_changed=is_changed)
        if advance.group_epoch > group.target_assignment_epoch
        else rules.rebalances_with_current_target
    )
    after = advance.member if rebalances else _reconcile(context, advance)
    downgrade(context, group, op, joiner=after, replaced=former, rebalances=rebalances)
    return after


def _reconcile(context: MigrationContext, advance: Advance) -> Member:
    """With what the member owns by its embedded metadata. Unknown topics cannot block it."""
    metadata = advance.member.classic_metadata
    subscription = metadata.supported_protocols[0].metadata if metadata else None
    owned = subscription.owned_partitions if isinstance(subscription, Subscription) else ()
    reported = partitions_of(owned, context.image)
    if context.rules.outlives_topics:
        reported |= _outlived(advance.member, owned, context.image)
    return advance.reconcile(reported, forces_subscription=advance.is_bumped)


def _outlived(
    member: Member, owned: Sequence[NamedPartitions], image: MetadataImage
) -> frozenset[TopicPartition]:
    """What the member has of topics that are gone, and may still own by name: it names a partition
    of that number which it does not have otherwise."""
    held = (*member.assigned, *member.pending_revocation)
    gone = [partition for partition in held if partition.topic_id not in image.by_id]
    if not gone:
        return frozenset()
    by_name = image.by_name
    numbers = {
        number
        for name, partitions in owned
        for number in partitions
        if name not in by_name or TopicPartition(by_name[name].topic_id, number) not in held
    }
    return frozenset(partition for partition in gone if partition.partition in numbers)


def _order_resolution(
    context: MigrationContext, group: ConsumerGroup, advance: Advance, op: Operation
) -> None:
    if advance.member is not advance.stored or group.subscribed_regexes:
        timer = resolution_timer(context, group, advance.stored, advance.member, op.now_ms)
        if timer is not None:
            op.timers.append(timer)


# -- SyncGroup and Heartbeat ---------------------------------------------------------------


def sync(context: MigrationContext, call: Call[SyncGroupRequest]) -> Outcome:
    """classic §7.6: the partitions that the member may use now, not its target."""
    request, group, now_ms = call.request, call.group, call.now_ms
    try:
        member, metadata = _classic_member(group, request)
        first = metadata.supported_protocols[0]
        if request.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE):
            raise GroupError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if request.protocol_name not in (None, first.name) and not (
            context.rules.takes_offered_assignors
            and request.protocol_name in names_of(metadata.supported_protocols)
        ):
            raise GroupError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    except GroupError as error:
        return Outcome(SyncGroupResponse(error_code=error.code))
    if (
        context.rules.is_behind(group, member)
        and member.state is not MemberState.UNREVOKED_PARTITIONS
    ):
        # One that revokes has rejoined already, and must learn what to revoke.
        code = ErrorCode.REBALANCE_IN_PROGRESS
        return Outcome(
            SyncGroupResponse(error_code=code), timers=tuple(_call_back(group, member, now_ms))
        )
    response = SyncGroupResponse(
        protocol_type=request.protocol_type or CONSUMER_PROTOCOL_TYPE,
        protocol_name=request.protocol_name or first.name,
        assignment=assignment_of(member.assigned, context.image, first.metadata),
    )
    timers: list[TimerCommand] = [CancelTimer(sync_key(group.group_id, member.member_id))]
    return Outcome(response, timers=(*timers, _session(group, member, metadata, now_ms)))


def heartbeat(context: MigrationContext, call: Call[HeartbeatRequest]) -> Outcome:
    """classic §7.6: the way in which a classic member learns that it must rejoin."""
    request, group, now_ms = call.request, call.group, call.now_ms
    try:
        member, metadata = _classic_member(group, request)
    except GroupError as error:
        return Outcome(HeartbeatResponse(error_code=error.code))
    session = _session(group, member, metadata, now_ms)
    if not _must_rejoin(context, group, member) and not _computes_target(context, group, now_ms):
        return Outcome(HeartbeatResponse(), timers=(session,))
    response = HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
    return Outcome(response, timers=(session, *_call_back(group, member, now_ms)))


def _classic_member(
    group: ConsumerGroup, request: SyncGroupRequest | HeartbeatRequest
) -> tuple[Member, ClassicMemberMetadata]:
    """Raises GroupError: identity first, then protocol, then generation."""
    member = _find(group, MemberIdentity(request.member_id, request.group_instance_id))
    if member.classic_metadata is None:
        raise unknown_member(request.member_id, group.group_id)
    if request.generation_id != member.member_epoch:
        raise GroupError(ErrorCode.ILLEGAL_GENERATION)
    return member, member.classic_metadata


def _find(group: ConsumerGroup, identity: MemberIdentity) -> Member:
    member_id, instance_id, _ = identity
    if instance_id is None:
        member = group.members.get(member_id)
        if member is None:
            raise unknown_member(member_id, group.group_id)
        return member
    holder = group.holder_of(instance_id)
    if holder is None:
        raise unknown_instance(instance_id)
    if holder.member_id != member_id:
        raise fenced_instance(member_id, instance_id, holder.member_id)
    return holder


def _must_rejoin(context: MigrationContext, group: ConsumerGroup, member: Member) -> bool:
    """classic §7.4. A member that waits is called only when *all* it waits for is free."""
    if context.rules.is_behind(group, member) or member.state is MemberState.UNREVOKED_PARTITIONS:
        return True
    return member.state is MemberState.UNRELEASED_PARTITIONS and all(
        group.epoch_of(partition) == NO_OWNER
        and not context.rules.is_used_by_name(group, member, partition, context.image)
        for partition in group.target_of(member.member_id)
        if partition not in member.assigned
    )


def _computes_target(context: MigrationContext, group: ConsumerGroup, now_ms: int) -> bool:
    """Is a target due, or a change of topics to be noticed, and only the JoinGroup of some member
    can do it?"""
    rules = context.rules
    if (
        not rules.calls_back_for_target
        or not rules.assigns_in_heartbeat
        or group.classic_member_count < len(group.members)
    ):
        return False
    wall_ms = now_ms + context.wall_offset_ms
    if group.group_epoch > group.target_assignment_epoch:
        return context.assignment_interval_is_over(
            group.group_id, group.target_assignment_timestamp, wall_ms=wall_ms
        )
    is_refresh_due = (
        wall_ms >= group.metadata_refresh_deadline_ms
        or group.group_epoch < group.metadata_refresh_epoch
    )
    return is_refresh_due and rules.notices_metadata(
        group, metadata_hash(group.all_subscribed_names(), context.image)
    )


def _call_back(group: ConsumerGroup, member: Member, now_ms: int) -> list[TimerCommand]:
    """Arm the join timer, unless it runs already."""
    if member.member_id in group.awaited_rejoins:
        return []
    group.awaited_rejoins.add(member.member_id)
    key = join_key(group.group_id, member.member_id)
    return [ScheduleTimer(key, now_ms + member.rebalance_timeout_ms)]


def _session(
    group: ConsumerGroup, member: Member, metadata: ClassicMemberMetadata, now_ms: int
) -> TimerCommand:
    key = session_key(group.group_id, member.member_id)
    return ScheduleTimer(key, now_ms + metadata.session_timeout_ms)


# -- LeaveGroup ----------------------------------------------------------------------------


def leave(context: MigrationContext, call: Call[LeaveGroupRequest]) -> Outcome:
    """classic §7.6: members of either protocol; one epoch for the whole batch."""
    request, group = call.request, call.group
    leaving: dict[str, Member] = {}
    reasons: list[str] = []
    answers: list[MemberResponse] = []
    for identity in request.members:
        code = ErrorCode.NONE
        try:
            member = _find_leaving(group, identity)
            leaving[member.member_id] = member
            reasons.append(identity.reason)
        except GroupError as error:
            code = error.code
        answers.append(MemberResponse(identity.member_id, identity.group_instance_id, code))
    response = LeaveGroupResponse(members=tuple(answers))
    if not leaving:
        return Outcome(response)
    return remove_members(
        context,
        group,
        list(leaving.values()),
        now_ms=call.now_ms,
        cause=cause_of_leave(reasons),
        response=response,
    )


def _find_leaving(group: ConsumerGroup, identity: MemberIdentity) -> Member:
    if not identity.member_id and identity.group_instance_id is not None:
        # An administrator removes by instance id.
        holder = group.holder_of(identity.group_instance_id)
        if holder is None:
            raise unknown_instance(identity.group_instance_id)
        return holder
    return _find(group, identity)
