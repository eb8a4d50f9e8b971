"""A classic client assignor of one's own: a topic goes to one member as a whole."""

from rebalance_sim.protocol.assignors.classic import ClassicAssignor
from rebalance_sim.protocol.wire.embedded import NamedPartitions


class WholeTopicsAssignor(ClassicAssignor):
    name = "research-whole-topics"

    def assign(self, *, partition_counts, members):
        shares = {member.member_id: [] for member in members}
        load = dict.fromkeys(shares, 0)
        for topic, count in sorted(partition_counts.items()):
            takers = [m.member_id for m in members if topic in m.subscription.topics]
            if takers:
                taker = min(takers, key=lambda member_id: (load[member_id], member_id))
                shares[taker].append(NamedPartitions(topic, tuple(range(count))))
                load[taker] += count
        return {member_id: tuple(share) for member_id, share in shares.items()}
