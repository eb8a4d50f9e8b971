"""What a large group costs: time, and memory as simulated time passes.

    python benchmarks/large_group.py
    python benchmarks/large_group.py --members 10_000 --partitions 10_000 --minutes 2 --gap-ms 0

The group forms, heartbeats and commits; every member is restarted in turn from minute two on,
``--gap-ms`` after one another (0: none is); the last two minutes are quiet. All invariants are
checked after each step, and the run has to end well. A row for each tenth: simulated seconds, steps
so far, processor seconds so far and for each step of this tenth, and the highest memory so far.
``--leap``: the run of a sweep instead, which leaps over rest, in one row.
"""

from __future__ import annotations

import argparse
import resource
from time import process_time

from rebalance_sim.invariants.engine.checker import Checker
from rebalance_sim.invariants.step import WorldView
from rebalance_sim.protocol.runtime.coordinator_config import CoordinatorConfig
from rebalance_sim.scenarios.result import PASSING
from rebalance_sim.scenarios.runner import rare_collections, run
from rebalance_sim.scenarios.scenario import Scenario
from rebalance_sim.sim.faults.deployments import ClientBounce
from rebalance_sim.sim.faults.fault import Fault
from rebalance_sim.sim.spec import ClientSpec, TopicSpec, WorldSpec
from rebalance_sim.sim.world import World

QUIET_MS = 120_000
RESTARTS_FROM_MS = 120_000
DOWN_MS = 500
TENTHS = 10
MAX_STEPS = 100_000_000


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--members", type=int, default=2_000)
    parser.add_argument("--partitions", type=int, default=20_000)
    parser.add_argument("--minutes", type=int, default=60)
    parser.add_argument("--gap-ms", type=int, default=1_000)
    parser.add_argument("--leap", action="store_true")
    options = parser.parse_args()
    if options.leap:
        _leap(_spec(options))
        return
    with rare_collections():
        _measure(_spec(options))


def _leap(spec: WorldSpec) -> None:
    result = run(Scenario(name="large group", world=spec, max_steps=MAX_STEPS), leaps=True)
    if result.outcome not in PASSING:
        raise SystemExit(f"{result.outcome}: {result.reason}")
    print(
        f"{result.simulated_ms // 1000:,} s simulated, {result.leapt_ms // 1000:,} of them leapt; "
        f"{result.steps:,} steps, {process_time():,.0f} cpu s, {_peak_mib():,.0f} MiB"
    )


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _measure(spec: WorldSpec) -> None:
    found: list[Checker] = []

    def make_checker(view: WorldView) -> Checker:
        found.append(Checker(view))
        return found[-1]

    world = World(spec, make_checker=make_checker)
    print("simulated s        steps  cpu s  us a step  MiB")
    steps, spent_s = 0, 0.0
    for tenth in range(1, TENTHS + 1):
        if not world.advance_to(world.end_ms * tenth // TENTHS):
            raise SystemExit("the world stopped before its end")
        now_s = process_time()
        step_us = 1e6 * (now_s - spent_s) / max(1, world.steps.count - steps)
        steps, spent_s = world.steps.count, now_s
        print(
            f"{world.clock.now_ms // 1000:11,} {steps:12,} {spent_s:6,.0f} {step_us:10,.1f} "
            f"{_peak_mib():4,.0f}",
            flush=True,
        )
    (checker,) = found
    wrong = [str(one) for one in checker.violations]
    if wrong or not world.is_stable():
        raise SystemExit(f"not at rest: {wrong[:3]}")


def _spec(options: argparse.Namespace) -> WorldSpec:
    duration_ms = options.minutes * 60_000 - QUIET_MS
    faults: tuple[Fault, ...] = ()
    if options.gap_ms:
        restarts = ClientBounce(
            at_ms=RESTARTS_FROM_MS, down_ms=DOWN_MS, gap_ms=max(0, options.gap_ms - DOWN_MS)
        )
        faults = (restarts,)
    return WorldSpec(
        seed=1,
        topics=(TopicSpec(name="orders", partition_count=options.partitions),),
        clients=tuple(
            ClientSpec(name=f"client-{number:05}", topics=("orders",))
            for number in range(options.members)
        ),
        faults=faults,
        config=CoordinatorConfig(group_consumer_max_size=options.members),
        duration_ms=duration_ms,
        quiet_period_ms=QUIET_MS,
    )


if __name__ == "__main__":
    main()
