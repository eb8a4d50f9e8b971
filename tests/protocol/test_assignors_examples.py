"""The worked examples of assignors §11, and the figures of assignors §6.5.

The expectations were produced by Kafka's own classes, not by this code.
"""

from __future__ import annotations

from itertools import pairwise

import pytest
from assignor_builders import (
    HETEROGENEOUS,
    HOMOGENEOUS,
    Target,
    assign,
    group,
    member,
    parts,
    targets,
    with_current,
)

from rebalance_sim.protocol.assignors.server import RangeAssignor, UniformAssignor
from rebalance_sim.protocol.assignors.server.uniform_heterogeneous import assign_heterogeneous
from rebalance_sim.protocol.defects.assignor import MovesExtraToFirst

RANGE = RangeAssignor()
UNIFORM = UniformAssignor()
UNIFORM_4_0 = MovesExtraToFirst()
"""The rule of assignors §5.2, which 4.0 has."""


def test_r1_range_remainders_add_up() -> None:
    spec = group({c: member("orders payments audit") for c in ("c1", "c2", "c3")})
    assert targets(
        c1="orders[0-2] payments[0-2] audit[0]",
        c2="orders[3-4] payments[3-4] audit[1]",
        c3="orders[5-6] payments[5-6]",
    ) == assign(RANGE, spec, {"orders": 7, "payments": 7, "audit": 2})


def test_r2_range_puts_static_members_first() -> None:
    spec = group(
        {
            "k9": member("clicks"),
            "a1": member("clicks", instance_id="zeta"),
            "z7": member("clicks", instance_id="alpha"),
        }
    )
    expected = targets(z7="clicks[0-2]", a1="clicks[3-5]", k9="clicks[6-7]")
    assert expected == assign(RANGE, spec, {"clicks": 8})


def test_r3_range_with_mixed_subscriptions() -> None:
    spec = group({"p": member("x y"), "q": member("x"), "r": member("y")})
    assert spec.subscription_type is HETEROGENEOUS
    expected = targets(p="x[0-2] y[0-1]", q="x[3-4]", r="y[2-3]")
    assert expected == assign(RANGE, spec, {"x": 5, "y": 4})


def test_r4_range_shifts_everybody_when_one_joins() -> None:
    counts = {"clicks": 6}
    two = group({"m1": member("clicks"), "m2": member("clicks")})
    first = assign(RANGE, two, counts)
    assert targets(m1="clicks[0-2]", m2="clicks[3-5]") == first
    three = group(
        {
            "m1": member("clicks", first["m1"]),
            "m2": member("clicks", first["m2"]),
            "m3": member("clicks"),
        }
    )
    expected = targets(m1="clicks[0-1]", m2="clicks[2-3]", m3="clicks[4-5]")
    assert expected == assign(RANGE, three, counts)


ALPHA_BETA = {"alpha": 4, "beta": 3}
U1_RESULT_4_0 = targets(m1="alpha[0-2]", m2="alpha[3] beta[0]", m3="beta[1-2]")


def u1_members(*member_ids: str) -> dict[str, str]:
    """The 4.0 result of assignors U1 as texts, empty for a newcomer."""
    held = {"m1": "alpha[0-2]", "m2": "alpha[3] beta[0]", "m3": "beta[1-2]"}
    return {member_id: held.get(member_id, "") for member_id in member_ids}


@pytest.mark.parametrize(
    ("assignor", "expected"),
    [
        (UNIFORM_4_0, U1_RESULT_4_0),
        (UNIFORM, targets(m1="alpha[0-1]", m2="alpha[2-3]", m3="beta[0-2]")),
    ],
)
def test_u1_uniform_fresh(assignor: UniformAssignor, expected: Target) -> None:
    spec = group({m: member("alpha beta") for m in ("m1", "m2", "m3")})
    assert spec.subscription_type is HOMOGENEOUS
    assert expected == assign(assignor, spec, ALPHA_BETA)


@pytest.mark.parametrize("assignor", [UNIFORM_4_0, UNIFORM])
def test_u2_uniform_moves_one_partition_when_one_joins(assignor: UniformAssignor) -> None:
    held = u1_members("m1", "m2", "m3", "m4")
    spec = group({m: member("alpha beta", text) for m, text in held.items()})
    expected = targets(m1="alpha[0-1]", m2="alpha[3] beta[0]", m3="beta[1-2]", m4="alpha[2]")
    assert expected == assign(assignor, spec, ALPHA_BETA)


