"""Groups that go from one protocol to the other: whole, with everybody, and back if it fails.

Source: classic §7.3, §7.8, §10.2, H6-H9, H13.
"""

from __future__ import annotations

from collections.abc import Mapping

from rebalance_sim.invariants.formatting import listed
from rebalance_sim.invariants.model.ledger import Change
from rebalance_sim.invariants.property import Finding, Interest, Property
from rebalance_sim.invariants.step import Step, StepKind
from rebalance_sim.protocol.classic.classic_group import ClassicGroup
from rebalance_sim.protocol.consumer.context import metadata_hash
from rebalance_sim.protocol.runtime.outcome import TimerKey
from rebalance_sim.protocol.wire.classic_messages import (
    JoinGroupRequest,
    LeaveGroupRequest,
)
from rebalance_sim.protocol.wire.classic_records import ClassicGroupValue
from rebalance_sim.protocol.wire.consumer_messages import LEAVE_EPOCH, ConsumerGroupHeartbeatRequest
from rebalance_sim.protocol.wire.embedded import Subscription
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.records import (
    ConsumerGroupMemberMetadata,
    ConsumerGroupMetadata,
    ConsumerGroupTargetAssignmentMember,
    ConsumerGroupTargetAssignmentMetadata,
    GroupMetadata,
    OffsetCommit,
)
from rebalance_sim.protocol.wire.topics import MetadataImage, TopicPartition

ORDER = 200


class OneGroupPerId(Property):
    """classic H6."""

    id = "conversion.one_group"
    sentence = "After each batch the log has at most one group under the id, classic or consumer."
    clauses = ("classic H6", "classic §7.1")
    violated_by = ("test:conversion-without-tombstone",)
    judges_mixed = True

    def on_change(self, step: Step, change: Change) -> Finding | None:
        """Does the log have two?"""
        ledger = change.ledger
        if ledger.has_group and ledger.classic is not None:
            return Finding(
                f"the log has a consumer group at epoch {ledger.group_epoch} and a classic group "
                f"at generation {ledger.classic.generation}"
            )
        return None


class GroupKept(Property):
    """coordinator §9.3: what is in force is what the log says."""

    id = "coordinator.group_kept"
    sentence = "A group that is refused a JoinGroup is there afterwards as it was before."
    clauses = ("coordinator §9.3", "classic §2.2")
    violated_by = ("classic-dropped-group",)
    judges_mixed = True
    interest = Interest(requests=(JoinGroupRequest,))

    def on_request(self, step: Step) -> Finding | None:
        """Is a group of the log gone from memory?"""
        shard = step.shard
        if not self.model.has_dropped_group(shard):
            return None
        return Finding(
            f"{shard.name} refused a JoinGroup of {self.model.who(step.request.member_id)}, and "
            f"forgot the group that the log has at epoch {self.model.ledger_of(shard).group_epoch}"
        )


class ConversionKeeps(Property):
    """classic H7."""

    id = "conversion.keeps"
    sentence = (
        "A conversion keeps members, instance ids, subscriptions and offsets, but for the "
        "member that brings it about; the number shared with clients does not fall."
    )
    clauses = ("classic H7", "classic §7.3", "classic §7.8")
    violated_by = ("test:conversion-loses-member",)
    judges_mixed = True

    def on_change(self, step: Step, change: Change) -> Finding | None:
        """Look at batches with a record of either kind of group."""
        group_id = change.ledger.group_id
        classic = [
            r for r in change.records if isinstance(r, GroupMetadata) and r.group_id == group_id
        ]
        if not classic:
            return None
        epochs = [
            r.value.epoch
            for r in change.records
            if isinstance(r, ConsumerGroupMetadata) and r.group_id == group_id and r.value
        ]
        value = classic[-1].value
        if value is None and epochs:
            former = change.upgraded
            if former is None:
                return None
            return self._judge_upgrade(step, change, former, epochs) or self._judge_offsets(change)
        if value is not None and change.is_group_removed and value.members:
            return self._judge_downgrade(step, change, value) or self._judge_offsets(change)
        return None

    def _judge_upgrade(
        self, step: Step, change: Change, former: ClassicGroup, epochs: list[int]
    ) -> Finding | None:
        generation_id, members = former.generation_id, change.ledger.members
        if epochs[0] != generation_id or not 0 <= epochs[-1] - generation_id <= 1:
            return Finding(
                f"the classic group was at generation {generation_id}, the consumer group began "
                f"at epoch {epochs[0]} and is at {epochs[-1]}"
            )
        successors = {e.instance_id for e in members.values() if e.instance_id is not None}
        for member_id, member in sorted(former.members.items()):
            entry = members.get(member_id)
            if entry is None:
                if member.group_instance_id in successors:
                    continue
                return Finding(f"{member_id} got lost when the group became a consumer group")
            if member_id == step.request.member_id:
                # It goes on under its id, as a member of the other protocol.
                continue
            if entry.instance_id != member.group_instance_id:
                return Finding(f"{member_id} had instance id {member.group_instance_id} before")
            # A newcomer may lack the protocol of the last generation; then its first one counts.
            name = former.protocol_name
            if name not in member.protocol_names():
                name = member.protocol_names()[0]
            metadata = member.metadata_for(name)
            if isinstance(metadata, Subscription) and set(metadata.topics) != {*entry.topic_names}:
                return Finding(
                    f"{member_id} subscribed to {listed(sorted(metadata.topics))}, and now to "
                    f"{listed(entry.topic_names)}"
                )
        return None

    def _judge_downgrade(
        self, step: Step, change: Change, value: ClassicGroupValue
    ) -> Finding | None:
        epoch = change.group_epoch[0]
        if value.generation < epoch:
            return Finding(
                f"the consumer group was at epoch {epoch}, the classic group is at generation "
                f"{value.generation}"
            )
        kept = {row.member_id: row.group_instance_id for row in value.members}
        instances = {i for i in kept.values() if i is not None}
        for member_id, (before, _) in sorted(change.members.items()):
            if before is None:
                continue
            if member_id not in kept:
                if _goes(step, member_id) or before.instance_id in instances:
                    continue
                return Finding(f"{member_id} got lost when the group became a classic group")
            if kept[member_id] != before.instance_id:
                return Finding(f"{member_id} had instance id {before.instance_id} before")
        return None

    @staticmethod
    def _judge_offsets(change: Change) -> Finding | None:
        for record in change.records:
            if isinstance(record, OffsetCommit) and record.value is None:
                return Finding(
                    f"the offset of {record.topic}-{record.partition} went with the conversion"
                )
        return None


