"""Subscriptions by pattern: who has which, when patterns are resolved, what that writes.

Source: consumer-group-coordinator.md, section 7.2. The coordinator matches patterns itself, in an
operation of its own that runs after the heartbeat which asked for it. The expression engine is a
function value of the context, so that the core needs none.
"""

from __future__ import annotations

from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup
from rebalance_sim.protocol.consumer.consumer_member import Member
from rebalance_sim.protocol.consumer.context import CoordinatorContext, metadata_hash
from rebalance_sim.protocol.runtime.causes import Rebalance, RebalanceCause
from rebalance_sim.protocol.runtime.outcome import Outcome, ScheduleTimer, TimerKey
from rebalance_sim.protocol.wire.errors import ErrorCode, GroupError
from rebalance_sim.protocol.wire.records import (
    ConsumerGroupMetadata,
    ConsumerGroupRegularExpression,
    GroupMetadataValue,
    Record,
    RegularExpressionValue,
)

__all__ = [
    "RESOLUTION_INTERVAL_MS",
    "abandoned_regex",
    "check_regex",
    "is_resolved",
    "resolution_timer",
    "resolve",
    "subscribed_names",
]

RESOLUTION_INTERVAL_MS = 10_000
"""A group's patterns are resolved at most once in this time."""


def regex_key(group_id: str) -> TimerKey:
    """The operation that resolves the patterns of a group."""
    return TimerKey("regex", group_id)


def check_regex(context: CoordinatorContext, group: ConsumerGroup, regex: str) -> None:
    """V12: a pattern that no member has yet must compile. Raises GroupError if it does not."""
    if not regex or regex in group.subscribed_regexes:
        return
    try:
        context.compile_regex(regex)
    except ValueError as error:
        raise GroupError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {error}.",
        ) from error


def is_resolved(group: ConsumerGroup, regex: str) -> bool:
    """Some other member has this pattern, and its topics are known."""
    return regex in group.subscribed_regexes and regex in group.resolved_regexes


def abandoned_regex(group: ConsumerGroup, member: Member, new_regex: str) -> str | None:
    """The pattern that nobody has any more once ``member`` has ``new_regex``; None if none."""
    old = member.subscribed_topic_regex
    if not old or old == new_regex:
        return None
    return old if group.subscribed_regexes.get(old, 0) <= 1 else None


def subscribed_names(
    group: ConsumerGroup,
    *,
    before: Member,
    after: Member,
    gone_regex: str | None = None,
) -> set[str]:
    """Topic names of the whole group once ``before`` has become ``after``."""
    names = set(group.subscribed_topic_names)
    for name in before.subscribed_topic_names:
        if group.subscribed_topic_names.get(name) == 1:
            names.discard(name)
    names.update(after.subscribed_topic_names)
    for regex, resolved in group.resolved_regexes.items():
        if regex != gone_regex:
            names.update(resolved.topics)
    return names


def resolution_timer(
    context: CoordinatorContext, group: ConsumerGroup, member: Member, updated: Member, now_ms: int
) -> ScheduleTimer | None:
    """The order to resolve the group's patterns, if this heartbeat gives cause to.

    Marks the resolution as under way (soft state). Rule 7 of section 7.2.
    """
    regex = updated.subscribed_topic_regex
    brings_new = regex != "" and regex not in group.subscribed_regexes
    gone = 0 if abandoned_regex(group, member, regex) is None else 1
    pattern_count = len(group.subscribed_regexes) - gone + (1 if brings_new else 0)
    if not pattern_count or group.is_resolving_regexes:
        return None
    stored = group.resolved_regexes.values()
    last_ms = max((resolved.timestamp for resolved in stored), default=None)
    if last_ms is not None and now_ms <= last_ms + RESOLUTION_INTERVAL_MS:
        return None
    last_version = max((resolved.version for resolved in stored), default=-1)
    refresh_ms = context.config.group_consumer_regex_refresh_interval_ms
    if (
        brings_new
        or pattern_count != len(group.resolved_regexes)
        or last_version < context.newest_topic_version
        or (last_ms is not None and now_ms > last_ms + refresh_ms)
    ):
        group.is_resolving_regexes = True
        return ScheduleTimer(regex_key(group.group_id), now_ms, epoch=now_ms)
    return None


def resolve(context: CoordinatorContext, group: ConsumerGroup, *, asked_at_ms: int) -> Outcome:
    """Match all patterns of the group against all topics: record 16 for each, and record 3 iff the
    topics of some pattern, or the metadata hash, changed."""
    group.is_resolving_regexes = False
    records: list[Record] = []
    names = set(group.subscribed_topic_names)
    changed = False
    for regex in sorted(group.subscribed_regexes):
        matches = context.compile_regex(regex)
        topics = tuple(name for name in context.image.by_name if matches(name))
        stored = group.resolved_regexes.get(regex)
        changed |= topics != (stored.topics if stored else ())
        names.update(topics)
        value = RegularExpressionValue(
            topics=topics, version=context.image.version, timestamp=asked_at_ms
        )
        records.append(ConsumerGroupRegularExpression(group.group_id, regex, value))
    if not records:
        return Outcome()
    new_hash = metadata_hash(names, context.image)
    rebalances: tuple[Rebalance, ...] = ()
    if changed or new_hash != group.metadata_hash:
        cause = RebalanceCause.PATTERN_MATCHED if changed else RebalanceCause.TOPICS_CHANGED
        rebalances = (Rebalance("consumer", cause),)
        epoch = GroupMetadataValue(epoch=group.group_epoch + 1, metadata_hash=new_hash)
        records.append(ConsumerGroupMetadata(group.group_id, epoch))
    return Outcome(None, tuple(records), rebalances=rebalances)
