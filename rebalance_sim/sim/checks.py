"""Checks of the values that a world is specified by: ValueError names the field."""

from __future__ import annotations

import re
from collections.abc import Iterable

NONE = "none"
"""How files say that an optional value is not there."""


def at_least(value: object, least: int, *names: str) -> None:
    """Raises ValueError for the first of the named fields that is below ``least``."""
    for name in names:
        if getattr(value, name) < least:
            raise ValueError(f"{name} must be >= {least}, got {getattr(value, name)}")


def at_most(value: object, most: int, *names: str) -> None:
    """Raises ValueError for the first of the named fields that is above ``most``."""
    for name in names:
        if getattr(value, name) > most:
            raise ValueError(f"{name} must be <= {most:_}, got {getattr(value, name)}")


def not_empty(value: object, name: str) -> None:
    """Raises ValueError if the named field is empty."""
    if not getattr(value, name):
        raise ValueError(f"{name} must not be empty")


def not_none(value: object, *names: str) -> None:
    """Raises ValueError for the first of the named fields that is what files say for no value."""
    for name in names:
        if getattr(value, name) == NONE:
            raise ValueError(f"{name} {NONE!r} stands for no value: give another, or leave it out")


_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def legal_topic(topic: str, name: str) -> None:
    """Raises ValueError for a topic name that Kafka takes from no one (``Topic.validate`` of
    4.3.1); ``name`` is that of the field."""
    if not _TOPIC.fullmatch(topic) or topic in (".", ".."):
        shown = topic if len(topic) <= 60 else f"{topic[:60]}..."
        raise ValueError(
            f"{name} {shown!r} is no topic: give 1 to 249 of a-z, A-Z, 0-9, '.', '_' and '-', "
            "but neither '.' nor '..'"
        )


def unique(name: str, items: Iterable[str]) -> None:
    """Raises ValueError for the first item that comes twice; ``name`` is that of their list."""
    seen: set[str] = set()
    for item in items:
        if item in seen:
            raise ValueError(f"{name}: {item!r} appears twice")
        seen.add(item)
