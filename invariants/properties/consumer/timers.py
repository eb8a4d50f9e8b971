"""Timers: everybody present is watched, nobody is removed too early, no deadline moves away.

Sources: coordinator §4.1, §9.5, §14.1 (coordinator C23; a write that fails takes timers with it,
coordinator D14).
"""

from __future__ import annotations

from rebalance_sim.invariants.model.ledger import Change, GroupLedger, MemberEntry
from rebalance_sim.invariants.model.model_view import ModelView
from rebalance_sim.invariants.property import Finding, Property, first_of
from rebalance_sim.invariants.step import ShardView, Step
from rebalance_sim.protocol.consumer.timer_keys import rebalance_key, session_key
from rebalance_sim.protocol.runtime.outcome import CancelTimer, TimerKey
from rebalance_sim.protocol.wire.consumer_messages import STATIC_LEAVE_EPOCH
from rebalance_sim.protocol.wire.records import MemberState

ORDER = 100


class TimersArmed(Property):
    """coordinator C23."""

    id = "coordinator.timers_armed"
    sentence = (
        "On an active shard every member has a session timer, and every member with "
        "partitions to revoke a rebalance timer."
    )
    clauses = ("coordinator C23", "coordinator §9.5", "defects L3")
    violated_by = ("KAFKA-18931",)

    def on_change(self, step: Step, change: Change) -> Finding | None:
        """Look at every member that was touched."""
        shard = step.shard
        for member_id, (_, after) in change.members.items():
            if after is not None:
                pending = after.current is not None and bool(after.current.pending_revocation)
                finding = self._judge(shard, member_id, has_pending=pending)
                if finding is not None:
                    return finding
        return None

    def on_timers(self, step: Step) -> Finding | None:
        """Look at members whose timer was cancelled."""
        shard = step.shard
        members = self.model.ledger_of(shard).members
        return first_of(
            self._judge_member(shard, command.key.member_id)
            for command in step.timers
            if isinstance(command, CancelTimer) and command.key.member_id in members
        )

    def on_timer_fired(self, step: Step, change: Change | None) -> Finding | None:
        """A timer that fired and did nothing must not have been the last one."""
        shard = step.shard
        key: TimerKey = step.event
        if key.member_id and key.member_id in self.model.ledger_of(shard).members:
            return self._judge_member(shard, key.member_id)
        return None

    def on_loaded(self, step: Step, ledger: GroupLedger) -> Finding | None:
        """Look at every member of a freshly loaded shard."""
        return self._judge_members(step.shard, ledger)

    def on_truncated(self, step: Step) -> Finding | None:
        """Look at every member of a shard whose memory went back, unless some are classic: these
        have other timers (classic §7.7)."""
        shard = step.shard
        ledger = self.model.ledger_of(shard)
        if not shard.is_active or ledger.classic_count:
            return None
        return self._judge_members(shard, ledger)

    def _judge_members(self, shard: ShardView, ledger: GroupLedger) -> Finding | None:
        return first_of(
            self._judge_member(shard, member_id) for member_id in sorted(ledger.members)
        )

    def _judge_member(self, shard: ShardView, member_id: str) -> Finding | None:
        entry = self.model.ledger_of(shard).members[member_id]
        current = entry.current
        # A classic member that revokes is called back, and waited for to rejoin (classic §7.4).
        pending = current is not None and bool(current.pending_revocation) and not entry.is_classic
        return self._judge(shard, member_id, has_pending=pending)

    def _judge(self, shard: ShardView, member_id: str, *, has_pending: bool) -> Finding | None:
        group_id = self.model.group_id
        if session_key(group_id, member_id) not in shard.armed_timers:
            return Finding(
                f"{shard.name} has no session timer for {self.model.who(member_id)}",
                member=member_id,
            )
        if has_pending and rebalance_key(group_id, member_id) not in shard.armed_timers:
            return Finding(
                f"{shard.name} has no rebalance timer for {self.model.who(member_id)}, "
                "which has partitions to revoke",
                member=member_id,
            )
        return None


