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


class MigrationRules(ConsumerGroupRules, ClassicGroupRules):
    """Apache Kafka 4.3: the rules of both group types, and of what joins them."""

    converts_in_first_join_phase = False
    """A classic group can be converted before it has ever selected a protocol. In Kafka the attempt
    fails with UNKNOWN_SERVER_ERROR (classic §7.3)."""

    converts_members_without_assignment = True
    """A member that never synced has no assignment, and is converted all the same (KAFKA-17733)."""

    downgrades_on_replacement = True
    """The group is converted back when a classic member takes the place of the last static one of
    the consumer protocol (KAFKA-17317)."""

    rejoins_at_group_epoch = False
    """A classic member has to rejoin as soon as the group epoch is raised, and not only when the
    new target is known (classic §7.6)."""

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

    def is_behind(self, group: ConsumerGroup, member: Member) -> bool:
        """Must a classic member rejoin to catch up?"""
        at_group_epoch = self.rejoins_at_group_epoch
        return member.member_epoch < (
            group.group_epoch if at_group_epoch else group.target_assignment_epoch
        )

    def rebalances_after_replacement(
        self, group: ConsumerGroup, *, group_epoch: int, is_changed: bool
    ) -> bool:
        """Does the replacement that converts a group back also start a rebalance (classic §7.8)?

        ``group_epoch`` and ``is_changed``: after, and because of, this join.
        """
        return group_epoch > group.target_assignment_epoch


MigrationContext = CoordinatorContext[MigrationRules]
