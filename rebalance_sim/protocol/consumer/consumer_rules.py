"""The decisions about consumer groups in which versions, or known defects, differ.

Each is a small method of ``ConsumerGroupRules``, which decide correctly. A
version overrides some of them (``protocol/versions``), and so does a defect
(``protocol/defects``). Nothing else in the core asks which version is simulated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Protocol

from rebalance_sim.protocol.assignors.server import (
    ASSIGNOR_KINDS,
    DEFAULT_ASSIGNORS,
    Assignor,
    SubscriptionType,
)
from rebalance_sim.protocol.assignors.server.topic_partitions import still_subscribed
from rebalance_sim.protocol.consumer.client_side_rules import ClientSideRules
from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup
from rebalance_sim.protocol.consumer.consumer_member import Member
from rebalance_sim.protocol.consumer.ownership_rules import NO_OWNER, OwnershipRules
from rebalance_sim.protocol.runtime.coordinator_rules import CoordinatorRules
from rebalance_sim.protocol.runtime.outcome import TimerCommand
from rebalance_sim.protocol.runtime.rebalance_causes import RebalanceCause
from rebalance_sim.protocol.wire.consumer_messages import JOIN_EPOCH, ConsumerGroupHeartbeatRequest
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.records import (
    ConsumerGroupCurrentMemberAssignment,
    ConsumerGroupMemberMetadata,
    ConsumerGroupTargetAssignmentMember,
    Record,
)
from rebalance_sim.protocol.wire.topics import MetadataImage, TopicPartition

TopicIds = Callable[[Iterable[str]], frozenset[str]]
"""Names -> ids of the topics that exist under them."""


class Joiner(Protocol):
    """Who asks to join, by either protocol."""

    @property
    def member_id(self) -> str:
        """Empty for a client that has none yet."""

    @property
    def instance_id(self) -> str | None:
        """None for a dynamic member."""


class ConsumerGroupRules(CoordinatorRules, ClientSideRules):
    """The correct rules. One instance serves one coordinator.

    The decisions about offsets and settings, and about client-side assignors, are inherited.
    """

    initial_group_epoch = 1
    """Group and target epoch of a group that no member has joined (coordinator §1.1)."""

    def resolution_began_ms(self, scheduled_at_ms: int) -> int:
        """When a resolution of patterns that was scheduled then has begun, which is the time of the
        patterns. A broker resolves them in a thread of its own (coordinator §7.2, rule 7)."""
        return scheduled_at_ms

    writes_assignment_epochs = True
    """Record 8 carries an assignment epoch for each partition (coordinator §9.1)."""

    writes_assignment_timestamp = True
    """Record 6 carries the time of the computation (coordinator §9.1)."""

    checks_epoch_of_fetch = True
    """coordinator §8.2: a signed offset fetch must carry the member's epoch."""

    describes_pending_revocation = True
    """ConsumerGroupDescribe shows what is being revoked as assigned (coordinator §6.3)."""

    assigns_in_heartbeat = True
    """The target is computed by the heartbeat that finds it outdated, and the sender is reconciled
    at once; otherwise by an operation of the coordinator's own (coordinator §13, row 10)."""

    removes_fenced_member = False
    """An epoch mismatch also removes the member (coordinator §13, row 7)."""

    reports_pending = False
    """Responses carry the assigned partitions that are not free yet (coordinator §13, row 1)."""

    refuses_non_positive_rebalance_timeout = False
    """A join must bring a rebalance timeout above 0 (coordinator §13, row 6)."""

    notices_topics_itself = False
    """A change of topics, and a load, are looked at by the coordinator itself and not by the next
    heartbeat (coordinator §13, rows 11 and 12)."""

    tolerates_compacted_log = True
    """A log may begin with any record, and hold tombstones of what it no longer names (KAFKA-17306,
    coordinator §9.3)."""

    tolerates_older_commits = True
    """A commit of an older epoch counts where the partitions were kept (KIP-1251, coordinator
    §8.1)."""

    filters_target = True
    """A member is reconciled to the target without the topics that it no longer subscribes to
    (coordinator §3.3, KAFKA-19431)."""

    ends_timers_of_former_protocol = True
    """A member that continues with the other protocol has the timers of that one alone
    (classic §7.7)."""

    promotes_on_release = False
    """What a member gives up passes to its next owner at once, and not at that one's next heartbeat
    (coordinator §13)."""

    parts: ClassVar[Mapping[str, Sequence[type[Any]]]] = {"assignors": ASSIGNOR_KINDS}
    assignors: Mapping[str, Assignor] = DEFAULT_ASSIGNORS
    ownership = OwnershipRules()

    # -- who may come in -------------------------------------------------------------------

    def is_refused_for_size(self, group: ConsumerGroup, request: Joiner, max_size: int) -> bool:
        """coordinator H2, §2.4: an id that is no member finds the group full.

        A static member that returns under a new id replaces its predecessor.
        """
        if len(group.members) < max_size or request.member_id in group.members:
            return False
        return request.instance_id is None or request.instance_id not in group.static_members

    def is_instance_taken(self, holder: Member, request: ConsumerGroupHeartbeatRequest) -> bool:
        """coordinator §2.7: a static join while another member id holds the instance is refused."""
        return holder.member_id != request.member_id

    def may_take_instance(self, member: Member, instance_id: str) -> bool:
        """coordinator D2: a member keeps the instance id that it came with."""
        return member.instance_id in (None, instance_id)

    def takes_over_instance(self, holder: Member) -> bool:
        """A classic static member does not leave when it stops, so its instance id may be taken
        without a leave (KAFKA-17228)."""
        return holder.classic_metadata is not None

    def accepts_epoch(self, member: Member, request: ConsumerGroupHeartbeatRequest) -> bool:
        """coordinator H5, §2.8: is the received epoch the member's, or one that a lost response
        explains?"""
        received = request.member_epoch
        if received == member.member_epoch:
            return True
        return self.accepts_rejoin(member, received) or self.accepts_previous_epoch(member, request)

    def accepts_rejoin(self, member: Member, received_epoch: int) -> bool:
        """A known dynamic member may join again at any time (KAFKA-19233)."""
        return received_epoch == JOIN_EPOCH

    def accepts_previous_epoch(
        self, member: Member, request: ConsumerGroupHeartbeatRequest
    ) -> bool:
        """The response that carried the present epoch was lost, and all the member reports is
        still assigned to it."""
        return (
            request.member_epoch < member.member_epoch
            and request.member_epoch == member.previous_member_epoch
            and request.topic_partitions is not None
            and all(p in member.assigned for p in request.topic_partitions)
            and request.topics_without_partitions <= {p.topic_id for p in member.assigned}
        )

    # -- reconciliation --------------------------------------------------------------------

    def owned_as_reported(
        self, member: Member, owned: frozenset[TopicPartition] | None, target_epoch: int
    ) -> frozenset[TopicPartition] | None:
        """The owned list that reconciliation takes from a heartbeat: all of it."""
        return owned

    def is_free(self, group: ConsumerGroup, member: Member, partition: TopicPartition) -> bool:
        """coordinator §3.3: no member owns it, or the member itself gives it up (KAFKA-19449)."""
        return group.epoch_of(partition) == NO_OWNER or partition in member.pending_revocation

    outlives_topics = True
    """A classic member owns by name: what it has of a topic that is gone counts, also for the topic
    that is recreated under the name, until it says that it owns it no longer (classic §7.5,
    classic-recreated-topic)."""

    def is_used_by_name(
        self, group: ConsumerGroup, member: Member, partition: TopicPartition, image: MetadataImage
    ) -> bool:
        """Does a classic member other than this one have the partition of a former topic, for
        which it may take this one?"""
        topic = image.by_id.get(partition.topic_id)
        if not group.classic_member_count or not self.outlives_topics or topic is None:
            return False
        return any(
            held.partition == partition.partition and held.topic_id not in image.by_id
            for other in group.members.values()
            if other.classic_metadata is not None
            and other.member_id != member.member_id
            and (other.instance_id is None or other.instance_id != member.instance_id)
            and topic.name in other.subscribed_topic_names
            for held in (*other.assigned, *other.pending_revocation)
        )

    def revoking_epoch(self, member: Member) -> int | None:
        """Epoch while a second revocation follows an acknowledged one; None = it stays
        (coordinator §13, row 13)."""
        return None

    def target_in_force(
        self, target: frozenset[TopicPartition], subscribed_topic_ids: frozenset[str]
    ) -> frozenset[TopicPartition]:
        """The target reduced to topics that the member subscribes to now (coordinator §3.3)."""
        return still_subscribed(target, subscribed_topic_ids) if self.filters_target else target

    def gives_up(
        self, member: Member, subscribed_topic_ids: frozenset[str]
    ) -> frozenset[TopicPartition] | None:
        """What a member that has just changed its subscription loses at once (coordinator §3.4)."""
        if not self.filters_target:
            return None
        return frozenset(p for p in member.assigned if p.topic_id not in subscribed_topic_ids)

    # -- leaving ---------------------------------------------------------------------------

    def on_members_removed(
        self, group: ConsumerGroup, members: Sequence[Member], cause: RebalanceCause
    ) -> None:
        """These members are about to be removed from the group, which still has them. Kafka does
        nothing beside that; a rule may remember it."""

    bumps_on_leave = True
    """coordinator §4.2: a removed member raises the group epoch."""

    def removal_tombstones(self, group_id: str, member_id: str) -> Sequence[Record]:
        """coordinator §4.2: current assignment, target, member, in this order."""
        return (
            ConsumerGroupCurrentMemberAssignment(group_id, member_id, None),
            ConsumerGroupTargetAssignmentMember(group_id, member_id, None),
            ConsumerGroupMemberMetadata(group_id, member_id, None),
        )

    settles_emptied_group = True
    """The target epoch of a group whose last member is removed follows the group epoch
    (coordinator §4.2, KAFKA-20442)."""

    frees_former_instance_id = True
    """A member that changes its instance id gives up the former one (coordinator §2.7,
    KAFKA-20747)."""

    # -- target ----------------------------------------------------------------------------

    def computes_target(self, group: ConsumerGroup, member: Member | None) -> bool:
        """The group epoch has outrun the target, and the assignment interval is over: is a new
        target computed now? In Kafka, always. ``member``: who sends the heartbeat; it joins if the
        group has not got it yet. None for a computation of the coordinator's own."""
        return True

    raises_epoch_for_assignor = True
    """A heartbeat after which another server-side assignor is preferred raises the group epoch
    (coordinator §5.3, KAFKA-20434)."""

    raises_epoch_for_ties = False
    """So does one that changes nothing, if several assignors have equally many votes and that of
    its sender is not the first of them (coordinator §5.3, tied-assignor-votes)."""

    repeats_target_of_successor = False
    """A target that a returning static member takes over is written once more by a computation that
    leaves it as it is (coordinator §5.5)."""

    def type_of_unchanged_group(
        self, group: ConsumerGroup, with_request: SubscriptionType
    ) -> SubscriptionType:
        """Subscription type for a target that a request computes without having raised the epoch
        itself: that of the members as they are with this request."""
        return with_request

    def notices_metadata(self, group: ConsumerGroup, metadata_hash: int) -> bool:
        """coordinator H8: have the subscribed topics changed since the hash was stored?"""
        return metadata_hash != group.metadata_hash

    def follow_up(
        self,
        group: ConsumerGroup,
        records: tuple[Record, ...],
        topic_ids: TopicIds,
        now_ms: int,
    ) -> tuple[tuple[Record, ...], tuple[TimerCommand, ...]]:
        """Records and timers that an operation's own records entail; none in shipped versions."""
        return (), ()

    def names_watched(self, group: ConsumerGroup) -> set[str]:
        """Topics whose changes concern the group: named, or matched by a pattern (KAFKA-18916)."""
        return group.all_subscribed_names()

    # -- offsets ---------------------------------------------------------------------------

    def accepts_commit(
        self, member: Member, epoch: int, partitions: Sequence[TopicPartition]
    ) -> bool:
        """coordinator §8.1: the epoch is current, or older but not than the assignment epoch of any
        of these partitions (KIP-1251)."""
        if epoch >= member.member_epoch or not self.tolerates_older_commits:
            return epoch == member.member_epoch
        for partition in partitions:
            since = member.assigned.get(partition, member.pending_revocation.get(partition))
            if since is None or epoch < since:
                return False
        return True

    def stale_epoch_error(self, member: Member) -> ErrorCode:
        """Each protocol has its own code for an outdated commit or fetch (PR-16145)."""
        if member.classic_metadata is None:
            return ErrorCode.STALE_MEMBER_EPOCH
        return ErrorCode.ILLEGAL_GENERATION

    # -- timers ----------------------------------------------------------------------------

    def awaits_requests_of(self, member: Member) -> bool:
        """classic §7.7: only a member that still speaks the classic protocol has to send a
        JoinGroup or a SyncGroup."""
        return member.classic_metadata is not None

    def restarts_rebalance_timer(self, before: Member, after: Member) -> bool:
        """coordinator §4.1: the timer restarts when a revocation is written, not when it idles."""
        return after is not before

    arms_session_timers_on_load = True
    """coordinator §9.5: every member gets a full session after a load."""
