"""Client-side assignors, as the text of KIP-848 has them: pure functions that members run.

- ``interface``: what an assignor is given and what it hands back. Start reading there.
- ``simple``: the algorithms of brokers, under the names ``range`` and ``sticky``.
- ``streams``: an assignor like that of Kafka Streams; ``streams_placement`` has its rules,
  ``streams_metadata`` the bytes that it exchanges with its members.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from rebalance_sim.protocol.assignors.client_side.client_side_assignor import (
    AssignmentSpec,
    AssignorMetadata,
    ComputedAssignment,
    PartitionAssignor,
    advertise,
)
from rebalance_sim.protocol.assignors.client_side.simple import (
    SimpleAssignor,
    range_assignor,
    sticky_assignor,
)
from rebalance_sim.protocol.assignors.client_side.streams import StreamsAssignor
from rebalance_sim.protocol.assignors.client_side.streams_metadata import (
    AssignmentError,
    MetadataReason,
    StreamsAssignment,
    StreamsMember,
)
from rebalance_sim.protocol.assignors.client_side.streams_placement import StreamsConfig

__all__ = [
    "CLIENT_SIDE_ASSIGNORS",
    "AssignmentError",
    "AssignmentSpec",
    "AssignorMetadata",
    "ComputedAssignment",
    "MetadataReason",
    "PartitionAssignor",
    "SimpleAssignor",
    "StreamsAssignment",
    "StreamsAssignor",
    "StreamsConfig",
    "StreamsMember",
    "advertise",
    "range_assignor",
    "register",
    "sticky_assignor",
]

_MAKERS: dict[str, Callable[..., PartitionAssignor]] = {
    "sticky": sticky_assignor,
    "range": range_assignor,
}

CLIENT_SIDE_ASSIGNORS: Mapping[str, Callable[..., PartitionAssignor]] = MappingProxyType(_MAKERS)
"""Name -> what makes an assignor that needs no more settings than its versions; those that were
registered come last."""


def register(kind: type[Any]) -> None:
    """Add an assignor whose module lies elsewhere, a class that derives from ``PartitionAssignor``:
    clients may offer it from now on, in the versions that it has itself. Raises ValueError for a
    name that is taken."""
    if kind.name in (*_MAKERS, StreamsAssignor.name):
        raise ValueError(f"there is a client-side assignor {kind.name!r} already")
    _MAKERS[kind.name] = lambda **versions: kind()
