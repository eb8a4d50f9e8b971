"""Defects of what a coordinator does with targets that members compute."""

from collections.abc import Callable, Iterable, Sequence

from rebalance_sim.protocol.consumer.client_side_rules import ClientSideRules
from rebalance_sim.protocol.consumer.computation import Computation
from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup
from rebalance_sim.protocol.defects.defect import defect
from rebalance_sim.protocol.wire.assignment_messages import (
    AssignmentMetadata,
    ClientAssignor,
    ConsumerGroupPrepareAssignmentResponse,
    InstalledMember,
)


@defect(
    "mut-install-at-present-epoch",
    "A target is installed as if nothing had changed meanwhile",
    source="KIP-848",
    properties=("defects S8", "defects L8"),
)
class InstallsAtPresentEpoch(ClientSideRules):
    """What has changed during the computation is overlooked."""

    def epoch_to_install(self, group: ConsumerGroup, prepared_epoch: int) -> int:
        return group.group_epoch


@defect(
    "mut-install-checks-present",
    "A target is judged by the group as it is by now",
    source="KIP-848",
    properties=("defects L1",),
)
class JudgesByPresentGroup(ClientSideRules):
    """A result must fit the group as it is by now."""

    def group_to_judge_by(
        self,
        computation: Computation,
        present: Callable[[], ConsumerGroupPrepareAssignmentResponse],
    ) -> ConsumerGroupPrepareAssignmentResponse | None:
        return present()


@defect(
    "mut-install-forgets-heirs",
    "A static member that returns during a computation is left out",
    source="KIP-848",
    properties=("defects L2", "defects S8"),
)
class ForgetsHeirs(ClientSideRules):
    """A static member that has returned under another id during the
    computation counts as one that has just joined, and no next target is due because of it.
    """

    def rows_to_install(
        self, group: ConsumerGroup, computed: Iterable[InstalledMember]
    ) -> dict[str, InstalledMember]:
        return {row.member_id: row for row in computed}


@defect(
    "mut-install-keeps-leavers",
    "A member that has left is given a target",
    source="KIP-848",
    properties=("defects S6", "defects S8"),
)
class InstallsLeavers(ClientSideRules):
    """A member that has left during the computation gets a target."""

    def members_to_install(self, group: ConsumerGroup, named: Iterable[str]) -> Iterable[str]:
        return {**group.members, **dict.fromkeys(named)}


@defect(
    "mut-metadata-ahead",
    "Metadata of a target are sent before it is reached",
    source="KIP-848",
    properties=("defects S6",),
)
class SendsTargetMetadata(ClientSideRules):
    """A member that has still to revoke gets the metadata of the next target."""

    def metadata_to_send(
        self, reached: AssignmentMetadata | None, target: AssignmentMetadata | None
    ) -> AssignmentMetadata | None:
        return target


@defect(
    "mut-no-bump-on-reason",
    "News for an assignor do not ask for a new target",
    source="KIP-848",
    properties=("defects L8",),
)
class OverhearsReasons(ClientSideRules):
    """Only the names of assignors are looked at."""

    def asks_for_assignment(
        self, before: Sequence[ClientAssignor], after: Sequence[ClientAssignor]
    ) -> bool:
        return [one.name for one in before] != [one.name for one in after]
