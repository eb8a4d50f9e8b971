"""Subscriptions by pattern: rules 1 to 7 of coordinator §7.2."""

from __future__ import annotations

import pytest
from coordinator_builders import GROUP_ID, Bench, assert_refused, both_versions, parts

from rebalance_sim.protocol.assignors.server import SubscriptionType
from rebalance_sim.protocol.consumer.context import metadata_hash
from rebalance_sim.protocol.hosting.minimal_shard import MinimalShard
from rebalance_sim.protocol.runtime.coordinator_config import CoordinatorConfig
from rebalance_sim.protocol.wire.consumer_messages import DeleteGroupsRequest

TOPICS = {"foo1": 1, "foo2": 1, "bar": 1}
PAUSE_MS = 10_000
"""Patterns of a group are resolved at most once in this time."""


def bench_with(version: str = "kafka-4.3", **config: int) -> Bench:
    return Bench(version, topics=TOPICS, **config)


def resolved(version: str = "kafka-4.3", pattern: str = "foo.*") -> Bench:
    """A has this pattern; it is resolved and assigned, and the pause after it is over."""
    bench = bench_with(version)
    bench.join("A", None, subscribed_topic_regex=pattern)
    bench.wait(0)
    bench.settle()
    bench.wait(PAUSE_MS + 1)
    bench.beat("A")
    return bench


def resolution_after(bench: Bench, member_id: str, **fields: str) -> str:
    """What the resolution writes that this heartbeat starts, if it starts one."""
    bench.beat(member_id, **fields)
    bench.wait(0)
    return bench.wrote


# -- 1 to 3: a new pattern -----------------------------------------------------------------


@both_versions
def test_a_new_pattern_gets_nothing_until_it_is_resolved(version: str) -> None:
    bench = bench_with(version)
    response = bench.join("A", None, subscribed_topic_regex="foo.*")
    assert bench.wrote == ("5A 3 7A 6 8A" if version == "kafka-4.1" else "5A 8A")
    assert (response.member_epoch, response.assignment) == (1, frozenset())
    assert bench.group.metadata_hash == 0
    assert bench.group.resolved_regexes == {}

    bench.wait(0)
    assert bench.wrote == "16(foo.*) 3"
    assert (bench.epochs, bench.state) == ((2, 1), "Assigning")
    assert bench.group.resolved_regexes["foo.*"].topics == ("foo1", "foo2")

    response = bench.beat("A")
    assert bench.wrote == "7A 6 8A"
    assert response.assignment == parts("foo1[0] foo2[0]")


def test_names_in_the_same_request_count_at_once() -> None:
    bench = bench_with()
    response = bench.join("A", "bar", subscribed_topic_regex="foo.*")
    assert bench.wrote == "5A 3 7A 6 8A"
    assert response.assignment == parts("bar[0]")
    bench.wait(0)
    bench.beat("A")
    assert bench.assigned("A") == "bar-0 foo1-0 foo2-0"


@pytest.mark.parametrize(
    ("pattern", "names"),
    [("foo", ""), ("oo1", ""), ("foo.", "foo1 foo2"), (".*1|bar", "bar foo1"), ("", "")],
)
def test_the_whole_name_must_match(pattern: str, names: str) -> None:
    bench = bench_with()
    bench.join("A", None, subscribed_topic_regex=pattern)
    bench.wait(0)
    assert sorted(bench.group.all_subscribed_names()) == names.split()


def test_a_pattern_that_matches_nothing_is_stored_without_a_bump() -> None:
    bench = bench_with()
    bench.join("A", None, subscribed_topic_regex="nothing")
    bench.wait(0)
    assert bench.wrote == "16(nothing)"
    assert bench.epochs == (1, 1)


def test_a_first_pattern_bumps_even_if_its_topics_were_subscribed_by_name() -> None:
    bench = bench_with()
    bench.join("A", "foo1 foo2")
    hash_of_names = bench.group.metadata_hash
    bench.join("B", None, subscribed_topic_regex="foo.*")
    bench.wait(0)
    assert bench.wrote == "16(foo.*) 3"
    assert bench.group.metadata_hash == hash_of_names


