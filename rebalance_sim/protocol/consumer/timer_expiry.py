"""What happens when a timer of a consumer group fires.

Sources: coordinator §4.1, §4.2, §7.2, §12.3, §13; classic §7.7.
"""

from __future__ import annotations

from dataclasses import replace

from rebalance_sim.protocol.consumer.client_side.selection import delegate, expire
from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup
from rebalance_sim.protocol.consumer.context import ConsumerContext, metadata_hash
from rebalance_sim.protocol.consumer.regexes import resolve
from rebalance_sim.protocol.consumer.removal import remove_members
from rebalance_sim.protocol.consumer.target import compute_target
from rebalance_sim.protocol.consumer.timer_keys import ConsumerTimer
from rebalance_sim.protocol.runtime.outcome import Outcome, ScheduleTimer, TimerKey
from rebalance_sim.protocol.runtime.rebalance_causes import Rebalance, RebalanceCause
from rebalance_sim.protocol.wire.errors import GroupError, ProtocolBug
from rebalance_sim.protocol.wire.records import ConsumerGroupMetadata, GroupMetadataValue

RETRY_AFTER_FAILURE_MS = 500
"""When an operation of a timer that failed is tried again (coordinator §4.1)."""


def fired(
    context: ConsumerContext,
    group: ConsumerGroup | None,
    key: TimerKey,
    *,
    epoch: int,
    now_ms: int,
) -> Outcome:
    """``epoch`` is what the timer was armed with; ``group`` is None if there is none any more.
    Raises ProtocolBug for an unknown kind."""
    if key.kind is ConsumerTimer.REGEX:
        return resolve(context, key.group_id, group, now_ms=now_ms)
    if group is None:
        return Outcome()
    match key.kind:
        case ConsumerTimer.SESSION:
            return _remove(context, group, key, now_ms, RebalanceCause.SESSION_TIMEOUT)
        case ConsumerTimer.REBALANCE:
            member = group.members.get(key.member_id)
            is_current = member is not None and member.member_epoch == epoch
            if not is_current:
                return Outcome()
            return _remove(context, group, key, now_ms, RebalanceCause.REBALANCE_TIMEOUT)
        case ConsumerTimer.REJOIN | ConsumerTimer.RESYNC:
            cause = RebalanceCause.SYNC_TIMEOUT
            if key.kind is ConsumerTimer.REJOIN:
                cause = RebalanceCause.REBALANCE_TIMEOUT
                group.awaited_rejoins.discard(key.member_id)
            member = group.members.get(key.member_id)
            is_awaited = member is not None and context.rules.awaits_requests_of(member)
            return _remove(context, group, key, now_ms, cause) if is_awaited else Outcome()
        case ConsumerTimer.METADATA:
            return _notice_topics(context, group)
        case ConsumerTimer.ASSIGNMENT:
            return _assign(context, group, key, now_ms)
        case ConsumerTimer.COMPUTATION:
            return expire(context, group, now_ms)
    raise ProtocolBug(f"unknown timer {key}")


def _remove(
    context: ConsumerContext,
    group: ConsumerGroup,
    key: TimerKey,
    now_ms: int,
    cause: RebalanceCause,
) -> Outcome:
    member = group.members.get(key.member_id)
    if member is None:
        return Outcome()
    outcome = remove_members(context, group, [member], now_ms=now_ms, cause=cause)
    return replace(outcome, timed_out=1)


def _notice_topics(context: ConsumerContext, group: ConsumerGroup) -> Outcome:
    new_hash = metadata_hash(group.all_subscribed_names(), context.image)
    if not context.rules.notices_metadata(group, new_hash):
        return Outcome()
    value = GroupMetadataValue(epoch=group.group_epoch + 1, metadata_hash=new_hash)
    return Outcome(
        None,
        (ConsumerGroupMetadata(group.group_id, value),),
        rebalances=(Rebalance("consumer", RebalanceCause.TOPICS_CHANGED),),
    )


def _assign(context: ConsumerContext, group: ConsumerGroup, key: TimerKey, now_ms: int) -> Outcome:
    """A computation of the coordinator's own. No one waits for it, so one that fails is tried
    again after a while, as a timer whose write fails is (coordinator §4.1). A group with a
    client-side assignor has one of its members compute (coordinator §12.3)."""
    if not group.members:
        group.computation = None  # Who computed is gone, and may come back under its member id.
        return Outcome()
    if group.group_epoch <= group.target_assignment_epoch:
        return Outcome()
    if not context.rules.computes_target(group, None):
        return Outcome(timers=(ScheduleTimer(key, now_ms + RETRY_AFTER_FAILURE_MS),))
    if group.client_assignors or group.computation is not None:
        delegated = delegate(context, group)
        if delegated is not None:
            return delegated
    try:
        target = compute_target(
            context,
            group,
            group_epoch=group.group_epoch,
            subscription_type=group.subscription_type,
            now_ms=now_ms,
        )
    except GroupError:
        return Outcome(timers=(ScheduleTimer(key, now_ms + RETRY_AFTER_FAILURE_MS),))
    return Outcome(None, target.records)
