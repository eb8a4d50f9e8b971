"""Administrators at work: groups and offsets deleted, set and listed (coordinator §8.2-§8.6)."""

from __future__ import annotations

from typing import Any

import pytest
from worlds import Watched, client, spec

from rebalance_sim.invariants.step import StepKind
from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup
from rebalance_sim.protocol.runtime.coordinator_config import CoordinatorConfig
from rebalance_sim.protocol.wire.records import OffsetCommit
from rebalance_sim.sim.faults.administrators import (
    GroupDelete,
    OffsetsAlter,
    OffsetsDelete,
    OffsetsList,
)
from rebalance_sim.sim.faults.brokers import BrokerIsolation
from rebalance_sim.sim.faults.clients import ClientClose, ClientCrash
from rebalance_sim.sim.faults.connections import ClientPartition, ConnectionLoss
from rebalance_sim.sim.faults.coordinators import CoordinatorMove, LogCompaction
from rebalance_sim.sim.faults.fault import Fault
from rebalance_sim.sim.network.link import Moment
from rebalance_sim.sim.network.network import Direction
from rebalance_sim.sim.spec import TopicSpec

AWAY = tuple(ClientClose(at_ms=15_000, client=name, down_ms=20_000) for name in ("a", "b"))
"""Both clients are gone from 15 s to 35 s."""


def watched(*planned: Fault, **settings: Any) -> Watched:
    """Two clients that commit what they have read."""
    clients = [client(name, enable_auto_commit=True) for name in ("a", "b")]
    return Watched(spec(*clients, faults=planned, **settings))


def outcomes(story: Watched) -> list[str]:
    """What administrators were told in the end, in order."""
    return [step["detail"] for step in story.steps(StepKind.ADMIN_RETURNED)]


def offsets(story: Watched, group_id: str = "group") -> dict[tuple[str, int], int]:
    """What is committed, as the acting shard has it."""
    shard = story.world.acting_shard()
    assert shard is not None
    stored = shard.coordinator.offsets.of_group(group_id)
    return {key: value.offset for key, value in stored.items()}


# -- DeleteGroups --------------------------------------------------------------------------


def test_a_deleted_group_is_gone_after_compaction_and_comes_back_as_a_new_one() -> None:
    planned = (
        *AWAY,
        GroupDelete(at_ms=20_000),
        LogCompaction(at_ms=25_000, drops_tombstones=True),
    )
    story = watched(*planned)
    story.advance_to(19_000)
    assert story.group().group_epoch > 3
    assert offsets(story)
    story.advance_to(26_000)
    assert outcomes(story) == ["group_delete: NONE"]
    assert offsets(story) == {}
    leader = story.world.acting_shard()
    assert leader is not None
    assert leader.log_end_offset > 30
    assert leader.log_records() == []
    story.run()
    assert story.group().group_epoch in (2, 3), "one join each; a new group begins at 1"
    assert story.fetchable("a") | story.fetchable("b") == set(range(6))


def test_a_group_with_members_is_not_deleted() -> None:
    story = watched(GroupDelete(at_ms=20_000))
    story.run()
    assert outcomes(story) == ["group_delete: NON_EMPTY_GROUP"]
    assert len(story.group().members) == 2


def test_a_deletion_whose_answer_got_lost_is_asked_for_again_and_finds_nothing() -> None:
    planned = (
        *AWAY,
        ConnectionLoss(at_ms=19_999, client="admin", moment=Moment.BEFORE_RESPONSE),
        GroupDelete(at_ms=20_000),
    )
    story = watched(*planned)
    story.run()
    assert outcomes(story) == ["group_delete: GROUP_ID_NOT_FOUND"]
    assert len(story.steps(StepKind.COORDINATOR_LOADED)) == 1
    assert story.group().group_epoch in (2, 3)


