"""Random groups for property-based tests of the assignors (assignors §13)."""

from __future__ import annotations

from dataclasses import dataclass

from assignor_builders import Counts, group
from hypothesis import strategies as st

from rebalance_sim.protocol.assignors.server import GroupSpec, MemberSpec, UniformAssignor
from rebalance_sim.protocol.wire.topics import TopicPartition

ids = st.text(alphabet="abcXYZ019-é", min_size=1, max_size=4)
"""Random ids, so that a newcomer lands anywhere in the order."""

partition_counts = st.sampled_from([0, 1, 2, 3, 4, 5, 6, 7, 8, 11, 13, 20])

Subscriptions = list[frozenset[str]]


@dataclass(frozen=True)
class Case:
    """A valid group and its topics."""

    spec: GroupSpec
    counts: Counts


@st.composite
def subscriptions(
    draw: st.DrawFn, topic_ids: list[str], member_count: int, shape: str
) -> Subscriptions:
    everything = frozenset(topic_ids)
    subset = st.frozensets(st.sampled_from(topic_ids))
    if shape == "equal":
        return [everything] * member_count
    if shape == "subsets":
        return [draw(subset) for _ in range(member_count)]
    if shape == "one empty":
        without = draw(st.integers(0, member_count - 1))
        return [frozenset() if m == without else everything for m in range(member_count)]
    if shape == "blocks":
        block_of = [draw(st.integers(0, 2)) for _ in range(member_count)]
        return [frozenset(topic_ids[block::3]) for block in block_of]
    if shape == "chain":
        return [frozenset(topic_ids[m : m + 2]) for m in range(member_count)]
    raise ValueError(shape)


@st.composite
def current_targets(
    draw: st.DrawFn, subs: Subscriptions, counts: Counts, kind: str
) -> list[frozenset[TopicPartition]]:
    """Disjoint targets within the partition counts."""
    held: list[list[TopicPartition]] = [[] for _ in subs]
    if kind == "none" or not subs:
        return [frozenset() for _ in subs]
    partitions = [TopicPartition(t, p) for t in sorted(counts) for p in range(counts[t])]
    size = len(partitions)
    if kind == "skewed":
        weights = st.sampled_from([0] * 4 + [len(subs) - 1])
    else:
        weights = st.integers(0, len(subs) - 1)
    picks = draw(st.lists(weights, min_size=size, max_size=size))
    if kind == "partial":
        dropped = draw(st.lists(st.booleans(), min_size=size, max_size=size))
    for number, partition in enumerate(partitions):
        if kind == "partial" and dropped[number]:
            continue
        readers = [m for m, topics in enumerate(subs) if partition.topic_id in topics]
        if kind == "any topic":
            readers = list(range(len(subs)))
        if readers:
            held[readers[picks[number] % len(readers)]].append(partition)
    return [frozenset(h) for h in held]


@st.composite
def cases(
    draw: st.DrawFn,
    *,
    shapes: tuple[str, ...] = ("equal", "subsets", "one empty", "blocks", "chain"),
    currents: tuple[str, ...] = ("none", "balanced", "skewed", "random", "partial", "any topic"),
    min_members: int = 0,
) -> Case:
    member_ids = draw(st.lists(ids, min_size=min_members, max_size=8, unique=True))
    topic_ids = sorted(draw(st.lists(ids, min_size=1, max_size=6, unique=True)))
    counts = {t: draw(partition_counts) for t in topic_ids}
    shape = draw(st.sampled_from(shapes))
    subs = draw(subscriptions(topic_ids, len(member_ids), shape)) if member_ids else []
    instance_ids = draw(st.lists(ids, min_size=8, max_size=8, unique=True))
    is_static = st.sampled_from([True] * 3 + [False] * 7)
    statics = [draw(is_static) for _ in member_ids]
    kind = draw(st.sampled_from(currents))
    held = draw(current_targets(subs, counts, kind))
    members = {
        member_id: MemberSpec(
            instance_id=instance_ids[n] if statics[n] else None,
            subscribed_topic_ids=subs[n],
            current=held[n],
        )
        for n, member_id in enumerate(member_ids)
    }
    case = Case(spec=group(members), counts=counts)
    return draw(balanced(case)) if kind == "balanced" else case


@st.composite
def balanced(draw: st.DrawFn, case: Case) -> Case:
    """The same group with a complete balanced target, dealt out with the members renamed.

    So the extra partitions sit anywhere in the order, as they do after a history of joins.
    """
    shuffled = dict(
        zip(case.spec.members, draw(st.permutations(list(case.spec.members))), strict=True)
    )
    renamed = {shuffled[m]: s for m, s in case.spec.members.items()}
    dealt = UniformAssignor().assign(group(renamed), case.counts)
    members = {
        m: MemberSpec(
            instance_id=s.instance_id,
            subscribed_topic_ids=s.subscribed_topic_ids,
            current=dealt.get(shuffled[m], frozenset()),
        )
        for m, s in case.spec.members.items()
    }
    return Case(spec=group(members), counts=case.counts)


def homogeneous_cases(**options: object) -> st.SearchStrategy[Case]:
    """Groups in which everybody reads every topic."""
    return cases(shapes=("equal",), **options)  # type: ignore[arg-type]