class ConvertedTopicsKnown(Property):
    """Else the next heartbeat takes the topics for changed, and the group rebalances for nothing
    (KAFKA-18687)."""

    id = "conversion.topics_known"
    sentence = (
        "A classic group that becomes a consumer group knows the topics of its members: it begins "
        "with the hash of their metadata, unless the leader's assignment does not fit them any "
        "more, and it needs a new target."
    )
    clauses = ("classic §7.3", "defects L7")
    violated_by = ("KAFKA-18687",)
    judges_mixed = True

    def on_change(self, step: Step, change: Change) -> Finding | None:
        """Compute the hash of the members that are written before the group is."""
        if change.upgraded is None:
            return None
        names: dict[str, tuple[str, ...]] = {}
        shares: dict[str, frozenset[TopicPartition]] = {}
        known: int | None = None
        for record in change.records:
            if type(record) is ConsumerGroupMemberMetadata and record.value is not None:
                names[record.member_id] = record.value.subscribed_topic_names
            elif type(record) is ConsumerGroupMetadata and record.value is not None:
                known = record.value.metadata_hash
            elif type(record) is ConsumerGroupTargetAssignmentMember:
                shares[record.member_id] = record.value or frozenset()
            elif type(record) is ConsumerGroupTargetAssignmentMetadata and known is not None:
                break
        image = step.shard.coordinator.image
        all_names = {name for several in names.values() for name in several}
        is_right = known == metadata_hash(all_names, image)
        if known is None or is_right is not self._is_outdated(names, shares, image):
            return None
        return Finding(
            f"the consumer group begins with metadata hash {known}, which is "
            f"{'' if is_right else 'not '}that of {listed(sorted(all_names))}"
        )

    def _is_outdated(
        self,
        names: Mapping[str, tuple[str, ...]],
        shares: Mapping[str, frozenset[TopicPartition]],
        image: MetadataImage,
    ) -> bool:
        """Has nobody some partition of a subscribed topic, or a member one of another topic?"""
        rules, by_id = self.model.rules, image.by_id
        if rules.sees_subscriptions and any(
            by_id[p.topic_id].name not in names.get(member_id, ())
            for member_id, share in shares.items()
            for p in share
            if p.topic_id in by_id
        ):
            return True
        given = {partition for share in shares.values() for partition in share}
        return rules.sees_growth and any(
            TopicPartition(topic.topic_id, number) not in given
            for name in {name for several in names.values() for name in several}
            if (topic := image.by_name.get(name)) is not None
            for number in range(topic.partition_count)
        )


def _goes(step: Step, member_id: str) -> bool:
    """Whether this step is about the end of this member."""
    if isinstance(step.event, TimerKey) and step.kind is StepKind.COORDINATOR_TIMER:
        return step.event.member_id == member_id
    request = step.request
    if isinstance(request, ConsumerGroupHeartbeatRequest):
        # Under the text of the KIP, who is fenced is removed as well.
        is_refused = step.response.error_code is ErrorCode.FENCED_MEMBER_EPOCH
        return request.member_id == member_id and (
            request.member_epoch == LEAVE_EPOCH or is_refused
        )
    if isinstance(request, LeaveGroupRequest):
        return any(
            identity.member_id == member_id or not identity.member_id
            for identity in request.members
        )
    return isinstance(request, JoinGroupRequest) and request.group_instance_id is not None


class DowngradedWhenDue(Property):
    """classic H9. That only classic members are left after a plain join is no reason
    (classic §7.8)."""

    id = "conversion.downgraded_when_due"
    sentence = (
        "When a member goes, or a static one of the consumer protocol is replaced, and only "
        "classic members remain, the group becomes a classic one, if the policy allows that and "
        "they fit."
    )
    clauses = ("classic H9", "classic §7.8")
    violated_by = ("KAFKA-17317",)
    judges_mixed = True

    def on_change(self, step: Step, change: Change) -> Finding | None:
        """Look at batches by which a member went."""
        ledger, count = change.ledger, len(change.ledger.members)
        if not count or ledger.classic_count != count:
            return None
        gone = [member_id for member_id in change.removed() if _has_gone(change, member_id)]
        if not gone:
            return None
        config = step.shard.configs.broker
        if config.group_consumer_migration_policy not in ("bidirectional", "downgrade"):
            return None
        if count > config.group_max_size:
            return None
        return Finding(
            f"{listed(gone)} went, and the group stays a consumer group of {count} classic members"
        )


def _has_gone(change: Change, member_id: str) -> bool:
    """Whether a member went for which no other classic member took the place of a classic one."""
    gone = change.members[member_id][0]
    if gone is None or not gone.is_classic or gone.instance_id is None:
        return True
    return not any(
        before is None and after is not None and after.instance_id == gone.instance_id
        for before, after in change.members.values()
    )
