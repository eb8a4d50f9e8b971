"""mut-install-keeps-leavers: A member that has left during the computation gets a target."""

from collections.abc import Iterable

from rebalance_sim.protocol.consumer.client_side_rules import ClientSideRules
from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup
from rebalance_sim.protocol.defects.defect import Defect


class InstallsLeavers(ClientSideRules):
    def members_to_install(self, group: ConsumerGroup, named: Iterable[str]) -> Iterable[str]:
        return {**group.members, **dict.fromkeys(named)}


DEFECT = Defect(
    id="mut-install-keeps-leavers",
    title="A member that has left is given a target",
    source="KIP-848",
    rules=(InstallsLeavers,),
    properties=("defects S6", "defects S8"),
)
