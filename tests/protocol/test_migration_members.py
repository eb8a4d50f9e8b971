"""Classic members in a consumer group: timers, leaving, offsets, what others see of them."""

from __future__ import annotations

from typing import Any

import pytest
from classic_builders import SESSION_MS, ClassicBench, HoldingShard, subscription
from mixed_builders import epoch, member, mixed, owned

from rebalance_sim.protocol.classic.classic_states import ClassicGroupState
from rebalance_sim.protocol.versions.semantics import SEMANTICS
from rebalance_sim.protocol.wire.consumer_messages import ConsumerGroupDescribeRequest
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.offset_messages import OffsetFetchRequest

NONE, UNKNOWN, FENCED = (
    ErrorCode.NONE,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_INSTANCE_ID,
)
ILLEGAL, REBALANCE = ErrorCode.ILLEGAL_GENERATION, ErrorCode.REBALANCE_IN_PROGRESS


# -- timers --------------------------------------------------------------------------------


def test_who_is_called_back_and_does_not_come_is_out_after_its_rebalance_timeout() -> None:
    bench = mixed()
    bench.join("A", metadata=subscription(generation=3), rebalance_ms=4_000, session_ms=60_000)
    bench.sync("A", generation=3)
    bench.consume("Y")
    assert bench.beat("A", generation=3) is REBALANCE
    bench.wait(3_000)
    assert bench.beat("A", generation=3) is REBALANCE, "which does not start the timer again"
    bench.wait(999)
    assert bench.id("A") in bench.consumers.members
    bench.wait(1)
    assert bench.id("A") not in bench.consumers.members
    assert bench.wrote() == "8† 7† 5† 3"


def test_who_rejoins_and_does_not_sync_is_out_after_its_rebalance_timeout() -> None:
    bench = mixed()
    bench.join("A", metadata=subscription(generation=3), rebalance_ms=4_000, session_ms=60_000)
    bench.wait(3_999)
    assert bench.beat("A", generation=3) is NONE
    bench.wait(1)
    assert bench.id("A") not in bench.consumers.members


def test_each_request_moves_the_timers_on() -> None:
    bench = mixed()
    assert bench.timers() == {"session X", "session A"}
    bench.consume("Y")
    bench.beat("A", generation=3)
    assert "mixed-join A" in bench.timers()
    bench.join("A", metadata=subscription(generation=3))
    assert "mixed-join A" not in bench.timers()
    assert "mixed-sync A" in bench.timers()
    bench.sync("A", generation=epoch(bench, "A"))
    assert not {timer for timer in bench.timers() if timer.startswith("mixed")}
    assert bench.due_ms("session", "A") == bench.shard.now_ms + SESSION_MS


def test_a_member_can_be_called_back_again() -> None:
    bench = mixed()
    for newcomer in ("Y", "Z"):
        bench.consume(newcomer)
        assert bench.beat("A", generation=epoch(bench, "A")) is REBALANCE
        assert "mixed-join A" in bench.timers()
        bench.join("A", metadata=subscription(generation=epoch(bench, "A")))
        bench.sync("A", generation=epoch(bench, "A"))


def test_the_timers_of_a_join_start_when_it_is_committed() -> None:
    bench = ClassicBench(holds_commits=True)
    bench.consume("X")
    bench.join("A")
    assert bench.timers() == {"session X"}
    assert isinstance(bench.shard, HoldingShard)
    bench.wait(2_000)
    bench.shard.commit()
    assert bench.timers() == {"session X", "session A", "mixed-sync A"}
    assert bench.due_ms("session", "A") == bench.shard.now_ms + SESSION_MS


def test_a_member_that_has_left_before_its_join_is_committed_gets_no_timers() -> None:
    bench = ClassicBench(holds_commits=True)
    bench.consume("X")
    bench.join("A")
    bench.leave("A")
    assert isinstance(bench.shard, HoldingShard)
    bench.shard.commit()
    assert bench.timers() == {"session X"}


