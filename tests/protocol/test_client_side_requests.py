"""ConsumerGroupPrepareAssignment, ConsumerGroupInstallAssignment, and what members are told of it
(coordinator §12.5-§12.7)."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from assignment_builders import REBALANCE_TIMEOUT_MS, ComputingBench, assigned, computing, offer
from coordinator_builders import GROUP_ID, assert_accepted, image_of, parts, state_of

from rebalance_sim.protocol.consumer.computation import (
    COMPUTATION_TRANSITIONS,
    Computation,
    ComputationEvent,
    ComputationStep,
)
from rebalance_sim.protocol.wire.assignment_messages import (
    AssignmentMetadata,
    ConsumerGroupInstallAssignmentRequest,
    ConsumerGroupPrepareAssignmentRequest,
    ConsumerGroupPrepareAssignmentResponse,
    InstalledMember,
    PreparedMember,
)
from rebalance_sim.protocol.wire.errors import IllegalTransition
from rebalance_sim.protocol.wire.records import to_dict
from rebalance_sim.protocol.wire.topics import Topic

WHOLE = {"A": "foo[0-2]"}


def reported(name: str, error: int = 0) -> AssignmentMetadata:
    """What ``ComputingBench.install`` gives to each member beside its partitions."""
    return AssignmentMetadata(error=error, metadata_bytes=f"to {name}".encode())


# -- the ordered checks --------------------------------------------------------------------


def both_requests(**fields: Any) -> list[Any]:
    """The two requests with these fields; A's, at epoch 0, for the rest."""
    common = {"group_id": GROUP_ID, "member_id": "A", "member_epoch": 0, **fields}
    rows = (InstalledMember(member_id="A", partitions=parts("foo[0-2]")),)
    return [
        ConsumerGroupPrepareAssignmentRequest(**common),
        ConsumerGroupInstallAssignmentRequest(**common, group_epoch=2, members=rows),
    ]


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"group_id": " ", "member_id": ""}, "INVALID_REQUEST"),
        ({"member_id": "", "group_id": "other"}, "INVALID_REQUEST"),
        ({"member_epoch": -1, "group_id": "other"}, "INVALID_REQUEST"),
        ({"group_id": "other", "member_id": "Z"}, "GROUP_ID_NOT_FOUND"),
        ({"member_id": "Z", "member_epoch": 7}, "UNKNOWN_MEMBER_ID"),
        ({"member_id": "B", "member_epoch": 7}, "STALE_MEMBER_EPOCH"),
        ({"member_epoch": 7}, "STALE_MEMBER_EPOCH"),
        ({"member_id": "B"}, "UNKNOWN_MEMBER_ID"),
        ({}, "NONE"),
    ],
)
def test_both_requests_are_checked_in_the_same_order(fields: dict[str, Any], code: str) -> None:
    bench = computing("B")
    for request in both_requests(**fields):
        assert bench.send(request).error_code.name == code


def test_a_classic_group_is_none_to_assign() -> None:
    bench = ComputingBench()
    bench.commit("", -1, {"foo-0": 1})
    for request in both_requests():
        assert bench.send(request).error_code.name == "GROUP_ID_NOT_FOUND"


@pytest.mark.parametrize("group_epoch", [0, 2])
def test_a_result_for_another_epoch_than_the_prepared_one_is_no_ones(group_epoch: int) -> None:
    bench = computing()
    response = bench.install("A", group_epoch, WHOLE)
    assert response.error_code.name == "UNKNOWN_MEMBER_ID"
    assert bench.chosen == "A"


def test_a_result_without_a_preparation_is_no_ones() -> None:
    bench = ComputingBench()
    bench.join_with("A")
    assert bench.asks_to_compute("A")
    assert bench.install("A", 1, WHOLE).error_code.name == "UNKNOWN_MEMBER_ID"


def test_a_replaced_member_is_refused_with_what_it_has_computed() -> None:
    bench = computing("B")
    bench.asks_to_compute("B")
    bench.wait(REBALANCE_TIMEOUT_MS)
    assert bench.chosen == "B"
    response = bench.install("A", 2, {"A": "foo[0-2]", "B": ""})
    assert (response.error_code.name, bench.wrote) == ("UNKNOWN_MEMBER_ID", "")
    assert bench.prepare("A").error_code.name == "UNKNOWN_MEMBER_ID"


def test_a_computation_for_an_epoch_that_was_taken_back_is_off() -> None:
    bench = assigned()
    bench.join_with("B")
    assert bench.asks_to_compute("A")
    assert_accepted(bench.prepare("A"))
    bench.group.set_field("group_epoch", 1)  # The batch that raised it could not be written.
    assert bench.install("A", 2, WHOLE).error_code.name == "UNKNOWN_MEMBER_ID"
    assert not bench.asks_to_compute("A")
    assert bench.chosen is None


