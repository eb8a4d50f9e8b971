"""How long something takes: a value that every part of a world's specification may use."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class DelaySpec:
    """A random delay: uniform between ``min_ms`` and ``max_ms``, plus an exponential tail.

    ``tail_ms`` is the mean of the tail, 0 for none. ``max_ms`` None means ``min_ms``, that is, a
    constant.
    """

    min_ms: int
    max_ms: int | None = None
    tail_ms: int = 0

    def __post_init__(self) -> None:
        for name in ("min_ms", "tail_ms"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must be >= 0, got {getattr(self, name)}")
        if self.max_ms is not None and self.max_ms < self.min_ms:
            raise ValueError(f"max_ms ({self.max_ms}) must be >= min_ms ({self.min_ms})")
