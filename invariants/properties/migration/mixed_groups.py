"""Consumer groups with classic members: what these are told, by which timers they are watched.

Source: classic §7.4-§7.7, §10.2, H3-H5, H10.
"""

from __future__ import annotations

from collections.abc import Mapping

from rebalance_sim.invariants.model.classic_model import ClassicModel
from rebalance_sim.invariants.model.ledger import Change, GroupLedger, MemberEntry
from rebalance_sim.invariants.property import Finding, Interest, Property
from rebalance_sim.invariants.step import ShardView, Step, WorldView
from rebalance_sim.protocol.consumer.timer_keys import ConsumerTimer, session_key
from rebalance_sim.protocol.migration.mixed import MixedJoin
from rebalance_sim.protocol.runtime.outcome import ScheduleTimer, TimerKey
from rebalance_sim.protocol.wire.classic_messages import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
    names_of,
)
from rebalance_sim.protocol.wire.embedded import Assignment, partitions_of
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.records import MemberState

ORDER = 190


class HybridMembersCounted(Property):
    """First half of classic H3."""

    id = "hybrid.members_counted"
    sentence = (
        "A consumer group knows how many of its members speak the classic protocol, and how "
        "many of them offer each assignor."
    )
    clauses = ("classic H3", "classic §7.1")
    violated_by = ("test:hybrid-miscounted", "test:hybrid-assignors-miscounted")
    judges_mixed = True

    def on_change(self, step: Step, change: Change) -> Finding | None:
        """Compare with the shadow model."""
        group, ledger = change.group, change.ledger
        if group is None or not (change.is_mixed or group.classic_member_count):
            return None
        offers: list[tuple[str, ...]] = []
        for entry in ledger.members.values():
            metadata = None if entry.metadata is None else entry.metadata.classic_member_metadata
            if metadata is not None:
                offers.append(names_of(metadata.supported_protocols))
        return self._judge(group.classic_member_count, group.classic_protocols, offers)

    def full(self, view: WorldView) -> Finding | None:
        """Count anew over all members."""
        group = self.model.acting_group()
        if group is None:
            return None
        offers = [
            names_of(member.classic_metadata.supported_protocols)
            for member in group.members.values()
            if member.classic_metadata is not None
        ]
        return self._judge(group.classic_member_count, group.classic_protocols, offers)

    @staticmethod
    def _judge(
        count: int, protocols: Mapping[str, int], offers: list[tuple[str, ...]]
    ) -> Finding | None:
        if count != len(offers):
            return Finding(f"{count} members are said to be classic, {len(offers)} are")
        expected: dict[str, int] = {}
        for names in offers:
            for name in names:
                expected[name] = expected.get(name, 0) + 1
        if dict(protocols) == expected:
            return None
        odd = min(n for n in {*protocols, *expected} if protocols.get(n) != expected.get(n))
        return Finding(
            f"{protocols.get(odd, 0)} classic members are said to offer {odd}, "
            f"{expected.get(odd, 0)} do"
        )


class HybridSessions(Property):
    """Second half of classic H3."""

    id = "hybrid.session_timeout"
    sentence = (
        "A Heartbeat or SyncGroup that a consumer group grants, or asks its sender to rejoin "
        "by, renews the session of the member for the member's own timeout."
    )
    clauses = ("classic H3", "classic §7.7")
    violated_by = ("test:hybrid-session-of-group",)
    judges_mixed = True
    interest = Interest(requests=(HeartbeatRequest, SyncGroupRequest))

    def on_classic_request(self, step: Step, classic_model: ClassicModel) -> Finding | None:
        """Look for the timer among what the request has armed."""
        request, response = step.request, step.response
        entry = self.model.ledger_of(step.shard).members.get(request.member_id)
        timeout_ms = _session_timeout_ms(entry)
        if timeout_ms is None or response is None:
            return None
        granted = [ErrorCode.NONE]
        if isinstance(request, HeartbeatRequest):
            granted.append(ErrorCode.REBALANCE_IN_PROGRESS)
        if response.error_code not in granted:
            return None
        key = session_key(request.group_id, request.member_id)
        for command in step.timers:
            if isinstance(command, ScheduleTimer) and command.key == key:
                if command.at_ms - step.at_ms == timeout_ms:
                    return None
                return Finding(
                    f"the session of {request.member_id} was renewed for "
                    f"{command.at_ms - step.at_ms} ms, its own timeout is {timeout_ms} ms"
                )
        return Finding(f"the session of {request.member_id} was not renewed")


