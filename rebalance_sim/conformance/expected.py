"""Differences that a replay is expected to show, each declared beside its trace with its reason.

``name.expected.toml`` beside ``name.json`` says how many of what cannot be met (``missing``), how
the first difference begins, why (``reason``), and the ``source`` that explains it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rebalance_sim.conformance.errors import TraceError

_KEYS = {"missing", "difference", "reason", "source"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedDifference:
    """What the replay of one trace cannot meet. ``difference`` is how its first difference
    begins, ``missing`` counts by what is compared, as in ``{"commits": 1}``."""

    missing: Mapping[str, int]
    difference: str
    reason: str
    source: str

    def is_shown_by(self, counts: Mapping[str, tuple[int, int]], first_difference: str) -> bool:
        """Whether a replay shows just this: ``counts`` is what -> (equal, compared)."""
        missing = {what: compared - equal for what, (equal, compared) in counts.items()}
        shown = {what: count for what, count in missing.items() if count}
        return shown == dict(self.missing) and first_difference.startswith(self.difference)


def load_expected(trace: Path) -> ExpectedDifference | None:
    """What is declared beside a trace; None if nothing is. Raises TraceError."""
    file = trace.with_suffix(".expected.toml")
    if not file.exists():
        return None
    try:
        values = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise TraceError(f"{file}: {problem}") from None
    if set(values) != _KEYS or not isinstance(values["missing"], dict):
        raise TraceError(f"{file}: give {', '.join(sorted(_KEYS))}, with missing as a table")
    return ExpectedDifference(**values)
