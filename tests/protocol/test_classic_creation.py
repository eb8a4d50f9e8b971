"""The first write of a classic group: what becomes of the group if that fails."""

from __future__ import annotations

from classic_builders import ClassicBench, codes, held

from rebalance_sim.protocol.classic.classic_group import ClassicGroup
from rebalance_sim.protocol.wire.errors import ErrorCode

NONE, LATE = ErrorCode.NONE, ErrorCode.COORDINATOR_NOT_AVAILABLE


def created() -> ClassicBench:
    """A has created the group, and B joins as well; the first record is not committed."""
    bench = ClassicBench(holds_commits=True, delay_ms=3_000)
    assert bench.send_join("A", instance="a") is None
    assert bench.send_join("B", instance="b") is None
    return bench


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
