"""Epochs and timers of operations of every kind: one step at a time, and nothing left behind.

Sources: coordinator §2.10, §4.1, §4.2, §7.2; classic §7.3, §7.6-§7.8.
"""

from __future__ import annotations

from rebalance_sim.invariants.model.ledger import Change, MemberEntry
from rebalance_sim.invariants.model.model_view import ModelView
from rebalance_sim.invariants.property import Finding, Property
from rebalance_sim.invariants.step import Step
from rebalance_sim.protocol.consumer.timer_keys import ConsumerTimer
from rebalance_sim.protocol.runtime.outcome import TimerKey
from rebalance_sim.protocol.versions.semantics import Semantics
from rebalance_sim.protocol.wire.consumer_messages import ConsumerGroupHeartbeatRequest
from rebalance_sim.protocol.wire.records import ConsumerGroupMetadata, GroupMetadata

ORDER = 37

_OF_MEMBERS = (
    ConsumerTimer.SESSION,
    ConsumerTimer.REBALANCE,
    ConsumerTimer.REJOIN,
    ConsumerTimer.RESYNC,
)


class EpochByOne(Property):
    """coordinator §2.10, of all that is no heartbeat (``coordinator.epoch_cause``)."""

    id = "coordinator.epoch_by_one"
    sentence = (
        "An operation raises the group epoch by one at most: it does if a member has come, gone "
        "or changed its subscription, unless it came with none, or a static one in the place of "
        "another that subscribed as it does; otherwise only if patterns were resolved, or topics "
        "have changed."
    )
    clauses = ("coordinator §2.10", "coordinator §4.2", "coordinator §7.2", "classic §7.6")
    violated_by = (
        *("test:two-epochs-for-one-leave", "test:epoch-for-nothing"),
        "test:no-epoch-for-a-classic-join",
    )
    judges_mixed = True

    @classmethod
    def applies_to(cls, semantics: Semantics) -> bool:
        """In the KIP's text other causes raise it too (coordinator §12.1, §13)."""
        return semantics.coordinator.assigns_in_heartbeat

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._hashes: dict[str, int] = {}
        """Shard -> metadata hash that it wrote last."""

    def on_truncated(self, step: Step) -> Finding | None:
        """What a failed batch said of topics is as if it had never been written."""
        shard = step.shard
        if shard.is_active:
            self._hashes[shard.name] = self.model.ledger_of(shard).metadata_hash
        return None

    def on_change(self, step: Step, change: Change) -> Finding | None:
        """Compare the epochs, and look for a cause."""
        name, before_hash = step.shard.name, None
        for record in change.records:
            if type(record) is ConsumerGroupMetadata and record.group_id == self.model.group_id:
                before_hash = self._hashes.get(name)
                self._hashes[name] = record.value.metadata_hash if record.value else 0
        before, after = change.group_epoch
        if (
            after < before
            or change.is_group_removed
            or type(step.request) is ConsumerGroupHeartbeatRequest
            or any(type(record) is GroupMetadata for record in change.records)
        ):
            return None
        if after == before:
            return self._unnoticed(change)
        if after > before + 1:
            return Finding(f"one operation took the group epoch from {before} to {after}")
        if (
            change.patterns
            or before_hash != self._hashes.get(name)
            or any(_is_cause(*pair) for pair in change.members.values())
        ):
            return None
        return Finding(f"the group epoch was raised to {after}, and nothing had changed")

    def _unnoticed(self, change: Change) -> Finding | None:
        """Who has come, gone or changed, though the group epoch has stayed."""
        gone = {
            before.instance_id: member_id
            for member_id, (before, after) in change.members.items()
            if before is not None and after is None and before.instance_id is not None
        }
        predecessors = {
            member_id: gone[after.instance_id]
            for member_id, (before, after) in change.members.items()
            if before is None and after is not None and after.instance_id in gone
        }
        for member_id, (before, after) in change.members.items():
            if member_id in predecessors.values():
                continue
            if member_id in predecessors:
                before, _ = change.members[predecessors[member_id]]
            elif before is None and _subscribes_to_nothing(after):
                continue
            if _is_cause(before, after):
                return Finding(
                    f"{self.model.who(member_id)} has come, gone or changed its subscription, and "
                    f"the group epoch stays {change.group_epoch[1]}",
                    {"member": member_id},
                )
        return None


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


def _is_cause(before: MemberEntry | None, after: MemberEntry | None) -> bool:
    """Whether a member has come, gone, or subscribes to something else."""
    if before is None or after is None:
        return True
    if before.metadata is None or after.metadata is None:
        return before.metadata is not after.metadata
    return {*before.topic_names} != {
        *after.topic_names
    } or before.metadata.subscribed_topic_regex != after.metadata.subscribed_topic_regex


def _subscribes_to_nothing(entry: MemberEntry | None) -> bool:
    """Such a newcomer changes nothing for anybody: its subscription is as it was before it came."""
    if entry is None or entry.metadata is None:
        return False
    return not entry.topic_names and not entry.metadata.subscribed_topic_regex
