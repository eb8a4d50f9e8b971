"""Specifications and faults check themselves, and name the field that is wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import FrozenInstanceError
from typing import Any

import pytest
from worlds import client, spec

from rebalance_sim.protocol.hosting.error_answers import WriteError
from rebalance_sim.protocol.runtime.coordinator_config import CoordinatorConfig
from rebalance_sim.sim.faults.brokers import AppendFailure, BrokerCrash
from rebalance_sim.sim.faults.clients import CallbackSlowdown, ClientCrash, ClientPause, PollStall
from rebalance_sim.sim.faults.connections import NetworkSlowdown
from rebalance_sim.sim.faults.coordinators import CoordinatorMove, LogCompaction, ZombieLeader
from rebalance_sim.sim.faults.deployments import ClientBounce
from rebalance_sim.sim.faults.topics import TopicCreate
from rebalance_sim.sim.spec import (
    BrokerSpec,
    ClientSpec,
    DelaySpec,
    NetworkSpec,
    TopicSpec,
    WorldSpec,
)

BAD_VALUES: list[tuple[str, Callable[[], Any]]] = [
    ("min_ms", lambda: DelaySpec(min_ms=-1)),
    ("max_ms", lambda: DelaySpec(min_ms=5, max_ms=4)),
    ("name", lambda: TopicSpec(name="", partition_count=1)),
    ("partition_count", lambda: TopicSpec(name="orders", partition_count=0)),
    ("records_per_second", lambda: TopicSpec(name="o", partition_count=1, records_per_second=-1)),
    ("instance_id", lambda: client("a", instance_id="")),
    ("topics", lambda: client("a", topics=("orders", "orders"))),
    ("topic_regex", lambda: client("a", topic_regex="o.*")),
    ("topic_regex", lambda: ClientSpec(name="a", topic_regex="(")),
    ("kind", lambda: client("a", kind="sarama")),
    ("processing_ms", lambda: client("a", processing_ms=-1)),
    ("restart_after_fatal_ms", lambda: client("a", restart_after_fatal_ms=0)),
    ("connect_timeout_ms", lambda: NetworkSpec(connect_timeout_ms=0)),
    ("between_racks_ms", lambda: NetworkSpec(between_racks_ms=-1)),
    ("reconnect_backoff_max_ms", lambda: NetworkSpec(reconnect_backoff_max_ms=1)),
    ("count", lambda: BrokerSpec(count=0)),
    ("duration_ms", lambda: spec(client("a"), duration_ms=0)),
    ("quiet_period_ms", lambda: spec(client("a"), quiet_period_ms=-1)),
    ("semantics", lambda: spec(client("a"), semantics="kafka-9")),
    ("defects", lambda: spec(client("a"), defects=("KAFKA-0",))),
    (
        "group_coordinator_append_linger_ms",
        lambda: spec(
            client("a"),
            defects=("mut-reads-uncommitted",),
            config=CoordinatorConfig(group_coordinator_append_linger_ms=10),
        ),
    ),
    (
        "group_coordinator_append_linger_ms",
        lambda: CoordinatorConfig(group_coordinator_append_linger_ms=-2),
    ),
    (
        "error",
        lambda: AppendFailure(at_ms=0, duration_ms=1, error=WriteError.TIMED_OUT),
    ),
    ("clients", lambda: spec(client("a"), client("a"))),
    ("start_ms", lambda: spec(client("a", start_ms=60_000))),
    ("at_ms", lambda: ClientCrash(at_ms=-1, client="a")),
    ("duration_ms", lambda: ClientPause(at_ms=0, duration_ms=0, client="a")),
    ("factor", lambda: NetworkSlowdown(at_ms=0, duration_ms=1, factor=1)),
    ("callback_ms", lambda: CallbackSlowdown(at_ms=0, duration_ms=1, client="a", callback_ms=-1)),
    ("down_ms", lambda: ClientBounce(at_ms=0, down_ms=0)),
    ("cleaned_percent", lambda: LogCompaction(at_ms=0, cleaned_percent=0)),
    ("partition_count", lambda: TopicCreate(at_ms=0, topic="t", partition_count=0)),
    ("at_ms", lambda: spec(client("a"), faults=(ClientCrash(at_ms=60_000, client="a"),))),
    ("client", lambda: spec(client("a"), faults=(ClientCrash(at_ms=1, client="b"),))),
    (
        "clients",
        lambda: spec(client("a"), faults=(ClientBounce(at_ms=1, down_ms=1, clients=("b",)),)),
    ),
    ("broker", lambda: spec(client("a"), faults=(BrokerCrash(at_ms=1, duration_ms=1, broker=3),))),
    ("to_broker", lambda: spec(client("a"), faults=(CoordinatorMove(at_ms=1, to_broker=-1),))),
    ("group_id", lambda: client("a", group_id="")),
    ("offsets_partition_count", lambda: BrokerSpec(offsets_partition_count=0)),
    ("offsets_partition", lambda: ZombieLeader(at_ms=1, duration_ms=1, offsets_partition=-1)),
    ("offsets_partition", lambda: LogCompaction(at_ms=1, offsets_partition=-1)),
    (
        "offsets_partition",
        lambda: BrokerCrash(at_ms=1, duration_ms=1, broker=0, offsets_partition=0),
    ),
    (
        "offsets_partition",
        lambda: spec(client("a"), faults=(CoordinatorMove(at_ms=1, offsets_partition=1),)),
    ),
]


@pytest.mark.parametrize(("field", "build"), BAD_VALUES)
def test_a_bad_value_is_refused_by_a_message_that_names_its_field(
    field: str, build: Callable[[], Any]
) -> None:
    with pytest.raises(ValueError, match=rf"\b{field}\b"):
        build()


def test_a_fault_is_named_by_its_place_in_the_list() -> None:
    faults = (ClientCrash(at_ms=1, client="a"), PollStall(at_ms=99_999, duration_ms=1, client="a"))
    with pytest.raises(ValueError, match=r"faults\[1\]: at_ms \(99999\)"):
        spec(client("a"), faults=faults)


def test_a_window_ends_after_its_duration() -> None:
    assert ClientPause(at_ms=30, duration_ms=12, client="a").until_ms == 42


def test_a_world_specification_cannot_be_changed() -> None:
    world_spec = spec(client("a"))
    with pytest.raises(FrozenInstanceError):
        world_spec.seed = 2  # type: ignore[misc]


def test_defects_of_broker_core_and_client_may_be_mixed() -> None:
    names = ("mut-reply-before-commit", "KAFKA-16147", "mut-ack-before-stop")
    assert spec(client("a"), defects=names).defects == names


def test_equal_specifications_are_equal_values() -> None:
    assert spec(client("a"), client("b")) == spec(client("a"), client("b"))
    assert isinstance(spec(client("a")), WorldSpec)


def test_groups_are_those_of_the_clients_and_the_worlds_own_comes_first() -> None:
    names = (None, "audit", "zoo", "audit")
    clients = [client(f"c{i}", group_id=name) for i, name in enumerate(names)]
    assert spec(*clients, group_id="orders").group_ids == ("orders", "audit", "zoo")
    assert spec(*clients[1:], group_id="orders").group_ids == ("audit", "zoo")
    assert spec(group_id="orders").group_ids == ("orders",)


def test_an_assignor_that_no_broker_has_is_refused() -> None:
    config = CoordinatorConfig(group_consumer_assignors=("uniform", "rang"))
    with pytest.raises(ValueError, match="no assignor 'rang'; did you mean 'range'"):
        WorldSpec(seed=1, topics=(), clients=(), duration_ms=1, quiet_period_ms=0, config=config)
