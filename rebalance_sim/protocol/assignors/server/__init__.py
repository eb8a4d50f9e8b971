"""Server-side assignors: pure functions from a group and its topics to a target assignment.

Source: docs/reference/assignors.md. A broker lists ``uniform`` first and then ``range``.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from rebalance_sim.protocol.assignors.server.java_order import java_hash_map_order
from rebalance_sim.protocol.assignors.server.preconditions import validate
from rebalance_sim.protocol.assignors.server.range_assignor import RangeAssignor
from rebalance_sim.protocol.assignors.server.server_assignor import (
    Assignor,
    GroupSpec,
    MemberOrder,
    MemberSpec,
    PartitionAssignorError,
    SubscriptionType,
)
from rebalance_sim.protocol.assignors.server.uniform import UniformAssignor

__all__ = [
    "ASSIGNOR_KINDS",
    "DEFAULT_ASSIGNORS",
    "Assignor",
    "GroupSpec",
    "MemberOrder",
    "MemberSpec",
    "PartitionAssignorError",
    "RangeAssignor",
    "SubscriptionType",
    "UniformAssignor",
    "java_hash_map_order",
    "register",
    "validate",
]

ASSIGNOR_KINDS: list[type[Assignor]] = [UniformAssignor, RangeAssignor]
"""The classes of these assignors; rules make their own objects of them."""

_ASSIGNORS: dict[str, Assignor] = {kind.name: kind() for kind in ASSIGNOR_KINDS}

DEFAULT_ASSIGNORS: Mapping[str, Assignor] = MappingProxyType(_ASSIGNORS)
"""Name -> assignor in the order of the broker's default list, then those that were registered; the
first is the default."""


def register(kind: type[Assignor]) -> None:
    """Add an assignor whose module lies elsewhere: brokers may list it from now on.

    Rules that were put together before do not have it (``rule_set.compose_anew``). Raises
    ValueError for a name that is taken.
    """
    if kind.name in _ASSIGNORS:
        raise ValueError(f"there is an assignor {kind.name!r} already")
    _ASSIGNORS[kind.name] = kind()
    ASSIGNOR_KINDS.append(kind)
