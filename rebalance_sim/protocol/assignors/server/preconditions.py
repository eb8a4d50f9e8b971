"""What every assignor takes for granted about its input.

Source: assignors §17. A coordinator meets these conditions by construction, so the check is not
part of a computation; tests and hand-written groups call it.
"""

from __future__ import annotations

from collections.abc import Mapping

from rebalance_sim.protocol.assignors.server.server_assignor import GroupSpec, SubscriptionType
from rebalance_sim.protocol.wire.topics import TopicPartition


def validate(spec: GroupSpec, partition_counts: Mapping[str, int]) -> None:
    """Raise ValueError, with the first place in ascending member id, unless

    - partition counts are not negative,
    - current partitions of known topics exist and no two members hold the same one,
    - a group that is stated to be homogeneous is,
    - instance ids are unique.
    """
    for topic_id in sorted(partition_counts):
        if partition_counts[topic_id] < 0:
            raise ValueError(f"topic {topic_id}: the partition count must be >= 0")
    _validate_current_targets(spec, partition_counts)
    _validate_members(spec)


def _validate_current_targets(spec: GroupSpec, partition_counts: Mapping[str, int]) -> None:
    holders: dict[TopicPartition, str] = {}
    for member_id in sorted(spec.members):
        for held in sorted(spec.members[member_id].current):
            count = partition_counts.get(held.topic_id)
            if held.partition < 0 or (count is not None and held.partition >= count):
                raise ValueError(f"member {member_id}: current partition {held} does not exist")
            if held in holders:
                raise ValueError(f"members {holders[held]} and {member_id} both hold {held}")
            holders[held] = member_id


def _validate_members(spec: GroupSpec) -> None:
    is_homogeneous = spec.subscription_type is SubscriptionType.HOMOGENEOUS
    member_ids = sorted(spec.members)
    instances: dict[str, str] = {}
    for member_id in member_ids:
        member = spec.members[member_id]
        subscribed_topic_ids = spec.members[member_ids[0]].subscribed_topic_ids
        if is_homogeneous and member.subscribed_topic_ids != subscribed_topic_ids:
            raise ValueError(
                f"members {member_ids[0]} and {member_id} of a homogeneous group "
                "subscribe to different topics"
            )
        if member.instance_id is not None:
            other = instances.setdefault(member.instance_id, member_id)
            if other != member_id:
                raise ValueError(
                    f"members {other} and {member_id} share instance id {member.instance_id}"
                )