@pytest.mark.parametrize(
    ("assignor", "expected"),
    [
        (UNIFORM_4_0, targets(m1="alpha[0-3]", m3="beta[0-2]")),
        (UNIFORM, targets(m1="alpha[0-2]", m3="alpha[3] beta[0-2]")),
    ],
)
def test_u3_uniform_when_one_leaves(assignor: UniformAssignor, expected: Target) -> None:
    spec = group({m: member("alpha beta", text) for m, text in u1_members("m1", "m3").items()})
    assert expected == assign(assignor, spec, ALPHA_BETA)


@pytest.mark.parametrize(
    ("assignor", "expected"),
    [
        (UNIFORM_4_0, targets(m1="alpha[0-1,4]", m2="alpha[2-3]")),
        (UNIFORM, targets(m1="alpha[0-1]", m2="alpha[2-4]")),
    ],
)
def test_u4_uniform_extra_partition(assignor: UniformAssignor, expected: Target) -> None:
    spec = group({"m1": member("alpha", "alpha[0-1]"), "m2": member("alpha", "alpha[2-4]")})
    assert expected == assign(assignor, spec, {"alpha": 5})


@pytest.mark.parametrize("assignor", [UNIFORM_4_0, UNIFORM])
def test_u5_uniform_cuts_at_a_topic_border(assignor: UniformAssignor) -> None:
    spec = group({"m1": member("alpha beta", "alpha[0-3] beta[0-2]"), "m2": member("alpha beta")})
    expected = targets(m1="alpha[0-3]", m2="beta[0-2]")
    assert expected == assign(assignor, spec, ALPHA_BETA)


@pytest.mark.parametrize(
    ("assignor", "expected"),
    [
        (UNIFORM_4_0, targets(m1="alpha[0-2]", m2="alpha[3] beta[2-3]", m3="beta[0-1]")),
        (UNIFORM, targets(m1="alpha[0-2]", m2="beta[2-3]", m3="alpha[3] beta[0-1]")),
    ],
)
def test_u6_uniform_cuts_inside_a_topic(assignor: UniformAssignor, expected: Target) -> None:
    spec = group(
        {
            "m1": member("alpha beta", "alpha[0-3] beta[0-1]"),
            "m2": member("alpha beta", "beta[2-3]"),
            "m3": member("alpha beta"),
        }
    )
    assert expected == assign(assignor, spec, {"alpha": 4, "beta": 4})


def test_h1_heterogeneous_fresh() -> None:
    spec = group({"p": member("a c"), "q": member("a b c"), "r": member("b c")})
    expected = targets(p="a[0-3]", q="b[0,2,4] c[0]", r="b[1,3,5] c[1]")
    assert expected == assign(UNIFORM, spec, {"a": 4, "b": 6, "c": 2})


def test_h2_heterogeneous_staircase_stays() -> None:
    spec = group({"p": member("a", "a[0-5]"), "q": member("a b", "b[0-2]"), "r": member("b")})
    counts = {"a": 6, "b": 3}
    expected = targets(p="a[0-3]", q="a[4-5] b[0]", r="b[1-2]")
    assert expected == assign(UNIFORM, spec, counts)
    outcome = assign_heterogeneous(spec, counts)
    assert (outcome.round_count, outcome.is_settled) == (3, True)


def test_h3_heavy_member_outside_the_topic_does_not_count() -> None:
    spec = group({"p": member("a b", "b[0-7]"), "s": member("a", "a[0-3]"), "q": member("a")})
    expected = targets(p="b[0-7]", s="a[0-1]", q="a[2-3]")
    assert expected == assign(UNIFORM, spec, {"a": 4, "b": 8})


def test_h4_ties_in_the_fill_step_follow_the_rank_at_the_start() -> None:
    spec = group(
        {
            "m1": member("f", "f[0-1]"),
            "m2": member("f"),
            "m3": member("f", "f[2]"),
            "m4": member(""),
        }
    )
    expected = targets(m1="f[0-1]", m2="f[3,4,6]", m3="f[2,5]", m4="")
    assert expected == assign(UNIFORM, spec, {"f": 7})


