"""What the controller decides, as brokers receive it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from rebalance_sim.protocol.runtime.coordinator_config import ConfigsInForce
from rebalance_sim.protocol.wire.topics import MetadataImage


class PartitionLeader(NamedTuple):
    """Who leads a partition, since which epoch; ``leader_id`` None: no one can."""

    leader_id: int | None
    leader_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterMetadata:
    """What the controller has decided, as one version; ``leaders`` by partition of
    ``__consumer_offsets``."""

    version: int
    image: MetadataImage
    configs: ConfigsInForce
    leaders: tuple[PartitionLeader, ...]
