"""KAFKA-17306: A tombstone without its object, or a group that does not begin with a member, makes
a load fail."""

from __future__ import annotations

from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup
from rebalance_sim.protocol.consumer.consumer_rules import ConsumerGroupRules
from rebalance_sim.protocol.defects.defect import Defect
from rebalance_sim.protocol.hosting.broker_rules import BrokerRules
from rebalance_sim.protocol.runtime.coordinator import GroupCoordinator
from rebalance_sim.protocol.wire.errors import ProtocolBug
from rebalance_sim.protocol.wire.records import ConsumerGroupMemberMetadata, Record


class ExpectsWholeLog(ConsumerGroupRules):
    tolerates_compacted_log = False


class ExpectsEntities(BrokerRules):
    def check_loaded(self, record: Record, coordinator: GroupCoordinator) -> None:
        group = coordinator.groups_of(ConsumerGroup).get(record.group_id)
        if group is None:
            if record.value is None or not isinstance(record, ConsumerGroupMemberMetadata):
                raise ProtocolBug(f"group {record.group_id} not found")
        elif record.value is None:
            member_id = getattr(record, "member_id", None)
            if member_id is not None and member_id not in group.members:
                raise ProtocolBug(f"member {member_id} not found")


DEFECT = Defect(
    id="KAFKA-17306",
    title="Replay assumes that entities exist and records come in one order",
    component="broker",
    source="apache/kafka#16898",
    versions="3.7 - 3.9; fixed in 4.0",
    rules=(ExpectsWholeLog, ExpectsEntities),
    properties=("defects L6",),
)
