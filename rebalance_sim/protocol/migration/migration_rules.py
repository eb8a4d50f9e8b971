"""The decisions about groups with members of both protocols in which versions or defects differ.

Source: classic §7.
"""

from __future__ import annotations

from collections.abc import Collection

from rebalance_sim.protocol.classic.classic_rules import ClassicGroupRules
from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup
from rebalance_sim.protocol.consumer.consumer_member import Member
from rebalance_sim.protocol.consumer.consumer_rules import ConsumerGroupRules
from rebalance_sim.protocol.runtime.context import CoordinatorContext
from rebalance_sim.protocol.wire.embedded import Subscription


class MigrationRules(ConsumerGroupRules, ClassicGroupRules):
    """The rules of both group types, and of what joins them."""

    converts_in_first_join_phase = True
    """A classic group can be converted before it has ever selected a protocol. In Kafka the attempt
    fails with UNKNOWN_SERVER_ERROR (classic §7.3, classic-early-conversion)."""

    answers_parked_if_converted = True
    """Parked requests are answered when nothing can refuse the conversion any more (classic §7.3,
    classic-early-conversion)."""

    keeps_claims = True
    """A conversion takes over what cooperative members said they own as well, where the leader
    has given it to no member (classic §7.3, classic-forgotten-owners)."""

    drops_vanished_partitions = True
    """A conversion leaves out partitions that their topics do not have (classic §7.3,
    classic-vanished-partition)."""

    sees_growth = True
    """A conversion that finds partitions of subscribed topics without an owner has a new target
    computed (classic §7.3, classic-unseen-growth)."""

    sees_subscriptions = True
    """So does one that finds members with partitions of topics that they do not subscribe to
    (classic §7.3, classic-unseen-subscription)."""

    rebalances_with_current_target = True
    """The replacement that converts a group back starts a rebalance also where no target is due
    (classic §7.8, classic-quiet-return)."""

    watches_from_write = True
    """The session of a classic member begins when its join is written, and not only when that is
    committed (classic §7.5, classic-unwatched-join)."""

    calls_back_for_target = True
    """In a consumer group of classic members alone a member is asked to rejoin to have topics
    looked at that have changed, and a target computed that is due: no consumer heartbeat does it
    (classic §7.7, classic-stranded-members)."""

    converts_members_without_assignment = True
    """A member that never synced has no assignment, and is converted all the same (KAFKA-17733)."""

    downgrades_on_replacement = True
    """The group is converted back when a classic member takes the place of the last static one of
    the consumer protocol (KAFKA-17317)."""

    keeps_empty_group_of_refused = True
    """An empty consumer group stays as it is when a JoinGroup with an unknown member id is refused
    (classic §7.2, classic-dropped-group)."""

    rejoins_at_group_epoch = False
    """A classic member has to rejoin as soon as the group epoch is raised, and not only when the
    new target is known (classic §7.6)."""

    drops_pattern_of_predecessor = True
    """A classic member has no pattern, whatever the static member had whose place it takes
    (classic §7.5, KAFKA-19720)."""

    def first_converted(self, member_ids: Collection[str]) -> str:
        """Who leads the classic group that a consumer group becomes: Kafka adds its members in the
        order of a hash map, and the first one leads (classic §7.8)."""
        return min(member_ids)

    def admits_classic_member(self, policy: str) -> bool:
        """A group that can never become uniform again takes no classic member (KAFKA-20640)."""
        return policy != "disabled"

    def converted_metadata_hash(self, metadata_hash: int) -> int:
        """A converted group knows its topics, so that nothing looks changed (KAFKA-18687)."""
        return metadata_hash

    def converted_session_ms(self, session_timeout_ms: int, default_ms: int) -> int:
        """How long a converted member may be silent at first: as long as it has said, and not the
        time of members of the consumer protocol (``default_ms``; classic §7.3, PR-16290)."""
        return session_timeout_ms

    def is_former_member(self, subscription: Subscription) -> bool:
        """Was the sender of a JoinGroup with an unknown id a member before? It owns something then,
        and must be informed that it was removed (classic §7.5, classic-unheard-removal).
        """
        return bool(subscription.owned_partitions)

    def is_behind(self, group: ConsumerGroup, member: Member) -> bool:
        """Must a classic member rejoin to catch up?"""
        at_group_epoch = self.rejoins_at_group_epoch
        return member.member_epoch < (
            group.group_epoch if at_group_epoch else group.target_assignment_epoch
        )

    def rebalances_for_due_target(self, *, is_changed: bool) -> bool:
        """Does the replacement that converts a group back start a rebalance where a target is due,
        by what this join subscribes to (``is_changed``) or by anything else (classic §7.8,
        KAFKA-19546, KAFKA-20273)?"""
        return True


MigrationContext = CoordinatorContext[MigrationRules]
