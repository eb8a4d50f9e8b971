"""Defects of the consumer group."""

from collections.abc import Sequence

from rebalance_sim.protocol.assignors.server import SubscriptionType
from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup
from rebalance_sim.protocol.consumer.consumer_member import Member
from rebalance_sim.protocol.consumer.consumer_rules import ConsumerGroupRules, Joiner
from rebalance_sim.protocol.consumer.ownership_rules import NO_OWNER, Epochs, OwnershipRules
from rebalance_sim.protocol.defects._shared import NoDoubleOwnershipAlarm
from rebalance_sim.protocol.defects.defect import Defect, defect, wrong
from rebalance_sim.protocol.wire.consumer_messages import ConsumerGroupHeartbeatRequest
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.records import (
    ConsumerGroupMemberMetadata,
    ConsumerGroupTargetAssignmentMember,
    MemberState,
    Record,
)
from rebalance_sim.protocol.wire.topics import TopicPartition


class _SeparateDiffsOwnership(NoDoubleOwnershipAlarm):
    """Assigned and pending revocation are diffed one after the other, and a removal
    does not look at the epoch it removes."""

    def update(
        self, epochs: Epochs, old: Member | None, new: Member | None, *, strict: bool
    ) -> None:
        for name in ("assigned", "pending_revocation"):
            before = getattr(old, name) if old else {}
            after = getattr(new, name) if new else {}
            if before == after and old and new and old.member_epoch == new.member_epoch:
                continue
            for partition in before:
                epochs.pop(partition, None)
            if new is not None:
                self.add(epochs, after, new.member_epoch, strict=False)


@defect(
    "KAFKA-16249-ack",
    "Revocation acknowledgement swallowed by a newer target",
    source="apache/kafka#15364",
    versions="3.7.0; fixed in 3.8.0",
    properties=("defects L1", "defects L2"),
)
class SwallowsAcknowledgement(ConsumerGroupRules):
    """When the target has moved on since the revocation was asked for, the owned list
    of the next heartbeat is not looked at.
    """

    def __init__(self) -> None:
        super().__init__()
        self._target_epoch_seen: dict[str, int] = {}

    def owned_as_reported(
        self, member: Member, owned: frozenset[TopicPartition] | None, target_epoch: int
    ) -> frozenset[TopicPartition] | None:
        seen = self._target_epoch_seen.get(member.member_id, target_epoch)
        self._target_epoch_seen[member.member_id] = target_epoch
        if member.state is MemberState.UNREVOKED_PARTITIONS and target_epoch > seen:
            return None
        return super().owned_as_reported(member, owned, target_epoch)


@defect(
    "KAFKA-18916",
    "Pattern-resolved topics missing from the topic index",
    source="apache/kafka#19088",
    versions="4.0 candidate line; fixed in 4.0",
    properties=("defects L2", "defects S6", "defects L8"),
)
class WatchesNamesOnly(ConsumerGroupRules):
    """Topics that a pattern matched are missing from the topic index."""

    def names_watched(self, group: ConsumerGroup) -> set[str]:
        return set(group.subscribed_topic_names)


@defect(
    "KAFKA-19449",
    "What a member itself gives up counts as held by another",
    versions="gone in 4.1.2",
    properties=("defects L7",),
)
class OwnPendingIsBusy(ConsumerGroupRules):
    """What the member itself is giving up counts as held by somebody else."""

    def is_free(self, group: ConsumerGroup, member: Member, partition: TopicPartition) -> bool:
        return group.epoch_of(partition) == NO_OWNER


@defect(
    "KAFKA-20066",
    "Rightful commit refused because the member epoch moved on",
    source="apache/kafka#21692",
    versions="3.7 - 4.2; relaxed by KIP-1251 in 4.3",
    properties=("defects L4", "defects S4"),
)
class StrictCommitEpoch(ConsumerGroupRules):
    """A commit must carry exactly the member's epoch."""

    def accepts_commit(
        self, member: Member, epoch: int, partitions: Sequence[TopicPartition]
    ) -> bool:
        return epoch == member.member_epoch


@defect(
    "KAFKA-20601",
    "Returning static member refused because the group is full",
    source="apache/kafka#22356",
    versions="4.0 - 4.3.1; fixed in 4.4.0 and on the 4.3 line after 4.3.1",
    properties=("defects L1", "defects L2"),
)
class CapacityBeforeReplacement(ConsumerGroupRules):
    """The size limit is checked before a static predecessor is looked for."""

    def is_refused_for_size(self, group: ConsumerGroup, request: Joiner, max_size: int) -> bool:
        return len(group.members) >= max_size and request.member_id not in group.members


