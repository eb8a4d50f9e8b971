"""The same specification is the same run: in another process, under another hash seed, interleaved
with other worlds; and leaving a fault out shifts no draw that it does not concern."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from random_worlds import random_spec
from worlds import client, spec

from rebalance_sim.sim.faults.clients import CallbackSlowdown, ClientCrash
from rebalance_sim.sim.faults.connections import ConnectionLoss
from rebalance_sim.sim.faults.topics import TopicGrow
from rebalance_sim.sim.spec import DelaySpec, NetworkSpec, WorldSpec
from rebalance_sim.sim.trace import FullTrace
from rebalance_sim.sim.world import World

HERE = Path(__file__).parent
SEEDS = range(6)

PROGRAM = """
from random_worlds import random_groups_spec, random_migrations_spec, random_spec
from rebalance_sim.sim.world import World
for seed in range(6):
    print(World(random_migrations_spec(seed)).run().digest)
    print(World(random_spec(seed)).run().digest)
    print(World(random_groups_spec(seed)).run().digest)
"""


def digest(world_spec: WorldSpec) -> str:
    return World(world_spec).run().digest


def test_other_processes_and_hash_seeds_give_the_same_digests() -> None:
    outputs = set()
    for hash_seed in ("0", "1", "4242"):
        environment = {
            **os.environ,
            "PYTHONHASHSEED": hash_seed,
            "PYTHONPATH": os.pathsep.join([str(HERE), str(HERE.parent.parent)]),
        }
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        outputs.add(done.stdout)
    (output,) = outputs
    assert len(set(output.split())) == 3 * len(SEEDS)


def test_worlds_in_one_process_do_not_touch_each_other() -> None:
    alone = [digest(random_spec(seed)) for seed in SEEDS]
    worlds = [World(random_spec(seed)) for seed in SEEDS]
    for at_ms in range(10_000, worlds[0].end_ms, 30_000):
        for world in reversed(worlds):
            world.advance_to(at_ms)
    assert [world.run().digest for world in worlds] == alone


def test_advancing_in_small_steps_changes_nothing() -> None:
    world_spec = random_spec(3)
    world = World(world_spec)
    for at_ms in range(0, world.end_ms, 777):
        world.advance_to(at_ms)
    assert world.run() == World(world_spec).run()


def test_another_seed_is_another_run() -> None:
    world_spec = random_spec(3)
    assert digest(world_spec) != digest(replace(world_spec, seed=99))


def test_every_field_of_a_fault_counts() -> None:
    fault = ClientCrash(at_ms=20_000, client="a", down_ms=3_000)
    base = spec(client("a"), client("b"), faults=(fault,))
    digests = {
        digest(replace(base, faults=changed))
        for changed in (
            (fault,),
            (),
            (replace(fault, at_ms=20_001),),
            (replace(fault, client="b"),),
            (replace(fault, down_ms=None),),
            (replace(fault, down_ms=3_001),),
        )
    }
    assert len(digests) == 6


def test_ties_are_broken_differently_by_different_seeds() -> None:
    base = spec(*(client(f"c{number}") for number in range(6)))
    found = [World(replace(base, seed=seed)).run() for seed in range(8)]
    assert all(result.ties > 0 for result in found)
    assert len({result.digest for result in found}) == 8


@pytest.mark.parametrize(
    "fault",
    [
        ConnectionLoss(at_ms=20_000, client="c"),
        ClientCrash(at_ms=20_000, client="c"),
        CallbackSlowdown(at_ms=1, duration_ms=50_000, client="c", callback_ms=10),
        TopicGrow(at_ms=20_000, topic="elsewhere", partition_count=2),
    ],
)
def test_leaving_a_fault_out_shifts_no_draw_of_another_client(fault: object) -> None:
    """Client ``a`` has a topic of its own, and the world ends before anybody's session does, so
    that nothing but draws could carry over to it."""
    base = spec(
        client("a", topics=("orders",)),
        client("c", topics=("elsewhere",)),
        network=NetworkSpec(latency=DelaySpec(min_ms=1, max_ms=40, tail_ms=10)),
        faults=(fault,),  # type: ignore[arg-type]
        topics=(),
        duration_ms=40_000,
        quiet_period_ms=10_000,
    )
    with_fault, without = timeline(base), timeline(replace(base, faults=()))
    assert with_fault == without


def timeline(world_spec: WorldSpec) -> list[str]:
    """Times and events of client ``a``, without what its coordinator says."""
    trace = FullTrace()
    World(world_spec, trace=trace).run()
    return [
        line.split('"member_id"')[0].split(",", 1)[1]
        for line in trace.lines
        if '"client":"a"' in line
    ]
