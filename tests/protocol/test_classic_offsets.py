"""Offsets of classic groups: who may commit and when, what expires, what may be deleted."""

from __future__ import annotations

from typing import Any

import pytest
from classic_builders import GROUP_ID, SESSION_MS, ClassicBench, subscription
from coordinator_builders import simple_groups

from rebalance_sim.protocol.classic.classic_group import ClassicGroup
from rebalance_sim.protocol.classic.classic_states import ClassicGroupState
from rebalance_sim.protocol.wire.consumer_messages import DeleteGroupsRequest, ListGroupsRequest
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.offset_messages import OffsetDeleteRequest, OffsetFetchRequest
from rebalance_sim.protocol.wire.topics import TopicPartition

EMPTY = ClassicGroupState.EMPTY
PREPARING = ClassicGroupState.PREPARING_REBALANCE
STABLE = ClassicGroupState.STABLE

NONE, UNKNOWN = ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID
ILLEGAL = ErrorCode.ILLEGAL_GENERATION
FOO_0 = TopicPartition("foo", 0)
MINUTE_MS = 60_000


def empty(bench: ClassicBench) -> None:
    bench.leave("A")


def stable(bench: ClassicBench) -> None:
    assert bench.state is STABLE


def preparing(bench: ClassicBench) -> None:
    bench.join("B")


def completing(bench: ClassicBench) -> None:
    bench.send_join("A")


@pytest.mark.parametrize(
    ("situation", "name", "generation_ahead", "code"),
    [
        (stable, "A", 0, NONE),
        (stable, "A", 1, ILLEGAL),
        (stable, "A", -1, ILLEGAL),
        (stable, "no one", 0, UNKNOWN),
        (preparing, "A", 0, NONE),
        (preparing, "A", 1, ILLEGAL),
        (completing, "A", 0, ErrorCode.REBALANCE_IN_PROGRESS),
        (completing, "A", -1, ILLEGAL),
        (empty, "A", 0, UNKNOWN),
    ],
)
def test_a_commit_with_a_generation(
    situation: Any, name: str, generation_ahead: int, code: ErrorCode
) -> None:
    bench = ClassicBench().stable("A")
    situation(bench)
    assert bench.commit_offset(name, bench.generation + generation_ahead) is code


@pytest.mark.parametrize(
    ("situation", "name", "instance", "code"),
    [
        (empty, "", None, NONE),
        (empty, "anybody", "i", NONE),
        (stable, "", None, UNKNOWN),
        (stable, "A", None, ILLEGAL),
        (preparing, "", None, UNKNOWN),
        (completing, "", None, UNKNOWN),
    ],
)
def test_a_commit_without_a_generation(
    situation: Any, name: str, instance: str | None, code: ErrorCode
) -> None:
    bench = ClassicBench().stable("A")
    situation(bench)
    assert bench.commit_offset(name, -1, instance=instance) is code


def test_a_commit_renews_the_session_in_a_stable_group_and_in_the_join_phase() -> None:
    bench = ClassicBench().stable("A")
    bench.wait(1_000)
    bench.commit_offset("A", 1)
    assert bench.due_ms("classic-session", "A") == bench.shard.now_ms + SESSION_MS
    bench.join("B")
    bench.wait(1_000)
    bench.commit_offset("A", 1)
    assert bench.due_ms("classic-session", "A") == bench.shard.now_ms + SESSION_MS


def test_a_refused_commit_renews_nothing() -> None:
    bench = ClassicBench().stable("A")
    bench.wait(1_000)
    bench.commit_offset("A", 2)
    assert bench.due_ms("classic-session", "A") == SESSION_MS


@pytest.mark.parametrize(
    ("generation", "version", "code"),
    [(-1, 9, NONE), (0, 9, ErrorCode.GROUP_ID_NOT_FOUND), (0, 8, ILLEGAL)],
)
def test_a_commit_to_a_group_that_is_not_there(
    generation: int, version: int, code: ErrorCode
) -> None:
    bench = ClassicBench()
    assert bench.commit_offset("A", generation, version=version) is code


def test_a_commit_from_outside_makes_a_simple_group_that_a_join_takes_over() -> None:
    bench = ClassicBench()
    bench.commit_offset("", -1)
    assert bench.group.is_simple
    assert simple_groups(bench.shard.coordinator) == {GROUP_ID}
    assert bench.commit_offset("A", 0) is UNKNOWN
    bench.stable("A")
    assert not bench.group.is_simple
    assert simple_groups(bench.shard.coordinator) == set()
    assert fetched(bench) == 5


def fetched(bench: ClassicBench, **identity: Any) -> int:
    response: Any = bench.shard.request(
        OffsetFetchRequest(group_id=GROUP_ID, partitions=frozenset({FOO_0}), **identity)
    )
    assert response.error_code is NONE
    return int(response.offsets[FOO_0])


def test_a_classic_group_checks_no_one_who_fetches() -> None:
    bench = ClassicBench().stable("A")
    bench.commit_offset("A", 1)
    assert fetched(bench) == 5
    assert fetched(bench, member_id="no one", member_epoch=7) == 5


