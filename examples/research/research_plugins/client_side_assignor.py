"""A client-side assignor of one's own, as KIP-848 has them: one member takes all, the others wait
for it to go."""

from rebalance_sim.protocol.assignors.client_side import ComputedAssignment, PartitionAssignor
from rebalance_sim.protocol.wire.assignment_messages import InstalledMember
from rebalance_sim.protocol.wire.topics import TopicPartition


class LeaderAssignor(PartitionAssignor):
    name = "research-leader"

    def assign(self, spec):
        shares = {member_id: set() for member_id in spec.members}
        for topic_id, topic in spec.topics.items():
            takers = [m for m in spec.members if topic_id in spec.members[m].subscribed_topic_ids]
            for number in range(topic.partition_count) if takers else ():
                shares[min(takers)].add(TopicPartition(topic_id, number))
        return ComputedAssignment(
            members=tuple(
                InstalledMember(member_id=member_id, partitions=frozenset(share))
                for member_id, share in shares.items()
            )
        )
