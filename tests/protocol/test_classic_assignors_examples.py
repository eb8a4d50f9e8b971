"""The worked examples of classic-group-and-migration.md, section 5."""

from __future__ import annotations

from classic_assignor_builders import assign, member

from protocol.assignors.classic import ClaimingMember


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
