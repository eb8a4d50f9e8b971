"""The first write of a classic group: what becomes of the group if that fails."""

from __future__ import annotations

from typing import Any, cast

from classic_builders import ClassicBench, codes, held

from rebalance_sim.protocol.classic.classic_group import ClassicGroup
from rebalance_sim.protocol.hosting.minimal_shard import MinimalShard
from rebalance_sim.protocol.runtime.coordinator_config import CoordinatorConfig
from rebalance_sim.protocol.wire.classic_messages import (
    DescribeGroupsRequest,
    JoinGroupProtocol,
    JoinGroupRequest,
    JoinGroupResponse,
)
from rebalance_sim.protocol.wire.embedded import Subscription
from rebalance_sim.protocol.wire.errors import ErrorCode

NONE, LATE = ErrorCode.NONE, ErrorCode.COORDINATOR_NOT_AVAILABLE


def created() -> ClassicBench:
    """A has created the group, and B joins as well; the first record is not committed."""
    bench = ClassicBench(holds_commits=True, delay_ms=3_000)
    assert bench.send_join("A", instance="a") is None
    assert bench.send_join("B", instance="b") is None
    return bench


def test_a_read_sees_a_group_once_its_first_record_is_committed() -> None:
    """The answer that names the member id does not wait for that (classic §2.2)."""
    shard = MinimalShard(config=CoordinatorConfig())
    shard.commits = False
    protocols = (JoinGroupProtocol("range", Subscription(topics=("foo",))),)
    asked = JoinGroupRequest(
        group_id="g", member_id="", session_timeout_ms=10_000, protocols=protocols
    )
    answer = shard.request(asked, token="join")
    assert isinstance(answer, JoinGroupResponse)
    assert answer.error_code is ErrorCode.MEMBER_ID_REQUIRED
    codes_seen = []
    for shard.commits in (False, True):
        shard.publish()
        (row,) = cast(Any, shard.request(DescribeGroupsRequest(group_ids=("g",))))
        codes_seen.append(row.error_code)
    assert codes_seen == [ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.NONE]


def test_a_group_stays_when_its_first_write_is_not_committed_in_time() -> None:
    """It may be committed later, and a load would find it then."""
    bench = created()
    held(bench).fail(LATE)
    assert bench.group.static_members.keys() == {"a", "b"}


def test_only_the_join_that_created_the_group_is_told_that_its_write_took_too_long() -> None:
    bench = created()
    held(bench).fail(LATE)
    assert codes(bench.joined("A")) == [LATE]
    bench.wait(6_000)
    assert codes(bench.joined("B")) == [NONE]


def test_a_group_is_gone_when_its_first_write_is_undone() -> None:
    bench = created()
    shard = held(bench)
    (creation,) = shard.held
    shard.take(
        shard.coordinator.write_failed(
            creation, ErrorCode.NOT_COORDINATOR, is_undone=True, now_ms=shard.now_ms
        )
    )
    assert codes(bench.joined("A"), bench.joined("B")) == [ErrorCode.NOT_COORDINATOR] * 2
    assert not shard.coordinator.groups_of(ClassicGroup)
