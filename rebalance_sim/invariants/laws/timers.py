"""Timers: everybody is watched, and no one is removed too early.

Sources: coordinator §4.1, §4.5, §9.5, §14.1 (coordinator C23; a write that fails takes timers with
it, coordinator D14); classic C12.
"""

from __future__ import annotations

from collections.abc import Iterable

from rebalance_sim.invariants.formatting import listed
from rebalance_sim.invariants.model.classic_model import ClassicLook
from rebalance_sim.invariants.model.ledger import Change, GroupLedger, MemberEntry
from rebalance_sim.invariants.property import Finding, Property, notes
from rebalance_sim.invariants.step import ShardView, Step
from rebalance_sim.protocol.classic import operation as classic_timers
from rebalance_sim.protocol.classic.classic_group import ClassicGroup
from rebalance_sim.protocol.classic.classic_states import ClassicGroupState
from rebalance_sim.protocol.consumer.timer_keys import rebalance_key, session_key
from rebalance_sim.protocol.runtime.outcome import CancelTimer
from rebalance_sim.protocol.wire.consumer_messages import STATIC_LEAVE_EPOCH
from rebalance_sim.protocol.wire.records import MemberState

_LONG_AGO = -1 << 40


class TimersArmed(Property):
    """coordinator C23, classic C12. A classic member in a consumer group has other timers."""

    id = "coordinator.timers_armed"
    sentence = (
        "Each member that a group waits for is watched by a timer: by its session or a parked "
        "request, a revocation, a join phase and a SyncGroup by one of their own."
    )
    clauses = ("coordinator C23", "coordinator §9.5", "classic C12", "classic §2.9", "defects L3")
    violated_by = ("KAFKA-18931", "KAFKA-12890", "KAFKA-9801")

    def on_change(self, step: Step, change: Change) -> Finding | None:
        """Look at every member that was touched."""
        return self._judge(step.shard, change.members)

    def on_timers(self, step: Step) -> Finding | None:
        """Look at members whose timer was cancelled."""
        cancelled = [one for one in step.timers if isinstance(one, CancelTimer)]
        member_ids = [one.key.member_id for one in cancelled]
        return self._judge(step.shard, member_ids) if member_ids else None

    def on_timer_fired(self, step: Step, change: Change | None) -> Finding | None:
        """A timer that fired and did nothing must not have been the last one."""
        return self._judge(step.shard, (step.event.member_id,))

    def on_loaded(self, step: Step, ledger: GroupLedger) -> Finding | None:
        """Look at every member of a freshly loaded shard."""
        return self._judge(step.shard, sorted(ledger.members))

    def on_truncated(self, step: Step) -> Finding | None:
        """Look at every member of a shard whose memory went back."""
        ledger = self.model.ledger_of(step.shard) if step.shard.is_active else None
        return self.on_loaded(step, ledger) if ledger and not ledger.classic_count else None

    def _judge(self, shard: ShardView, member_ids: Iterable[str]) -> Finding | None:
        group_id, members = self.model.group_id, self.model.ledger_of(shard).members
        for member_id in member_ids:
            entry = members.get(member_id)
            if entry is None:
                continue
            what = None if session_key(group_id, member_id) in shard.armed_timers else "session"
            is_revoking = entry.current and entry.current.pending_revocation
            if is_revoking and not entry.is_classic:
                is_armed = rebalance_key(group_id, member_id) in shard.armed_timers
                what = what if is_armed else "rebalance"
            if what is not None:
                who = self.model.who(member_id)
                return Finding(f"{shard.name} has no {what} timer for {who}", member=member_id)
        return None

    def on_classic(self, step: Step, look: ClassicLook) -> Finding | None:
        """Look at what was touched. What a write has made that failed goes as soon as that is
        known, in the next step; the group that the same write had ended is there again."""
        missing = None if look.group is None else _unwatched(look, look.group)
        if missing is None or self.model.group_in(look.shard) is not None:
            return None
        return Finding(f"the classic group has {missing}")


