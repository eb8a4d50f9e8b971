"""Times of which the sum, the mean and the longest are wanted."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Waits:
    """Times in milliseconds, one by one. ``longest_lately_ms``: since a part of the run began."""

    count: int = 0
    sum_ms: int = 0
    longest_ms: int = 0
    longest_lately_ms: int = 0

    def add(self, wait_ms: int) -> None:
        """One more."""
        self.count += 1
        self.sum_ms += wait_ms
        self.longest_ms = max(self.longest_ms, wait_ms)
        self.longest_lately_ms = max(self.longest_lately_ms, wait_ms)

    def merge(self, other: Waits) -> None:
        """All those of another."""
        self.count += other.count
        self.sum_ms += other.sum_ms
        self.longest_ms = max(self.longest_ms, other.longest_ms)
        self.longest_lately_ms = max(self.longest_lately_ms, other.longest_lately_ms)

    def since(self, before: Waits) -> Waits:
        """Those of the part of the run that began when it was ``before``."""
        return Waits(self.count - before.count, self.sum_ms - before.sum_ms, self.longest_lately_ms)

    def as_dict(self, name: str) -> dict[str, float]:
        """``name_max`` and ``name_mean``; nothing if there was none."""
        if not self.count:
            return {}
        return {f"{name}_max": self.longest_ms, f"{name}_mean": self.sum_ms / self.count}
