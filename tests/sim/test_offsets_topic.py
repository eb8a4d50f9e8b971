"""Which partition of ``__consumer_offsets`` holds a group, and which broker leads it."""

from __future__ import annotations

import pytest

from rebalance_sim.protocol.hosting.offsets_topic import partition_for
from rebalance_sim.sim.broker.registration import replica_order


@pytest.mark.parametrize(
    ("group_id", "partition"),
    [
        ("group", 47),
        ("group-b", 48),
        ("payments", 13),
        ("orders-service", 17),
        ("poly", 32),
        ("gruppe-ä", 48),
        ("emoji-\N{GRINNING FACE}", 6),  # two UTF-16 code units
        ("zzzzzz", 14),  # its hash is negative; without the sign bit it would be 34
    ],
)
def test_a_group_lives_where_a_broker_with_fifty_partitions_kept_it(
    group_id: str, partition: int
) -> None:
    """As seen in the logs of Apache Kafka 4.3.1 after a commit of each group."""
    assert partition_for(group_id, 50) == partition


def test_a_hash_without_an_absolute_value_is_partition_0() -> None:
    # The hash of this word is the least integer of 32 bits.
    assert partition_for("polygenelubricants", 7) == 0


@pytest.mark.parametrize("count", [0, -1])
def test_a_topic_without_partitions_holds_no_group(count: int) -> None:
    with pytest.raises(ValueError, match="partition_count must be >= 1"):
        partition_for("group", count)


def test_one_partition_holds_every_group() -> None:
    assert {partition_for(group_id, 1) for group_id in ("group", "zzzzzz", "")} == {0}


def test_leaders_go_round_the_brokers_and_what_one_led_spreads_when_it_dies() -> None:
    orders = [replica_order(partition, 3) for partition in range(6)]
    assert [order[0] for order in orders] == [0, 1, 2, 0, 1, 2]
    assert all(sorted(order) == [0, 1, 2] for order in orders)
    assert {order[1] for order in orders if order[0] == 0} == {1, 2}
    assert replica_order(0, 4) == (0, 1, 2, 3)
    assert replica_order(5, 1) == (0,)
