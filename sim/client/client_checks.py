"""Checks of what a scenario says of a client's library."""

from __future__ import annotations

from rebalance_sim.protocol.assignors.classic import CLASSIC_ASSIGNORS, LIBRDKAFKA_ASSIGNORS
from rebalance_sim.protocol.clients.common.kinds import EVERY_KIND, LIBRDKAFKA_CLASSIC

__all__ = ["DEFAULT_ASSIGNORS", "check_assignors", "check_kind", "default_assignors"]

DEFAULT_ASSIGNORS = ("range", "cooperative-sticky")
"""``partition.assignment.strategy`` as Kafka has it (classic §2.10)."""

_DEFAULT_OF_LIBRDKAFKA = ("range", "roundrobin")


def default_assignors(kind: str) -> tuple[str, ...]:
    """``partition.assignment.strategy`` of a client library that nobody has told another one."""
    return _DEFAULT_OF_LIBRDKAFKA if kind == LIBRDKAFKA_CLASSIC else DEFAULT_ASSIGNORS


def check_kind(kind: str, name: str = "kind") -> None:
    """Raises ValueError for a kind of client that there is not; ``name`` is that of the field."""
    if kind not in EVERY_KIND:
        raise ValueError(f"{name} {kind!r} is not known; known are: {', '.join(EVERY_KIND)}")


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
    if kind == LIBRDKAFKA_CLASSIC:
        _check_of_librdkafka(assignors)


def _check_of_librdkafka(assignors: tuple[str, ...]) -> None:
    """It refuses to start with eager and cooperative assignors in one list."""
    for assignor in assignors:
        if assignor not in LIBRDKAFKA_ASSIGNORS:
            known = ", ".join(LIBRDKAFKA_ASSIGNORS)
            raise ValueError(
                f"assignors: {LIBRDKAFKA_CLASSIC} has no {assignor!r}; it has: {known}"
            )
    if len({LIBRDKAFKA_ASSIGNORS[assignor].supports_cooperative for assignor in assignors}) > 1:
        raise ValueError(
            f"assignors: {LIBRDKAFKA_CLASSIC} takes either eager or cooperative ones, not "
            f"{', '.join(assignors)}; its own default is {', '.join(_DEFAULT_OF_LIBRDKAFKA)}"
        )
