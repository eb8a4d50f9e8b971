"""What versions there are, who coordinates, topics that come and go, and settings of groups."""

from __future__ import annotations

from collections.abc import Callable

from rebalance_sim.conformance.codec import Message
from rebalance_sim.gateway.call import CLUSTER_ID, NODE_ID, Call
from rebalance_sim.gateway.topics import MAX_PARTITIONS, is_legal_name
from rebalance_sim.gateway.wire.frames import APIS, UNSUPPORTED_VERSION
from rebalance_sim.protocol.runtime.coordinator_config import GROUP_SETTINGS, dotted
from rebalance_sim.protocol.wire.consumer_messages import (
    AlterGroupConfigRequest,
    AlterGroupConfigResponse,
)

_INVALID_TOPIC, _TOPIC_EXISTS, _INVALID_PARTITIONS, _INVALID_REQUEST = 17, 36, 37, 42
_UNKNOWN_TOPIC, _UNKNOWN_TOPIC_ID = 3, 100
_GROUPS, _TRANSACTIONS, _FIRST_FIND_OF_SEVERAL = 0, 1, 4
_COORDINATED = (_GROUPS, _TRANSACTIONS)
_FEATURE, _LEVEL = "transaction.version", 2
_GROUP_RESOURCE, _BROKER_RESOURCE, _TOPIC_RESOURCE = 32, 4, 2
_SET, _DELETE = 0, 1
_OF_GROUP, _OF_DEFAULT = 8, 5
_INT_TYPE = 3


async def api_versions(call: Call) -> Message:
    """ApiVersions; a version that is not served is answered in the oldest, with what there is."""
    newest = call.site.newest
    return {
        "error_code": UNSUPPORTED_VERSION if call.request.is_unsupported else 0,
        "api_keys": [
            {
                "api_key": api.key,
                "min_version": api.oldest,
                "max_version": newest.get(api.name, api.newest),
            }
            for api in APIS.values()
        ],
        "supported_features": [{"name": _FEATURE, "min_version": 0, "max_version": _LEVEL}],
        "finalized_features_epoch": 0,
        "finalized_features": [
            {"name": _FEATURE, "min_version_level": _LEVEL, "max_version_level": _LEVEL}
        ],
    }


async def find_coordinator(call: Call) -> Message:
    """FindCoordinator: this node, for groups and transactions."""
    said = call.message
    keys = said["coordinator_keys"] if call.version >= _FIRST_FIND_OF_SEVERAL else [said["key"]]
    host, port = call.site.address
    code = (
        _INVALID_REQUEST if said.get("key_type", _GROUPS) not in _COORDINATED else call.error or 0
    )
    found = {"error_code": code, "error_message": None, "node_id": -1, "host": "", "port": -1}
    if not code:
        found |= {"node_id": NODE_ID, "host": host, "port": port}
    if call.version < _FIRST_FIND_OF_SEVERAL:
        return found
    return {"coordinators": [found | {"key": key} for key in keys]}


async def describe_cluster(call: Call) -> Message:
    """DescribeCluster."""
    host, port = call.site.address
    return {
        "cluster_id": CLUSTER_ID,
        "controller_id": NODE_ID,
        "brokers": [{"broker_id": NODE_ID, "host": host, "port": port}],
    }


# -- topics ----------------------------------------------------------------------------------------


def _changed(call: Call, rows: list[Message]) -> list[Message]:
    if not call.message.get("validate_only", False) and any(not row["error_code"] for row in rows):
        call.site.host.show_topics()
    return rows


async def create_topics(call: Call) -> Message:
    """CreateTopics."""
    topics = call.site.topics

    def create(row: Message) -> Message:
        name, wanted = row["name"], max(row["num_partitions"], 1)
        code = 0
        if not is_legal_name(name):
            code = _INVALID_TOPIC
        elif name in topics.by_name:
            code = _TOPIC_EXISTS
        elif row["num_partitions"] == 0 or topics.partition_count + wanted > MAX_PARTITIONS:
            code = _INVALID_PARTITIONS
        answer: Message = {"name": name, "error_code": code, "error_message": None}
        if not code and not call.message["validate_only"]:
            answer |= {"topic_id": topics.set(name, wanted).uuid, "num_partitions": wanted}
            answer |= {"replication_factor": 1}
        return answer

    return {"topics": _changed(call, [create(row) for row in call.message["topics"]])}


