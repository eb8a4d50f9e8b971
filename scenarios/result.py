"""What a run says: one value, printable whole, and the same for the same scenario and code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rebalance_sim.sim.observe.sampling import MetricSample

OUTCOMES: Mapping[str, str] = {
    "ok": "every property held",
    "violation": "a property was violated, and no known issue of the simulated version explains it",
    "known": "properties were violated only in ways that the simulated version is known for",
    "stuck": "a liveness property did not hold in the quiet period",
    "budget": "the run was cut off: by its step or wall time budget, or as time stood still",
    "error": "our own code failed; `reason` holds the exception",
}
"""Every outcome of a run, with its meaning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ViolationRow:
    """A violated property: which, of which group, where in the run, and what was seen.

    ``open_faults`` are the faults whose windows were open then: ``client_pause(a) since 20000 ms``.
    """

    property: str
    sentence: str
    step: int
    at_ms: int
    detail: str
    group_id: str = ""
    open_faults: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """One run.

    ``known`` counts, for each known issue of the simulated version, how often it showed.
    ``reason`` says in one line why the outcome is not ``ok``; of an ``error``, type, message and
    innermost frames. ``digest`` is that of the trace: equal digests, equal runs. ``samples`` are
    the series of the run, if any were asked for.
    """

    seed: int
    profile: str
    scenario_hash: str
    code_version: str
    outcome: str
    steps: int = 0
    simulated_ms: int = 0
    digest: str = ""
    ties: int = 0
    known: Mapping[str, int] = field(default_factory=dict)
    violations: tuple[ViolationRow, ...] = ()
    metrics: Mapping[str, float] = field(default_factory=dict)
    coverage: Mapping[str, int] = field(default_factory=dict)
    reason: str = ""
    samples: tuple[MetricSample, ...] = ()
