"""Committed offsets: commit, fetch, delete, expire (coordinator §8)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from coordinator_builders import GROUP_ID, Bench, both_versions, parts, simple_groups

from rebalance_sim.protocol.wire.consumer_messages import Request
from rebalance_sim.protocol.wire.offset_messages import (
    NO_OFFSET,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
)
from rebalance_sim.protocol.wire.records import OffsetCommit, OffsetCommitValue, to_dict

DAY_MS = 86_400_000
CHECK_MS = 600_000
LONG_SESSION = {
    "group_consumer_max_session_timeout_ms": 100 * DAY_MS,
    "group_consumer_session_timeout_ms": 100 * DAY_MS,
}
"""Members that stay without heartbeats while offsets grow old."""


def names(errors: dict[str, Any]) -> dict[str, str]:
    return {partition: error.name for partition, error in errors.items()}


def commit(bench: Bench, member_id: str, epoch: int, **fields: Any) -> str:
    """The result of committing foo-0."""
    return bench.commit(member_id, epoch, {"foo-0": 1}, **fields)["foo-0"].name


# -- 8.1 who may commit --------------------------------------------------------------------


@both_versions
def test_a_member_commits_at_its_epoch_and_not_beyond(version: str) -> None:
    bench = Bench(version)
    bench.join("A")
    epoch = bench.member("A").member_epoch
    assert commit(bench, "A", epoch) == "NONE"
    assert bench.wrote == "1(foo-0)"
    assert commit(bench, "A", epoch + 1) == "STALE_MEMBER_EPOCH"
    assert commit(bench, "Z", epoch) == "UNKNOWN_MEMBER_ID"
    assert bench.wrote == ""
    assert bench.fetched("foo-0", "foo-1") == {"foo-0": 1, "foo-1": NO_OFFSET}


def test_at_the_current_epoch_ownership_and_instance_id_are_not_looked_at() -> None:
    bench = Bench()
    bench.join("A")
    bench.join("B")
    assert commit(bench, "B", 3, group_instance_id="whatever") == "NONE"


def test_a_group_that_does_not_exist() -> None:
    assert commit(Bench(), "A", 0) == "GROUP_ID_NOT_FOUND"
    assert commit(Bench(), "A", 0, api_version=8) == "ILLEGAL_GENERATION"


@pytest.mark.parametrize("member_id", ["", "somebody"])
def test_who_is_no_member_commits_to_missing_simple_and_empty_groups(member_id: str) -> None:
    bench = Bench()
    assert commit(bench, member_id, -1) == "NONE"
    assert bench.wrote == "1(foo-0)"
    assert simple_groups(bench.shard.coordinator) == {GROUP_ID}
    assert commit(bench, member_id, -1) == "NONE"
    assert commit(bench, member_id, 0) == "UNKNOWN_MEMBER_ID"
    bench.join("A")
    bench.leave("A")
    assert commit(bench, member_id, -1, api_version=2) == "NONE"
    assert commit(bench, member_id, 0) == "UNKNOWN_MEMBER_ID"
    assert simple_groups(bench.shard.coordinator) == set()


def test_who_is_no_member_does_not_commit_to_a_group_with_members() -> None:
    bench = Bench()
    bench.join("A")
    assert commit(bench, "", -1) == "UNKNOWN_MEMBER_ID"
    assert commit(bench, "Z", -1) == "UNKNOWN_MEMBER_ID"
    assert commit(bench, "A", -1) == "STALE_MEMBER_EPOCH"


def test_members_need_version_9() -> None:
    bench = Bench()
    bench.join("A")
    assert commit(bench, "A", 2, api_version=8) == "UNSUPPORTED_VERSION"
    assert commit(bench, "Z", 2, api_version=8) == "UNKNOWN_MEMBER_ID"


@both_versions
def test_a_member_that_revokes_still_commits_and_who_is_away_does_not(version: str) -> None:
    bench = Bench(version)
    bench.join("A", instance_id="i")
    bench.join("B")
    bench.beat("A")
    epoch = bench.member("A").member_epoch
    assert names(bench.commit("A", epoch, {"foo-2": 7})) == {"foo-2": "NONE"}
    bench.go_away("A", "i")
    assert commit(bench, "A", epoch) == "STALE_MEMBER_EPOCH"


# -- 8.1 an older epoch --------------------------------------------------------------------


def past_a_rebalance(version: str) -> tuple[Bench, int]:
    """A kept foo-0 and foo-1, gave foo-2 to B, and has been granted foo-3 since; its old epoch."""
    bench = Bench(version)
    bench.join("A")
    old = bench.member("A").member_epoch
    bench.join("B")
    bench.settle()
    bench.set_topic("foo", 6)
    bench.settle()
    assert "foo-3" in bench.assigned("A")
    return bench, old


@pytest.mark.parametrize(
    ("partitions", "result_on_4_3"),
    [
        (("foo-0",), "NONE"),
        (("foo-0", "foo-1"), "NONE"),
        (("foo-2",), "STALE_MEMBER_EPOCH"),  # Given away.
        (("foo-3",), "STALE_MEMBER_EPOCH"),  # Granted later than the epoch.
        (("foo-0", "foo-3"), "STALE_MEMBER_EPOCH"),  # One failure refuses the request.
    ],
)
def test_an_older_epoch_commits_what_the_member_has_held_since_on_4_3_only(
    partitions: tuple[str, ...], result_on_4_3: str
) -> None:
    """KIP-1251."""
    for version, result in (("kafka-4.3", result_on_4_3), ("kafka-4.1", "STALE_MEMBER_EPOCH")):
        bench, old = past_a_rebalance(version)
        errors = bench.commit("A", old, dict.fromkeys(partitions, 9))
        assert names(errors) == dict.fromkeys(partitions, result)
        assert (bench.wrote != "") is (result == "NONE")


def test_an_epoch_between_grant_and_present_is_good_too() -> None:
    bench, old = past_a_rebalance("kafka-4.3")
    granted = bench.member("A").assigned[next(iter(parts("foo[3]")))]
    bench.join("A", "foo nowhere")
    assert bench.member("A").member_epoch > granted > old
    assert names(bench.commit("A", granted, {"foo-3": 1})) == {"foo-3": "NONE"}
    assert names(bench.commit("A", granted - 1, {"foo-3": 1})) == {"foo-3": "STALE_MEMBER_EPOCH"}


def test_partitions_being_revoked_count_as_held() -> None:
    bench = Bench()
    bench.join("A")
    old = bench.member("A").member_epoch
    bench.join("B")
    bench.settle()
    bench.join("C")
    bench.beat("A")
    assert bench.pending("A") == "foo-1"
    assert bench.member("A").member_epoch > old
    assert names(bench.commit("A", old, {"foo-1": 1})) == {"foo-1": "NONE"}
    assert names(bench.commit("A", old - 1, {"foo-1": 1})) == {"foo-1": "STALE_MEMBER_EPOCH"}


def test_what_is_refused_for_its_metadata_is_not_looked_at() -> None:
    bench, old = past_a_rebalance("kafka-4.3")
    granted_later = next(iter(parts("foo[3]")))
    errors = bench.commit("A", old, {"foo-0": 1, "foo-3": 1}, metadata={granted_later: "x" * 4_097})
    assert names(errors) == {"foo-0": "NONE", "foo-3": "OFFSET_METADATA_TOO_LARGE"}
    assert bench.wrote == "1(foo-0)"


# -- 8.1, 8.4 what is stored ---------------------------------------------------------------


def test_unknown_partitions_and_long_metadata_are_refused_one_by_one() -> None:
    bench = Bench()
    metadata = {p: "ü" * (4_096 if p.partition == 0 else 4_097) for p in parts("foo[0,1]")}
    offsets = {"foo-0": 1, "foo-1": 2, "foo-3": 3, "foo--1": 4, "bar-0": 5}
    assert names(bench.commit("", -1, offsets, metadata=metadata)) == {
        "foo-0": "NONE",
        "foo-1": "OFFSET_METADATA_TOO_LARGE",
        "foo-3": "UNKNOWN_TOPIC_OR_PARTITION",
        "foo--1": "UNKNOWN_TOPIC_OR_PARTITION",
        "bar-0": "UNKNOWN_TOPIC_OR_PARTITION",
    }
    assert bench.wrote == "1(foo-0)"
    assert names(bench.commit("A", 7, {"bar-0": 1})) == {"bar-0": "UNKNOWN_TOPIC_OR_PARTITION"}


def test_the_length_of_metadata_is_that_of_a_java_string() -> None:
    bench = Bench(offset_metadata_max_bytes=3)
    (partition,) = parts("foo[0]")
    for text, result in (("üüü", "NONE"), ("😀x", "NONE"), ("😀😀", "OFFSET_METADATA_TOO_LARGE")):
        assert commit(bench, "", -1, metadata={partition: text}) == result


@both_versions
def test_the_record_carries_time_and_metadata_and_on_4_3_the_topic_id(version: str) -> None:
    bench = Bench(version)
    bench.wait(1_234)
    (partition,) = parts("foo[0]")
    bench.commit("", -1, {"foo-0": 42}, metadata={partition: "note"})
    (record,) = bench.records
    value = {"offset": 42, "leader_epoch": -1, "metadata": "note", "commit_timestamp": 1_234}
    assert to_dict(record) == {
        "type": "OffsetCommit",
        "key": {"topic": "foo", "partition": 0},
        "value": value | ({"topic_id": "foo"} if version == "kafka-4.3" else {}),
    }


# -- 8.2 OffsetFetch -----------------------------------------------------------------------


@both_versions
def test_a_signed_fetch_needs_a_member_and_exactly_its_epoch(version: str) -> None:
    bench, old = past_a_rebalance(version)
    epoch = bench.member("A").member_epoch
    bench.commit("A", epoch, {"foo-0": 8})
    assert bench.fetched("foo-0", member_id="A", member_epoch=epoch) == {"foo-0": 8}
    assert bench.fetched("foo-0") == {"foo-0": 8}
    for member_id, given, code in (
        ("A", old, "STALE_MEMBER_EPOCH"),
        ("A", epoch + 1, "STALE_MEMBER_EPOCH"),
        ("A", -1, "STALE_MEMBER_EPOCH"),
        ("Z", epoch, "UNKNOWN_MEMBER_ID"),
        (None, epoch, "UNKNOWN_MEMBER_ID"),
    ):
        response = bench.fetch("foo-0", member_id=member_id, member_epoch=given)
        assert (response.error_code.name, response.offsets) == (code, {})


@both_versions
def test_a_fetch_shows_the_text_that_was_committed_last(version: str) -> None:
    bench = Bench(version)
    first, second = sorted(parts("foo[0,1]"))
    bench.commit("", -1, {"foo-0": 1, "foo-1": 2}, metadata={first: "note", second: "old"})
    bench.commit("", -1, {"foo-1": 3})
    for fields in ({}, {"require_stable": False}):
        assert bench.fetch("foo-0", "foo-1", "foo-2", **fields).metadata == {first: "note"}
    everything = OffsetFetchRequest(group_id=GROUP_ID, partitions=None)
    assert bench.send(everything).metadata == {first: "note"}
    bench.restart()
    assert bench.send(everything).metadata == {first: "note"}


@both_versions
def test_the_leader_epoch_of_a_commit_is_stored_and_shown(version: str) -> None:
    bench = Bench(version)
    first, second = sorted(parts("foo[0,1]"))
    bench.commit("", -1, {"foo-0": 1, "foo-1": 2}, leader_epochs={first: 0, second: 7})
    assert [to_dict(record)["value"]["leader_epoch"] for record in bench.records] == [0, 7]
    bench.commit("", -1, {"foo-1": 3})
    for fields in ({}, {"require_stable": False}):
        assert bench.fetch("foo-0", "foo-1", "foo-2", **fields).leader_epochs == {first: 0}
    bench.restart()
    everything = OffsetFetchRequest(group_id=GROUP_ID, partitions=None)
    assert bench.send(everything).leader_epochs == {first: 0}


def test_old_versions_have_no_field_for_the_leader_epoch() -> None:
    bench = Bench()
    (partition,) = parts("foo[0]")
    bench.commit("", -1, {"foo-0": 1}, leader_epochs={partition: 7}, api_version=5)
    assert bench.fetch("foo-0").leader_epochs == {}
    bench.commit("", -1, {"foo-0": 1}, leader_epochs={partition: 7}, api_version=6)
    assert bench.fetch("foo-0", api_version=4).leader_epochs == {}
    assert bench.fetch("foo-0", api_version=5).leader_epochs == {partition: 7}


def test_a_missing_group_has_no_offsets_and_that_is_no_error() -> None:
    response = Bench().fetch("foo-0", "bar-0", member_id="A", member_epoch=3)
    assert response.error_code.name == "NONE"
    assert set(response.offsets.values()) == {NO_OFFSET}


# -- 8.3 OffsetDelete ----------------------------------------------------------------------


def delete(bench: Bench, partitions: str) -> OffsetDeleteResponse:
    request: Request = OffsetDeleteRequest(group_id=GROUP_ID, partitions=parts(partitions))
    response: OffsetDeleteResponse = bench.send(request)
    return response


def test_offsets_of_subscribed_topics_stay_and_others_go() -> None:
    bench = Bench(topics={"foo": 2, "bar": 2, "baz1": 1})
    assert delete(bench, "foo[0]").error_code.name == "GROUP_ID_NOT_FOUND"
    bench.join("A", "foo", subscribed_topic_regex="baz.*")
    bench.wait(0)
    bench.commit("A", bench.member("A").member_epoch, {"foo-0": 1, "bar-0": 2, "baz1-0": 3})
    response = delete(bench, "foo[0] bar[0,1] baz1[0] gone[0]")
    assert response.error_code.name == "NONE"
    assert {f"{t}-{p}": e.name for (t, p), e in response.errors.items()} == {
        "foo-0": "GROUP_SUBSCRIBED_TO_TOPIC",
        "bar-0": "NONE",
        "bar-1": "NONE",
        "baz1-0": "GROUP_SUBSCRIBED_TO_TOPIC",
        "gone-0": "UNKNOWN_TOPIC_OR_PARTITION",
    }
    assert bench.wrote == "1†(bar-0)"
    assert bench.fetched("foo-0", "bar-0") == {"foo-0": 1, "bar-0": NO_OFFSET}


def test_a_group_of_offsets_only_stays_when_its_last_one_is_deleted() -> None:
    bench = Bench()
    bench.commit("", -1, {"foo-0": 1})
    delete(bench, "foo[0]")
    assert bench.wrote == "1†(foo-0)"
    assert delete(bench, "foo[0]").error_code.name == "NONE"
    bench.wait(CHECK_MS)
    assert bench.wrote == "2†"
    assert delete(bench, "foo[0]").error_code.name == "GROUP_ID_NOT_FOUND"


# -- 8.4 topics that go --------------------------------------------------------------------


def test_a_deleted_topic_takes_its_offsets_along_and_a_new_one_starts_without() -> None:
    bench = Bench(topics={"foo": 2, "bar": 1})
    bench.commit("", -1, {"foo-0": 1, "foo-1": 2, "bar-0": 3})
    bench.delete_topic("foo")
    bench.wait(0)
    assert bench.wrote == "1†(foo-0) 1†(foo-1)"
    bench.set_topic("foo", 2, topic_id="foo2")
    assert bench.fetched("foo2-0", "bar-0") == {"foo2-0": NO_OFFSET, "bar-0": 3}


def test_a_recreated_topic_takes_the_offsets_of_its_predecessor_along() -> None:
    bench = Bench()
    bench.commit("", -1, {"foo-0": 1})
    bench.set_topic("foo", 3, topic_id="foo2")
    bench.wait(0)
    assert bench.wrote == "1†(foo-0)"


def test_a_shard_that_was_not_there_leaks_offsets_to_the_recreated_topic() -> None:
    """coordinator D13: offsets are keyed by the topic's name."""
    bench = Bench()
    bench.commit("", -1, {"foo-0": 9})
    later = Bench(topics={})
    later.set_topic("foo", 3, topic_id="foo2")
    for record in bench.shard.log:
        later.shard.coordinator.replay(record, strict=False)
    assert later.fetched("foo2-0") == {"foo2-0": 9}


