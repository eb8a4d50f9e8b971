"""Every kind of fault takes effect, says so, ends, and is healed for the quiet period."""

from __future__ import annotations

from dataclasses import fields

import pytest
from worlds import Watched, client, spec

from rebalance_sim.invariants.step import StepKind
from rebalance_sim.protocol.clients.kinds import CLASSIC, JAVA
from rebalance_sim.sim.faults.append_failure import AppendFailure
from rebalance_sim.sim.faults.broker_bounce import BrokerBounce
from rebalance_sim.sim.faults.broker_config_change import BrokerConfigChange
from rebalance_sim.sim.faults.broker_crash import BrokerCrash
from rebalance_sim.sim.faults.broker_host_loss import BrokerHostLoss
from rebalance_sim.sim.faults.broker_isolation import BrokerIsolation
from rebalance_sim.sim.faults.broker_metadata_lag import BrokerMetadataLag
from rebalance_sim.sim.faults.broker_pause import BrokerPause
from rebalance_sim.sim.faults.callback_failure import CallbackFailure
from rebalance_sim.sim.faults.callback_slowdown import CallbackSlowdown
from rebalance_sim.sim.faults.client_bounce import ClientBounce
from rebalance_sim.sim.faults.client_close import ClientClose
from rebalance_sim.sim.faults.client_crash import ClientCrash
from rebalance_sim.sim.faults.client_partition import ClientPartition
from rebalance_sim.sim.faults.client_pause import ClientPause
from rebalance_sim.sim.faults.client_redeploy import ClientRedeploy
from rebalance_sim.sim.faults.clock_step import ClockStep
from rebalance_sim.sim.faults.connection_blackhole import ConnectionBlackhole
from rebalance_sim.sim.faults.connection_loss import ConnectionLoss
from rebalance_sim.sim.faults.controller_outage import ControllerOutage
from rebalance_sim.sim.faults.coordinator_move import CoordinatorMove
from rebalance_sim.sim.faults.coordinator_stall import CoordinatorStall
from rebalance_sim.sim.faults.crash_loop import CrashLoop
from rebalance_sim.sim.faults.fault import Fault
from rebalance_sim.sim.faults.fleet_restart import FleetRestart
from rebalance_sim.sim.faults.group_config_change import GroupConfigChange
from rebalance_sim.sim.faults.group_delete import GroupDelete
from rebalance_sim.sim.faults.log_compaction import LogCompaction
from rebalance_sim.sim.faults.log_tail_loss import LogTailLoss
from rebalance_sim.sim.faults.members_remove import MembersRemove
from rebalance_sim.sim.faults.metadata_lag import MetadataLag
from rebalance_sim.sim.faults.network_slowdown import NetworkSlowdown
from rebalance_sim.sim.faults.offsets_alter import OffsetsAlter
from rebalance_sim.sim.faults.offsets_delete import OffsetsDelete
from rebalance_sim.sim.faults.offsets_list import OffsetsList
from rebalance_sim.sim.faults.partial_partition import PartialPartition
from rebalance_sim.sim.faults.poll_stall import PollStall
from rebalance_sim.sim.faults.rebalance_enforce import RebalanceEnforce
from rebalance_sim.sim.faults.replication_slowdown import ReplicationSlowdown
from rebalance_sim.sim.faults.request_quota import RequestQuota
from rebalance_sim.sim.faults.rolling_migration import RollingMigration
from rebalance_sim.sim.faults.slow_load import SlowLoad
from rebalance_sim.sim.faults.subscription_change import SubscriptionChange
from rebalance_sim.sim.faults.surge_deploy import SurgeDeploy
from rebalance_sim.sim.faults.topic_create import TopicCreate
from rebalance_sim.sim.faults.topic_delete import TopicDelete
from rebalance_sim.sim.faults.topic_grow import TopicGrow
from rebalance_sim.sim.faults.topic_recreate import TopicRecreate
from rebalance_sim.sim.faults.unclean_election import UncleanElection
from rebalance_sim.sim.faults.zombie_leader import ZombieLeader
from rebalance_sim.sim.network.link import Moment
from rebalance_sim.sim.network.network import Direction
from rebalance_sim.sim.spec import BrokerSpec

