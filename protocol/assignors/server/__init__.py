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
    "validate",
]

DEFAULT_ASSIGNORS: Mapping[str, Assignor] = MappingProxyType(
    {"uniform": UniformAssignor(), "range": RangeAssignor()}
)
"""Name -> assignor in the order of the broker's default list; the first is the default."""
