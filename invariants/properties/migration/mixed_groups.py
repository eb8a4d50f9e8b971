"""Consumer groups with classic members: what these are told, by which timers they are watched.

Source: classic §7.4-§7.7, §10.2, H3-H5, H10.
"""

from __future__ import annotations

from rebalance_sim.invariants.model.classic_model import ClassicModel
from rebalance_sim.invariants.model.ledger import Change, MemberEntry
from rebalance_sim.invariants.property import Finding, Interest, Property
from rebalance_sim.invariants.step import ShardView, Step, WorldView
from rebalance_sim.protocol.consumer.timer_keys import ConsumerTimer
from rebalance_sim.protocol.migration.mixed import MixedJoin
from rebalance_sim.protocol.runtime.outcome import ScheduleTimer, TimerKey
from rebalance_sim.protocol.wire.classic_messages import (
    SyncGroupRequest,
    SyncGroupResponse,
)
from rebalance_sim.protocol.wire.errors import ErrorCode

ORDER = 190


_WAITS_FOR_CLASSIC = (ConsumerTimer.REJOIN, ConsumerTimer.RESYNC)
"""Timers of a consumer group that wait for its classic members."""


class HybridTimers(Property):
    """classic H10."""

    id = "hybrid.member_timers"
    sentence = (
        "A JoinGroup to a consumer group ends the wait for it and begins the wait for a "
        "SyncGroup, which ends that; who has gone since is waited for by no timer, and who "
        "speaks the consumer protocol by none of these."
    )
    clauses = ("classic H10", "classic §7.7")
    violated_by = (
        "test:hybrid-join-timer-kept",
        "test:hybrid-sync-timer-kept",
        "test:hybrid-timer-of-consumer",
        "test:waits-for-who-has-gone",
    )
    relies_on = ("switched",)
    judges_mixed = True
    interest = Interest(requests=(SyncGroupRequest,))

    def on_written(self, step: Step) -> Finding | None:
        """The records of a JoinGroup are committed."""
        done = step.event
        if not isinstance(done, MixedJoin) or step.detail:
            return None
        shard = step.shard
        entry = self.model.ledger_of(shard).members.get(done.member_id)
        if _session_timeout_ms(entry) is None:
            if entry is None and any(
                type(command) is ScheduleTimer and command.key.member_id == done.member_id
                for command in step.timers
            ):
                return Finding(
                    f"{done.member_id} had joined, is no member of the group any more, and is "
                    "waited for"
                )
            return None
        if self._is_armed(shard, "mixed-join", done.member_id):
            return Finding(f"{done.member_id} has joined, and its join timer runs on")
        if not self._is_armed(shard, "mixed-sync", done.member_id):
            return Finding(f"{done.member_id} has joined, and no timer waits for its SyncGroup")
        return None

    def on_classic_request(self, step: Step, classic_model: ClassicModel) -> Finding | None:
        """A SyncGroup that succeeds is all that was waited for."""
        request, response = step.request, step.response
        shard = step.shard
        if (
            isinstance(response, SyncGroupResponse)
            and response.error_code is ErrorCode.NONE
            and request.member_id in self.model.ledger_of(shard).members
            and self._is_armed(shard, "mixed-sync", request.member_id)
        ):
            return Finding(f"{request.member_id} has synced, and its sync timer runs on")
        return None

    def full(self, view: WorldView) -> Finding | None:
        """Look at every member of the consumer protocol."""
        shard = self.model.acting_shard()
        group = None if shard is None else self.model.group_in(shard)
        if shard is None or group is None:
            return None
        waiting = [key for key in shard.armed_timers if key.kind in _WAITS_FOR_CLASSIC]
        for key in sorted(waiting, key=lambda key: (key.member_id, key.kind)):
            member = group.members.get(key.member_id) if key.group_id == view.group_id else None
            if member is not None and member.classic_metadata is None:
                return self._of_consumer(key.member_id, key.kind)
        return None

    def on_change(self, step: Step, change: Change) -> Finding | None:
        """Look at every touched member of the consumer protocol."""
        if not change.is_mixed:
            return None
        shard = step.shard
        for member_id, (_, after) in change.members.items():
            if after is not None and _session_timeout_ms(after) is None:
                for kind in ("mixed-join", "mixed-sync"):
                    if self._is_armed(shard, kind, member_id):
                        return self._of_consumer(member_id, kind)
        return None

    def _of_consumer(self, member_id: str, kind: str) -> Finding:
        return Finding(
            f"{member_id} speaks the consumer protocol and has a timer {kind}",
            {"member": member_id, "has_switched": self.model.switched.get(member_id)},
        )

    def _is_armed(self, shard: ShardView, kind: str, member_id: str) -> bool:
        return TimerKey(ConsumerTimer(kind), self.model.group_id, member_id) in shard.armed_timers


def _session_timeout_ms(entry: MemberEntry | None) -> int | None:
    """The session timeout of a classic member; None for any other."""
    if entry is None or entry.metadata is None:
        return None
    metadata = entry.metadata.classic_member_metadata
    return None if metadata is None else metadata.session_timeout_ms
