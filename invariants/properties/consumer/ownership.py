"""Who holds a partition: one member at a time, and nobody takes what was not given up.

Sources: coordinator §3.2, §3.3, §14.1.
"""

from __future__ import annotations

from collections.abc import Set

from rebalance_sim.invariants.model.ledger import Change, MemberEntry
from rebalance_sim.invariants.property import Finding, Property
from rebalance_sim.invariants.step import Step
from rebalance_sim.protocol.consumer.consumer_group import NOBODY
from rebalance_sim.protocol.wire.consumer_messages import (
    STATIC_LEAVE_EPOCH,
    ConsumerGroupHeartbeatRequest,
)
from rebalance_sim.protocol.wire.topics import TopicPartition

ORDER = 10


class ExclusiveOwnership(Property):
    """coordinator C1."""

    id = "coordinator.exclusive_ownership"
    sentence = "A partition is assigned to, or awaits revocation by, at most one member."
    clauses = ("coordinator C1", "classic H1", "defects S1")
    violated_by = (
        "mut-early-grant",
        "KAFKA-16147",
    )
    judges_mixed = True

    def on_change(self, step: Step, change: Change) -> Finding | None:
        """Does a partition have a second holder?"""
        rivals = change.ledger.rivals
        if not rivals:
            return None
        partition = min(rivals)
        return self._found(partition, change.ledger.owner[partition], rivals[partition][0])

    def _found(self, partition: TopicPartition, one: str, other: str) -> Finding:
        who = self.model.who
        return Finding(
            f"{self.model.name_of(partition)} is held by {who(one)} and by {who(other)}",
            partition=partition,
        )


class OwnershipMap(Property):
    """coordinator C3. The coordinator's map decides what is free, so a lost entry is a second owner
    to come."""

    id = "coordinator.ownership_map"
    sentence = (
        "The ownership map has exactly the held partitions, each at its owner's member epoch."
    )
    clauses = ("coordinator C3", "TLA+ ValidPartitionEpoch")
    violated_by = (
        "KAFKA-16147",
        "mut-expire-keeps-ownership",
        "mut-early-grant",
    )
    judges_mixed = True

    def on_change(self, step: Step, change: Change) -> Finding | None:
        """Compare the entries of every touched member, and the size."""
        ledger, group = change.ledger, change.group
        if group is None:
            return None
        epochs = group.current_partition_epoch
        for before, after in change.members.values():
            if before is not None and after is not None and before.current is after.current:
                continue
            if after is not None:
                for partition in after.held():
                    if epochs.get(partition, NOBODY) != after.epoch:
                        return self._found(partition, after.epoch, epochs)
            if before is not None:
                for partition in before.held():
                    if partition not in ledger.owner and partition in epochs:
                        return self._found(partition, NOBODY, epochs)
        if len(epochs) != len(ledger.owner):
            odd = min(epochs.keys() ^ ledger.owner.keys())
            expected = ledger.members[ledger.owner[odd]].epoch if odd in ledger.owner else NOBODY
            return self._found(odd, expected, epochs)
        return None

    def _found(
        self, partition: TopicPartition, expected: int, epochs: dict[TopicPartition, int]
    ) -> Finding:
        return Finding(
            f"the ownership map has {self.model.name_of(partition)} at epoch "
            f"{epochs.get(partition, NOBODY)}, its holder's epoch is {expected} (-1: nobody)",
            partition=partition,
        )


class GrantOnlyFree(Property):
    """coordinator C8, record by record: within a batch, the release precedes the grant."""

    id = "coordinator.grant_only_free"
    sentence = "A partition is granted only while nobody holds it."
    clauses = ("coordinator C8",)
    violated_by = (
        "mut-early-grant",
        "KAFKA-16147",
    )
    judges_mixed = True

    def on_change(self, step: Step, change: Change) -> Finding | None:
        """Did a record give out what another member held at that moment?"""
        if not change.taken:
            return None
        partition, taker, holder = min(change.taken)
        entry = change.members.get(holder, (None, None))[0] or change.ledger.members.get(holder)
        state = entry.state.name if entry else "gone"
        return Finding(
            f"{self.model.name_of(partition)} went to {self.model.who(taker)} while "
            f"{self.model.who(holder)} held it ({state})",
            partition=partition,
        )


class ReleaseAcknowledged(Property):
    """coordinator C9. The owner says so in an owned list, or leaves for a while, or is removed."""

    id = "coordinator.release_is_acknowledged"
    sentence = (
        "A partition is taken from a member only if the member reports that it does not use "
        "it, or is removed, or leaves for a while with the partition pending revocation."
    )
    clauses = ("coordinator C9", "defects S1")
    violated_by = ("test:early-release",)

    def on_change(self, step: Step, change: Change) -> Finding | None:
        """Look at everything that is not held any more by a member that is still there."""
        if not change.moved:
            return None
        for member_id, partition in change.lost:
            before, after = change.members[member_id]
            if before is None or after is None:
                continue
            if _may_lose(step, member_id, before, after, partition):
                continue
            return Finding(
                f"{self.model.name_of(partition)} was taken from {self.model.who(member_id)} "
                f"({before.state.name}, epoch {before.epoch}) without its acknowledgement",
                partition=partition,
                member=member_id,
            )
        return None


def _may_lose(
    step: Step,
    member_id: str,
    before: MemberEntry,
    after: MemberEntry,
    partition: TopicPartition,
) -> bool:
    request = step.request
    if not isinstance(request, ConsumerGroupHeartbeatRequest) or request.member_id != member_id:
        return False
    if request.member_epoch == STATIC_LEAVE_EPOCH:
        return before.current is not None and partition in before.current.pending_revocation
    return request.topic_partitions is not None and partition not in request.topic_partitions


class SubscribedOnly(Property):
    """defects S6, at the moments at which the coordinator decides: a grant, and a change of
    subscription.

    A topic that is deleted, or dropped while a target lags behind, is found in ``assigned`` until
    the member's next step; that is no breach.
    """

    id = "coordinator.subscribed_only"
    sentence = "A member is given nothing of a topic that it does not subscribe to."
    clauses = ("coordinator §3.3", "coordinator §3.4", "defects S6")
    violated_by = ("KAFKA-19431",)

    def on_change(self, step: Step, change: Change) -> Finding | None:
        """Look at what is new, and at all that is left after a change of subscription."""
        for member_id, (before, after) in change.members.items():
            if after is None or after.current is None or after.metadata is None:
                continue
            if before is None or before.topic_names != after.topic_names:
                to_recheck: Set[TopicPartition] = after.current.assigned.keys()
            elif member_id in change.moved:
                to_recheck = after.current.assigned.keys() - before.held()
            else:
                continue
            wrong = self._foreign(step, change, after, to_recheck)
            if wrong:
                partition = min(wrong)
                return Finding(
                    f"{self.model.who(member_id)} has {self.model.name_of(partition)} and "
                    f"subscribes to {', '.join(change.ledger.names_of(after)) or 'nothing'}",
                    partition=partition,
                    member=member_id,
                )
        return None

    def _foreign(
        self, step: Step, change: Change, entry: MemberEntry, to_recheck: Set[TopicPartition]
    ) -> set[TopicPartition]:
        by_id = step.shard.coordinator.image.by_id
        names = change.ledger.names_of(entry)
        return {
            p
            for p in to_recheck
            if (topic := by_id.get(p.topic_id)) is not None and topic.name not in names
        }
