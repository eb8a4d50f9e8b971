"""Checks of what a scenario says of a client's library."""

from __future__ import annotations

from protocol.assignors.classic import CLASSIC_ASSIGNORS
from protocol.member.kinds import CLASSIC, CLIENT_KINDS

__all__ = ["DEFAULT_ASSIGNORS", "check_assignors", "check_kind"]

_KINDS = (*CLIENT_KINDS, CLASSIC)

DEFAULT_ASSIGNORS = ("range", "cooperative-sticky")
"""``partition.assignment.strategy`` as Kafka has it (classic-group-and-migration.md, 2.10)."""


def check_kind(kind: str, name: str = "kind") -> None:
    """Raises ValueError for a kind of client that there is not; ``name`` is that of the field."""
    if kind not in _KINDS:
        raise ValueError(f"{name} {kind!r} is not known; known are: {', '.join(_KINDS)}")


def check_assignors(assignors: tuple[str, ...]) -> None:
    """Raises ValueError for a list that no classic client takes."""
    if not assignors:
        raise ValueError("assignors must not be empty")
    for assignor in assignors:
        if assignor not in CLASSIC_ASSIGNORS:
            known = ", ".join(CLASSIC_ASSIGNORS)
            raise ValueError(f"assignors: {assignor!r} is not known; known are: {known}")
    if len(set(assignors)) != len(assignors):
        raise ValueError("assignors must not name an assignor twice")
