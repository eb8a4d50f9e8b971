"""The properties of assignors §13, numbered as there.

Numbers 24 to 31 stand in test_assignors_heterogeneous_properties.py.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest
from assignor_builders import (
    HETEROGENEOUS,
    HOMOGENEOUS,
    Target,
    all_partitions,
    assign,
    current_of,
    group,
    loads,
    moved,
    numbers,
    renamed,
    subscribed_topics,
    subscribers,
    with_current,
)
from assignor_strategies import Case, cases, homogeneous_cases, ids
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from rebalance_sim.protocol.assignors.server import (
    Assignor,
    GroupSpec,
    MemberSpec,
    PartitionAssignorError,
    RangeAssignor,
    UniformAssignor,
    java_hash_map_order,
    validate,
)
from rebalance_sim.protocol.assignors.server.uniform_heterogeneous import assign_heterogeneous
from rebalance_sim.protocol.defects.assignor import MovesExtraToFirst
from rebalance_sim.protocol.wire.topics import TopicPartition

RANGE = RangeAssignor()
UNIFORM = UniformAssignor()
UNIFORM_4_0 = MovesExtraToFirst()
EVERY_ASSIGNOR = pytest.mark.parametrize(
    "assignor",
    [RANGE, UNIFORM, UniformAssignor(order=java_hash_map_order), UNIFORM_4_0],
    ids=["range", "uniform", "uniform in hash order", "uniform of 4.0"],
)
checked = settings(max_examples=40, deadline=None)


def is_settled(spec: GroupSpec, case: Case) -> bool:
    """The round limit was not hit (only a heterogeneous group can hit it)."""
    if spec.subscription_type is HOMOGENEOUS:
        return True
    return assign_heterogeneous(spec, case.counts).is_settled


def kept_count(spec: GroupSpec, target: Target) -> dict[str, int]:
    return {m: len(spec.members[m].current & target[m]) for m in spec.members}


def still_held_count(spec: GroupSpec) -> dict[str, int]:
    """c_i of assignors §5.4: current partitions of topics that are still subscribed."""
    return {
        m: sum(tp.topic_id in s.subscribed_topic_ids for tp in s.current)
        for m, s in spec.members.items()
    }


class TestBothAssignors:
    @EVERY_ASSIGNOR
    @checked
    @given(case=cases())
    def test_01_02_03_covers_each_subscribed_partition_once_and_reaches_subscribers_only(
        self, assignor: Assignor, case: Case
    ) -> None:
        target = assign(assignor, case.spec, case.counts)
        given_out = sorted(tp for held in target.values() for tp in held)
        assert all_partitions(case.counts, subscribed_topics(case.spec)) == given_out
        for member_id, held in target.items():
            assert {tp.topic_id for tp in held} <= case.spec.members[member_id].subscribed_topic_ids
            assert type(held) is frozenset
            assert all(type(tp) is TopicPartition for tp in held)

    @EVERY_ASSIGNOR
    @checked
    @given(case=cases())
    def test_04_is_pure_and_hands_back_unchanged_sets(self, assignor: Assignor, case: Case) -> None:
        counts = dict(case.counts)
        members = {m: replace(s) for m, s in case.spec.members.items()}
        first = assign(assignor, case.spec, counts)
        assert first == assign(assignor, case.spec, counts)
        assert case.counts == counts
        assert members == case.spec.members
        for member_id, held in assignor.assign(case.spec, counts).items():
            current = case.spec.members[member_id].current
            assert (held is current) is (held == current)

    @EVERY_ASSIGNOR
    @checked
    @given(case=cases(), data=st.data())
    def test_05_insertion_order_has_no_influence(
        self, assignor: Assignor, case: Case, data: st.DataObject
    ) -> None:
        def shuffled(items: list[str]) -> list[str]:
            return data.draw(st.permutations(items))

        members = {
            m: replace(
                case.spec.members[m],
                subscribed_topic_ids=frozenset(
                    shuffled(sorted(case.spec.members[m].subscribed_topic_ids))
                ),
                current=frozenset(sorted(case.spec.members[m].current, reverse=True)),
            )
            for m in shuffled(list(case.spec.members))
        }
        counts = {t: case.counts[t] for t in shuffled(list(case.counts))}
        again = assign(assignor, replace(case.spec, members=members), counts)
        assert assign(assignor, case.spec, case.counts) == again

    @EVERY_ASSIGNOR
    @checked
    @given(case=cases())
    def test_06_result_fed_back_stays(self, assignor: Assignor, case: Case) -> None:
        assume(assignor is RANGE or is_settled(case.spec, case))
        target = assign(assignor, case.spec, case.counts)
        assert target == assign(assignor, with_current(case.spec, target), case.counts)

    @EVERY_ASSIGNOR
    @checked
    @given(case=cases(min_members=1), data=st.data())
    def test_07_unknown_topic_raises(
        self, assignor: Assignor, case: Case, data: st.DataObject
    ) -> None:
        assume(subscribed_topics(case.spec))
        unknown = data.draw(st.sampled_from(sorted(subscribed_topics(case.spec))))
        counts = {t: n for t, n in case.counts.items() if t != unknown}
        with pytest.raises(PartitionAssignorError, match="unknown topic"):
            assignor.assign(case.spec, counts)

    @EVERY_ASSIGNOR
    @checked
    @given(case=cases(min_members=1))
    def test_08_extremes_of_one_member_no_member_and_no_partitions(
        self, assignor: Assignor, case: Case
    ) -> None:
        member_id, alone = next(iter(case.spec.members.items()))
        for stated in (HOMOGENEOUS, HETEROGENEOUS):
            target = assign(assignor, group({member_id: alone}, stated), case.counts)
            expected = all_partitions(case.counts, alone.subscribed_topic_ids)
            assert expected == sorted(target[member_id])
            assert assignor.assign(group({}, stated), case.counts) == {}
        no_partitions = dict.fromkeys(case.counts, 0)
        target = assign(assignor, with_current(case.spec, {}), no_partitions)
        assert {m: frozenset() for m in case.spec.members} == target

    @EVERY_ASSIGNOR
    @checked
    @given(case=cases(), racks=st.lists(st.sampled_from(["r1", "r2", None]), min_size=8))
    def test_09_racks_and_for_uniform_instance_ids_have_no_influence(
        self, assignor: Assignor, case: Case, racks: list[str | None]
    ) -> None:
        members = {
            m: replace(s, rack_id=rack)
            for (m, s), rack in zip(case.spec.members.items(), racks, strict=False)
        }
        if assignor is not RANGE:
            members = {m: replace(s, instance_id=None) for m, s in members.items()}
        changed = assign(assignor, replace(case.spec, members=members), case.counts)
        assert assign(assignor, case.spec, case.counts) == changed

    @EVERY_ASSIGNOR
    @checked
    @given(case=cases(), data=st.data())
    def test_10_renaming_topics_in_order_commutes(
        self, assignor: Assignor, case: Case, data: st.DataObject
    ) -> None:
        size = len(case.counts)
        fresh = sorted(data.draw(st.lists(ids, min_size=size, max_size=size, unique=True)))
        names = dict(zip(sorted(case.counts), fresh, strict=True))

        def translated(held: frozenset[TopicPartition]) -> frozenset[TopicPartition]:
            return frozenset(TopicPartition(names[tp.topic_id], tp.partition) for tp in held)

        members = {
            m: replace(
                s,
                subscribed_topic_ids=frozenset(names[t] for t in s.subscribed_topic_ids),
                current=translated(s.current),
            )
            for m, s in case.spec.members.items()
        }
        counts = {names[t]: n for t, n in case.counts.items()}
        expected = assign(assignor, case.spec, case.counts)
        actual = assign(assignor, replace(case.spec, members=members), counts)
        assert {m: translated(held) for m, held in expected.items()} == actual


def range_members(case: Case) -> list[str]:
    """assignors §3.1 word for word: static members by instance id, then the others by id."""
    members = case.spec.members
    static = sorted((s.instance_id, m) for m, s in members.items() if s.instance_id is not None)
    return [m for _, m in static] + sorted(m for m, s in members.items() if s.instance_id is None)


class TestRange:
    @checked
    @given(case=cases())
    def test_11_intervals_follow_the_order_and_the_closed_form(self, case: Case) -> None:
        target = assign(RANGE, case.spec, case.counts)
        for topic_id, n in case.counts.items():
            readers = set(subscribers(case.spec, topic_id))
            ordered = [m for m in range_members(case) if m in readers]
            if not ordered:
                continue
            shares = [numbers(target[m], topic_id) for m in ordered]
            assert list(range(n)) == [p for share in shares for p in share]
            lengths = [len(share) for share in shares]
            assert sorted(lengths, reverse=True) == lengths
            assert max(lengths) - min(lengths) <= 1
            q, r = divmod(n, len(ordered))
            for i, share in enumerate(shares):
                start = i * q + min(i, r)
                assert list(range(start, start + q + (1 if i < r else 0))) == share

    @checked
    @given(case=cases(min_members=2), count=st.integers(0, 13))
    def test_12_equal_topics_are_co_partitioned(self, case: Case, count: int) -> None:
        counts = dict.fromkeys(case.counts, count)
        target = assign(RANGE, with_current(case.spec, {}), counts)
        for first, second in pairwise(sorted(counts)):
            if subscribers(case.spec, first) == subscribers(case.spec, second):
                for held in target.values():
                    assert numbers(held, first) == numbers(held, second)

    @checked
    @given(case=cases())
    def test_13_current_targets_have_no_influence(self, case: Case) -> None:
        fresh = assign(RANGE, with_current(case.spec, {}), case.counts)
        assert fresh == assign(RANGE, case.spec, case.counts)

    @checked
    @given(case=cases(min_members=1), new_id=ids)
    def test_14_a_static_member_with_a_new_id_keeps_its_place(
        self, case: Case, new_id: str
    ) -> None:
        static = [m for m, s in case.spec.members.items() if s.instance_id is not None]
        assume(static and new_id not in case.spec.members)
        names = {m: new_id if m == static[0] else m for m in case.spec.members}
        before = assign(RANGE, case.spec, case.counts)
        after = assign(RANGE, renamed(case.spec, names), case.counts)
        assert {names[m]: held for m, held in before.items()} == after

    @checked
    @given(case=cases(min_members=1), data=st.data())
    def test_15_another_topic_does_not_change_the_split_of_the_others(
        self, case: Case, data: st.DataObject
    ) -> None:
        dropped = data.draw(st.sampled_from(sorted(case.counts)))
        members = {
            m: replace(s, subscribed_topic_ids=s.subscribed_topic_ids - {dropped})
            for m, s in case.spec.members.items()
        }
        before = assign(RANGE, case.spec, case.counts)
        after = assign(RANGE, group(members), case.counts)
        for m, held in before.items():
            assert {tp for tp in held if tp.topic_id != dropped} == after[m]

    @checked
    @given(case=homogeneous_cases(min_members=1))
    def test_16_remainders_add_up_in_front(self, case: Case) -> None:
        target = assign(RANGE, case.spec, case.counts)
        ordered = range_members(case)
        sizes = [len(target[m]) for m in ordered]
        remainders = [n % len(ordered) for n in case.counts.values()]
        for i in range(len(ordered)):
            for j in range(i + 1, len(ordered)):
                assert sum(i < r <= j for r in remainders) == sizes[i] - sizes[j]


def quotas(case: Case) -> tuple[int, int]:
    return divmod(sum(case.counts.values()), len(case.spec.members))


class TestUniformHomogeneous:
    @pytest.mark.parametrize("assignor", [UNIFORM, UNIFORM_4_0])
    @checked
    @given(case=homogeneous_cases(min_members=1))
    def test_17_loads_differ_by_at_most_one(self, assignor: Assignor, case: Case) -> None:
        q, r = quotas(case)
        sizes = Counter(loads(assign(assignor, case.spec, case.counts)).values())
        assert Counter({q + 1: r, q: len(case.spec.members) - r}) == sizes

    @checked
    @given(case=homogeneous_cases(min_members=1))
    def test_18_keeps_exactly_what_the_rule_says(self, case: Case) -> None:
        q, r = quotas(case)
        held = still_held_count(case.spec)
        kept_4_0 = kept_count(case.spec, assign(UNIFORM_4_0, case.spec, case.counts))
        for i, m in enumerate(sorted(case.spec.members)):
            assert min(held[m], q + (i < r)) == kept_4_0[m]
        kept = kept_count(case.spec, assign(UNIFORM, case.spec, case.counts))
        above = sum(c > q for c in held.values())
        assert sum(min(c, q) for c in held.values()) + min(r, above) == sum(kept.values())

    @checked
    @given(case=homogeneous_cases(min_members=1))
    def test_19_nothing_moves_while_everybody_is_within_quota(self, case: Case) -> None:
        q, r = quotas(case)
        held = still_held_count(case.spec)
        current = current_of(case.spec)
        if all(held[m] <= q + (i < r) for i, m in enumerate(sorted(held))):
            assert set() == moved(current, assign(UNIFORM_4_0, case.spec, case.counts))
        if all(c <= q + 1 for c in held.values()) and sum(c > q for c in held.values()) <= r:
            assert set() == moved(current, assign(UNIFORM, case.spec, case.counts))

    @checked
    @given(case=homogeneous_cases(currents=("balanced",), min_members=1), data=st.data())
    def test_20_balanced_input_stays_under_any_renaming(
        self, case: Case, data: st.DataObject
    ) -> None:
        shuffled = data.draw(st.permutations(list(case.spec.members)))
        spec = renamed(case.spec, dict(zip(case.spec.members, shuffled, strict=True)))
        assert current_of(spec) == assign(UNIFORM, spec, case.counts)

    @checked
    @given(case=homogeneous_cases(currents=("balanced",), min_members=1), newcomer=ids)
    def test_21_one_joins_with_fewest_moves(self, case: Case, newcomer: str) -> None:
        assume(newcomer not in case.spec.members)
        everything = frozenset(case.counts)
        joined = {**case.spec.members, newcomer: MemberSpec(subscribed_topic_ids=everything)}
        target = assign(UNIFORM, group(joined), case.counts)
        changed = moved(current_of(case.spec), target)
        assert sum(case.counts.values()) // len(joined) == len(changed)
        assert changed == target[newcomer]

    @checked
    @given(case=homogeneous_cases(currents=("balanced",), min_members=2), data=st.data())
    def test_21_one_leaves_and_no_survivor_loses_anything(
        self, case: Case, data: st.DataObject
    ) -> None:
        leaver = data.draw(st.sampled_from(sorted(case.spec.members)))
        survivors = {m: s for m, s in case.spec.members.items() if m != leaver}
        target = assign(UNIFORM, group(survivors), case.counts)
        for m, s in survivors.items():
            assert s.current <= target[m]

    @checked
    @given(case=homogeneous_cases(min_members=1))
    def test_22_needless_moves_of_4_0_are_bounded(self, case: Case) -> None:
        _, r = quotas(case)
        current = current_of(case.spec)
        few = len(moved(current, assign(UNIFORM, case.spec, case.counts)))
        many = len(moved(current, assign(UNIFORM_4_0, case.spec, case.counts)))
        assert 0 <= many - few <= min(r, len(case.spec.members) - r)

    @checked
    @given(case=homogeneous_cases(currents=("balanced", "skewed"), min_members=1), data=st.data())
    def test_23_a_topic_dropped_by_all_is_gone(self, case: Case, data: st.DataObject) -> None:
        dropped = data.draw(st.sampled_from(sorted(case.counts)))
        members = {
            m: replace(s, subscribed_topic_ids=s.subscribed_topic_ids - {dropped})
            for m, s in case.spec.members.items()
        }
        target = assign(UNIFORM, group(members), case.counts)
        assert not any(numbers(held, dropped) for held in target.values())
        sizes = loads(target).values()
        assert max(sizes) - min(sizes) <= 1


@checked
@given(case=cases())
def test_generated_groups_meet_the_preconditions(case: Case) -> None:
    validate(case.spec, case.counts)
