"""Committed state beside the newest one, and the way back (coordinator §9.4)."""

from __future__ import annotations

import pytest
from coordinator_builders import GROUP_ID, Bench, parts
from hypothesis import given
from hypothesis import strategies as st

from rebalance_sim.protocol.classic.classic_group import ClassicGroup
from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup
from rebalance_sim.protocol.runtime.coordinator import GroupCoordinator
from rebalance_sim.protocol.runtime.coordinator_config import CoordinatorConfig
from rebalance_sim.protocol.runtime.timeline import Timeline, TimelineDict, committed, new_table
from rebalance_sim.protocol.versions.semantics import DEFAULT_SEMANTICS
from rebalance_sim.protocol.wire.classic_messages import DescribeGroupsRequest
from rebalance_sim.protocol.wire.consumer_messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    DeleteGroupsRequest,
    ListGroupsRequest,
    ListGroupsResponse,
)
from rebalance_sim.protocol.wire.offset_messages import (
    NO_OFFSET,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from rebalance_sim.protocol.wire.records import OffsetCommit, OffsetCommitValue

DESCRIBE = ConsumerGroupDescribeRequest(group_ids=(GROUP_ID,))


class Follower:
    """A coordinator that replays what a bench has written, some of it committed."""

    def __init__(self, bench: Bench) -> None:
        self.coordinator = GroupCoordinator(
            config=CoordinatorConfig(),
            image=bench.shard.coordinator.image,
            new_member_id=lambda: "no one",
            semantics=DEFAULT_SEMANTICS,
            keeps_history=True,
        )
        self.bench = bench
        self.end = 0

    def catch_up(self) -> None:
        """Replay the rest of the log, uncommitted."""
        for record in list(self.bench.shard.log)[self.end :]:
            self.coordinator.replay(record, offset=self.end)
            self.end += 1

    def described(self) -> ConsumerGroupDescribeResponse:
        answer = self.coordinator.read(DESCRIBE)
        assert isinstance(answer, tuple)
        return answer[0]

    def listed(self) -> list[tuple[str, str]]:
        answer = self.coordinator.read(ListGroupsRequest())
        assert isinstance(answer, ListGroupsResponse)
        return [(row.group_id, row.group_state) for row in answer.groups]

    def fetched(self, *, is_stable: bool, epoch: int = -1) -> OffsetFetchResponse:
        request = OffsetFetchRequest(
            group_id=GROUP_ID,
            partitions=parts("foo[0]"),
            member_id="A" if epoch >= 0 else None,
            member_epoch=epoch,
            require_stable=is_stable,
        )
        answer = self.coordinator.handle(request, now_ms=0).response
        assert isinstance(answer, OffsetFetchResponse)
        return answer


def test_a_read_sees_a_join_only_when_it_is_committed() -> None:
    bench = Bench()
    follower = Follower(bench)
    bench.join("A")
    follower.catch_up()
    assert follower.described().error_code.name == "GROUP_ID_NOT_FOUND"
    assert follower.listed() == []
    follower.coordinator.commit_to(follower.end)
    assert [member.member_id for member in follower.described().members] == ["A"]
    assert follower.listed() == [(GROUP_ID, "Stable")]


def test_state_epochs_and_members_of_a_read_are_of_one_offset() -> None:
    bench = Bench()
    follower = Follower(bench)
    bench.join("A")
    follower.catch_up()
    follower.coordinator.commit_to(follower.end)
    bench.join("B")
    bench.leave("A")
    follower.catch_up()
    before = follower.described()
    assert (before.state, before.group_epoch, before.assignment_epoch) == ("Stable", 2, 2)
    assert [member.member_id for member in before.members] == ["A"]
    assert before.members[0].target_assignment == parts("foo[0-2]")
    follower.coordinator.commit_to(follower.end)
    after = follower.described()
    assert (after.state, after.group_epoch, after.assignment_epoch) == ("Assigning", 4, 3)
    assert [member.member_id for member in after.members] == ["B"]


def test_an_offset_fetch_shows_uncommitted_offsets_only_where_it_waits_for_them() -> None:
    bench = Bench()
    follower = Follower(bench)
    bench.join("A")
    epoch = bench.member("A").member_epoch
    follower.catch_up()
    follower.coordinator.commit_to(follower.end)
    bench.commit("A", epoch, {"foo-0": 7})
    follower.catch_up()
    assert list(follower.fetched(is_stable=False).offsets.values()) == [NO_OFFSET]
    assert list(follower.fetched(is_stable=True).offsets.values()) == [7]
    follower.coordinator.commit_to(follower.end)
    assert list(follower.fetched(is_stable=False).offsets.values()) == [7]


def test_an_unstable_fetch_is_checked_against_the_committed_epoch() -> None:
    bench = Bench()
    follower = Follower(bench)
    bench.join("A")
    follower.catch_up()
    assert follower.fetched(is_stable=False, epoch=2).error_code.name == "NONE", "no group yet"
    follower.coordinator.commit_to(follower.end)
    bench.join("B")
    bench.beat("A", owned="foo[0-2]")
    bench.beat("A", owned="foo[0,1]")
    follower.catch_up()
    assert bench.member("A").member_epoch == 3
    assert follower.fetched(is_stable=False, epoch=2).error_code.name == "NONE"
    assert follower.fetched(is_stable=True, epoch=2).error_code.name == "STALE_MEMBER_EPOCH"
    follower.coordinator.commit_to(follower.end)
    assert follower.fetched(is_stable=False, epoch=2).error_code.name == "STALE_MEMBER_EPOCH"


def test_a_deleted_group_comes_back_whole_when_its_deletion_could_not_be_written() -> None:
    bench = Bench()
    follower = Follower(bench)
    bench.join("A")
    bench.commit("A", bench.member("A").member_epoch, {"foo-0": 7})
    bench.leave("A")
    follower.catch_up()
    follower.coordinator.commit_to(follower.end)
    before, deleted_at = follower.described(), follower.end
    bench.send(DeleteGroupsRequest(group_id=GROUP_ID))
    follower.catch_up()
    assert GROUP_ID not in follower.coordinator.groups_of(ConsumerGroup)
    assert follower.described() == before, "a deletion shows when it is committed"
    follower.coordinator.revert_to(deleted_at)
    assert follower.coordinator.groups_of(ConsumerGroup)[GROUP_ID].group_epoch == before.group_epoch
    assert not follower.coordinator.groups_of(ConsumerGroup)[GROUP_ID].is_deleted
    assert list(follower.fetched(is_stable=True).offsets.values()) == [7]


def test_which_requests_are_reads() -> None:
    is_read = Bench().shard.coordinator.is_read
    fetch = {"group_id": GROUP_ID, "partitions": parts("foo[0]")}
    assert is_read(DESCRIBE)
    assert is_read(ListGroupsRequest())
    assert is_read(DescribeGroupsRequest(group_ids=(GROUP_ID,)))
    assert is_read(OffsetFetchRequest(**fetch, require_stable=False))
    assert not is_read(OffsetFetchRequest(**fetch, require_stable=True))
    heartbeat = ConsumerGroupHeartbeatRequest(group_id=GROUP_ID, member_id="A", member_epoch=1)
    assert not is_read(heartbeat)


def test_without_history_nothing_can_be_undone() -> None:
    coordinator = GroupCoordinator(
        config=CoordinatorConfig(),
        new_member_id=lambda: "no one",
        semantics=DEFAULT_SEMANTICS,
    )
    with pytest.raises(ValueError, match="keeps no history"):
        coordinator.revert_to(0)


# -- the table itself ----------------------------------------------------------------------

KEYS = st.sampled_from("abc")
CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("set"), KEYS, st.integers(0, 3)),
        st.tuples(st.sampled_from(["del", "pop", "setdefault", "update"]), KEYS, st.just(9)),
        st.tuples(st.just("clear"), st.just(""), st.just(0)),
    ),
    max_size=12,
)