async def create_partitions(call: Call) -> Message:
    """CreatePartitions."""
    topics = call.site.topics

    def grow(row: Message) -> Message:
        name, wanted = row["name"], row["count"]
        code, has = 0, topics.counts.get(name)
        if has is None:
            code = _UNKNOWN_TOPIC
        elif wanted <= has or topics.partition_count - has + wanted > MAX_PARTITIONS:
            code = _INVALID_PARTITIONS
        elif not call.message["validate_only"]:
            topics.set(name, wanted)
        return {"name": name, "error_code": code}

    return {"results": _changed(call, [grow(row) for row in call.message["topics"]])}


async def delete_topics(call: Call) -> Message:
    """DeleteTopics, by name or by id."""
    topics = call.site.topics

    def delete(row: Message) -> Message:
        name, code = row.get("name"), _UNKNOWN_TOPIC
        if name is None:
            held, code = topics.with_uuid(row["topic_id"]), _UNKNOWN_TOPIC_ID
            name = None if held is None else held.topic.name
        if name in topics.by_name:
            row = row | {"topic_id": topics.by_name[name].uuid}
            topics.delete(name)
            code = 0
        return {"name": name, "topic_id": row.get("topic_id"), "error_code": code}

    said = call.message
    asked = said["topics"] if "topics" in said else [{"name": name} for name in said["topic_names"]]
    return {"responses": _changed(call, [delete(row) for row in asked])}


# -- settings --------------------------------------------------------------------------------------


async def incremental_alter_configs(call: Call) -> Message:
    """IncrementalAlterConfigs, of groups only."""
    rows = []
    for resource in call.message["resources"]:
        kind, group_id = resource["resource_type"], resource["resource_name"]
        row: Message = {"resource_type": kind, "resource_name": group_id}
        operations = {one["config_operation"] for one in resource["configs"]}
        if kind != _GROUP_RESOURCE or not operations <= {_SET, _DELETE}:
            row |= {"error_code": _INVALID_REQUEST, "error_message": "only groups have settings"}
        elif not call.message["validate_only"]:
            changes = {
                one["name"]: one["value"] if one["config_operation"] == _SET else None
                for one in resource["configs"]
            }
            request = AlterGroupConfigRequest(group_id=group_id, configs=changes)
            answer: AlterGroupConfigResponse = await call.ask(request)
            row |= {"error_code": answer.error_code, "error_message": answer.error_message}
        rows.append(row)
    return {"responses": rows}


async def describe_configs(call: Call) -> Message:
    """DescribeConfigs: the settings of groups; topics and the broker show none."""
    configs = call.site.host.configs
    in_force: dict[str, Callable[[str], int]] = {
        "consumer_session_timeout_ms": configs.session_timeout_ms,
        "consumer_heartbeat_interval_ms": configs.heartbeat_interval_ms,
        "consumer_assignment_interval_ms": configs.assignment_interval_ms,
    }
    rows = []
    for resource in call.message["resources"]:
        kind, name = resource["resource_type"], resource["resource_name"]
        row: Message = {"resource_type": kind, "resource_name": name}
        if kind == _GROUP_RESOURCE:
            own = configs.groups.get(name)
            keys = resource["configuration_keys"]
            row["configs"] = [
                {
                    "name": dotted(setting.name),
                    "value": str(in_force[setting.name](name)),
                    "config_source": _OF_DEFAULT
                    if own is None or getattr(own, setting.name) is None
                    else _OF_GROUP,
                    "config_type": _INT_TYPE,
                }
                for setting in GROUP_SETTINGS
                if not keys or dotted(setting.name) in keys
            ]
        elif kind not in (_BROKER_RESOURCE, _TOPIC_RESOURCE):
            row["error_code"] = _INVALID_REQUEST
        rows.append(row)
    return {"results": rows}
