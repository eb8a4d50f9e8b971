"""Groups that go from one protocol to the other: whole, with everybody, and back if it fails.

Source: classic §7.1, §7.3, §7.8, §10.2, H6-H9, H13.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rebalance_sim.invariants.formatting import listed
from rebalance_sim.invariants.model.ledger import Change
from rebalance_sim.invariants.property import Finding, Property
from rebalance_sim.invariants.step import Step, StepKind
from rebalance_sim.protocol.classic.classic_group import ClassicGroup
from rebalance_sim.protocol.consumer.context import metadata_hash
from rebalance_sim.protocol.runtime.outcome import TimerKey
from rebalance_sim.protocol.wire.classic_messages import JoinGroupRequest, LeaveGroupRequest
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


class ConversionKeeps(Property):
    """classic H6, H7."""

    id = "conversion.keeps"
    sentence = (
        "A conversion leaves one group under the id, with all members but who brings it about, "
        "their instance ids and subscriptions, the offsets, and no smaller epoch."
    )
    clauses = ("classic H6", "classic H7", "classic §7.1", "classic §7.3", "classic §7.8")
    violated_by = ("test:conversion-loses-member", "test:conversion-without-tombstone")
    judges_mixed = True

    def on_change(self, step: Step, change: Change) -> Finding | None:
        """Look at batches with a record of either kind of group."""
        ledger = change.ledger
        if ledger.has_group and ledger.classic is not None:
            return Finding(
                f"the log has a consumer group at epoch {ledger.group_epoch} and a classic group "
                f"at generation {ledger.classic.generation}"
            )
        if not any(type(r) is GroupMetadata for r in change.records):
            return None
        mine = [r for r in change.records if r.group_id == ledger.group_id]
        classic = next((r for r in reversed(mine) if isinstance(r, GroupMetadata)), None)
        epochs = [r.value.epoch for r in mine if isinstance(r, ConsumerGroupMetadata) and r.value]
        if classic is None:
            return None
        if classic.value is None and epochs and change.upgraded is not None:
            found = _lost_by_upgrade(step, change, change.upgraded, epochs)
        elif classic.value and change.is_group_removed and classic.value.members:
            found = _lost_by_downgrade(step, change, classic.value)
        else:
            return None
        offsets = (r for r in change.records if isinstance(r, OffsetCommit) and r.value is None)
        gone = (f"the offset of {r.topic}-{r.partition} went" for r in offsets)
        lost = next(found, None) or next(gone, None)
        return None if lost is None else Finding(f"the group was converted, and {lost}")


def _lost_by_upgrade(
    step: Step, change: Change, former: ClassicGroup, epochs: list[int]
) -> Iterator[str]:
    generation_id, members = former.generation_id, change.ledger.members
    if epochs[0] != generation_id or not 0 <= epochs[-1] - generation_id <= 1:
        yield f"generation {generation_id} became epoch {epochs[0]}, and then {epochs[-1]}"
    successors = {e.instance_id for e in members.values() if e.instance_id is not None}
    for member_id, member in sorted(former.members.items()):
        entry = members.get(member_id)
        if entry is None and member.group_instance_id not in successors:
            yield f"{member_id} is none of its members any more"
        if entry is None or member_id == step.request.member_id:
            continue  # Who asked for it continues under its id, as a member of the other protocol.
        if entry.instance_id != member.group_instance_id:
            yield f"{member_id} had instance id {member.group_instance_id} before"
        # A newcomer may lack the protocol of the last generation; then its first one counts.
        names = member.protocol_names()
        name = former.protocol_name if former.protocol_name in names else names[0]
        metadata = member.metadata_for(name or "")
        if isinstance(metadata, Subscription) and {*metadata.topics} != {*entry.topic_names}:
            yield (
                f"{member_id} subscribed to {listed(sorted(metadata.topics))}, and now to "
                f"{listed(entry.topic_names)}"
            )


def _lost_by_downgrade(step: Step, change: Change, value: ClassicGroupValue) -> Iterator[str]:
    epoch = change.group_epoch[0]
    if value.generation < epoch:
        yield f"epoch {epoch} became generation {value.generation}"
    kept = {row.member_id: row.group_instance_id for row in value.members}
    instances = {i for i in kept.values() if i is not None}
    for member_id, (before, _) in sorted(change.members.items()):
        if before is None or (
            member_id not in kept and (_goes(step, member_id) or before.instance_id in instances)
        ):
            continue
        if member_id not in kept:
            yield f"{member_id} is none of its members any more"
        elif kept[member_id] != before.instance_id:
            yield f"{member_id} had instance id {before.instance_id} before"


def _goes(step: Step, member_id: str) -> bool:
    """Whether this step is about the end of this member."""
    request = step.request
    if isinstance(step.event, TimerKey) and step.kind is StepKind.COORDINATOR_TIMER:
        return step.event.member_id == member_id
    if isinstance(request, ConsumerGroupHeartbeatRequest):
        # Under the text of the KIP, who is fenced is removed as well.
        is_refused = step.response.error_code is ErrorCode.FENCED_MEMBER_EPOCH
        is_leave = request.member_epoch == LEAVE_EPOCH or is_refused
        return request.member_id == member_id and is_leave
    if isinstance(request, LeaveGroupRequest):
        return any(identity.member_id in (member_id, "") for identity in request.members)
    return isinstance(request, JoinGroupRequest) and request.group_instance_id is not None


class ConvertedTopicsKnown(Property):
    """Else the next heartbeat takes the topics for changed, and the group rebalances for nothing
    (KAFKA-18687)."""

    id = "conversion.topics_known"
    sentence = (
        "A classic group that becomes a consumer group knows its members' topics by their hash, "
        "unless the leader's assignment does not fit them any more."
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
        """Has no one some partition of a subscribed topic, or a member one of another topic?"""
        rules, by_id = self.model.rules, image.by_id
        given = {(p, member_id) for member_id, share in shares.items() for p in share}
        if rules.sees_subscriptions and any(
            p.topic_id in by_id and by_id[p.topic_id].name not in names.get(member_id, ())
            for p, member_id in given
        ):
            return True
        all_names = {name for several in names.values() for name in several}
        topics = [image.by_name[name] for name in all_names if name in image.by_name]
        wanted = {TopicPartition(t.topic_id, n) for t in topics for n in range(t.partition_count)}
        return rules.sees_growth and not wanted <= {p for p, _ in given}


class DowngradedWhenDue(Property):
    """classic H9. That only classic members are left after a plain join is no reason
    (classic §7.8)."""

    id = "conversion.downgraded_when_due"
    sentence = (
        "When a member goes, or a static one is replaced, and only classic members remain, the "
        "group becomes a classic one, if the policy allows that and they fit."
    )
    clauses = ("classic H9", "classic §7.8")
    violated_by = ("KAFKA-17317",)
    judges_mixed = True

    def on_change(self, step: Step, change: Change) -> Finding | None:
        """Look at batches by which a member went for which no other classic member took the place
        of a classic one."""
        count = len(change.ledger.members)
        if not count or change.ledger.classic_count != count:
            return None
        pairs, config = change.members.values(), step.shard.configs.broker
        successors = {new.instance_id for old, new in pairs if old is None and new is not None}
        gone = [
            member_id
            for member_id, (old, new) in change.members.items()
            if old is not None
            and new is None
            and not (
                old.is_classic and old.instance_id is not None and old.instance_id in successors
            )
        ]
        is_allowed = config.group_consumer_migration_policy in ("bidirectional", "downgrade")
        if not gone or not is_allowed or count > config.group_max_size:
            return None
        return Finding(
            f"{listed(gone)} went, and the group stays a consumer group of {count} classic members"
        )
