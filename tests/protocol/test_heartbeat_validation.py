"""What a heartbeat is refused for before anything is looked up (coordinator §2.2, §2.12)."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest
from coordinator_builders import (
    Bench,
    assert_accepted,
    assert_refused,
    both_versions,
    join_request,
    parts,
)

from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup

BLANK = "MemberId can't be empty."
NO_SUBSCRIPTION = (
    "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
)
NO_ASSIGNOR = "ServerAssignor nope is not supported. Supported assignors: uniform, range."
BAD_REGEX = "SubscribedTopicRegex `(fo` is not a valid regular expression: missing closing )."

BROKEN_JOINS: dict[str, tuple[dict[str, Any], str, str]] = {
    "V1": ({"group_id": " "}, "INVALID_REQUEST", "GroupId can't be empty."),
    "V2": ({"instance_id": " "}, "INVALID_REQUEST", "InstanceId can't be empty."),
    "V3": ({"rack_id": ""}, "INVALID_REQUEST", "RackId can't be empty."),
    "V5": ({"member_id": ""}, "INVALID_REQUEST", BLANK),
    "V6": (
        {"rebalance_timeout_ms": -1},
        "INVALID_REQUEST",
        "RebalanceTimeoutMs must be provided in first request.",
    ),
    "V7": (
        {"topic_partitions": None},
        "INVALID_REQUEST",
        "TopicPartitions must be empty when (re-)joining.",
    ),
    "V8": ({"subscribed_topic_names": None}, "INVALID_REQUEST", NO_SUBSCRIPTION),
    "V11": ({"server_assignor": "nope"}, "UNSUPPORTED_ASSIGNOR", NO_ASSIGNOR),
}
"""One broken rule each, in the order in which they are looked at."""


@both_versions
@pytest.mark.parametrize("rule", BROKEN_JOINS)
def test_a_join_that_breaks_one_rule_is_refused_for_it(version: str, rule: str) -> None:
    bench = Bench(version)
    fields, code, message = BROKEN_JOINS[rule]
    assert_refused(bench.send(join_request(**fields)), code, message)
    assert bench.wrote == ""
    assert bench.shard.coordinator.groups_of(ConsumerGroup) == {}


@pytest.mark.parametrize(("first", "second"), list(combinations(BROKEN_JOINS, 2)))
def test_of_two_broken_rules_the_earlier_one_is_named(first: str, second: str) -> None:
    fields, code, message = BROKEN_JOINS[first]
    response = Bench().send(join_request(**{**BROKEN_JOINS[second][0], **fields}))
    assert_refused(response, code, message)


def test_a_join_that_already_owns_something_breaks_v7_too() -> None:
    response = Bench().send(join_request(topic_partitions=parts("foo[0]")))
    assert_refused(response, *BROKEN_JOINS["V7"][1:])


def test_the_empty_name_is_an_unknown_assignor() -> None:
    response = Bench().send(join_request(server_assignor=""))
    assert_refused(
        response,
        "UNSUPPORTED_ASSIGNOR",
        "ServerAssignor  is not supported. Supported assignors: uniform, range.",
    )


def test_only_configured_assignors_are_supported() -> None:
    bench = Bench(group_consumer_assignors=("range",))
    assert_refused(
        bench.send(join_request(server_assignor="uniform")),
        "UNSUPPORTED_ASSIGNOR",
        "ServerAssignor uniform is not supported. Supported assignors: range.",
    )
    assert_accepted(bench.send(join_request(server_assignor="range")))


@both_versions
def test_a_pattern_that_does_not_compile_is_refused_last(version: str) -> None:
    bench = Bench(version)
    bad = {"subscribed_topic_regex": "(fo"}
    assert_refused(bench.send(join_request(**bad)), "INVALID_REGULAR_EXPRESSION", BAD_REGEX)
    assert bench.shard.coordinator.groups_of(ConsumerGroup) == {}
    response = bench.send(join_request(**bad, server_assignor="nope"))
    assert_refused(response, "UNSUPPORTED_ASSIGNOR", NO_ASSIGNOR)


def test_a_pattern_alone_or_beside_names_is_a_subscription_and_an_empty_list_is_one_too() -> None:
    assert_accepted(Bench().send(join_request(subscribed_topic_regex="fo.*")))
    assert_accepted(Bench().join("A", None, subscribed_topic_regex="fo.*"))
    assert_accepted(Bench().join("A", None, subscribed_topic_regex=""))
    assert_accepted(Bench().join("A", ""))


@pytest.mark.parametrize("timeout_ms", [0, -2])
def test_only_minus_one_is_no_rebalance_timeout(timeout_ms: int) -> None:
    bench = Bench()
    assert_accepted(bench.join("A", rebalance_timeout_ms=timeout_ms))
    bench.join("B")
    bench.beat("A")
    assert bench.timer_at("rebalance", "A") == timeout_ms
    bench.wait(0)
    assert bench.wrote == "8†A 7†A 5†A 3"


# -- member ids ----------------------------------------------------------------------------


def test_before_version_1_the_coordinator_makes_the_id_of_a_join() -> None:
    bench = Bench()
    first = bench.send(join_request("", api_version=0))
    second = bench.send(join_request("", api_version=0))
    assert_accepted(first)
    assert first.member_id
    assert second.member_id not in ("", first.member_id)
    assert sorted(bench.group.members) == sorted([first.member_id, second.member_id])


@pytest.mark.parametrize("blank", ["", "  "])
@pytest.mark.parametrize("epoch", [1, -1, -2])
def test_later_heartbeats_need_a_member_id_in_every_version(epoch: int, blank: str) -> None:
    bench = Bench()
    for api_version in (0, 1):
        response = bench.beat(blank, epoch=epoch, instance_id="i", api_version=api_version)
        assert_refused(response, "INVALID_REQUEST", BLANK)


def test_an_id_of_spaces_is_an_id_before_version_1() -> None:
    bench = Bench()
    response = bench.send(join_request("  ", api_version=0))
    assert (response.member_id, sorted(bench.group.members)) == ("  ", ["  "])
    assert_refused(Bench().send(join_request("  ")), "INVALID_REQUEST", BLANK)


# -- other epochs --------------------------------------------------------------------------


def test_a_temporary_leave_needs_an_instance_id() -> None:
    assert_refused(Bench().beat("A", epoch=-2), "INVALID_REQUEST", "InstanceId can't be null.")


def test_there_is_no_epoch_below_minus_two() -> None:
    for member_id, api_version in (("A", 1), ("A", 0), ("", 0)):
        response = Bench().beat(member_id, epoch=-3, api_version=api_version)
        assert_refused(response, "INVALID_REQUEST", "MemberEpoch is invalid.")


@pytest.mark.parametrize("epoch", [-1, -2, 1])
def test_the_assignor_is_looked_at_in_leaves_and_later_heartbeats_too(epoch: int) -> None:
    bench = Bench()
    bench.join("A", instance_id="i")
    response = bench.beat("A", epoch=epoch, instance_id="i", server_assignor="nope")
    assert_refused(response, "UNSUPPORTED_ASSIGNOR", NO_ASSIGNOR)


def test_leaves_do_not_look_at_the_pattern() -> None:
    bench = Bench()
    bench.join("A")
    assert_accepted(bench.beat("A", epoch=-1, subscribed_topic_regex="(fo"))


def test_the_rules_for_joins_do_not_bind_later_heartbeats() -> None:
    bench = Bench()
    bench.join("A")
    assert_accepted(bench.beat("A"))
    assert_accepted(bench.beat("A", topics=""))
    assert bench.member("A").subscribed_topic_names == ()
