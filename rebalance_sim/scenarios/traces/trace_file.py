"""The file of a trace: its lines, and the scenario that its last line has."""

from __future__ import annotations

import gzip
import json
import zlib
from pathlib import Path

from rebalance_sim.scenarios.errors import ScenarioError

VERDICT = "verdict"
"""Kind of the last line."""

_SUFFIXES = (".jsonl", ".jsonl.gz")


def is_trace_file(path: str | Path) -> bool:
    """Does the name say that this is a trace, and no scenario?"""
    return str(path).endswith(_SUFFIXES)


def read_lines(path: str | Path) -> list[str]:
    """The lines of the file of ``run --trace``, or of one of a sweep, which is packed. Raises
    ScenarioError if it cannot be read."""
    try:
        data = Path(path).read_bytes()
        return (gzip.decompress(data) if str(path).endswith(".gz") else data).decode().splitlines()
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as problem:
        remedy = "give the file of run --trace, or one of a sweep"
        raise ScenarioError(f"cannot be read ({problem}): {remedy}", source=str(path)) from problem


def scenario_text(path: str | Path) -> str:
    """The scenario, as TOML, of which this is the trace. Raises ScenarioError if it has none."""
    lines = read_lines(path)
    try:
        text = json.loads(lines[-1])["scenario"]
    except (ValueError, LookupError, TypeError, RecursionError):
        text = None
    if not isinstance(text, str) or not text:
        raise ScenarioError(
            "has no scenario in its last line: write the trace again with run --trace",
            source=str(path),
        )
    return text
