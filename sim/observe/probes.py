"""What every world shows when it is sampled: its brokers' metrics, and how its groups stand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rebalance_sim.protocol.consumer.committed_group import CommittedGroup
from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup
from rebalance_sim.protocol.runtime.timeline import committed
from rebalance_sim.sim.observe.sampling import Reading

if TYPE_CHECKING:
    from rebalance_sim.sim.world import World

__all__ = ["register_probes"]


def register_probes(world: World) -> None:
    """Let the sampler of a world read what is known of brokers, groups, partitions and records."""

    def of_brokers(at_ms: int) -> Iterator[Reading]:
        for broker in world.brokers:
            if broker.is_alive and broker.meters is not None:
                yield from broker.meters.readings(broker, at_ms)

    def of_groups(at_ms: int) -> Iterator[Reading]:
        return _group_readings(world)

    def of_partitions(at_ms: int) -> Iterator[Reading]:
        for group_id, owned in world.metrics.ownership.items():
            tags = (("group", group_id),)
            yield Reading("partitions", owned.partition_count, None, tags)
            yield Reading("unowned_partitions", owned.unowned_count, None, tags)
            yield Reading("overlap_partitions", owned.overlap_count, None, tags)

    def of_records(at_ms: int) -> Iterator[Reading]:
        for group_id, progress in world.data_plane.progress.items():
            tags = (("group", group_id),)
            yield Reading("lag_records", sum(progress.lags().values()), None, tags)

    world.sampler.register(of_brokers)
    world.sampler.register(of_groups)
    world.sampler.register(of_partitions)
    if world.data_plane.is_on:
        world.sampler.register(of_records)


def _group_readings(world: World) -> Iterator[Reading]:
    """Groups as their acting coordinators have them committed; nothing where there is none."""
    for shard in world.cluster.acting_shards():
        groups = committed(shard.coordinator.groups_of(ConsumerGroup))
        for group_id in sorted(groups):
            group = CommittedGroup(groups[group_id])
            tags = (("group", group_id),)
            yield Reading("group_epoch", group.group_epoch, None, tags)
            yield Reading("assignment_epoch", group.target_assignment_epoch, None, tags)
            yield Reading("members", len(group.members), None, tags)