# -- 8.5 expiry ----------------------------------------------------------------------------


def days(count: int) -> int:
    return count * DAY_MS


def test_the_base_is_the_time_of_the_commit_and_subscribed_topics_are_spared() -> None:
    bench = Bench(topics={"foo": 1, "bar": 1}, **LONG_SESSION)
    bench.join("A", "foo")
    bench.commit("A", 2, {"foo-0": 1, "bar-0": 2})
    bench.wait(days(7) - 1)
    assert bench.wrote == ""
    bench.wait(1)
    assert bench.wrote == "1†(bar-0)"
    bench.leave("A")
    assert bench.fetched("foo-0") == {"foo-0": 1}
    bench.wait(CHECK_MS)  # Idle for a week while subscribed: gone at the next check.
    assert bench.wrote == "1†(foo-0) 6† 4† 3†"


def test_a_later_commit_starts_the_retention_anew() -> None:
    bench = Bench()
    bench.commit("", -1, {"foo-0": 1, "foo-1": 1})
    bench.wait(days(3))
    bench.commit("", -1, {"foo-1": 2})
    bench.wait(days(4))
    assert bench.wrote == "1†(foo-0)"
    bench.wait(days(3))
    assert bench.wrote == "1†(foo-1) 2†"
    assert simple_groups(bench.shard.coordinator) == set()


