"""Refusals that several handlers share.

Source: coordinator §2.12.
"""

from __future__ import annotations

from rebalance_sim.protocol.wire.errors import ErrorCode, GroupError


def unknown_member(member_id: str, group_id: str) -> GroupError:
    """coordinator §2.12: the refusal of a member id that the group does not know."""
    return GroupError(
        ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group_id}."
    )


def unknown_instance(instance_id: str) -> GroupError:
    """coordinator §2.12: the refusal of an instance id that no member holds."""
    return GroupError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")


def fenced_instance(member_id: str, instance_id: str, holder_id: str) -> GroupError:
    """coordinator §2.12: the instance id is held by another member id."""
    return GroupError(
        ErrorCode.FENCED_INSTANCE_ID,
        f"Static member {member_id} with instance id {instance_id} "
        f"was fenced by member {holder_id}.",
    )


def group_is_full(max_size: int) -> GroupError:
    """coordinator §2.4, H2: the group takes no more members."""
    return GroupError(
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        f"The consumer group has reached its maximum capacity of {max_size} members.",
    )
