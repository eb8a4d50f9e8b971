"""Defects of the migration between the protocols, each one replaced rule.

Source: defects §8; one section per name.
"""

from __future__ import annotations

from collections.abc import Mapping

from rebalance_sim.protocol.consumer.consumer_member import Member
from rebalance_sim.protocol.migration.migration_rules import MigrationRules
from rebalance_sim.protocol.wire.errors import ErrorCode

__all__ = ["MIGRATION_DEFECTS"]


class HoldsClassicInstance(MigrationRules):
    """KAFKA-17228: only a leave frees an instance id, and a classic member never sends one."""

    def takes_over_instance(self, holder: Member) -> bool:
        return False


class NoDowngradeOnReplacement(MigrationRules):
    """KAFKA-17317: a JoinGroup that leaves only classic members does not convert the group."""

    downgrades_on_replacement = False


class RefusesUnassignedMembers(MigrationRules):
    """KAFKA-17733: no bytes are taken for corrupt bytes, and the conversion fails."""

    converts_members_without_assignment = False


class OneErrorForAll(MigrationRules):
    """PR-16145: a classic member is answered with an error that its protocol does not have."""

    def stale_epoch_error(self, member: Member) -> ErrorCode:
        return ErrorCode.STALE_MEMBER_EPOCH


class ForgetsMetadataHash(MigrationRules):
    """KAFKA-18687: a converted group does not know its topics, so that they look changed."""

    def converted_metadata_hash(self, metadata_hash: int) -> int:
        return 0


class AdmitsUnderDisabledPolicy(MigrationRules):
    """KAFKA-20640: a classic member gets into a consumer group that can never be converted."""

    def admits_classic_member(self, policy: str) -> bool:
        return True


MIGRATION_DEFECTS: Mapping[str, type[MigrationRules]] = {
    "KAFKA-17228": HoldsClassicInstance,
    "KAFKA-17317": NoDowngradeOnReplacement,
    "KAFKA-17733": RefusesUnassignedMembers,
    "KAFKA-18687": ForgetsMetadataHash,
    "KAFKA-20640": AdmitsUnderDisabledPolicy,
    "PR-16145": OneErrorForAll,
}
"""Id of the defect -> mixin over the rules of a version."""
