"""What random requests have shown to be right, though a property once called it wrong."""

from __future__ import annotations

from dataclasses import replace

from classic_world import CLASSIC_CONFIG, ClassicWorld
from coordinator_world import GROUP, orders

from rebalance_sim.protocol.wire.classic_messages import LeaveGroupRequest, MemberIdentity
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.offset_messages import OffsetCommitRequest

MINUTE_MS = 60_000


def test_a_retention_counts_from_when_a_group_emptied_though_that_was_not_written() -> None:
    """coordinator §8.5: a classic group is in memory; its records may have failed."""
    config = replace(
        CLASSIC_CONFIG,
        offsets_retention_minutes=1,
        offsets_retention_check_interval_ms=MINUTE_MS + 1_000,
    )
    world = ClassicWorld(config=config).stable("A")
    leave = LeaveGroupRequest(group_id=GROUP, members=(MemberIdentity(world.ids["A"], None),))
    world.request(leave, change=lambda outcome: replace(outcome, records=()))
    world.now_ms = 50_000
    (first,) = orders(0)
    commit = OffsetCommitRequest(
        group_id=GROUP, member_id="", generation_id_or_member_epoch=-1, offsets={first: 5}
    )
    assert world.request(commit).errors == {first: ErrorCode.NONE}
    world.advance_to(MINUTE_MS + 1_000)
    assert world.classic_or_none() is None
    assert world.violated == []
