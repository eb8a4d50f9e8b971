"""A runner that simulates nothing: what is left is what a sweep itself costs."""

from __future__ import annotations

from rebalance_sim.scenarios.result import RunResult
from rebalance_sim.scenarios.variant import Variant


def run_seed(variant: Variant, seed: int) -> RunResult:
    """A row as a simulated run has it, with a few metrics and situations that vary by seed."""
    return RunResult(
        seed=seed,
        profile=str(variant),
        scenario_hash=f"{seed * 0x9E3779B97F4A7C15 % (1 << 64):016x}",
        code_version="trivial",
        outcome="known" if seed % 7 == 0 else "ok",
        steps=1_000 + seed % 997,
        simulated_ms=60_000 + seed % 10_007,
        digest=f"{seed * 0xD1B54A32D192ED03 % (1 << 128):032x}",
        ties=seed % 3,
        metrics={"unowned_partition_ms": float(seed % 30_011), "rebalances": float(seed % 13)},
        coverage={"joined": 3, "fenced": seed % 2},
    )
