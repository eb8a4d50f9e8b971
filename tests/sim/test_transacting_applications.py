"""Applications that read, process and write in transactions, by hand."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from worlds import Watched, client, spec

from rebalance_sim.protocol.clients.common.events import (
    Seek,
    SendOffsetsToTransaction,
    TransactionEnded,
)
from rebalance_sim.protocol.clients.kinds import EVERY_KIND, KINDS
from rebalance_sim.protocol.wire.records import TransactionMarker
from rebalance_sim.sim.broker.broker_spec import BrokerSpec
from rebalance_sim.sim.client.transactions_spec import TransactionsSpec
from rebalance_sim.sim.faults.brokers import BrokerCrash, PartialPartition
from rebalance_sim.sim.faults.clients import ClientCrash, ClientPause
from rebalance_sim.sim.faults.coordinators import CoordinatorMove
from rebalance_sim.sim.spec import OffsetReset, TopicSpec

TRANSACTIONS = TransactionsSpec(commit_interval_ms=500, transaction_timeout_ms=5_000)


def world_of(*clients: Any, **settings: Any) -> Watched:
    topic = TopicSpec(name="orders", partition_count=2, records_per_second=20)
    defaults: dict[str, Any] = {"topics": (topic,), "data_plane": True, "duration_ms": 40_000}
    return Watched(spec(*clients, **{**defaults, **settings}))


def transacting(name: str, **settings: Any) -> Any:
    defaults: dict[str, Any] = {
        "transactions": TRANSACTIONS,
        "enable_auto_commit": False,
        "auto_offset_reset": OffsetReset.EARLIEST,
    }
    return client(name, **{**defaults, **settings})


def test_a_client_with_transactions_commits_in_no_other_way() -> None:
    with pytest.raises(ValueError, match="set enable_auto_commit to false, or leave out trans"):
        transacting("a", enable_auto_commit=True)


@pytest.mark.parametrize(
    "other", [{"manual_commit_interval_ms": 100}, {"commits_when_revoked": True}]
)
def test_other_commits_than_those_of_transactions_are_a_contradiction(other: Any) -> None:
    with pytest.raises(ValueError, match="leave out manual_commit_interval_ms and commits_when"):
        transacting("a", **other)


def test_transactions_need_a_data_plane() -> None:
    with pytest.raises(ValueError, match="transactions, which have no records without data_plane"):
        world_of(transacting("a"), data_plane=False)


@pytest.mark.quick_one_of(5)
@pytest.mark.parametrize("kind", EVERY_KIND)
@pytest.mark.parametrize("version", [1, 2])
def test_every_client_commits_what_it_was_handed(kind: str, version: int) -> None:
    transactions = TransactionsSpec(commit_interval_ms=500, version=version)
    assignors = KINDS[kind].default_assignors
    one = transacting("a", kind=kind, transactions=transactions, assignors=assignors)
    watched = world_of(one)
    result = watched.world.run()
    assert result.metrics["transactions_committed"] > 20
    assert result.metrics["transactions_aborted"] == 0
    assert result.metrics["records_reprocessed"] == 0


def events_of(watched: Watched, kind: type) -> list[dict[str, Any]]:
    """What applications told, or were told, in order."""
    steps = map(json.loads, watched.trace.lines)
    return [s for s in steps if s.get("event", {}).get("type") == kind.__name__]


def test_a_member_that_stood_still_for_too_long_aborts_and_seeks_back() -> None:
    """Its offsets are refused; others have processed what it had been handed."""
    pause = ClientPause(client="a", at_ms=10_090, duration_ms=60_000)
    watched = world_of(
        transacting("a"), transacting("b", start_ms=2_000), duration_ms=80_000, faults=(pause,)
    )
    result = watched.run()
    assert result.metrics["transactions_aborted"] + result.metrics["producers_fenced"] == 1
    (end,) = [one for one in events_of(watched, TransactionEnded) if not one["event"]["committed"]]
    assert end["client"] == "a"
    assert end["at_ms"] >= 70_000


def test_a_successor_goes_on_where_the_last_transaction_committed() -> None:
    watched = world_of(
        transacting("a"), faults=(ClientCrash(client="a", at_ms=20_250, down_ms=2_000),)
    )
    watched.run()
    sent = events_of(watched, SendOffsetsToTransaction)
    before = [one for one in sent if one["incarnation"] == 1][-1]["event"]
    after = next(one for one in sent if one["incarnation"] == 2)["event"]
    for partition, start in after["starts"].items():
        assert start in (before["starts"][partition], before["offsets"][partition])
    assert events_of(watched, Seek) == []


def test_a_coordinator_that_fails_over_knows_the_producers_of_its_log() -> None:
    crash = BrokerCrash(broker=0, at_ms=20_000, duration_ms=10_000)
    brokers = BrokerSpec(count=3)
    watched = world_of(transacting("a"), faults=(crash,), brokers=brokers, duration_ms=60_000)
    result = watched.run()
    assert result.metrics["producers_fenced"] == 0
    marks = [
        record["value"]["committed"]
        for line in watched.trace.lines
        for record in json.loads(line).get("records", ())
        if record["type"] == TransactionMarker.__name__
    ]
    assert result.metrics["transactions_committed"] <= sum(marks)
    assert result.metrics["transactions_committed"] > 40


@pytest.mark.parametrize("version", [1, 2])
def test_a_coordinator_of_transactions_fails_by_itself(version: int) -> None:
    """Broker 1 has the transactions: their producer finds its successor, and the group, which
    broker 0 has, notices nothing."""
    crash = BrokerCrash(broker=1, at_ms=20_000, duration_ms=10_000)
    transactions = TransactionsSpec(commit_interval_ms=500, version=version)
    watched = world_of(
        transacting("a", transactions=transactions),
        faults=(crash,),
        brokers=BrokerSpec(count=3),
        duration_ms=60_000,
    )
    result = watched.run()
    steps = list(map(json.loads, watched.trace.lines))
    loads = [s["shard"] for s in steps if s["kind"] == "coordinator.loaded"]
    assert loads.count("broker-2/transaction-state-0") == loads.count("broker-0") == 1
    assert "broker-2" not in loads
    assert result.metrics["producers_fenced"] == result.metrics["transactions_aborted"] == 0
    ends = [s["at_ms"] for s in steps if s.get("event", {}).get("type") == "TransactionEnded"]
    gaps = [later - earlier for earlier, later in pairwise(ends)]
    assert max(gaps) > 8_000
    assert sum(gap > 2_000 for gap in gaps) == 1
    assert ends[-1] > 55_000


def test_the_transactions_move_and_the_group_stays() -> None:
    move = CoordinatorMove(at_ms=20_000, to_broker=2, transaction_state_partition=0)
    watched = world_of(transacting("a"), faults=(move,), brokers=BrokerSpec(count=3))
    result = watched.run()
    steps = list(map(json.loads, watched.trace.lines))
    loads = [s["shard"] for s in steps if s["kind"] == "coordinator.loaded"]
    assert loads == ["broker-0", "broker-1/transaction-state-0", "broker-2/transaction-state-0"]
    assert result.metrics["producers_fenced"] == result.metrics["transactions_aborted"] == 0
    assert result.metrics["transactions_committed"] > 60


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"transaction_state_partition": 1}, r"must lie within \[0, 0\]"),
        ({"transaction_state_partition": 0, "offsets_partition": 0}, "exclude each other"),
    ],
)
def test_a_move_names_a_partition_that_there_is(settings: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        world_of(transacting("a"), faults=(CoordinatorMove(at_ms=1, **settings),))


def test_without_transactions_nothing_of_theirs_can_move() -> None:
    with pytest.raises(ValueError, match="means nothing without transactions"):
        world_of(client("a"), faults=(CoordinatorMove(at_ms=1, transaction_state_partition=0),))


def test_markers_wait_for_a_broker_that_cannot_be_reached() -> None:
    """Between the two coordinators nothing passes: no transaction ends in the group's log until
    something does, and then each that was decided does."""
    cut = PartialPartition(broker=1, to_broker=0, at_ms=20_000, duration_ms=10_000)
    watched = world_of(
        transacting("a"), faults=(cut,), brokers=BrokerSpec(count=3), duration_ms=60_000
    )
    result = watched.run()
    marks = [
        json.loads(line)["at_ms"]
        for line in watched.trace.lines
        if f'"type":"{TransactionMarker.__name__}"' in line.replace(" ", "")
    ]
    assert not [at_ms for at_ms in marks if 20_100 < at_ms < 30_000]
    assert [at_ms for at_ms in marks if at_ms > 31_000]
    assert result.metrics["transactions_committed"] <= len(marks)
