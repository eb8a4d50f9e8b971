"""Loading what compaction left over, strictness, and the same log under any hash seed
(coordinator §9.3)."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest
from coordinator_builders import (
    GROUP_ID,
    VERSIONS,
    Bench,
    both_versions,
    load,
    recount,
    simple_groups,
    state_of,
)
from hypothesis import given
from hypothesis import strategies as st

from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup
from rebalance_sim.protocol.versions.semantics import SEMANTICS
from rebalance_sim.protocol.wire.errors import ProtocolBug
from rebalance_sim.protocol.wire.records import (
    ConsumerGroupCurrentMemberAssignment,
    ConsumerGroupMemberMetadata,
    ConsumerGroupMetadata,
    ConsumerGroupPartitionMetadata,
    ConsumerGroupRegularExpression,
    ConsumerGroupTargetAssignmentMember,
    ConsumerGroupTargetAssignmentMetadata,
    GroupMetadata,
    OffsetCommit,
    Record,
    to_dict,
)


def eventful(version: str) -> Bench:
    """A history in which every type of record is written, and most of them overwritten."""
    bench = Bench(version, topics={"foo": 4, "bar": 2})
    bench.commit("", -1, {"bar-0": 1})
    bench.join("A", "foo bar")
    bench.join("S", "foo", instance_id="i", server_assignor="range")
    bench.settle()
    bench.join("R", "bar", subscribed_topic_regex="fo+")
    bench.wait(0)
    bench.settle()
    bench.commit("A", bench.member("A").member_epoch, {"foo-0": 7, "bar-0": 8})
    bench.go_away("S", "i")
    bench.join("S2", "foo", instance_id="i")
    bench.settle()
    bench.set_topic("foo", 6)
    bench.settle()
    bench.leave("R")
    bench.join("B", "foo")
    bench.beat("A")
    bench.beat("B")
    bench.delete_topic("bar")
    bench.wait(0)
    bench.settle()
    bench.join("C", "foo")
    bench.beat("A")
    return bench


@cache
def log_of(version: str) -> tuple[Record, ...]:
    return tuple(eventful(version).shard.log)


def test_the_eventful_history_has_every_kind_of_record() -> None:
    written = {type(record) for version in VERSIONS for record in log_of(version)}
    assert written | {ConsumerGroupPartitionMetadata, ConsumerGroupTargetAssignmentMetadata} == {
        OffsetCommit,
        GroupMetadata,
        ConsumerGroupMetadata,
        ConsumerGroupPartitionMetadata,
        ConsumerGroupMemberMetadata,
        ConsumerGroupTargetAssignmentMetadata,
        ConsumerGroupTargetAssignmentMember,
        ConsumerGroupCurrentMemberAssignment,
        ConsumerGroupRegularExpression,
    }


# -- lenient loads -------------------------------------------------------------------------


@given(st.sampled_from(VERSIONS), st.data())
def test_a_load_takes_whatever_a_compaction_under_way_leaves_of_a_log(
    version: str, data: st.DataObject
) -> None:
    """KAFKA-17306, KAFKA-19862: any record may be missing; the state is one of its own all the
    same."""
    log = log_of(version)
    missing = data.draw(st.sets(st.integers(0, len(log) - 1), max_size=len(log)))
    rest = [record for index, record in enumerate(log) if index not in missing]
    loaded = load(SEMANTICS[version], rest, strict=False)
    for group in loaded.groups_of(ConsumerGroup).values():
        counted = recount(group)
        assert counted.pop("state") == group.state.value
        for name in ("current_partition_epoch", "inverted_target"):
            # Members of a torn log can hold the same partition; one of them is on the map then.
            assert getattr(group, name).keys() == counted.pop(name).keys()
        assert {name: getattr(group, name) for name in counted} == counted


@both_versions
def test_a_torn_log_leaves_one_owner_on_the_map(version: str) -> None:
    """The record that released a partition is gone; its grant to another member is not."""
    bench = Bench(version)
    bench.join("A")
    log_before_b = list(bench.shard.log)
    bench.join("B")
    bench.settle()
    rest = log_before_b + [
        record
        for record in list(bench.shard.log)[len(log_before_b) :]
        if (record.type_id, getattr(record, "member_id", "")) != (8, "A")
    ]
    loaded = load(SEMANTICS[version], rest, strict=False).groups_of(ConsumerGroup)[GROUP_ID]
    held = [p for m in loaded.members.values() for p in (*m.assigned, *m.pending_revocation)]
    assert len(held) > len(set(held)) == len(loaded.current_partition_epoch)


def test_tombstones_of_no_one_are_ignored() -> None:
    coordinator = Bench().shard.coordinator
    for record in (
        ConsumerGroupCurrentMemberAssignment(GROUP_ID, "A", None),
        ConsumerGroupTargetAssignmentMember(GROUP_ID, "A", None),
        ConsumerGroupMemberMetadata(GROUP_ID, "A", None),
        ConsumerGroupRegularExpression(GROUP_ID, "x", None),
        ConsumerGroupTargetAssignmentMetadata(GROUP_ID, None),
        ConsumerGroupPartitionMetadata(GROUP_ID),
        ConsumerGroupMetadata(GROUP_ID, None),
        GroupMetadata(GROUP_ID),
        OffsetCommit(GROUP_ID, "foo", 0, None),
    ):
        coordinator.replay(record)
    assert state_of(coordinator) == {"groups": {}, "simple": set(), "offsets": {}}


def test_any_record_may_be_the_first_of_its_group() -> None:
    for record in log_of("kafka-4.3"):
        if record.value is not None and record.type_id != 1:
            assert GROUP_ID in load(SEMANTICS["kafka-4.3"], [record], strict=False).groups_of(
                ConsumerGroup
            )


def test_a_group_of_offsets_is_replaced_by_later_group_records() -> None:
    """KAFKA-20254: committed offsets may precede the records of their group."""
    log = log_of("kafka-4.3")
    offsets_first = sorted(log, key=lambda record: record.type_id != 1)
    loaded = load(SEMANTICS["kafka-4.3"], offsets_first, strict=False)
    assert simple_groups(loaded) == set()
    assert loaded.groups_of(ConsumerGroup)[GROUP_ID].members.keys() == {"A", "B", "C", "S2"}


# -- live strictness -----------------------------------------------------------------------


def settled() -> Bench:
    bench = Bench()
    bench.join("A")
    bench.join("B")
    bench.settle()
    return bench


def test_live_double_ownership_is_a_bug() -> None:
    bench = settled()
    value = bench.member("A").current_assignment(with_epochs=True)
    with pytest.raises(ProtocolBug, match="is granted at epoch 3 although it is owned at 3"):
        bench.group.replay(ConsumerGroupCurrentMemberAssignment(GROUP_ID, "B", value))


def test_a_live_release_of_what_another_epoch_owns_is_a_bug() -> None:
    bench = settled()
    partition = next(iter(bench.member("A").assigned))
    bench.group.current_partition_epoch[partition] = 77
    with pytest.raises(ProtocolBug, match="is released at epoch 3, owned at 77"):
        bench.group.replay(ConsumerGroupCurrentMemberAssignment(GROUP_ID, "A", None))


@pytest.mark.parametrize(
    "tombstone",
    [
        ConsumerGroupMemberMetadata(GROUP_ID, "A", None),
        ConsumerGroupTargetAssignmentMetadata(GROUP_ID, None),
        ConsumerGroupMetadata(GROUP_ID, None),
    ],
    ids=["member", "target epoch", "group"],
)
def test_live_tombstones_out_of_order_are_a_bug(tombstone: Record) -> None:
    bench = settled()
    before = state_of(bench.group)
    with pytest.raises(ProtocolBug):
        bench.shard.coordinator.replay(tombstone)
    assert state_of(bench.group) == before


def test_a_group_is_deleted_only_after_its_target_epoch() -> None:
    bench = Bench()
    bench.join("A")
    bench.leave("A")
    with pytest.raises(ProtocolBug):
        bench.shard.coordinator.replay(ConsumerGroupMetadata(GROUP_ID, None))
    bench.shard.coordinator.replay(ConsumerGroupTargetAssignmentMetadata(GROUP_ID, None))
    assert bench.epochs[1] == -1
    bench.shard.coordinator.replay(ConsumerGroupMetadata(GROUP_ID, None))
    assert bench.shard.coordinator.groups_of(ConsumerGroup) == {}


def test_the_tombstone_of_record_8_frees_everything_and_keeps_the_member() -> None:
    bench = settled()
    bench.group.replay(ConsumerGroupCurrentMemberAssignment(GROUP_ID, "A", None))
    assert bench.view("A") == "-1/-1 STABLE -"
    assert sorted(bench.group.current_partition_epoch) == sorted(bench.member("B").assigned)


# -- determinism ---------------------------------------------------------------------------


def digest() -> str:
    """Of the logs of all versions, spelled out."""
    spelled: list[Any] = [[to_dict(r) for r in log_of(version)] for version in VERSIONS]
    return blake2b(repr(spelled).encode()).hexdigest()


def test_the_log_is_the_same_under_any_hash_seed() -> None:
    here = Path(__file__).parent
    digests = {digest()}
    for seed in ("1", "2"):
        output = subprocess.run(
            [sys.executable, "-c", "import test_replay_load; print(test_replay_load.digest())"],
            cwd=here.parents[1],
            env={
                **os.environ,
                "PYTHONHASHSEED": seed,
                "PYTHONPATH": os.pathsep.join([str(here.parents[1]), str(here)]),
            },
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        digests.add(output.strip())
    assert len(digests) == 1
