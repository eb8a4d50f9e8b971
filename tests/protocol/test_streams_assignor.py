"""What the Streams assignor does with a group: stories of its rules."""

from __future__ import annotations

from dataclasses import replace

import pytest
from assignor_builders import parts
from streams_builders import ACCEPTABLE, compute, group, placed, streams_member

from rebalance_sim.protocol.assignors.client_side import (
    AssignmentError,
    MetadataReason,
    StreamsAssignor,
)
from rebalance_sim.protocol.assignors.client_side.streams_placement import StreamsConfig
from rebalance_sim.protocol.wire.topics import TopicPartition

READY = {"foo-3": 0, "foo-4": 0, "foo-5": 0}


def test_a_fresh_group_is_balanced_at_once() -> None:
    shares = placed(group(streams_member("A"), streams_member("B")))
    assert (len(shares["A"].active), len(shares["B"].active)) == (3, 3)
    assert shares["A"].warm_up == shares["B"].warm_up == frozenset()


def test_a_newcomer_warms_up_before_it_gets_anything() -> None:
    shares = placed(group(streams_member("A", "foo[0-5]"), streams_member("B")))
    assert shares["A"].active == parts("foo[0-5]")
    assert (shares["B"].active, shares["B"].warm_up) == (frozenset(), parts("foo[3,4]"))


def test_what_has_caught_up_moves_and_the_next_warms_up() -> None:
    lags = {"foo-3": ACCEPTABLE, "foo-4": ACCEPTABLE + 1}
    shares = placed(group(streams_member("A", "foo[0-5]"), streams_member("B", "", lags)))
    assert shares["A"].active == parts("foo[0-2,4,5]")
    assert (shares["B"].active, shares["B"].warm_up) == (parts("foo[3]"), parts("foo[4,5]"))


def test_when_all_have_caught_up_nothing_is_left_to_do() -> None:
    first = placed(group(streams_member("A", "foo[0-5]"), streams_member("B", "", READY)))
    assert (first["A"].active, first["B"].active) == (parts("foo[0-2]"), parts("foo[3-5]"))
    again = placed(group(streams_member("A", "foo[0-2]"), streams_member("B", "foo[3-5]", READY)))
    assert again == first


def test_there_are_no_more_warm_ups_at_one_time_than_the_setting_says() -> None:
    shares = placed(
        group(streams_member("A", "foo[0-5]"), streams_member("B")), max_warmup_replicas=1
    )
    assert shares["B"].warm_up == parts("foo[3]")


def test_warm_ups_that_have_begun_go_on_before_others_begin() -> None:
    lags = {"foo-5": 5_000, "foo-4": 3_000}
    shares = placed(group(streams_member("A", "foo[0-5]"), streams_member("B", "", lags)))
    assert shares["B"].warm_up == parts("foo[4,5]")


def test_another_member_of_the_same_process_needs_no_warm_up() -> None:
    """The state is in the store of the process, whichever of its members runs the task."""
    first = streams_member("A", "foo[0-5]", process="p")
    shares = placed(group(first, streams_member("B", process="p")))
    assert (len(shares["A"].active), len(shares["B"].active)) == (3, 3)


def test_the_heir_of_a_task_is_whoever_has_a_good_copy_of_it() -> None:
    shares = placed(
        group(
            streams_member("A", "foo[0]"),
            streams_member("B", "foo[1]", {"foo-2": 5_000, "foo-3": 7}),
            streams_member("C", "foo[4]", {"foo-2": 7, "foo-3": 5_000}),
            foo=5,
        )
    )
    assert TopicPartition("foo", 3) in shares["B"].active
    assert TopicPartition("foo", 2) in shares["C"].active


def test_a_task_that_no_one_has_a_good_copy_of_goes_to_whoever_has_come_furthest() -> None:
    shares = placed(
        group(
            streams_member("A", "", {"foo-0": 9_000}),
            streams_member("B", "", {"foo-0": 8_000}),
            foo=1,
        )
    )
    assert shares["B"].active == parts("foo[0]")


def test_an_owner_that_is_still_restoring_is_not_left_for_a_member_that_has_nothing() -> None:
    restoring = streams_member("A", "foo[0,1]", {"foo-0": 9_000, "foo-1": 9_000})
    shares = placed(group(restoring, streams_member("B"), foo=2))
    assert shares["A"].active == parts("foo[0,1]")
    assert shares["B"].warm_up == frozenset()  # Its copy could not be better than the owner's.


