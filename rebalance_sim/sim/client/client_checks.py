"""Checks of what a scenario says of a client's library."""

from __future__ import annotations

from rebalance_sim.protocol.assignors.classic import CLASSIC_ASSIGNORS
from rebalance_sim.protocol.clients.common.client_kind import ClientKind
from rebalance_sim.protocol.clients.kinds import FRANZ, JAVA, KINDS
from rebalance_sim.re2_engine import compile_re2

COOPERATIVE = "cooperative-sticky"

DEFAULT_ASSIGNORS = KINDS[JAVA].default_assignors
"""``partition.assignment.strategy`` as Kafka has it (classic §2.10)."""


def default_assignors(kind: str) -> tuple[str, ...]:
    """``partition.assignment.strategy`` of a client library whose setting no one changes."""
    return KINDS[kind].default_assignors


def check_kind(kind: str, name: str = "kind") -> None:
    """Raises ValueError for a kind of client that there is not; ``name`` is that of the field."""
    if kind not in KINDS:
        raise ValueError(f"{name} {kind!r} is not known; known are: {', '.join(KINDS)}")


def check_assignors(assignors: tuple[str, ...], kind: str) -> None:
    """Raises ValueError for a list that no classic client takes, or none of that ``kind``."""
    if not assignors:
        raise ValueError("assignors must not be empty")
    for assignor in assignors:
        if assignor not in CLASSIC_ASSIGNORS:
            known = ", ".join(CLASSIC_ASSIGNORS)
            raise ValueError(f"assignors: {assignor!r} is not known; known are: {known}")
    if len(set(assignors)) != len(assignors):
        raise ValueError("assignors must not name an assignor twice")
    _check_library(assignors, KINDS[kind])


def takes_assignors(kind: str, assignors: tuple[str, ...]) -> bool:
    """Whether a client library takes this list."""
    try:
        check_assignors(assignors, kind)
    except ValueError:
        return False
    return True


def _check_library(assignors: tuple[str, ...], kind: ClientKind) -> None:
    """A library may lack an assignor, or refuse eager and cooperative ones in one list."""
    for assignor in assignors:
        if assignor not in kind.assignors:
            known = ", ".join(kind.assignors)
            raise ValueError(f"assignors: {kind.name} has no {assignor!r}; it has: {known}")
    modes = {kind.assignors[assignor].supports_cooperative for assignor in assignors}
    if len(modes) > 1 and not kind.mixes_assignors:
        raise ValueError(
            f"assignors: {kind.name} takes either eager or cooperative ones, not "
            f"{', '.join(assignors)}; its own default is {', '.join(kind.default_assignors)}"
        )


def can_be_greedy(kind: str) -> bool:
    """Whether a client library has ``greedy_auto_commit``."""
    return KINDS[kind].library == KINDS[FRANZ].library


def check_regex(regex: str | None) -> None:
    """Raises ValueError for a pattern that RE2 does not take; None passes."""
    if regex is None:
        return
    try:
        compile_re2(regex)
    except ValueError as error:
        raise ValueError(f"topic_regex {regex!r} is not a regular expression: {error}") from None
