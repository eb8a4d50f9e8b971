"""Group states, list, describe, delete, dynamic settings (coordinator §6, §8.6, §10.2)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from coordinator_builders import GROUP_ID, Bench, both_versions, join_request, parts, state_of

from rebalance_sim.protocol.runtime.coordinator_config import (
    ConfigsInForce,
    CoordinatorConfig,
    GroupConfig,
    alter_broker_config,
    alter_group_config,
)
from rebalance_sim.protocol.wire.consumer_messages import (
    AlterGroupConfigRequest,
    AlterGroupConfigResponse,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DeleteGroupsRequest,
    DescribedMember,
    ListedGroup,
    ListGroupsRequest,
)
from rebalance_sim.protocol.wire.errors import ErrorCode, GroupError

# -- 6.1 states ----------------------------------------------------------------------------


@both_versions
def test_a_group_goes_through_its_states(version: str) -> None:
    bench = Bench(version)
    bench.join("A")
    assert bench.state == "Stable"
    bench.join("B")
    assert bench.state == "Reconciling"
    bench.beat("A")
    bench.beat("A", owned="foo[0,1]")
    assert bench.state == "Reconciling"
    bench.beat("B")
    assert bench.state == "Stable"
    bench.leave("B")
    assert bench.state == "Assigning"
    bench.beat("A")
    assert bench.state == "Stable"
    bench.leave("A")
    assert bench.state == "Empty"  # Although the group epoch is above the target epoch.
    assert bench.epochs[0] > bench.epochs[1]


def test_a_single_member_reconciles_too() -> None:
    bench = Bench(topics={"foo": 1, "bar": 1})
    bench.join("A", "foo bar")
    bench.delete_topic("bar")
    bench.beat("A")
    assert bench.pending("A") == "bar-0"
    assert bench.state == "Reconciling"


# -- 6.2 ListGroups ------------------------------------------------------------------------


def listing() -> Bench:
    """Groups: a is empty, b stable, c offsets only."""
    bench = Bench()
    for group_id in ("b", "a"):
        bench.send(join_request(group_id=group_id))
    bench.send(join_request(group_id="a", member_epoch=-1))
    bench.commit("", -1, {"foo-0": 1})
    return bench


def listed(bench: Bench, **filters: Any) -> list[str]:
    response = bench.send(ListGroupsRequest(**filters))
    assert response.error_code is ErrorCode.NONE
    return [group.group_id for group in response.groups]


def test_groups_are_listed_with_state_and_type_in_order() -> None:
    assert listing().send(ListGroupsRequest()).groups == (
        ListedGroup(
            group_id="a", protocol_type="consumer", group_state="Empty", group_type="consumer"
        ),
        ListedGroup(
            group_id="b", protocol_type="consumer", group_state="Stable", group_type="consumer"
        ),
        ListedGroup(group_id=GROUP_ID, protocol_type="", group_state="Empty", group_type="classic"),
    )


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ({}, ["a", "b", GROUP_ID]),
        ({"states_filter": ("Stable",)}, ["b"]),
        ({"states_filter": (" eMPTY ",)}, ["a", GROUP_ID]),
        ({"states_filter": ("stable", "empty")}, ["a", "b", GROUP_ID]),
        ({"states_filter": ("nonsense",)}, []),
        ({"types_filter": ("CONSUMER",)}, ["a", "b"]),
        ({"types_filter": ("classic",)}, [GROUP_ID]),
        ({"types_filter": ("nonsense",)}, []),
        ({"types_filter": (" classic ",)}, []),
        ({"types_filter": ("classic", "nonsense")}, [GROUP_ID]),
        ({"states_filter": ("",)}, []),
        ({"states_filter": ("empty",), "types_filter": ("consumer",)}, ["a"]),
    ],
)
def test_filters_are_case_insensitive_and_unknown_names_match_nothing(
    filters: dict[str, Any], found: list[str]
) -> None:
    assert listed(listing(), **filters) == found


# -- 6.3 ConsumerGroupDescribe -------------------------------------------------------------


@both_versions
def test_describe_shows_what_is_being_revoked_as_assigned_on_4_3_only(version: str) -> None:
    bench = Bench(version)
    bench.join("A", rack_id="r", client_id="laptop", instance_id="i")
    bench.join("B", None, subscribed_topic_regex="fo+")
    bench.wait(0)
    bench.beat("A", client_id="laptop")
    assert bench.pending("A") == "foo-2"
    group_epoch, target_epoch = bench.epochs
    assert bench.describe() == ConsumerGroupDescribeResponse(
        group_id=GROUP_ID,
        state="Reconciling",
        group_epoch=group_epoch,
        assignment_epoch=target_epoch,
        assignor="uniform",
        members=(
            DescribedMember(
                member_id="A",
                instance_id="i",
                rack_id="r",
                member_epoch=bench.member("A").member_epoch,
                client_id="laptop",
                client_host="",
                subscribed_topic_names=("foo",),
                subscribed_topic_regex="",
                assignment=parts("foo[0-2]" if version == "kafka-4.3" else "foo[0,1]"),
                target_assignment=parts("foo[0,1]"),
            ),
            DescribedMember(
                member_id="B",
                instance_id=None,
                rack_id=None,
                member_epoch=bench.member("B").member_epoch,
                client_id="client",
                client_host="",
                subscribed_topic_names=(),
                subscribed_topic_regex="fo+",
                assignment=frozenset(),
                target_assignment=parts("foo[2]"),
            ),
        ),
    )


def test_topics_that_are_gone_are_left_out() -> None:
    bench = Bench(topics={"foo": 1, "bar": 1})
    bench.join("A", "foo bar")
    bench.delete_topic("bar")
    (member,) = bench.describe().members
    assert (member.assignment, member.target_assignment) == (parts("foo[0]"), parts("foo[0]"))


def test_groups_that_are_no_consumer_groups_are_not_found_and_the_rest_is_empty() -> None:
    bench = listing()
    rows = bench.send(ConsumerGroupDescribeRequest(group_ids=("b", "no one", "", GROUP_ID)))
    assert [row.error_code.name for row in rows] == [
        "NONE",
        "GROUP_ID_NOT_FOUND",
        "INVALID_GROUP_ID",
        "GROUP_ID_NOT_FOUND",
    ]
    for row in rows[1:]:
        assert (row.state, row.group_epoch, row.assignment_epoch) == ("", 0, 0)
        assert (row.assignor, row.members) == ("", ())


# -- 8.6 DeleteGroups ----------------------------------------------------------------------


def delete(bench: Bench, group_id: str = GROUP_ID) -> str:
    response = bench.send(DeleteGroupsRequest(group_id=group_id))
    assert response.group_id == group_id
    return response.error_code.name


@both_versions
def test_only_an_empty_group_is_deleted_with_its_offsets_first(version: str) -> None:
    bench = Bench(version)
    bench.join("A")
    bench.commit("A", bench.member("A").member_epoch, {"foo-1": 1, "foo-0": 2})
    assert delete(bench) == "NON_EMPTY_GROUP"
    bench.leave("A")
    assert delete(bench) == "NONE"
    assert bench.wrote == "1†(foo-0) 1†(foo-1) 6† 4† 3†"
    assert state_of(bench.shard.coordinator) == {"groups": {}, "simple": set(), "offsets": {}}
    assert delete(bench) == "GROUP_ID_NOT_FOUND"
    fresh = Bench(version)
    fresh.join("A")
    bench.join("A")
    assert bench.epochs == fresh.epochs


def test_a_group_of_offsets_only_goes_by_its_classic_tombstone() -> None:
    bench = Bench()
    bench.commit("", -1, {"foo-0": 1})
    assert delete(bench) == "NONE"
    assert bench.wrote == "1†(foo-0) 2†"
    assert delete(bench) == "GROUP_ID_NOT_FOUND"


# -- 10.2 dynamic settings -----------------------------------------------------------------


def alter(bench: Bench, group_id: str = GROUP_ID, **configs: int | None) -> str:
    dotted = {name.replace("_", "."): value for name, value in configs.items()}
    response = bench.send(AlterGroupConfigRequest(group_id=group_id, configs=dotted))
    assert isinstance(response, AlterGroupConfigResponse)
    assert bench.wrote == ""
    return response.error_code.name


@both_versions
def test_the_interval_counts_at_once_and_the_session_at_its_next_start(version: str) -> None:
    bench = Bench(version)
    bench.join("A")
    assert alter(bench, consumer_heartbeat_interval_ms=6_000) == "NONE"
    assert alter(bench, consumer_session_timeout_ms=50_000) == "NONE"
    assert bench.timer_at("session", "A") == 45_000
    assert bench.beat("A").heartbeat_interval_ms == 6_000
    assert bench.timer_at("session", "A") == 50_000
    assert alter(bench, consumer_session_timeout_ms=None) == "NONE"
    assert bench.beat("A").heartbeat_interval_ms == 6_000
    assert bench.timer_at("session", "A") == 45_000


@pytest.mark.parametrize(
    "configs",
    [
        {"consumer_session_timeout_ms": 44_999},
        {"consumer_session_timeout_ms": 60_001},
        {"consumer_heartbeat_interval_ms": 4_999},
        {"consumer_heartbeat_interval_ms": 15_001},
        {"consumer_assignment_interval_ms": -1},
        {"group_consumer_session_timeout_ms": 50_000},
        {"consumer_session_timeout_ms": 50_000, "nonsense": 1},
    ],
)
def test_what_is_out_of_bounds_or_unknown_changes_nothing(configs: dict[str, int]) -> None:
    bench = Bench()
    assert alter(bench, consumer_session_timeout_ms=55_000) == "NONE"
    assert alter(bench, **configs) == "INVALID_CONFIG"
    bench.join("A")
    assert bench.timer_at("session", "A") == 55_000


def test_the_session_must_stay_above_the_interval() -> None:
    bench = Bench(
        group_consumer_min_session_timeout_ms=6_000,
        group_consumer_max_heartbeat_interval_ms=50_000,
    )
    assert alter(bench, consumer_session_timeout_ms=6_000) == "NONE"
    assert alter(bench, consumer_heartbeat_interval_ms=6_000) == "INVALID_CONFIG"
    assert alter(bench, consumer_session_timeout_ms=7_000) == "NONE"
    assert alter(bench, consumer_heartbeat_interval_ms=6_000) == "NONE"
    assert alter(bench, consumer_heartbeat_interval_ms=45_000) == "INVALID_CONFIG"


def test_a_setting_needs_a_group_and_4_1_has_no_assignment_interval() -> None:
    assert alter(Bench(), "", consumer_session_timeout_ms=50_000) == "INVALID_REQUEST"
    assert alter(Bench("kafka-4.1"), consumer_assignment_interval_ms=5) == "INVALID_CONFIG"


@pytest.mark.parametrize(
    ("configs", "words"),
    [
        (
            {"consumer.session.timeout.ms": 44_999},
            "consumer.session.timeout.ms must be greater than or equal to "
            "group.consumer.min.session.timeout.ms",
        ),
        (
            {"consumer.heartbeat.interval.ms": 15_001},
            "consumer.heartbeat.interval.ms must be less than or equal to "
            "group.consumer.max.heartbeat.interval.ms",
        ),
        (
            {"consumer.assignment.interval.ms": 15_001},
            "consumer.assignment.interval.ms must be less than or equal to "
            "group.consumer.max.assignment.interval.ms",
        ),
        (
            {"consumer.assignment.interval.ms": -1},
            "Invalid value -1 for configuration consumer.assignment.interval.ms: "
            "Value must be at least 0",
        ),
        (
            {"consumer.session.timeout.ms": 0},
            "Invalid value 0 for configuration consumer.session.timeout.ms: "
            "Value must be at least 1",
        ),
        ({"consumer.nothing": 1}, "Unknown group config name: consumer.nothing"),
        (
            {"consumer.assignor.offload.enable": "false"},
            "Unknown group config name: consumer.assignor.offload.enable",
        ),
        *(
            (
                {"consumer.session.timeout.ms": value},
                f"Invalid value {text} for configuration consumer.session.timeout.ms: "
                "Not a number of type INT",
            )
            for value, text in (
                *((same, same) for same in ("abc", "", "45000.0", "45_000", "2147483648", "١")),
                (True, "true"),
                (2**31, "2147483648"),
            )
        ),
        (
            {"consumer.session.timeout.ms": 1, "consumer.assignment.interval.ms": " -1 "},
            "Invalid value -1 for configuration consumer.assignment.interval.ms: "
            "Value must be at least 0",
        ),
        (
            {"consumer.session.timeout.ms": 1, "consumer.heartbeat.interval.ms": 1},
            "consumer.heartbeat.interval.ms must be greater than or equal to "
            "group.consumer.min.heartbeat.interval.ms",
        ),
        (
            {"consumer.session.timeout.ms": 1, "consumer.assignment.interval.ms": 99_999},
            "consumer.session.timeout.ms must be greater than or equal to "
            "group.consumer.min.session.timeout.ms",
        ),
    ],
)
def test_a_refused_group_setting_is_refused_in_the_words_of_a_broker(
    configs: dict[str, int | str | None], words: str
) -> None:
    """As Apache Kafka 4.3.1 was seen to answer."""
    with pytest.raises(GroupError) as refusal:
        alter_group_config(
            CoordinatorConfig(), GroupConfig(), configs, has_assignment_interval=True
        )
    assert (refusal.value.code.name, refusal.value.message) == ("INVALID_CONFIG", words)


@pytest.mark.parametrize(
    ("configs", "words"),
    [
        (
            {"group.consumer.assignment.interval.ms": 15_001},
            "group.consumer.assignment.interval.ms must be less than or equal to "
            "group.consumer.max.assignment.interval.ms",
        ),
        (
            {"group.consumer.assignment.interval.ms": -1},
            "Invalid value -1 for configuration group.consumer.assignment.interval.ms: "
            "Value must be at least 0",
        ),
        (
            {"group.consumer.session.timeout.ms": 50_000},
            "Cannot update these configs dynamically: [group.consumer.session.timeout.ms]",
        ),
        (
            {"offsets.retention.minutes": 7},
            "Cannot update these configs dynamically: [offsets.retention.minutes]",
        ),
    ],
)
def test_a_refused_broker_setting_is_refused_in_the_words_of_a_broker(
    configs: dict[str, int | None], words: str
) -> None:
    """As Apache Kafka 4.3.1 was seen to answer."""
    static = CoordinatorConfig()
    with pytest.raises(GroupError) as refusal:
        alter_broker_config(static, static, configs, has_assignment_interval=True)
    assert (refusal.value.code.name, refusal.value.message) == ("INVALID_REQUEST", words)


@pytest.mark.parametrize("text", [" 50000 ", "+50000", "0050000"])
def test_a_number_is_read_from_its_text_as_java_reads_it(text: str) -> None:
    altered = alter_group_config(
        CoordinatorConfig(),
        GroupConfig(),
        {"consumer.session.timeout.ms": text},
        has_assignment_interval=True,
    )
    assert altered == GroupConfig(consumer_session_timeout_ms=50_000)


def test_of_a_running_broker_only_the_assignment_interval_changes_and_4_1_has_none() -> None:
    static = CoordinatorConfig(group_consumer_assignment_interval_ms=500)
    name = "group.consumer.assignment.interval.ms"
    altered = alter_broker_config(static, static, {name: 2_000}, has_assignment_interval=True)
    assert altered == replace(static, group_consumer_assignment_interval_ms=2_000)
    back = alter_broker_config(static, altered, {name: None}, has_assignment_interval=True)
    assert back == static
    with pytest.raises(GroupError, match="dynamically"):
        alter_broker_config(static, static, {name: 2_000}, has_assignment_interval=False)


def test_a_group_without_a_setting_of_its_own_goes_by_the_broker() -> None:
    configs = ConfigsInForce(broker=CoordinatorConfig()).with_group(
        "own", GroupConfig(consumer_session_timeout_ms=50_000, consumer_assignment_interval_ms=0)
    )
    assert configs.session_timeout_ms("own") == 50_000
    assert configs.assignment_interval_ms("own") == 0
    assert configs.heartbeat_interval_ms("own") == 5_000
    assert configs.session_timeout_ms("another") == 45_000
    assert configs.assignment_interval_ms("another") == 1_000


def test_settings_precede_survive_and_outlive_the_group() -> None:
    bench = Bench()
    alter(bench, consumer_session_timeout_ms=55_000)
    bench.join("A")
    bench.leave("A")
    delete(bench)
    bench.shard.restart()
    bench.join("A")
    assert bench.timer_at("session", "A") == 55_000
    bench.shard.restart()
    assert bench.timer_at("session", "A") == 55_000


# -- 10.1 defaults and start-up checks -----------------------------------------------------

DEFAULTS = {
    "group_consumer_session_timeout_ms": 45_000,
    "group_consumer_min_session_timeout_ms": 45_000,
    "group_consumer_max_session_timeout_ms": 60_000,
    "group_consumer_heartbeat_interval_ms": 5_000,
    "group_consumer_min_heartbeat_interval_ms": 5_000,
    "group_consumer_max_heartbeat_interval_ms": 15_000,
    "group_consumer_assignment_interval_ms": 1_000,
    "group_consumer_max_size": 2_147_483_647,
    "group_consumer_assignors": ("uniform", "range"),
    "group_consumer_migration_policy": "bidirectional",
    "offset_metadata_max_bytes": 4_096,
    "offsets_retention_minutes": 10_080,
    "offsets_retention_check_interval_ms": 600_000,
    "offsets_commit_timeout_ms": 5_000,
}


def test_the_defaults_are_those_of_a_broker() -> None:
    config = CoordinatorConfig()
    assert {name: getattr(config, name) for name in DEFAULTS} == DEFAULTS


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"group_consumer_session_timeout_ms": 44_999}, "group_consumer_session_timeout_ms"),
        ({"group_consumer_session_timeout_ms": 60_001}, "group_consumer_session_timeout_ms"),
        ({"group_consumer_heartbeat_interval_ms": 1}, "group_consumer_heartbeat_interval_ms"),
        ({"group_consumer_assignment_interval_ms": -1}, "group_consumer_assignment_interval_ms"),
        (
            {"group_consumer_assignment_interval_ms": 15_001},
            "group_consumer_assignment_interval_ms",
        ),
        ({"group_consumer_max_size": 0}, "group_consumer_max_size"),
        ({"group_consumer_assignors": ()}, "group_consumer_assignors"),
        (
            {
                "group_consumer_max_heartbeat_interval_ms": 45_000,
                "group_consumer_heartbeat_interval_ms": 45_000,
            },
            "must be less than",
        ),
        ({"offsets_retention_minutes": 0}, "offsets_retention_minutes"),
    ],
)
def test_a_broker_that_would_not_start_is_refused(settings: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        CoordinatorConfig(**settings)
