"""A member's state against its partitions, and the group's state against its members.

Sources: coordinator §3.1, §3.3, §6.1, §14.1.
"""

from __future__ import annotations

from rebalance_sim.invariants.model.ledger import MemberEntry
from rebalance_sim.invariants.property import Finding, Property
from rebalance_sim.invariants.step import Step
from rebalance_sim.protocol.wire.consumer_messages import JOIN_EPOCH
from rebalance_sim.protocol.wire.records import MemberState

ORDER = 30


class AcknowledgementApplied(Property):
    """coordinator §3.4, the gate of UNREVOKED_PARTITIONS. A client says it once."""

    id = "coordinator.revocation_acknowledged"
    sentence = (
        "An accepted heartbeat whose owned list has nothing of what its sender must revoke "
        "ends that revocation."
    )
    clauses = ("coordinator §3.4", "coordinator §3.5", "defects L1")
    violated_by = ("KAFKA-16249-ack",)
    judges_mixed = True

    def on_heartbeat(self, step: Step, before: MemberEntry | None) -> Finding | None:
        """Is anything that was acknowledged still to be revoked?"""
        request = step.request
        owned = request.topic_partitions
        if before is None or before.current is None or owned is None:
            return None
        pending = before.current.pending_revocation
        if not pending or not owned.isdisjoint(pending) or request.member_epoch < JOIN_EPOCH:
            return None
        entry = self.model.ledger_of(step.shard).members.get(request.member_id)
        if entry is None or entry.current is None:
            return None
        ignored = pending.keys() & entry.current.pending_revocation.keys()
        if not ignored:
            return None
        return Finding(
            f"{self.model.who(request.member_id)} reports {self.model.names_of(owned)}, and must "
            f"still revoke {self.model.names_of(ignored)}",
            member=request.member_id,
        )


class FreeIsGranted(Property):
    """coordinator §3.3: free partitions are granted as they appear, its own former ones
    included."""

    id = "coordinator.free_is_granted"
    sentence = (
        "A heartbeat of a member that waits for partitions of its target brings it all of them "
        "that nobody holds; a classic member holds by name."
    )
    clauses = ("coordinator §3.3", "coordinator §3.5", "defects L2")
    violated_by = (
        "KAFKA-19449",
        "mut-expire-keeps-ownership",
    )
    judges_mixed = True

    def on_heartbeat(self, step: Step, before: MemberEntry | None) -> Finding | None:
        """What does the sender still wait for?"""
        if step.request.member_epoch < JOIN_EPOCH:
            return None
        shard = step.shard
        ledger = self.model.ledger_of(shard)
        member_id = step.response.member_id
        entry = ledger.members.get(member_id)
        if entry is None or entry.current is None:
            return None
        if entry.state is not MemberState.UNRELEASED_PARTITIONS:
            return None
        by_name = shard.coordinator.image.by_name
        topics = {t.topic_id for n in ledger.names_of(entry) if (t := by_name.get(n))}
        free = {
            p
            for p in ledger.targets.get(member_id, frozenset()) - entry.current.assigned.keys()
            if p not in ledger.owner
            and p.topic_id in topics
            and not self.model.is_held_by_name(shard, ledger, member_id, p)
        }
        if not free:
            return None
        return Finding(
            f"{self.model.who(member_id)} waits for {self.model.names_of(free)}, held by nobody",
            member=member_id,
        )
