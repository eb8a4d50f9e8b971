"""Who is it: group, capacity, dynamic and static members, epochs (coordinator §2.5-§2.8)."""

from __future__ import annotations

import pytest
from coordinator_builders import (
    FIRST_EPOCH,
    Bench,
    assert_accepted,
    assert_refused,
    both_versions,
    parts,
    simple_groups,
)

from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup
from rebalance_sim.protocol.versions.semantics import SEMANTICS

GREATER = (
    "The consumer group member has a greater member epoch ({}) than the one known by the group "
    "coordinator ({}). The member must abandon all its partitions and rejoin."
)
SMALLER = GREATER.replace("greater", "smaller")

# -- 2.5 the group -------------------------------------------------------------------------


@both_versions
def test_the_first_join_makes_the_group(version: str) -> None:
    bench = Bench(version)
    response = bench.join("A")
    assert bench.wrote == "5A 3 7A 6 8A"
    assert bench.epochs == (FIRST_EPOCH[version],) * 2
    assert response.member_epoch == FIRST_EPOCH[version]


def test_no_later_heartbeat_makes_a_group() -> None:
    message = "Consumer group group not found."
    assert_refused(Bench().beat("A", epoch=1), "GROUP_ID_NOT_FOUND", message)
    for epoch in (-1, -2):
        response = Bench().beat("A", epoch=epoch, instance_id="i")
        assert_refused(response, "GROUP_ID_NOT_FOUND", "Group group not found.")


def test_a_refused_first_join_leaves_no_group_behind() -> None:
    bench = Bench()
    bench.join("A", subscribed_topic_regex="(")
    assert bench.shard.coordinator.groups_of(ConsumerGroup) == {}


def test_a_group_of_offsets_only_gives_way_to_a_join_and_keeps_its_offsets() -> None:
    bench = Bench()
    bench.commit("", -1, {"foo-0": 5})
    for epoch in (1, -1):
        response = bench.beat("A", epoch=epoch)
        assert_refused(response, "GROUP_ID_NOT_FOUND", "Group group is not a consumer group.")
    assert_accepted(bench.join("A"))
    assert bench.wrote == "2† 5A 3 7A 6 8A"
    assert bench.fetched("foo-0") == {"foo-0": 5}
    assert simple_groups(bench.shard.coordinator) == set()


# -- coordinator H2 capacity ---------------------------------------------------------------

FULL = "The consumer group has reached its maximum capacity of 2 members."


@both_versions
def test_a_full_group_takes_no_one_else_but_serves_its_members(version: str) -> None:
    bench = Bench(version, group_consumer_max_size=2)
    bench.join("A")
    bench.join("B")
    assert_refused(bench.join("C"), "GROUP_MAX_SIZE_REACHED", FULL)
    assert bench.wrote == ""
    # The size is looked at before the member.
    assert_refused(bench.beat("C", epoch=5), "GROUP_MAX_SIZE_REACHED", FULL)
    assert_accepted(bench.beat("A"))
    bench.leave("B")
    assert_accepted(bench.join("C"))


def test_a_static_member_finds_its_seat_taken_only_by_the_shipped_defect() -> None:
    """KAFKA-20601 (coordinator D11): the clean rules look for the predecessor first."""
    shipped = SEMANTICS["kafka-4.3"]
    clean = SEMANTICS["kafka-4.3-clean"]
    for semantics, is_refused in ((shipped, True), (clean, False)):
        bench = Bench(semantics, group_consumer_max_size=1)
        bench.join("A", instance_id="i")
        bench.go_away("A", "i")
        response = bench.join("A2", instance_id="i")
        assert (response.error_code.name == "GROUP_MAX_SIZE_REACHED") is is_refused
        assert_refused(bench.join("Z"), "GROUP_MAX_SIZE_REACHED")


# -- 2.6 dynamic members -------------------------------------------------------------------


def test_an_unknown_member_may_only_join() -> None:
    bench = Bench()
    bench.join("A")
    response = bench.beat("Z", epoch=1)
    assert_refused(response, "UNKNOWN_MEMBER_ID", "Member Z is not a member of group group.")


@both_versions
def test_a_join_repeated_with_nothing_new_writes_nothing_and_repeats_the_assignment(
    version: str,
) -> None:
    bench = Bench(version)
    first = bench.join("A")
    second = bench.join("A")
    assert bench.wrote == ""
    assert second == first
    assert second.assignment == parts("foo[0-2]")


