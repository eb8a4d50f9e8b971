"""Defects of classic groups, each one replaced rule.

Source: defects §7, as far as the coordinator has them; one section per name.
"""

from __future__ import annotations

from collections.abc import Mapping

from rebalance_sim.protocol.classic.classic_rules import ClassicGroupRules
from rebalance_sim.protocol.wire.classic_messages import JoinGroupRequest

__all__ = ["CLASSIC_DEFECTS"]


class NoSyncDeadline(ClassicGroupRules):
    """KAFKA-12890: nothing but the sessions bounds the wait for SyncGroups, and heartbeats keep
    sessions alive."""

    has_sync_deadline = False


class AdmitsAtFirstJoin(ClassicGroupRules):
    """KAFKA-7824: a JoinGroup without a member id makes a member at once; each retry, another."""

    def requires_member_id(self, request: JoinGroupRequest) -> bool:
        return False


class ReplacesWhileCompleting(ClassicGroupRules):
    """KAFKA-9801: a static member that returns before the assignment arrives gets a new id, and the
    assignment is keyed by the old one."""

    rebalances_on_replacement_while_completing = False


class WaitsForGonePending(ClassicGroupRules):
    """KAFKA-7909: the join phase is not looked at again when an id that it waits for goes."""

    rechecks_join_phase_without_pending = False


CLASSIC_DEFECTS: Mapping[str, type[ClassicGroupRules]] = {
    "KAFKA-12890": NoSyncDeadline,
    "KAFKA-7824": AdmitsAtFirstJoin,
    "KAFKA-7909": WaitsForGonePending,
    "KAFKA-9801": ReplacesWhileCompleting,
}
"""Id of the defect -> mixin over the rules of a version."""
