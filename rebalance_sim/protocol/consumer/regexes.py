"""Subscriptions by pattern: who has which, when patterns are resolved, what that writes.

Source: coordinator §7.2. The coordinator matches patterns itself, in an operation of its own that
runs after the heartbeat which asked for it, on the patterns and topics of that moment. The
expression engine is a function value of the context, so that the core needs none.
"""

from __future__ import annotations

from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup
from rebalance_sim.protocol.consumer.consumer_member import Member
from rebalance_sim.protocol.consumer.context import ConsumerContext, metadata_hash
from rebalance_sim.protocol.consumer.resolution import RegexResolution
from rebalance_sim.protocol.consumer.timer_keys import regex_key
from rebalance_sim.protocol.runtime.outcome import Outcome, ScheduleTimer
from rebalance_sim.protocol.runtime.rebalance_causes import Rebalance, RebalanceCause
from rebalance_sim.protocol.wire.errors import ErrorCode, GroupError
from rebalance_sim.protocol.wire.records import (
    ConsumerGroupMetadata,
    ConsumerGroupRegularExpression,
    GroupMetadataValue,
    Record,
)

RESOLUTION_INTERVAL_MS = 10_000
"""A group's patterns are resolved at most once in this time."""


class Resolutions(dict[str, RegexResolution]):
    """Those under way, by group id; a group that has gone and come again has that of its
    predecessor, as the tasks of a broker belong to ids."""


def check_regex(context: ConsumerContext, group: ConsumerGroup, regex: str) -> None:
    """coordinator V12: a pattern that no member has yet must compile. Raises GroupError if it does
    not."""
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


def are_resolved(context: ConsumerContext, group: ConsumerGroup) -> bool:
    """Whether the next heartbeats give no cause to resolve the group's patterns, but for the age of
    what is known."""
    patterns, stored = group.subscribed_regexes, group.resolved_regexes
    newest = max((resolved.version for resolved in stored.values()), default=-1)
    is_new = len(patterns) == len(stored) and newest >= context.newest_topic_version
    return is_new or not patterns


def abandoned_regex(group: ConsumerGroup, member: Member, new_regex: str) -> str | None:
    """The pattern that no one has any more once ``member`` has ``new_regex``; None if none."""
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
    context: ConsumerContext, group: ConsumerGroup, member: Member, updated: Member, now_ms: int
) -> ScheduleTimer | None:
    """The order to resolve the group's patterns, if this heartbeat gives cause to.

    What is to be resolved is written down in the context (coordinator §7.2, rule 7).
    """
    regex = updated.subscribed_topic_regex
    brings_new = regex != "" and regex not in group.subscribed_regexes
    patterns = set(group.subscribed_regexes)
    patterns.discard(abandoned_regex(group, member, regex) or "")
    if regex:
        patterns.add(regex)
    under_way = context.part(Resolutions)
    if not patterns or group.group_id in under_way:
        return None
    wall_ms = now_ms + context.wall_offset_ms
    stored = group.resolved_regexes.values()
    last_ms = max((resolved.timestamp for resolved in stored), default=None)
    if last_ms is not None and wall_ms <= last_ms + RESOLUTION_INTERVAL_MS:
        return None
    last_version = max((resolved.version for resolved in stored), default=-1)
    refresh_ms = context.config.group_consumer_regex_refresh_interval_ms
    if (
        brings_new
        or len(patterns) != len(group.resolved_regexes)
        or last_version < context.newest_topic_version
        or (last_ms is not None and wall_ms > last_ms + refresh_ms)
    ):
        resolution = RegexResolution(tuple(sorted(patterns)), context.image, wall_ms)
        under_way[group.group_id] = resolution
        return ScheduleTimer(regex_key(group.group_id), now_ms)
    return None


def resolve(
    context: ConsumerContext, group_id: str, group: ConsumerGroup | None, *, now_ms: int
) -> Outcome:
    """A resolution is done: record 16 for each of its patterns that somebody still has, and record
    3 iff the topics of one of them, or the metadata hash, changed; that is a metadata refresh, too.
    A pattern that came meanwhile is not in it; the next heartbeat has it resolved. ``group`` is
    None if there is none any more."""
    resolution = context.part(Resolutions).pop(group_id, None)
    if resolution is None or group is None:
        return Outcome()
    began_ms = context.rules.resolution_began_ms(resolution.scheduled_at_ms)
    found = resolution.run(context.compile_regex, began_ms)
    topics_of = {regex: stored.topics for regex, stored in group.resolved_regexes.items()}
    records: list[Record] = []
    changed = False
    for regex, resolved in found.items():
        if regex not in group.subscribed_regexes:
            continue
        changed |= resolved.topics != topics_of.get(regex, ())
        topics_of[regex] = resolved.topics
        records.append(ConsumerGroupRegularExpression(group.group_id, regex, resolved))
    names = set(group.subscribed_topic_names).union(*topics_of.values())
    new_hash = metadata_hash(names, context.image)
    rebalances: tuple[Rebalance, ...] = ()
    if changed or new_hash != group.metadata_hash:
        cause = RebalanceCause.PATTERN_MATCHED if changed else RebalanceCause.TOPICS_CHANGED
        rebalances = (Rebalance("consumer", cause),)
        epoch = group.group_epoch + 1
        value = GroupMetadataValue(epoch=epoch, metadata_hash=new_hash)
        records.append(ConsumerGroupMetadata(group.group_id, value))
        group.note_metadata_refresh(epoch, now_ms + context.wall_offset_ms)
    return Outcome(None, tuple(records), rebalances=rebalances)
