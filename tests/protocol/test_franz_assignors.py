"""What franz-go's sticky balancers compute where all members read the same topics (franz §7)."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from classic_assignor_builders import grouped, member, spelled
from hypothesis import given, settings
from hypothesis import strategies as st

from rebalance_sim.protocol.assignors.classic import FRANZ_ASSIGNORS
from rebalance_sim.protocol.assignors.classic.claims import Claim, settle
from rebalance_sim.protocol.assignors.classic.classic_assignor import NamedPartition
from rebalance_sim.protocol.assignors.classic.franz_sticky import LeastLoadedFirst
from rebalance_sim.protocol.assignors.classic.sticky import StickyUserData

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
