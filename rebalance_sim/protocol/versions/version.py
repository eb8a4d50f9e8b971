"""A version of the protocol."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """A table of differences from the correct rules, complete in itself.

    ``about`` says in a line whose behaviour it is.
    ``releases`` are the lines of Apache Kafka, such as 4.3, whose brokers behave like this.
    ``changes`` are classes that derive from the rules class they change: an attribute with another
    value, a method that is replaced. ``shipped_defects`` are ids of ``protocol/defects/``: all that
    it has.
    """

    name: str
    about: str
    releases: tuple[str, ...] = ()
    changes: tuple[type, ...] = ()
    shipped_defects: tuple[str, ...] = ()
