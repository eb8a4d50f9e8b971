"""What a leader does with the answer to its JoinGroup, in clients of either library.

Source: classic §3.4, §5.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rebalance_sim.protocol.assignors.classic import ClaimingMember, ClassicAssignor
from rebalance_sim.protocol.assignors.classic.classic_assignor import Assigned
from rebalance_sim.protocol.wire.classic_messages import JoinGroupResponse
from rebalance_sim.protocol.wire.embedded import Subscription
from rebalance_sim.protocol.wire.errors import ProtocolBug
from rebalance_sim.protocol.wire.topics import ReplicaRacks


def claiming_members(response: JoinGroupResponse) -> list[ClaimingMember]:
    """The members of a generation, as its leader receives them."""
    return [
        ClaimingMember(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            subscription=member.metadata,
        )
        for member in response.members
        if isinstance(member.metadata, Subscription)
    ]


def topics_of_all(response: JoinGroupResponse) -> frozenset[str]:
    """What the members of a generation are subscribed to."""
    return frozenset(
        topic for member in claiming_members(response) for topic in member.subscription.topics
    )


def assign_as_leader(
    response: JoinGroupResponse,
    assignors: Sequence[ClassicAssignor],
    partition_counts: Mapping[str, int],
    replica_racks: Mapping[str, ReplicaRacks],
) -> Assigned:
    """What the assignor that the coordinator has chosen gives to each member.

    ``replica_racks`` by topic name, as ``MetadataKnown`` has them. Raises EndlessAssignmentError,
    and ProtocolBug for a choice that the leader has not offered.
    """
    name = response.protocol_name or ""
    chosen = next((assignor for assignor in assignors if assignor.name == name), None)
    if chosen is None:
        raise ProtocolBug(f"the coordinator chose {name!r}, which this member has not offered")
    members = claiming_members(response)
    if not replica_racks:
        return chosen.assign(partition_counts=partition_counts, members=members)
    return chosen.assign_by_racks(
        partition_counts=partition_counts, members=members, replica_racks=replica_racks
    )