def test_after_a_failover_the_old_preparation_counts_for_nothing() -> None:
    bench = computing()
    bench.restart()
    bench.wait(0)
    assert bench.install("A", 1, WHOLE).error_code.name == "UNKNOWN_MEMBER_ID"
    assert_accepted(bench.prepare("A"))
    assert_accepted(bench.install("A", 1, WHOLE))


def test_whoever_was_told_by_the_former_coordinator_has_its_time_from_its_request_on() -> None:
    bench = ComputingBench()
    bench.join_with("A")
    assert bench.asks_to_compute("A")
    bench.restart()
    bench.wait(0)
    assert_accepted(bench.prepare("A"))
    assert bench.timer_at("computation") == REBALANCE_TIMEOUT_MS


# -- what is prepared ----------------------------------------------------------------------


def test_the_answer_to_prepare_is_the_group_at_its_present_epoch() -> None:
    bench = assigned(topics={"foo": 3, "bar": 2, "baz": 9})
    say = offer(reason=2, metadata_version=1, metadata_bytes=b"says B")
    bench.join_with("B", say, topics="foo bar none", instance_id="i-b", rack_id="r-1")
    response = bench.prepare("A")
    assert response == ConsumerGroupPrepareAssignmentResponse(
        group_epoch=2,
        assignor_name="own",
        members=(
            PreparedMember(
                member_id="A",
                member_epoch=1,
                subscribed_topic_ids=frozenset({"foo"}),
                topic_partitions=parts("foo[0-2]"),
            ),
            PreparedMember(
                member_id="B",
                member_epoch=0,
                subscribed_topic_ids=frozenset({"foo", "bar"}),
                topic_partitions=frozenset(),
                instance_id="i-b",
                rack_id="r-1",
                reason=2,
                metadata_version=1,
                metadata_bytes=b"says B",
            ),
        ),
        topics=(
            Topic(topic_id="bar", name="bar", partition_count=2),
            Topic(topic_id="foo", name="foo", partition_count=3),
        ),
    )


def test_topics_that_a_pattern_matches_are_prepared_too() -> None:
    bench = ComputingBench(topics={"foo": 1, "bar": 1})
    bench.join_with("A", topics=None, subscribed_topic_regex="ba.*")
    bench.wait(1_000)
    (member,) = bench.prepare("A").members
    assert member.subscribed_topic_ids == {"bar"}


def test_who_prepares_again_is_judged_by_the_newer_answer() -> None:
    bench = computing()
    bench.join_with("B")
    assert bench.prepare("A").group_epoch == 2
    assert bench.install("A", 1, WHOLE).error_code.name == "UNKNOWN_MEMBER_ID"
    assert_accepted(bench.install("A", 2, WHOLE))


# -- what is a valid result ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("shares", "message"),
    [
        ({"A": "foo[0-2]", "Z": ""}, "Z is no member of the group."),
        ({"A": "foo[0,1]"}, "Partition foo-2 is not assigned."),
        ({}, "Partition foo-0 is not assigned."),
        ({"A": "foo[0-2]", "B": "foo[1]"}, "Partition foo-1 is assigned twice."),
        ({"A": "foo[0-3]"}, "Partition foo-3 does not exist."),
        ({"A": "foo[0-2]", "B": "bar[0]"}, "Partition bar-0 does not exist."),
    ],
)
def test_a_result_that_is_none_is_refused(shares: dict[str, str], message: str) -> None:
    bench = ComputingBench(topics={"foo": 3, "bar": 1})
    bench.join_with("A")
    bench.join_with("B")
    bench.prepare("A")
    response = bench.install("A", 2, shares)
    assert (response.error_code.name, response.error_message) == ("INVALID_ASSIGNMENT", message)
    assert (bench.wrote, bench.epochs, bench.chosen) == ("", (2, 0), "A")
    assert_accepted(bench.install("A", 2, {"A": "foo[0-2]", "B": ""}))


def test_a_member_that_is_named_twice_or_with_a_version_out_of_range_is_refused() -> None:
    bench = computing()
    row = InstalledMember(member_id="A", partitions=parts("foo[0-2]"))
    wide = InstalledMember(member_id="A", partitions=parts("foo[0-2]"), metadata_version=32_768)
    for rows, message in (
        ((row, row), "A is named twice."),
        ((wide,), "The metadata version 32768 of A is invalid."),
    ):
        request = ConsumerGroupInstallAssignmentRequest(
            group_id=GROUP_ID, member_id="A", member_epoch=0, group_epoch=1, members=rows
        )
        response = bench.send(request)
        assert (response.error_code.name, response.error_message) == (
            "INVALID_ASSIGNMENT",
            message,
        )


