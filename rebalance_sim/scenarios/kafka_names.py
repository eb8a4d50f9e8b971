"""What keys of a scenario are called in Kafka's own files of settings."""

from __future__ import annotations

from collections.abc import Mapping

from rebalance_sim.protocol.runtime.coordinator_config import CoordinatorConfig, dotted
from rebalance_sim.sim.broker.broker_spec import BrokerSpec
from rebalance_sim.sim.broker.event_processing_spec import EventProcessingSpec
from rebalance_sim.sim.client.client_spec import ClientSpec
from rebalance_sim.sim.network.network_spec import NetworkSpec

CONSUMER: Mapping[str, str] = {
    "group.id": "group_id",
    "group.instance.id": "instance_id",
    "client.rack": "rack",
    "group.remote.assignor": "server_assignor",
    "max.poll.interval.ms": "max_poll_interval_ms",
    "max.poll.records": "max_poll_records",
    "enable.auto.commit": "enable_auto_commit",
    "auto.commit.interval.ms": "auto_commit_interval_ms",
    "auto.offset.reset": "auto_offset_reset",
    "isolation.level": "isolation_level",
    "request.timeout.ms": "request_timeout_ms",
    "partition.assignment.strategy": "assignors",
    "session.timeout.ms": "session_timeout_ms",
    "heartbeat.interval.ms": "heartbeat_interval_ms",
    "metadata.max.age.ms": "metadata_max_age_ms",
    "group.protocol": "kind",
}
"""Settings of a consumer that a client has a key for."""

NETWORK: Mapping[str, str] = {
    "socket.connection.setup.timeout.ms": "connect_timeout_ms",
    "reconnect.backoff.ms": "reconnect_backoff_ms",
    "reconnect.backoff.max.ms": "reconnect_backoff_max_ms",
}
"""Settings of a consumer that all clients of a world have in common."""

BROKER: Mapping[str, str] = {
    "offsets.topic.num.partitions": "offsets_partition_count",
    "transaction.state.log.num.partitions": "transaction_state_partition_count",
    "broker.session.timeout.ms": "broker_session_timeout_ms",
    "replica.lag.time.max.ms": "replica_lag_time_max_ms",
    "min.insync.replicas": "min_insync_replicas",
    "offsets.topic.segment.bytes": "offsets_topic_segment_bytes",
    "broker.rack": "racks",
}

_BY_CLASS: Mapping[type, Mapping[str, str]] = {
    ClientSpec: {key: name for name, key in CONSUMER.items()},
    NetworkSpec: {key: name for name, key in NETWORK.items()},
    BrokerSpec: {key: name for name, key in BROKER.items()},
    EventProcessingSpec: {"group_coordinator_threads": "group.coordinator.threads"},
}


def kafka_name(cls: type, key: str) -> str:
    """Kafka's name of a key of such a table; empty if it has none."""
    if cls is CoordinatorConfig:
        return dotted(key)
    return _BY_CLASS.get(cls, {}).get(key, "")
