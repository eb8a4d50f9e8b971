"""What every world shows when it is sampled: its brokers' metrics, and how its groups stand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Protocol

from rebalance_sim.invariants.step import ShardView
from rebalance_sim.protocol.consumer.committed_group import CommittedGroup
from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup
from rebalance_sim.protocol.runtime.timeline import committed
from rebalance_sim.protocol.wire.topics import TopicPartition
from rebalance_sim.sim.observe.coordinator_metrics import MeteredBroker
from rebalance_sim.sim.observe.ownership import Ownership
from rebalance_sim.sim.observe.sampling import Reading, Sampler


class Meters(Protocol):
    """What one broker process publishes."""

    def readings(self, broker: MeteredBroker, at_ms: int) -> Iterator[Reading]:
        """Everything, at a time."""


class Broker(MeteredBroker, Protocol):
    """A broker, whose process may have no meters."""

    @property
    def is_alive(self) -> bool:
        """Whether its process runs."""

    @property
    def meters(self) -> Meters | None:
        """Those of its present process."""


class Progress(Protocol):
    """How far the clients of a group have come with its records."""

    def lags(self) -> Mapping[TopicPartition, int]:
        """The lag of each partition that has, or had, a consumer, as of now."""


def register_probes(
    sampler: Sampler,
    *,
    brokers: Iterable[Broker],
    ownership: Mapping[str, Ownership],
    progress: Mapping[str, Progress],
    acting_shards: Callable[[], Iterable[ShardView]],
) -> None:
    """Let a sampler read what is known of brokers, groups, partitions and records.

    ``ownership`` and ``progress`` by group; ``progress`` is empty without a data plane.
    """

    def of_brokers(at_ms: int) -> Iterator[Reading]:
        for broker in brokers:
            if broker.is_alive and broker.meters is not None:
                yield from broker.meters.readings(broker, at_ms)

    def of_groups(at_ms: int) -> Iterator[Reading]:
        return _group_readings(acting_shards())

    def of_partitions(at_ms: int) -> Iterator[Reading]:
        for group_id, owned in ownership.items():
            tags = (("group", group_id),)
            yield Reading("partitions", owned.partition_count, None, tags)
            yield Reading("unowned_partitions", owned.unowned_count, None, tags)
            yield Reading("overlap_partitions", owned.overlap_count, None, tags)

    def of_records(at_ms: int) -> Iterator[Reading]:
        for group_id, of_group in progress.items():
            tags = (("group", group_id),)
            yield Reading("lag_records", sum(of_group.lags().values()), None, tags)

    sampler.register(of_brokers)
    sampler.register(of_groups)
    sampler.register(of_partitions)
    if progress:
        sampler.register(of_records)


def _group_readings(shards: Iterable[ShardView]) -> Iterator[Reading]:
    """Groups as their acting coordinators have them committed; nothing where there is none."""
    for shard in shards:
        groups = committed(shard.coordinator.groups_of(ConsumerGroup))
        for group_id in sorted(groups):
            group = CommittedGroup(groups[group_id])
            tags = (("group", group_id),)
            yield Reading("group_epoch", group.group_epoch, None, tags)
            yield Reading("assignment_epoch", group.target_assignment_epoch, None, tags)
            yield Reading("members", len(group.members), None, tags)