def test_an_empty_group_without_offsets_goes_at_the_next_check_without_retention() -> None:
    bench = Bench()
    bench.join("A")
    bench.leave("A")
    bench.wait(CHECK_MS - 1)
    assert bench.wrote == ""
    bench.wait(1)
    assert bench.wrote == "6† 4† 3†"
    bench.join("A")
    assert bench.epochs == (2, 2)


def test_groups_with_members_and_groups_with_offsets_stay() -> None:
    bench = Bench(**LONG_SESSION)
    bench.join("A")
    bench.wait(10 * CHECK_MS)
    assert bench.wrote == ""
    bench.commit("A", 2, {"foo-0": 1})
    bench.leave("A")
    bench.wait(10 * CHECK_MS)
    assert bench.wrote == ""


def test_an_explicit_expiry_counts_instead_of_the_retention() -> None:
    bench = Bench()
    value = OffsetCommitValue(offset=1, commit_timestamp=0, expire_timestamp=CHECK_MS)
    bench.shard.coordinator.replay(OffsetCommit(GROUP_ID, "foo", 0, value))
    bench.wait(CHECK_MS)
    assert bench.wrote == "1†(foo-0) 2†"


def test_the_check_comes_again_and_after_a_load_too() -> None:
    bench = Bench()
    bench.wait(CHECK_MS)
    bench.shard.restart()
    bench.join("A")
    bench.leave("A")
    bench.wait(CHECK_MS)
    assert bench.wrote == "6† 4† 3†"