EXAMPLES: dict[type, Fault] = {
    type(fault): fault
    for fault in (
        ConnectionLoss(at_ms=20_000, client="a", moment=Moment.NOW),
        ClientPartition(at_ms=20_000, duration_ms=7_000, client="a", direction=Direction.BOTH),
        NetworkSlowdown(at_ms=20_000, duration_ms=7_000, factor=50),
        BrokerIsolation(at_ms=20_000, duration_ms=7_000),
        ReplicationSlowdown(at_ms=20_000, duration_ms=7_000, factor=10),
        BrokerCrash(at_ms=20_000, duration_ms=7_000),
        BrokerBounce(at_ms=20_000, down_ms=1_000),
        BrokerPause(at_ms=20_000, duration_ms=7_000),
        BrokerHostLoss(at_ms=20_000, duration_ms=7_000),
        BrokerMetadataLag(at_ms=20_000, duration_ms=7_000, lag_ms=3_000),
        SlowLoad(at_ms=20_000, duration_ms=7_000, load_ms=5_000),
        ControllerOutage(at_ms=20_000, duration_ms=7_000),
        PartialPartition(at_ms=20_000, duration_ms=7_000, to_broker=1),
        CoordinatorStall(at_ms=20_000, duration_ms=7_000),
        RequestQuota(at_ms=20_000, duration_ms=7_000, throttle_ms=1_000),
        LogTailLoss(at_ms=20_000, duration_ms=7_000, lost_batches=3),
        UncleanElection(at_ms=20_000, duration_ms=7_000, lost_batches=3),
        CoordinatorMove(at_ms=20_000),
        LogCompaction(at_ms=20_000),
        AppendFailure(at_ms=20_000, duration_ms=7_000),
        ZombieLeader(at_ms=20_000, duration_ms=7_000),
        ClientCrash(at_ms=20_000, client="a", down_ms=1_000),
        ClientPause(at_ms=20_000, duration_ms=7_000, client="a"),
        PollStall(at_ms=20_000, duration_ms=7_000, client="a"),
        CallbackSlowdown(at_ms=20_000, duration_ms=7_000, client="a", callback_ms=500),
        CallbackFailure(at_ms=20_000, duration_ms=7_000, client="a"),
        ClientClose(at_ms=20_000, client="a", down_ms=1_000),
        ClientBounce(at_ms=20_000, down_ms=1_000, gap_ms=500),
        RollingMigration(at_ms=20_000, to_kind="librdkafka", down_ms=1_000, gap_ms=500),
        SubscriptionChange(at_ms=20_000, client="a", topics=("orders", "later")),
        MetadataLag(at_ms=20_000, duration_ms=7_000, client="a"),
        TopicCreate(at_ms=20_000, topic="later", partition_count=2),
        TopicGrow(at_ms=20_000, topic="orders", partition_count=8),
        TopicDelete(at_ms=20_000, topic="orders"),
        TopicRecreate(at_ms=20_000, topic="orders", partition_count=4, down_ms=2_000),
        GroupConfigChange(at_ms=20_000, consumer_heartbeat_interval_ms=6_000),
        GroupDelete(at_ms=20_000),
        OffsetsDelete(at_ms=20_000, topic="orders"),
        OffsetsAlter(at_ms=20_000, topic="orders", partitions=(0, 1), offset=5),
        OffsetsList(at_ms=20_000),
        ClientRedeploy(at_ms=20_000, client="a", down_ms=1_000, instance_id="seat"),
        MembersRemove(at_ms=20_000),
        RebalanceEnforce(at_ms=20_000, client="a"),
        BrokerConfigChange(at_ms=20_000, group_consumer_assignment_interval_ms=2_000),
        ConnectionBlackhole(at_ms=20_000, duration_ms=7_000, client="a"),
        FleetRestart(at_ms=20_000, down_ms=1_000),
        CrashLoop(at_ms=20_000, client="a"),
        ClockStep(at_ms=20_000, step_ms=-7_000),
        SurgeDeploy(at_ms=20_000, clients=("a",), successors=("b",)),
    )
}


def test_there_is_an_example_of_every_kind() -> None:
    assert set(EXAMPLES) == set(Fault.kinds().values())


@pytest.mark.parametrize("kind", EXAMPLES, ids=lambda kind: kind.__name__)
def test_a_fault_takes_effect_and_the_group_recovers(kind: type) -> None:
    fault = EXAMPLES[kind]
    library = CLASSIC if kind is RebalanceEnforce else JAVA  # Only that one can be asked.
    watched = Watched(spec(client("a", kind=library), client("b", kind=library), faults=(fault,)))
    result = watched.run()
    assert result.coverage[f"fault.{fault.kind}"] == 1
    said = [step["detail"] for step in watched.steps(StepKind.FAULT)]
    has_window = "duration_ms" in {field.name for field in fields(fault)}
    assert len(said) == (2 if has_window else 1)
    assert all(text.startswith(fault.kind) for text in said)
    if kind is not TopicDelete:
        owned = watched.fetchable("a") | watched.fetchable("b")
        assert owned >= set(range(4))


