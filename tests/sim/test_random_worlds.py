"""Whatever happens to a world without defects: no property is violated, and it comes to rest."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from random_worlds import (
    random_batches_spec,
    random_groups_spec,
    random_migrations_spec,
    random_spec,
)
from worlds import Watched

from rebalance_sim.sim.spec import WorldSpec
from rebalance_sim.sim.world import World


@pytest.mark.quick_one_of(3)
@pytest.mark.parametrize("make_spec", [random_spec, random_groups_spec])
@pytest.mark.parametrize("seed", range(20))
def test_a_world_under_random_faults_satisfies_every_property(
    seed: int, make_spec: Callable[[int], WorldSpec]
) -> None:
    watched = Watched(make_spec(seed))
    watched.world.steps.stop_after(100_000, watched.world.clock.stop)
    result = watched.run()
    assert result.is_complete
    assert watched.world.is_stable()
    assert_replicas_agree(watched.world)


def assert_replicas_agree(world: World) -> None:
    """As they have to when the quiet period is over."""
    for registration in world.controller.partitions:
        logs = [broker.replicas[registration.partition].log for broker in world.brokers]
        assert registration.leader_id is not None
        leader = logs[registration.leader_id]
        assert leader.high_watermark == leader.end_offset
        for log in logs:
            assert log.epochs == leader.epochs
            # Each replica is compacted by itself; what two of them still have is the same.
            for mine, of_leader in zip(log.records, leader.records, strict=True):
                assert mine is None or of_leader is None or mine == of_leader


@pytest.mark.quick_one_of(5)
@pytest.mark.parametrize("make_spec", [random_batches_spec, random_migrations_spec])
@pytest.mark.parametrize("seed", range(20))
def test_batches_under_random_faults_break_nothing_that_is_not_known(
    seed: int, make_spec: Callable[[int], WorldSpec]
) -> None:
    watched = Watched(make_spec(seed))
    watched.world.steps.stop_after(100_000, watched.world.clock.stop)
    result = watched.world.run()
    watched.assert_sound()
    assert result.is_complete
    now_ms = watched.world.now_ms
    late = [stuck for c in watched.checkers.values() for stuck in c.liveness.verdict(now_ms)]
    assert [str(stuck) for stuck in late if not stuck.suspects] == []
    suspects = {issue for stuck in late for issue in stuck.suspects}
    assert not suspects or watched.without(*suspects).late() == {}
