"""What a heartbeat answers and what it bumps (coordinator §2.4, §2.9, §2.10)."""

from __future__ import annotations

from typing import Any

import pytest
from coordinator_builders import (
    Bench,
    assert_accepted,
    both_versions,
    join_request,
    parts,
    shorthand,
)

from rebalance_sim.protocol.wire.consumer_messages import ConsumerGroupHeartbeatResponse
from rebalance_sim.protocol.wire.records import to_dict

# -- 2.9 when the response carries the assignment ------------------------------------------


def test_a_success_names_the_member_its_epoch_and_the_interval_of_the_group() -> None:
    bench = Bench()
    assert bench.join("A") == ConsumerGroupHeartbeatResponse(
        member_id="A",
        member_epoch=2,
        heartbeat_interval_ms=5_000,
        assignment=parts("foo[0-2]"),
    )


FULL: dict[str, Any] = {"rebalance_timeout_ms": 60_000, "topics": "foo", "owned": "foo[0-2]"}


@both_versions
def test_a_full_request_is_answered_in_full(version: str) -> None:
    bench = Bench(version)
    bench.join("A")
    assert bench.beat("A", **FULL).assignment == parts("foo[0-2]")
    assert bench.wrote == ""


@pytest.mark.parametrize("missing", FULL)
def test_a_request_that_leaves_out_a_field_is_answered_without_the_assignment(missing: str) -> None:
    bench = Bench()
    bench.join("A")
    fields = {name: value for name, value in FULL.items() if name != missing}
    assert bench.beat("A", **fields).assignment is None


def test_a_pattern_stands_for_the_names_in_a_full_request() -> None:
    bench = Bench()
    bench.join("A", subscribed_topic_regex="x")
    fields = {name: value for name, value in FULL.items() if name != "topics"}
    response = bench.beat("A", subscribed_topic_regex="x", **fields)
    assert response.assignment == parts("foo[0-2]")


def test_an_empty_assignment_is_an_empty_list() -> None:
    bench = Bench()
    bench.join("A")
    assert bench.join("B").assignment == frozenset()


def test_a_changed_assignment_is_told_once_and_a_mere_epoch_without_it() -> None:
    bench = Bench()
    bench.join("A")
    bench.join("B")
    assert bench.beat("A").assignment == parts("foo[0,1]")
    assert bench.beat("A").assignment is None
    raised = bench.beat("A", owned="foo[0,1]")
    assert (raised.member_epoch, raised.assignment) == (3, None)


def test_the_interval_is_that_of_the_group() -> None:
    bench = Bench(group_consumer_heartbeat_interval_ms=6_000)
    assert bench.join("A").heartbeat_interval_ms == 6_000


# -- 2.10 which changes bump the group epoch -----------------------------------------------

ONLY_RECORD_5: dict[str, dict[str, Any]] = {
    "another client id": {"client_id": "other"},
    "rack": {"rack_id": "r1"},
    "rebalance timeout": {"rebalance_timeout_ms": 1_000},
    "assignor": {"server_assignor": "range"},
}


@both_versions
@pytest.mark.parametrize("change", ONLY_RECORD_5)
def test_a_change_that_is_no_subscription_costs_one_record_5(version: str, change: str) -> None:
    bench = Bench(version)
    bench.join("A")
    epochs = bench.epochs
    bench.beat("A", **ONLY_RECORD_5[change])
    assert bench.wrote == "5A"
    assert bench.epochs == epochs
    bench.beat("A", **ONLY_RECORD_5[change])
    assert bench.wrote == ""
    assert bench.beat("A", client_id=bench.member("A").client_id).assignment is None
    assert bench.wrote == ""


def test_another_client_host_costs_a_record_5_too() -> None:
    bench = Bench()
    bench.join("A")
    batches = len(bench.shard.batches)
    request = join_request("A", member_epoch=2)
    bench.shard.request(request, client_id="client", client_host="/10.0.0.2")
    assert [shorthand(records) for _, records in bench.shard.batches[batches:]] == ["5A"]
    assert bench.member("A").client_host == "/10.0.0.2"


@both_versions
def test_record_8_carries_assignment_epochs_on_4_3_only(version: str) -> None:
    bench = Bench(version, topics={"foo": 2})
    bench.join("A")
    row: dict[str, Any] = {"topic_id": "foo", "partitions": [0, 1]}
    if version == "kafka-4.3":
        row["assignment_epochs"] = [2, 2]
    assert to_dict(bench.records[-1])["value"]["assigned_partitions"] == [row]


@both_versions
def test_a_subscription_bumps_and_the_same_one_in_another_order_does_not(version: str) -> None:
    bench = Bench(version, topics={"foo": 3, "bar": 2})
    bench.join("A")
    group_epoch, _ = bench.epochs
    bench.beat("A", topics="bar foo")
    assert bench.wrote == "5A 3 7A 6 8A"
    assert bench.epochs == (group_epoch + 1, group_epoch + 1)
    bench.beat("A", topics="foo bar foo")
    assert bench.wrote == ""
    bench.beat("A", topics="")
    assert bench.wrote == "5A 3 7A 6 8A"


def test_a_name_without_a_topic_bumps_too() -> None:
    bench = Bench()
    bench.join("A")
    bench.beat("A", topics="foo nowhere")
    assert bench.wrote == "5A 3 6 8A"
    assert bench.assigned("A") == "foo-0 foo-1 foo-2"


