"""How long something takes: a value that every part of a world's specification may use."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class DelaySpec:
    """A random delay: uniform between two bounds, plus an exponential tail."""

    min_ms: int
    """The shortest."""
    max_ms: int | None = None
    """Uniform up to this; none: always ``min_ms``."""
    tail_ms: int = 0
    """The mean of an exponential tail that is added; 0: none."""

    def __post_init__(self) -> None:
        for name in ("min_ms", "tail_ms"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must be >= 0, got {getattr(self, name)}")
        if self.max_ms is not None and self.max_ms < self.min_ms:
            raise ValueError(f"max_ms ({self.max_ms}) must be >= min_ms ({self.min_ms})")

    @property
    def mean_ms(self) -> float:
        """The mean."""
        most_ms = self.min_ms if self.max_ms is None else self.max_ms
        return (self.min_ms + most_ms) / 2 + self.tail_ms
