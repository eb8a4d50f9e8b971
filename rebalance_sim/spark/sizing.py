"""How many seeds a batch has: by the time that they take and by the room that their rows need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import monotonic
from typing import Any

from rebalance_sim.scenarios.variant import Variant
from rebalance_sim.spark.batch import seed_body
from rebalance_sim.spark.options import SweepOptions
from rebalance_sim.spark.plan import BATCH_SIZE_MAX, BATCHES_AT_LEAST, SeedRange, Unit
from rebalance_sim.spark.runner import load_runner
from rebalance_sim.spark.store import container
from rebalance_sim.spark.supervised import supervised

# A batch should last seconds: long beside the 13 ms that a task costs, short beside the sweep.
SHORTEST_S = 3.0
LONGEST_S = 30.0
# An object should be worth a request, and its footer small beside its rows; yet fit into memory.
SMALLEST_BYTES = 256 * 1024
LARGEST_BYTES = 64 * 1024 * 1024
# More objects than this are slow to list and to read, and wear out a driver.
BATCHES_AT_MOST = 5_000
PROBE_SEEDS = 20
STEPS = tuple(
    digit * 10**power
    for power in range(6)
    for digit in (1, 2, 4)
    if digit * 10**power <= BATCH_SIZE_MAX
)


def measured_batch_size(
    variants: Sequence[Variant], seeds: SeedRange, options: SweepOptions
) -> int:
    """Run the first seeds, for one short batch's time at most, and choose from what they took.
    Of few seeds each is a batch of its own, whatever it takes."""
    if len(seeds) < 2 * BATCHES_AT_LEAST:
        return 1
    body = seed_body(load_runner(options.runner))
    last = min(seeds.end, seeds.first + PROBE_SEEDS)
    probe = [Unit(variant, seed) for seed in range(seeds.first, last) for variant in variants]
    started_s = monotonic()
    rows = []
    count = 0
    attempts = supervised(body, probe, options.limits)
    for attempt in attempts:
        count += 1
        if not attempt.failure:
            timing = {"batch": 0, "wall_ms": attempt.wall_ms, "worker": "", "attempts": 1}
            rows.append({**attempt.result, "timing": timing})
        if monotonic() - started_s > SHORTEST_S:
            break
    attempts.close()
    runs_a_seed = len(variants)
    return fitting_size(
        seconds=(monotonic() - started_s) / count * runs_a_seed,
        size_bytes=_bytes_a_run(rows) * runs_a_seed,
        seeds=len(seeds),
    )


def _bytes_a_run(rows: Sequence[Mapping[str, Any]]) -> float:
    """By how much an object grows with one more run; 0 if that is not known.

    Of twenty runs it is half as large again for what there is once in an object.
    """
    half = len(rows) // 2
    if not half:
        return 0.0
    grown = len(container.to_bytes(rows)) - len(container.to_bytes(rows[:half]))
    return max(1.0, grown / (len(rows) - half))


def fitting_size(*, seconds: float, size_bytes: float, seeds: int) -> int:
    """Seeds a batch, for what a seed takes and needs, as one of the steps 1, 2, 4, 10, ...

    Steps keep the size the same from one measurement to the next, as a rule.
    """
    wanted = max(SHORTEST_S / seconds, seeds / BATCHES_AT_MOST)
    ceiling = min(LONGEST_S / seconds, seeds / BATCHES_AT_LEAST)
    if size_bytes:
        wanted = max(wanted, SMALLEST_BYTES / size_bytes)
        ceiling = min(ceiling, LARGEST_BYTES / size_bytes)
    return max((step for step in STEPS if step <= min(wanted, ceiling)), default=1)
