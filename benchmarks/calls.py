"""What the calls of a step are made for: counts a step, by the package that makes them.

    python benchmarks/calls.py                       ten fixed workloads of `faulty`
    python benchmarks/calls.py whole --functions 40  of `whole`, with what is called most

A call is a function or method of Python or C that is called, as the interpreter's own profiler
counts them; counts are the same on every machine. Of a function that is written in C, it is the
caller who makes the call. Forming the world and judging the run are included; a step of a short run
bears more of them. ``time`` is the share of a run's processor time under that profiler, which makes
small functions look dearer than they are.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import rebalance_sim
from rebalance_sim.scenarios.counterfactual import Prove
from rebalance_sim.scenarios.runner import run
from rebalance_sim.scenarios.scenario import load_scenario

WORKLOADS = Path(__file__).with_name("workloads")
IN_C = "~"
PACKAGE = Path(rebalance_sim.__file__).resolve().parent

Function = tuple[str, int, str]
"""File, line and name, as the profiler has them."""


class Called(NamedTuple):
    """Calls of one function by one part."""

    part: str
    function: Function
    calls: int
    own_s: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("profile", nargs="?", default="faulty")
    parser.add_argument("--functions", default=20, type=int, help="so many of those called most")
    options = parser.parse_args()
    paths = sorted(WORKLOADS.glob(f"{options.profile}-*.toml"))
    if not paths:
        names = sorted({path.stem.rpartition("-")[0] for path in WORKLOADS.glob("*.toml")})
        parser.error(f"no workload of {options.profile!r}: take one of {', '.join(names)}")
    steps, stats = profiled(paths)
    called = list(calls_by_part(stats))
    print(f"{len(paths)} workloads of {options.profile}, {steps:,} steps")
    print_parts(called, steps)
    print()
    print_functions(called, steps, options.functions)


def profiled(paths: list[Path]) -> tuple[int, pstats.Stats]:
    """Steps of these scenarios, and what the profiler saw of them."""
    scenarios = [load_scenario(path) for path in paths]
    run(scenarios[0], prove=Prove.NONE)  # what is loaded on first use is no part of a step
    profile = cProfile.Profile()
    steps = 0
    for scenario in scenarios:
        profile.enable()
        result = run(scenario, prove=Prove.NONE)
        profile.disable()
        steps += result.steps
    return steps, pstats.Stats(profile)


def calls_by_part(stats: pstats.Stats) -> Iterator[Called]:
    seen: dict[Function, tuple[int, int, float, float, dict[Function, tuple[int, ...]]]]
    seen = stats.stats  # type: ignore[attr-defined]
    for function, (_, calls, own_s, _, callers) in seen.items():
        if function[0] != IN_C:
            yield Called(part_of(function[0]), function, calls, own_s)
            continue
        for caller, (_, of_caller, of_caller_s, _) in callers.items():
            yield Called(part_of(caller[0]), function, of_caller, of_caller_s)


def part_of(file: str) -> str:
    """The folder of this project, the library, or `Python` for what is the interpreter's own."""
    if file.startswith("<frozen "):
        return "Python"
    path = Path(file).resolve()
    if "site-packages" in path.parts:
        return path.parts[path.parts.index("site-packages") + 1]
    for root in (PACKAGE, PACKAGE.parent):
        if path.is_relative_to(root):
            inside = path.relative_to(root).parts
            return "/".join(inside[:2]) if len(inside) > 2 else inside[0]
    return "Python"


def print_parts(called: list[Called], steps: int) -> None:
    python, in_c, own_s = Counter[str](), Counter[str](), defaultdict[str, float](float)
    for one in called:
        (in_c if one.function[0] == IN_C else python)[one.part] += one.calls
        own_s[one.part] += one.own_s
    total_s = sum(own_s.values())
    parts = sorted(own_s, key=lambda part: -(python[part] + in_c[part]))
    print(f"{'calls a step':<28}{'Python':>9}{'C':>9}{'all':>9}{'time':>7}")
    for part in parts:
        calls = python[part] + in_c[part]
        if calls >= steps / 20:
            print(
                f"{part:<28}{python[part] / steps:>9.1f}{in_c[part] / steps:>9.1f}"
                f"{calls / steps:>9.1f}{own_s[part] / total_s:>7.0%}"
            )
    print(
        f"{'all':<28}{python.total() / steps:>9.1f}{in_c.total() / steps:>9.1f}"
        f"{(python.total() + in_c.total()) / steps:>9.1f}"
    )


def print_functions(called: list[Called], steps: int, count: int) -> None:
    of_function: dict[tuple[str, str], int] = defaultdict(int)
    for one in called:
        file, line, name = one.function
        where = name if file == IN_C else f"{Path(file).name}:{line} {name}"
        of_function[one.part, where] += one.calls
    most = sorted(of_function.items(), key=lambda item: (-item[1], item[0]))[:count]
    for (part, where), calls in most:
        print(f"{calls / steps:>8.2f}  {part:<24}{where}")


if __name__ == "__main__":
    main()
