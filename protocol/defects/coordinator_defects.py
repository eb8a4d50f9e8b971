"""Coordinator defects and mutants, each one replaced rule.

Source: docs/reference/defects.md, one section per name. A defect is a mixin put in front of a
version's rules by ``Semantics.with_defects``. Those that a shipped version has by itself are named
in ``protocol/versions/semantics.py``; all others are off by default.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rebalance_sim.protocol.assignors.server import SubscriptionType
from rebalance_sim.protocol.classic.classic_rules import ClassicGroupRules
from rebalance_sim.protocol.consumer.client_side.client_side_rules import ClientSideRules
from rebalance_sim.protocol.consumer.consumer_group import NOBODY, ConsumerGroup, OwnershipRules
from rebalance_sim.protocol.consumer.consumer_member import Member
from rebalance_sim.protocol.consumer.consumer_rules import ConsumerGroupRules, Joiner
from rebalance_sim.protocol.defects.classic_group_defects import CLASSIC_DEFECTS
from rebalance_sim.protocol.defects.client_side_defects import CLIENT_SIDE_DEFECTS
from rebalance_sim.protocol.defects.migration_defects import MIGRATION_DEFECTS
from rebalance_sim.protocol.migration.migration_rules import MigrationRules
from rebalance_sim.protocol.runtime.coordinator_config import ConfigsInForce
from rebalance_sim.protocol.wire.consumer_messages import ConsumerGroupHeartbeatRequest
from rebalance_sim.protocol.wire.records import (
    ConsumerGroupMemberMetadata,
    ConsumerGroupTargetAssignmentMember,
    MemberState,
    OffsetCommitValue,
    Record,
)
from rebalance_sim.protocol.wire.topics import TopicPartition

__all__ = ["COORDINATOR_DEFECTS"]


class _NoDoubleOwnershipAlarm(OwnershipRules):
    """The map without its alarm: mutants that hand out owned partitions must reach the invariants,
    not die on the core's own check."""

    def update(
        self,
        epochs: dict[TopicPartition, int],
        old: Member | None,
        new: Member | None,
        *,
        strict: bool,
    ) -> None:
        super().update(epochs, old, new, strict=False)


