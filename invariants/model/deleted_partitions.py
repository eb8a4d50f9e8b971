"""Partitions that a converted group has been assigned, and that are no more.

Sources: classic §7.3: a conversion looks at the names of topics only; assignors §17: current
partitions must exist.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from rebalance_sim.invariants.explanation import THE_GROUP, Seen
from rebalance_sim.invariants.model.model_view import ModelView
from rebalance_sim.invariants.step import ShardView
from rebalance_sim.protocol.wire.embedded import Assignment, partitions_of
from rebalance_sim.protocol.wire.topics import TopicPartition


def vanished_partition(model: ModelView, shard: ShardView) -> Seen | None:
    """Since when a classic group, or the target of a group that has been one, has such a partition:
    no target can be computed, and so it is about the whole group."""
    partition = next(_vanished(model, shard), None)
    seen = None if partition is None else model.recreation(partition)
    return None if seen is None else replace(seen, subject=THE_GROUP)


def _vanished(model: ModelView, shard: ShardView) -> Iterator[TopicPartition]:
    classic = model.classic_group_in(shard)
    if classic is not None:
        image = shard.coordinator.image
        for member in classic.members.values():
            if isinstance(member.assignment, Assignment):
                for partition in partitions_of(member.assignment.partitions, image):
                    if _is_vanished(model, shard, partition):
                        yield partition
        return
    ledger = model.ledger_of(shard)
    if ledger.converted_epoch >= 0:
        yield from (p for p in ledger.target_owner if _is_vanished(model, shard, p))


def _is_vanished(model: ModelView, shard: ShardView, partition: TopicPartition) -> bool:
    """Whether there is no such partition, in a topic that was created anew."""
    topic = shard.coordinator.image.by_id.get(partition.topic_id)
    return (
        topic is not None
        and partition.partition >= topic.partition_count
        and model.is_recreated(partition)
    )
