"""Which records applications are handed, handed again, and never handed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds import client, orders, spec

from rebalance_sim.sim.faults.clients import SubscriptionChange
from rebalance_sim.sim.faults.fault import Fault
from rebalance_sim.sim.faults.topics import TopicGrow
from rebalance_sim.sim.observe.deliveries import Deliveries
from rebalance_sim.sim.spec import OffsetReset, TopicSpec
from rebalance_sim.sim.world import World

(PARTITION,) = orders(0)


def test_records_are_counted_again_and_skipped_by_their_offsets() -> None:
    deliveries = Deliveries()
    deliveries.begin(PARTITION, 70)
    deliveries.begin(PARTITION, 90)  # said too late: it began at 70
    deliveries.add(PARTITION, 100, 200)
    deliveries.add(PARTITION, 150, 250)
    deliveries.add(PARTITION, 260, 270)
    assert (deliveries.delivered, deliveries.redelivered, deliveries.skipped) == (210, 50, 40)


@given(
    begin=st.integers(0, 20),
    polls=st.lists(st.tuples(st.integers(0, 30), st.integers(1, 10)), max_size=12),
)
def test_intervals_count_what_records_one_by_one_count(
    begin: int, polls: list[tuple[int, int]]
) -> None:
    deliveries = Deliveries()
    deliveries.begin(PARTITION, begin)
    handed_out: list[int] = []
    for start, count in polls:
        deliveries.add(PARTITION, start, start + count)
        handed_out += range(start, start + count)
    assert deliveries.delivered == len(handed_out)
    assert deliveries.redelivered == len(handed_out) - len(set(handed_out))
    passed = range(begin, max(handed_out, default=0))
    assert deliveries.skipped == len(set(passed) - set(handed_out))


RATE = 100
GROWS_MS = 20_000


def run(*faults: Fault, **settings: Any) -> dict[str, float]:
    """One classic client, which looks for new partitions every 40 seconds."""
    of_client: dict[str, Any] = {
        "kind": "classic",
        "assignors": ("range",),
        "metadata_max_age_ms": 40_000,
        "enable_auto_commit": True,
        **settings,
    }
    topics = tuple(
        TopicSpec(name=name, partition_count=1, records_per_second=RATE)
        for name in ("orders", "refunds")
    )
    world = spec(client("a", **of_client), topics=topics, faults=faults, data_plane=True)
    return dict(World(world).run().metrics)


GROWS = TopicGrow(at_ms=GROWS_MS, topic="orders", partition_count=2)


@pytest.mark.parametrize("subscription", [{}, {"topics": (), "topic_regex": "ord.*"}])
def test_records_that_no_client_is_ever_handed_are_counted(subscription: dict[str, Any]) -> None:
    """A new partition is found after 20 s or so, and read from its end."""
    latest = run(GROWS, **subscription)
    earliest = run(GROWS, auto_offset_reset=OffsetReset.EARLIEST, **subscription)
    assert earliest["records_skipped"] == 0
    missing = earliest["records_delivered"] - latest["records_delivered"]
    assert latest["records_skipped"] == missing > 15 * RATE


def test_what_was_produced_before_anybody_subscribed_is_not_skipped() -> None:
    """The group begins to read a topic a minute after its creation, and so at the end."""
    both = SubscriptionChange(at_ms=50_000, client="a", topics=("orders", "refunds"))
    alone, changed = run(), run(both)
    assert changed["records_delivered"] > alone["records_delivered"]
    # Until it has rejoined, and has a position: a heartbeat or two, and the join.
    assert 0 <= changed["records_skipped"] - alone["records_skipped"] < 10 * RATE
