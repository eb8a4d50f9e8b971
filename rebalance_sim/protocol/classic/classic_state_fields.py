"""What the fields of a classic group mean for the question whether two of its states behave alike
(``protocol/runtime/snapshot.py``)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from rebalance_sim.protocol.classic.classic_group import ClassicGroup
from rebalance_sim.protocol.runtime.snapshot import StateFields

CLASSIC_GROUP_STATE: Mapping[type, StateFields] = MappingProxyType(
    {
        ClassicGroup: StateFields(
            caches=frozenset({"state_timestamp_ms", "written", "rebalance_cause"}),
            unordered=frozenset({"members", "static_members", "supported_protocols"}),
        )
    }
)
"""When a group changed its state, and what it wrote last, say only when it expires, and whether a
record is its own; why it rebalanced last is for counting."""
