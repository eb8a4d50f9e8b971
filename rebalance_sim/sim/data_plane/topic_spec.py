"""A topic of a world, as its specification has it."""

from __future__ import annotations

from dataclasses import dataclass

from rebalance_sim.sim.checks import at_least, at_most, legal_topic, not_empty
from rebalance_sim.sim.data_plane.poison_pills import PoisonPillSpec

PARTITIONS_MOST = 100_000
RECORDS_PER_SECOND_MOST = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSpec:
    """A topic that exists from the start.

    Kafka stripes replicas likewise, from a random rack on (4.3.1, ``StripedReplicaPlacer``).
    """

    name: str
    """Of the topic."""
    partition_count: int
    """How many partitions it has at the start."""
    records_per_second: int = 0
    """How many records are produced to each of its partitions."""
    poison_pills: tuple[PoisonPillSpec, ...] = ()
    """Records that an application cannot process as it does others, in a world with a data
    plane."""
    replication_factor: int = 1
    """In how many racks replicas are, where brokers have racks: partition 0 begins with the rack
    of broker 0, each following one with the next rack, and each replica takes one rack further."""

    def __post_init__(self) -> None:
        not_empty(self, "name")
        legal_topic(self.name, "name")
        at_least(self, 1, "partition_count", "replication_factor")
        at_most(self, PARTITIONS_MOST, "partition_count")
        at_least(self, 0, "records_per_second")
        at_most(self, RECORDS_PER_SECOND_MOST, "records_per_second")
