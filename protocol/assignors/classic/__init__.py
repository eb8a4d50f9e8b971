"""Client assignors of the classic protocol: pure functions that the leader of a group runs.

- ``interface``: what an assignor is given and what it hands back. Start reading there.
- ``range_assignor``: the simple one.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from protocol.assignors.classic.interface import Assigned, ClaimingMember, ClassicAssignor
from protocol.assignors.classic.range_assignor import ClassicRangeAssignor

__all__ = ["CLASSIC_ASSIGNORS", "Assigned", "ClaimingMember", "ClassicAssignor"]

CLASSIC_ASSIGNORS: Mapping[str, ClassicAssignor] = MappingProxyType(
    {assignor.name: assignor for assignor in (ClassicRangeAssignor(),)}
)
"""Name -> assignor, for ``partition.assignment.strategy``."""
