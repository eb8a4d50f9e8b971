"""A topic of a world, as its specification has it."""

from __future__ import annotations

from dataclasses import dataclass

from rebalance_sim.sim.checks import at_least, at_most, not_empty

PARTITIONS_MOST = 100_000
RECORDS_PER_SECOND_MOST = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSpec:
    """A topic that exists from the start. ``records_per_second`` are produced to each partition."""

    name: str
    partition_count: int
    records_per_second: int = 0

    def __post_init__(self) -> None:
        not_empty(self, "name")
        at_least(self, 1, "partition_count")
        at_most(self, PARTITIONS_MOST, "partition_count")
        at_least(self, 0, "records_per_second")
        at_most(self, RECORDS_PER_SECOND_MOST, "records_per_second")
