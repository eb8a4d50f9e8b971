"""What all faults and planned changes have in common: a time, and perhaps a length."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["At", "Window", "check_time"]


@dataclass(frozen=True, slots=True, kw_only=True)
class At:
    """A change at one instant."""

    at_ms: int

    def __post_init__(self) -> None:
        check_time(self, "at_ms", least=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A condition that lasts from ``at_ms`` for ``duration_ms``."""

    at_ms: int
    duration_ms: int

    def __post_init__(self) -> None:
        check_time(self, "at_ms", least=0)
        check_time(self, "duration_ms", least=1)

    @property
    def until_ms(self) -> int:
        """The end of the window (exclusive)."""
        return self.at_ms + self.duration_ms


def check_time(fault: object, name: str, *, least: int) -> None:
    """Raises ValueError naming the field if it is below ``least``."""
    value = getattr(fault, name)
    if value < least:
        raise ValueError(f"{name} must be >= {least}, got {value}")
