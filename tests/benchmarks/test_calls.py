"""The calls of a step are counted for the part that makes them."""

from __future__ import annotations

from pathlib import Path

import simpy

from benchmarks.calls import IN_C, calls_by_part, part_of, profiled
from benchmarks.compare import WORKLOADS
from rebalance_sim.protocol.clients.common import group_member
from rebalance_sim.sim import world


def test_a_file_belongs_to_its_folder_of_the_house_or_to_its_library() -> None:
    assert part_of(group_member.__file__) == "protocol/clients"
    assert part_of(world.__file__) == "sim"
    assert part_of(simpy.__file__) == "simpy"
    assert part_of(__import__("heapq").__file__) == part_of("<frozen abc>") == "Python"


def test_calls_of_a_run_are_the_same_each_time_and_none_is_lost() -> None:
    paths = [WORKLOADS / "faulty-4.toml"]
    profiled(
        paths
    )  # The first run of a process imports, and fills caches such as those of classes.
    counts = []
    for _ in range(2):
        steps, stats = profiled(paths)
        called = list(calls_by_part(stats))
        stopped = len(paths)  # no one but the profiler's user calls what ends it
        total = stats.total_calls - stopped  # type: ignore[attr-defined]
        assert sum(one.calls for one in called) == total
        counts.append((steps, sorted(one[:3] for one in called if one.part != "Python")))
    assert counts[0] == counts[1]
    functions = {Path(one[1][0]).name for one in counts[0][1] if one[1][0] != IN_C}
    assert {"checker.py", "group_member.py", "world.py"} <= functions
