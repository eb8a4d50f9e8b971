"""Partitions that a converted group has been assigned, and that are no more.

Sources: classic §7.3: a conversion looks at the names of topics only; assignors §17: current
partitions must exist.
"""

from __future__ import annotations

from rebalance_sim.invariants.model.model_view import ModelView
from rebalance_sim.invariants.step import ShardView
from rebalance_sim.protocol.wire.embedded import Assignment, partitions_of
from rebalance_sim.protocol.wire.topics import TopicPartition


def has_vanished_partition(model: ModelView, shard: ShardView) -> bool:
    """Whether a classic group, or the target of a group that has been one, has such a partition."""
    classic = model.classic_group_in(shard)
    if classic is not None:
        image = shard.coordinator.image
        return any(
            _is_vanished(model, shard, partition)
            for member in classic.members.values()
            if isinstance(member.assignment, Assignment)
            for partition in partitions_of(member.assignment.partitions, image)
        )
    ledger = model.ledger_of(shard)
    return ledger.converted_epoch >= 0 and any(
        _is_vanished(model, shard, partition) for partition in ledger.target_owner
    )


def _is_vanished(model: ModelView, shard: ShardView, partition: TopicPartition) -> bool:
    """Whether there is no such partition, in a topic that was created anew."""
    topic = shard.coordinator.image.by_id.get(partition.topic_id)
    return (
        topic is not None
        and partition.partition >= topic.partition_count
        and model.is_recreated(partition)
    )
