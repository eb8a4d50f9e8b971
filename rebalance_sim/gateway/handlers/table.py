"""API -> what handles it."""

from __future__ import annotations

from collections.abc import Mapping

from rebalance_sim.gateway.call import Handler
from rebalance_sim.gateway.handlers import admin, data, groups, offsets, transactions

HANDLERS: Mapping[str, Handler] = {
    "Produce": data.produce,
    "Fetch": data.fetch,
    "ListOffsets": data.list_offsets,
    "Metadata": data.metadata,
    "OffsetCommit": offsets.offset_commit,
    "OffsetFetch": offsets.offset_fetch,
    "FindCoordinator": admin.find_coordinator,
    "JoinGroup": groups.join_group,
    "Heartbeat": groups.heartbeat,
    "LeaveGroup": groups.leave_group,
    "SyncGroup": groups.sync_group,
    "DescribeGroups": groups.describe_groups,
    "ListGroups": groups.list_groups,
    "ApiVersions": admin.api_versions,
    "CreateTopics": admin.create_topics,
    "DeleteTopics": admin.delete_topics,
    "InitProducerId": transactions.init_producer_id,
    "AddPartitionsToTxn": transactions.add_partitions,
    "AddOffsetsToTxn": transactions.add_offsets,
    "EndTxn": transactions.end,
    "TxnOffsetCommit": transactions.commit_offsets,
    "OffsetForLeaderEpoch": data.offset_for_leader_epoch,
    "DescribeConfigs": admin.describe_configs,
    "CreatePartitions": admin.create_partitions,
    "DeleteGroups": groups.delete_groups,
    "IncrementalAlterConfigs": admin.incremental_alter_configs,
    "OffsetDelete": offsets.offset_delete,
    "DescribeCluster": admin.describe_cluster,
    "ConsumerGroupHeartbeat": groups.consumer_group_heartbeat,
    "ConsumerGroupDescribe": groups.consumer_group_describe,
}
