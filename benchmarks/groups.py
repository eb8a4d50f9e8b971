"""What a step costs in a world of many groups, as a multiple of a bare SimPy event in the same run.

Run: ``python benchmarks/groups.py``.

Each group has ten members, which share the 60 partitions of one topic with no one but each other.
Every invariant is checked after each step. "commits" commits the offsets of all partitions every
five seconds, too. All groups live in one partition of ``__consumer_offsets``, or are spread over
50 of them. What is measured, and how, is said in ``step_cost.py``.

The target: with a hundred groups a step costs at most 1.2 times what it costs in a world with one
group of as many members. (The row of 1 group has ten members only: its memory fits the caches.)
"""

from __future__ import annotations

import argparse
from functools import partial

from step_cost import (
    HEARTBEAT_INTERVAL_MS,
    PARTITIONS_PER_MEMBER,
    WARM_UP_MS,
    bare_event_us,
    best_of,
    step_us,
)

from rebalance_sim.invariants.engine.checker import Checker
from rebalance_sim.sim.spec import BrokerSpec, ClientSpec, TopicSpec, WorldSpec
from rebalance_sim.sim.world import World

MEMBERS_PER_GROUP = 10
LAYOUTS = ((1, 1), (10, 1), (100, 1), (10, 50), (100, 50))
"""Groups, and partitions of ``__consumer_offsets``."""


def settled_world(group_count: int, offsets_partition_count: int, *, commits: bool) -> World:
    """Groups at rest. Members join over ten seconds; the world has a long time to continue."""
    spec = WorldSpec(
        seed=1,
        topics=(
            TopicSpec(
                name="orders",
                partition_count=MEMBERS_PER_GROUP * PARTITIONS_PER_MEMBER,
                records_per_second=10,
            ),
        ),
        clients=tuple(
            ClientSpec(
                name=f"client-{group:03}-{number:02}",
                group_id=f"group-{group:03}",
                topics=("orders",),
                start_ms=number * 1_000 + group * 10,
                enable_auto_commit=commits,
            )
            for group in range(group_count)
            for number in range(MEMBERS_PER_GROUP)
        ),
        brokers=BrokerSpec(offsets_partition_count=offsets_partition_count),
        duration_ms=1_000_000_000,
        quiet_period_ms=0,
    )
    world = World(spec, make_checker=Checker)
    world.advance_to(WARM_UP_MS)
    if not world.is_stable():
        raise RuntimeError(f"{group_count} groups are not at rest after {WARM_UP_MS} ms")
    return world


def main() -> None:
    """Print one row for each kind of load and number of groups."""
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    ).parse_args()
    print(f"{'load':<12}{'groups':>8}{'partitions':>12}{'us/step':>9}{'us/event':>10}{'ratio':>7}")
    for commits in (False, True):
        for group_count, partition_count in LAYOUTS:
            world = settled_world(group_count, partition_count, commits=commits)
            member_count = group_count * MEMBERS_PER_GROUP
            span_ms = max(HEARTBEAT_INTERVAL_MS, 5_000_000 // member_count)
            bare, step = best_of(
                partial(bare_event_us, member_count),
                partial(step_us, world, span_ms),
            )
            load = "commits" if commits else "heartbeats"
            print(
                f"{load:<12}{group_count:>8}{partition_count:>12}{step:>9.1f}{bare:>10.2f}"
                f"{step / bare:>7.1f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