def test_a_result_is_judged_by_what_was_prepared_and_not_by_what_is_there_now() -> None:
    bench = computing("B", topics={"foo": 3})
    bench.set_topic("foo", 5)
    bench.leave("B")
    bench.wait(0)
    bench.join_with("C")
    assert_accepted(bench.install("A", 2, {"A": "foo[0,1]", "B": "foo[2]"}))
    assert bench.wrote == "7A 7C 6"
    assert bench.epochs == (4, 2)
    assert (bench.target("A"), bench.target("C")) == ("foo-0 foo-1", "")
    assert "B" not in bench.group.target_assignment


# -- what is installed ---------------------------------------------------------------------


def test_the_result_of_an_older_epoch_is_installed_with_it_and_the_next_is_due_at_once() -> None:
    bench = computing()
    bench.join_with("B")
    assert_accepted(bench.install("A", 1, WHOLE))
    assert (bench.wrote, bench.epochs) == ("7A 7B 6", (2, 1))
    assert bench.group.computation == Computation(member_id="A", assignor_name="own")
    assert bench.asks_to_compute("A")
    assert bench.prepare("A").group_epoch == 2
    assert_accepted(bench.install("A", 2, {"A": "foo[0]", "B": "foo[1,2]"}))
    assert (bench.wrote, bench.epochs, bench.chosen) == ("7A 7B 6", (2, 2), None)


def test_only_what_differs_is_written_but_the_epoch_always_is() -> None:
    bench = computing("B")
    bench.install("A", 2, {"A": "foo[0-1]", "B": "foo[2]"})
    bench.join_with("A", offer(reason=1))
    bench.prepare("A")
    assert_accepted(bench.install("A", 3, {"A": "foo[0-1]", "B": "foo[2]"}))
    assert bench.wrote == "6"
    assert bench.epochs == (3, 3)


def test_new_metadata_is_written_although_the_partitions_stay() -> None:
    bench = assigned()
    bench.beat("A", client_assignors=(offer(reason=1),))
    bench.wait(0)
    bench.prepare("A")
    assert_accepted(bench.install("A", 2, WHOLE, error=3))
    assert bench.wrote == "7A 6"
    assert bench.group.target_metadata == {"A": reported("A", error=3)}


def test_an_error_of_the_assignor_is_stored_and_told_to_everybody() -> None:
    bench = computing("B")
    assert_accepted(bench.install("A", 2, {"A": "foo[0-2]", "B": ""}, error=3))
    for member_id in "AB":
        response = bench.join_with(member_id)
        assert response.assignment_metadata == reported(member_id, error=3)
    bench.restart()
    assert bench.beat("B").assignment_metadata == reported("B", error=3)


def test_who_has_joined_meanwhile_has_nothing_in_a_version_of_its_own() -> None:
    bench = computing()
    bench.join_with("B", offer(metadata_version=1))
    bench.install("A", 1, WHOLE, error=2)
    assert bench.group.target_metadata["B"] == AssignmentMetadata(error=2, metadata_version=1)


def test_a_static_member_that_returns_during_a_computation_has_what_its_predecessor_was_given() -> (
    None
):
    bench = ComputingBench()
    bench.join_with("A")
    bench.join_with("B", instance_id="i-b")
    assert bench.asks_to_compute("A")
    bench.prepare("A")
    bench.go_away("B", "i-b")
    bench.join_with("B2", instance_id="i-b")
    assert bench.epochs == (2, 0)  # To come back under another id raises no epoch.
    assert_accepted(bench.install("A", 2, {"A": "foo[0]", "B": "foo[1,2]"}))
    assert bench.epochs == (2, 2)
    assert (bench.target("A"), bench.target("B2")) == ("foo-0", "foo-1 foo-2")
    assert bench.group.target_metadata["B2"] == reported("B")
    assert bench.chosen is None


def test_a_static_member_that_was_not_there_at_all_inherits_nothing() -> None:
    bench = ComputingBench()
    bench.join_with("A")
    assert bench.asks_to_compute("A")
    bench.prepare("A")
    bench.join_with("B", instance_id="i-b")
    bench.go_away("B", "i-b")
    bench.join_with("B2", instance_id="i-b")
    assert_accepted(bench.install("A", 1, WHOLE))
    assert (bench.target("A"), bench.target("B2")) == ("foo-0 foo-1 foo-2", "")
    assert bench.epochs == (2, 1)


# -- what members are told -----------------------------------------------------------------


