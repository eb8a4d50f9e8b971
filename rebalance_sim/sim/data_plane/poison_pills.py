"""Poison pills: records that an application cannot process as it does others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from rebalance_sim.protocol.wire.topics import TopicPartition
from rebalance_sim.sim.checks import at_least


class PillEffect(Enum):
    """What such a record does to who processes it."""

    FAIL = "fail"
    CRASH = "crash"
    SLOW = "slow"


class OnFailure(Enum):
    """What an application does with a record whose processing fails."""

    RETRY = "retry"
    SKIP = "skip"
    DEAD_LETTER = "dead_letter"


@dataclass(frozen=True, slots=True, kw_only=True)
class PoisonPillSpec:
    """One such record of a topic, or one in so many; until faults stop, then it is like others."""

    effect: PillEffect
    """What it does: ``fail`` makes its processing fail (``on_failure`` of the client says what
    follows), ``crash`` ends the process, which a supervisor starts again, and ``slow`` takes
    ``lasts_ms``."""
    partition: int | None = None
    """In which partition; none: in each."""
    offset: int | None = None
    """At which offset; or ``every`` instead."""
    every: int | None = None
    """The last of so many records, and of each so many that follow."""
    lasts_ms: int | None = None
    """How long a ``slow`` one is processed, in which the application does not poll, unless workers
    process it."""

    def __post_init__(self) -> None:
        if (self.offset is None) == (self.every is None):
            raise ValueError("offset or every must be given, and not both")
        if (self.lasts_ms is None) == (self.effect is PillEffect.SLOW):
            raise ValueError("lasts_ms must be given for the effect slow, and for no other")
        for name, least in (("partition", 0), ("offset", 0), ("every", 1), ("lasts_ms", 1)):
            if getattr(self, name) is not None:
                at_least(self, least, name)

    def from_offset(self, partition: int, offset: int) -> int | None:
        """The offset of the first one in a partition at ``offset`` or behind it."""
        if self.partition not in (None, partition):
            return None
        if self.every is not None:
            return offset + (-offset - 1) % self.every
        return self.offset if self.offset is not None and self.offset >= offset else None


class PoisonPills:
    """Those of a world, by the name of their topic, and how often applications came to them."""

    def __init__(self, specs: Mapping[str, Iterable[PoisonPillSpec]]) -> None:
        self._specs = {name: tuple(pills) for name, pills in specs.items() if pills}
        self.are_there = bool(self._specs)
        self.are_over = False
        self.hits: Counter[tuple[TopicPartition, int]] = Counter()
        self.dropped = 0
        self.dead_lettered = 0

    def first(
        self, topic: str, partition: TopicPartition, offset: int
    ) -> tuple[int, PoisonPillSpec] | None:
        """The first one of a partition at ``offset`` or behind it, with its offset."""
        if self.are_over:
            return None
        found = [
            (at, number, pill)
            for number, pill in enumerate(self._specs.get(topic, ()))
            if (at := pill.from_offset(partition.partition, offset)) is not None
        ]
        if not found:
            return None
        at, _, pill = min(found, key=lambda one: one[:2])
        return at, pill

    def count(self, policy: OnFailure) -> None:
        """An application is done with one, in this way."""
        self.dropped += policy is OnFailure.SKIP
        self.dead_lettered += policy is OnFailure.DEAD_LETTER

    def counts(self) -> dict[str, float]:
        """Metrics that are sums, by name; nothing in a world without any."""
        if not self.are_there:
            return {}
        return {
            "poison_pill_hits": self.hits.total(),
            "records_dead_lettered": self.dead_lettered,
            "records_dropped": self.dropped,
        }

    def highest(self) -> dict[str, float]:
        """How often applications came to one of them, at most; nothing in a world without any."""
        return (
            {"poison_pill_hits_max": max(self.hits.values(), default=0)} if self.are_there else {}
        )
