"""Shows each step to the checkers that it concerns."""

from __future__ import annotations

from invariants.step import Step
from sim.shard_host import ShardHost
from sim.steps import Checker

__all__ = ["OnePartition"]


class OnePartition:
    """Leaves out what happens to the shards of other partitions of ``__consumer_offsets``."""

    def __init__(self, checker: Checker, partition: int) -> None:
        self._checker = checker
        self._partition = partition

    def after_step(self, step: Step) -> None:
        """Pass a step on, unless it is one of another partition."""
        shard = step.shard
        if not isinstance(shard, ShardHost) or shard.partition == self._partition:
            self._checker.after_step(step)

    def at_end(self) -> None:
        """The run is over."""
        self._checker.at_end()
