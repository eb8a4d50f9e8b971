"""Drawing which clients of a scenario are franz-go's: from a stream of its own, and last, so that
nothing else of a seed depends on it."""

from __future__ import annotations

from dataclasses import replace

from rebalance_sim.protocol.clients.kinds import FRANZ, FRANZ_CLASSIC, KINDS
from rebalance_sim.sim.client.client_checks import takes_assignors
from rebalance_sim.sim.draw import Draw
from rebalance_sim.sim.spec import ClientSpec
from rebalance_sim.sim.streams import Streams

_SHARE = 0.6
_GREEDY = 0.2
_MORE = 0.3
"""Of clients that have one balancer more."""
_BALANCERS = ("cooperative-sticky", "sticky", "range")


def draw_franz(
    features: frozenset[str], streams: Streams, clients: tuple[ClientSpec, ...]
) -> tuple[ClientSpec, ...]:
    """Some of the clients use franz-go, and speak what they spoke."""
    if "franz_clients" not in features:
        return clients
    return tuple(
        _varied(_with_franz(client), Draw(streams.get(f"generate/franz-settings/{index}")))
        if _is_drawn(streams, index)
        else client
        for index, client in enumerate(clients)
    )


def _is_drawn(streams: Streams, index: int) -> bool:
    return Draw(streams.get(f"generate/franz/{index}")).chance(_SHARE)


def _with_franz(client: ClientSpec) -> ClientSpec:
    kind = FRANZ_CLASSIC if KINDS[client.kind].is_classic else FRANZ
    if client.client_assignors is not None or not takes_assignors(kind, client.assignors):
        return client
    return replace(client, kind=kind)


def _varied(client: ClientSpec, draw: Draw) -> ClientSpec:
    """With settings that only franz-go has. The balancers that others vote for stay in its list."""
    is_greedy, has_more, is_first = draw.chance(_GREEDY), draw.chance(_MORE), draw.chance(0.5)
    if client.kind not in (FRANZ, FRANZ_CLASSIC):
        return client
    if client.enable_auto_commit:
        client = replace(client, greedy_auto_commit=is_greedy)
    others = [name for name in _BALANCERS if name not in client.assignors]
    if client.kind != FRANZ_CLASSIC or not has_more or not others:
        return client
    other = (draw.pick(others),)
    lists = (*other, *client.assignors) if is_first else (*client.assignors, *other)
    return replace(client, assignors=lists)
