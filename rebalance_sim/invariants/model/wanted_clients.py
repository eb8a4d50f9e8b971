"""Which clients should be at work once faults have stopped."""

from __future__ import annotations

from collections.abc import Iterator

from rebalance_sim.invariants.model.model_view import ModelView
from rebalance_sim.protocol.classic.classic_group import ClassicGroup
from rebalance_sim.protocol.classic.classic_states import ClassicGroupState
from rebalance_sim.protocol.clients.common.group_member import GroupMember
from rebalance_sim.protocol.clients.kinds import LIBRDKAFKA_CLASSIC

_JOIN_GRACE_MS = 3_000
"""What librdkafka waits for the answer to a JoinGroup, on top of max.poll.interval.ms."""


def wanted_classic(model: ModelView) -> Iterator[tuple[str, GroupMember]]:
    """Classic clients that should be working members."""
    for name, entry in sorted(model.classic_clients.items()):
        if is_at_work(entry.member) and not has_nothing_to_join_for(model, entry.member):
            yield name, entry.member


def is_at_work(member: GroupMember) -> bool:
    """Whether it has a subscription, and its application polls."""
    return (
        member.has_subscription
        and member.is_polling
        and not member.is_closed
        and member.blocked_in is None
        and not member.has_failed
    )


def has_nothing_to_join_for(model: ModelView, member: GroupMember) -> bool:
    """Some clients do not join before one of the topics that they name exists."""
    shard = model.acting_shard()
    if member.joins_without_topics or member.assigned or shard is None:
        return False
    if member.subscribed_topic_regex is not None:
        return False
    return shard.coordinator.image.by_name.keys().isdisjoint(member.subscribed_topic_names)


def has_rivals(model: ModelView) -> bool:
    """Whether two living clients have one instance id. Only one of them can be a member: they drive
    each other out for as long as they are started again, and their group never comes to rest."""
    members = [entry.member for entry in model.entries.values()]
    members = [member for member in members if member.has_subscription and not member.is_closed]
    taken = [id_ for member in members if (id_ := member.config.group_instance_id) is not None]
    return len(set(taken)) < len(taken)


def outlasts_a_join(model: ModelView, group: ClassicGroup) -> bool:
    """Whether join phases may go on for ever: a static member that no one uses, and whose session
    is not shorter, lets each last for the longest rebalance timeout; one of librdkafka's that is
    wanted and waits no longer than that begins the next one instead of its SyncGroup, as the
    session of the former starts again (classic §1.5, §4.6). A group that is Stable is in none."""
    if group.state is ClassicGroupState.STABLE:
        return False
    phase_ms = group.max_rebalance_timeout_ms
    wanted = [member for _, member in wanted_classic(model)]
    if not any(
        member.kind == LIBRDKAFKA_CLASSIC
        and member.config.max_poll_interval_ms + _JOIN_GRACE_MS <= phase_ms
        for member in wanted
    ):
        return False
    instances = {member.config.group_instance_id for member in wanted}
    return any(
        member.group_instance_id is not None
        and member.awaiting_join is None
        and member.session_timeout_ms >= phase_ms
        and member.group_instance_id not in instances
        for member in group.members.values()
    )