def test_fields_that_are_not_given_stay_as_they_are() -> None:
    bench = Bench()
    bench.join("A", rack_id="r", server_assignor="range", instance_id="i")
    before = bench.member("A")
    bench.beat("A")
    assert bench.wrote == ""
    assert bench.member("A") is before


def test_a_missing_assignor_does_not_withdraw_a_vote() -> None:
    bench = Bench()
    bench.join("A", server_assignor="range")
    bench.join("A", server_assignor=None)
    assert bench.group.server_assignors == {"range": 1}


@both_versions
def test_without_names_the_first_join_bumps_on_4_1_only(version: str) -> None:
    """coordinator §7.2: on 4.3 both epochs are 1 from the start."""
    bench = Bench(version)
    response = bench.join("A", "")
    assert (response.member_epoch, response.assignment) == (1, frozenset())
    assert bench.wrote == ("5A 3 7A 6 8A" if version == "kafka-4.1" else "5A 8A")
    assert bench.epochs == (1, 1)


# -- 7.3 noticing topics -------------------------------------------------------------------


@both_versions
def test_any_member_notices_grown_created_and_deleted_topics_at_its_next_heartbeat(
    version: str,
) -> None:
    bench = Bench(version, topics={"foo": 1})
    bench.join("A", "foo bar")
    bench.join("B", "foo bar")
    bench.settle()
    epoch, _ = bench.epochs
    bench.set_topic("foo", 2)
    assert bench.beat("B").member_epoch == epoch + 1
    assert bench.wrote == "3 7B 6 8B"
    bench.set_topic("bar", 2)
    bench.beat("A")
    assert bench.wrote == "3 7A 7B 6 8A"
    bench.settle()
    bench.delete_topic("bar")
    bench.beat("A", owned="foo[0] bar[0]")
    assert bench.wrote == "3 7A 7B 6 8A"
    assert bench.pending("A") == "bar-0"
    bench.settle()
    assert bench.state == "Stable"
    assert bench.epochs == (epoch + 3, epoch + 3)


def test_a_recreated_topic_is_another_topic() -> None:
    bench = Bench(topics={"foo": 1})
    bench.join("A")
    bench.set_topic("foo", 1, topic_id="foo2")
    bench.beat("A")
    assert bench.wrote == "3 7A 6 8A"
    assert (bench.assigned("A"), bench.pending("A")) == ("", "foo-0")
    bench.beat("A", owned="")
    assert bench.assigned("A") == "foo2-0"


def test_topics_that_no_one_subscribes_to_and_unchanged_ones_cost_nothing() -> None:
    bench = Bench()
    bench.join("A")
    bench.set_topic("other", 5)
    bench.set_topic("foo", 3)
    bench.beat("A")
    assert bench.wrote == ""


def test_a_group_without_heartbeats_does_not_react() -> None:
    bench = Bench(group_consumer_session_timeout_ms=60_000)
    bench.join("A")
    bench.set_topic("foo", 4)
    bench.wait(59_999)
    assert bench.wrote == ""
    assert bench.epochs == (2, 2)


def test_the_hash_is_0_if_no_subscribed_topic_exists() -> None:
    bench = Bench()
    bench.join("A", "nowhere")
    assert bench.group.metadata_hash == 0
    bench.set_topic("nowhere", 1)
    bench.beat("A")
    created = bench.group.metadata_hash
    assert created != 0
    bench.set_topic("nowhere", 2)
    bench.beat("A")
    assert bench.group.metadata_hash not in (0, created)
    bench.delete_topic("nowhere")
    bench.beat("A")
    assert bench.group.metadata_hash == 0


def test_the_hash_forgets_what_no_one_subscribes_to_any_more() -> None:
    alone = Bench(topics={"foo": 3, "bar": 1})
    alone.join("A")
    bench = Bench(topics={"foo": 3, "bar": 1})
    bench.join("A", "foo bar")
    bench.beat("A", topics="foo")
    assert bench.group.metadata_hash == alone.group.metadata_hash


# -- what heartbeats leave alone -----------------------------------------------------------


@both_versions
def test_a_steady_heartbeat_writes_nothing_and_changes_no_member(version: str) -> None:
    bench = Bench(version)
    for member_id in "ABC":
        bench.join(member_id)
    bench.settle()
    before = dict(bench.group.members)
    for member_id in "ABC":
        assert_accepted(bench.beat(member_id))
        assert bench.wrote == ""
    assert all(bench.member(member_id) is before[member_id] for member_id in before)


@both_versions
def test_the_heartbeat_after_a_leave_computes_the_target(version: str) -> None:
    bench = Bench(version)
    bench.join("A")
    bench.join("B")
    bench.settle()
    bench.leave("B")
    assert bench.wrote == "8†B 7†B 5†B 3"
    assert bench.state == "Assigning"
    response = bench.beat("A")
    assert bench.wrote == "7A 6 8A"
    assert response.assignment == parts("foo[0-2]")


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_a_target_epoch_rises_even_if_no_target_changes(assignor: str) -> None:
    bench = Bench(topics={"foo": 1})
    bench.join("A", server_assignor=assignor)
    bench.join("B")
    bench.leave("B")
    bench.beat("A")
    assert bench.wrote == "6 8A"
    assert bench.epochs == (4, 4)
