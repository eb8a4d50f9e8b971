"""The brokers of a world with their controller, and which shard acts for each partition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rebalance_sim.protocol.hosting.broker_rules import BrokerRules
from rebalance_sim.protocol.hosting.offsets_topic import GroupPartitions, partition_for
from rebalance_sim.protocol.runtime.coordinator_config import CoordinatorConfig
from rebalance_sim.protocol.versions.semantics import Semantics
from rebalance_sim.sim.broker.broker import Broker
from rebalance_sim.sim.broker.broker_spec import BrokerSpec
from rebalance_sim.sim.broker.controller import Controller
from rebalance_sim.sim.broker.environment import BrokerEnvironment
from rebalance_sim.sim.broker.ports import Errors, Lines, Meters, Steps, TopicOffsets
from rebalance_sim.sim.broker.shard_host import ShardHost
from rebalance_sim.sim.clock import Clock
from rebalance_sim.sim.machines import Machines
from rebalance_sim.sim.streams import Streams


class Cluster:
    """Nothing happens before ``controller.start``; parameters as of ``BrokerEnvironment``.
    ``has_transactions``: there is a ``__transaction_state``."""

    def __init__(
        self,
        *,
        clock: Clock,
        streams: Streams,
        spec: BrokerSpec,
        config: CoordinatorConfig,
        semantics: Semantics,
        rules: BrokerRules,
        steps: Steps,
        errors: Errors,
        topic_offsets: TopicOffsets,
        new_meters: Callable[[], Meters | None],
        machines: Machines,
        has_transactions: bool,
        new_lines: Callable[[Any], Lines],
    ) -> None:
        offsets_count = spec.offsets_partition_count
        transaction_count = spec.transaction_state_partition_count if has_transactions else 0
        partition_count = offsets_count + transaction_count
        self.partition_of = GroupPartitions(offsets_count).__getitem__
        self.environment = BrokerEnvironment(
            clock=clock,
            streams=streams,
            spec=spec,
            config=config,
            semantics=semantics,
            rules=rules,
            steps=steps,
            errors=errors,
            topic_offsets=topic_offsets,
            partition_of=self.partition_of,
            transaction_partition_of=lambda transactional_id: (
                offsets_count + partition_for(transactional_id, transaction_count)
            ),
            new_lines=new_lines,
            new_meters=new_meters,
            machines=machines,
            on_shards_changed=self._on_shards_changed,
        )
        self.brokers: list[Broker] = []
        self.controller = Controller(
            clock, spec, streams, config, self.brokers, partition_count=partition_count
        )
        for node_id in range(spec.count):
            self.brokers.append(Broker(node_id, self.environment, self.controller))
        for partition in range(partition_count):
            replicas = [broker.replicas[partition] for broker in self.brokers]
            for replica in replicas:
                replica.join(replicas)
        self._acting: list[ShardHost | None] = [None] * partition_count
        self._acting_epochs = [0] * partition_count

    def acting_shard_of(self, partition: int) -> ShardHost | None:
        """The active shard of a partition with the highest leader epoch there has been, or None."""
        return self._acting[partition]

    def acting_shards(self) -> list[ShardHost]:
        """Those of all partitions that have one, in ascending partition."""
        return [shard for shard in self._acting if shard is not None]

    def _on_shards_changed(self, partition: int) -> None:
        """When the newest shard has resigned, an older one that has not received its own
        resignation yet is not the coordinator again."""
        shards = [broker.shards[partition] for broker in self.brokers]
        active = [shard for shard in shards if shard.is_active]
        newest = max(active, key=lambda shard: shard.leader_epoch, default=None)
        if newest is not None and newest.leader_epoch >= self._acting_epochs[partition]:
            self._acting[partition] = newest
            self._acting_epochs[partition] = newest.leader_epoch
        else:
            self._acting[partition] = None
