"""Client assignors of the classic protocol: pure functions that the leader of a group runs.

- ``classic_assignor``: the interface. Start reading there.
- ``classic_simple``: range and roundrobin.
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
from rebalance_sim.protocol.assignors.classic.classic_simple import (
    ClassicRangeAssignor,
    RoundRobinAssignor,
)
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


def _by_name(*assignors: ClassicAssignor) -> Mapping[str, ClassicAssignor]:
    return MappingProxyType({assignor.name: assignor for assignor in assignors})


_SIMPLE = (ClassicRangeAssignor(), RoundRobinAssignor())

CLASSIC_ASSIGNORS = _by_name(*_SIMPLE, StickyAssignor(), CooperativeStickyAssignor())
"""Name -> assignor, for ``partition.assignment.strategy`` of the Java client."""

LIBRDKAFKA_ASSIGNORS = _by_name(*_SIMPLE, LibrdkafkaCooperativeStickyAssignor())
"""The same, as far as librdkafka has them."""
