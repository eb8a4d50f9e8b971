"""A consumer group with one member of each protocol, and short ways to look at it."""

from __future__ import annotations

from typing import Any

from classic_builders import ClassicBench, subscription, text

from rebalance_sim.protocol.consumer.consumer_member import Member
from rebalance_sim.protocol.wire.records import MemberState
from rebalance_sim.protocol.wire.topics import TopicPartition

__all__ = ["epoch", "member", "mixed", "owned"]


def member(bench: ClassicBench, name: str) -> Member:
    return bench.consumers.members[bench.id(name)]


def epoch(bench: ClassicBench, name: str) -> int:
    return member(bench, name).member_epoch


def owned(*numbers: int) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition("foo", number) for number in numbers)


def mixed(**options: Any) -> ClassicBench:
    """X (consumer protocol) and A (classic), each with half of foo, all settled."""
    bench = ClassicBench(**options)
    bench.consume("X")
    bench.join("A")
    bench.consume("X", 2, topic_partitions=owned(0, 1, 2, 3))
    bench.consume("X", 2, topic_partitions=owned(0, 1))
    bench.join("A", metadata=subscription(generation=3))
    bench.sync("A", generation=3)
    assert (epoch(bench, "A"), epoch(bench, "X")) == (3, 3)
    assert text(member(bench, "A").assigned) == "foo-2 foo-3"
    assert member(bench, "A").state is MemberState.STABLE
    return bench
