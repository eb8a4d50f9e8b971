"""Files that people asked for by name."""

from __future__ import annotations

from pathlib import Path

from rebalance_sim.scenarios.errors import ScenarioError


def write_file(path: Path, content: bytes) -> None:
    """Raises ScenarioError for a file that cannot be written."""
    try:
        path.write_bytes(content)
    except OSError as problem:
        raise ScenarioError(
            f"cannot write {path} ({problem.strerror}): give another file"
        ) from problem
