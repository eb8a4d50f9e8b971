"""The worked examples of classic §5."""

from __future__ import annotations

import pytest
from classic_assignor_builders import assign, grouped, member

from rebalance_sim.protocol.assignors.classic import ClaimingMember
from rebalance_sim.protocol.wire.embedded import CooperativeUserData, StickyUserData, Subscription


def all_on(topics: str, *names: str) -> list[ClaimingMember]:
    return [member(name, topics) for name in names]


def test_range_gives_the_surplus_to_the_first_members() -> None:
    assert assign("range", {"t": 7}, all_on("t", "c", "a", "b")) == {
        "a": "t0 t1 t2",
        "b": "t3 t4",
        "c": "t5 t6",
    }


def test_range_keeps_equal_numbers_of_equal_topics_together() -> None:
    assert assign("range", {"x": 3, "y": 3}, all_on("xy", "a", "b")) == {
        "a": "x0 x1 y0 y1",
        "b": "x2 y2",
    }


def test_range_counts_the_subscribers_of_each_topic() -> None:
    members = [*all_on("xy", "a", "b"), member("c", "x")]
    assert assign("range", {"x": 4, "y": 4}, members) == {
        "a": "x0 x1 y0 y1",
        "b": "x2 y2 y3",
        "c": "x3",
    }


def test_range_puts_static_members_first() -> None:
    members = [*all_on("t", "b", "c"), member("z", "t", instance="i1")]
    assert assign("range", {"t": 5}, members) == {"z": "t0 t1", "b": "t2 t3", "c": "t4"}


def test_topics_without_metadata_are_skipped_and_every_member_has_an_entry() -> None:
    assert assign("range", {"x": 1}, all_on("xq", "a", "b")) == {"a": "x0", "b": ""}


def test_roundrobin_deals_all_topics_as_one_list() -> None:
    assert assign("roundrobin", {"x": 3, "y": 3}, all_on("xy", "b", "a")) == {
        "a": "x0 x2 y1",
        "b": "x1 y0 y2",
    }


def test_roundrobin_advances_past_members_that_do_not_subscribe() -> None:
    members = [member("a", "x"), *all_on("xy", "b", "c")]
    assert assign("roundrobin", {"x": 3, "y": 2}, members) == {
        "a": "x0",
        "b": "x1 y0",
        "c": "x2 y1",
    }


def test_roundrobin_is_greedy_where_subscriptions_differ() -> None:
    members = [member("a", "x"), member("b", "xy"), member("c", "xyz")]
    assert assign("roundrobin", {"x": 1, "y": 2, "z": 3}, members) == {
        "a": "x0",
        "b": "y0",
        "c": "y1 z0 z1 z2",
    }


# --- sticky and cooperative-sticky ---------------------------------------------------------------


def sticky(name: str, owned: str, generation: int, topics: str = "t") -> ClaimingMember:
    """A member of ``sticky``: it has revoked everything, and remembers it in its user data."""
    said = StickyUserData(grouped(owned), generation)
    return member(name, topics, generation=generation, user_data=said)


def cooperative(name: str, owned: str, generation: int, topics: str = "t") -> ClaimingMember:
    return member(name, topics, owned, generation)


def test_a_newcomer_gets_the_last_partitions_of_each() -> None:
    members = [sticky("A", "t0 t1 t2", 3), sticky("B", "t3 t4 t5", 3), member("C", "t")]
    assert assign("sticky", {"t": 6}, members) == {"A": "t0 t1", "B": "t3 t4", "C": "t2 t5"}


def test_what_is_transferring_rests_with_no_one_for_one_generation() -> None:
    first = [cooperative("A", "t0 t1 t2", 3), cooperative("B", "t3 t4 t5", 3), member("C", "t")]
    assert assign("cooperative-sticky", {"t": 6}, first) == {"A": "t0 t1", "B": "t3 t4", "C": ""}
    then = [
        cooperative("A", "t0 t1", 4),
        cooperative("B", "t3 t4", 4),
        cooperative("C", "", 4),
    ]
    assert assign("cooperative-sticky", {"t": 6}, then) == {
        "A": "t0 t1",
        "B": "t3 t4",
        "C": "t2 t5",
    }


def test_a_member_with_the_most_keeps_the_extra_partition() -> None:
    members = [sticky("A", "t0 t1 t2 t3", 1), sticky("B", "t4 t5 t6", 1), member("C", "t")]
    assert assign("sticky", {"t": 7}, members) == {"A": "t0 t1 t2", "B": "t4 t5", "C": "t3 t6"}