def test_a_member_that_changes_to_the_consumer_protocol_is_not_held_to_a_sync() -> None:
    bench = mixed(semantics=SEMANTICS["kafka-4.3-clean"])
    bench.join("A", metadata=subscription(generation=3), rebalance_ms=3_000)
    assert bench.consume(bench.id("A"), 3, topic_partitions=owned(2, 3)).error_code is NONE
    bench.wait(3_000)
    assert bench.id("A") in bench.consumers.members


def test_a_silent_classic_member_is_out_after_its_own_session() -> None:
    bench = mixed()
    bench.wait(SESSION_MS - 1)
    bench.consume("X", 3)
    bench.wait(1)
    assert set(bench.consumers.members) == {"X"}


# -- leaving -------------------------------------------------------------------------------


def test_members_of_both_protocols_may_leave_in_one_batch_at_the_price_of_one_epoch() -> None:
    bench = mixed()
    bench.consume("Y", instance_id="i")
    before = bench.consumers.group_epoch
    assert bench.leave("A", "X", ("", "j"), ("no one", "i"), ("Z", None)) == [
        NONE,
        NONE,
        UNKNOWN,
        FENCED,
        UNKNOWN,
    ]
    assert set(bench.consumers.members) == {"Y"}
    assert bench.wrote() == "8† 7† 5† 8† 7† 5† 3"
    assert bench.consumers.group_epoch == before + 1
    assert bench.leave(("", "i")) == [NONE]
    assert not bench.consumers.members


def test_a_batch_in_which_no_one_leaves_writes_nothing() -> None:
    bench = mixed()
    batches = len(bench.shard.batches)
    assert bench.leave("no one") == [UNKNOWN]
    assert len(bench.shard.batches) == batches


# -- offsets, describe ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "generation", "version", "code"),
    [
        ("A", 3, 9, NONE),
        ("A", 3, 5, NONE),
        ("A", 4, 9, ILLEGAL),
        ("A", 2, 9, ILLEGAL),
        ("X", 3, 9, NONE),
        ("X", 4, 9, ErrorCode.STALE_MEMBER_EPOCH),
        ("X", 3, 8, ErrorCode.UNSUPPORTED_VERSION),
    ],
)
def test_each_protocol_has_its_own_words_for_a_refused_commit(
    name: str, generation: int, version: int, code: ErrorCode
) -> None:
    bench = mixed()
    due_ms = bench.due_ms("session", name)
    bench.wait(10)
    assert bench.commit_offset(name, generation, version=version) is code
    assert bench.due_ms("session", name) == due_ms, "a commit does not renew a session here"


@pytest.mark.parametrize(
    ("name", "code"), [("A", ILLEGAL), ("X", ErrorCode.STALE_MEMBER_EPOCH), ("no one", UNKNOWN)]
)
def test_each_protocol_has_its_own_words_for_a_refused_fetch(name: str, code: ErrorCode) -> None:
    bench = mixed()
    request = OffsetFetchRequest(
        group_id="group", partitions=owned(0), member_id=bench.id(name), member_epoch=1
    )
    response: Any = bench.shard.request(request)
    assert response.error_code is code


def test_describe_tells_the_protocols_apart() -> None:
    bench = mixed()
    response: Any = bench.shard.request(ConsumerGroupDescribeRequest(group_ids=("group",)))
    types = {bench.name(row.member_id): row.member_type for row in response[0].members}
    assert types == {"A": 0, "X": 1}


def test_describe_knows_no_classic_group() -> None:
    bench = ClassicBench().stable("A")
    assert bench.state is ClassicGroupState.STABLE
    response: Any = bench.shard.request(ConsumerGroupDescribeRequest(group_ids=("group",)))
    assert response[0].error_code is ErrorCode.GROUP_ID_NOT_FOUND
    assert response[0].error_message == "Group group is not a consumer group."


def test_a_load_knows_the_classic_members_but_not_who_was_called_back() -> None:
    bench = mixed()
    bench.consume("Y")
    bench.beat("A", generation=3)
    bench.shard.restart()
    a = member(bench, "A")
    assert a.classic_metadata is not None
    assert bench.consumers.classic_member_count == 1
    assert not {timer for timer in bench.timers() if timer.startswith("mixed")}
    assert bench.beat("A", generation=3) is REBALANCE
    assert "mixed-join A" in bench.timers()
