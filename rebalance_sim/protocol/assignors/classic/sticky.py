"""The classic sticky assignors (classic §5.3, §5.4): balance, and everybody keeps what it may.

``sticky`` is for members that give everything up before they rejoin, ``cooperative-sticky`` for
members that keep it: what changes hands is owned by no member for one generation.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence

from rebalance_sim.protocol.assignors.classic.claims import NO_GENERATION, Claim, settle
from rebalance_sim.protocol.assignors.classic.classic_assignor import (
    Assigned,
    ClaimingMember,
    NamedPartition,
    RackAssignor,
    by_topic,
    subscriptions_of,
    ungrouped,
)
from rebalance_sim.protocol.assignors.classic.racks import racks_of_group
from rebalance_sim.protocol.assignors.classic.sticky_general import GeneralBalancing
from rebalance_sim.protocol.assignors.classic.sticky_identical import IdenticalBalancing
from rebalance_sim.protocol.wire.embedded import (
    CooperativeUserData,
    NamedPartitions,
    StickyUserData,
    Subscription,
)
from rebalance_sim.protocol.wire.topics import ReplicaRacks

Shares = Mapping[str, Collection[NamedPartition]]


class StickyRules(RackAssignor):
    """Balance and claims: the latter come from user data, and take effect at once."""

    balances_equals_alike = False  # whether equal subscriptions have no algorithm of their own
    balancing: type[GeneralBalancing] = GeneralBalancing
    balancing_of_equals: type[IdenticalBalancing] = IdenticalBalancing

    def user_data(
        self, *, last_assigned: Sequence[NamedPartitions] | None, last_generation_id: int
    ) -> Hashable | None:
        """See ``ClassicAssignor.user_data``."""
        if last_assigned is None:
            return None
        return StickyUserData(tuple(last_assigned), last_generation_id)

    def claim_of(self, subscription: Subscription) -> Claim:
        """What one member claims: its owned list is empty, since it has revoked everything."""
        said = subscription.user_data
        if not isinstance(said, StickyUserData):
            return Claim(())
        return Claim(tuple(ungrouped(said.previous_assignment)), said.generation_id)

    def claims(self, members: Sequence[ClaimingMember]) -> dict[str, Claim]:
        """What each member claims."""
        return {member.member_id: self.claim_of(member.subscription) for member in members}

    def assign_by_racks(
        self,
        *,
        partition_counts: Mapping[str, int],
        members: Sequence[ClaimingMember],
        replica_racks: Mapping[str, ReplicaRacks],
    ) -> Assigned:
        """See ``ClassicAssignor.assign_by_racks``."""
        if not members:
            return {}
        ordered = sorted(members, key=lambda member: member.member_id)
        ids = [member.member_id for member in ordered]
        subscriptions = dict(zip(ids, subscriptions_of(ordered), strict=True))
        topics = sorted(frozenset().union(*{*subscriptions.values()}) & partition_counts.keys())
        counts = {topic: partition_counts[topic] for topic in topics}
        settled = settle(members, self.claims(members), counts)
        racks = racks_of_group(members, counts, replica_racks)
        if not self.balances_equals_alike and len({*subscriptions.values()}) <= 1:
            result = self.balancing_of_equals(settled, counts, racks).assign()
            shares = self.handed_out(result.shares, result.transferring)
        else:
            balanced = self.balancing(settled, counts, subscriptions, racks).assign()
            shares = self.handed_out(balanced, _changing_hands(members, balanced))
        return {member_id: by_topic(share) for member_id, share in shares.items()}

    def handed_out(self, shares: Shares, transferring: Collection[NamedPartition]) -> Shares:
        """What the members get of their shares in this generation: everything."""
        return shares


class StickyAssignor(StickyRules):
    """``sticky`` of the Java client."""

    name = "sticky"


class CooperativeStickyAssignor(StickyAssignor):
    """``cooperative-sticky``: claims are what members own, and no one gets what another has."""

    name = "cooperative-sticky"
    supports_cooperative = True

    def user_data(
        self, *, last_assigned: Sequence[NamedPartitions] | None, last_generation_id: int
    ) -> Hashable | None:
        """See ``ClassicAssignor.user_data``."""
        return CooperativeUserData(last_generation_id)

    def claim_of(self, subscription: Subscription) -> Claim:
        """What one member claims: metadata without a generation has it in the user data."""
        said = subscription.user_data
        generation_id = subscription.generation_id
        if generation_id == NO_GENERATION and isinstance(said, CooperativeUserData):
            generation_id = said.generation_id
        return Claim(tuple(ungrouped(subscription.owned_partitions)), generation_id)

    def handed_out(self, shares: Shares, transferring: Collection[NamedPartition]) -> Shares:
        """What is transferring stays with no one until its old owner has given it up."""
        return without(transferring, shares)


def without(transferring: Collection[NamedPartition], shares: Shares) -> Shares:
    """The shares of cooperative members in the generation in which partitions change hands."""
    if not transferring:
        return shares
    return {
        member_id: [partition for partition in share if partition not in transferring]
        for member_id, share in shares.items()
    }


def _changing_hands(members: Sequence[ClaimingMember], shares: Shares) -> frozenset[NamedPartition]:
    """What somebody gets that did not own it, and somebody loses that did."""
    owned = {m.member_id: {*ungrouped(m.subscription.owned_partitions)} for m in members}
    added = {p for member_id, share in shares.items() for p in share if p not in owned[member_id]}
    revoked = {p for member_id in owned for p in owned[member_id].difference(shares[member_id])}
    return frozenset(added & revoked)
