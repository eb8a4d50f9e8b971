"""What a target assignment costs, by assignor, size, shape of subscriptions and kind of change.

Run: ``python benchmarks/assignors.py [--large]``.

Times are the best of several calls. The column "x loop" divides them by the time of a plain loop,
in the same run, that deals the same partitions out in turn: the least a computation from nothing
has to do. Ratios compare between machines; milliseconds do not.

Sizes and kinds follow assignors §12. "full" computes from nothing, "join" is one member more on a
settled group, "same" computes a settled group again. "buckets" are five disjoint blocks of members
and topics as in Kafka's own benchmark; there subscriptions never overlap in part, so "overlap" lets
each member read a window of a tenth of the topics, shifted from member to member.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from time import perf_counter

from rebalance_sim.protocol.assignors.server import (
    Assignor,
    GroupSpec,
    MemberSpec,
    RangeAssignor,
    SubscriptionType,
    UniformAssignor,
)
from rebalance_sim.protocol.wire.topics import TopicPartition

BUCKET_COUNT = 5
REPEAT_COUNT = 7
SIZES = [(100, 10, 10), (100, 100, 10), (1000, 10, 10), (1000, 100, 10)]
"""(members, topics, partitions per member)"""
LARGE_SIZES = [(10_000, 100, 10), (10_000, 100, 50)]

Target = Mapping[str, frozenset[TopicPartition]]


def main() -> None:
    parser = argparse.ArgumentParser(description="Cost of computing a target assignment.")
    parser.add_argument("--large", action="store_true", help="add 10,000 members")
    sizes = SIZES + (LARGE_SIZES if parser.parse_args().large else [])
    row = "{:8} {:>7} {:>6} {:>10} {:11} {:5} {:>9} {:>7} {:>6}"
    print(
        row.format(
            "assignor",
            "members",
            "topics",
            "partitions",
            "shape",
            "kind",
            "ms",
            "us/part",
            "x loop",
        )
    )
    for member_count, topic_count, ratio in sizes:
        counts = {f"topic-{n:04}": member_count * ratio // topic_count for n in range(topic_count)}
        partition_count = sum(counts.values())
        loop = best_time(partial(deal_out, counts, member_count))
        for assignor, shape, kind, spec in cases(member_count, counts):
            seconds = best_time(partial(assignor.assign, spec, counts))
            print(
                row.format(
                    assignor.name,
                    member_count,
                    topic_count,
                    partition_count,
                    shape,
                    kind,
                    f"{seconds * 1e3:.2f}",
                    f"{seconds * 1e6 / partition_count:.3f}",
                    f"{seconds / loop:.2f}",
                )
            )


def cases(
    member_count: int, counts: Mapping[str, int]
) -> Iterator[tuple[Assignor, str, str, GroupSpec]]:
    """(assignor, shape, kind, group) of each row for one size."""
    assignors: list[Assignor] = [RangeAssignor(), UniformAssignor()]
    for assignor in assignors:
        for shape, subscriptions in shapes(member_count, sorted(counts)).items():
            # Real member ids are random; sequential ones would hide effects of the order.
            rng = random.Random(0)
            topics_of = {f"{rng.getrandbits(64):016x}": topics for topics in subscriptions}
            newcomer = list(topics_of)[-1]
            before = {m: topics for m, topics in topics_of.items() if m != newcomer}
            settled = assignor.assign(group_of(before, {}), counts)
            yield assignor, shape, "full", group_of(topics_of, {})
            yield assignor, shape, "join", group_of(topics_of, settled)
            yield assignor, shape, "same", group_of(before, settled)


def shapes(member_count: int, topic_ids: list[str]) -> dict[str, list[frozenset[str]]]:
    """Name -> subscription of each member."""
    everything = frozenset(topic_ids)
    window = max(1, len(topic_ids) // 10)
    buckets = [
        frozenset(slice_of(topic_ids, n * BUCKET_COUNT // member_count))
        for n in range(member_count)
    ]
    overlap = [
        frozenset((topic_ids * 2)[start : start + window + 1])
        for start in (n * len(topic_ids) // member_count for n in range(member_count))
    ]
    return {"homogeneous": [everything] * member_count, "buckets": buckets, "overlap": overlap}


def slice_of(topic_ids: list[str], bucket: int) -> list[str]:
    size = -(-len(topic_ids) // BUCKET_COUNT)
    return topic_ids[bucket * size : (bucket + 1) * size]


def group_of(topics_of: Mapping[str, frozenset[str]], target: Target) -> GroupSpec:
    same = len(set(topics_of.values())) <= 1
    return GroupSpec(
        members={
            m: MemberSpec(subscribed_topic_ids=topics, current=target.get(m, frozenset()))
            for m, topics in topics_of.items()
        },
        subscription_type=SubscriptionType.HOMOGENEOUS if same else SubscriptionType.HETEROGENEOUS,
    )


def deal_out(counts: Mapping[str, int], member_count: int) -> list[frozenset[TopicPartition]]:
    """The loop of reference: each partition to the next member in turn."""
    shares: list[list[TopicPartition]] = [[] for _ in range(member_count)]
    turn = 0
    for topic_id, count in counts.items():
        for partition in range(count):
            shares[turn % member_count].append(TopicPartition(topic_id, partition))
            turn += 1
    return [frozenset(share) for share in shares]


def best_time(call: Callable[[], object]) -> float:
    """Seconds of the fastest of several calls."""
    times = []
    for _ in range(REPEAT_COUNT):
        start = perf_counter()
        call()
        times.append(perf_counter() - start)
    return min(times)


if __name__ == "__main__":
    main()
