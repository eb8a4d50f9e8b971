"""Leaving for good, leaving for a while, coming back (coordinator §4.2, §4.4-§4.6)."""

from __future__ import annotations

import pytest
from coordinator_builders import (
    Bench,
    assert_accepted,
    assert_refused,
    both_versions,
    parts,
    text,
)

from rebalance_sim.protocol.wire.consumer_messages import ConsumerGroupHeartbeatResponse

# -- 4.4 for good --------------------------------------------------------------------------


@both_versions
def test_a_leave_removes_the_member_frees_its_partitions_and_bumps_without_a_target(
    version: str,
) -> None:
    bench = Bench(version)
    bench.join("A")
    bench.join("B")
    bench.settle()
    group_epoch, target_epoch = bench.epochs
    response = bench.leave("B")
    assert response == ConsumerGroupHeartbeatResponse(member_id="B", member_epoch=-1)
    assert bench.wrote == "8†B 7†B 5†B 3"
    assert bench.epochs == (group_epoch + 1, target_epoch)
    assert sorted(bench.group.current_partition_epoch) == sorted(parts("foo[0,1]"))
    assert bench.timer("session", "B") is None
    assert bench.timer("rebalance", "B") is None


def test_the_last_member_leaves_an_empty_group_without_a_hash() -> None:
    bench = Bench()
    bench.join("A")
    bench.leave("A")
    assert (bench.state, bench.epochs) == ("Empty", (3, 2))
    assert bench.group.metadata_hash == 0
    assert_accepted(bench.join("A"))
    assert bench.epochs == (4, 4)


def test_a_leave_looks_at_neither_epoch_nor_owned_partitions_nor_subscription() -> None:
    bench = Bench()
    bench.join("A")
    bench.join("B")
    bench.beat("A")
    assert_accepted(bench.beat("A", owned="bar[7]", epoch=-1, topics="bar"))
    assert bench.wrote == "8†A 7†A 5†A 3"


def test_who_is_unknown_cannot_leave() -> None:
    bench = Bench()
    bench.join("A", instance_id="i")
    message = "Member Z is not a member of group group."
    assert_refused(bench.leave("Z"), "UNKNOWN_MEMBER_ID", message)
    assert_refused(bench.leave("A", "other"), "UNKNOWN_MEMBER_ID", "Instance id other is unknown.")
    fenced = "Static member Z with instance id i was fenced by member A."
    assert_refused(bench.leave("Z", "i"), "FENCED_INSTANCE_ID", fenced)
    assert_accepted(bench.leave("A", "i"))
    assert bench.group.static_members == {}


def test_the_hash_left_behind_covers_what_the_others_subscribe_to() -> None:
    alone = Bench(topics={"foo": 3, "bar": 1})
    alone.join("A")
    bench = Bench(topics={"foo": 3, "bar": 1})
    bench.join("A")
    bench.join("B", "foo bar")
    assert bench.group.metadata_hash != alone.group.metadata_hash
    bench.leave("B")
    assert bench.group.metadata_hash == alone.group.metadata_hash


# -- 4.5 for a while -----------------------------------------------------------------------


def away(version: str = "kafka-4.3") -> Bench:
    """Two settled members, of which static A with foo-0 and foo-1 is away."""
    bench = Bench(version)
    bench.join("A", instance_id="i", client_id="old")
    bench.join("B")
    for _ in range(2):
        bench.beat("A", owned="foo[0,1]", client_id="old")
        bench.beat("B")
    assert bench.state == "Stable"
    bench.go_away("A", "i")
    return bench