def change(table: dict[str, int], verb: str, key: str, value: int) -> None:
    match verb:
        case "set":
            table[key] = value
        case "del" if key in table:
            del table[key]
        case "pop":
            table.pop(key, None)
        case "setdefault":
            table.setdefault(key, value)
        case "update":
            table.update({key: value, "z": value})
        case "clear":
            table.clear()


@given(changes=CHANGES, committed_to=st.integers(0, 12), reverted_to=st.integers(0, 12))
def test_a_table_shows_every_offset_that_is_still_open(
    changes: list[tuple[str, str, int]], committed_to: int, reverted_to: int
) -> None:
    timeline = Timeline()
    table: dict[str, int] = new_table(timeline)
    plain: dict[str, int] = {}
    states = [{}]
    for offset, (verb, key, value) in enumerate(changes):
        timeline.offset = offset
        change(table, verb, key, value)
        change(plain, verb, key, value)
        states.append(dict(plain))
    timeline.offset = None
    assert table == plain
    committed_to = min(committed_to, len(changes))
    timeline.commit_to(committed_to)
    view = committed(table)
    assert dict(view.items()) == states[committed_to]
    assert len(view) == len(states[committed_to])
    assert all((key in view) == (key in states[committed_to]) for key in "abcz")
    reverted_to = max(committed_to, min(reverted_to, len(changes)))
    timeline.revert_to(reverted_to)
    assert table == states[reverted_to]
    assert dict(committed(table)) == states[committed_to]
    timeline.commit_to(reverted_to)
    assert committed(table) is table
    assert isinstance(table, TimelineDict)
    assert not table.befores