@pytest.mark.parametrize(("version", "is_accepted"), [("kafka-4.1", False), ("kafka-4.3", True)])
def test_a_known_member_rejoins_at_epoch_0_by_version(version: str, is_accepted: bool) -> None:
    """KAFKA-19233: on 4.1 only while its previous epoch is 0."""
    bench = Bench(version)
    bench.join("A")
    bench.join("B")
    bench.settle()
    epoch = bench.member("A").member_epoch
    session = bench.timer("session", "A")
    bench.wait(1_000)
    response = bench.join("A", "foo bar", rebalance_timeout_ms=1)
    if is_accepted:
        assert_accepted(response)
        assert bench.member("A").subscribed_topic_names == ("bar", "foo")
    else:
        assert_refused(response, "FENCED_MEMBER_EPOCH", SMALLER.format(0, epoch))
        assert bench.wrote == ""
        assert bench.member("A").subscribed_topic_names == ("foo",)
        assert bench.timer("session", "A") == session
        assert_accepted(bench.beat("A"))


def test_on_4_1_the_rejoin_is_over_once_the_first_record_8_is_rewritten() -> None:
    for spoil in ("idle in UNRELEASED", "first step into UNREVOKED"):
        bench = Bench("kafka-4.1")
        bench.join("A")
        bench.join("B")
        rejoining = "B" if spoil == "idle in UNRELEASED" else "A"
        assert_accepted(bench.join(rejoining))
        bench = Bench("kafka-4.1")
        bench.join("A")
        bench.join("B")
        bench.beat(rejoining)
        assert_refused(bench.join(rejoining), "FENCED_MEMBER_EPOCH")


def test_a_rejoin_counts_as_acknowledgement_and_keeps_the_stored_assignment() -> None:
    bench = Bench()
    bench.join("A")
    bench.join("B")
    bench.beat("A")
    assert bench.pending("A") == "foo-2"
    response = bench.join("A")
    assert bench.wrote == "8A"
    assert response.assignment == parts("foo[0,1]")
    assert bench.view("A") == "3/2 STABLE foo-0 foo-1"


# -- 2.7 static members --------------------------------------------------------------------


def test_a_static_join_is_refused_while_somebody_holds_the_instance_id() -> None:
    bench = Bench()
    bench.join("A", instance_id="i")
    # Even the holder itself: PR-23542 is in every release (coordinator D2).
    for joining in ("B", "A"):
        assert_refused(
            bench.join(joining, instance_id="i"),
            "UNRELEASED_INSTANCE_ID",
            f"Static member {joining} with instance id i cannot join the group because the "
            "instance id is owned by A member.",
        )


def test_a_static_heartbeat_needs_the_holder_and_its_epoch() -> None:
    bench = Bench()
    bench.join("A", instance_id="i")
    unknown = bench.beat("A", epoch=2, instance_id="other")
    assert_refused(unknown, "UNKNOWN_MEMBER_ID", "Instance id other is unknown.")
    fenced = "Static member B with instance id i was fenced by member A."
    assert_refused(bench.beat("B", epoch=2, instance_id="i"), "FENCED_INSTANCE_ID", fenced)
    assert_accepted(bench.beat("A", epoch=2, instance_id="i"))
    greater = bench.beat("A", epoch=3, instance_id="i")
    assert_refused(greater, "FENCED_MEMBER_EPOCH", GREATER.format(3, 2))


def test_who_is_away_is_fenced_at_any_later_epoch_until_it_joins() -> None:
    bench = Bench()
    bench.join("A", instance_id="i")
    bench.go_away("A", "i")
    for instance_id in ("i", None):
        response = bench.beat("A", epoch=2, instance_id=instance_id)
        assert_refused(response, "FENCED_MEMBER_EPOCH", GREATER.format(2, -2))


def test_a_known_member_takes_over_a_free_instance_id_without_an_epoch_check() -> None:
    bench = Bench("kafka-4.1")
    bench.join("A")
    bench.join("B")
    bench.settle()
    assert_refused(bench.join("A"), "FENCED_MEMBER_EPOCH")
    assert_accepted(bench.join("A", instance_id="i"))
    assert bench.wrote == "5A"
    assert bench.member("A").instance_id == "i"