@both_versions
def test_who_is_away_keeps_what_it_has_and_the_group_reconciles(version: str) -> None:
    bench = away(version)
    assert bench.wrote == "8A"
    assert bench.member("A").member_epoch == -2
    assert bench.assigned("A") == "foo-0 foo-1"
    assert bench.group.current_partition_epoch[("foo", 0)] == -2
    assert bench.state == "Reconciling"
    assert bench.epochs[0] == bench.epochs[1]
    epochs = set(bench.member("A").assigned.values())
    assert (epochs == {0}) is (version == "kafka-4.3")
    row = bench.describe().members[0]
    assert (row.member_epoch, row.assignment) == (-2, parts("foo[0,1]"))


def test_the_answer_to_a_temporary_leave() -> None:
    bench = Bench()
    bench.join("A", instance_id="i")
    assert bench.go_away("A", "i") == ConsumerGroupHeartbeatResponse(member_id="A", member_epoch=-2)
    assert_refused(
        bench.go_away("B", "i"),
        "FENCED_INSTANCE_ID",
        "Static member B with instance id i was fenced by member A.",
    )
    assert_refused(bench.go_away("A", "x"), "UNKNOWN_MEMBER_ID", "Instance id x is unknown.")


@both_versions
def test_a_temporary_leave_releases_what_was_to_be_revoked_and_keeps_state_and_previous_epoch(
    version: str,
) -> None:
    bench = Bench(version)
    bench.join("A", instance_id="i")
    bench.join("B")
    bench.beat("A")
    before = bench.member("A")
    timer = bench.timer("rebalance", "A")
    session = bench.timer("session", "A")
    bench.go_away("A", "i")
    after = bench.member("A")
    assert (after.state, after.previous_member_epoch) == (
        before.state,
        before.previous_member_epoch,
    )
    assert (bench.assigned("A"), bench.pending("A")) == ("foo-0 foo-1", "")
    bench.beat("B")
    assert bench.assigned("B") == "foo-2"
    # The running timers are left alone; the rebalance timer finds another epoch.
    assert (bench.timer("rebalance", "A"), bench.timer("session", "A")) == (timer, session)
    bench.shard.fire(timer.key)  # type: ignore[union-attr]
    assert "A" in bench.group.members


def test_who_is_away_still_counts_for_size_subscriptions_and_targets() -> None:
    bench = away()
    bench.set_topic("foo", 4)
    bench.beat("B")
    assert bench.target("A") == "foo-0 foo-1"
    assert bench.group.subscribed_topic_names == {"foo": 2}


def test_who_stays_away_is_removed_when_its_session_ends() -> None:
    bench = away()
    bench.wait(44_999)
    assert "A" in bench.group.members
    bench.beat("B")
    bench.wait(1)
    assert bench.wrote == "8†A 7†A 5†A 3"
    bench.beat("B")
    assert bench.assigned("B") == "foo-0 foo-1 foo-2"


# -- 4.6 back again ------------------------------------------------------------------------


@both_versions
@pytest.mark.parametrize("new_id", ["A", "A2"])
def test_a_static_member_returns_to_its_partitions_without_a_bump(
    version: str, new_id: str
) -> None:
    bench = away(version)
    epochs = bench.epochs
    old_session = bench.timer("session", "A")
    bench.wait(1_000)
    response = bench.join(new_id, instance_id="i", client_id="old")
    assert bench.wrote == f"8†A 7†A 5†A 5{new_id} 7{new_id} 8{new_id} 8{new_id}"
    assert bench.epochs == epochs
    assert (response.member_epoch, response.assignment) == (epochs[1], parts("foo[0,1]"))
    assert bench.view(new_id) == f"{epochs[1]}/0 STABLE foo-0 foo-1"
    assert bench.timer_at("session", new_id) == 45_000
    if new_id != "A":
        assert bench.timer("session", "A") == old_session
    assert bench.group.static_members == {"i": new_id}
    assert bench.state == "Stable"
    bench.beat("B")
    bench.wait(44_000)
    assert sorted(bench.group.members) == sorted([new_id, "B"])


