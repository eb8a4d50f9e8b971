"""DescribeGroups, the describe of classic groups.

Sources: coordinator §6.3; classic §1.3; and, for what stands in neither, the answers of brokers of
Apache Kafka 4.1.2 and 4.3.1.
"""

from __future__ import annotations

from rebalance_sim.protocol.classic.classic_group import ClassicGroup
from rebalance_sim.protocol.classic.classic_states import ClassicGroupState
from rebalance_sim.protocol.wire.classic_messages import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
)
from rebalance_sim.protocol.wire.errors import ErrorCode

_FIRST_VERSION_WITH_NOT_FOUND = 6


def describe_classic(group: ClassicGroup) -> DescribedGroup:
    """One group, with its members in ascending id.

    The assignor and the members' metadata are shown while the group is Stable only; an assignment
    is shown as long as the member has it, also during the next rebalance.
    """
    is_stable = group.state is ClassicGroupState.STABLE
    protocol_name = (group.protocol_name or "") if is_stable else ""
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=protocol_name,
        members=tuple(
            DescribedGroupMember(
                member_id=member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata_for(protocol_name) if is_stable else None,
                member_assignment=member.assignment,
            )
            for member_id, member in sorted(group.members.items())
        ),
    )


def describe_no_classic(
    request: DescribeGroupsRequest, group_id: str, *, is_of_other_type: bool
) -> DescribedGroup:
    """A group that is missing, or none of the classic protocol, is Dead; from version 6 on the
    answer says so by an error, too."""
    dead = ClassicGroupState.DEAD.value
    if request.api_version < _FIRST_VERSION_WITH_NOT_FOUND:
        return DescribedGroup(group_id=group_id, group_state=dead)
    return DescribedGroup(
        group_id=group_id,
        group_state=dead,
        error_code=ErrorCode.GROUP_ID_NOT_FOUND,
        error_message=(
            f"Group {group_id} is not a classic group."
            if is_of_other_type
            else f"Group {group_id} not found."
        ),
    )
