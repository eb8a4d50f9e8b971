"""Whether a run had anything left to judge.

After the last fault properties ask what becomes of members. If all clients have failed for good,
nothing is asked, and that nothing is wrong means nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from rebalance_sim.invariants.step import ClientView, WorldView
from rebalance_sim.protocol.clients import ClientState


def is_vacuous(groups: Iterable[WorldView]) -> bool:
    """Whether no living client is in any group, though one at least is to be: a process lives and
    subscribes, or has failed for good. A world whose clients have all been closed is not meant."""
    clients = [client for group in groups for client in group.clients().values()]
    return any(map(_is_to_be_member, clients)) and not any(map(_is_member, clients))


def _is_to_be_member(client: ClientView) -> bool:
    member = client.member
    return member.state is ClientState.FATAL or (
        client.is_alive and member.has_subscription and not member.is_closed
    )


def _is_member(client: ClientView) -> bool:
    return client.is_alive and client.member.state.is_in_group and client.member.member_epoch > 0
