"""Epochs and timers of operations of every kind: one step at a time, and nothing left behind.

Sources: coordinator §2.10, §4.1, §4.2, §7.2; classic §7.3, §7.6-§7.8.
"""

from __future__ import annotations

from rebalance_sim.invariants.model.ledger import Change
from rebalance_sim.invariants.property import Finding, Property
from rebalance_sim.invariants.step import Step
from rebalance_sim.protocol.consumer.timer_keys import ConsumerTimer
from rebalance_sim.protocol.runtime.outcome import TimerKey
from rebalance_sim.protocol.wire.records import GroupMetadata

ORDER = 37

_OF_MEMBERS = (
    ConsumerTimer.SESSION,
    ConsumerTimer.REBALANCE,
    ConsumerTimer.REJOIN,
    ConsumerTimer.RESYNC,
)


class NoTimerLeft(Property):
    """coordinator §4.2; a timer that stays might meet whoever comes under the same id."""

    id = "coordinator.no_timer_left"
    sentence = "A member that is removed, and has no static successor, leaves no timer behind."
    clauses = ("coordinator §4.1", "coordinator §4.2", "classic §7.6", "classic §7.7")
    violated_by = ("test:timer-outlives-member",)
    judges_mixed = True

    def on_change(self, step: Step, change: Change) -> Finding | None:
        """Look at the timers of whoever has gone. Conversions leave timers that find no group."""
        if change.is_group_removed or not change.members:
            return None
        removed = change.removed()
        if not removed or any(type(record) is GroupMetadata for record in change.records):
            return None
        armed = step.shard.armed_timers
        present = {entry.instance_id for _, entry in change.members.values() if entry is not None}
        for member_id in removed:
            entry = change.members[member_id][0]
            if entry is not None and entry.instance_id is not None and entry.instance_id in present:
                continue
            for kind in _OF_MEMBERS:
                if TimerKey(kind, self.model.group_id, member_id) in armed:
                    return Finding(
                        f"{self.model.who(member_id)} was removed, and its {kind} timer runs on",
                        {"member": member_id, "has_switched": self.model.switched.get(member_id)},
                    )
        return None
