"""Protocol values in plain words, for the details of findings: names and numbers, no code."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

from rebalance_sim.protocol.wire.topics import TopicPartition

NameOf = Callable[[TopicPartition], str]
"""How a partition is called, such as ``orders-7``."""

_MISSING = "missing"


def listed(items: Iterable[object], *, nothing: str = "none") -> str:
    """``1, 2, 3``, or a word for an empty list."""
    return ", ".join(map(str, items)) or nothing


def plain(value: Any, name_of: NameOf) -> str:
    """A value as a person would write it down; sets and maps in ascending order."""
    if value is None or value == "":
        return "none"
    if isinstance(value, TopicPartition):
        return name_of(value)
    if isinstance(value, Enum):
        return value.name
    named = fields_of(value)
    if named is not None:
        return listed(f"{_words(name)} {plain(item, name_of)}" for name, item in named.items())
    if isinstance(value, Mapping):
        rows = (f"{plain(key, name_of)}: {plain(value[key], name_of)}" for key in sorted(value))
        return f"[{listed(rows, nothing='')}]"
    if isinstance(value, Set):
        return f"[{listed((plain(item, name_of) for item in sorted(value)), nothing='')}]"
    if isinstance(value, tuple | list):
        return f"[{listed((plain(item, name_of) for item in value), nothing='')}]"
    return str(value)


def first_difference(what: str, found: Any, expected: Any, name_of: NameOf) -> tuple[str, str, str]:
    """Where two values differ first, and what either has there.

    ``what`` names the value; ``{}`` in it stands for the key where it is a map. Values of one type
    are compared field by field.
    """
    if isinstance(found, Mapping) and isinstance(expected, Mapping):
        keys = {*found, *expected}
        odd = min(key for key in keys if found.get(key) != expected.get(key))
        name = plain(odd, name_of)
        inner = what.format(name) if "{}" in what else f"{what} of {name}"
        return first_difference(inner, found.get(odd), expected.get(odd), name_of)
    mine, theirs = fields_of(found), fields_of(expected)
    if mine is not None and theirs is not None and mine.keys() == theirs.keys():
        odd = next(name for name in mine if mine[name] != theirs[name])
        return first_difference(f"{_words(odd)} of {what}", mine[odd], theirs[odd], name_of)
    if found is None or expected is None:
        # What is there need not be said in full where the other has nothing.
        is_large = mine is not None or theirs is not None
        words = [
            _MISSING if value is None else "there" if is_large else plain(value, name_of)
            for value in (found, expected)
        ]
        return what, words[0], words[1]
    return what, plain(found, name_of), plain(expected, name_of)


def fields_of(value: Any) -> Mapping[str, Any] | None:
    """Field name -> value; None for what has no named fields."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    if not isinstance(value, tuple) or isinstance(value, TopicPartition):
        return None
    return dict(value._asdict()) if hasattr(value, "_asdict") else None


def _words(name: str) -> str:
    return name.replace("_", " ")