def test_all_patterns_of_the_group_are_resolved_together() -> None:
    bench = resolved()
    bench.join("B", None, subscribed_topic_regex="b.*")
    bench.wait(0)
    assert bench.wrote == "16(b.*) 16(foo.*) 3"
    assert {r.value.timestamp for r in bench.records if r.type_id == 16} == {bench.now_ms}


# -- 4 to 6: other changes -----------------------------------------------------------------


@both_versions
def test_a_pattern_known_from_another_member_bumps_at_once(version: str) -> None:
    bench = resolved(version)
    response = bench.join("B", None, subscribed_topic_regex="foo.*")
    assert bench.wrote == "5B 3 7A 7B 6 8B"
    assert bench.timer("regex") is None
    assert response.assignment == frozenset()
    bench.settle()
    assert (bench.assigned("A"), bench.assigned("B")) == ("foo1-0", "foo2-0")


@both_versions
def test_a_changed_pattern_takes_its_predecessor_along_if_no_one_else_has_it(version: str) -> None:
    bench = resolved(version)
    bench.beat("A", subscribed_topic_regex="b.*")
    # 4.3 gives up at once what it no longer subscribes to; 4.1 waits for the new target.
    assert bench.wrote == ("5A 16†(foo.*)" if version == "kafka-4.1" else "5A 16†(foo.*) 8A")
    given_up = "foo1-0 foo2-0" if version == "kafka-4.3" else ""
    assert bench.pending("A") == given_up
    bench.wait(0)
    assert bench.wrote == "16(b.*) 3"
    bench.settle()
    assert bench.assigned("A") == "bar-0"


def test_a_pattern_that_somebody_else_has_keeps_its_record() -> None:
    bench = resolved()
    bench.join("B", None, subscribed_topic_regex="foo.*")
    bench.beat("A", subscribed_topic_regex="b.*")
    assert "16†" not in bench.wrote
    assert bench.group.resolved_regexes.keys() == {"foo.*"}


@both_versions
def test_a_dropped_pattern_bumps_at_once(version: str) -> None:
    bench = resolved(version)
    bench.beat("A", subscribed_topic_regex="")
    assert bench.wrote.startswith("5A 16†(foo.*) 3 ")
    assert bench.group.resolved_regexes == {}
    assert bench.group.metadata_hash == 0


def test_a_pattern_that_was_never_resolved_gets_its_tombstone_too() -> None:
    bench = bench_with()
    bench.join("A", "bar", subscribed_topic_regex="foo.*")
    bench.beat("A", subscribed_topic_regex="")
    assert bench.wrote == "5A 16†(foo.*) 3 6 8A"
    bench.join("A", "bar", subscribed_topic_regex="foo.*")
    bench.leave("A")
    assert bench.wrote == "8†A 7†A 5†A 16†(foo.*) 3"
    bench.wait(0)
    assert bench.wrote == ""


@both_versions
def test_leaves_and_expiries_take_the_pattern_along_before_the_epoch(version: str) -> None:
    bench = resolved(version)
    bench.leave("A")
    assert bench.wrote == "8†A 7†A 5†A 16†(foo.*) 3"
    bench = resolved(version)
    bench.wait(45_000)
    assert bench.wrote == "8†A 7†A 5†A 16†(foo.*) 3"


def test_the_hash_left_behind_covers_the_patterns_that_remain() -> None:
    bench = resolved()
    hash_of_foo = bench.group.metadata_hash
    bench.join("B", None, subscribed_topic_regex="b.*")
    bench.wait(0)
    assert bench.group.metadata_hash != hash_of_foo
    bench.leave("B")
    assert bench.wrote == "8†B 7†B 5†B 16†(b.*) 3"
    assert bench.group.metadata_hash == hash_of_foo


def test_a_static_member_brings_its_pattern_back() -> None:
    bench = bench_with()
    bench.join("A", None, subscribed_topic_regex="foo.*", instance_id="i")
    bench.wait(0)
    bench.settle()
    bench.go_away("A", "i")
    bench.join("A2", None, subscribed_topic_regex="foo.*", instance_id="i")
    assert bench.wrote == "8†A 7†A 5†A 5A2 7A2 8A2 8A2"
    assert bench.assigned("A2") == "foo1-0 foo2-0"
    assert bench.group.subscribed_regexes == {"foo.*": 1}


