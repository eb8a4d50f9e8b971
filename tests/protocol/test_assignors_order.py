"""The order in which members are visited (assignors §2)."""

from __future__ import annotations

import string
from random import Random

import pytest
from assignor_builders import assign, group, member, parts, targets
from hypothesis import given
from hypothesis import strategies as st

from rebalance_sim.protocol.assignors.server import (
    DEFAULT_ASSIGNORS,
    RangeAssignor,
    UniformAssignor,
    java_hash_map_order,
)
from rebalance_sim.protocol.assignors.server.java_order import java_string_hash

LETTERS = string.ascii_uppercase


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("A", 65),
        ("Aa", 2112),
        ("BB", 2112),
        ("hello", 99162322),
        ("polygenelubricants", -(2**31)),
        ("\N{GRINNING FACE}", 31 * 0xD83D + 0xDE00),
    ],
)
def test_string_hash_is_that_of_java(text: str, expected: int) -> None:
    assert expected == java_string_hash(text)


def test_single_letters_up_to_o_come_in_alphabetical_order() -> None:
    assert list(LETTERS[:12]) == java_hash_map_order(LETTERS[11::-1])
    assert java_hash_map_order(["O", "A", "N", "M"]) == ["A", "M", "N", "O"]


def test_p_comes_before_a_and_q_shares_its_slot() -> None:
    assert java_hash_map_order(["O", "B", "A", "P", "Q"]) == ["P", "A", "Q", "B", "O"]


def test_longer_ids_come_in_the_order_of_their_hash() -> None:
    # "A2" hashes to 2065 (slot 1), "B2" to 2096 (slot 0), "Z" to 90 (slot 10).
    assert java_hash_map_order(["A", "A2", "B2", "F", "M", "Z"]) == ["B2", "A", "A2", "F", "Z", "M"]


def test_the_thirteenth_id_doubles_the_number_of_slots() -> None:
    twelve = [*LETTERS[:11], "P"]
    assert ["P", *LETTERS[:11]] == java_hash_map_order(twelve)
    assert [*LETTERS[:12], "P"] == java_hash_map_order([*twelve, "L"])


def test_the_high_half_of_the_hash_is_folded_in() -> None:
    # Slots by the low bits alone: 99162322 & 15 = 2 for "hello"; folded with 1513 it is 11.
    assert java_hash_map_order(["hello", "L", "J", "B"]) == ["B", "J", "hello", "L"]


@given(st.lists(st.text(max_size=5), unique=True, max_size=40), st.randoms())
def test_hash_order_does_not_depend_on_the_order_of_insertion(
    member_ids: list[str], rng: Random
) -> None:
    ordered = java_hash_map_order(member_ids)
    assert sorted(member_ids) == sorted(ordered)
    rng.shuffle(member_ids)
    assert ordered == java_hash_map_order(member_ids)


def test_uniform_visits_members_in_the_given_order() -> None:
    spec = group({m: member("foo") for m in ("A", "B2")})
    in_id_order = assign(UniformAssignor(), spec, {"foo": 2})
    in_hash_order = assign(UniformAssignor(order=java_hash_map_order), spec, {"foo": 2})
    assert targets(A="foo[0]", B2="foo[1]") == in_id_order
    assert targets(A="foo[1]", B2="foo[0]") == in_hash_order


def test_uniform_breaks_heterogeneous_ties_in_the_given_order() -> None:
    spec = group({"A": member("foo"), "B2": member("foo"), "C": member("")})
    in_hash_order = assign(UniformAssignor(order=java_hash_map_order), spec, {"foo": 3})
    assert targets(A="foo[1]", B2="foo[0,2]", C="") == in_hash_order


def test_a_member_gives_up_its_last_topics_first() -> None:
    held = parts("alpha[0-1] beta[0-1] gamma[0-1]")
    spec = group({"A": member("alpha beta gamma", held), "B": member("alpha beta gamma")})
    counts = {"gamma": 2, "alpha": 2, "beta": 2}
    expected = targets(A="alpha[0-1] beta[0]", B="beta[1] gamma[0-1]")
    assert expected == assign(UniformAssignor(), spec, counts)


def test_a_broker_lists_uniform_before_range() -> None:
    assert list(DEFAULT_ASSIGNORS) == ["uniform", "range"]
    assert all(name == assignor.name for name, assignor in DEFAULT_ASSIGNORS.items())


def test_range_has_its_own_order() -> None:
    spec = group({m: member("foo") for m in ("A", "B2", "P")})
    expected = targets(A="foo[0]", B2="foo[1]", P="foo[2]")
    assert expected == assign(RangeAssignor(), spec, {"foo": 3})
