"""Request validation of ConsumerGroupHeartbeat, in the coordinator's order.

Source: coordinator §2.2, V1-V12, §2.12 (messages).
"""

from __future__ import annotations

from collections.abc import Iterable

from rebalance_sim.protocol.wire.consumer_messages import (
    JOIN_EPOCH,
    STATIC_LEAVE_EPOCH,
    UNCHANGED_TIMEOUT_MS,
    ConsumerGroupHeartbeatRequest,
)
from rebalance_sim.protocol.wire.errors import ErrorCode, GroupError

_FIRST_VERSION_WITH_CLIENT_IDS = 1


def validate_heartbeat(
    request: ConsumerGroupHeartbeatRequest,
    *,
    assignors: Iterable[str],
    refuses_non_positive_rebalance_timeout: bool = False,
) -> None:
    """Raise GroupError for the first broken rule of coordinator V1-V11; coordinator V12 belongs to
    the regex engine."""
    if not request.group_id.strip():
        raise _invalid("GroupId can't be empty.")
    if request.instance_id is not None and not request.instance_id.strip():
        raise _invalid("InstanceId can't be empty.")
    if request.rack_id is not None and not request.rack_id.strip():
        raise _invalid("RackId can't be empty.")
    epoch = request.member_epoch
    client_makes_id = request.api_version >= _FIRST_VERSION_WITH_CLIENT_IDS
    names_a_member = epoch >= STATIC_LEAVE_EPOCH and epoch != JOIN_EPOCH
    if (client_makes_id or names_a_member) and not request.member_id.strip():
        raise _invalid("MemberId can't be empty.")
    if epoch <= JOIN_EPOCH:
        _validate_join_or_leave(request, refuses_non_positive_rebalance_timeout)
    if request.server_assignor is not None:
        names = list(assignors)
        if request.server_assignor not in names:
            raise GroupError(
                ErrorCode.UNSUPPORTED_ASSIGNOR,
                f"ServerAssignor {request.server_assignor} is not supported. "
                f"Supported assignors: {', '.join(names)}.",
            )


def _validate_join_or_leave(
    request: ConsumerGroupHeartbeatRequest, refuses_non_positive_rebalance_timeout: bool
) -> None:
    epoch = request.member_epoch
    if epoch == JOIN_EPOCH:
        timeout_ms = request.rebalance_timeout_ms
        if timeout_ms == UNCHANGED_TIMEOUT_MS or (
            refuses_non_positive_rebalance_timeout and timeout_ms <= 0
        ):
            raise _invalid("RebalanceTimeoutMs must be provided in first request.")
        if request.topic_partitions is None or request.topic_partitions:
            raise _invalid("TopicPartitions must be empty when (re-)joining.")
        if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
            raise _invalid(
                "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null "
                "when (re-)joining."
            )
    elif epoch == STATIC_LEAVE_EPOCH:
        if request.instance_id is None:
            raise _invalid("InstanceId can't be null.")
    elif epoch < STATIC_LEAVE_EPOCH:
        raise _invalid("MemberEpoch is invalid.")


def _invalid(message: str) -> GroupError:
    return GroupError(ErrorCode.INVALID_REQUEST, message)
