"""The decisions of a classic group in which versions or defects differ.

Source: classic §1, §2. A defect overrides one of them (``protocol/defects``).
"""

from __future__ import annotations

from collections.abc import Collection

from rebalance_sim.protocol.runtime.coordinator_rules import CoordinatorRules
from rebalance_sim.protocol.wire.classic_messages import JoinGroupRequest

_FIRST_VERSION_WITH_MEMBER_ID_REQUIRED = 4


class ClassicGroupRules(CoordinatorRules):
    """Apache Kafka 4.1 and 4.3, which do not differ here."""

    has_sync_deadline = True
    """A generation whose members do not all sync in time is given up (classic §2.9)."""

    rebalances_on_replacement_while_completing = True
    """A static member that returns before the leader's assignment starts another rebalance
    (classic §2.5): the assignment is keyed by its old id."""

    rechecks_join_phase_without_pending = True
    """The join phase may end when an id that it waits for expires or leaves (classic §2.8,
    §2.9)."""

    replaces_simple_group = True
    """Records of a consumer group replace a group that was inferred from offsets (KAFKA-20254)."""

    def first_member(self, member_ids: Collection[str]) -> str:
        """Who leads where any member may: Kafka takes the first of a hash map (classic §1.6)."""
        return min(member_ids)

    def requires_member_id(self, request: JoinGroupRequest) -> bool:
        """A dynamic member learns its id before it becomes a member (classic §2.3)."""
        return (
            request.group_instance_id is None
            and request.api_version >= _FIRST_VERSION_WITH_MEMBER_ID_REQUIRED
        )