def test_a_former_instance_id_still_leads_to_the_member() -> None:
    bench = Bench()
    bench.join("A", instance_id="old")
    bench.join("A", instance_id="new")
    assert bench.group.static_members == {"old": "A", "new": "A"}
    assert_accepted(bench.beat("A", instance_id="old"))
    assert bench.wrote == "5A"
    assert bench.member("A").instance_id == "old"


def test_an_instance_id_that_outlived_its_member_is_a_refusal_and_no_crash() -> None:
    """The mapping goes only with the instance id that the member has when it goes."""
    bench = Bench()
    bench.join("K")
    bench.join("A", instance_id="old")
    bench.join("A", instance_id="new")
    bench.leave("A", "new")
    assert bench.group.static_members == {"old": "A"}
    message = "Member A is not a member of group group."
    assert_refused(bench.join("X", instance_id="old"), "UNKNOWN_MEMBER_ID", message)
    assert_refused(bench.leave("X", "old"), "UNKNOWN_MEMBER_ID", message)
    assert_refused(bench.beat("X", epoch=1, instance_id="old"), "UNKNOWN_MEMBER_ID", message)


# -- 2.8 the epoch check -------------------------------------------------------------------


def moved_on(version: str) -> tuple[Bench, int, int]:
    """Member A has gone from an epoch to the next with foo-0 and foo-1; bench, old, new epoch."""
    bench = Bench(version)
    bench.join("A")
    bench.join("B")
    bench.beat("A")
    bench.beat("A", owned="foo[0,1]")
    member = bench.member("A")
    assert member.previous_member_epoch < member.member_epoch
    return bench, member.previous_member_epoch, member.member_epoch


@both_versions
@pytest.mark.parametrize(
    ("owned", "is_accepted"),
    [
        ("foo[0,1]", True),
        ("foo[0]", True),
        ("", True),
        (None, False),
        ("foo[0-2]", False),
        ("foo[2]", False),
        ("bar[0]", False),
    ],
)
def test_the_previous_epoch_is_good_with_what_is_still_assigned(
    version: str, owned: str | None, is_accepted: bool
) -> None:
    bench, old, new = moved_on(version)
    response = bench.beat("A", owned=owned, epoch=old)
    if is_accepted:
        assert response.member_epoch == new
        assert bench.wrote == ""
        assert bench.beat("A", owned=owned, epoch=old) == response
    else:
        assert_refused(response, "FENCED_MEMBER_EPOCH", SMALLER.format(old, new))


def test_a_topic_reported_without_partitions_must_be_assigned_too() -> None:
    bench, old, _ = moved_on("kafka-4.3")
    for topic, code in (("foo", "NONE"), ("bar", "FENCED_MEMBER_EPOCH")):
        response = bench.beat(
            "A", owned="foo[0]", epoch=old, topics_without_partitions=frozenset({topic})
        )
        assert response.error_code.name == code


@both_versions
def test_a_higher_epoch_and_an_older_one_are_fenced(version: str) -> None:
    bench, old, new = moved_on(version)
    response = bench.beat("A", owned="", epoch=new + 1)
    assert_refused(response, "FENCED_MEMBER_EPOCH", GREATER.format(new + 1, new))
    bench.set_topic("foo", 4)
    bench.settle()
    newest = bench.member("A").member_epoch
    response = bench.beat("A", owned="", epoch=old)
    assert_refused(response, "FENCED_MEMBER_EPOCH", SMALLER.format(old, newest))


def test_a_fence_neither_removes_the_member_nor_prolongs_its_session() -> None:
    bench = Bench()
    bench.join("A")
    session = bench.timer("session", "A")
    bench.wait(1_000)
    assert_refused(bench.beat("A", epoch=9), "FENCED_MEMBER_EPOCH")
    assert bench.wrote == ""
    assert bench.timer("session", "A") == session
    assert bench.assigned("A") == "foo-0 foo-1 foo-2"


def test_an_idle_heartbeat_in_unreleased_uses_up_the_allowance_for_a_lost_response() -> None:
    """coordinator D4: the accepted retry rewrites the previous epoch, so a second loss fences."""
    bench = Bench()
    bench.join("A")
    bench.join("B")
    assert bench.view("B") == "3/0 UNRELEASED -"
    assert_accepted(bench.beat("B"))
    assert bench.view("B") == "3/3 UNRELEASED -"
    assert_refused(bench.beat("B", owned="", epoch=2), "FENCED_MEMBER_EPOCH")
