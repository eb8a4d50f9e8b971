"""Every kind of fault takes effect, says so, ends, and is healed for the quiet period."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any

import pytest
from worlds import Watched, client, spec

from rebalance_sim.invariants.step import StepKind
from rebalance_sim.protocol.clients.kinds import CLASSIC, JAVA, LIBRDKAFKA
from rebalance_sim.sim.faults.brokers import BrokerCrash, BrokerIsolation
from rebalance_sim.sim.faults.clients import ClientCrash, ClientPause, MetadataLag, RebalanceEnforce
from rebalance_sim.sim.faults.coordinators import CoordinatorMove, ZombieLeader
from rebalance_sim.sim.faults.fault import Fault
from rebalance_sim.sim.faults.topics import TopicCreate, TopicDelete, TopicGrow, TopicRecreate
from rebalance_sim.sim.network.link import Moment
from rebalance_sim.sim.network.network import Direction
from rebalance_sim.sim.spec import BrokerSpec

VALUES = {
    "at_ms": 20_000,
    "duration_ms": 7_000,
    "down_ms": 1_000,
    "client": "a",
    "topic": "orders",
    "partition_count": 8,
}
SAID: Mapping[str, Mapping[str, Any]] = {
    "broker_config_change": {"group_consumer_assignment_interval_ms": 2_000},
    "client_partition": {"direction": Direction.BOTH},
    "client_redeploy": {"instance_id": "seat"},
    "clock_step": {"step_ms": -7_000},
    "connection_loss": {"moment": Moment.NOW},
    "group_config_change": {"consumer_heartbeat_interval_ms": 6_000},
    "lag_autoscaler": {"clients": ("a", "b"), "lag_threshold_records": 9, "min_replicas": 2},
    "log_tail_loss": {"lost_batches": 3},
    "offsets_alter": {"partitions": (0, 1), "offset": 5},
    "partial_partition": {"to_broker": 1},
    "rolling_migration": {"to_kind": LIBRDKAFKA},
    "subscription_change": {"topics": ("orders", "later")},
    "surge_deploy": {"clients": ("a",), "successors": ("b",)},
    "topic_create": {"topic": "later"},
    "topic_recreate": {"partition_count": 4, "down_ms": 2_000},
    "unclean_election": {"lost_batches": 3},
}
"""What these kinds need besides, or otherwise."""


def _example(kind: type[Fault]) -> Fault:
    """One with what it cannot do without: of a range that is drawn the end, of a size the least."""
    values: dict[str, Any] = {}
    for item in fields(kind):
        if item.name == "down_ms" or (item.default is MISSING and item.default_factory is MISSING):
            end = item.metadata.get("drawn", (item.metadata.get("least"),))[-1]
            values[item.name] = VALUES.get(item.name, end)
    return kind(**{**values, **SAID.get(kind.kind, {})})


EXAMPLES = {kind: _example(kind) for kind in Fault.kinds().values()}


@pytest.mark.parametrize("kind", EXAMPLES, ids=lambda kind: kind.__name__)
def test_a_fault_takes_effect_and_the_group_recovers(kind: type) -> None:
    fault = EXAMPLES[kind]
    library = CLASSIC if kind is RebalanceEnforce else JAVA  # Only that one can be asked.
    clients = client("a", kind=library), client("b", kind=library)
    watched = Watched(spec(*clients, faults=(fault,), data_plane=fault.needs_data_plane))
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
def test_a_window_that_is_too_long_ends_with_the_faults(kind: type[Fault]) -> None:
    example = EXAMPLES[kind]
    values = {field.name: getattr(example, field.name) for field in fields(example)}
    fault = kind(**{**values, "duration_ms": 10_000_000})
    clients = client("a"), client("b")
    watched = Watched(spec(*clients, faults=(fault,), data_plane=kind.needs_data_plane))
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
    assert (second.is_alive, second.isolation_count, second.cut_off_count) != (True, 0, 0)
    assert (first.is_alive, first.isolation_count, first.cut_off_count) == (True, 0, 0)
    said = {step["detail"] for step in watched.steps(StepKind.FAULT)}
    assert f"{fault.kind} begins of offsets partition 1" in said
    watched.run()
