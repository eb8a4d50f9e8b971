"""Reading TOML files that somebody wrote: every problem is one line with the place."""

from __future__ import annotations

import tomllib
from os import PathLike
from pathlib import Path
from typing import Any

from rebalance_sim.scenarios.errors import ScenarioError

MAX_BYTES = 16 * 1024 * 1024
"""A scenario of a thousand clients has less than one of these."""


def read_text(path: str | Path) -> str:
    """The text of a file. Raises ScenarioError if it cannot be read, or is too large for one."""
    if not isinstance(path, str | PathLike):
        raise ScenarioError(f"{path!r} is no file: give its path")
    file = Path(path)
    try:
        if file.is_file() and file.stat().st_size > MAX_BYTES:
            raise ScenarioError(f"is larger than {MAX_BYTES >> 20} MiB", source=str(path))
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else "is not a UTF-8 text"
        raise ScenarioError(
            f"cannot be read: {reason}; give a TOML file", source=str(path)
        ) from problem


def parse_toml(text: str) -> dict[str, Any]:
    """The tables of a TOML text. Raises ScenarioError with line and column."""
    if not isinstance(text, str):
        raise ScenarioError(f"{text!r} is no TOML: give text")
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise ScenarioError(f"is not valid TOML: {problem}") from problem
