"""Several groups on shared brokers and topics: found, moved, loaded and judged each by itself."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from worlds import Recorder, Watched, client, spec

from rebalance_sim.invariants.step import StepKind
from rebalance_sim.protocol.hosting.offsets_topic import partition_for
from rebalance_sim.protocol.hosting.shard import ShardState
from rebalance_sim.scenarios.ownership import ownership_intervals
from rebalance_sim.scenarios.runner import run
from rebalance_sim.scenarios.scenario import Scenario
from rebalance_sim.sim.faults.brokers import BrokerCrash
from rebalance_sim.sim.faults.clients import ClientCrash
from rebalance_sim.sim.faults.coordinators import CoordinatorMove, LogCompaction, ZombieLeader
from rebalance_sim.sim.faults.settings import GroupConfigChange
from rebalance_sim.sim.faults.topics import TopicGrow
from rebalance_sim.sim.observe.routing import Router
from rebalance_sim.sim.spec import (
    BrokerSpec,
    ClientSpec,
    DelaySpec,
    NetworkSpec,
    OffsetReset,
    TopicSpec,
    WorldSpec,
)
from rebalance_sim.sim.trace import FullTrace
from rebalance_sim.sim.world import World

# With four partitions: group in 3 and group-b in 0, both led by broker 0; payments in 1, led by 1.
PARTITIONS = {"group": 3, "group-b": 0, "payments": 1}
EVERYBODY = ("a", "b", "ba", "bb", "pa", "pb")


def brokers(**settings: Any) -> BrokerSpec:
    usual: dict[str, Any] = {
        "replication": DelaySpec(min_ms=2),
        "load": DelaySpec(min_ms=20),
        "metadata": DelaySpec(min_ms=5),
        "offsets_partition_count": 4,
    }
    return BrokerSpec(**{**usual, **settings})


def clients(**settings: Any) -> tuple[ClientSpec, ...]:
    """Two clients for each of three groups, all of which consume ``orders``."""
    return (
        client("a", **settings),
        client("b", **settings),
        client("ba", group_id="group-b", **settings),
        client("bb", group_id="group-b", **settings),
        client("pa", group_id="payments", **settings),
        client("pb", group_id="payments", **settings),
    )


def world_spec(**settings: Any) -> WorldSpec:
    return spec(*clients(), **{"brokers": brokers(), **settings})


def leader_of(watched: Watched, group_id: str) -> int | None:
    shard = watched.world.groups[group_id].acting_shard()
    return None if shard is None else shard.node_id


def assert_all_own_everything(watched: Watched) -> None:
    for first, second in (("a", "b"), ("ba", "bb"), ("pa", "pb")):
        mine, theirs = watched.fetchable(first), watched.fetchable(second)
        assert mine | theirs == set(range(6))
        assert not mine & theirs


def test_groups_live_in_the_partitions_that_these_stories_rely_on() -> None:
    assert {group_id: partition_for(group_id, 4) for group_id in PARTITIONS} == PARTITIONS


@pytest.mark.parametrize("count", [1, 4])
def test_every_group_consumes_the_whole_topic(count: int) -> None:
    watched = Watched(world_spec(brokers=brokers(offsets_partition_count=count)))
    result = watched.run()
    assert_all_own_everything(watched)
    assert list(watched.checkers) == ["group", "group-b", "payments"]
    assert result.metrics["overlap_partition_ms"] == 0
    assert result.metrics["rebalances"] >= 3
    for name in ("group", "group-b", "payments"):
        assert len(watched.group(name).members) == 2


def test_a_broker_that_dies_hands_each_group_to_a_successor_of_its_own() -> None:
    faults = (BrokerCrash(at_ms=30_000, duration_ms=25_000, broker=0),)
    watched = Watched(world_spec(faults=faults))
    watched.advance_to(29_999)
    assert [leader_of(watched, group_id) for group_id in PARTITIONS] == [0, 0, 1]
    epochs = {group_id: watched.group(group_id).group_epoch for group_id in PARTITIONS}
    watched.advance_to(45_000)
    assert [leader_of(watched, group_id) for group_id in PARTITIONS] == [2, 1, 1]
    loads = [
        (step["shard"], step["leader_epoch"])
        for step in watched.steps(StepKind.COORDINATOR_LOADED)
        if step["at_ms"] > 30_000
    ]
    assert sorted(loads) == [("broker-1/offsets-0", 1), ("broker-2/offsets-3", 1)]
    watched.run()
    assert_all_own_everything(watched)
    after = {group_id: watched.group(group_id).group_epoch for group_id in PARTITIONS}
    assert after == epochs


def test_a_partition_moves_away_from_a_broker_that_is_loading_another() -> None:
    faults = (
        CoordinatorMove(at_ms=30_000, offsets_partition=1, to_broker=0),
        CoordinatorMove(at_ms=31_000, offsets_partition=3, to_broker=1),
    )
    watched = Watched(world_spec(brokers=brokers(load=DelaySpec(min_ms=4_000)), faults=faults))
    watched.advance_to(32_000)
    zero, one, two = watched.world.brokers
    assert zero.replicas[1].shard.state is ShardState.LOADING
    assert one.replicas[3].shard.state is ShardState.LOADING
    assert zero.replicas[3].shard.state is ShardState.CLOSED
    assert zero.replicas[0].shard.state is ShardState.ACTIVE
    assert [replica.leader_epoch for replica in two.replicas] == [0, 1, 0, 1]
    watched.advance_to(36_000)
    assert [leader_of(watched, group_id) for group_id in PARTITIONS] == [1, 0, 0]
    watched.run()
    assert_all_own_everything(watched)


def test_a_zombie_of_two_partitions_leaves_the_third_alone() -> None:
    faults = (
        ZombieLeader(at_ms=30_000, duration_ms=20_000, offsets_partition=0),
        TopicGrow(at_ms=35_000, topic="orders", partition_count=9),
    )
    watched = Watched(world_spec(faults=faults))
    watched.advance_to(48_000)
    zombie = watched.world.brokers[0]
    assert [replica.shard.is_active for replica in zombie.replicas] == [True, False, False, True]
    assert [leader_of(watched, group_id) for group_id in PARTITIONS] == [2, 1, 1]
    epochs = [partition.leader_epoch for partition in watched.world.controller.partitions]
    assert epochs == [1, 0, 0, 1]
    watched.run()
    assert not any(replica.shard.is_active for replica in zombie.replicas)
    assert watched.fetchable("pa") | watched.fetchable("pb") == set(range(9))


def test_a_broker_that_leads_another_partition_says_that_it_is_not_the_coordinator() -> None:
    faults = (CoordinatorMove(at_ms=30_000, offsets_partition=3, to_broker=1),)
    watched = Watched(world_spec(faults=faults))
    watched.advance_to(45_000)
    late = [s for s in watched.steps(StepKind.RESPONSE_RELEASED) if s["at_ms"] > 30_100]
    of_group = [s for s in late if s["shard"] == "broker-0/offsets-3"]
    assert {s["response"]["error_code"] for s in of_group} == {"NOT_COORDINATOR"}
    assert {s["request"]["group_id"] for s in of_group} == {"group"}
    of_other = [s for s in late if s["shard"] == "broker-0/offsets-0"]
    assert {s["response"]["error_code"] for s in of_other} == {"NONE"}
    assert {s["request"]["group_id"] for s in of_other} == {"group-b"}
    watched.run()
    assert_all_own_everything(watched)


def test_one_partition_is_compacted_while_another_loads() -> None:
    faults = (
        ClientCrash(at_ms=20_000, client="a", down_ms=1_000),
        ClientCrash(at_ms=20_000, client="pa", down_ms=1_000),
        CoordinatorMove(at_ms=70_000, offsets_partition=1, to_broker=2),
        LogCompaction(at_ms=72_000, offsets_partition=3, drops_tombstones=True),
    )
    settings = {"duration_ms": 80_000, "faults": faults}
    watched = Watched(world_spec(brokers=brokers(load=DelaySpec(min_ms=4_000)), **settings))
    watched.advance_to(73_000)
    for broker in watched.world.brokers:
        assert None in broker.replicas[3].log.records
        assert None not in broker.replicas[1].log.records
    assert watched.world.brokers[2].replicas[1].shard.state is ShardState.LOADING
    watched.run()
    assert_all_own_everything(watched)


# --- no one is disturbed --------------------------------------------------------------------------


def of_group(lines: Iterable[str], group_id: str) -> list[dict[str, Any]]:
    """The steps of a group's clients and of its partition, without their places among others."""
    names = tuple(s.name for s in clients() if (s.group_id or "group") == group_id)
    suffix = f"/offsets-{PARTITIONS[group_id]}"
    steps = (json.loads(line) for line in lines)
    found = [s for s in steps if s.get("client") in names or s.get("shard", "").endswith(suffix)]
    return [{key: value for key, value in s.items() if key != "step"} for s in found]


