"""Whether a run had anything left to judge.

After the last fault properties ask what becomes of members. If all clients have failed for good,
nothing is asked, and that nothing is wrong means nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from rebalance_sim.invariants.step import ClientView, WorldView
from rebalance_sim.protocol.clients.common.member_states import ClientState


def is_vacuous(groups: Iterable[WorldView]) -> bool:
    """Whether no living client is in any group, though one at least is to be: a process lives and
    subscribes, or has failed for good. A world whose clients have all been closed is not meant,
    nor one without any topic that its clients could join for."""
    clients = [(group, client) for group in groups for client in group.clients().values()]
    return any(_is_to_be_member(group, client) for group, client in clients) and not any(
        _is_member(client) for _, client in clients
    )


def _is_to_be_member(group: WorldView, client: ClientView) -> bool:
    member = client.member
    if member.state is ClientState.FATAL:
        return True
    if not client.is_alive or not member.has_subscription or member.is_closed:
        return False
    shard = group.acting_shard()
    return (
        member.joins_without_topics
        or shard is None
        or not member.subscribed_topic_names.isdisjoint(shard.coordinator.image.by_name)
    )


def _is_member(client: ClientView) -> bool:
    return client.is_alive and client.member.state.is_in_group and client.member.member_epoch > 0
