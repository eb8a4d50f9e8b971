"""Client assignors of the classic protocol: pure functions that the leader of a group runs.

- ``classic_assignor``: the interface. Start reading there.
- ``classic_range``, ``classic_round_robin``: the simple ones.
- ``sticky``: the two sticky ones of the Java client; ``claims`` settles who may keep what,
  ``sticky_identical`` and ``sticky_general`` balance groups with equal and with different
  subscriptions.
- ``librdkafka_sticky``: the cooperative one as librdkafka computes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from rebalance_sim.protocol.assignors.classic.classic_assignor import (
    Assigned,
    ClaimingMember,
    ClassicAssignor,
    EndlessAssignmentError,
)
from rebalance_sim.protocol.assignors.classic.classic_range import ClassicRangeAssignor
from rebalance_sim.protocol.assignors.classic.classic_round_robin import RoundRobinAssignor
from rebalance_sim.protocol.assignors.classic.librdkafka_sticky import (
    LibrdkafkaCooperativeStickyAssignor,
)
from rebalance_sim.protocol.assignors.classic.sticky import (
    CooperativeStickyAssignor,
    StickyAssignor,
)

__all__ = [
    "CLASSIC_ASSIGNORS",
    "LIBRDKAFKA_ASSIGNORS",
    "Assigned",
    "ClaimingMember",
    "ClassicAssignor",
    "EndlessAssignmentError",
]

CLASSIC_ASSIGNORS: Mapping[str, ClassicAssignor] = MappingProxyType(
    {
        assignor.name: assignor
        for assignor in (
            ClassicRangeAssignor(),
            RoundRobinAssignor(),
            StickyAssignor(),
            CooperativeStickyAssignor(),
        )
    }
)
"""Name -> assignor, for ``partition.assignment.strategy`` of the Java client."""

LIBRDKAFKA_ASSIGNORS: Mapping[str, ClassicAssignor] = MappingProxyType(
    {
        assignor.name: assignor
        for assignor in (
            ClassicRangeAssignor(),
            RoundRobinAssignor(),
            LibrdkafkaCooperativeStickyAssignor(),
        )
    }
)
"""The same, as far as librdkafka has them."""