@pytest.mark.parametrize("seed", range(5))
def test_a_group_does_the_same_whether_others_are_there_or_not(seed: int) -> None:
    """Nothing is shared but brokers and topics, and every draw has a stream of its own."""
    with_others = world_spec(
        seed=seed,
        network=NetworkSpec(latency=DelaySpec(min_ms=1, max_ms=40, tail_ms=10)),
        brokers=BrokerSpec(offsets_partition_count=4),
        faults=(
            TopicGrow(at_ms=20_000, topic="orders", partition_count=9),
            ClientCrash(at_ms=30_000, client="pa", down_ms=5_000),
        ),
    )
    kept = tuple(s for s in with_others.clients if s.group_id == "payments")
    assert len(kept) == 2
    runs = []
    for world in (with_others, replace(with_others, clients=kept)):
        trace = FullTrace()
        World(world, trace=trace).run()
        runs.append(of_group(trace.lines, "payments"))
    assert len(runs[0]) > 100
    assert runs[0] == runs[1]


def test_settings_of_one_group_leave_the_others_alone() -> None:
    faults = (
        GroupConfigChange(at_ms=30_000, group="payments", consumer_heartbeat_interval_ms=9_000),
    )
    watched = Watched(world_spec(faults=faults))
    watched.run()
    sent: dict[str, list[int]] = {"a": [], "ba": [], "pa": []}
    for step in watched.steps(StepKind.CLIENT_EVENT):
        kinds = [effect["type"] for effect in step.get("effects", ())]
        if step["client"] in sent and "SendHeartbeat" in kinds and step["at_ms"] > 60_000:
            sent[step["client"]].append(step["at_ms"])
    pauses = {name: {b - a for a, b in pairwise(times)} for name, times in sent.items()}
    assert min(pauses["pa"]) >= 9_000
    assert max(*pauses["a"], *pauses["ba"]) < 6_000


