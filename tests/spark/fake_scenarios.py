"""Scenarios that behave as a profile says, in place of the simulator.

They stand for what a researcher's own runner would be: a module outside the project, named as
``fake_scenarios:run_seed``, that has to reach the workers.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import signal
import time
from typing import Any

from rebalance_sim.scenarios.defects import defect_scenario
from rebalance_sim.scenarios.result import RunResult, ViolationRow
from rebalance_sim.scenarios.runner import run
from rebalance_sim.scenarios.variant import Variant
from rebalance_sim.sim.observe.sampling import MetricSample
from rebalance_sim.sim.trace import FullTrace


def run_seed(variant: Variant, seed: int) -> RunResult:
    """What becomes of a seed: see the branches."""
    profile = variant.profile
    extra: dict[str, Any] = {}
    if profile == "mixed":
        extra = _mixed(seed)
    elif profile == "hostile":
        _misbehave(seed)
    elif profile == "slow":
        time.sleep(0.05)
    elif profile == "moody" and seed % 5 == 0:
        extra = {"outcome": "violation", "digest": os.urandom(4).hex()}
    elif profile == "unwritable":
        extra = UNWRITABLE.get(seed, {})
        if seed == RAISES:
            raise ValueError("lone \ud800 surrogate")
    elif profile == "cramped":
        raise MemoryError
    values: dict[str, Any] = {
        "scenario_hash": "5ce9a210",
        "code_version": "test",
        "outcome": "ok",
        "steps": 100 + seed,
        "simulated_ms": 60_000,
        "digest": hashlib.blake2b(f"{profile}/{seed}".encode(), digest_size=8).hexdigest(),
        "ties": seed % 3,
        "metrics": {"unowned_ms": float(seed), "rebalances": 2.0},
        "coverage": {"fenced": seed % 2, "joined": 3},
    }
    return RunResult(seed=seed, profile=profile, **(values | extra))


UNWRITABLE: dict[int, dict[str, Any]] = {
    0: {"reason": "lone \ud800 surrogate"},
    1: {"metrics": {"speed": "fast"}},
    2: {"metrics": {"speed": float("nan")}},
    3: {"metrics": {"speed": float("-inf")}},
    4: {"steps": 2**63},
    5: {"outcome": "splendid"},
    6: {"digest": 17},
    7: {"coverage": {"fenced": "often"}},
    8: {"reason": None},
    9: {"metrics": {"speed": 10**400}},
}
"""Seed -> what no table can hold."""

RAISES = 10
"""The seed whose exception says what is no UTF-8."""


def run_observed(
    variant: Variant,
    seed: int,
    *,
    metrics_interval_ms: int | None = None,
    trace: FullTrace | None = None,
) -> RunResult:
    """The same, for one that wants samples or a trace."""
    result = run_seed(variant, seed)
    if trace is not None:
        trace.lines.append(json.dumps({"step": 1, "at_ms": 17, "kind": "fault", "detail": "fake"}))
    if metrics_interval_ms is None:
        return result
    at_ms = metrics_interval_ms
    return dataclasses.replace(
        result,
        samples=(
            MetricSample(at_ms, 0, "num_partitions", (("state", "active"),), 1),
            MetricSample(at_ms, 1, "num_partitions", (("state", "active"),), 0),
            MetricSample(at_ms, None, "members", (("group", "g"),), seed),
            MetricSample(2 * at_ms, None, "unowned_partitions", (), 0.5),
        ),
    )


def run_two_properties(variant: Variant, seed: int, *, trace: FullTrace | None = None) -> RunResult:
    """From seed 50 on, it is another property that is violated."""
    result = run_observed(variant, seed, trace=trace)
    violated = tuple(
        dataclasses.replace(row, property="log.other") if seed >= 50 else row
        for row in result.violations
    )
    return dataclasses.replace(result, violations=violated)


def run_moody(variant: Variant, seed: int, *, trace: FullTrace | None = None) -> RunResult:
    """The same twice, as in a batch, but another way when it is traced."""
    result = run_seed(variant, seed)
    if trace is None:
        return dataclasses.replace(result, outcome="ok" if seed % 5 else "violation")
    return dataclasses.replace(result, digest="another")


def run_defect(variant: Variant, seed: int, *, trace: FullTrace | None = None) -> RunResult:
    """The simulator, with a defect that violates a property, whatever the seed."""
    result = run(defect_scenario("mut-early-grant"), trace=trace)
    return dataclasses.replace(result, seed=seed, profile=str(variant))


def run_shipped(variant: Variant, seed: int) -> RunResult:
    """The simulator, with what the client of 4.1 is known for in every other seed."""
    scenario = defect_scenario("KAFKA-20332", with_defect=False)
    semantics = "kafka-4.1" if seed % 2 else "kafka-4.3"
    world = dataclasses.replace(scenario.world, semantics=semantics)
    result = run(dataclasses.replace(scenario, world=world))
    return dataclasses.replace(result, seed=seed, profile=str(variant))


def _mixed(seed: int) -> dict[str, Any]:
    if seed % 10 == 3:
        violated = ViolationRow(
            property="client.exclusive",
            sentence="No one else owns it.",
            step=17,
            at_ms=1_234,
            detail="foo-1: A, B",
        )
        return {"outcome": "violation", "violations": (violated, violated)}
    if seed % 10 == 6:
        return {"outcome": "known", "known": {"KAFKA-16147": 2}}
    if seed % 10 == 9:
        return {"outcome": "stuck", "reason": "A waits for foo-1"}
    return {}


def _misbehave(seed: int) -> None:
    if seed == 11:
        raise ValueError("no such member")
    if seed == 12:
        raise SystemExit(3)
    if seed == 13:
        while True:
            pass
    if seed == 14:
        sum(range(10**12))  # one C call: no signal handler runs before it ends
    if seed == 15:
        hoard = []
        while True:
            hoard.append(bytearray(1 << 28))
    if seed == 16:
        os.kill(os.getpid(), signal.SIGKILL)
    if seed == 17:
        os._exit(3)
    if seed == 18:
        _misbehave(18)
