"""What a request of a member sets in motion, of either protocol: coordinator H7-H11.

A heartbeat and a classic JoinGroup both end in an updated member value; from there on they share
this. Sources: coordinator §2.4-§2.10, §4.3; classic §7.5.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field

from rebalance_sim.protocol.assignors.server import SubscriptionType
from rebalance_sim.protocol.consumer.client_side.selection import check_assignors
from rebalance_sim.protocol.consumer.consumer_group import (
    ConsumerGroup,
    given,
    recount,
    subscription_type,
)
from rebalance_sim.protocol.consumer.consumer_member import Member
from rebalance_sim.protocol.consumer.context import ConsumerContext, metadata_hash
from rebalance_sim.protocol.consumer.reconciliation import Reconciliation, reconcile
from rebalance_sim.protocol.consumer.regexes import (
    abandoned_regex,
    check_regex,
    is_resolved,
    subscribed_names,
)
from rebalance_sim.protocol.consumer.target import compute_target, preferred_assignor
from rebalance_sim.protocol.runtime.rebalance_causes import Rebalance, RebalanceCause
from rebalance_sim.protocol.wire.records import (
    ConsumerGroupCurrentMemberAssignment,
    ConsumerGroupMemberMetadata,
    ConsumerGroupMetadata,
    ConsumerGroupRegularExpression,
    GroupMetadataValue,
    Record,
)
from rebalance_sim.protocol.wire.topics import TopicPartition


def is_at_rest(group: ConsumerGroup, member: Member, wall_ms: int) -> bool:
    """Would no step do anything for a member that has reported nothing new?

    Most heartbeats find it so, and need not go through the steps.
    """
    epoch = group.group_epoch
    return (
        epoch == group.target_assignment_epoch
        and member.is_reconciled_to(epoch)
        and epoch >= group.metadata_refresh_epoch
        and wall_ms < group.metadata_refresh_deadline_ms
        and epoch != 0
    )


@dataclass(slots=True, eq=False)
class Advance:
    """The steps for one request, in order; each reads what the ones before it have set.

    ``stored`` is the member as the group knows it (or as it is to inherit from ``replaced_id``),
    ``member`` the same with what this request brings. ``records`` grows from step to step.
    ``cause``: why the group epoch was raised; None if it was not.
    """

    _context: ConsumerContext
    _group: ConsumerGroup
    stored: Member
    member: Member
    _: KW_ONLY
    records: list[Record]
    replaced_id: str | None
    now_ms: int
    is_bumped: bool = False
    is_subscription_changed: bool = False
    is_preference_changed: bool = False
    cause: RebalanceCause | None = None
    group_epoch: int = field(init=False)
    target_epoch: int = field(init=False)
    target: frozenset[TopicPartition] = field(init=False)
    _wall_ms: int = field(init=False)
    _kind: SubscriptionType | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        group = self._group
        self.group_epoch = group.group_epoch
        self.target_epoch = group.target_assignment_epoch
        self.target = group.target_of(self.replaced_id or self.member.member_id)
        self._wall_ms = self.now_ms + self._context.wall_offset_ms

    # -- coordinator H7 --------------------------------------------------------------------

    def note_subscription(self) -> None:
        """Has the subscription changed, and does that raise the group epoch at once?

        A pattern raises it only if its topics are known already, or if it is dropped
        (coordinator §7.2). A pattern that no one has any more gets its tombstone. What is said to
        client-side assignors raises it too (coordinator §12.1). Raises GroupError for a bad pattern
        or assignors that do not fit.
        """
        before, after = self.stored, self.member
        if after is before:
            return
        group = self._group
        self.records.append(
            ConsumerGroupMemberMetadata(group.group_id, after.member_id, after.metadata())
        )
        bump = changed = after.subscribed_topic_names != before.subscribed_topic_names
        regex = after.subscribed_topic_regex
        if regex != before.subscribed_topic_regex:
            check_regex(self._context, group, regex)
            changed = True
            bump = bump or not regex or is_resolved(group, regex)
            gone_regex = abandoned_regex(group, before, regex)
            if gone_regex is not None:
                self.records.append(
                    ConsumerGroupRegularExpression(group.group_id, gone_regex, None)
                )
        if after.client_assignors is not before.client_assignors:
            check_assignors(group, before, after, replaced_id=self.replaced_id)
            offered = before.client_assignors, after.client_assignors
            bump = bump or self._context.rules.asks_for_assignment(*offered)
        self.is_bumped, self.is_subscription_changed = bump, changed

    def note_preference(self) -> None:
        """Is another server-side assignor preferred after this heartbeat? That raises the group
        epoch, too (KAFKA-20434)."""
        rules, before, after = self._context.rules, self.stored, self.member
        ties_count = rules.raises_epoch_for_ties
        if not rules.raises_epoch_for_assignor or (
            after.server_assignor == before.server_assignor and not ties_count
        ):
            return
        preferred = preferred_assignor(
            self._context,
            self._group,
            updated=after,
            stored=self._group.members.get(self.replaced_id or after.member_id),
            is_sender_first=ties_count,
        )
        if preferred != preferred_assignor(self._context, self._group):
            self.is_bumped = self.is_preference_changed = True

    # -- coordinator H8, H9 ----------------------------------------------------------------

    def refresh_metadata(self) -> None:
        """Look at topics and subscriptions again, if there is cause to; raise the group epoch."""
        group = self._group
        bump = self.is_bumped or group.group_epoch == 0
        if bump or (
            self._wall_ms >= group.metadata_refresh_deadline_ms
            or group.group_epoch < group.metadata_refresh_epoch
        ):
            self._refresh(bump)

    def _refresh(self, bump: bool) -> None:
        group, before, after = self._group, self.stored, self.member
        self._kind = self._type_of_subscriptions()
        gone_regex = abandoned_regex(group, before, after.subscribed_topic_regex)
        subscribed = subscribed_names(group, before=before, after=after, gone_regex=gone_regex)
        new_hash = metadata_hash(subscribed, self._context.image)
        self.is_bumped = bump or self._context.rules.notices_metadata(group, new_hash)
        if self.is_bumped:
            self.group_epoch += 1
            self.cause = self._cause_of_bump()
            value = GroupMetadataValue(epoch=self.group_epoch, metadata_hash=new_hash)
            self.records.append(ConsumerGroupMetadata(group.group_id, value))
        group.note_metadata_refresh(self.group_epoch, self._wall_ms)

    def _cause_of_bump(self) -> RebalanceCause:
        before, after = self.stored, self.member
        if self.replaced_id is not None:
            return RebalanceCause.STATIC_REPLACEMENT
        if after.member_id not in self._group.members:
            return RebalanceCause.MEMBER_JOINED
        if self.is_subscription_changed:
            return RebalanceCause.SUBSCRIPTION_CHANGED
        if self.is_preference_changed or after.client_assignors is not before.client_assignors:
            return RebalanceCause.ASSIGNORS_CHANGED
        return RebalanceCause.TOPICS_CHANGED

    @property
    def rebalances(self) -> tuple[Rebalance, ...]:
        """For the outcome."""
        return () if self.cause is None else (Rebalance("consumer", self.cause),)

    def _type_of_subscriptions(self) -> SubscriptionType:
        """Whether all members subscribe alike, this request included."""
        group, before, after = self._group, self.stored, self.member
        names, regexes = group.subscribed_topic_names, group.subscribed_regexes
        if after is not before:
            names, regexes = dict(names), dict(regexes)
            recount(names, before.subscribed_topic_names, after.subscribed_topic_names)
            recount(
                regexes, given(before.subscribed_topic_regex), given(after.subscribed_topic_regex)
            )
        is_known = after.member_id in group.members or (
            after.instance_id is not None and after.instance_id in group.static_members
        )
        gone_regex = abandoned_regex(group, before, after.subscribed_topic_regex)
        return subscription_type(
            names,
            regexes,
            (value for regex, value in group.resolved_regexes.items() if regex != gone_regex),
            len(group.members) + (0 if is_known else 1),
        )

    # -- coordinator H10 -------------------------------------------------------------------

    def assign(self) -> None:
        """Compute a new target if the epoch has outrun the stored one, and it is time to.

        Raises GroupError where the assignor fails.
        """
        if (
            self.group_epoch <= self.target_epoch
            or not self._context.rules.assigns_in_heartbeat
            or not self._may_assign()
        ):
            return
        kind = self._kind or self._context.rules.type_of_unchanged_group(
            self._group, self._type_of_subscriptions()
        )
        new_target = compute_target(
            self._context,
            self._group,
            group_epoch=self.group_epoch,
            subscription_type=kind,
            now_ms=self.now_ms,
            updated=self.member,
            replaced_id=self.replaced_id,
        )
        self.records += new_target.records
        self.target_epoch = self.group_epoch
        self.target = new_target.assignment[self.member.member_id]

    def _may_assign(self) -> bool:
        """coordinator §4.3: has the assignment interval passed since the last target?"""
        group = self._group
        is_over = self._context.assignment_interval_is_over(
            group.group_id, group.target_assignment_timestamp, wall_ms=self._wall_ms
        )
        return is_over and self._context.rules.computes_target(group, self.member)

    # -- coordinator H11 -------------------------------------------------------------------

    def reconcile(
        self, owned: frozenset[TopicPartition] | None, *, forces_subscription: bool
    ) -> Member:
        """The member after this request, one step nearer to its target; record 8 if that differs.

        ``forces_subscription``: whatever it no longer subscribes to goes at once
        (coordinator §3.4).
        """
        after = self._reconciled(owned, forces_subscription)
        if after is not self.member:
            with_epochs = self._context.rules.writes_assignment_epochs
            self.records.append(
                ConsumerGroupCurrentMemberAssignment(
                    self._group.group_id,
                    after.member_id,
                    after.current_assignment(with_epochs=with_epochs),
                )
            )
        return after

    def _reconciled(
        self, owned: frozenset[TopicPartition] | None, forces_subscription: bool
    ) -> Member:
        rules, group, member = self._context.rules, self._group, self.member
        image = self._context.image
        if not forces_subscription and member.is_reconciled_to(self.target_epoch):
            return member
        is_new = member.member_id not in group.members and self.replaced_id is None
        if is_new and not rules.assigns_in_heartbeat:
            return member
        names = group.names_of(member)
        subscribed = self._context.topic_ids(names)
        target_id = self.replaced_id or member.member_id
        return reconcile(
            Reconciliation(
                member=member,
                target_epoch=self.target_epoch,
                target=rules.target_in_force(self.target, subscribed),
                owned=rules.owned_as_reported(member, owned, self.target_epoch),
                is_free=lambda partition: (
                    rules.is_free(group, member, partition)
                    and not rules.is_used_by_name(group, member, partition, image)
                ),
                gives_up=rules.gives_up(member, subscribed) if forces_subscription else None,
                subscribes_to_nothing=not names,
                revoking_epoch=rules.revoking_epoch(member),
                target_metadata=group.target_metadata.get(target_id),
            )
        )
