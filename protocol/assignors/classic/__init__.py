"""Client assignors of the classic protocol: pure functions that the leader of a group runs.

- ``interface``: what an assignor is given and what it hands back. Start reading there.
- ``range_assignor``, ``round_robin``: the simple ones.
- ``sticky``: the two sticky ones; ``claims`` settles who may keep what, ``sticky_identical`` and
  ``sticky_general`` balance groups with equal and with different subscriptions.
- ``librdkafka``: the cooperative one as librdkafka computes it.
- ``defects``: what real ones got wrong.
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
from rebalance_sim.protocol.assignors.classic.librdkafka_sticky import LIBRDKAFKA_ASSIGNORS
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
"""Name -> assignor, for ``partition.assignment.strategy``."""
