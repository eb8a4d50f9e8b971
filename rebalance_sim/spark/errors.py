"""What can go wrong with a sweep before or beside its runs; every message is one clear line."""

from __future__ import annotations


class SweepError(Exception):
    """The sweep cannot start or continue. The message names the place and the remedy."""


class SparkSetupError(SweepError):
    """Java, the Spark master or the executors are missing or do not fit."""


class SweepInterrupted(Exception):
    """The user stopped the sweep. Finished batches are kept; the same sweep continues from
    there."""

    def __init__(self, *, batches_done: int, batches_planned: int) -> None:
        super().__init__(f"interrupted after {batches_done} of {batches_planned} batches")
        self.batches_done = batches_done
        self.batches_planned = batches_planned