def _unwatched(look: ClassicLook, group: ClassicGroup) -> str | None:
    armed, group_id, state = look.shard.armed_timers, group.group_id, group.state
    if state is ClassicGroupState.PREPARING_REBALANCE:
        if classic_timers.join_key(group_id) not in armed:
            return "no join timer in PreparingRebalance"
    elif state is ClassicGroupState.COMPLETING_REBALANCE:
        awaited = sorted(group.pending_sync)
        if awaited and classic_timers.sync_key(group_id) not in armed:
            return f"no sync timer, and waits for {listed(awaited)}"
    for member_id in look.touched:
        if (
            not group.members[member_id].has_satisfied_heartbeat
            and classic_timers.session_key(group_id, member_id) not in armed
        ):
            return f"no session timer for {member_id}"
    for member_id in group.pending_join:
        if classic_timers.session_key(group_id, member_id) not in armed:
            return f"no session timer for {member_id}"
    return None


class RemovalDue(Property):
    """defects L4: removal by a timer is justified by silence, or by a revocation that took too
    long. Classic members have other timers."""

    id = "coordinator.removal_due"
    sentence = (
        "A timer removes a member only after a session timeout without a heartbeat, or a "
        "rebalance timeout without acknowledgement of a revocation."
    )
    clauses = ("coordinator §4.1", "coordinator §4.5", "defects L4")
    violated_by = ("test:impatient-timer",)
    judges_mixed = True
    _revoking: dict[tuple[str, str], tuple[int, int]] = notes(dict)
    """Shard and member -> since when, and the rebalance timeout of then."""

    def on_truncated(self, step: Step) -> None:
        """A write that failed may have ended a revocation, or begun another one: who is revoking
        now may have been for long."""
        shard = step.shard
        ledger = self.model.ledger_of(shard) if shard.is_active else None
        for member_id, entry in ledger.members.items() if ledger else ():
            if entry.state is MemberState.UNREVOKED_PARTITIONS:
                self._revoking[shard.name, member_id] = _LONG_AGO, 0

    def on_loaded(self, step: Step, ledger: GroupLedger) -> Finding | None:
        """All clocks start again (coordinator §9.5)."""
        for member_id, entry in ledger.members.items():
            self._note(step, member_id, entry)
        return None

    def on_change(self, step: Step, change: Change) -> None:
        """Remember since when a member has been revoking. A leave for a while leaves the timer
        alone (coordinator §4.5)."""
        for member_id, (before, after) in change.members.items():
            if after is None or after.epoch == STATIC_LEAVE_EPOCH:
                continue
            is_same = before is not None and before.current is after.current
            if not is_same or self.model.switches(member_id, step):
                self._note(step, member_id, after)

    def _note(self, step: Step, member_id: str, entry: MemberEntry) -> None:
        key = step.shard.name, member_id
        if entry.state is not MemberState.UNREVOKED_PARTITIONS:
            self._revoking.pop(key, None)
        else:
            timeout_ms = entry.metadata.rebalance_timeout_ms if entry.metadata else 0
            self._revoking[key] = step.at_ms, timeout_ms

    def on_timer_fired(self, step: Step, change: Change | None) -> Finding | None:
        """Was it time?"""
        if change is None or change.is_group_removed:
            return None
        shard, key = step.shard, step.event
        for member_id in change.removed():
            entry = change.members[member_id][0]
            since_ms, limit_ms = self._revoking.pop((shard.name, member_id), (None, 0))
            if entry and entry.is_classic and key.member_id == member_id:
                continue
            if key.kind == "session":
                since_ms = change.ledger.last_heard_ms.get(member_id)
                begin_ms = step.at_ms if since_ms is None else since_ms
                limit_ms = self.model.config_history.session_timeout_ms(shard, begin_ms)
            waited_ms = -1 if since_ms is None else step.at_ms - since_ms
            if key.kind == "session":
                waited_ms += change.ledger.left_out_ms(member_id, since_ms)
            if key.member_id == member_id and waited_ms >= limit_ms:
                continue
            return Finding(
                f"the {key.kind} timer of {self.model.who(key.member_id)} removed "
                f"{self.model.who(member_id)} after {max(waited_ms, 0)} ms; the limit is "
                f"{limit_ms} ms",
                member=member_id,
            )
        return None
