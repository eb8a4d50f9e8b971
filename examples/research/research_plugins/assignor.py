"""A server-side assignor of one's own: partitions go round the racks, then round their members."""

from itertools import chain, zip_longest

from rebalance_sim.protocol.wire.topics import TopicPartition


class RackAssignor:
    name = "research-racks"

    def assign(self, spec, partition_counts):
        racks = {}
        for member_id in sorted(spec.members):
            racks.setdefault(spec.members[member_id].rack_id or "", []).append(member_id)
        order = [m for m in chain(*zip_longest(*(racks[rack] for rack in sorted(racks)))) if m]
        shares = {member_id: set() for member_id in order}
        for topic_id, count in sorted(partition_counts.items()):
            takers = [m for m in order if topic_id in spec.members[m].subscribed_topic_ids]
            for number in range(count) if takers else ():
                shares[takers[number % len(takers)]].add(TopicPartition(topic_id, number))
        return {member_id: frozenset(share) for member_id, share in shares.items()}