def test_a_deletion_follows_the_coordinator_that_moves_away() -> None:
    planned = (
        *AWAY,
        GroupDelete(at_ms=20_000),
        CoordinatorMove(at_ms=20_004),
    )
    story = watched(*planned)
    story.run()
    assert story.world.coverage.counts()["error.NOT_COORDINATOR"] >= 1
    assert outcomes(story) == ["group_delete: NONE"]


def test_a_deletion_that_only_the_deposed_leader_had_did_not_happen() -> None:
    """Its records reach no follower, and are cut off; the administrator asks the next leader."""
    planned = (
        *AWAY,
        BrokerIsolation(at_ms=19_990, duration_ms=5_000),
        GroupDelete(at_ms=20_000),
        CoordinatorMove(at_ms=20_100, keeps_tail=False),
    )
    story = watched(*planned)
    story.advance_to(20_090)
    assert outcomes(story) == []
    story.run()
    asked = story.steps(StepKind.COORDINATOR_REQUEST)
    deletions = [
        step["shard"] for step in asked if step["request"]["type"] == "DeleteGroupsRequest"
    ]
    assert len(set(deletions)) == 2
    assert outcomes(story) == ["group_delete: NONE"]


def test_an_administrator_who_reaches_no_one_gives_up_in_the_end() -> None:
    cut_off = ClientPartition(
        at_ms=19_000, duration_ms=100_000, client="admin", direction=Direction.BOTH
    )
    story = watched(cut_off, GroupDelete(at_ms=20_000), duration_ms=90_000)
    story.advance_to(89_999)
    assert outcomes(story) == ["group_delete: REQUEST_TIMED_OUT"]
    story.run()


# -- offsets -------------------------------------------------------------------------------


def test_offsets_are_set_while_the_group_is_empty_and_members_start_there() -> None:
    planned = (*AWAY, OffsetsAlter(at_ms=25_000, topic="orders", partitions=(1,), offset=77))
    story = watched(*planned)
    story.advance_to(26_000)
    assert outcomes(story) == ["offsets_alter: NONE"]
    assert offsets(story)["orders", 1] == 77
    story.run()


def test_offsets_of_a_group_at_work_are_not_for_administrators() -> None:
    planned = (
        OffsetsAlter(at_ms=20_000, topic="orders", offset=77),
        OffsetsDelete(at_ms=21_000, topic="orders"),
    )
    story = watched(*planned)
    story.run()
    assert outcomes(story) == [
        "offsets_alter: UNKNOWN_MEMBER_ID",
        "offsets_delete: GROUP_SUBSCRIBED_TO_TOPIC",
    ]
    assert set(offsets(story).values()) == {0}


def test_offsets_of_topics_that_no_one_reads_are_deleted() -> None:
    planned = (
        OffsetsAlter(at_ms=500, topic="orders", group="standalone", offset=5),
        OffsetsDelete(at_ms=10_000, topic="orders", partitions=(0, 1, 9), group="standalone"),
        OffsetsDelete(at_ms=11_000, topic="orders", group="no one"),
    )
    story = watched(*planned)
    story.run()
    assert outcomes(story) == [
        "offsets_alter: NONE",
        "offsets_delete: UNKNOWN_TOPIC_OR_PARTITION",
        "offsets_delete: GROUP_ID_NOT_FOUND",
    ]
    assert set(offsets(story, "standalone")) == {("orders", number) for number in range(2, 6)}


def listed(story: Watched) -> list[tuple[int, dict[str, int]]]:
    """When administrators were shown offsets, and which."""
    return [
        (step["at_ms"], step["response"]["offsets"])
        for step in story.steps(StepKind.RESPONSE_RELEASED)
        if step["request"]["type"] == "OffsetFetchRequest" and "partitions" not in step["request"]
    ]


