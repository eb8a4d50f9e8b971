"""mut-streams-own-version: Metadata of all members are written in the version of the one that
computes."""

from rebalance_sim.protocol.assignors.client_side.streams import StreamsAssignor
from rebalance_sim.protocol.defects.defect import Defect
from rebalance_sim.protocol.wire.assignment_messages import PreparedMember


class WritesOwnVersion(StreamsAssignor):
    def version_for(self, member: PreparedMember) -> int:
        return self.metadata_version


DEFECT = Defect(
    id="mut-streams-own-version",
    title="Members are written to in a version that they do not know",
    source="KIP-848",
    rules=(WritesOwnVersion,),
    properties=("defects S9",),
)
