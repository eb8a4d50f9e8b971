"""How long a group coordinator takes for what it does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rebalance_sim.protocol.wire.classic_messages import (
    HeartbeatRequest,
    JoinGroupRequest,
    SyncGroupRequest,
)
from rebalance_sim.protocol.wire.consumer_messages import ConsumerGroupHeartbeatRequest
from rebalance_sim.protocol.wire.offset_messages import OffsetCommitRequest, OffsetFetchRequest
from rebalance_sim.sim.checks import at_least


@dataclass(frozen=True, slots=True, kw_only=True)
class EventProcessingSpec:
    """How long the threads of a group coordinator are busy with its events, in microseconds. What
    is less than a millisecond adds up until it is one."""

    group_coordinator_threads: int = 4
    """The threads of a broker, which its partitions of ``__consumer_offsets`` share: one at a time
    works for each."""
    other_us: int = 0
    """For any request that has no key here or leaves it out, and for a timer that is due."""
    consumer_group_heartbeat_us: int | None = None
    """For a ConsumerGroupHeartbeat; none: as ``other_us``. So are those below."""
    heartbeat_us: int | None = None
    """For a Heartbeat of a classic member."""
    join_group_us: int | None = None
    """For a JoinGroup."""
    sync_group_us: int | None = None
    """For a SyncGroup."""
    offset_commit_us: int | None = None
    """For an OffsetCommit."""
    offset_fetch_us: int | None = None
    """For an OffsetFetch."""
    assignor_ns: int = 0
    """For a target of the consumer protocol, in nanoseconds for each pair of a member and a
    partition that the group subscribes to: with 100 members, 1_000 partitions and 50, 5 ms more."""

    def __post_init__(self) -> None:
        at_least(self, 1, "group_coordinator_threads")
        at_least(self, 0, "other_us", "assignor_ns")
        for key in KEYS.values():
            if getattr(self, key) is not None:
                at_least(self, 0, key)


KEYS: Mapping[type, str] = {
    ConsumerGroupHeartbeatRequest: "consumer_group_heartbeat_us",
    HeartbeatRequest: "heartbeat_us",
    JoinGroupRequest: "join_group_us",
    SyncGroupRequest: "sync_group_us",
    OffsetCommitRequest: "offset_commit_us",
    OffsetFetchRequest: "offset_fetch_us",
}
"""The requests that have a key of their own."""
