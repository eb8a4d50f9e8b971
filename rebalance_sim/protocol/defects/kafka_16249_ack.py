"""KAFKA-16249-ack: When the target has moved on since the revocation was asked for, the owned list
of the next heartbeat is not looked at."""

from rebalance_sim.protocol.consumer.consumer_member import Member
from rebalance_sim.protocol.consumer.consumer_rules import ConsumerGroupRules
from rebalance_sim.protocol.defects.defect import Defect
from rebalance_sim.protocol.wire.records import MemberState
from rebalance_sim.protocol.wire.topics import TopicPartition


class SwallowsAcknowledgement(ConsumerGroupRules):
    def __init__(self) -> None:
        super().__init__()
        self._target_epoch_seen: dict[str, int] = {}

    def owned_as_reported(
        self, member: Member, owned: frozenset[TopicPartition] | None, target_epoch: int
    ) -> frozenset[TopicPartition] | None:
        seen = self._target_epoch_seen.get(member.member_id, target_epoch)
        self._target_epoch_seen[member.member_id] = target_epoch
        if member.state is MemberState.UNREVOKED_PARTITIONS and target_epoch > seen:
            return None
        return super().owned_as_reported(member, owned, target_epoch)


DEFECT = Defect(
    id="KAFKA-16249-ack",
    title="Revocation acknowledgement swallowed by a newer target",
    source="apache/kafka#15364",
    versions="3.7.0; fixed in 3.8.0",
    rules=(SwallowsAcknowledgement,),
    properties=("defects L1", "defects L2"),
)
