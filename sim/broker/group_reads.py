"""How a broker answers what concerns several groups: describe and list.

Source: coordinator §6.2, §6.3. Each group lives in one partition of ``__consumer_offsets``, and
each partition that the broker coordinates answers for its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rebalance_sim.protocol.wire.consumer_messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.sim.broker.shard_host import ShardState

if TYPE_CHECKING:
    from rebalance_sim.sim.broker.broker import Broker

__all__ = ["describe_groups", "list_groups"]


def describe_groups(
    broker: Broker, request: ConsumerGroupDescribeRequest
) -> tuple[ConsumerGroupDescribeResponse, ...]:
    """Every group that was asked for, in this order; an error for those of other coordinators."""
    by_partition: dict[int, list[str]] = {}
    for group_id in request.group_ids:
        by_partition.setdefault(broker.world.partition_of(group_id), []).append(group_id)
    found: dict[str, ConsumerGroupDescribeResponse] = {}
    for partition, group_ids in by_partition.items():
        shard = broker.replicas[partition].shard
        if shard.is_active:
            part = ConsumerGroupDescribeRequest(group_ids=tuple(group_ids))
            found.update((row.group_id, row) for row in shard.describe(part))
        else:
            code = shard.refusal()
            found.update(
                (group_id, ConsumerGroupDescribeResponse(group_id=group_id, error_code=code))
                for group_id in group_ids
            )
    return tuple(found[group_id] for group_id in request.group_ids)


def list_groups(broker: Broker, request: ListGroupsRequest) -> ListGroupsResponse:
    """The groups of all partitions that this broker coordinates, in ascending id.

    Partitions of other coordinators are left out; one that is being loaded fails the whole request.
    """
    shards = [replica.shard for replica in broker.replicas]
    if any(shard.state is ShardState.LOADING for shard in shards):
        return ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    rows: list[ListedGroup] = []
    for shard in shards:
        if shard.is_active:
            rows += shard.list_groups(request).groups
    return ListGroupsResponse(groups=tuple(sorted(rows, key=lambda row: row.group_id)))