def test_what_a_member_left_behind_goes_out_at_once() -> None:
    members = [cooperative("B", "t3 t4", 5), cooperative("C", "t5 t6", 5)]
    assert assign("cooperative-sticky", {"t": 7}, members) == {
        "B": "t0 t2 t3 t4",
        "C": "t1 t5 t6",
    }


@pytest.mark.parametrize("name", ["sticky", "cooperative-sticky"])
def test_a_first_assignment_goes_round(name: str) -> None:
    assert assign(name, {"u": 3, "v": 3}, all_on("uv", "A", "B")) == {
        "A": "u0 u2 v1",
        "B": "u1 v0 v2",
    }


def test_the_claim_of_the_newer_generation_holds() -> None:
    members = [cooperative("A", "t0 t1", 4), cooperative("B", "t0 t1", 5)]
    assert assign("cooperative-sticky", {"t": 2}, members) == {"A": "", "B": "t0"}


def test_what_two_members_claim_for_one_generation_rests_once() -> None:
    members = [cooperative("A", "t0 t1", 4), cooperative("B", "t0 t2", 4)]
    assert assign("cooperative-sticky", {"t": 3}, members) == {"A": "t1", "B": "t2"}
    members = [sticky("A", "t0 t1", 4), sticky("B", "t0 t2", 4)]
    assert assign("sticky", {"t": 3}, members) == {"A": "t0 t1", "B": "t2"}


def test_the_generation_of_the_earlier_claimant_is_that_of_its_metadata() -> None:
    """A says 7 in its user data, but its metadata says that it has lost its generation."""
    said = StickyUserData(grouped("t0 t1"), 7)
    members = [member("A", "t", user_data=said), sticky("B", "t0 t1", 5)]
    assert assign("sticky", {"t": 4}, members) == {"A": "t2 t3", "B": "t0 t1"}


def test_old_metadata_has_its_generation_in_the_user_data() -> None:
    old = ClaimingMember(
        member_id="A",
        subscription=Subscription(
            topics=("t",),
            owned_partitions=grouped("t0"),
            user_data=CooperativeUserData(6),
            version=1,
        ),
    )
    members = [old, cooperative("B", "t0 t1", 5)]
    # B compares with A's metadata, which says nothing, and so B's claim is the newer one.
    assert assign("cooperative-sticky", {"t": 2}, members) == {"A": "", "B": "t0"}
    members = [cooperative("0", "t0 t1", 5), old]
    assert assign("cooperative-sticky", {"t": 2}, members) == {"0": "t1", "A": "t0"}


def test_what_does_not_exist_any_more_is_no_claim() -> None:
    members = [cooperative("A", "t0 t1 t2 t3", 4), cooperative("B", "q0", 4)]
    assert assign("cooperative-sticky", {"t": 2}, members) == {"A": "t0", "B": ""}


def test_where_subscriptions_differ_the_rarest_topic_is_given_out_first() -> None:
    """x has one subscriber besides b, and y none."""
    members = [member("a", "x"), member("b", "xy")]
    assert assign("sticky", {"x": 2, "y": 2}, members) == {"a": "x0 x1", "b": "y0 y1"}


def test_a_claim_for_what_is_not_subscribed_any_more_is_dropped() -> None:
    members = [cooperative("a", "x0 x1 y0", 2, "x"), cooperative("b", "y1", 2, "xy")]
    # y0 is still with a, which has to give it up first.
    assert assign("cooperative-sticky", {"x": 2, "y": 2}, members) == {"a": "x0 x1", "b": "y1"}
    assert assign(
        "sticky", {"x": 2, "y": 2}, [sticky("a", "x0 x1 y0", 2, "x"), sticky("b", "y1", 2, "xy")]
    ) == {
        "a": "x0 x1",
        "b": "y0 y1",
    }


def test_a_fuller_member_gives_single_partitions_to_an_emptier_one() -> None:
    members = [
        cooperative("a", "x0 x1 x2 x3", 2, "x"),
        cooperative("b", "", 2, "xy"),
        cooperative("c", "y0", 2, "y"),
    ]
    # The target is x0 and x1 for b; both are still with a.
    assert assign("cooperative-sticky", {"x": 4, "y": 1}, members) == {
        "a": "x2 x3",
        "b": "",
        "c": "y0",
    }