@defect(
    "mut-early-grant",
    "Grant before the owner has acknowledged",
    properties=("defects S1",),
)
class GrantsEarly(ConsumerGroupRules):
    """The ownership map is not asked."""

    ownership = NoDoubleOwnershipAlarm()

    def is_free(self, group: ConsumerGroup, member: Member, partition: TopicPartition) -> bool:
        return True


class _ExpiredKeepsOwnership(NoDoubleOwnershipAlarm):
    """The tombstone of a current assignment frees nothing."""

    def update(
        self, epochs: Epochs, old: Member | None, new: Member | None, *, strict: bool
    ) -> None:
        if new is not None and new.member_epoch == -1:
            return
        super().update(epochs, old, new, strict=strict)


class _UnorderedRemoval(OwnershipRules):
    removes_in_order = False


@defect(
    "mut-no-assignment-tombstone",
    "Leave writes no tombstone for the current assignment",
    properties=("defects S5", "defects L2"),
)
class NoAssignmentTombstone(ConsumerGroupRules):
    """The memory of the leader is right, its log is not."""

    ownership = _UnorderedRemoval()

    def removal_tombstones(self, group_id: str, member_id: str) -> Sequence[Record]:
        return (
            ConsumerGroupTargetAssignmentMember(group_id, member_id, None),
            ConsumerGroupMemberMetadata(group_id, member_id, None),
        )


@defect(
    "mut-prev-epoch-any",
    "Previous epoch accepted without a look at the owned list",
    properties=("defects S1",),
)
class AcceptsAnyPreviousEpoch(ConsumerGroupRules):
    """The previous epoch is good whatever the owned list says."""

    def accepts_previous_epoch(
        self, member: Member, request: ConsumerGroupHeartbeatRequest
    ) -> bool:
        return request.member_epoch == member.member_epoch - 1


@defect(
    "PR-16145",
    "Classic member receives an error of the new protocol",
    source="apache/kafka#16145",
    versions="3.8.0 candidate line; fixed in 3.8.0",
    properties=("defects S9",),
)
class OneErrorForAll(ConsumerGroupRules):
    """A classic member is answered with an error that its protocol does not have."""

    def stale_epoch_error(self, member: Member) -> ErrorCode:
        return ErrorCode.STALE_MEMBER_EPOCH


@defect(
    "sim-kept-timers",
    "A member that changes its protocol keeps the timers of the former one",
    source="docs/findings.md",
    versions="4.3.1",
    properties=("classic H10",),
    unobserved="no client changes the protocol under its id; random requests do",
)
class KeepsTimers(ConsumerGroupRules):
    """Found by this simulator, in the byte code of kafka-group-coordinator 4.3.1, and recorded of
    4.3.1 and 4.4.0.

    A member that continues with the other protocol under its id keeps the timers of the former one
    and gets none that it would need at once: one of the consumer protocol is removed for a
    SyncGroup that it never had to send, or revokes without a limit. Clients make new ids when they
    change the protocol, so that none was seen to do this. The timers of JoinGroup and SyncGroup
    survive a conversion to a classic group, too, and fire if it is a consumer group again by then
    (docs/findings.md).
    """

    ends_timers_of_former_protocol = False

    def awaits_requests_of(self, member: Member) -> bool:
        return True


@defect(
    "sim-stale-subscription-type",
    "A joining pattern can take everything away",
    source="docs/findings.md",
    versions="4.1.2, 4.3.1, 4.4.0",
    properties=("defects S8",),
)
class StaleSubscriptionType(ConsumerGroupRules):
    """Found by this simulator, confirmed on Apache Kafka 4.3.1.

    A member with a pattern that is not resolved yet joins while a leave waits for its target. The
    target is then computed with the subscription type of the group as it was without the joiner:
    as homogeneous, from the topics of whichever member comes first. If that is the joiner, which
    has none yet, every other member loses all its partitions (docs/findings.md).
    """

    def type_of_unchanged_group(
        self, group: ConsumerGroup, with_request: SubscriptionType
    ) -> SubscriptionType:
        return group.cached_subscription_type


DEFECTS = (
    Defect(
        id="KAFKA-16147",
        title="Ownership entry lost when a pending revocation is cancelled",
        source="apache/kafka#15212",
        versions="3.7.0 (early access); fixed in 3.8.0",
        rules=(wrong(ConsumerGroupRules, ownership=_SeparateDiffsOwnership()),),
        properties=("defects S1",),
    ),
    Defect(
        id="mut-expire-keeps-ownership",
        title="Expired member keeps its ownership entries",
        rules=(wrong(ConsumerGroupRules, ownership=_ExpiredKeepsOwnership()),),
        properties=("defects L1", "defects L2"),
    ),
)
