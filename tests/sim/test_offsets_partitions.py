"""Several partitions of ``__consumer_offsets``: each has its own leader, epoch and load."""

from __future__ import annotations

import pytest
from worlds import Watched, client, spec

from rebalance_sim.protocol.hosting.offsets_topic import partition_for
from rebalance_sim.sim.faults.brokers import BrokerBounce, BrokerCrash
from rebalance_sim.sim.faults.coordinators import CoordinatorMove, ZombieLeader
from rebalance_sim.sim.spec import BrokerSpec, DelaySpec


def brokers(offsets_partition_count: int) -> BrokerSpec:
    return BrokerSpec(
        replication=DelaySpec(min_ms=2),
        load=DelaySpec(min_ms=20),
        metadata=DelaySpec(min_ms=5),
        offsets_partition_count=offsets_partition_count,
    )


def test_leaders_are_spread_and_a_client_finds_the_one_of_its_group() -> None:
    watched = Watched(spec(client("a"), brokers=brokers(4)))
    watched.advance_to(10_000)
    partition = partition_for("group", 4)
    assert partition == 3
    leaders = [registration.leader_id for registration in watched.world.controller.partitions]
    assert leaders == [0, 1, 2, 0]
    assert watched.world.clients()["a"].member.coordinator_id == 0
    shard = watched.world.acting_shard()
    assert shard is watched.world.brokers[0].replicas[3].shard
    assert watched.world.brokers[0].replicas[0].log.end_offset == 0


@pytest.mark.parametrize(
    "fault",
    [
        CoordinatorMove(at_ms=30_000),
        BrokerCrash(at_ms=30_000, duration_ms=20_000),
        BrokerBounce(at_ms=30_000, down_ms=2_000),
        ZombieLeader(at_ms=30_000, duration_ms=20_000),
    ],
)
def test_a_fault_without_a_broker_hits_the_leader_of_the_partition_of_the_group(
    fault: object,
) -> None:
    watched = Watched(spec(client("a"), client("b"), brokers=brokers(4), faults=(fault,)))  # type: ignore[arg-type]
    watched.advance_to(29_999)
    assert watched.world.acting_shard().node_id == 0
    watched.advance_to(45_000)
    assert watched.world.acting_shard().node_id != 0
    watched.run()
    assert watched.fetchable("a") | watched.fetchable("b") == set(range(6))
