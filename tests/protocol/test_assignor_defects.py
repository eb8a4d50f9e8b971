"""Each defect of an assignor violates the property that its report names, and only its own.

Source: defects §10.
"""

from __future__ import annotations

import random

import pytest
from assignor_builders import (
    Target,
    assign,
    current_of,
    group,
    member,
    moved,
    parts,
    targets,
    with_current,
)

from rebalance_sim.protocol.assignors.server import (
    DEFAULT_ASSIGNORS,
    Assignor,
    PartitionAssignorError,
    RangeAssignor,
    UniformAssignor,
    java_hash_map_order,
)
from rebalance_sim.protocol.defects.assignor import (
    FailsOnEmptySubscription,
    MovesExtraToFirst,
    StickyRange,
)
from rebalance_sim.protocol.versions.semantics import SEMANTICS


def test_kafka_18688_moves_partitions_on_unchanged_input() -> None:
    """Three members, four partitions, the last one in order holds the extra one."""
    spec = group(
        {
            "m1": member("foo", "foo[0]"),
            "m2": member("foo", "foo[1]"),
            "m3": member("foo", "foo[2-3]"),
        }
    )
    counts = {"foo": 4}
    after = assign(MovesExtraToFirst(), spec, counts)
    assert moved(current_of(spec), after) == parts("foo[3]")
    assert current_of(spec) == assign(UniformAssignor(), spec, counts)


def needless_moves_of_joins(assignor: Assignor, rng: random.Random) -> int:
    """Moves beyond the P // M that each newcomer's share makes necessary (assignors §5.4)."""
    target: Target = {}
    count = 0
    for _ in range(8):
        newcomer = f"m{rng.randrange(10**6):06}"
        spec = with_current(group({m: member("foo") for m in [*target, newcomer]}), target)
        after = assign(assignor, spec, {"foo": 13})
        if target:
            count += len(moved(target, after)) - 13 // len(after)
        target = after
    return count


def test_kafka_18688_shows_when_members_join_in_random_order() -> None:
    """A newcomer that sorts first takes an extra partition away from somebody."""
    faulty = [needless_moves_of_joins(MovesExtraToFirst(), random.Random(s)) for s in range(20)]
    sound = [needless_moves_of_joins(UniformAssignor(), random.Random(s)) for s in range(20)]
    assert sum(faulty) > 0
    assert sum(sound) == 0


def test_kafka_16930_fails_while_a_member_has_no_topic() -> None:
    spec = group({"m1": member("foo bar"), "m2": member("foo"), "m3": member("")})
    counts = {"foo": 4, "bar": 2}
    with pytest.raises(PartitionAssignorError, match="m3"):
        FailsOnEmptySubscription().assign(spec, counts)
    expected = targets(m1="foo[3] bar[0-1]", m2="foo[0-2]", m3="")
    assert expected == assign(UniformAssignor(), spec, counts)


def test_kafka_16930_spares_groups_in_which_everybody_reads_something() -> None:
    spec = group({"m1": member("foo bar"), "m2": member("foo")})
    counts = {"foo": 4, "bar": 2}
    expected = assign(UniformAssignor(), spec, counts)
    assert expected == assign(FailsOnEmptySubscription(), spec, counts)


def grown_topics(assignor: Assignor) -> Target:
    """bar gets its third partition after one of three members has left."""
    three = group({m: member("bar foo") for m in ("m1", "m2", "m3")})
    target = assign(assignor, three, {"foo": 3, "bar": 2})
    two = group({m: member("bar foo", target[m]) for m in ("m2", "m3")})
    target = assign(assignor, two, {"foo": 3, "bar": 2})
    return assign(assignor, with_current(two, target), {"foo": 3, "bar": 3})


def is_co_partitioned(target: Target) -> bool:
    return all(
        {tp.partition for tp in held if tp.topic_id == "foo"}
        == {tp.partition for tp in held if tp.topic_id == "bar"}
        for held in target.values()
    )


def test_kafka_16944_splits_equal_topics_differently_when_one_grew_later() -> None:
    assert not is_co_partitioned(grown_topics(StickyRange()))
    assert is_co_partitioned(grown_topics(RangeAssignor()))


def test_kafka_16944_as_reported() -> None:
    """Three members read two topics of three partitions, of which one had a single reader."""
    spec = group(
        {
            "a": member("foo bar", "foo[0]"),
            "b": member("foo bar", "foo[1] bar[0-2]"),
            "c": member("foo bar", "foo[2]"),
        }
    )
    counts = {"foo": 3, "bar": 3}
    sticky = assign(StickyRange(), spec, counts)
    assert not is_co_partitioned(sticky)
    assert dict.fromkeys("abc", 2) == {m: len(held) for m, held in sticky.items()}
    assert all(s.current & sticky[m] for m, s in spec.members.items())
    assert is_co_partitioned(assign(RangeAssignor(), spec, counts))


def test_sticky_range_hands_back_unchanged_sets_and_knows_its_topics() -> None:
    spec = group({"a": member("foo", "foo[1]"), "b": member("foo", "foo[0]"), "c": member("")})
    result = StickyRange().assign(spec, {"foo": 2})
    assert all(result[m] is s.current for m, s in spec.members.items())
    with pytest.raises(PartitionAssignorError, match="foo"):
        StickyRange().assign(spec, {})


def test_defects_of_one_assignor_combine() -> None:
    names = ("KAFKA-18688", "KAFKA-16930", "KAFKA-16944")
    assignors = SEMANTICS["kafka-4.3"].with_defects(*names).coordinator.assignors
    assert list(assignors) == ["uniform", "range"]
    uniform = assignors["uniform"]
    assert isinstance(uniform, MovesExtraToFirst)
    assert isinstance(uniform, FailsOnEmptySubscription)
    assert isinstance(assignors["range"], StickyRange)
    extra = group({"m1": member("foo", "foo[0]"), "m2": member("foo", "foo[1-2]")})
    assert targets(m1="foo[0,2]", m2="foo[1]") == assign(uniform, extra, {"foo": 3})
    with pytest.raises(PartitionAssignorError):
        uniform.assign(group({"m1": member("foo"), "m2": member("")}), {"foo": 3})


def test_without_defects_the_assignors_are_the_plain_ones() -> None:
    clean = SEMANTICS["kafka-4.4-clean"]
    assert clean.coordinator.assignors is DEFAULT_ASSIGNORS
    assert clean.rules(UniformAssignor) is UniformAssignor
    assert clean.with_defects("mut-early-grant").rules(RangeAssignor) is RangeAssignor
    in_order = clean.with_defects("KAFKA-16930").rules(UniformAssignor)(order=java_hash_map_order)
    spec = group({"A": member("foo"), "B2": member("foo")})
    assert targets(A="foo[1]", B2="foo[0]") == assign(in_order, spec, {"foo": 2})
