"""mut-commit-no-fence: Any epoch of a known member will do."""

from collections.abc import Sequence

from rebalance_sim.protocol.consumer.consumer_member import Member
from rebalance_sim.protocol.consumer.consumer_rules import ConsumerGroupRules
from rebalance_sim.protocol.defects.defect import Defect
from rebalance_sim.protocol.wire.topics import TopicPartition


class CommitsUnfenced(ConsumerGroupRules):
    def accepts_commit(
        self, member: Member, epoch: int, partitions: Sequence[TopicPartition]
    ) -> bool:
        return True


DEFECT = Defect(
    id="mut-commit-no-fence",
    title="Commits not fenced",
    rules=(CommitsUnfenced,),
    properties=("defects S4",),
)
