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


def draw_franz(
    features: frozenset[str], streams: Streams, clients: tuple[ClientSpec, ...]
) -> tuple[ClientSpec, ...]:
    """Some of the clients use franz-go, and speak what they spoke."""
    if "franz_clients" not in features:
        return clients
    return tuple(
        _with_franz(client) if _is_drawn(streams, index) else client
        for index, client in enumerate(clients)
    )


def _is_drawn(streams: Streams, index: int) -> bool:
    return Draw(streams.get(f"generate/franz/{index}")).chance(_SHARE)


def _with_franz(client: ClientSpec) -> ClientSpec:
    kind = FRANZ_CLASSIC if KINDS[client.kind].is_classic else FRANZ
    if client.client_assignors is not None or not takes_assignors(kind, client.assignors):
        return client
    return replace(client, kind=kind)
