"""The trace of a run as a file: one JSON object for each step, and the verdict in the last line."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rebalance_sim.scenarios.errors import ScenarioError
from rebalance_sim.scenarios.result import RunResult, ViolationRow
from rebalance_sim.scenarios.traces.trace_file import VERDICT, read_lines
from rebalance_sim.sim.trace import FullTrace

TraceStep = Mapping[str, Any]
"""A step as plain data: ``step``, ``at_ms``, ``kind``, and what belongs to that kind
(``invariants.step.StepKind``); values of the protocol name their ``type``."""

_VERDICT_FIELDS = (
    "outcome", "reason", "seed", "profile", "scenario_hash", "code_version", "digest", "known",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTrace:
    """The steps of a run in their order, and how it ended: ``outcome`` is empty if the file does
    not say."""

    steps: Sequence[TraceStep]
    outcome: str = ""
    violations: Sequence[ViolationRow] = field(default_factory=tuple)

    def violated_at(self, step: int) -> list[ViolationRow]:
        """What was seen to be violated at the step of this number."""
        return [row for row in self.violations if row.step == step]


def trace_lines(trace: FullTrace, result: RunResult) -> Iterator[str]:
    """The lines of the file: every step, then the verdict, with the scenario."""
    yield from trace.lines
    verdict: dict[str, Any] = {"kind": VERDICT}
    verdict |= {name: getattr(result, name) for name in _VERDICT_FIELDS}
    verdict["violations"] = [asdict(row) for row in result.violations]
    verdict["scenario"] = trace.scenario
    yield json.dumps(verdict, separators=(",", ":"), ensure_ascii=True)


def run_trace_of(trace: FullTrace, result: RunResult) -> RunTrace:
    """The same without a file in between."""
    return RunTrace(
        steps=[json.loads(line) for line in trace.lines],
        outcome=result.outcome,
        violations=result.violations,
    )


def read_trace(path: Path) -> RunTrace:
    """Read the file of ``run --trace``, or one of a sweep, which is packed.

    Raises ScenarioError, with file and line, for anything else.
    """
    return _parse(read_lines(path), str(path))


def _parse(lines: Iterable[str], source: str) -> RunTrace:
    steps: list[TraceStep] = []
    for number, line in enumerate(lines, start=1):
        try:
            data = _checked(json.loads(line))
            if data["kind"] == VERDICT:
                rows = [_violation_row(row) for row in data["violations"]]
                return RunTrace(steps=steps, outcome=data["outcome"], violations=rows)
        except (ValueError, KeyError, TypeError, RecursionError) as problem:
            raise ScenarioError(
                f"no step of a trace ({problem})", source=source, place=f"line {number}"
            ) from problem
        steps.append(data)
    if not steps:
        raise ScenarioError("has no step: give the file of run --trace", source=source)
    return RunTrace(steps=steps)


def _checked(data: Any) -> TraceStep:
    """Raises ValueError for what is not a step, nor a verdict."""
    if not isinstance(data, dict):
        raise ValueError("it is not a table")
    if data.get("kind") == VERDICT:
        return data
    for key, types in (("kind", str), ("step", int), ("at_ms", int)):
        if not isinstance(data.get(key), types):
            raise ValueError(f"key {key!r} is missing, or is not {types.__name__}")
    return data


def _violation_row(data: Mapping[str, Any]) -> ViolationRow:
    return ViolationRow(**{**data, "open_faults": tuple(data["open_faults"])})
