"""What all brokers of a cluster share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rebalance_sim.protocol.hosting.broker_rules import BrokerRules
from rebalance_sim.protocol.runtime.coordinator_config import CoordinatorConfig
from rebalance_sim.protocol.versions.semantics import Semantics
from rebalance_sim.sim.broker.broker_spec import BrokerSpec
from rebalance_sim.sim.broker.data_partitions import DataPartitions
from rebalance_sim.sim.broker.ports import Errors, Lines, Meters, Steps, TopicOffsets
from rebalance_sim.sim.clock import Clock
from rebalance_sim.sim.machines import Machines
from rebalance_sim.sim.streams import Streams


@dataclass(slots=True, kw_only=True)
class BrokerEnvironment:
    """``partition_of``: the partition of ``__consumer_offsets`` that holds a group. Those of
    ``__transaction_state`` come behind them: ``transaction_partition_of`` says which holds a
    transactional id. ``new_lines`` makes the connections of a broker to others.
    ``new_meters`` makes those of a new broker process, None where no one reads them.
    ``on_shards_changed``: a shard of a partition became active, or is so no longer.
    ``machines`` makes coordinators.
    ``replication_factor``: by how much replication takes longer than usual. ``data_partitions``:
    None where no application writes records in transactions.
    """

    clock: Clock
    streams: Streams
    spec: BrokerSpec
    config: CoordinatorConfig
    semantics: Semantics
    rules: BrokerRules
    steps: Steps
    errors: Errors
    topic_offsets: TopicOffsets
    partition_of: Callable[[str], int]
    transaction_partition_of: Callable[[str], int]
    new_lines: Callable[[Any], Lines]
    new_meters: Callable[[], Meters | None]
    on_shards_changed: Callable[[int], None]
    machines: Machines
    replication_factor: int = 1
    data_partitions: DataPartitions | None = None