def test_other_fields_cost_a_second_record_5() -> None:
    bench = away()
    bench.join("A2", instance_id="i", client_id="new")
    assert bench.wrote == "8†A 7†A 5†A 5A2 7A2 8A2 5A2 8A2"
    copied, merged = (r.value.client_id for r in bench.records if r.type_id == 5 and r.value)
    assert (copied, merged) == ("old", "new")


@both_versions
def test_a_return_with_another_subscription_bumps_and_computes_with_the_new_id(
    version: str,
) -> None:
    bench = away(version)
    bench.set_topic("bar", 1)
    group_epoch, _ = bench.epochs
    response = bench.join("A2", "foo bar", instance_id="i", client_id="old")
    assert bench.wrote == "8†A 7†A 5†A 5A2 7A2 8A2 5A2 3 7A2 7B 6 8A2"
    assert response.member_epoch == group_epoch + 1
    assert sorted(bench.group.target_assignment) == ["A2", "B"]
    # Two partitions each; the one of foo that stays was A's: stickiness survives the new id.
    assert bench.target("A2") in ("bar-0 foo-0", "bar-0 foo-1")


def test_the_new_target_sticks_to_what_the_old_id_had() -> None:
    bench = Bench(topics={"foo": 6})
    for member_id, instance_id in (("A", "i"), ("M", None), ("Z", None)):
        bench.join(member_id, instance_id=instance_id)
    bench.settle()
    had = bench.group.target_of("A")
    bench.go_away("A", "i")
    bench.leave("Z")
    bench.join("Y", "foo nowhere", instance_id="i")
    # Y comes after M in order, and M is short of one; it does not get one of those.
    assert text(had) == "foo-0 foo-1"
    assert had < bench.group.target_of("Y")


def test_the_old_id_is_no_one_afterwards() -> None:
    bench = away()
    bench.join("A2", instance_id="i")
    assert_refused(
        bench.beat("A", epoch=3, instance_id="i"),
        "FENCED_INSTANCE_ID",
        "Static member A with instance id i was fenced by member A2.",
    )
    unknown = "Member A is not a member of group group."
    assert_refused(bench.beat("A", epoch=3), "UNKNOWN_MEMBER_ID", unknown)
    assert bench.commit("A", 3, {"foo-0": 1})["foo-0"].name == "UNKNOWN_MEMBER_ID"


@both_versions
def test_who_left_in_the_middle_of_a_revocation_returns_past_it(version: str) -> None:
    bench = Bench(version)
    bench.join("A", instance_id="i")
    bench.join("B")
    bench.beat("A")
    bench.go_away("A", "i")
    _, target_epoch = bench.epochs
    response = bench.join("A2", instance_id="i")
    assert bench.view("A2") == f"{target_epoch}/0 STABLE foo-0 foo-1"
    assert response.assignment == parts("foo[0,1]")


def test_what_moved_away_meanwhile_is_let_go_at_the_return() -> None:
    bench = away()
    bench.join("C")
    assert bench.view("C") == "4/0 UNRELEASED -"
    assert bench.target("C") == "foo-1"
    response = bench.join("A2", instance_id="i")
    assert response.assignment == parts("foo[0]")
    assert bench.beat("C").assignment == parts("foo[1]")


def test_assignment_epochs_stay_0_after_a_return_until_the_partition_moves() -> None:
    bench = away()
    bench.join("A2", instance_id="i")
    assert dict(bench.member("A2").assigned) == {("foo", 0): 0, ("foo", 1): 0}


def test_a_return_under_the_id_of_another_member_replaces_both() -> None:
    """It gets the place of the static member; nothing is held twice."""
    bench = away()
    assert_accepted(bench.join("B", instance_id="i"))
    assert bench.wrote == "8†A 7†A 5†A 5B 7B 8B 5B 8B"
    assert sorted(bench.group.members) == ["B"]
    assert bench.assigned("B") == "foo-0 foo-1"
    assert sorted(bench.group.current_partition_epoch) == sorted(parts("foo[0,1]"))
