"""Racks of members and of replicas, where an assignor is to bring them together (KIP-881).

Source: classic §5.5.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from rebalance_sim.protocol.assignors.classic.classic_assignor import (
    ClaimingMember,
    NamedPartition,
)
from rebalance_sim.protocol.wire.topics import ReplicaRacks


def rack_of(member: ClaimingMember) -> str | None:
    """The rack that a member says it is in; an empty one is none."""
    return member.subscription.rack_id or None


@dataclass(frozen=True, slots=True)
class Racks:
    """The racks that have a say in one assignment.

    ``of_member``: member id -> rack; members without one are at home everywhere. ``of_topic``:
    topic -> for each partition the racks of its replicas.
    """

    of_member: Mapping[str, str]
    of_topic: Mapping[str, Sequence[frozenset[str]]]

    def mismatch(self, member_id: str, partition: NamedPartition) -> bool:
        """Does the member have a rack that no replica of the partition is in?"""
        rack = self.of_member.get(member_id)
        return rack is not None and rack not in self.of(partition)

    def match(self, member_id: str, partition: NamedPartition) -> bool:
        """Does the member have a rack that a replica of the partition is in?"""
        return self.of_member.get(member_id) in self.of(partition)

    def of(self, partition: NamedPartition) -> frozenset[str]:
        """The racks of the partition's replicas."""
        return self.of_topic[partition.topic][partition.partition]


def racks_of_replicas(
    counts: Mapping[str, int], replica_racks: Mapping[str, ReplicaRacks]
) -> dict[str, list[frozenset[str]]]:
    """Topic -> for each of its partitions the racks of its replicas, if any is known."""
    found = {}
    for topic, count in counts.items():
        known = [frozenset(racks) for racks in replica_racks.get(topic, ())[:count]]
        found[topic] = known + [frozenset()] * (count - len(known))
    return found


def racks_matter(
    member_racks: Collection[str], partition_racks: Iterable[Sequence[frozenset[str]]]
) -> bool:
    """Is a rack of a member among those of the replicas, and a partition missing from one?"""
    by_partition = [racks for of_topic in partition_racks for racks in of_topic]
    everywhere = frozenset().union(*by_partition)
    return not everywhere.isdisjoint(member_racks) and any(
        racks != everywhere for racks in by_partition
    )


def racks_of_group(
    members: Iterable[ClaimingMember],
    counts: Mapping[str, int],
    replica_racks: Mapping[str, ReplicaRacks],
) -> Racks | None:
    """The racks of a group as a sticky assignor sees them, all topics together; None if they have
    no say."""
    if not replica_racks:
        return None
    of_member = {m.member_id: rack for m in members if (rack := rack_of(m)) is not None}
    if not of_member:
        return None
    of_topic = racks_of_replicas(counts, replica_racks)
    if not racks_matter(of_member.values(), of_topic.values()):
        return None
    return Racks(of_member, of_topic)