# -- topics by id and by name --------------------------------------------------------------


def recreated() -> Bench:
    """The topic foo, created again: its id is foo2."""
    bench = Bench()
    bench.set_topic("foo", 2, topic_id="foo2")
    return bench


def test_an_id_that_is_gone_is_unknown_from_version_10_on() -> None:
    bench = recreated()
    offsets = {"foo-0": 1, "foo2-0": 2, "foo2-7": 3}
    assert names(bench.commit("", -1, offsets, api_version=10)) == {
        "foo-0": "UNKNOWN_TOPIC_ID",
        "foo2-0": "NONE",
        "foo2-7": "UNKNOWN_TOPIC_OR_PARTITION",
    }
    fetched = bench.fetch("foo-0", "foo2-0", "foo2-7", api_version=10)
    assert fetched.error_code.name == "NONE"
    assert {f"{t}-{p}": o for (t, p), o in fetched.offsets.items()} == {"foo2-0": 2, "foo2-7": -1}
    assert {f"{t}-{p}": e.name for (t, p), e in fetched.errors.items()} == {
        "foo-0": "UNKNOWN_TOPIC_ID"
    }


def test_a_name_means_the_topic_that_has_it_now_and_that_one_is_stored() -> None:
    bench = recreated()
    by_name = {"api_version": 9, "wire_topics": {"foo": "foo", "bar": "bar"}}
    assert names(bench.commit("", -1, {"foo-0": 5, "bar-0": 6}, **by_name)) == {
        "foo-0": "NONE",
        "bar-0": "UNKNOWN_TOPIC_OR_PARTITION",
    }
    assert bench.fetched("foo2-0") == {"foo2-0": 5}
    assert bench.fetched("foo-0", "bar-0", **by_name) == {"foo-0": 5, "bar-0": -1}
    (value,) = bench.shard.coordinator.offsets.of_group(GROUP_ID).values()
    assert value.topic_id == "foo2"