def test_standbys_are_kept_in_other_processes() -> None:
    shares = placed(
        group(
            streams_member("A", "foo[0]", process="p"),
            streams_member("A2", "foo[1]", process="p"),
            streams_member("B", process="q"),
            foo=2,
        ),
        num_standby_replicas=2,
    )
    assert shares["B"].standby == parts("foo[0,1]")
    assert shares["A"].standby == shares["A2"].standby == frozenset()


def test_standbys_are_kept_under_other_tags_where_there_are_any() -> None:
    members = [
        streams_member("A", "foo[0]", client_tags={"zone": "x"}),
        streams_member("B", "foo[1]", {"foo-0": 0}, client_tags={"zone": "x"}),
        streams_member("C", "foo[2]", client_tags={"zone": "y"}),
    ]
    tags = {"num_standby_replicas": 1, "rack_aware_assignment_tags": ("zone",)}
    shares = placed(group(*members, foo=3), **tags)
    assert shares["C"].standby == parts("foo[0,1]")
    assert parts("foo[0]") <= placed(group(*members, foo=3), num_standby_replicas=1)["B"].standby


def test_a_standby_stays_where_its_copy_is() -> None:
    members = [
        streams_member("A", "foo[0,1]"),
        streams_member("B", "foo[2,3]", {"foo-0": 0}),
        streams_member("C", "foo[4,5]", {"foo-1": 0}),
    ]
    shares = placed(group(*members), num_standby_replicas=1)
    assert parts("foo[0]") <= shares["B"].standby
    assert parts("foo[1]") <= shares["C"].standby


def test_every_member_is_written_to_in_its_own_version() -> None:
    old = streams_member("B", version=0)
    result = compute(group(streams_member("A", "foo[0-5]"), old))
    assert {row.member_id: row.metadata_version for row in result.members} == {"A": 1, "B": 0}
    shares = placed(group(streams_member("A", "foo[0-5]"), old))
    assert (shares["B"].standby, shares["B"].warm_up) == (parts("foo[3,4]"), frozenset())


def test_different_topologies_are_reported_and_tasks_are_placed_all_the_same() -> None:
    spec = group(streams_member("A", topology_hash=1), streams_member("B", topology_hash=2))
    result = compute(spec)
    assert result.error == AssignmentError.INCONSISTENT_TOPOLOGY
    assert sum(len(row.partitions) for row in result.members) == 6
    alike = group(streams_member("A", topology_hash=1), streams_member("B", version=0))
    assert compute(alike).error == AssignmentError.NONE


def test_a_member_that_asks_for_the_shutdown_of_all_is_heard() -> None:
    asks = streams_member("B", reason=MetadataReason.SHUTDOWN, topology_hash=7)
    assert compute(group(streams_member("A"), asks)).error == AssignmentError.SHUTDOWN


def test_metadata_that_cannot_be_read_is_reported() -> None:
    broken = replace(streams_member("B"), metadata_bytes=b"?")
    result = compute(group(streams_member("A"), broken))
    assert result.error == AssignmentError.ASSIGNMENT_ERROR
    assert sum(len(row.partitions) for row in result.members) == 6


def test_a_member_says_its_process_its_tags_and_how_far_it_lags() -> None:
    assignor = StreamsAssignor(process_id="p", client_tags={"zone": "x"}, topology_hash=3)
    task = TopicPartition("foo", 0)
    said = assignor.metadata_with({task: 5}, MetadataReason.WARM_UP_READY)
    expected = streams_member("p", lags={"foo-0": 5}, client_tags={"zone": "x"}, topology_hash=3)
    assert (said.reason, said.metadata_bytes) == (2, expected.metadata_bytes)


@pytest.mark.parametrize(
    "versions",
    [
        {"maximum_version": 2},
        {"minimum_version": -1},
        {"maximum_version": 0},
        {"minimum_version": 1, "metadata_version": 0},
    ],
)
def test_versions_that_do_not_fit_each_other_are_refused(versions: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="versions must lie within"):
        StreamsAssignor(process_id="p", **versions)


@pytest.mark.parametrize(
    ("name", "value"),
    [("num_standby_replicas", -1), ("acceptable_recovery_lag", -1), ("max_warmup_replicas", 0)],
)
def test_a_setting_out_of_range_is_refused(name: str, value: int) -> None:
    with pytest.raises(ValueError, match=f"{name} must be >= "):
        StreamsConfig(**{name: value})