# -- 7: when patterns are resolved ---------------------------------------------------------


def test_within_10_s_a_second_pattern_stays_unresolved() -> None:
    bench = bench_with()
    bench.join("A", None, subscribed_topic_regex="foo.*")
    bench.wait(0)
    bench.wait(PAUSE_MS)
    bench.join("B", None, subscribed_topic_regex="b.*")
    assert bench.timer("regex") is None
    bench.wait(1)
    assert bench.group.resolved_regexes.keys() == {"foo.*"}
    assert resolution_after(bench, "A") == "16(b.*) 16(foo.*) 3"  # Any member's heartbeat will do.


def test_only_one_resolution_is_under_way_and_a_later_pattern_is_not_in_it() -> None:
    bench = bench_with()
    bench.join("K", "bar")
    bench.join("A", None, subscribed_topic_regex="foo.*")
    first = bench.timer("regex")
    bench.join("B", None, subscribed_topic_regex="b.*")
    assert bench.timer("regex") == first
    bench.wait(0)
    assert bench.wrote == "16(foo.*) 3"
    bench.wait(PAUSE_MS + 1)
    assert resolution_after(bench, "K") == "16(b.*) 16(foo.*) 3"


def test_a_resolution_matches_the_topics_of_the_moment_it_was_scheduled() -> None:
    bench = bench_with()
    bench.join("A", None, subscribed_topic_regex="foo.*")
    bench.set_topic("foo3", 1)
    bench.wait(0)
    assert bench.group.resolved_regexes["foo.*"].topics == ("foo1", "foo2")
    bench.wait(PAUSE_MS + 1)
    assert resolution_after(bench, "A") == "16(foo.*) 3"
    assert bench.group.resolved_regexes["foo.*"].topics == ("foo1", "foo2", "foo3")


def test_what_a_resolution_found_is_hashed_as_it_is_when_the_result_is_applied() -> None:
    bench = bench_with()
    bench.join("A", None, subscribed_topic_regex="foo.*")
    bench.set_topic("foo1", 2)
    bench.wait(0)
    image = bench.shard.coordinator.image
    assert bench.group.metadata_hash == metadata_hash(("foo1", "foo2"), image)


def test_a_pattern_that_no_one_has_any_more_is_not_stored() -> None:
    bench = bench_with()
    bench.join("A", None, subscribed_topic_regex="foo.*")
    bench.join("B", "bar")
    bench.beat("A", subscribed_topic_regex="b.*")
    bench.wait(0)
    assert bench.wrote == ""
    assert resolution_after(bench, "B") == "16(b.*) 3"


def test_a_resolution_whose_group_is_gone_writes_nothing_and_blocks_no_one() -> None:
    bench = bench_with()
    bench.join("A", None, subscribed_topic_regex="foo.*")
    bench.leave("A")
    bench.send(DeleteGroupsRequest(group_id=GROUP_ID))
    bench.wait(0)
    assert bench.wrote == ""
    bench.join("A", None, subscribed_topic_regex="foo.*")
    bench.wait(0)
    assert bench.wrote == "16(foo.*) 3"


def test_once_no_pattern_is_stored_the_pause_is_over() -> None:
    bench = bench_with()
    bench.join("A", None, subscribed_topic_regex="foo.*")
    bench.wait(0)
    # The limit looks at the patterns as they were before this request.
    assert resolution_after(bench, "A", subscribed_topic_regex="b.*") == ""
    assert resolution_after(bench, "A") == "16(b.*) 3"


@both_versions
def test_a_created_topic_is_noticed_by_the_first_heartbeat_after_the_pause(version: str) -> None:
    bench = resolved(version)
    bench.set_topic("foo3", 1)
    bench.beat("A")
    assert bench.wrote == ""
    bench.wait(0)
    assert bench.wrote == "16(foo.*) 3"
    assert bench.beat("A").assignment == parts("foo1[0] foo2[0] foo3[0]")
    bench.set_topic("foo4", 1)
    bench.wait(PAUSE_MS)
    assert resolution_after(bench, "A") == ""
    bench.wait(1)
    assert resolution_after(bench, "A") == "16(foo.*) 3"


