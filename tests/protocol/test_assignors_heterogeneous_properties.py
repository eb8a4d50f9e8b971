"""Properties 24 to 31 of assignors §13: uniform in heterogeneous groups."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from assignor_builders import (
    HETEROGENEOUS,
    Target,
    all_partitions,
    assign,
    current_of,
    group,
    loads,
    member,
    numbers,
    renamed,
    subscribed_topics,
    subscribers,
)
from assignor_literal import literal_heterogeneous
from assignor_strategies import Case, cases, homogeneous_cases, ids
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from rebalance_sim.protocol.assignors.server import GroupSpec, UniformAssignor
from rebalance_sim.protocol.assignors.server.uniform_heterogeneous import assign_heterogeneous
from rebalance_sim.protocol.wire.topics import TopicPartition

UNIFORM = UniformAssignor()
checked = settings(max_examples=60, deadline=None)


def assert_locally_balanced(spec: GroupSpec, target: Target, counts: dict[str, int]) -> None:
    """assignors §6.5."""
    sizes = loads(target)
    for topic_id in counts:
        readers = subscribers(spec, topic_id)
        owners = [m for m in readers if numbers(target[m], topic_id)]
        if len(readers) > 1 and owners:
            assert max(sizes[m] for m in owners) - min(sizes[m] for m in readers) <= 1


def heterogeneous(spec: GroupSpec) -> GroupSpec:
    """The same members, stated to be heterogeneous whatever they subscribe to."""
    return replace(spec, subscription_type=HETEROGENEOUS)


class TestUniformHeterogeneous:
    @checked
    @given(case=cases(min_members=1))
    def test_24_25_settled_result_is_locally_balanced(self, case: Case) -> None:
        spec = heterogeneous(case.spec)
        outcome = assign_heterogeneous(spec, case.counts)
        assert outcome.is_settled, "groups of this size need 7 rounds at most (assignors §6.5)"
        target = {m: outcome.targets.get(m, frozenset()) for m in spec.members}
        assert_locally_balanced(spec, target, dict(case.counts))
        sizes = loads(target)
        for a in spec.members:
            for b in spec.members:
                same = spec.members[a].subscribed_topic_ids == spec.members[b].subscribed_topic_ids
                assert not same or abs(sizes[a] - sizes[b]) <= 1

    @checked
    @given(case=cases(shapes=("blocks",), min_members=1))
    def test_25_disjoint_blocks_need_one_working_round(self, case: Case) -> None:
        outcome = assign_heterogeneous(heterogeneous(case.spec), case.counts)
        assert outcome.is_settled
        assert outcome.round_count <= 2

    @checked
    @given(case=cases(currents=("balanced",), min_members=1), data=st.data())
    def test_26_balanced_input_stays_under_any_renaming(
        self, case: Case, data: st.DataObject
    ) -> None:
        shuffled = data.draw(st.permutations(list(case.spec.members)))
        names = dict(zip(case.spec.members, shuffled, strict=True))
        spec = renamed(heterogeneous(case.spec), names)
        assert current_of(spec) == assign(UNIFORM, spec, case.counts)

    @checked
    @given(case=cases(min_members=1))
    def test_27_a_single_subscriber_gets_the_whole_topic(self, case: Case) -> None:
        target = assign(UNIFORM, heterogeneous(case.spec), case.counts)
        for topic_id, n in case.counts.items():
            readers = subscribers(case.spec, topic_id)
            if len(readers) == 1:
                assert list(range(n)) == numbers(target[readers[0]], topic_id)

    @checked
    @given(case=cases(min_members=1), newcomer=ids)
    def test_28_a_member_without_subscription_changes_no_one_else(
        self, case: Case, newcomer: str
    ) -> None:
        assume(newcomer not in case.spec.members)
        spec = heterogeneous(case.spec)
        before = assign(UNIFORM, spec, case.counts)
        with_idler = {**spec.members, newcomer: member("")}
        after = assign(UNIFORM, replace(spec, members=with_idler), case.counts)
        assert {**before, newcomer: frozenset()} == after

    @checked
    @given(case=cases(min_members=1))
    def test_29_balancing_never_spreads_the_loads(self, case: Case) -> None:
        spec = heterogeneous(case.spec)
        filled = assign_heterogeneous(spec, case.counts, max_round_count=0).targets
        balanced = assign_heterogeneous(spec, case.counts).targets
        assert sum(n * n for n in loads(balanced).values()) <= sum(
            n * n for n in loads(filled).values()
        )

    @checked
    @given(case=homogeneous_cases(min_members=1))
    def test_30_equal_subscriptions_on_this_path_give_loads_within_one(self, case: Case) -> None:
        target = assign(UNIFORM, heterogeneous(case.spec), case.counts)
        sizes = loads(target).values()
        assert max(sizes) - min(sizes) <= 1
        assert sum(case.counts.values()) == sum(sizes)

    @settings(checked, max_examples=200)
    @given(case=cases(min_members=1))
    def test_31_agrees_with_the_literal_form_in_small_groups(self, case: Case) -> None:
        spec = heterogeneous(case.spec)
        assume(subscribed_topics(spec))
        expected, round_count = literal_heterogeneous(spec, case.counts)
        outcome = assign_heterogeneous(spec, case.counts)
        assert expected == outcome.targets
        assert round_count == outcome.round_count

    @pytest.mark.parametrize("seed", range(40))
    def test_31_agrees_with_the_literal_form_in_larger_groups(self, seed: int) -> None:
        rng = random.Random(seed)
        for spec, counts in (random_overlap(rng), heavy_outsiders(rng)):
            expected, round_count = literal_heterogeneous(spec, counts)
            outcome = assign_heterogeneous(spec, counts)
            assert expected == outcome.targets
            assert round_count == outcome.round_count

    def test_31_the_larger_groups_need_several_rounds(self) -> None:
        """Or the comparison with the literal form would prove little."""
        outcomes = [
            assign_heterogeneous(*random_overlap(random.Random(seed))) for seed in range(40)
        ]
        assert sum(outcome.round_count > 2 for outcome in outcomes) > 10


def random_overlap(rng: random.Random) -> tuple[GroupSpec, dict[str, int]]:
    """Up to 20 members that read a few of up to 10 topics each, and hold them very unevenly."""
    topic_ids = [f"t{n}" for n in range(rng.randint(2, 10))]
    counts = {t: rng.randint(0, 40) for t in topic_ids}
    reads = {
        f"m{rng.randrange(10**6):06}": rng.sample(topic_ids, rng.randint(0, min(3, len(topic_ids))))
        for _ in range(rng.randint(2, 20))
    }
    return unevenly_held(reads, counts, rng)


def heavy_outsiders(rng: random.Random) -> tuple[GroupSpec, dict[str, int]]:
    """Members of one topic, some as heavy by a topic of their own of which they cannot give."""
    reads = {f"m{rng.randrange(10**6):06}": ["hot"] for _ in range(rng.randint(3, 12))}
    counts = {"hot": rng.randint(5, 40)}
    for n, topics in enumerate(reads.values()):
        if rng.random() < 0.5:
            topics.append(f"own{n}")
            counts[f"own{n}"] = rng.randint(1, 8)
    return unevenly_held(reads, counts, rng)


def unevenly_held(
    reads: dict[str, list[str]], counts: dict[str, int], rng: random.Random
) -> tuple[GroupSpec, dict[str, int]]:
    """A fifth of the partitions is new; the others are mostly with the first readers."""
    held: dict[str, list[TopicPartition]] = {m: [] for m in reads}
    for partition in all_partitions(counts, counts):
        readers = [m for m in sorted(reads) if partition.topic_id in reads[m]]
        if readers and rng.random() < 0.8:
            held[readers[int(len(readers) * rng.random() ** 3)]].append(partition)
    members = {m: member(" ".join(topics), frozenset(held[m])) for m, topics in reads.items()}
    return group(members, HETEROGENEOUS), counts