class _SeparateDiffsOwnership(_NoDoubleOwnershipAlarm):
    """KAFKA-16147: assigned and pending revocation are diffed one after the other, and a removal
    does not look at the epoch it removes."""

    def update(
        self,
        epochs: dict[TopicPartition, int],
        old: Member | None,
        new: Member | None,
        *,
        strict: bool,
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


class _ExpiredKeepsOwnership(_NoDoubleOwnershipAlarm):
    """mut-expire-keeps-ownership: the tombstone of a current assignment frees nothing."""

    def update(
        self,
        epochs: dict[TopicPartition, int],
        old: Member | None,
        new: Member | None,
        *,
        strict: bool,
    ) -> None:
        if new is not None and new.member_epoch == -1:
            return
        super().update(epochs, old, new, strict=strict)


class LosesCancelledRevocation(ConsumerGroupRules):
    """KAFKA-16147."""

    ownership = _SeparateDiffsOwnership()


class SwallowsAcknowledgement(ConsumerGroupRules):
    """KAFKA-16249-ack: when the target has moved on since the revocation was asked for, the owned
    list of the next heartbeat is not looked at."""

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


class RestartsRebalanceTimer(ConsumerGroupRules):
    """KAFKA-16249-timer: every heartbeat of a revoking member restarts its deadline."""

    def restarts_rebalance_timer(self, before: Member, after: Member) -> bool:
        return True


class RefusesRejoin(ConsumerGroupRules):
    """KAFKA-19233: epoch 0 is taken for an old epoch, good only as the previous one."""

    def accepts_rejoin(self, member: Member, received_epoch: int) -> bool:
        return False


class KeepsUnsubscribedTopics(ConsumerGroupRules):
    """KAFKA-19431: the stored target and assignment are used as they are, whatever the member
    subscribes to by now."""

    def target_in_force(
        self, target: frozenset[TopicPartition], subscribed_topic_ids: frozenset[str]
    ) -> frozenset[TopicPartition]:
        return target

    def gives_up(
        self, member: Member, subscribed_topic_ids: frozenset[str]
    ) -> frozenset[TopicPartition] | None:
        return None


class CapacityBeforeReplacement(ConsumerGroupRules):
    """KAFKA-20601: the size limit is checked before a static predecessor is looked for."""

    def is_refused_for_size(self, group: ConsumerGroup, request: Joiner, max_size: int) -> bool:
        return len(group.members) >= max_size and request.member_id not in group.members


class RefusesOwnInstance(ConsumerGroupRules):
    """PR-23542: a static join is refused without comparing the member ids."""

    def is_instance_taken(self, holder: Member, request: ConsumerGroupHeartbeatRequest) -> bool:
        return True


class FencesAfterLostResponse(ConsumerGroupRules):
    """KIP-848-lost-response: no allowance for the previous epoch."""

    def accepts_previous_epoch(
        self, member: Member, request: ConsumerGroupHeartbeatRequest
    ) -> bool:
        return False


class AcceptsAnyPreviousEpoch(ConsumerGroupRules):
    """mut-prev-epoch-any: the previous epoch is good whatever the owned list says."""

    def accepts_previous_epoch(
        self, member: Member, request: ConsumerGroupHeartbeatRequest
    ) -> bool:
        return request.member_epoch == member.member_epoch - 1


class AcceptsAnyEpoch(ConsumerGroupRules):
    """mut-no-epoch-fence: no epoch comparison at all."""

    def accepts_epoch(self, member: Member, request: ConsumerGroupHeartbeatRequest) -> bool:
        return True


class GrantsEarly(ConsumerGroupRules):
    """mut-early-grant: the ownership map is not asked."""

    ownership = _NoDoubleOwnershipAlarm()

    def is_free(self, group: ConsumerGroup, member: Member, partition: TopicPartition) -> bool:
        return True


class ForgetsBumpOnLeave(ConsumerGroupRules):
    """mut-no-bump-on-leave."""

    def bumps_on_leave(self) -> bool:
        return False


class ForgetsBumpOnMetadata(ConsumerGroupRules):
    """mut-no-bump-on-metadata."""

    def notices_metadata(self, group: ConsumerGroup, metadata_hash: int) -> bool:
        return False


class ExpiredKeepsOwnership(ConsumerGroupRules):
    """mut-expire-keeps-ownership."""

    ownership = _ExpiredKeepsOwnership()


class _UnorderedRemoval(OwnershipRules):
    removes_in_order = False


class NoAssignmentTombstone(ConsumerGroupRules):
    """mut-no-assignment-tombstone: the memory of the leader is right, its log is not."""

    ownership = _UnorderedRemoval()

    def removal_tombstones(self, group_id: str, member_id: str) -> Sequence[Record]:
        return (
            ConsumerGroupTargetAssignmentMember(group_id, member_id, None),
            ConsumerGroupMemberMetadata(group_id, member_id, None),
        )


class NoSessionTimersAfterLoad(ConsumerGroupRules):
    """KAFKA-18931."""

    def arms_session_timers_on_load(self) -> bool:
        return False


class WatchesNamesOnly(ConsumerGroupRules):
    """KAFKA-18916: topics that a pattern matched are missing from the topic index."""

    def names_watched(self, group: ConsumerGroup) -> set[str]:
        return set(group.subscribed_topic_names)


class StrictCommitEpoch(ConsumerGroupRules):
    """KAFKA-20066: a commit must carry exactly the member's epoch."""

    def accepts_commit(
        self, member: Member, epoch: int, partitions: Sequence[TopicPartition]
    ) -> bool:
        return epoch == member.member_epoch


class CommitsUnfenced(ConsumerGroupRules):
    """mut-commit-no-fence: any epoch of a known member will do."""

    def accepts_commit(
        self, member: Member, epoch: int, partitions: Sequence[TopicPartition]
    ) -> bool:
        return True


class StaleSubscriptionType(ConsumerGroupRules):
    """sim-stale-subscription-type: found by this simulator, confirmed on Apache Kafka 4.3.1.

    A member with a pattern that is not resolved yet joins while a leave waits for its target. The
    target is then computed with the subscription type of the group as it was without the joiner:
    as homogeneous, from the topics of whichever member comes first. If that is the joiner, which
    has none yet, every other member loses all its partitions (docs/findings.md).
    """

    def type_of_unchanged_group(
        self, group: ConsumerGroup, with_request: SubscriptionType
    ) -> SubscriptionType:
        return group.subscription_type


class ExpectsWholeLog(ConsumerGroupRules):
    """KAFKA-17306: a tombstone without its object, or a group that does not begin with a member,
    makes a load fail."""

    tolerates_compacted_log = False


class KeepsSimpleGroup(ConsumerGroupRules):
    """KAFKA-20254: offsets make a group a classic one, whatever the records after them say."""

    replaces_simple_group = False


class TakesConfigsAtLoad(ConsumerGroupRules):
    """mut-config-at-load: altered settings count when the coordinator is loaded the next time."""

    def configs_in_force(self, known: ConfigsInForce, reported: ConfigsInForce) -> ConfigsInForce:
        return known


class ExpiresSubscribedOffsets(ConsumerGroupRules):
    """mut-expire-subscribed: retention does not ask who subscribes to the topic."""

    def offset_expires(
        self, value: OffsetCommitValue, *, is_subscribed: bool, age_ms: int, retention_ms: int
    ) -> bool:
        return age_ms >= retention_ms


class ExpiresEarly(ConsumerGroupRules):
    """mut-expire-early: every check takes what nobody subscribes to, whatever its age."""

    def offset_expires(
        self, value: OffsetCommitValue, *, is_subscribed: bool, age_ms: int, retention_ms: int
    ) -> bool:
        return not is_subscribed


class DeletesGroupOnly(ConsumerGroupRules):
    """mut-delete-keeps-offsets: a deleted group leaves its offsets behind."""

    deletes_offsets_with_group = False


class FetchesUnfenced(ConsumerGroupRules):
    """mut-fetch-no-fence: offsets are shown to a member at whatever epoch."""

    checks_epoch_of_fetch = False


class OwnPendingIsBusy(ConsumerGroupRules):
    """KAFKA-19449: what the member itself is giving up counts as held by somebody else."""

    def is_free(self, group: ConsumerGroup, member: Member, partition: TopicPartition) -> bool:
        return group.epoch_of(partition) == NOBODY


COORDINATOR_DEFECTS: Mapping[
    str, type[ClassicGroupRules] | type[MigrationRules] | type[ClientSideRules]
] = {
    **CLASSIC_DEFECTS,
    **MIGRATION_DEFECTS,
    **CLIENT_SIDE_DEFECTS,
    "KAFKA-16147": LosesCancelledRevocation,
    "KAFKA-16249-ack": SwallowsAcknowledgement,
    "KAFKA-16249-timer": RestartsRebalanceTimer,
    "KAFKA-17306": ExpectsWholeLog,
    "KAFKA-18916": WatchesNamesOnly,
    "KAFKA-18931": NoSessionTimersAfterLoad,
    "KAFKA-19233": RefusesRejoin,
    "KAFKA-19431": KeepsUnsubscribedTopics,
    "KAFKA-19449": OwnPendingIsBusy,
    "KAFKA-20066": StrictCommitEpoch,
    "KAFKA-20254": KeepsSimpleGroup,
    "KAFKA-20601": CapacityBeforeReplacement,
    "KIP-848-lost-response": FencesAfterLostResponse,
    "PR-23542": RefusesOwnInstance,
    "mut-commit-no-fence": CommitsUnfenced,
    "mut-config-at-load": TakesConfigsAtLoad,
    "mut-delete-keeps-offsets": DeletesGroupOnly,
    "mut-early-grant": GrantsEarly,
    "mut-expire-early": ExpiresEarly,
    "mut-expire-keeps-ownership": ExpiredKeepsOwnership,
    "mut-expire-subscribed": ExpiresSubscribedOffsets,
    "mut-fetch-no-fence": FetchesUnfenced,
    "mut-no-assignment-tombstone": NoAssignmentTombstone,
    "mut-no-bump-on-leave": ForgetsBumpOnLeave,
    "mut-no-bump-on-metadata": ForgetsBumpOnMetadata,
    "mut-no-epoch-fence": AcceptsAnyEpoch,
    "mut-prev-epoch-any": AcceptsAnyPreviousEpoch,
    "sim-stale-subscription-type": StaleSubscriptionType,
}
"""Id of the defect -> mixin over the rules of a version. Defects of assignors have their own
table (``protocol/defects/server_assignor_defects.py``)."""