def test_from_version_10_on_a_sender_may_mean_another_id_than_its_own() -> None:
    bench = recreated()
    assert names(
        bench.commit("", -1, {"foo-0": 5}, api_version=10, wire_topics={"foo": "foo2"})
    ) == {"foo-0": "NONE"}
    assert bench.fetched("foo2-0") == {"foo2-0": 5}


def test_all_offsets_of_a_group_are_there_by_name_and_those_of_topics_by_id() -> None:
    bench = Bench(topics={"foo": 1, "bar": 1})
    bench.commit("", -1, {"foo-0": 5, "bar-0": 6})
    image = bench.shard.coordinator.image.without_topic("bar")
    bench.shard.coordinator.update_image(image)  # and no tombstone has been written yet
    everything = OffsetFetchRequest(group_id=GROUP_ID, partitions=None)
    by_name = bench.send(everything)
    assert {f"{t}-{p}": o for (t, p), o in by_name.offsets.items()} == {"foo-0": 5, "bar-0": 6}
    by_id = bench.send(replace(everything, api_version=10))
    assert {f"{t}-{p}": o for (t, p), o in by_id.offsets.items()} == {"foo-0": 5}


def test_what_is_to_be_deleted_is_named_and_must_exist() -> None:
    bench = Bench()
    bench.commit("", -1, {"foo-0": 5})
    partitions = parts("foo[0,7] bar[0]")
    response = bench.send(
        OffsetDeleteRequest(
            group_id=GROUP_ID, partitions=partitions, wire_topics={"foo": "foo", "bar": "bar"}
        )
    )
    assert {f"{t}-{p}": e.name for (t, p), e in response.errors.items()} == {
        "foo-0": "NONE",
        "foo-7": "UNKNOWN_TOPIC_OR_PARTITION",
        "bar-0": "UNKNOWN_TOPIC_OR_PARTITION",
    }
    assert bench.wrote == "1†(foo-0)"


@pytest.mark.parametrize(("version", "expires"), [(1, None), (2, 1_500), (4, 1_500), (5, None)])
def test_a_retention_of_its_own_counts_in_old_versions_only(
    version: int, expires: int | None
) -> None:
    bench = Bench()
    bench.wait(1_000)
    bench.commit("", -1, {"foo-0": 5}, api_version=version, retention_time_ms=500)
    (value,) = bench.shard.coordinator.offsets.of_group(GROUP_ID).values()
    assert value.expire_timestamp == expires
