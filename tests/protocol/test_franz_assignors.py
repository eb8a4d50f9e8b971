"""What franz-go's sticky balancers compute (franz §7)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from classic_assignor_builders import grouped, member, spelled
from hypothesis import given, settings
from hypothesis import strategies as st

from rebalance_sim.protocol.assignors.classic import FRANZ_ASSIGNORS
from rebalance_sim.protocol.assignors.classic.claims import Claim, settle
from rebalance_sim.protocol.assignors.classic.classic_assignor import (
    ClaimingMember,
    NamedPartition,
)
from rebalance_sim.protocol.assignors.classic.franz_sticky import LeastLoadedFirst
from rebalance_sim.protocol.wire.embedded import NamedPartitions, StickyUserData, Subscription

COUNTS = {"x": 4, "y": 3}
EVERY = [NamedPartition(topic, n) for topic, count in COUNTS.items() for n in range(count)]
MEMBERS = "abcd"


def test_among_equals_who_got_one_gets_the_next() -> None:
    """As recorded: ``classic_sticky``."""
    for name in ("sticky", "cooperative-sticky"):
        shares = FRANZ_ASSIGNORS[name].assign(
            partition_counts={"x": 4}, members=[member("a", "x"), member("b", "x")]
        )
        assert {m: spelled(share) for m, share in shares.items()} == {"a": "x0 x3", "b": "x1 x2"}


def test_who_rebalances_eagerly_remembers_nothing() -> None:
    """It has revoked everything, and what it says it was assigned last is empty by then."""
    sticky = FRANZ_ASSIGNORS["sticky"]
    said = sticky.user_data(last_assigned=(), last_generation_id=7)
    assert said == StickyUserData((), 7)
    again = [member(m, "x", generation=7, user_data=said) for m in "ab"]
    shares = sticky.assign(partition_counts={"x": 4}, members=again)
    assert spelled(shares["a"]) == "x0 x3"


def test_the_fullest_gives_its_last() -> None:
    shares = FRANZ_ASSIGNORS["cooperative-sticky"].assign(
        partition_counts={"x": 4},
        members=[member("a", "x", "x0 x1 x2 x3", 1), member("b", "x")],
    )
    assert {m: spelled(share) for m, share in shares.items()} == {"a": "x0 x1", "b": ""}
    assert grouped("x0 x1") == shares["a"]


def plan(
    owner_of: Mapping[NamedPartition, str], generations: Mapping[str, int]
) -> dict[str, set[NamedPartition]]:
    members = [member(m, "xy", generation=generations.get(m, 1)) for m in MEMBERS]
    claims = {
        m: Claim(tuple(p for p in EVERY if owner_of.get(p) == m), generations.get(m, 1))
        for m in MEMBERS
    }
    result = LeastLoadedFirst(settle(members, claims, COUNTS), COUNTS, None).assign()
    return {m: {*share} for m, share in result.shares.items()}


OWNERS = st.dictionaries(st.sampled_from(EVERY), st.sampled_from(MEMBERS))
GENERATIONS = st.dictionaries(st.sampled_from(MEMBERS), st.integers(1, 3))


@settings(max_examples=200, deadline=None)
@given(owner_of=OWNERS, generations=GENERATIONS)
def test_everything_is_given_once_and_evenly(
    owner_of: Mapping[NamedPartition, str], generations: Mapping[str, int]
) -> None:
    shares = plan(owner_of, generations)
    assert sorted(p for share in shares.values() for p in share) == sorted(EVERY)
    loads = [len(share) for share in shares.values()]
    assert max(loads) - min(loads) <= 1


@settings(max_examples=200, deadline=None)
@given(owner_of=OWNERS)
def test_who_is_given_something_keeps_all_it_had(owner_of: Mapping[NamedPartition, str]) -> None:
    for member_id, share in plan(owner_of, {}).items():
        had = {p for p, owner in owner_of.items() if owner == member_id}
        assert had <= share or share <= had


@pytest.mark.parametrize("topics", ["x", "xy"])
def test_a_plan_that_is_even_stays(topics: str) -> None:
    counts = {topic: COUNTS[topic] for topic in topics}
    cooperative = FRANZ_ASSIGNORS["cooperative-sticky"]
    fresh = cooperative.assign(partition_counts=counts, members=[member(m, topics) for m in "abc"])
    again = cooperative.assign(
        partition_counts=counts,
        members=[member(m, topics, spelled(fresh[m]), 1) for m in "abc"],
    )
    assert again == fresh


PLANS = (
    Path(__file__).parents[2] / "conformance/traces/clients/franz-go/recorder/balancer/plans.jsonl"
)
"""Drawn groups, and all plans that kgo has for each, as topics are in the order of a Go map."""
IN_MAPS = ("abc", "bca", "cab")
"""The orders in which Go goes through a small map with a, b and c."""


def planned(drawn: Mapping[str, Any], order: str) -> dict[str, dict[str, list[int]]]:
    """Of the model, which has topics in the order of their names."""
    name_of = {topic: f"{number}{topic}" for number, topic in enumerate(order)}

    shares = FRANZ_ASSIGNORS["cooperative-sticky"].assign(
        partition_counts={name_of[t]: count for t, count in drawn["topics"].items()},
        members=[
            ClaimingMember(
                member_id=member_id,
                subscription=Subscription(
                    topics=tuple(sorted(map(name_of.__getitem__, topics))),
                    owned_partitions=tuple(
                        NamedPartitions(name_of[topic], tuple(numbers))
                        for topic, numbers in sorted(drawn["owned"][member_id].items())
                    ),
                    generation_id=5,
                ),
            )
            for member_id, topics in drawn["members"].items()
        ],
    )
    return {
        member_id: {
            named.topic[1:]: sorted(named.partitions) for named in share if named.partitions
        }
        for member_id, share in shares.items()
    }


def in_order(plan: Mapping[str, Mapping[str, list[int]]]) -> dict[str, dict[str, list[int]]]:
    return {member_id: dict(sorted(share.items())) for member_id, share in sorted(plan.items())}


def test_where_subscriptions_differ_the_plans_are_those_of_kgo() -> None:
    """Of each group all that kgo has, and no other."""
    counts = [0, 0]
    for line in PLANS.read_text().splitlines():
        drawn = json.loads(line)
        if len({*map(tuple, drawn["members"].values())}) == 1:
            continue
        plans = [planned(drawn, order) for order in IN_MAPS]
        kgo = {str(in_order(plan)) for plan in drawn["plans"]}
        assert {str(in_order(plan)) for plan in plans} == kgo
        counts[any(drawn["owned"].values())] += 1
    assert min(counts) > 50