def test_h5_a_giver_without_stock_is_replaced_by_the_last_one() -> None:
    spec = group(
        {
            "m1": member("hot"),
            "m2": member("hot x", "x[0-4]"),
            "m3": member("hot", "hot[0-4]"),
            "m4": member("hot", "hot[5-8]"),
            "m5": member("y", "y[0-5]"),
        }
    )
    expected = targets(m1="hot[3,4,8]", m2="x[0-4]", m3="hot[0-2]", m4="hot[5-7]", m5="y[0-5]")
    assert expected == assign(UNIFORM, spec, {"hot": 9, "x": 5, "y": 6})


def test_the_last_candidate_takes_the_position_of_a_giver_without_stock() -> None:
    """By hand from assignors §6.4: order m, x, y, z. z and y give one each; x, just as loaded, has
    nothing of hot, so z takes its position; now y stands behind z and gives the third."""
    spec = group(
        {
            "m": member("hot"),
            "x": member("hot side", "side[0-4]"),
            "y": member("hot", "hot[0-4]"),
            "z": member("hot", "hot[5-9]"),
        }
    )
    expected = targets(m="hot[3,4,9]", x="side[0-4]", y="hot[0-2]", z="hot[5-8]")
    assert expected == assign(UNIFORM, spec, {"hot": 10, "side": 5})


def test_h6_disjoint_blocks_are_even() -> None:
    spec = group({"m1": member("a b"), "m2": member("a b"), "m3": member("c"), "m4": member("c")})
    expected = targets(m1="a[0,2] b[2]", m2="a[1] b[0-1]", m3="c[0,2,4]", m4="c[1,3,5]")
    assert expected == assign(UNIFORM, spec, {"a": 3, "b": 3, "c": 6})


def chain(member_count: int, partition_count: int) -> tuple[dict[str, str], dict[str, int]]:
    """Members of which neighbours share one topic: (topics of each member, counts)."""
    last = member_count - 1
    topics_of = {
        f"m{i:02}": " ".join(f"t{t:02}" for t in (i - 1, i) if 0 <= t < last)
        for i in range(member_count)
    }
    return topics_of, {f"t{t:02}": partition_count for t in range(last)}


@pytest.mark.parametrize(
    ("member_count", "partition_count"),
    [(5, 5000), (6, 500), (7, 200), (8, 200), (9, 100), (10, 100), (11, 100)],
)
def test_a_chain_of_overlapping_subscriptions_reaches_the_round_limit_at_the_stated_size(
    member_count: int, partition_count: int
) -> None:
    """assignors §6.5 lists these as the first sizes among 5, 10, 20, 30, 50, 100, 200, 500, ..."""
    tried = [5, 10, 20, 30, 50, 100, 200, 500, 1000, 2000, 5000]
    for count in tried[: tried.index(partition_count) + 1]:
        topics_of, counts = chain(member_count, count)
        spec = group({m: member(topics) for m, topics in topics_of.items()})
        outcome = assign_heterogeneous(spec, counts)
        assert outcome.is_settled is (count < partition_count)


@pytest.mark.parametrize(("partition_count", "expected_gap"), [(100, 2), (1000, 11)])
def test_a_chain_of_ten_ends_unbalanced_between_neighbours(
    partition_count: int, expected_gap: int
) -> None:
    topics_of, counts = chain(10, partition_count)
    spec = group({m: member(topics) for m, topics in topics_of.items()})
    outcome = assign_heterogeneous(spec, counts)
    assert outcome.round_count == 16
    loads = [len(outcome.targets[m]) for m in topics_of]
    assert expected_gap == max(abs(a - b) for a, b in pairwise(loads))
    if partition_count == 100:
        assert (min(loads), max(loads)) == (84, 95)
    again = assign_heterogeneous(with_current(spec, outcome.targets), counts)
    assert outcome.targets != again.targets, "such a result improves when it is fed back"


def test_the_notation_of_the_examples_reads_ranges_and_lists() -> None:
    assert {("a", 0), ("a", 1), ("a", 5), ("b", 2)} == set(parts("a[0-1,5] b[2]"))