# -- expiry --------------------------------------------------------------------------------


def expire_after(bench: ClassicBench, minutes: int) -> None:
    bench.wait(minutes * MINUTE_MS)


def with_offset(**config: Any) -> ClassicBench:
    bench = ClassicBench(
        topics={"foo": 4, "bar": 1},
        offsets_retention_minutes=60,
        offsets_retention_check_interval_ms=MINUTE_MS,
        **config,
    )
    return bench.stable("A", session_ms=1_800_000, rebalance_ms=1_800_000)


def test_the_retention_of_an_empty_group_counts_from_when_it_became_empty() -> None:
    bench = with_offset()
    bench.commit_offset("A", 1)
    expire_after(bench, 25)
    bench.leave("A")
    expire_after(bench, 59)
    assert fetched(bench) == 5
    expire_after(bench, 1)
    assert bench.wrote() == "1† 2†"
    assert GROUP_ID not in bench.shard.coordinator.groups_of(ClassicGroup)


def test_a_simple_group_counts_from_the_commit() -> None:
    bench = ClassicBench(
        offsets_retention_minutes=60, offsets_retention_check_interval_ms=MINUTE_MS
    )
    expire_after(bench, 30)
    bench.commit_offset("", -1)
    expire_after(bench, 59)
    assert fetched(bench) == 5
    expire_after(bench, 1)
    assert GROUP_ID not in bench.shard.coordinator.groups_of(ClassicGroup)


def keep_alive(bench: ClassicBench, minutes: int) -> None:
    for _ in range(minutes):
        bench.beat("A")
        bench.wait(MINUTE_MS)


def test_what_a_stable_group_subscribes_to_is_spared() -> None:
    bench = with_offset()
    bench.commit_offset("A", 1)
    keep_alive(bench, 70)
    assert fetched(bench) == 5
    bench.send_join("A", metadata=subscription(("bar",)), session_ms=1_800_000)
    bench.settle()
    keep_alive(bench, 1)
    assert fetched(bench) == -1


def test_nothing_expires_while_a_group_rebalances() -> None:
    bench = with_offset()
    bench.commit_offset("A", 1)
    keep_alive(bench, 70)
    bench.send_join("A", metadata=subscription(("bar",)), session_ms=1_800_000)
    bench.wait(MINUTE_MS)
    assert fetched(bench) == 5


def test_an_empty_group_without_offsets_goes_at_the_next_check() -> None:
    bench = with_offset()
    bench.leave("A")
    expire_after(bench, 1)
    assert GROUP_ID not in bench.shard.coordinator.groups_of(ClassicGroup)
    assert bench.wrote() == "2†"


# -- deletion and lists --------------------------------------------------------------------


def delete_group(bench: ClassicBench) -> ErrorCode:
    response: Any = bench.shard.request(DeleteGroupsRequest(group_id=GROUP_ID))
    return ErrorCode(response.error_code)


def test_only_an_empty_group_is_deleted_with_its_offsets() -> None:
    bench = ClassicBench().stable("A")
    bench.commit_offset("A", 1)
    assert delete_group(bench) is ErrorCode.NON_EMPTY_GROUP
    bench.leave("A")
    assert delete_group(bench) is NONE
    assert bench.wrote() == "1† 2†"
    assert delete_group(bench) is ErrorCode.GROUP_ID_NOT_FOUND


def delete_offset(bench: ClassicBench) -> ErrorCode:
    response: Any = bench.shard.request(
        OffsetDeleteRequest(group_id=GROUP_ID, partitions=frozenset({FOO_0}))
    )
    return ErrorCode(response.errors.get(FOO_0, response.error_code))


def test_offsets_of_subscribed_topics_are_not_deleted() -> None:
    bench = ClassicBench().stable("A")
    bench.commit_offset("A", 1)
    assert delete_offset(bench) is ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    bench.leave("A")
    assert delete_offset(bench) is NONE
    assert fetched(bench) == -1


def test_offsets_of_a_group_of_other_things_than_consumers_stay_while_it_has_members() -> None:
    bench = ClassicBench()
    bench.join("A", metadata=b"", protocol_type="connect")
    assert delete_offset(bench) is ErrorCode.NON_EMPTY_GROUP


@pytest.mark.parametrize(
    ("situation", "state", "protocol_type"),
    [
        (stable, "Stable", "consumer"),
        (preparing, "PreparingRebalance", "consumer"),
        (completing, "CompletingRebalance", "consumer"),
        (empty, "Empty", "consumer"),
    ],
)
def test_lists_show_the_live_state(situation: Any, state: str, protocol_type: str) -> None:
    bench = ClassicBench().stable("A")
    situation(bench)
    response: Any = bench.shard.request(ListGroupsRequest(types_filter=("Classic",)))
    (row,) = response.groups
    assert (row.group_state, row.group_type, row.protocol_type) == (
        state,
        "classic",
        protocol_type,
    )
    other: Any = bench.shard.request(ListGroupsRequest(types_filter=("consumer",)))
    assert not other.groups
