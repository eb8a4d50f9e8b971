"""What all faults and planned changes have in common: a time, and perhaps a length."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["At", "Window", "check_broker", "check_partition", "check_time"]


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


def check_partition(fault: object) -> None:
    """Raises ValueError for a negative ``offsets_partition``."""
    offsets_partition = getattr(fault, "offsets_partition", None)
    if offsets_partition is not None and offsets_partition < 0:
        raise ValueError(f"offsets_partition must be >= 0, got {offsets_partition}")


def check_broker(fault: object) -> None:
    """The same, and where a broker is named twice: by its id, and as the leader of a partition."""
    check_partition(fault)
    named = (getattr(fault, "broker", None), getattr(fault, "offsets_partition", None))
    if None not in named:
        raise ValueError("broker and offsets_partition exclude each other: one names a broker")
