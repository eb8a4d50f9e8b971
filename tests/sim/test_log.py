"""Replicas of a log: appending, fetching, finding where two of them part."""

from __future__ import annotations

import pickle

from hypothesis import given
from hypothesis import strategies as st

from rebalance_sim.protocol.wire.records import (
    ConsumerGroupMetadata,
    ConsumerGroupTargetAssignmentMember,
    GroupMetadataValue,
    OffsetCommit,
    OffsetCommitValue,
    Record,
)
from rebalance_sim.sim.broker.log import ReplicaLog


def record(number: int) -> Record:
    return ConsumerGroupMetadata("group", GroupMetadataValue(epoch=number, metadata_hash=0))


def log_of(*epochs: int) -> ReplicaLog:
    """A log with one record for each leader epoch given."""
    log = ReplicaLog()
    for offset, epoch in enumerate(epochs):
        log.append([record(epoch * 1_000 + offset)], epoch)
    return log


def test_a_follower_gets_what_the_leader_had_when_it_asked() -> None:
    leader, follower = log_of(0, 0, 0), log_of(0)
    follower.fetch_from(leader, 2)
    assert follower.records == leader.records[:2]


def test_a_follower_learns_of_a_commit_no_further_than_its_own_log() -> None:
    leader, follower = log_of(0, 0, 0), ReplicaLog()
    leader.high_watermark = 3
    follower.fetch_from(leader, 1)
    assert follower.high_watermark == 1


def test_logs_part_where_their_epochs_do() -> None:
    assert log_of(0, 0, 1, 1).divergence_from(log_of(0, 0, 2)) == 2
    assert log_of(0, 0).divergence_from(log_of(0, 0, 2)) == 2
    assert log_of(0, 0, 2).divergence_from(log_of(0, 0)) == 2
    assert log_of().divergence_from(log_of(0)) == 0


def test_truncation_says_how_much_is_lost() -> None:
    log = log_of(0, 0, 1)
    log.high_watermark = 3
    assert log.truncate_to(1) == 2
    assert (log.end_offset, log.high_watermark) == (1, 1)
    assert log.truncate_to(5) == 0


@given(
    shared=st.lists(st.just(0), max_size=4),
    mine=st.lists(st.just(1), max_size=4),
    theirs=st.lists(st.just(2), max_size=4),
)
def test_a_follower_that_truncates_and_fetches_equals_its_leader(
    shared: list[int], mine: list[int], theirs: list[int]
) -> None:
    follower, leader = log_of(*shared, *mine), log_of(*shared, *theirs)
    follower.truncate_to(follower.divergence_from(leader))
    follower.fetch_from(leader, leader.end_offset)
    assert follower.records == leader.records
    assert follower.epochs == leader.epochs


def target(member_id: str, *, is_tombstone: bool = False) -> Record:
    value = None if is_tombstone else frozenset()
    return ConsumerGroupTargetAssignmentMember("group", member_id, value)


def committed(*records: Record) -> ReplicaLog:
    log = ReplicaLog()
    log.append(records, 0)
    log.high_watermark = log.end_offset
    return log


def test_compaction_keeps_the_last_record_of_each_key_at_its_offset() -> None:
    log = committed(record(1), target("a"), record(2), target("b"), target("a"))
    assert log.compact(5, drops_tombstones=False) == 2
    assert log.remaining() == [record(2), target("b"), target("a")]
    assert log.records[2] == record(2)
    assert log.end_offset == 5


def test_offsets_of_different_partitions_are_different_keys() -> None:
    value = OffsetCommitValue(offset=1, commit_timestamp=0)
    rows = [OffsetCommit("group", "orders", number, value) for number in (0, 1, 0)]
    log = committed(*rows)
    assert log.compact(3, drops_tombstones=False) == 1
    assert log.remaining() == rows[1:]


def test_the_cleaner_leaves_alone_what_it_has_not_reached() -> None:
    log = committed(record(1), target("a"), record(2), target("a"), record(3))
    assert log.compact(1, drops_tombstones=False) == 1
    assert log.records[0] is None
    assert log.remaining(1) == [target("a"), record(2), target("a"), record(3)]


def test_compaction_does_not_look_at_what_is_not_committed() -> None:
    log = committed(record(1), record(2))
    log.append([record(3)], 0)
    log.compact(3, drops_tombstones=False)
    assert log.remaining() == [record(2), record(3)]


def test_old_tombstones_go_with_the_records_before_them() -> None:
    log = committed(target("a"), target("b"), target("a", is_tombstone=True))
    log.compact(3, drops_tombstones=True)
    assert log.remaining() == [target("b")]
    log = committed(target("a"), target("a", is_tombstone=True))
    log.compact(2, drops_tombstones=False)
    assert log.remaining() == [target("a", is_tombstone=True)]


def test_a_tombstone_stays_until_every_replica_has_it() -> None:
    log = committed(target("a"), target("a", is_tombstone=True), target("b"))
    log.compact(3, drops_tombstones=True, everybody_has_to=1)
    assert log.remaining() == [target("a", is_tombstone=True), target("b")]
    log.compact(3, drops_tombstones=True, everybody_has_to=2)
    assert log.remaining() == [target("b")]


def test_a_follower_fetches_what_compaction_has_left() -> None:
    leader = committed(record(1), target("a"), record(2), target("b"), target("a"))
    leader.compact(4, drops_tombstones=False)
    follower = ReplicaLog()
    follower.append([record(1)], 0)
    follower.fetch_from(leader, 3)
    assert follower.records == [record(1), None, record(2)]
    follower.fetch_from(leader, 5)
    assert follower.records == [record(1), *leader.records[1:]]
    assert follower.epochs == leader.epochs
    follower.truncate_to(2)
    assert follower.records == [record(1), None]
    follower.append([record(3)], 1)
    assert follower.records == [record(1), None, record(3)]
    assert follower.divergence_from(leader) == 2


def test_a_log_that_is_compacted_again_and_again_does_not_grow() -> None:
    log = ReplicaLog()
    sizes = []
    for _ in range(5):
        for number in range(300):
            log.append([record(number), target("a")], 0)
        log.high_watermark = log.end_offset
        log.compact(log.end_offset, drops_tombstones=False)
        sizes.append(len(pickle.dumps(log)))
    assert log.end_offset == 3_000
    assert max(sizes) < min(sizes) + 20
    assert log.remaining() == [record(299), target("a")]
