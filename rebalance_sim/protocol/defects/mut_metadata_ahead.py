"""mut-metadata-ahead: A member that has still to revoke gets the metadata of the next target."""

from rebalance_sim.protocol.consumer.client_side_rules import ClientSideRules
from rebalance_sim.protocol.defects.defect import Defect
from rebalance_sim.protocol.wire.assignment_messages import AssignmentMetadata


class SendsTargetMetadata(ClientSideRules):
    def metadata_to_send(
        self, reached: AssignmentMetadata | None, target: AssignmentMetadata | None
    ) -> AssignmentMetadata | None:
        return target


DEFECT = Defect(
    id="mut-metadata-ahead",
    title="Metadata of a target are sent before it is reached",
    source="KIP-848",
    rules=(SendsTargetMetadata,),
    properties=("defects S6",),
)