class HybridAnswers(Property):
    """classic H4."""

    id = "hybrid.answers"
    sentence = (
        "The generation that a JoinGroup to a consumer group answers is the member's epoch, "
        "and what a SyncGroup gives is what the member is assigned at that epoch."
    )
    clauses = ("classic H4", "classic §7.5", "classic §7.6")
    violated_by = ("test:hybrid-wrong-generation", "test:hybrid-target-told")
    judges_mixed = True
    interest = Interest(requests=(JoinGroupRequest, SyncGroupRequest))

    def on_classic_request(self, step: Step, classic_model: ClassicModel) -> Finding | None:
        """Compare the answer with the shadow model."""
        shard, response = step.shard, step.response
        ledger = self.model.ledger_of(shard)
        if not ledger.has_group or response is None:
            return None
        if isinstance(response, JoinGroupResponse) and response.error_code is ErrorCode.NONE:
            entry = ledger.members.get(response.member_id)
            if entry is not None and entry.epoch != response.generation_id:
                return Finding(
                    f"{response.member_id} was answered generation {response.generation_id}, its "
                    f"epoch is {entry.epoch}"
                )
        if isinstance(response, SyncGroupResponse) and response.error_code is ErrorCode.NONE:
            return self._judge_sync(step.request, response, ledger, shard)
        return None

    def _judge_sync(
        self,
        request: SyncGroupRequest,
        response: SyncGroupResponse,
        ledger: GroupLedger,
        shard: ShardView,
    ) -> Finding | None:
        entry = ledger.members.get(request.member_id)
        if entry is None or entry.current is None:
            return None
        if entry.epoch != request.generation_id:
            return Finding(
                f"{request.member_id} synced generation {request.generation_id}, its epoch is "
                f"{entry.epoch}"
            )
        image = shard.coordinator.image
        given = response.assignment
        reported = partitions_of(given.partitions, image) if isinstance(given, Assignment) else ()
        assigned = {p for p in entry.current.assigned if p.topic_id in image.by_id}
        if set(reported) == assigned:
            return None
        return Finding(
            f"{request.member_id} was told {self.model.names_of(reported)}, it is assigned "
            f"{self.model.names_of(assigned)}"
        )


class HybridSyncNotBehind(Property):
    """classic H5. From 4.3 on, a member is behind only when the new target is known
    (classic §7.6)."""

    id = "hybrid.sync_not_behind"
    sentence = (
        "A SyncGroup to a consumer group succeeds only for a member that is at the target "
        "epoch (4.1: at the group epoch), or has partitions to revoke."
    )
    clauses = ("classic H5", "classic §7.6")
    violated_by = ("test:hybrid-sync-behind",)
    judges_mixed = True
    interest = Interest(requests=(SyncGroupRequest,))

    def on_classic_request(self, step: Step, classic_model: ClassicModel) -> Finding | None:
        """Compare the epochs."""
        request, response = step.request, step.response
        if not isinstance(response, SyncGroupResponse) or response.error_code is not ErrorCode.NONE:
            return None
        ledger = self.model.ledger_of(step.shard)
        entry = ledger.members.get(request.member_id)
        if entry is None or entry.state is MemberState.UNREVOKED_PARTITIONS:
            return None
        at_group_epoch = self.model.rules.rejoins_at_group_epoch
        wanted = ledger.group_epoch if at_group_epoch else ledger.target_epoch
        if entry.epoch >= wanted:
            return None
        return Finding(
            f"{request.member_id} synced at epoch {entry.epoch} in {entry.state.name}; it must "
            f"rejoin for epoch {wanted}"
        )


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
