"""What a sweep costs on this machine: seeds per second, overhead over a bare loop, memory.

    python benchmarks/sweep.py --profile faulty --seeds 0:400
    python benchmarks/sweep.py --profile faulty --seeds 0:20000 --share --backends spark

The bare loop runs the same seeds one after the other in this process, with no child, no file and no
Spark; divided by the cores it is the ideal that a backend is measured against. Backends take turns,
``--rounds`` times, so that a disturbance hits all of them; medians are printed. ``overhead`` is the
ratio to the ideal from the moment the first batch can run, ``with start-up`` that of everything.
With ``--share`` there is no loop: runs tell their processor time, whose sum divided by the cores
is the ideal. The share that a sweep reaches of it is given up to the last batch, with check and
report, and with start-up.
Memory is the highest sum over this process and all its descendants; pages that several share are
divided among them. Sampling it takes a tenth of a core, so the share is measured without.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import psutil
from cpu_runner import METRIC

from rebalance_sim.scenarios.variant import Variant
from rebalance_sim.spark import (
    BACKENDS,
    DEFAULT_RUNNER,
    Progress,
    SeedRange,
    SweepOptions,
    sweep,
)
from rebalance_sim.spark.runner import run_seed

SAMPLE_S = 0.2
MIB = 1 << 20


class Round(NamedTuple):
    """One sweep: all of it, the part after start-up, that up to the last batch, the highest memory,
    and the processor time of the runs, if they tell it."""

    total_s: float
    running_s: float
    batches_s: float
    peak_mib: float
    cpu_s: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--profile", default="faulty")
    parser.add_argument("--seeds", default="0:400", type=SeedRange.parse)
    parser.add_argument("--rounds", default=3, type=int)
    parser.add_argument("--backends", default=list(BACKENDS), nargs="+", choices=BACKENDS)
    parser.add_argument("--share", action="store_true")
    options = parser.parse_args()
    if options.share:
        print_shares(options)
        return
    cores = len(os.sched_getaffinity(0))
    loops: list[float] = []
    rounds: dict[str, list[Round]] = {backend: [] for backend in options.backends}
    for _ in range(options.rounds):
        loops.append(time_bare_loop(options.profile, options.seeds))
        for backend in options.backends:
            rounds[backend].append(time_sweep(options.profile, options.seeds, backend))
    loop_s = statistics.median(loops)
    count = len(options.seeds)
    print(f"{count} seeds of {options.profile}, {cores} cores, median of {options.rounds} rounds")
    print(f"bare loop   {loop_s:8.2f} s  {1000 * loop_s / count:8.2f} ms a seed, one core")
    for backend, measured in rounds.items():
        total_s, running_s, _, peak_mib, _ = (
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


def print_shares(options: argparse.Namespace) -> None:
    cores, count = len(os.sched_getaffinity(0)), len(options.seeds)
    print(f"{count} seeds of {options.profile}, {cores} cores")
    for _ in range(options.rounds):
        for backend in options.backends:
            one = time_sweep(
                options.profile,
                options.seeds,
                backend,
                runner="cpu_runner:run_seed",
                samples_memory=False,
            )
            ideal_s = one.cpu_s / cores
            print(
                f"{backend:<6} ideal {ideal_s:8.2f} s  share of it: batches "
                f"{ideal_s / one.batches_s:.3f}  with report {ideal_s / one.running_s:.3f}  "
                f"with start-up {ideal_s / one.total_s:.3f}",
                flush=True,
            )


def time_sweep(
    profile: str,
    seeds: SeedRange,
    backend: str,
    *,
    runner: str = DEFAULT_RUNNER,
    samples_memory: bool = True,
) -> Round:
    started_s = perf_counter()
    ready_s, done_s = [], []

    def on_progress(progress: Progress) -> None:
        if progress.note:  # the last note comes when the backend is ready
            ready_s.append(perf_counter())
        if progress.batches_done == progress.batches_planned:
            done_s.append(perf_counter())

    # The measurement must not take a share of the core itself.
    watched = peak_memory() if samples_memory else nullcontext(lambda: math.nan)
    with tempfile.TemporaryDirectory() as folder, watched as peak_mib:
        summary = sweep(
            profile=profile,
            seeds=seeds,
            out=Path(folder) / "out",
            # The bare loop keeps no series either.
            options=SweepOptions(backend=backend, metrics_seeds=0, runner=runner),
            on_progress=on_progress,
        )
        ended_s = perf_counter()
    cpu_ms = sum(one.mean * one.runs for one in summary.metrics if one.name == METRIC)
    return Round(
        total_s=ended_s - started_s,
        running_s=ended_s - ready_s[-1],
        batches_s=done_s[0] - ready_s[-1],
        peak_mib=peak_mib(),
        cpu_s=cpu_ms / 1000,
    )


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
