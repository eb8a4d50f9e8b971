"""The decisions about client-side assignors in which defects differ, each a small method.

Source: coordinator §12. Only the text of KIP-848 has such assignors
(``protocol/versions/kip_848.py`` switches them on).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from rebalance_sim.protocol.consumer.computation import Computation
from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup
from rebalance_sim.protocol.wire.assignment_messages import (
    AssignmentMetadata,
    ClientAssignor,
    ConsumerGroupInstallAssignmentRequest,
    ConsumerGroupPrepareAssignmentResponse,
    InstalledMember,
)


class ClientSideRules:
    """What a coordinator does that has client-side assignors."""

    has_client_assignors = False
    """Members may offer client-side assignors, and compute targets with them (coordinator §12)."""

    def asks_for_assignment(
        self, before: Sequence[ClientAssignor], after: Sequence[ClientAssignor]
    ) -> bool:
        """coordinator §12.1: anything but a reason that goes back to 0 raises the group epoch."""
        if [_without_reason(one) for one in before] != [_without_reason(one) for one in after]:
            return True
        pairs = zip(before, after, strict=True)
        return any(new.reason not in (0, old.reason) for old, new in pairs)

    def is_asked_to_compute(self, chosen_id: str, member_id: str) -> bool:
        """Is a member asked to compute when another, or itself, is the chosen one?"""
        return member_id == chosen_id

    limits_computations = True
    """A member that was asked has its rebalance timeout to compute (coordinator §12.3)."""

    def is_computing(
        self, computation: Computation, request: ConsumerGroupInstallAssignmentRequest
    ) -> bool:
        """Check 5 of coordinator §12.6: the chosen member hands in what it has prepared."""
        prepared = computation.prepared
        return (
            prepared is not None
            and computation.member_id == request.member_id
            and prepared.group_epoch == request.group_epoch
        )

    def group_to_judge_by(
        self,
        computation: Computation,
        present: Callable[[], ConsumerGroupPrepareAssignmentResponse],
    ) -> ConsumerGroupPrepareAssignmentResponse | None:
        """Check 6 of coordinator §12.6 looks at what the result was computed from, not at the group
        as it is at present. None: there is nothing to judge by."""
        return computation.prepared

    def rows_to_install(
        self, group: ConsumerGroup, computed: Iterable[InstalledMember]
    ) -> dict[str, InstalledMember]:
        """The result by member id, with successors in the place of static predecessors."""
        rows = {row.member_id: row for row in computed}
        prepared = group.computation.prepared if group.computation is not None else None
        for member in prepared.members if prepared is not None else ():
            if member.member_id in group.members or member.instance_id is None:
                continue
            successor_id = group.static_members.get(member.instance_id)
            if successor_id is not None and successor_id not in rows and member.member_id in rows:
                rows[successor_id] = replace(rows.pop(member.member_id), member_id=successor_id)
        return rows

    def members_to_install(self, group: ConsumerGroup, named: Iterable[str]) -> Iterable[str]:
        """coordinator §12.6: all present members get a target, those that have left meanwhile
        get none."""
        return group.members

    def epoch_to_install(self, group: ConsumerGroup, prepared_epoch: int) -> int:
        """coordinator §12.3: a result is good for the epoch at which the group was prepared."""
        return prepared_epoch

    def is_outdated(self, group: ConsumerGroup, target_epoch: int) -> bool:
        """Has the group moved on, so that a next target is due?"""
        return group.group_epoch > target_epoch

    def metadata_to_send(
        self, reached: AssignmentMetadata | None, target: AssignmentMetadata | None
    ) -> AssignmentMetadata | None:
        """coordinator §12.7: a member is sent the metadata of the epoch that it has reached."""
        return reached


def _without_reason(offer: ClientAssignor) -> tuple[object, ...]:
    return (
        offer.name,
        offer.minimum_version,
        offer.maximum_version,
        offer.metadata_version,
        offer.metadata_bytes,
    )
