"""A topic of a world, as its specification has it."""

from __future__ import annotations

from dataclasses import dataclass

from rebalance_sim.sim.checks import at_least, not_empty


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSpec:
    """A topic that exists from the start. ``records_per_second`` are produced to each partition."""

    name: str
    partition_count: int
    records_per_second: int = 0

    def __post_init__(self) -> None:
        not_empty(self, "name")
        at_least(self, 1, "partition_count")
        at_least(self, 0, "records_per_second")
