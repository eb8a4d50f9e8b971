"""Whatever happens to a world without defects: no promise breaks, and it comes to rest."""

from __future__ import annotations

import pytest
from random_worlds import random_spec
from worlds import Watched


@pytest.mark.parametrize("seed", range(40))
def test_a_world_under_random_faults_keeps_every_promise(seed: int) -> None:
    watched = Watched(random_spec(seed))
    watched.world._max_steps = 100_000
    result = watched.run()
    assert result.is_complete
    assert watched.world.is_stable()


@pytest.mark.parametrize("seed", range(40, 50))
def test_replicas_agree_when_the_calm_is_over(seed: int) -> None:
    watched = Watched(random_spec(seed))
    watched.run()
    shard = watched.world.acting_shard()
    assert shard is not None
    logs = [broker.replicas[0].log for broker in watched.world.brokers]
    leader = logs[shard.node_id]
    assert leader.high_watermark == leader.end_offset
    for log in logs:
        assert log.epochs == leader.epochs
        # Each replica is compacted by itself; what two of them still have is the same.
        for mine, of_leader in zip(log.records, leader.records, strict=True):
            assert mine is None or of_leader is None or mine == of_leader
