"""What a target assignment costs, by assignor, size, shape of subscriptions and kind of change.

Run: ``python benchmarks/assignors.py [--large] [--classic]``.

CPU times, the best of several calls, with the collector off: a run of a scenario lets it look
rarely, too. Ratios compare between machines; milliseconds do not. "x loop" divides by the time of a
plain loop, in the same run, that deals the same partitions out in turn: the least a computation
from nothing has to do. "x sort" divides by the time of sorting the same partitions, which come in
random order; the target is that no assignor of brokers takes more than 3 times as long as that with
10,000 members. ``KafkaAssignors.java`` times Kafka's own.

Sizes and kinds follow assignors §12. "full" computes from nothing, "join" is one member more on a
settled group, "same" computes a settled group again. "buckets" are five disjoint blocks of members
and topics as in Kafka's own benchmark; there subscriptions never overlap in part, so "overlap" lets
each member read a window of a tenth of the topics, shifted from member to member. ``--classic``:
the assignors of classic clients, which take the same sizes and shapes.
"""

from __future__ import annotations

import argparse
import gc
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from time import process_time

from rebalance_sim.protocol.assignors.classic import (
    CLASSIC_ASSIGNORS,
    Assigned,
    ClaimingMember,
    ClassicAssignor,
)
from rebalance_sim.protocol.assignors.server import (
    Assignor,
    GroupSpec,
    MemberSpec,
    RangeAssignor,
    SubscriptionType,
    UniformAssignor,
)
from rebalance_sim.protocol.wire.embedded import Subscription
from rebalance_sim.protocol.wire.topics import TopicPartition

BUCKET_COUNT = 5
REPEAT_COUNT = 7
LONG_S = 5
SIZES = [(100, 10, 10), (100, 100, 10), (1000, 10, 10), (1000, 100, 10)]
"""(members, topics, partitions per member)"""
LARGE_SIZES = [(10_000, 100, 10), (10_000, 100, 50)]

Topics = Mapping[str, frozenset[str]]
Target = Mapping[str, frozenset[TopicPartition]]


@dataclass(frozen=True)
class Case:
    """A row: who computes what."""

    assignor: str
    shape: str
    kind: str
    compute: Callable[[], object]


def main() -> None:
    parser = argparse.ArgumentParser(description="Cost of computing an assignment.")
    parser.add_argument("--large", action="store_true", help="add 10,000 members")
    parser.add_argument("--classic", action="store_true", help="assignors of classic clients")
    arguments = parser.parse_args()
    cases = classic_cases if arguments.classic else server_cases
    row = "{:18} {:>7} {:>6} {:>10} {:11} {:5} {:>9} {:>7} {:>6} {:>6}"
    titles = "assignor members topics partitions shape kind ms us/part"
    print(row.format(*titles.split(), "x loop", "x sort"))
    gc.disable()
    for member_count, topic_count, ratio in SIZES + (LARGE_SIZES if arguments.large else []):
        counts = {f"topic-{n:04}": member_count * ratio // topic_count for n in range(topic_count)}
        partition_count = sum(counts.values())
        loop = best_time(partial(deal_out, counts, member_count))
        sort = best_time(partial(sorted, shuffled(counts)))
        for case in cases(member_count, counts):
            seconds = best_time(case.compute)
            print(
                row.format(
                    case.assignor,
                    member_count,
                    topic_count,
                    partition_count,
                    case.shape,
                    case.kind,
                    f"{seconds * 1e3:.2f}",
                    f"{seconds * 1e6 / partition_count:.3f}",
                    f"{seconds / loop:.2f}",
                    f"{seconds / sort:.2f}",
                ),
                flush=True,
            )


def server_cases(member_count: int, counts: Mapping[str, int]) -> Iterator[Case]:
    """The rows of the server-side assignors for one size."""
    assignors: list[Assignor] = [RangeAssignor(), UniformAssignor()]
    for assignor in assignors:
        for shape, topics_of in groups(member_count, counts):
            before = without_last(topics_of)
            settled = assignor.assign(group_of(before, {}), counts)
            specs = {
                "full": group_of(topics_of, {}),
                "join": group_of(topics_of, settled),
                "same": group_of(before, settled),
            }
            for kind, spec in specs.items():
                compute = partial(assignor.assign, spec, counts)
                yield Case(assignor.name, shape, kind, compute)


def classic_cases(member_count: int, counts: Mapping[str, int]) -> Iterator[Case]:
    """The rows of the classic assignors for one size."""
    for name, assignor in CLASSIC_ASSIGNORS.items():
        for shape, topics_of in groups(member_count, counts):
            before = without_last(topics_of)
            first = rows_of(assignor, before, {})
            settled = assignor.assign(partition_counts=counts, members=first)
            rows = {
                "full": rows_of(assignor, topics_of, {}),
                "join": rows_of(assignor, topics_of, settled),
                "same": rows_of(assignor, before, settled),
            }
            for kind, members in rows.items():
                compute = partial(assignor.assign, partition_counts=counts, members=members)
                yield Case(name, shape, kind, compute)


def groups(member_count: int, counts: Mapping[str, int]) -> Iterator[tuple[str, Topics]]:
    """Shape of subscriptions, and member id -> topics."""
    for shape, subscriptions in shapes(member_count, sorted(counts)).items():
        # Real member ids are random; sequential ones would hide effects of the order.
        rng = random.Random(0)
        yield shape, {f"{rng.getrandbits(64):016x}": topics for topics in subscriptions}


def without_last(topics_of: Topics) -> Topics:
    """The group before its last member came."""
    return dict(list(topics_of.items())[:-1])


def rows_of(
    assignor: ClassicAssignor, topics_of: Topics, settled: Assigned
) -> list[ClaimingMember]:
    """The leader's list, in which members claim what they got in the last generation."""
    rows = []
    for member_id, topics in topics_of.items():
        last = settled.get(member_id)
        generation_id = -1 if last is None else 1
        keeps = assignor.supports_cooperative and last is not None
        subscription = Subscription(
            topics=tuple(sorted(topics)),
            owned_partitions=last if keeps and last else (),
            generation_id=generation_id if keeps else -1,
            user_data=assignor.user_data(last_assigned=last, last_generation_id=generation_id),
        )
        rows.append(ClaimingMember(member_id=member_id, subscription=subscription))
    return rows


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


def shuffled(counts: Mapping[str, int]) -> list[TopicPartition]:
    """All partitions in random order."""
    partitions = [
        TopicPartition(t, number) for t, count in counts.items() for number in range(count)
    ]
    random.Random(1).shuffle(partitions)
    return partitions


def best_time(call: Callable[[], object]) -> float:
    """Seconds of CPU of the fastest of several calls; fewer, where one takes long."""
    times: list[float] = []
    while len(times) < REPEAT_COUNT and sum(times) < LONG_S:
        gc.collect()
        start = process_time()
        call()
        times.append(process_time() - start)
    return min(times)


if __name__ == "__main__":
    main()
