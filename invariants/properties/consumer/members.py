"""A member's state against its partitions, and the group's state against its members.

Sources: coordinator §3.1, §3.3, §6.1, §14.1.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from rebalance_sim.invariants.model.ledger import Change, MemberEntry, expected_state
from rebalance_sim.invariants.property import Finding, Property
from rebalance_sim.invariants.step import Step, WorldView
from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup
from rebalance_sim.protocol.consumer.consumer_member import Member
from rebalance_sim.protocol.wire.consumer_messages import JOIN_EPOCH
from rebalance_sim.protocol.wire.records import MemberState
from rebalance_sim.protocol.wire.topics import MetadataImage, TopicPartition

ORDER = 30


class _Current(Protocol):
    """The fields that record 8 and a stored member share."""

    @property
    def member_epoch(self) -> int: ...
    @property
    def state(self) -> MemberState: ...
    @property
    def assigned(self) -> Mapping[TopicPartition, int]: ...
    @property
    def pending_revocation(self) -> Mapping[TopicPartition, int]: ...


class PendingMeansUnrevoked(Property):
    """coordinator C6."""

    id = "coordinator.pending_means_unrevoked"
    sentence = (
        "A member with partitions to revoke is in UNREVOKED_PARTITIONS, and has not passed "
        "the target epoch that asks for it."
    )
    clauses = ("coordinator C6", "TLA+ ValidStableGroupState")
    violated_by = ("test:pending-while-stable",)
    judges_mixed = True

    def on_change(self, step: Step, change: Change) -> Finding | None:
        """Look at every member that was touched."""
        for member_id, (_, after) in change.members.items():
            if after is not None and after.current is not None:
                current = after.current
                if current.pending_revocation:
                    finding = self._judge(member_id, current, change.ledger.target_epoch)
                    if finding is not None:
                        return finding
        return None

    def full(self, view: WorldView) -> Finding | None:
        """Look at every member."""
        group = self.model.acting_group()
        for member_id, member in sorted(group.members.items()) if group else ():
            if group is not None and member.pending_revocation:
                finding = self._judge(member_id, member, group.target_assignment_epoch)
                if finding is not None:
                    return finding
        return None

    def _judge(self, member_id: str, current: _Current, target_epoch: int) -> Finding | None:
        limit = target_epoch if self.model.rules.filters_target else target_epoch - 1
        if current.state is MemberState.UNREVOKED_PARTITIONS and current.member_epoch <= limit:
            return None
        return Finding(
            f"{self.model.who(member_id)} must revoke "
            f"{self.model.names_of(current.pending_revocation)} in {current.state.name} at epoch "
            f"{current.member_epoch}; the target epoch is {target_epoch}",
            {"member": member_id},
        )


class StableMeansTarget(Property):
    """coordinator C7, with the tolerance of 4.3 for topics that the member has dropped meanwhile.

    While the group epoch is ahead of the target, a topic may have been dropped and taken up again,
    or deleted; then parts of the old target are missing, and nothing is missing for ever.
    """

    id = "coordinator.stable_means_target"
    sentence = (
        "A member that is STABLE at the target epoch is assigned exactly its target; one that "
        "waits there is assigned nothing else."
    )
    clauses = ("coordinator C7", "TLA+ ValidStableGroupState")
    violated_by = ("test:stable-without-target", "test:target-without-epoch")
    judges_mixed = True

    def on_change(self, step: Step, change: Change) -> Finding | None:
        """Look at every member of which the target or the assignment was touched."""
        ledger = change.ledger
        image = step.shard.coordinator.image if step.shard else None
        if image is None:
            return None
        touched = {**change.members, **change.targets} if change.targets else change.members
        for member_id in touched:
            entry = ledger.members.get(member_id)
            if entry is None or entry.current is None:
                continue
            if entry.current.member_epoch != ledger.target_epoch:
                continue
            finding = self._judge(
                member_id,
                entry.current,
                ledger.targets.get(member_id, frozenset()),
                ledger.names_of(entry),
                image,
                is_settled=ledger.group_epoch == ledger.target_epoch,
            )
            if finding is not None:
                return finding
        return None

    def full(self, view: WorldView) -> Finding | None:
        """Look at every member at the target epoch."""
        shard = self.model.acting_shard()
        group = self.model.group_in(shard) if shard else None
        if shard is None or group is None:
            return None
        for member_id, member in sorted(group.members.items()):
            if member.member_epoch == group.target_assignment_epoch:
                finding = self._judge(
                    member_id,
                    member,
                    group.target_of(member_id),
                    _names_of(group, member),
                    shard.coordinator.image,
                    is_settled=group.group_epoch == group.target_assignment_epoch,
                )
                if finding is not None:
                    return finding
        return None

    def _judge(
        self,
        member_id: str,
        current: _Current,
        target: frozenset[TopicPartition],
        topic_names: Collection[str],
        image: MetadataImage,
        *,
        is_settled: bool,
    ) -> Finding | None:
        assigned = current.assigned.keys()
        if assigned == target or current.state is MemberState.UNREVOKED_PARTITIONS:
            return None
        extra = assigned - target
        if not extra:
            if current.state is MemberState.UNRELEASED_PARTITIONS:
                return None
            missing = set(target - assigned)
            if self.model.rules.filters_target:
                if not is_settled:
                    return None
                topics = {t.topic_id for n in topic_names if (t := image.by_name.get(n))}
                missing = {p for p in missing if p.topic_id in topics}
            if not missing:
                return None
            what = f"lacks {self.model.names_of(missing)} of its target"
        else:
            what = f"has {self.model.names_of(extra)} beside its target"
        return Finding(
            f"{self.model.who(member_id)} is {current.state.name} at the target epoch "
            f"{current.member_epoch} and {what}",
            {"member": member_id},
        )


class RevokeBeforeAssign(Property):
    """coordinator §3.3: the heart of the incremental protocol, seen from one member."""

    id = "coordinator.revoke_before_assign"
    sentence = "While a member has something to revoke, it is granted nothing new."
    clauses = ("coordinator §3.3", "coordinator §3.5")
    violated_by = ("test:grant-while-revoking",)
    judges_mixed = True

    def on_change(self, step: Step, change: Change) -> Finding | None:
        """Look at every member that is to revoke something after this batch."""
        for member_id, (before, after) in change.members.items():
            if before is None or after is None or after.current is None:
                continue
            if before.current is None or not after.current.pending_revocation:
                continue
            granted = after.current.assigned.keys() - before.current.assigned.keys()
            if granted:
                return Finding(
                    f"{self.model.who(member_id)} was granted {self.model.names_of(granted)} while "
                    f"it must revoke {self.model.names_of(after.current.pending_revocation)}",
                    {"member": member_id},
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
        if entry is None or entry.current is None:
            return None
        ignored = pending.keys() & entry.current.pending_revocation.keys()
        if not ignored:
            return None
        return Finding(
            f"{self.model.who(request.member_id)} reports {self.model.names_of(owned)}, and must "
            f"still revoke {self.model.names_of(ignored)}",
            {"member": request.member_id},
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
    violated_by = ("KAFKA-19449", "mut-expire-keeps-ownership")
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
            {"member": member_id, "partitions": frozenset(free)},
        )


class GroupStateCorrect(Property):
    """coordinator C15."""

    id = "coordinator.group_state"
    sentence = (
        "The group is Empty without members, Assigning while the target lags behind, "
        "Reconciling while a member does, else Stable."
    )
    clauses = ("coordinator C15", "coordinator §6.1", "TLA+ ValidStableGroupState")
    violated_by = ("test:corrupt-state",)
    judges_mixed = True

    def on_change(self, step: Step, change: Change) -> Finding | None:
        """Compare with the shadow model."""
        ledger, group = change.ledger, change.group
        if group is None:
            if ledger.members:
                return Finding(f"the coordinator has lost a group of {len(ledger.members)} members")
            return None
        return self._judge(
            group,
            members=len(ledger.members),
            is_behind=ledger.group_epoch > ledger.target_epoch,
            settled=ledger.settled_count(),
        )

    def full(self, view: WorldView) -> Finding | None:
        """Compute the state anew from all members."""
        group = self.model.acting_group()
        if group is None:
            return None
        target_epoch = group.target_assignment_epoch
        return self._judge(
            group,
            members=len(group.members),
            is_behind=group.group_epoch > target_epoch,
            settled=sum(
                member.state is MemberState.STABLE and member.member_epoch == target_epoch
                for member in group.members.values()
            ),
        )

    @staticmethod
    def _judge(
        group: ConsumerGroup, *, members: int, is_behind: bool, settled: int
    ) -> Finding | None:
        expected = expected_state(member_count=members, is_behind=is_behind, settled_count=settled)
        if group.state is expected:
            return None
        return Finding(
            f"the group is {group.state.value} and should be {expected.value}: {members} members, "
            f"{settled} of them settled, group epoch {group.group_epoch}, target epoch "
            f"{group.target_assignment_epoch}"
        )


def _names_of(group: ConsumerGroup, member: Member) -> Collection[str]:
    """All names that a member subscribes to, with those that its pattern matched."""
    if not member.subscribed_topic_regex:
        return member.subscribed_topic_names
    resolved = group.resolved_regexes.get(member.subscribed_topic_regex)
    return {*member.subscribed_topic_names, *(resolved.topics if resolved else ())}
