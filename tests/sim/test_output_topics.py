"""Applications that write to a topic in transactions, and consumers that read it, by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from worlds import Watched, client, spec

from rebalance_sim.protocol.clients.kinds import EVERY_KIND, KINDS
from rebalance_sim.protocol.transactions.transaction_spans import IsolationLevel
from rebalance_sim.sim.broker.broker_spec import BrokerSpec
from rebalance_sim.sim.client.transactions_spec import TransactionsSpec
from rebalance_sim.sim.faults.brokers import BrokerCrash
from rebalance_sim.sim.faults.clients import ClientClose, ClientCrash
from rebalance_sim.sim.faults.connections import ClientPartition
from rebalance_sim.sim.faults.coordinators import CoordinatorMove
from rebalance_sim.sim.faults.topics import TopicDelete
from rebalance_sim.sim.spec import OffsetReset, TopicSpec

ORDERS = TopicSpec(name="orders", partition_count=2, records_per_second=20)
BILLS = TopicSpec(name="bills", partition_count=2)
WRITES = TransactionsSpec(commit_interval_ms=500, output_topic="bills")
COMMITTED, UNCOMMITTED = IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED


def app(name: str = "app", **settings: Any) -> Any:
    defaults: dict[str, Any] = {
        "transactions": WRITES,
        "enable_auto_commit": False,
        "auto_offset_reset": OffsetReset.EARLIEST,
    }
    return client(name, **{**defaults, **settings})


def reader(level: IsolationLevel, **settings: Any) -> Any:
    """A group of its own, with one consumer of what applications write."""
    return client(
        level.value,
        group_id=level.value,
        topics=("bills",),
        isolation_level=level,
        auto_offset_reset=OffsetReset.EARLIEST,
        **settings,
    )


READERS = reader(COMMITTED), reader(UNCOMMITTED)


def world_of(*clients: Any, **settings: Any) -> Watched:
    defaults: dict[str, Any] = {"topics": (ORDERS, BILLS), "data_plane": True}
    defaults |= {"duration_ms": 20_000, "quiet_period_ms": 30_000}
    return Watched(spec(*clients, **{**defaults, **settings}))


def delivered(watched: Watched, level: IsolationLevel) -> int:
    """What the application of this reader was handed so far."""
    watched.world.sums()
    return watched.world.metrics.deliveries[level.value].delivered


def ends(watched: Watched, *, committed: bool) -> list[int]:
    """When markers of this sort were written."""
    events = (json.loads(line) for line in watched.trace.lines if "RecordsWritten" in line)
    return [e["at_ms"] for e in events if e["event"].get("committed") is committed]


@pytest.mark.parametrize(("kind", "version"), [("java", 1), *((kind, 2) for kind in EVERY_KIND)])
def test_each_record_comes_to_one_that_a_reader_of_any_kind_is_handed_once(
    kind: str, version: int
) -> None:
    own = {"kind": kind, "assignors": KINDS[kind].default_assignors}
    writes = replace(WRITES, version=version)
    watched = world_of(app(transactions=writes, **own), reader(COMMITTED, **own))
    watched.run()
    read = watched.world.data_plane.progress["group"].lags()
    assert sum(read.values()) < 20
    in_all = 2 * 20 * watched.world.now_ms // 1_000
    assert in_all - 60 < delivered(watched, COMMITTED) <= in_all
    assert watched.world.metrics.deliveries[COMMITTED.value].redelivered == 0
    assert ends(watched, committed=False) == []


def test_readers_of_what_is_committed_stand_still_until_the_transaction_of_the_dead_times_out() -> (
    None
):
    """It was begun at some 20 s, and is looked at every 10 s. Another application writes to the
    same partition, and commits."""
    dies = ClientCrash(client="app", at_ms=20_250, down_ms=None)
    writes = replace(WRITES, transaction_timeout_ms=15_000, commit_interval_ms=2_000)
    other = app("other", start_ms=2_000, transactions=writes)
    watched = world_of(
        app(transactions=writes),
        other,
        *READERS,
        faults=(dies,),
        duration_ms=45_000,
        topics=(ORDERS, replace(BILLS, partition_count=1)),
    )
    watched.world.advance_to(20_250)
    before = {level: delivered(watched, level) for level in IsolationLevel}
    watched.world.advance_to(39_900)
    since = {level: delivered(watched, level) - before[level] for level in IsolationLevel}
    # A client that dies has its partition for 45 s: one of two is written on.
    assert since[COMMITTED] <= 20 * 2  # What comes before its first record.
    assert since[UNCOMMITTED] > 20 * 18
    lag = watched.world.data_plane.lag_of
    assert lag(COMMITTED.value) > 20 * 18
    assert lag(UNCOMMITTED.value) < 60
    result = watched.run()
    assert [at_ms // 1_000 for at_ms in ends(watched, committed=False)][-1] == 40
    assert result.metrics["open_transaction_ms_max"] > 19_000
    assert result.metrics["records_read_aborted"] > 0
    assert lag(COMMITTED.value) < 60


def test_a_successor_with_the_same_id_gives_readers_free_at_once() -> None:
    dies = ClientCrash(client="app", at_ms=10_250, down_ms=2_000)
    watched = world_of(app(), *READERS, faults=(dies,))
    result = watched.run()
    aborts = ends(watched, committed=False)
    assert 12_000 < min(aborts) <= max(aborts) < 13_000
    assert result.metrics["open_transaction_ms_max"] < 3_500


def test_an_application_that_closes_ends_its_transaction_first() -> None:
    watched = world_of(app(), *READERS, faults=(ClientClose(client="app", at_ms=10_250),))
    result = watched.run()
    assert ends(watched, committed=False) == []
    assert result.metrics["open_transaction_ms_max"] < 1_000


def test_an_application_aborts_what_it_has_written_of_a_partition_that_it_loses() -> None:
    """The next one to have it writes it again, and readers of what is committed see it once."""
    watched = world_of(app(), app("other", start_ms=5_000), *READERS)
    result = watched.run()
    assert result.metrics["transactions_aborted"] >= 1
    assert result.metrics["records_read_aborted"] >= 1
    assert watched.world.metrics.deliveries[COMMITTED.value].redelivered == 0
    assert delivered(watched, COMMITTED) < delivered(watched, UNCOMMITTED)


def test_an_application_aborts_what_it_has_written_of_a_partition_that_comes_back_to_it() -> None:
    """In an eager rebalance every partition is given up. The only one comes back, from what is
    committed, so that what was written since would be there twice."""
    eager: dict[str, Any] = {"kind": "classic", "assignors": ("sticky",)}
    writes = replace(WRITES, commit_interval_ms=12_000)
    clients = app(transactions=writes, **eager), app("other", start_ms=8_000, **eager)
    watched = world_of(*clients, *READERS, topics=(replace(ORDERS, partition_count=1), BILLS))
    result = watched.run()
    assert result.metrics["transactions_aborted"] == 1
    assert result.metrics["records_read_aborted"] > 20 * 8
    assert watched.world.metrics.deliveries[COMMITTED.value].redelivered == 0


@pytest.mark.parametrize(
    "fault",
    [
        CoordinatorMove(at_ms=10_000, to_broker=2, transaction_state_partition=0),
        *(BrokerCrash(broker=node, at_ms=10_000, duration_ms=12_000) for node in range(3)),
        ClientPartition(client="app", at_ms=10_250, duration_ms=5_000),
        ClientPartition(client=COMMITTED.value, at_ms=10_250, duration_ms=5_000),
    ],
    ids=str,
)
def test_nothing_of_it_is_lost_or_doubled_whatever_fails(fault: Any) -> None:
    watched = world_of(app(), *READERS, faults=(fault,), brokers=BrokerSpec(count=3))
    watched.run()  # Properties are checked.
    committed = watched.world.metrics.deliveries[COMMITTED.value]
    assert committed.redelivered == committed.skipped == 0
    in_all = 2 * 20 * watched.world.now_ms // 1_000
    assert in_all - 80 < delivered(watched, COMMITTED) <= in_all


def test_an_application_whose_output_topic_is_gone_aborts_and_goes_no_further() -> None:
    watched = world_of(app(), *READERS, faults=(TopicDelete(topic="bills", at_ms=10_000),))
    watched.world.advance_to(12_000)
    committed = watched.world.data_plane.totals.transactions_committed
    result = watched.world.run()
    assert result.metrics["transactions_committed"] == committed
    assert result.metrics["transactions_aborted"] > 10


@pytest.mark.parametrize(
    ("clients", "said"),
    [
        ((reader(COMMITTED),), "no topic has records of transactions: give a client transactions"),
        ((app(topics=("bills",)),), "app reads its own output_topic 'bills'"),
        (
            (app(transactions=TransactionsSpec(output_topic="orders")),),
            "must be one of the topics, without records_per_second",
        ),
        (
            (app(), reader(COMMITTED), replace(reader(UNCOMMITTED), group_id=COMMITTED.value)),
            "others of its group have another: give all of them the same",
        ),
    ],
)
def test_what_cannot_be_is_refused_in_a_line(clients: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        world_of(*clients)