def test_a_step_is_shown_to_no_group_that_it_does_not_concern() -> None:
    seen: dict[str, set[str]] = {}

    class Notes:
        def __init__(self, group_id: str) -> None:
            self.mine = seen[group_id] = set()

        def after_step(self, step: Any) -> None:
            if step.client is not None:
                self.mine.add(step.client.name)
            elif step.request is not None:
                self.mine.add(f"{step.request.group_id} at {step.shard.name}")
            else:
                self.mine.add(f"{step.kind.value} {step.shard.name}")

        def at_end(self) -> None:
            pass

    faults = (CoordinatorMove(at_ms=30_000, offsets_partition=1),)
    World(world_spec(faults=faults), make_checker=lambda view: Notes(view.group_id)).run()  # type: ignore[arg-type]
    assert {name for name in EVERYBODY if name in seen["payments"]} == {"pa", "pb"}
    assert not any("offsets-3" in note or "offsets-0" in note for note in seen["payments"])
    assert "log.committed broker-1/offsets-1" in seen["payments"]
    assert "coordinator.loaded broker-2/offsets-1" in seen["payments"]
    assert not any("offsets-1" in note for note in seen["group"])


def test_every_kind_of_step_has_a_route() -> None:
    world = World(world_spec(), make_checker=lambda view: Recorder())
    router = world.steps.checker
    assert isinstance(router, Router)
    assert set(router.routes) == set(StepKind)


