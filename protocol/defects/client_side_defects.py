"""Mutants of what a coordinator does about client-side assignors, each one replaced rule.

Source: coordinator §12; no broker was ever shipped with it, so there are no real defects. A mutant
is put in front of the rules by ``Semantics.with_defects``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from rebalance_sim.protocol.consumer.client_side.client_side_rules import ClientSideRules
from rebalance_sim.protocol.consumer.client_side.computation import Computation
from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup
from rebalance_sim.protocol.wire.assignment_messages import (
    AssignmentMetadata,
    ClientAssignor,
    ConsumerGroupInstallAssignmentRequest,
    ConsumerGroupPrepareAssignmentResponse,
    InstalledMember,
)

__all__ = ["CLIENT_SIDE_DEFECTS"]


class AsksEverybody(ClientSideRules):
    """mut-asks-everybody: whoever sends a heartbeat is told to compute."""

    def is_asked_to_compute(self, chosen_id: str, member_id: str) -> bool:
        return True


class InstallsFromAnybody(ClientSideRules):
    """mut-install-from-anybody: a result is taken from a member that was replaced, too."""

    def is_computing(
        self, computation: Computation, request: ConsumerGroupInstallAssignmentRequest
    ) -> bool:
        return True

    def group_to_judge_by(
        self,
        computation: Computation,
        present: Callable[[], ConsumerGroupPrepareAssignmentResponse],
    ) -> ConsumerGroupPrepareAssignmentResponse | None:
        return None


class InstallsAtPresentEpoch(ClientSideRules):
    """mut-install-at-present-epoch: what has changed during the computation is overlooked."""

    def epoch_to_install(self, group: ConsumerGroup, prepared_epoch: int) -> int:
        return group.group_epoch


class JudgesByPresentGroup(ClientSideRules):
    """mut-install-checks-present: a result must fit the group as it is by now."""

    def group_to_judge_by(
        self,
        computation: Computation,
        present: Callable[[], ConsumerGroupPrepareAssignmentResponse],
    ) -> ConsumerGroupPrepareAssignmentResponse | None:
        return present()


class InstallsLeavers(ClientSideRules):
    """mut-install-keeps-leavers: whoever has left during the computation gets a target."""

    def members_to_install(self, group: ConsumerGroup, named: Iterable[str]) -> Iterable[str]:
        return {**group.members, **dict.fromkeys(named)}


class ForgetsHeirs(ClientSideRules):
    """mut-install-forgets-heirs: a static member that has returned under another id during the
    computation counts as one that has just joined, and no next target is due because of it."""

    def rows_to_install(
        self, group: ConsumerGroup, computed: Iterable[InstalledMember]
    ) -> dict[str, InstalledMember]:
        return {row.member_id: row for row in computed}


class ForgetsNextComputation(ClientSideRules):
    """mut-no-recompute: a target of an older epoch counts as the last word."""

    def is_outdated(self, group: ConsumerGroup, target_epoch: int) -> bool:
        return False


class WaitsForever(ClientSideRules):
    """mut-no-computation-timer: nobody takes the place of a member that does not finish."""

    def limits_computations(self) -> bool:
        return False


class SendsTargetMetadata(ClientSideRules):
    """mut-metadata-ahead: a member that has still to revoke is told what comes after that."""

    def metadata_to_send(
        self, reached: AssignmentMetadata | None, target: AssignmentMetadata | None
    ) -> AssignmentMetadata | None:
        return target


class OverhearsReasons(ClientSideRules):
    """mut-no-bump-on-reason: only the names of assignors are looked at."""

    def asks_for_assignment(
        self, before: Sequence[ClientAssignor], after: Sequence[ClientAssignor]
    ) -> bool:
        return [one.name for one in before] != [one.name for one in after]


CLIENT_SIDE_DEFECTS: Mapping[str, type[ClientSideRules]] = {
    "mut-asks-everybody": AsksEverybody,
    "mut-install-at-present-epoch": InstallsAtPresentEpoch,
    "mut-install-checks-present": JudgesByPresentGroup,
    "mut-install-forgets-heirs": ForgetsHeirs,
    "mut-install-from-anybody": InstallsFromAnybody,
    "mut-install-keeps-leavers": InstallsLeavers,
    "mut-metadata-ahead": SendsTargetMetadata,
    "mut-no-bump-on-reason": OverhearsReasons,
    "mut-no-computation-timer": WaitsForever,
    "mut-no-recompute": ForgetsNextComputation,
}
"""Id of the defect -> mixin over the rules of a version."""
