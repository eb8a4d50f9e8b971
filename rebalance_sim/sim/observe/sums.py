"""What a run adds up, so that a part of the run is the difference of two of these."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rebalance_sim.sim.observe.durations import Waits


@dataclass(frozen=True, slots=True)
class Sums:
    """Metrics of a run so far, or of a part of it.

    ``counts`` are sums by name; ``waits`` are times of which the sum is a metric, and the longest;
    ``means``, of which it is the longest and the mean, if there was any. ``highest`` are the
    highest values of the whole run, ``lately`` those since the last part began. ``unowned_area``
    and ``partition_area`` are partition-milliseconds of rebalances, without an owner and in all.
    """

    counts: Mapping[str, float] = field(default_factory=dict)
    waits: Mapping[str, Waits] = field(default_factory=dict)
    means: Mapping[str, Waits] = field(default_factory=dict)
    highest: Mapping[str, int] = field(default_factory=dict)
    lately: Mapping[str, int] = field(default_factory=dict)
    unowned_area: int = 0
    partition_area: int = 0

    def and_(self, other: Sums) -> Sums:
        """These and others; what both count is added."""
        shared = {n: self.counts[n] + other.counts[n] for n in self.counts if n in other.counts}
        return Sums(
            counts={**self.counts, **other.counts, **shared},
            waits={**self.waits, **other.waits},
            means={**self.means, **other.means},
            highest={**self.highest, **other.highest},
            lately={**self.lately, **other.lately},
            unowned_area=self.unowned_area + other.unowned_area,
            partition_area=self.partition_area + other.partition_area,
        )

    def since(self, before: Sums) -> Sums:
        """Those of the part of the run that began when they were ``before``."""
        return Sums(
            counts={name: value - before.counts[name] for name, value in self.counts.items()},
            waits={name: one.since(before.waits[name]) for name, one in self.waits.items()},
            means={name: one.since(before.means[name]) for name, one in self.means.items()},
            highest=self.lately,
            unowned_area=self.unowned_area - before.unowned_area,
            partition_area=self.partition_area - before.partition_area,
        )

    def as_dict(self) -> dict[str, float]:
        """Every metric by name."""
        found: dict[str, float] = {**self.counts, **self.highest}
        for name, waits in self.waits.items():
            found |= {name: waits.sum_ms, f"{name}_max": waits.longest_ms}
        for name, waits in self.means.items():
            found |= waits.as_dict(name)
        if self.partition_area:
            found["availability_loss_percent"] = 100 * (self.unowned_area / self.partition_area)
        return found