@pytest.mark.parametrize("is_stable", [False, True])
def test_a_list_of_offsets_waits_for_the_log_or_shows_what_is_committed(is_stable: bool) -> None:
    """From 10 s to 14 s nothing is committed; a client commits at 12 s."""
    planned = (
        BrokerIsolation(at_ms=10_000, duration_ms=4_000),
        OffsetsList(at_ms=13_000, require_stable=is_stable),
    )
    reader = client("a", enable_auto_commit=True, auto_commit_interval_ms=2_000)
    topic = TopicSpec(name="orders", partition_count=1, records_per_second=100)
    story = Watched(spec(reader, faults=planned, topics=(topic,)))
    story.advance_to(15_000)
    ((at_ms, shown),) = listed(story)
    newest = offsets(story)["orders", 0]
    if is_stable:
        assert at_ms >= 14_000
        assert shown["orders:1/0"] >= 1_000
    else:
        assert at_ms < 13_020
        assert 0 < shown["orders:1/0"] < newest
    story.run()


# -- expiry --------------------------------------------------------------------------------

SHORT = CoordinatorConfig(
    group_consumer_assignment_interval_ms=0,
    offsets_retention_minutes=1,
    offsets_retention_check_interval_ms=10_000,
)


def test_offsets_expire_after_their_retention_and_the_empty_group_goes_with_them() -> None:
    planned = tuple(ClientClose(at_ms=15_000, client=name) for name in ("a", "b"))
    story = watched(*planned, config=SHORT, duration_ms=120_000)
    story.advance_to(74_000)
    assert len(offsets(story)) == 6
    story.advance_to(86_000)
    shard = story.world.acting_shard()
    assert shard is not None
    assert offsets(story) == {}
    assert "group" not in shard.coordinator.groups_of(ConsumerGroup)
    assert story.world.coverage.counts()["timer.expiry"] == 1
    story.run()


def test_an_empty_group_without_offsets_goes_at_the_next_check() -> None:
    planned = (
        ClientClose(at_ms=15_000, client="a", down_ms=20_000),
        CoordinatorMove(at_ms=25_000),
    )
    story = Watched(spec(client("a"), faults=planned, config=SHORT))
    story.advance_to(24_000)
    shard = story.world.acting_shard()
    assert shard is not None
    assert "group" not in shard.coordinator.groups_of(ConsumerGroup)
    story.run()
    assert story.group().group_epoch == 2


def test_what_is_read_does_not_expire() -> None:
    """The member commits nothing itself: what an administrator set is all there is."""
    early = OffsetsAlter(at_ms=100, topic="orders", offset=3)
    reader = client("a", start_ms=2_000)
    story = Watched(spec(reader, faults=(early,), config=SHORT, duration_ms=120_000))
    story.run()
    assert set(offsets(story).values()) == {3}
    log = story.world.brokers[0].replicas[0].log.remaining()
    assert not [r for r in log if type(r) is OffsetCommit and r.value is None]


# -- what a scenario may not say -----------------------------------------------------------


def test_the_administrators_have_a_name_of_their_own() -> None:
    with pytest.raises(ValueError, match="'admin' is the administrators'"):
        spec(client("admin"), faults=(GroupDelete(at_ms=5),))
    with pytest.raises(ValueError, match="client 'admin' is not one of the clients"):
        spec(client("a"), faults=(ConnectionLoss(at_ms=5, client="admin"),))
    with pytest.raises(ValueError, match="client 'admin' is not one of the clients"):
        spec(
            client("a"),
            faults=(GroupDelete(at_ms=5), ClientCrash(at_ms=5, client="admin")),
        )


def test_requests_that_name_nothing_are_refused() -> None:
    with pytest.raises(ValueError, match="topic must not be empty"):
        OffsetsDelete(at_ms=5, topic="")
    with pytest.raises(ValueError, match="partitions must be numbers from 0 on"):
        OffsetsAlter(at_ms=5, topic="orders", partitions=(-1,))
    with pytest.raises(ValueError, match="offset must be >= 0"):
        OffsetsAlter(at_ms=5, topic="orders", offset=-1)
