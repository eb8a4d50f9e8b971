"""What a sweep costs on this machine: seeds per second, overhead over a bare loop, memory.

    python benchmarks/sweep.py --profile faulty --seeds 0:400

The bare loop runs the same seeds one after the other in this process, with no child, no file and no
Spark; divided by the cores it is the ideal that a backend is measured against. Backends take turns,
``--rounds`` times, so that a disturbance hits all of them; medians are printed. ``overhead`` is the
ratio to the ideal from the moment the first batch can run, ``with start-up`` that of everything.
Memory is the highest sum over this process and all its descendants; pages that several share are
divided among them.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import psutil

from rebalance_sim.scenarios.variant import Variant
from rebalance_sim.spark import BACKENDS, Progress, SeedRange, SweepOptions, sweep
from rebalance_sim.spark.runner import run_seed

SAMPLE_S = 0.2
MIB = 1 << 20


class Round(NamedTuple):
    """One sweep: all of it, the part after start-up, and the highest memory."""

    total_s: float
    running_s: float
    peak_mib: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--profile", default="faulty")
    parser.add_argument("--seeds", default="0:400", type=SeedRange.parse)
    parser.add_argument("--rounds", default=3, type=int)
    options = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    loops: list[float] = []
    rounds: dict[str, list[Round]] = {backend: [] for backend in BACKENDS}
    for _ in range(options.rounds):
        loops.append(time_bare_loop(options.profile, options.seeds))
        for backend in BACKENDS:
            rounds[backend].append(time_sweep(options.profile, options.seeds, backend))
    loop_s = statistics.median(loops)
    count = len(options.seeds)
    print(f"{count} seeds of {options.profile}, {cores} cores, median of {options.rounds} rounds")
    print(f"bare loop   {loop_s:8.2f} s  {1000 * loop_s / count:8.2f} ms a seed, one core")
    for backend, measured in rounds.items():
        total_s, running_s, peak_mib = (
            statistics.median(values) for values in zip(*measured, strict=True)
        )
        print(
            f"{backend:<10}  {total_s:8.2f} s  {count / total_s:8.1f} seeds/s  "
            f"overhead {running_s * cores / loop_s:5.2f}  "
            f"with start-up {total_s * cores / loop_s:5.2f}  peak {peak_mib:,.0f} MiB"
        )


def time_bare_loop(profile: str, seeds: SeedRange) -> float:
    started_s = perf_counter()
    for seed in range(seeds.first, seeds.end):
        run_seed(Variant(profile), seed)
    return perf_counter() - started_s


def time_sweep(profile: str, seeds: SeedRange, backend: str) -> Round:
    started_s = perf_counter()
    ready_s = []

    def on_progress(progress: Progress) -> None:
        if progress.note:  # the last note comes when the backend is ready
            ready_s.append(perf_counter())

    with tempfile.TemporaryDirectory() as folder, peak_memory() as peak_mib:
        sweep(
            profile=profile,
            seeds=seeds,
            out=Path(folder) / "out",
            # The bare loop keeps no series either.
            options=SweepOptions(backend=backend, metrics_seeds=0),
            on_progress=on_progress,
        )
        ended_s = perf_counter()
    return Round(ended_s - started_s, ended_s - ready_s[-1], peak_mib())


@contextmanager
def peak_memory() -> Iterator[Callable[[], float]]:
    """Sample the memory of this process tree until the end of the block."""
    peak, done = [0.0], threading.Event()

    def sample() -> None:
        while not done.wait(SAMPLE_S):
            peak[0] = max(peak[0], tree_memory_mib())

    sampler = threading.Thread(target=sample, daemon=True)
    sampler.start()
    try:
        yield lambda: peak[0]
    finally:
        done.set()
        sampler.join()


def tree_memory_mib() -> float:
    root = psutil.Process()
    total = 0
    for process in (root, *root.children(recursive=True)):
        try:
            total += process.memory_full_info().pss
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue  # it ended between the listing and the reading
    return total / MIB


if __name__ == "__main__":
    main()
