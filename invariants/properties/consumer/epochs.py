"""Epochs: they only rise, keep their order, and fence whoever comes with another one.

Sources: coordinator §0, §2.8, §14.1.
"""

from __future__ import annotations

from rebalance_sim.invariants.model.ledger import Change, GroupLedger, MemberEntry
from rebalance_sim.invariants.model.model_view import ModelView
from rebalance_sim.invariants.property import Finding, Interest, Property
from rebalance_sim.invariants.step import Step
from rebalance_sim.protocol.versions.semantics import Semantics
from rebalance_sim.protocol.wire.classic_messages import JoinGroupRequest
from rebalance_sim.protocol.wire.consumer_messages import (
    JOIN_EPOCH,
    STATIC_LEAVE_EPOCH,
    ConsumerGroupHeartbeatRequest,
)
from rebalance_sim.protocol.wire.topics import TopicPartition

ORDER = 20


class TargetEpochBounded(Property):
    """First half of coordinator C4."""

    id = "coordinator.target_epoch_bounded"
    sentence = "The target epoch never exceeds the group epoch."
    clauses = ("coordinator C4", "classic H2", "defects S3")
    violated_by = ("test:target-ahead",)
    judges_mixed = True

    def on_change(self, step: Step, change: Change) -> Finding | None:
        """Compare the two after each batch."""
        return self._judge(change.target_epoch[1], change.group_epoch[1])

    @staticmethod
    def _judge(target_epoch: int, group_epoch: int) -> Finding | None:
        if target_epoch <= group_epoch:
            return None
        return Finding(f"the target epoch is {target_epoch}, the group epoch {group_epoch}")


class GroupEpochsRise(Property):
    """Second half of coordinator C4. A failover may take back only what nobody was told
    (coordinator C21)."""

    id = "coordinator.group_epochs_rise"
    sentence = "Group epoch and target epoch never fall while the group lives."
    clauses = ("coordinator C4", "defects S3")
    violated_by = ("test:epoch-falls",)
    judges_mixed = True

    def on_change(self, step: Step, change: Change) -> Finding | None:
        """Compare before and after; deletion starts anew."""
        if change.is_group_removed:
            return None
        for name, (before, after) in (
            ("group", change.group_epoch),
            ("target", change.target_epoch),
        ):
            if after < before:
                return Finding(f"the {name} epoch fell from {before} to {after}")
        return None


class EmptiedGroupSettled(Property):
    """coordinator §4.2: nothing is left to compute for a group without members."""

    id = "coordinator.emptied_group_settled"
    sentence = "When the last member of a group is removed, its target epoch is its group epoch."
    clauses = ("coordinator §4.2",)
    violated_by = ("KAFKA-20442",)

    @classmethod
    def applies_to(cls, semantics: Semantics) -> bool:
        """The KIP's text has nothing of it."""
        return semantics.coordinator.assigns_in_heartbeat

    def on_change(self, step: Step, change: Change) -> Finding | None:
        """Look at the epochs where no member is left."""
        group_epoch, target_epoch = change.group_epoch[1], change.target_epoch[1]
        if (
            change.is_group_removed
            or change.ledger.members
            or target_epoch == group_epoch
            or not any(after is None for _, after in change.members.values())
        ):
            return None
        return Finding(
            f"the last member was removed at group epoch {group_epoch}, and the target epoch stays "
            f"{target_epoch}"
        )


class MemberEpochBounded(Property):
    """First half of coordinator C5."""

    id = "coordinator.member_epoch_bounded"
    sentence = (
        "A member that is present is at an epoch above 0, if there is a target at all, it was not "
        "converted before its first generation and has nothing of a predecessor to give up, and "
        "not above the target epoch."
    )
    clauses = ("coordinator C5", "defects S3")
    violated_by = ("test:member-ahead",)
    judges_mixed = True

    def on_change(self, step: Step, change: Change) -> Finding | None:
        """Look at touched members; at all of them should the target epoch have fallen."""
        target_epoch = change.ledger.target_epoch
        if change.target_epoch[1] < change.target_epoch[0]:
            for member_id, entry in sorted(change.ledger.members.items()):
                if entry.epoch > target_epoch:
                    return self._found(member_id, entry.epoch, target_epoch)
        for member_id, (before, after) in change.members.items():
            if after is None or after.current is None:
                continue
            if before is not None and before.current is after.current:
                continue
            # A classic member that takes a static one's place may claim to own what that one had.
            may_be_new = _awaits_first_generation(after) or after.current.pending_revocation
            lowest = 1 if target_epoch and not may_be_new else 0
            if not lowest <= after.epoch <= target_epoch and after.epoch != STATIC_LEAVE_EPOCH:
                return self._found(member_id, after.epoch, target_epoch)
        return None

    def _found(self, member_id: str, epoch: int, target_epoch: int) -> Finding:
        return Finding(
            f"{self.model.who(member_id)} is at epoch {epoch}, the target epoch is {target_epoch}",
            member=member_id,
        )


def _awaits_first_generation(entry: MemberEntry) -> bool:
    """Was it converted in the first join phase of its group? It has nothing but what it claimed to
    own by then, which is of no generation either, and is to rejoin."""
    current = entry.current
    return entry.is_classic and (current is None or not any(current.assigned.values()))


