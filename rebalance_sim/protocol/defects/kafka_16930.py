"""KAFKA-16930: A member without topics breaks the computation of a heterogeneous group."""

from collections.abc import Mapping

from rebalance_sim.protocol.assignors.server.server_assignor import (
    GroupSpec,
    PartitionAssignorError,
    SubscriptionType,
)
from rebalance_sim.protocol.assignors.server.uniform import UniformAssignor
from rebalance_sim.protocol.defects.defect import Defect
from rebalance_sim.protocol.wire.topics import TopicPartition


class FailsOnEmptySubscription(UniformAssignor):
    def assign(
        self, spec: GroupSpec, partition_counts: Mapping[str, int]
    ) -> dict[str, frozenset[TopicPartition]]:
        if spec.subscription_type is SubscriptionType.HETEROGENEOUS:
            for member_id in sorted(spec.members):
                if not spec.members[member_id].subscribed_topic_ids:
                    raise PartitionAssignorError(f"member {member_id} subscribes to no topic")
        return super().assign(spec, partition_counts)


DEFECT = Defect(
    id="KAFKA-16930",
    title="Member without subscription breaks the computation",
    versions="3.8 candidate line; fixed in 3.8",
    rules=(FailsOnEmptySubscription,),
    properties=("defects L1", "defects L2"),
)
