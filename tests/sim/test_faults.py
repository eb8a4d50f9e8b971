"""Every kind of fault takes effect, says so, ends, and is healed for the quiet period."""

from __future__ import annotations

from dataclasses import fields
from typing import get_args

import pytest
from worlds import Watched, client, spec

from rebalance_sim.invariants.step import StepKind
from rebalance_sim.sim.faults import faults
from rebalance_sim.sim.faults.faults import Direction, Fault, Moment
from rebalance_sim.sim.faults.injector import fault_kind
from rebalance_sim.sim.spec import BrokerSpec

EXAMPLES: dict[type, Fault] = {
    type(fault): fault
    for fault in (
        faults.ConnectionLoss(at_ms=20_000, client="a", moment=Moment.NOW),
        faults.ClientPartition(
            at_ms=20_000, duration_ms=7_000, client="a", direction=Direction.BOTH
        ),
        faults.NetworkSlowdown(at_ms=20_000, duration_ms=7_000, factor=50),
        faults.BrokerIsolation(at_ms=20_000, duration_ms=7_000),
        faults.ReplicationSlowdown(at_ms=20_000, duration_ms=7_000, factor=10),
        faults.BrokerCrash(at_ms=20_000, duration_ms=7_000),
        faults.BrokerBounce(at_ms=20_000, down_ms=1_000),
        faults.CoordinatorMove(at_ms=20_000),
        faults.LogCompaction(at_ms=20_000),
        faults.AppendFailure(at_ms=20_000, duration_ms=7_000),
        faults.ZombieLeader(at_ms=20_000, duration_ms=7_000),
        faults.ClientCrash(at_ms=20_000, client="a", down_ms=1_000),
        faults.ClientPause(at_ms=20_000, duration_ms=7_000, client="a"),
        faults.PollStall(at_ms=20_000, duration_ms=7_000, client="a"),
        faults.CallbackSlowdown(at_ms=20_000, duration_ms=7_000, client="a", callback_ms=500),
        faults.CallbackFailure(at_ms=20_000, duration_ms=7_000, client="a"),
        faults.ClientClose(at_ms=20_000, client="a", down_ms=1_000),
        faults.ClientBounce(at_ms=20_000, down_ms=1_000, gap_ms=500),
        faults.RollingMigration(at_ms=20_000, to_kind="librdkafka", down_ms=1_000, gap_ms=500),
        faults.SubscriptionChange(at_ms=20_000, client="a", topics=("orders", "later")),
        faults.MetadataLag(at_ms=20_000, duration_ms=7_000, client="a"),
        faults.TopicCreate(at_ms=20_000, topic="later", partition_count=2),
        faults.TopicGrow(at_ms=20_000, topic="orders", partition_count=8),
        faults.TopicDelete(at_ms=20_000, topic="orders"),
        faults.TopicRecreate(at_ms=20_000, topic="orders", partition_count=4, down_ms=2_000),
        faults.GroupConfigChange(at_ms=20_000, consumer_heartbeat_interval_ms=6_000),
        faults.GroupDelete(at_ms=20_000),
        faults.OffsetsDelete(at_ms=20_000, topic="orders"),
        faults.OffsetsAlter(at_ms=20_000, topic="orders", partitions=(0, 1), offset=5),
        faults.OffsetsList(at_ms=20_000),
        faults.BrokerConfigChange(at_ms=20_000, group_consumer_assignment_interval_ms=2_000),
    )
}


def test_there_is_an_example_of_every_kind() -> None:
    assert set(EXAMPLES) == set(get_args(Fault))


@pytest.mark.parametrize("kind", EXAMPLES, ids=lambda kind: kind.__name__)
def test_a_fault_takes_effect_and_the_group_recovers(kind: type) -> None:
    fault = EXAMPLES[kind]
    watched = Watched(spec(client("a"), client("b"), faults=(fault,)))
    result = watched.run()
    assert result.coverage[f"fault.{fault_kind(fault)}"] == 1
    said = [step["detail"] for step in watched.steps(StepKind.FAULT)]
    has_window = "duration_ms" in {field.name for field in fields(fault)}
    assert len(said) == (2 if has_window else 1)
    assert all(text.startswith(fault_kind(fault)) for text in said)
    if kind is not faults.TopicDelete:
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
        faults.ClientCrash(at_ms=10, client="a"),  # it starts later
        faults.TopicCreate(at_ms=1_000, topic="orders", partition_count=1),
        faults.TopicGrow(at_ms=1_000, topic="orders", partition_count=6),
        faults.TopicDelete(at_ms=1_000, topic="unknown"),
        faults.CoordinatorMove(at_ms=1_000, to_broker=0),  # it leads already
    )
    watched = Watched(spec(client("a", start_ms=100), faults=nothing))
    result = watched.run()
    assert not [name for name in result.coverage if name.startswith("fault.")]
    assert watched.steps(StepKind.FAULT) == []


def test_a_client_that_is_down_when_the_quiet_period_begins_is_started_at_once() -> None:
    crash = faults.ClientCrash(at_ms=50_000, client="a", down_ms=500_000)
    watched = Watched(spec(client("a"), client("b"), faults=(crash,)))
    watched.advance_to(60_010)
    process = watched.world.clients()["a"]
    assert process.is_alive
    assert process.incarnation == 2


def test_a_client_that_is_gone_for_good_stays_away() -> None:
    crash = faults.ClientCrash(at_ms=50_000, client="a")
    watched = Watched(spec(client("a"), client("b"), faults=(crash,)))
    watched.run()
    assert not watched.world.clients()["a"].is_alive
    assert watched.fetchable("b") == set(range(6))


def test_a_crash_ends_the_pause_of_the_process_that_it_hits() -> None:
    planned = (
        faults.ClientPause(at_ms=20_000, duration_ms=39_000, client="a"),
        faults.ClientCrash(at_ms=21_000, client="a", down_ms=1_000),
    )
    watched = Watched(spec(client("a"), client("b"), faults=planned))
    watched.advance_to(30_000)
    assert watched.state("a") == "STABLE"


def test_a_client_with_lagging_metadata_waits_for_names_before_it_takes_partitions() -> None:
    planned = (
        faults.MetadataLag(at_ms=10_000, duration_ms=30_000, client="a"),
        faults.TopicCreate(at_ms=15_000, topic="later", partition_count=2),
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
    recreate = faults.TopicRecreate(at_ms=20_000, topic="orders", partition_count=4)
    watched = Watched(spec(client("a"), faults=(recreate,)))
    watched.run()
    fetchable = watched.world.clients()["a"].member.fetchable
    assert {p.topic_id for p in fetchable} == {"orders:2"}
    assert len(fetchable) == 4


@pytest.mark.parametrize(
    "fault",
    [
        faults.BrokerCrash(at_ms=20_000, duration_ms=7_000, offsets_partition=1),
        faults.BrokerIsolation(at_ms=20_000, duration_ms=7_000, offsets_partition=1),
        faults.ZombieLeader(at_ms=20_000, duration_ms=7_000, offsets_partition=1),
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
    assert f"{fault_kind(fault)} begins of offsets partition 1" in said
    watched.run()
