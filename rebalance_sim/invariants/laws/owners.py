"""Members and what they hold: one owner, nothing taken that was not given up, nothing kept waiting.

Sources: coordinator §1.1, §3.1-§3.5, §14.1.
"""

from __future__ import annotations

from rebalance_sim.invariants.model.ledger import Change, MemberEntry
from rebalance_sim.invariants.property import Finding, Property
from rebalance_sim.invariants.step import Step
from rebalance_sim.protocol.wire.consumer_messages import (
    JOIN_EPOCH,
    STATIC_LEAVE_EPOCH,
    ConsumerGroupHeartbeatRequest,
)
from rebalance_sim.protocol.wire.records import MemberState
from rebalance_sim.protocol.wire.topics import TopicPartition


class ExclusiveOwnership(Property):
    """coordinator C1, C3, C8, record by record: within a batch, the release precedes the grant."""

    id = "coordinator.exclusive_ownership"
    sentence = (
        "A partition is assigned to, or awaits revocation by, at most one member: it is granted "
        "only while no member holds it."
    )
    clauses = (
        *("coordinator C1", "coordinator C3", "coordinator C8", "classic H1"),
        *("defects S1", "defects S2", "TLA+ ValidPartitionEpoch"),
    )
    violated_by = ("mut-early-grant", "KAFKA-16147", "test:grant-while-revoking")
    judges_mixed = True

    def on_change(self, step: Step, change: Change) -> Finding | None:
        """Did a record give out what another member held at that moment?"""
        if not change.taken:
            return None
        partition, taker, holder = min(change.taken)
        entry = change.members.get(holder, (None, None))[0] or change.ledger.members.get(holder)
        return Finding(
            f"{self.model.name_of(partition)} went to {self.model.who(taker)} while "
            f"{self.model.who(holder)} held it ({entry.state.name if entry else 'gone'})",
            partition=partition,
        )


class ReleaseAcknowledged(Property):
    """coordinator C9. The owner says so in an owned list, or leaves for a while, or is removed."""

    id = "coordinator.release_is_acknowledged"
    sentence = (
        "A partition is taken from a member only if the member reports that it does not use it, "
        "is removed, or leaves for a while with the partition to be revoked."
    )
    clauses = ("coordinator C9", "defects S1")
    violated_by = ("test:early-release",)

    def on_change(self, step: Step, change: Change) -> Finding | None:
        """Look at everything that is not held any more by a member that is still there."""
        for member_id, partition in change.lost():
            before, after = change.members[member_id]
            if before and after and not _may_lose(step.request, member_id, before, partition):
                return Finding(
                    f"{self.model.name_of(partition)} was taken from {self.model.who(member_id)} "
                    f"({before.state.name}, epoch {before.epoch}) without its acknowledgement",
                    partition=partition,
                    member=member_id,
                )
        return None


def _may_lose(
    request: object, member_id: str, before: MemberEntry, partition: TopicPartition
) -> bool:
    if not isinstance(request, ConsumerGroupHeartbeatRequest) or request.member_id != member_id:
        return False
    if request.member_epoch == STATIC_LEAVE_EPOCH:
        return before.current is not None and partition in before.current.pending_revocation
    return request.topic_partitions is not None and partition not in request.topic_partitions


class SubscribedOnly(Property):
    """defects S6, where the coordinator decides: at a grant, and at a change of subscription. A
    topic that is deleted is found in ``assigned`` until the member's next step."""

    id = "coordinator.subscribed_only"
    sentence = "A member is given nothing of a topic that it does not subscribe to."
    clauses = ("coordinator §3.3", "coordinator §3.4", "defects S6")
    violated_by = ("KAFKA-19431",)

    def on_change(self, step: Step, change: Change) -> Finding | None:
        """Look at what is new, and at all that is left after a change of subscription."""
        by_id = step.shard.coordinator.image.by_id
        for member_id, (before, after) in change.members.items():
            if after is None or after.current is None or after.metadata is None:
                continue
            is_changed = before is None or before.topic_names != after.topic_names
            if not is_changed and member_id not in change.moved:
                continue
            names = change.ledger.names_of(after)
            had = before.held() if before and not is_changed else ()
            for partition in sorted(after.current.assigned.keys() - had):
                topic = by_id.get(partition.topic_id)
                if topic is not None and topic.name not in names:
                    return Finding(
                        f"{self.model.who(member_id)} has {self.model.name_of(partition)} and "
                        f"subscribes to {', '.join(names) or 'nothing'}",
                        partition=partition,
                        member=member_id,
                    )
        return None


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
        left = entry.current.pending_revocation if entry and entry.current else {}
        ignored = pending.keys() & left.keys()
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
        "that no member holds; a classic member holds by name."
    )
    clauses = ("coordinator §3.3", "coordinator §3.5", "defects L2")
    violated_by = ("KAFKA-19449", "mut-expire-keeps-ownership")
    judges_mixed = True

    def on_heartbeat(self, step: Step, before: MemberEntry | None) -> Finding | None:
        """What does the sender still wait for?"""
        shard, member_id = step.shard, step.response.member_id
        ledger = self.model.ledger_of(shard)
        entry = ledger.members.get(member_id)
        if (
            step.request.member_epoch < JOIN_EPOCH
            or entry is None
            or entry.current is None
            or entry.state is not MemberState.UNRELEASED_PARTITIONS
        ):
            return None
        by_name = shard.coordinator.image.by_name
        topics = {t.topic_id for n in ledger.names_of(entry) if (t := by_name.get(n))}
        free = {
            p
            for p in ledger.targets.get(member_id, frozenset()) - entry.current.assigned.keys()
            if p not in ledger.holders.owner
            and p.topic_id in topics
            and not self.model.is_held_by_name(shard, ledger, member_id, p)
        }
        if not free:
            return None
        return Finding(
            f"{self.model.who(member_id)} waits for {self.model.names_of(free)}, held by no member",
            member=member_id,
        )


class StaticMembers(Property):
    """coordinator C13. Brokers before 4.4 keep a former instance id mapped to its member
    (KAFKA-20747)."""

    id = "coordinator.static_members"
    sentence = "Each instance id is mapped to the one member that has it."
    clauses = ("coordinator C13", "defects S7")
    violated_by = ("test:corrupt-counts",)
    judges_mixed = True

    def on_change(self, step: Step, change: Change) -> Finding | None:
        """Compare the coordinator's map with what members say."""
        expected = change.ledger.instances
        mapped = change.group.static_members if change.group else expected
        if mapped == expected:
            return None
        odd = min(instance_id for instance_id, _ in mapped.items() ^ expected.items())
        return Finding(
            f"instance id {odd} is mapped to {mapped.get(odd, 'no one')}, "
            f"and {expected.get(odd, 'no one')} has it",
            instance_id=odd,
        )


class GroupSize(Property):
    """coordinator C24. What a load brings may exceed a limit that was lowered."""

    id = "coordinator.group_size"
    sentence = "No member joins a group that is full."
    clauses = ("coordinator C24",)
    violated_by = ("test:oversized",)
    judges_mixed = True

    def on_change(self, step: Step, change: Change) -> Finding | None:
        """Did the group grow beyond its limit?"""
        limit = self.model.config.group_consumer_max_size
        size = len(change.ledger.members)
        if size <= limit:
            return None
        pairs = change.members.values()
        before = size + sum((old is not None) - (new is not None) for old, new in pairs)
        if size <= before:
            return None
        return Finding(f"the group grew from {before} to {size} members, the limit is {limit}")
