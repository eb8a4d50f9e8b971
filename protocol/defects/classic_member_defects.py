"""Defects of classic clients, each one replaced rule.

Source: defects §7, as far as the client has them; those of its assignors stand in
``protocol/defects/classic_assignor_defects.py``. KAFKA-13419 has no switch: the claims that it
speaks of are what clients of today make, and assignors see through them.
"""

from __future__ import annotations

from collections.abc import Mapping

from rebalance_sim.protocol.clients.java.classic.classic_member_rules import ClassicMemberRules

__all__ = ["CLASSIC_MEMBER_DEFECTS"]


class ForgetsItselfOnDisconnect(ClassicMemberRules):
    """KAFKA-13214: after any failure of a JoinGroup or SyncGroup the client joins as somebody new,
    and the group waits for the one that it was."""

    def keeps_member_id_on_retriable_error(self) -> bool:
        return False


class FetchesWhileCommitting(ClassicMemberRules):
    """KAFKA-14196: records are handed out after the position was taken that is committed before a
    revocation, and the next owner hands them out again."""

    def stops_fetching_before_commit(self) -> bool:
        return False


class HandlesOutdatedCommitErrors(ClassicMemberRules):
    """librdkafka-4908: a commit of the generation before, refused during a rebalance, costs the
    whole assignment."""

    def overlooks_outdated_commit_errors(self) -> bool:
        return False


CLASSIC_MEMBER_DEFECTS: Mapping[str, type[ClassicMemberRules]] = {
    "KAFKA-13214": ForgetsItselfOnDisconnect,
    "KAFKA-14196": FetchesWhileCommitting,
    "librdkafka-4908": HandlesOutdatedCommitErrors,
}
"""Id of the defect -> mixin over the rules."""