class MemberEpochRises(Property):
    """Second half of coordinator C5. A static return starts at 0 inside one batch, and is not seen
    here."""

    id = "coordinator.member_epoch_rises"
    sentence = "The epoch of a registered member never falls, but for a leave for a while."
    clauses = ("coordinator C5", "defects S3", "TLA+ GcSideMemberEpochIsMonotonic")
    violated_by = ("test:member-epoch-falls",)
    judges_mixed = True

    def on_change(self, step: Step, change: Change) -> Finding | None:
        """Compare before and after."""
        for member_id, (before, after) in change.members.items():
            if before is None or after is None or before.current is after.current:
                continue
            if after.epoch < before.epoch and after.epoch != STATIC_LEAVE_EPOCH:
                return Finding(
                    f"{self.model.who(member_id)} fell from epoch {before.epoch} to {after.epoch}",
                    member=member_id,
                )
        return None


class OwnerEpochUnique(Property):
    """defects S2, as a rule that needs no history of all epochs: with each change of hands the
    epoch rises.

    A predecessor under the same instance id is the same owner. What a failover loses is forgotten.
    """

    id = "coordinator.owner_epoch_unique"
    sentence = "A partition and a member epoch together name at most one owner, for ever."
    clauses = ("defects S2",)
    violated_by = ("test:grant-while-revoking",)
    judges_mixed = True
    interest = Interest(requests=(JoinGroupRequest,))

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._last: dict[str, dict[TopicPartition, tuple[int, str, str | None]]] = {}

    def on_loaded(self, step: Step, ledger: GroupLedger) -> Finding | None:
        """Start anew from what the log holds."""
        shard = step.shard
        self._last[shard.name] = {
            partition: (entry.epoch, member_id, entry.instance_id)
            for partition, member_id in ledger.owner.items()
            if (entry := ledger.members[member_id]).epoch > 0
        }
        return None

    def on_truncated(self, step: Step) -> Finding | None:
        """What was lost was never true."""
        self._last.pop(step.shard.name, None)
        return None

    def on_request(self, step: Step) -> Finding | None:
        """A group that was dropped begins again (``coordinator.group_kept``)."""
        if self.model.has_dropped_group(step.shard):
            self._last.pop(step.shard.name, None)
        return None

    def on_change(self, step: Step, change: Change) -> Finding | None:
        """Compare each new owner with the last one, then remember the present owners."""
        if change.is_group_removed:
            self._last.pop(step.shard.name, None)
            return None
        last = self._last.setdefault(step.shard.name, {})
        found = None
        if change.moved:
            found = self._find_repeated(change, last)
        for member_id, (before, after) in change.members.items():
            if after is None or after.epoch <= 0 or (before and before.current is after.current):
                continue
            remembered = after.epoch, member_id, after.instance_id
            for partition in after.held():
                last[partition] = remembered
        return found

    def _find_repeated(
        self, change: Change, last: dict[TopicPartition, tuple[int, str, str | None]]
    ) -> Finding | None:
        for member_id, partition in change.gained:
            entry = change.ledger.members.get(member_id)
            previous = last.get(partition)
            if entry is None or previous is None or entry.epoch <= 0:
                continue
            epoch, owner, instance_id = previous
            if owner == member_id or (instance_id and instance_id == entry.instance_id):
                continue
            if entry.epoch <= epoch:
                return Finding(
                    f"{self.model.name_of(partition)} went from {self.model.who(owner)} at epoch "
                    f"{epoch} to {self.model.who(member_id)} at epoch {entry.epoch}",
                    partition=partition,
                )
        return None


class EpochFence(Property):
    """coordinator §2.8: the present epoch, a join, or the previous one with a plausible owned
    list."""

    id = "coordinator.epoch_fence"
    sentence = (
        "A heartbeat at another epoch is accepted only as a join, or at the previous epoch "
        "with an owned list that the coordinator knows the member to hold."
    )
    clauses = ("coordinator §2.8", "defects S1", "defects S3")
    violated_by = (
        "mut-no-epoch-fence",
        "mut-prev-epoch-any",
        "KAFKA-19274",
    )

    def on_heartbeat(self, step: Step, before: MemberEntry | None) -> Finding | None:
        """``before`` is the sender as it was stored when the heartbeat came."""
        request = step.request
        epoch = request.member_epoch
        if epoch <= JOIN_EPOCH:
            return None
        if before is None:
            return Finding(
                f"a heartbeat at epoch {epoch} was accepted from {request.member_id}, "
                "who is no member",
                member=request.member_id,
            )
        if epoch == before.epoch:
            return None
        if explains_lost_response(self.model, before, request):
            return None
        previous = before.current.previous_member_epoch if before.current else None
        owned = request.topic_partitions
        return Finding(
            f"a heartbeat of {self.model.who(request.member_id)} at epoch {epoch} was accepted; "
            f"the member is at {before.epoch}, before that at "
            f"{previous}, "
            f"and reported {'nothing' if owned is None else self.model.names_of(owned)}",
            member=request.member_id,
        )


def explains_lost_response(
    model: ModelView, stored: MemberEntry, request: ConsumerGroupHeartbeatRequest
) -> bool:
    """Whether a lost answer explains the epoch of this request (coordinator §2.8; for the KIP
    coordinator §13, row 9)."""
    current, owned = stored.current, request.topic_partitions
    if current is None or owned is None:
        return False
    if request.member_epoch != current.previous_member_epoch:
        return False
    unknown = owned - current.assigned.keys()
    if model.rules.reports_pending:  # The KIP's text also knows what is still to be revoked.
        unknown -= current.pending_revocation.keys()
    return not unknown and request.member_epoch < stored.epoch