@pytest.mark.parametrize(
    "kind",
    [kind for kind, fault in EXAMPLES.items() if hasattr(fault, "duration_ms")],
    ids=lambda kind: kind.__name__,
)
def test_a_window_that_is_too_long_ends_with_the_faults(kind: type) -> None:
    example = EXAMPLES[kind]
    values = {field.name: getattr(example, field.name) for field in fields(example)}
    fault = kind(**{**values, "duration_ms": 10_000_000})
    watched = Watched(spec(client("a"), client("b"), faults=(fault,)))
    watched.run()
    ended = watched.steps(StepKind.FAULT)[-1]
    assert ended["at_ms"] == 60_000
    assert "ends" in ended["detail"]


def test_a_fault_without_an_object_does_not_happen() -> None:
    nothing: tuple[Fault, ...] = (
        ClientCrash(at_ms=10, client="a"),  # it starts later
        TopicCreate(at_ms=1_000, topic="orders", partition_count=1),
        TopicGrow(at_ms=1_000, topic="orders", partition_count=6),
        TopicDelete(at_ms=1_000, topic="unknown"),
        CoordinatorMove(at_ms=1_000, to_broker=0),  # it leads already
    )
    watched = Watched(spec(client("a", start_ms=100), faults=nothing))
    result = watched.run()
    assert not [name for name in result.coverage if name.startswith("fault.")]
    assert watched.steps(StepKind.FAULT) == []


def test_a_client_that_is_down_when_the_quiet_period_begins_is_started_at_once() -> None:
    crash = ClientCrash(at_ms=50_000, client="a", down_ms=500_000)
    watched = Watched(spec(client("a"), client("b"), faults=(crash,)))
    watched.advance_to(60_010)
    process = watched.world.clients()["a"]
    assert process.is_alive
    assert process.incarnation == 2


def test_a_client_that_is_gone_for_good_stays_away() -> None:
    crash = ClientCrash(at_ms=50_000, client="a")
    watched = Watched(spec(client("a"), client("b"), faults=(crash,)))
    watched.run()
    assert not watched.world.clients()["a"].is_alive
    assert watched.fetchable("b") == set(range(6))


def test_a_crash_ends_the_pause_of_the_process_that_it_hits() -> None:
    planned = (
        ClientPause(at_ms=20_000, duration_ms=39_000, client="a"),
        ClientCrash(at_ms=21_000, client="a", down_ms=1_000),
    )
    watched = Watched(spec(client("a"), client("b"), faults=planned))
    watched.advance_to(30_000)
    assert watched.state("a") == "STABLE"


def test_a_client_with_lagging_metadata_waits_for_names_before_it_takes_partitions() -> None:
    planned = (
        MetadataLag(at_ms=10_000, duration_ms=30_000, client="a"),
        TopicCreate(at_ms=15_000, topic="later", partition_count=2),
    )
    watched = Watched(spec(client("a", topics=("orders", "later")), faults=planned))
    watched.advance_to(39_000)
    assert {p.topic_id for p in watched.world.clients()["a"].member.assigned} == {"orders:1"}
    watched.run()
    assert {p.topic_id for p in watched.world.clients()["a"].member.fetchable} == {
        "orders:1",
        "later:1",
    }


def test_a_recreated_topic_has_a_new_id() -> None:
    recreate = TopicRecreate(at_ms=20_000, topic="orders", partition_count=4)
    watched = Watched(spec(client("a"), faults=(recreate,)))
    watched.run()
    fetchable = watched.world.clients()["a"].member.fetchable
    assert {p.topic_id for p in fetchable} == {"orders:2"}
    assert len(fetchable) == 4


@pytest.mark.parametrize(
    "fault",
    [
        BrokerCrash(at_ms=20_000, duration_ms=7_000, offsets_partition=1),
        BrokerIsolation(at_ms=20_000, duration_ms=7_000, offsets_partition=1),
        ZombieLeader(at_ms=20_000, duration_ms=7_000, offsets_partition=1),
    ],
)
def test_a_fault_of_another_partition_hits_its_leader_and_says_which(fault: Fault) -> None:
    """The group is in partition 3, which broker 0 leads; broker 1 leads partition 1."""
    watched = Watched(
        spec(client("a"), brokers=BrokerSpec(offsets_partition_count=4), faults=(fault,))
    )
    watched.advance_to(25_000)
    first, second, _ = watched.world.brokers
    assert (second.is_alive, second.is_isolated, second.is_cut_off) != (True, False, False)
    assert (first.is_alive, first.is_isolated, first.is_cut_off) == (True, False, False)
    said = {step["detail"] for step in watched.steps(StepKind.FAULT)}
    assert f"{fault.kind} begins of offsets partition 1" in said
    watched.run()