def test_a_created_topic_that_does_not_match_costs_a_record_16_and_no_bump() -> None:
    bench = resolved()
    bench.set_topic("other", 1)
    assert resolution_after(bench, "A") == "16(foo.*)"
    bench.wait(PAUSE_MS + 1)
    assert resolution_after(bench, "A") == ""


@both_versions
def test_a_grown_or_deleted_topic_of_a_pattern_is_noticed_like_any_other(version: str) -> None:
    bench = resolved(version)
    bench.set_topic("foo1", 2)
    bench.beat("A")
    assert bench.wrote == "3 7A 6 8A"
    bench.delete_topic("foo2")
    bench.beat("A", owned="foo1[0,1]")
    assert bench.assigned("A") == "foo1-0 foo1-1"


def test_patterns_are_resolved_again_after_the_refresh_interval() -> None:
    bench = Bench(topics=TOPICS, group_consumer_regex_refresh_interval_ms=20_000)
    bench.join("A", None, subscribed_topic_regex="foo.*")
    bench.wait(20_000)
    assert resolution_after(bench, "A") == ""
    bench.wait(1)
    assert resolution_after(bench, "A") == "16(foo.*)"


def test_a_pattern_dropped_while_another_is_kept_resolves_the_rest() -> None:
    """The number of patterns after the request differs from that of the stored ones."""
    bench = resolved()
    bench.join("B", None, subscribed_topic_regex="b.*")
    bench.wait(0)
    bench.wait(PAUSE_MS + 1)
    bench.beat("A")
    assert resolution_after(bench, "B", subscribed_topic_regex="") == "16(foo.*)"


def test_a_resolution_survives_nothing_but_is_started_again_after_a_load() -> None:
    bench = bench_with()
    bench.join("A", None, subscribed_topic_regex="foo.*")
    bench.shard.restart()
    bench.wait(0)
    assert bench.group.resolved_regexes == {}
    assert resolution_after(bench, "A") == "16(foo.*) 3"


# -- subscription type ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("subscriptions", "kind"),
    [
        ({"A": ("foo1", ""), "B": ("foo1", "")}, "homogeneous"),
        ({"A": ("foo1", ""), "B": ("foo2", "")}, "heterogeneous"),
        ({"A": ("", "foo.*"), "B": ("", "foo.*")}, "homogeneous"),
        ({"A": ("", "foo.*"), "B": ("", "foo.+")}, "heterogeneous"),
        ({"A": ("", "foo.*"), "B": ("foo1 foo2", "")}, "heterogeneous"),
        ({"A": ("", "foo.*"), "B": ("", "")}, "heterogeneous"),
        ({"A": ("bar", "foo.*"), "B": ("bar", "foo.*")}, "heterogeneous"),
    ],
)
def test_with_patterns_only_one_shared_pattern_alone_is_homogeneous(
    subscriptions: dict[str, tuple[str, str]], kind: str
) -> None:
    bench = bench_with()
    for member_id, (names, pattern) in subscriptions.items():
        bench.join(member_id, names, subscribed_topic_regex=pattern)
    assert bench.group.subscription_type is SubscriptionType(kind)


def test_a_bad_pattern_changes_nothing() -> None:
    bench = resolved()
    before = bench.member("A")
    assert_refused(
        bench.beat("A", subscribed_topic_regex="(foo"),
        "INVALID_REGULAR_EXPRESSION",
        "SubscribedTopicRegex `(foo` is not a valid regular expression: missing closing ).",
    )
    assert bench.wrote == ""
    assert bench.member("A") is before


def test_a_coordinator_without_an_engine_refuses_every_pattern() -> None:
    bench = bench_with()
    bench.shard = MinimalShard(config=CoordinatorConfig(), image=bench.shard.coordinator.image)
    assert_refused(
        bench.join("A", None, subscribed_topic_regex="foo"),
        "INVALID_REGULAR_EXPRESSION",
        "SubscribedTopicRegex `foo` is not a valid regular expression: "
        "this coordinator was built without a regular expression engine.",
    )
