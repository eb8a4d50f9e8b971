"""Workers behind a consumer: the application polls on while they process what it was handed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from rebalance_sim.sim.checks import at_least


class WhenRevoked(Enum):
    """What becomes of records in flight when their partition is revoked."""

    DRAIN = "drain"
    DISCARD = "discard"
    CONTINUE = "continue"


class Commits(Enum):
    """Which offsets the application commits."""

    PROCESSED = "processed"
    HANDED_OUT = "handed_out"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkersSpec:
    """A pool of workers behind the poll loop of a client, in a world with a data plane. The
    application polls at all times; records of a partition are processed in their order."""

    records_per_second: int
    """What all workers of the process together process."""
    in_flight_max: int = 1_000
    """How many records of one partition are handed out and not processed at most: with so many the
    application pauses the partition (``pause``), until there are fewer (``resume``)."""
    when_revoked: WhenRevoked = WhenRevoked.DRAIN
    """What becomes of records in flight when their partition is revoked: ``drain`` has
    ``onPartitionsRevoked`` wait for them, ``discard`` drops them, ``continue`` has workers process
    them although the partition is somebody else's."""
    drain_ms: int = 30_000
    """For how long ``onPartitionsRevoked`` waits at most; what is not processed then is dropped."""
    commits: Commits = Commits.PROCESSED
    """What the commits of the application name: ``processed``, all records of a partition up to the
    first that is not processed, or ``handed_out``, whatever ``poll`` has returned. The auto-commit
    of a client knows what was handed out and no more."""

    def __post_init__(self) -> None:
        at_least(self, 1, "records_per_second", "in_flight_max")
        at_least(self, 0, "drain_ms")
