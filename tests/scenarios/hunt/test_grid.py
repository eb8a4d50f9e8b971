"""The whole grid of pairs, and what of it is still unvisited."""

from __future__ import annotations

from docs.pair_grid import (
    OF_GROUPS,
    OF_MEMBERS,
    fault_grid,
    request_grid,
    setting_grid,
)
from rebalance_sim.scenarios.hunt.pairs import OPERATIONS
from rebalance_sim.sim.faults.fault import Fault

HEARTBEAT = "pair.request.ConsumerGroupHeartbeat.consumer Stable."


def test_a_pair_that_was_visited_is_no_longer_missing() -> None:
    grid = request_grid({f"{HEARTBEAT}STABLE": 7, "client.STABLE.Tick": 99})
    assert grid.visited == 1
    assert grid.counts["ConsumerGroupHeartbeat", "consumer Stable.STABLE"] == 7
    missing = grid.missing("ConsumerGroupHeartbeat")
    assert "consumer Stable.STABLE" not in missing
    assert "consumer Stable.unknown" in missing
    assert grid.rows == (*OF_MEMBERS, *OF_GROUPS)


def test_what_rules_exclude_is_no_pair() -> None:
    grid = request_grid({})
    assert "consumer Empty.STABLE" not in grid.columns
    assert ("Heartbeat", "consumer Stable.UNREVOKED_PARTITIONS") not in grid.counts
    assert ("ListGroups", "consumer Stable.STABLE") not in grid.counts


def test_what_was_seen_has_a_place_whatever_rules_say() -> None:
    grid = request_grid({f"{HEARTBEAT}UNREVOKED_PARTITIONS": 1, "pair.request.New.none.-": 2})
    assert grid.counts["ConsumerGroupHeartbeat", "consumer Stable.UNREVOKED_PARTITIONS"] == 1
    assert grid.rows[-1] == "New"


def test_every_kind_of_fault_meets_every_operation() -> None:
    grid = fault_grid({"pair.fault.client_crash.offset fetch": 3})
    assert grid.rows == tuple(Fault.kinds())
    assert grid.columns == OPERATIONS
    assert grid.visited == 1
    assert len(grid.missing("client_crash")) == len(OPERATIONS) - 1


def test_a_setting_is_told_from_the_event_under_it() -> None:
    grid = setting_grid(
        {
            "pair.setting.world.clients.rack.error.STALE_MEMBER_EPOCH": 4,
            "pair.setting.world.network.latency.max_ms.rebalance.consumer.member_joined": 5,
        }
    )
    assert grid.rows == ("world.clients.rack", "world.network.latency.max_ms")
    assert grid.columns == ("error.STALE_MEMBER_EPOCH", "rebalance.consumer.member_joined")
    assert grid.counts["world.clients.rack", "error.STALE_MEMBER_EPOCH"] == 4
    assert grid.missing("world.clients.rack") == ["rebalance.consumer.member_joined"]
