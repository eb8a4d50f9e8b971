"""The progress of a sweep."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a sweep is. ``note`` says what is going on when it changes, else empty. ``outcomes``
    counts the runs that this call has finished."""

    batches_done: int
    batches_planned: int
    seeds_planned: int
    note: str = ""
    outcomes: Mapping[str, int] = field(default_factory=dict)


OnProgress = Callable[[Progress], None]


def ignore(progress: Progress) -> None:
    """Show no one how far a sweep is."""
