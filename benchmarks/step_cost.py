"""What a step of the simulator costs, as a multiple of a bare SimPy event in the same run.

Run: ``python benchmarks/step_cost.py``.

A bare event is one ``yield env.timeout(...)`` of a SimPy process, among as many processes as the
group has members. Steps are those of a group at rest, after everybody has joined: with every
invariant checked after each step, and without. "heartbeats" is a group that only heartbeats;
"commits" also commits the offsets of all its partitions every five seconds. Times are processor
times, the best of several rounds that take turns, so that a busy machine disturbs all columns
alike. Ratios compare between machines; microseconds do not.

The target: one step of a group that heartbeats, with all invariants, costs at most 15 bare events,
and its ratio with 1,000 members is at most 1.2 times that with 10. A commit is one step that writes
a record for each of six partitions.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Generator
from functools import partial
from time import process_time

import simpy

from rebalance_sim.invariants.engine.checker import Checker
from rebalance_sim.sim.spec import ClientSpec, TopicSpec, WorldSpec
from rebalance_sim.sim.world import World

WARM_UP_MS = 60_000
BARE_EVENTS = 100_000
PARTITIONS_PER_MEMBER = 6
HEARTBEAT_INTERVAL_MS = 5_000
ROUNDS = 5


def bare_event_us(member_count: int) -> float:
    """One event of SimPy, with as many processes as there are members."""
    environment = simpy.Environment()

    def process() -> Generator[simpy.Event, None, None]:
        while True:
            yield environment.timeout(HEARTBEAT_INTERVAL_MS)

    for _ in range(member_count):
        environment.process(process())
    until_ms = BARE_EVENTS // member_count * HEARTBEAT_INTERVAL_MS
    start = process_time()
    environment.run(until=until_ms)
    return (process_time() - start) / BARE_EVENTS * 1e6


def settled_world(member_count: int, *, commits: bool, checked: bool) -> World:
    """A group at rest. Members join over ten seconds; the world has a long time to continue."""
    spec = WorldSpec(
        seed=1,
        topics=(
            TopicSpec(
                name="orders",
                partition_count=member_count * PARTITIONS_PER_MEMBER,
                records_per_second=10,
            ),
        ),
        clients=tuple(
            ClientSpec(
                name=f"client-{number:04}",
                topics=("orders",),
                start_ms=number * 10_000 // member_count,
                enable_auto_commit=commits,
            )
            for number in range(member_count)
        ),
        duration_ms=1_000_000_000,
        quiet_period_ms=0,
    )
    world = World(spec, make_checker=Checker if checked else None)
    world.advance_to(WARM_UP_MS)
    if not world.is_stable():
        raise RuntimeError(f"{member_count} members are not at rest after {WARM_UP_MS} ms")
    return world


def step_us(world: World, span_ms: int) -> float:
    """Let the world continue for a while; the time of one step."""
    steps = world.steps.count
    start = process_time()
    world.advance_to(world.now_ms + span_ms)
    return (process_time() - start) / (world.steps.count - steps) * 1e6


def main() -> None:
    """Print one row for each kind of load and size."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--members", type=int, nargs="*", default=[10, 1_000])
    arguments = parser.parse_args()
    print(f"{'load':<12}{'members':>8}{'checked':>9}{'us/step':>9}{'us/event':>10}{'ratio':>7}")
    for commits in (False, True):
        for checked in (False, True):
            ratios = []
            for member_count in arguments.members:
                world = settled_world(member_count, commits=commits, checked=checked)
                # About as many steps in each round, whatever the size of the group.
                span_ms = max(HEARTBEAT_INTERVAL_MS, 5_000_000 // member_count)
                bare, step = best_of(
                    partial(bare_event_us, member_count),
                    partial(step_us, world, span_ms),
                )
                ratios.append(step / bare)
                row = f"{'commits' if commits else 'heartbeats':<12}{member_count:>8}"
                row += (
                    f"{'yes' if checked else 'no':>9}{step:>9.1f}{bare:>10.2f}{step / bare:>7.1f}"
                )
                print(row, flush=True)
            if len(ratios) > 1:
                print(f"{'':<12}ratio of largest to smallest group: {ratios[-1] / ratios[0]:.2f}")


def best_of(*measures: Callable[[], float]) -> list[float]:
    """The least of each measure, over rounds that take turns."""
    rounds = [[measure() for measure in measures] for _ in range(ROUNDS)]
    return [min(column) for column in zip(*rounds, strict=True)]


if __name__ == "__main__":
    main()
