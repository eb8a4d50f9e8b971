"""The files that scenarios are made from: profiles, built-in or anybody's, and whole scenarios.

A profile of one's own says ``extends = "faulty"``, or the path of another file, and what differs:
tables are merged key by key, ``faults`` and ``coincidences`` entry by entry, distinguished by their
``kind``. An empty list takes all entries away. A scenario in place of a profile is the same in
every run but for its seed. The file of an experiment stands for the table ``base`` in it.

What is read is one text that stands for itself: it needs no other file, and can be shipped.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from hashlib import blake2b
from importlib.resources import files
from pathlib import Path
from typing import Any

import tomli_w

from rebalance_sim.scenarios.codec import KIND
from rebalance_sim.scenarios.errors import ScenarioError, did_you_mean
from rebalance_sim.scenarios.toml import parse_toml, read_text

SUFFIX = ".toml"
"""By this a file is distinguished from a name."""

_EXTENDS = "extends"
_BASE = "base"
_BY_KIND = ("faults", "coincidences")
_DEEPEST = 10
_FOLDER = files("rebalance_sim.scenarios") / "profiles"


def is_file(name: str) -> bool:
    """Whether this is the path of a file, and not the name of a built-in profile."""
    return name.endswith(SUFFIX)


PROFILES = tuple(
    sorted(file.name.removesuffix(SUFFIX) for file in _FOLDER.iterdir() if is_file(file.name))
)
"""The profiles that come with the simulator, discovered by import."""


def is_scenario(data: Mapping[str, Any]) -> bool:
    """Whether these tables are a scenario, and not a profile."""
    return "world" in data


def text_of(path: str) -> str:
    """What the file says, with all that it extends, as TOML in a fixed order.

    Raises ScenarioError if it, or a file that it extends, cannot be read, and for a circle.
    """
    return tomli_w.dumps(_resolved(Path(path), ()))


def digest_of(text: str) -> str:
    """Eight hexadecimal digits: equal for files that say the same."""
    return blake2b(text.encode(), digest_size=4).hexdigest()


@functools.cache
def built_in(name: str) -> Mapping[str, Any]:
    """The tables of a built-in profile, and of what it extends. Raises ScenarioError if there is
    none."""
    if name not in PROFILES:
        remedy = did_you_mean(name, PROFILES)
        raise ScenarioError(f"no profile {name!r}; {remedy} (a file of yours ends in {SUFFIX})")
    data = parse_toml((_FOLDER / f"{name}{SUFFIX}").read_text(encoding="utf-8"))
    base = data.pop(_EXTENDS, None)
    return data if base is None else _merged(built_in(base), data)


def _resolved(path: Path, above: tuple[Path, ...]) -> dict[str, Any]:
    """The tables of a file, without ``extends``."""
    text = read_text(path)  # first: of a path that is none, or a link to itself, it says so
    place = path.resolve()
    if place in above or len(above) >= _DEEPEST:
        raise ScenarioError("extends itself, or too many others", place=_EXTENDS, source=str(path))
    try:
        data = parse_toml(text)
        if isinstance(data.get(_BASE), dict):  # of an experiment: what it varies
            data = data[_BASE]
        base = data.pop(_EXTENDS, None)
        if base is None:
            data.setdefault("name", path.stem)
            if not is_scenario(data):
                data.setdefault("description", f"Profile of {path.name}.")
            return data
        if not isinstance(base, str) or not base:
            raise ScenarioError("must be a profile's name or a file", place=_EXTENDS)
        if is_file(base):
            extended: Mapping[str, Any] = _resolved(path.parent / base, (*above, place))
            _check_kinds(extended, str(path.parent / base))
        else:
            extended = built_in(base)
        if is_scenario(data) or is_scenario(extended):
            raise ScenarioError("is for profiles; a scenario says all of itself", place=_EXTENDS)
        changed = ", ".join(data)
        about = {"name": path.stem, "description": f"{base}, with other {changed or 'name'}"}
        return _merged({**extended, **about}, data)
    except ScenarioError as problem:
        raise problem if problem.source else problem.within(str(path)) from None


def _merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in over.items():
        below = merged.get(key)
        if isinstance(value, dict) and isinstance(below, dict):
            merged[key] = _merged(below, value)
        elif key in _BY_KIND and isinstance(value, list) and value and isinstance(below, list):
            merged[key] = _merged_by_kind(key, below, value)
        else:
            merged[key] = value
    return merged


def _check_kinds(base: Mapping[str, Any], source: str) -> None:
    """Raises ScenarioError for an entry of a base that nothing can be merged into."""
    for key in _BY_KIND:
        rows = base.get(key)
        for index, row in enumerate(rows if isinstance(rows, list) else ()):
            _kind(row, f"{key}[{index}]", source)


def _kind(row: object, place: str, source: str = "") -> str:
    if not isinstance(row, dict):
        raise ScenarioError(f"must be a table with {KIND!r}", place=place, source=source)
    kind = row.get(KIND)
    if not isinstance(kind, str):
        wrong = "is missing; add it" if kind is None else "must be a string"
        raise ScenarioError(f"key {KIND!r} {wrong}", place=place, source=source)
    return kind


def _merged_by_kind(key: str, base: list[Any], over: list[Any]) -> list[Any]:
    """Entries of the base in their order, those that are new at the end."""
    rows: dict[Any, Any] = {row[KIND]: row for row in base}
    seen = set()
    for index, row in enumerate(over):
        kind = _kind(row, f"{key}[{index}]")
        if kind in seen:
            raise ScenarioError(f"{kind!r} appears twice: name each of them once", place=key)
        seen.add(kind)
        rows[kind] = {**rows.get(kind, {}), **row}
    return list(rows.values())
