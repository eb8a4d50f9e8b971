"""A version as brokers carry it out: ties by the order of Java's hash maps, and the end of a join
phase in a timer. Simulated brokers decide such things in ways that a run can be repeated with."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from rebalance_sim.protocol.assignors.server import DEFAULT_ASSIGNORS, UniformAssignor
from rebalance_sim.protocol.assignors.server.java_order import java_hash_map_order
from rebalance_sim.protocol.migration.migration_rules import MigrationRules
from rebalance_sim.protocol.versions.semantics import Semantics


def as_on_a_broker(
    semantics: Semantics,
    *,
    order: Callable[[Collection[str]], list[str]] = java_hash_map_order,
    leader: Callable[[Collection[str]], str] = min,
    resolution_began_ms: Callable[[int], int] | None = None,
) -> Semantics:
    """``order``: of members in a hash map; ``leader``: of a classic group that a consumer group
    becomes; ``resolution_began_ms``: when a resolution of patterns began that was scheduled then,
    None for just then."""
    decisions: dict[str, Any] = {
        "assignors": {**DEFAULT_ASSIGNORS, "uniform": UniformAssignor(order=order)},
        "first_member": lambda _, member_ids: order(member_ids)[0],
        "first_converted": lambda _, member_ids: leader(member_ids),
        "ends_undelayed_phase_at_once": False,
    }
    if resolution_began_ms is not None:
        began_ms = resolution_began_ms
        decisions["resolution_began_ms"] = lambda _, scheduled_at_ms: began_ms(scheduled_at_ms)
    return semantics.changed_by(type("RulesOnABroker", (MigrationRules,), decisions))