def test_metadata_and_target_are_those_of_the_epoch_that_the_member_has_reached() -> None:
    bench = assigned()
    bench.join_with("B")
    bench.prepare("A")
    bench.install("A", 2, {"A": "foo[0]", "B": "foo[1,2]"}, error=1)
    # A has to let go first, and stays at epoch 1 with what it was told there.
    response = bench.beat("A", owned="foo[0-2]")
    assert (response.member_epoch, response.assignment_metadata) == (1, reported("A"))
    assert (response.assignment, response.pending_topic_partitions) == (
        parts("foo[0]"),
        frozenset(),
    )
    response = bench.join_with("B")
    assert (response.member_epoch, response.assignment_metadata) == (2, reported("B", error=1))
    assert (response.assignment, response.pending_topic_partitions) == (
        frozenset(),
        parts("foo[1,2]"),
    )
    response = bench.beat("A", owned="foo[0]")
    assert (response.member_epoch, response.assignment_metadata) == (2, reported("A", error=1))
    response = bench.beat("B")
    assert (response.assignment, response.pending_topic_partitions) == (
        parts("foo[1,2]"),
        frozenset(),
    )
    assert response.assignment_metadata == reported("B", error=1)


def test_the_successor_of_a_static_member_inherits_what_it_was_told() -> None:
    bench = ComputingBench()
    bench.join_with("A", instance_id="i-a")
    assert bench.asks_to_compute("A") is True
    bench.prepare("A")
    bench.install("A", 1, WHOLE)
    bench.join_with("A", instance_id="i-a")
    bench.go_away("A", "i-a")
    response = bench.join_with("A2", instance_id="i-a")
    assert bench.epochs == (1, 1)
    assert (response.member_epoch, response.assignment) == (1, parts("foo[0-2]"))
    assert response.assignment_metadata == reported("A")
    assert bench.group.target_metadata == {"A2": reported("A")}


# -- records -------------------------------------------------------------------------------


def test_records_carry_the_extra_fields_only_where_there_is_something_to_say() -> None:
    bench = assigned()
    written = [to_dict(record) for record in bench.shard.log]
    by_type = {row["type"]: row["value"] for row in written}
    assert by_type["ConsumerGroupMemberMetadata"]["assignors"] == [
        {
            "name": "own",
            "minimum_version": 0,
            "maximum_version": 1,
            "reason": 0,
            "version": 0,
            "metadata": "",
        }
    ]
    extra = {"error": 0, "metadata_version": 0, "metadata": b"to A".hex()}
    for name in ("ConsumerGroupTargetAssignmentMember", "ConsumerGroupCurrentMemberAssignment"):
        assert extra.items() <= by_type[name].items()

    plain = ComputingBench()
    plain.join("A")
    plain.wait(0)
    plain.join("A")
    fields = {key for record in plain.shard.log for key in to_dict(record)["value"]}
    assert fields.isdisjoint({"assignors", "error", "metadata_version", "metadata"})


def test_a_load_brings_everything_back_but_the_computation() -> None:
    bench = computing("B")
    bench.install("A", 2, {"A": "foo[0]", "B": "foo[1,2]"}, error=1)
    bench.join_with("A")
    bench.join_with("B", offer(reason=4))
    bench.prepare("A")
    before = state_of(bench.group)
    bench.restart()
    assert state_of(bench.group) == before
    assert before["target_metadata"] == {"A": reported("A", error=1), "B": reported("B", error=1)}


def test_the_end_of_a_member_takes_its_metadata_away() -> None:
    bench = computing("B")
    bench.install("A", 2, {"A": "foo[0]", "B": "foo[1,2]"})
    bench.leave("B")
    assert bench.group.target_metadata == {"A": reported("A")}
    assert bench.group.client_assignors == {"own": 1}


# -- the table -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("step", "event"), list(itertools.product(ComputationStep, ComputationEvent))
)
def test_every_pair_of_step_and_event_is_listed_or_raises(
    step: ComputationStep, event: ComputationEvent
) -> None:
    computation = Computation(member_id="A", assignor_name="own", step=step)
    expected = COMPUTATION_TRANSITIONS.get((step, event))
    if expected is None:
        with pytest.raises(IllegalTransition, match=f"{step.name} x {event.name}"):
            computation.after(event)
    elif expected is ComputationStep.NONE:
        assert computation.after(event) is None
    else:
        after = computation.after(event)
        assert after is not None
        assert after.step is expected


def test_every_step_can_be_reached_and_left() -> None:
    assert set(COMPUTATION_TRANSITIONS.values()) == set(ComputationStep)
    assert {step for step, _ in COMPUTATION_TRANSITIONS} == set(ComputationStep)


def test_an_image_of_topics_is_needed_for_nothing_else() -> None:
    """A group whose topics are all gone is assigned nothing, and that is whole."""
    bench = computing(topics={"foo": 3})
    bench.shard.update_image(image_of({}, version=2))
    bench.wait(0)
    assert bench.prepare("A").topics == ()
    assert_accepted(bench.install("A", 2, {"A": ""}))
    assert bench.epochs == (2, 2)