class RemovalDue(Property):
    """defects L4: removal by a timer is justified by silence, or by a revocation that took too
    long."""

    id = "coordinator.removal_due"
    sentence = (
        "A timer removes a member only after a session timeout without a heartbeat, or, unless it "
        "is a static one that has left for a while since its coordinator was loaded, a rebalance "
        "timeout without acknowledgement."
    )
    clauses = ("coordinator §4.1", "coordinator §4.5", "defects L4")
    violated_by = ("test:impatient-timer",)
    judges_mixed = True

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._revoking: dict[tuple[str, str], tuple[int, int]] = {}
        """Shard and member -> since when, and the rebalance timeout of then."""
        self._begun: dict[tuple[str, str], list[tuple[int, int, int]]] = {}
        """Where the log ended when a revocation was written, when that was, and the rebalance
        timeout of then: the last one that is committed, and those behind it."""
        self._away_at_load: set[tuple[str, str]] = set()
        """Shard and member that had left for a while when the shard was loaded, and was revoking
        before: a load arms by the state alone (coordinator §9.5)."""

    def on_truncated(self, step: Step) -> Finding | None:
        """Who was done with a revocation in a batch that failed is not done with it, even if
        another one had begun there."""
        shard = step.shard
        if shard.is_active:
            end = shard.log_end_offset
            for member_id, entry in self.model.ledger_of(shard).members.items():
                key = (shard.name, member_id)
                if entry.state is MemberState.UNREVOKED_PARTITIONS:
                    begun = [one for one in self._begun.get(key, ()) if one[0] <= end]
                    self._begun[key] = begun
                    since_ms = step.at_ms, _timeout_ms(entry)
                    self._revoking[key] = begun[-1][1:] if begun else since_ms
        return None

    def on_loaded(self, step: Step, ledger: GroupLedger) -> Finding | None:
        """All clocks start anew (coordinator §9.5)."""
        for member_id, entry in ledger.members.items():
            if entry.state is MemberState.UNREVOKED_PARTITIONS:
                self._begin(step, member_id, entry)
                if entry.epoch == STATIC_LEAVE_EPOCH:
                    self._away_at_load.add((step.shard.name, member_id))
        return None

    def on_change(self, step: Step, change: Change) -> Finding | None:
        """Remember since when a member has been revoking."""
        name = step.shard.name
        for member_id, (before, after) in change.members.items():
            current = after.current if after else None
            if (
                before is not None
                and before.current is current
                and not self.model.switches(member_id, step)
            ):
                continue
            if after is not None:
                self._away_at_load.discard((name, member_id))
            if after is not None and after.epoch == STATIC_LEAVE_EPOCH:
                continue  # A leave for a while leaves the timer alone (coordinator §4.5).
            if after and current and current.state is MemberState.UNREVOKED_PARTITIONS:
                self._begin(step, member_id, after)
            elif after is not None:
                self._forget(name, member_id)
        return None

    def on_timer_fired(self, step: Step, change: Change | None) -> Finding | None:
        """Was it time?"""
        if change is None or change.is_group_removed:
            return None
        key: TimerKey = step.event
        ledger = change.ledger
        for member_id in change.removed():
            since_ms, limit_ms = self._forget(step.shard.name, member_id) or (None, 0)
            entry = change.members[member_id][0]
            if entry is None or entry.metadata is None or key.member_id != member_id:
                return Finding(
                    f"the {key.kind} timer of {self.model.who(key.member_id)} removed "
                    f"{self.model.who(member_id)}",
                    member=member_id,
                )
            if entry.metadata.classic_member_metadata is not None:
                continue  # Its timers are of another kind (``migration/mixed_groups.py``).
            if (
                key.kind == "rebalance"
                and entry.epoch == STATIC_LEAVE_EPOCH
                and (step.shard.name, member_id) not in self._away_at_load
            ):
                return Finding(
                    f"the rebalance timer removed {self.model.who(member_id)}, which has left for "
                    "a while: it has nothing to revoke, and its session is not over",
                    member=member_id,
                )
            if key.kind == "session":
                since_ms = ledger.last_heard_ms.get(member_id)
                limit_ms = self.model.config_history.session_timeout_ms(
                    step.shard, step.at_ms if since_ms is None else since_ms
                )
            if since_ms is None or step.at_ms - since_ms < limit_ms:
                return Finding(
                    f"the {key.kind} timer removed {self.model.who(member_id)} after "
                    f"{'no wait' if since_ms is None else f'{step.at_ms - since_ms} ms'}; "
                    f"the limit is {limit_ms} ms",
                    member=member_id,
                )
        return None

    def _begin(self, step: Step, member_id: str, entry: MemberEntry) -> None:
        shard = step.shard
        key = (shard.name, member_id)
        timeout_ms = _timeout_ms(entry)
        self._revoking[key] = step.at_ms, timeout_ms
        begun = self._begun.setdefault(key, [])
        begun.append((shard.log_end_offset, step.at_ms, timeout_ms))
        while len(begun) > 1 and begun[1][0] <= shard.high_watermark:
            del begun[0]

    def _forget(self, shard_name: str, member_id: str) -> tuple[int, int] | None:
        return self._revoking.pop((shard_name, member_id), None)


def _timeout_ms(entry: MemberEntry) -> int:
    """The member's rebalance timeout."""
    return 0 if entry.metadata is None else entry.metadata.rebalance_timeout_ms
