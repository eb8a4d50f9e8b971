"""Client assignors of the classic protocol: pure functions that the leader of a group runs.

- ``classic_assignor``: the interface. Start reading there.
- ``classic_simple``: range and roundrobin.
- ``racks``: when racks have a say; ``range_racks``: what range does then.
- ``sticky``: the two sticky ones of the Java client; ``claims`` settles who may keep what,
  ``sticky_identical`` and ``sticky_general`` balance groups with equal and with different
  subscriptions.
- ``librdkafka_sticky``: the cooperative one as librdkafka computes it; ``franz_sticky``: both as
  franz-go does.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from rebalance_sim.protocol.assignors.classic.classic_assignor import (
    Assigned,
    ClaimingMember,
    ClassicAssignor,
    EndlessAssignmentError,
)
from rebalance_sim.protocol.assignors.classic.classic_simple import (
    ClassicRangeAssignor,
    LibrdkafkaRangeAssignor,
    RoundRobinAssignor,
)
from rebalance_sim.protocol.assignors.classic.franz_sticky import (
    FranzCooperativeStickyAssignor,
    FranzStickyAssignor,
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
    "FRANZ_ASSIGNORS",
    "LIBRDKAFKA_ASSIGNORS",
    "Assigned",
    "ClaimingMember",
    "ClassicAssignor",
    "EndlessAssignmentError",
    "register",
]


def _by_name(*assignors: ClassicAssignor) -> dict[str, ClassicAssignor]:
    return {assignor.name: assignor for assignor in assignors}


_OF_JAVA = _by_name(
    ClassicRangeAssignor(), RoundRobinAssignor(), StickyAssignor(), CooperativeStickyAssignor()
)

CLASSIC_ASSIGNORS: Mapping[str, ClassicAssignor] = MappingProxyType(_OF_JAVA)
"""Name -> assignor, for ``partition.assignment.strategy`` of the Java client; then those that were
registered."""

LIBRDKAFKA_ASSIGNORS: Mapping[str, ClassicAssignor] = MappingProxyType(
    _by_name(LibrdkafkaRangeAssignor(), RoundRobinAssignor(), LibrdkafkaCooperativeStickyAssignor())
)
"""The same, as far as librdkafka has them: it takes no others."""


FRANZ_ASSIGNORS: Mapping[str, ClassicAssignor] = MappingProxyType(
    _by_name(
        ClassicRangeAssignor(),
        RoundRobinAssignor(),
        FranzStickyAssignor(),
        FranzCooperativeStickyAssignor(),
    )
)
"""The same, as franz-go has them."""


def register(kind: type[Any]) -> None:
    """Add an assignor whose module lies elsewhere, a class that derives from ``ClassicAssignor``:
    Java clients may name it from now on. Raises ValueError for a name that is taken."""
    if kind.name in _OF_JAVA:
        raise ValueError(f"there is a classic assignor {kind.name!r} already")
    _OF_JAVA[kind.name] = kind()