def test_groups_in_one_partition_are_shown_only_the_commits_that_concern_them() -> None:
    commits: dict[str, int] = {}

    class Counter:
        def __init__(self, group_id: str) -> None:
            self.group_id = group_id
            commits[group_id] = 0

        def after_step(self, step: Any) -> None:
            if step.kind is StepKind.LOG_COMMITTED:
                commits[self.group_id] += 1

        def at_end(self) -> None:
            pass

    busy = [replace(c, enable_auto_commit=c.group_id == "payments") for c in clients()]
    world = spec(*busy, brokers=brokers(offsets_partition_count=1))
    World(world, make_checker=lambda view: Counter(view.group_id)).run()  # type: ignore[arg-type]
    assert commits["payments"] > 3 * commits["group"] > 0


# --- what is measured and drawn -------------------------------------------------------------------


@pytest.mark.parametrize("has_data_plane", [False, True])
def test_each_group_has_every_record_once(has_data_plane: bool) -> None:
    def metrics(*of: ClientSpec) -> dict[str, float]:
        topics = (TopicSpec(name="orders", partition_count=6, records_per_second=10),)
        world = spec(*of, topics=topics, brokers=brokers(), data_plane=has_data_plane)
        return dict(World(world).run().metrics)

    everybody = clients(enable_auto_commit=True, auto_offset_reset=OffsetReset.EARLIEST)
    one, three = metrics(*everybody[:2]), metrics(*everybody)
    assert one["records_delivered"] > 6 * 10 * 100
    assert three["records_delivered"] == pytest.approx(3 * one["records_delivered"], rel=0.01)
    for name in ("records_redelivered", "records_skipped", "overlap_partition_ms"):
        assert three[name] == 0
    if has_data_plane:
        assert three["records_processed"] == pytest.approx(3 * one["records_processed"], rel=0.01)
        assert three["records_reprocessed"] == 0


def test_the_owners_of_one_group_are_read_off_a_trace_of_several() -> None:
    trace = FullTrace()
    World(world_spec(), trace=trace).run()
    for group_id, names in (("group", {"a", "b"}), ("payments", {"pa", "pb"})):
        rows = ownership_intervals(trace.batches, group_id=group_id, until_ms=180_000)
        assert {row.member_id.split("-")[1] for row in rows} == names
        at_end = [row for row in rows if row.to_ms == 180_000]
        assert sorted(row.partition.partition for row in at_end) == list(range(6))


# --- verdicts -------------------------------------------------------------------------------------


def with_a_move(defects: tuple[str, ...]) -> Scenario:
    """Broker 0 loses the partition of group-b, and continues leading that of group."""
    world = spec(
        *clients(max_poll_interval_ms=10_000),
        brokers=brokers(),
        faults=(CoordinatorMove(at_ms=30_000, offsets_partition=0, to_broker=2),),
        defects=defects,
        duration_ms=100_000,
        quiet_period_ms=200_000,
    )
    return Scenario(name="a zombie for one, rightful for another", world=world)


def test_a_violated_property_names_its_group_and_the_other_groups_keep_theirs() -> None:
    result = run(with_a_move(defects=("KAFKA-19274",)))
    assert result.outcome in ("violation", "stuck")
    assert {row.group_id for row in result.violations} == {"group-b"}
    assert " of group group-b " in result.reason


def test_without_the_defect_every_group_is_sound_and_judged() -> None:
    result = run(with_a_move(defects=()))
    assert (result.outcome, result.violations) == ("ok", ())
    assert result.coverage["liveness.judged"] == 1
