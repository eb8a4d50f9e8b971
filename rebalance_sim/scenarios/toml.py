"""Reading TOML files that somebody wrote: every problem is one line with the place."""

from __future__ import annotations

import tomllib
from os import PathLike
from pathlib import Path
from typing import Any

from rebalance_sim.scenarios.errors import ScenarioError

MAX_BYTES = 16 * 1024 * 1024
"""A scenario of a thousand clients has less than one of these."""

DEEPEST = 100
"""Tables and lists inside of each other; a scenario has eight."""

_INTEGERS = range(-(2**63), 2**63)
"""What an integer of TOML may be."""


def read_text(path: str | Path, *, wanted: str = "a TOML file") -> str:
    """The text of a file; ``wanted`` says which one is to be given. Raises ScenarioError if it
    cannot be read, or is too large for one."""
    if not isinstance(path, str | PathLike):
        raise ScenarioError(f"{path!r} is no file: give its path")
    file = Path(path)
    try:
        if file.is_file() and file.stat().st_size > MAX_BYTES:
            raise ScenarioError(f"is larger than {MAX_BYTES >> 20} MiB", source=str(path))
        return file.read_text(encoding="utf-8")
    except (OSError, ValueError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else "is no path"
        if isinstance(problem, UnicodeDecodeError):
            reason = "is not a UTF-8 text"
        raise ScenarioError(
            f"cannot be read: {reason}; give {wanted}", source=str(path)
        ) from problem


def parse_toml(text: str) -> dict[str, Any]:
    """The tables of a TOML text. Raises ScenarioError with line and column."""
    if not isinstance(text, str):
        raise ScenarioError(f"{text!r} is no TOML: give text")
    try:
        tables = tomllib.loads(text)
    except RecursionError as problem:
        raise _too_deep() from problem
    except ValueError as problem:  # integers of thousands of digits are no TOMLDecodeError
        raise ScenarioError(f"is not valid TOML: {problem}") from problem
    check_values(tables)
    return tables


def check_values(tables: object) -> None:
    """Raises ScenarioError for values that are nested too deep, and for integers beyond 64 bits,
    with their place."""
    level: list[tuple[str, object]] = [("", tables)]
    for _ in range(DEEPEST):
        inner: list[tuple[str, object]] = []
        for place, value in level:
            if isinstance(value, dict):
                inner += [(f"{place}.{key}" if place else key, one) for key, one in value.items()]
            elif isinstance(value, list | tuple):
                inner += [(f"{place}[{index}]", one) for index, one in enumerate(value)]
            elif isinstance(value, int) and value not in _INTEGERS:
                raise ScenarioError("is beyond 64 bits: give a smaller number", place=place)
        if not inner:
            return
        level = inner
    raise _too_deep()


def _too_deep() -> ScenarioError:
    return ScenarioError(f"is nested too deep: at most {DEEPEST} tables and lists inside of others")