def _with_history() -> GroupCoordinator:
    return GroupCoordinator(
        config=CoordinatorConfig(),
        image=Bench().shard.coordinator.image,
        new_member_id=lambda: "no one",
        semantics=DEFAULT_SEMANTICS,
        keeps_history=True,
    )


def _commit(offset: int) -> list[OffsetCommit]:
    value = OffsetCommitValue(offset, 0)
    return [OffsetCommit(GROUP_ID, "orders", number, value) for number in range(3)]


@pytest.mark.parametrize("end", range(6, 10))
def test_a_commit_replayed_at_once_is_committed_and_undone_record_by_record(end: int) -> None:
    """As if its records had come one by one; the third commit is about a partition twice."""
    batches = [_commit(1), _commit(2), [*_commit(3)[:2], *_commit(4)[:1]], _commit(5)]
    at_once, one_by_one = _with_history(), _with_history()
    for number, records in enumerate(batches):
        at_once.replay_batch(records, offset=3 * number)
        for place, record in enumerate(records, 3 * number):
            one_by_one.replay(record, offset=place)
    for coordinator in (at_once, one_by_one):
        coordinator.commit_to(5)
    before = [dict(c.offsets.committed_of_group(GROUP_ID)) for c in (at_once, one_by_one)]
    for coordinator in (at_once, one_by_one):
        coordinator.revert_to(end)
    after = [dict(c.offsets.of_group(GROUP_ID)) for c in (at_once, one_by_one)]
    assert (
        before[0]
        == before[1]
        == {("orders", n): OffsetCommitValue(2 - n // 2, 0) for n in range(3)}
    )
    assert after[0] == after[1]
    assert [after[0]["orders", n].offset for n in range(3)] == {
        6: [2, 2, 2],
        7: [3, 2, 2],
        8: [3, 3, 2],
        9: [4, 3, 2],
    }[end]


def test_the_group_that_a_commit_makes_goes_with_it() -> None:
    """Its offsets are there, and it is not: the second commit finds no group, and makes one."""
    coordinator = _with_history()
    coordinator.replay_batch(_commit(1), offset=0)
    coordinator.commit_to(3)
    del coordinator.groups_of(ClassicGroup)[GROUP_ID]  # type: ignore[attr-defined]
    coordinator.replay_batch(_commit(2), offset=3)
    assert GROUP_ID in coordinator.groups_of(ClassicGroup)
    coordinator.revert_to(3)
    assert GROUP_ID not in coordinator.groups_of(ClassicGroup)


def test_what_is_changed_outside_a_record_counts_as_committed() -> None:
    timeline = Timeline()
    table: dict[str, int] = new_table(timeline)
    table["a"] = 1
    assert committed(table) is table
    timeline.revert_to(0)
    assert table == {"a": 1}
