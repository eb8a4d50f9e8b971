"""A broker process: its replicas, its connections, and what it knows of the cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from rebalance_sim.protocol.hosting.error_answers import WriteError
from rebalance_sim.protocol.runtime.coordinator_config import ConfigsInForce
from rebalance_sim.protocol.wire.consumer_messages import (
    ConsumerGroupDescribeRequest,
    ListGroupsRequest,
)
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.topics import EMPTY_IMAGE, MetadataImage
from rebalance_sim.sim.broker.group_reads import describe_groups, list_groups
from rebalance_sim.sim.broker.replica import Replica
from rebalance_sim.sim.network.cluster_requests import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    MetadataRequest,
    MetadataResponse,
)
from rebalance_sim.sim.observe.coordinator_metrics import CoordinatorMetrics

if TYPE_CHECKING:
    from rebalance_sim.sim.broker.controller import ClusterMetadata
    from rebalance_sim.sim.network.network import Connection
    from rebalance_sim.sim.world import World

__all__ = ["Broker"]


class Broker:
    """One broker, with a replica of every partition of ``__consumer_offsets``.

    ``is_isolated``: no replication traffic passes. ``is_cut_off``: it hears nothing from the
    controller and may not ask it for anything. ``is_stopping``: it shuts down in a controlled way,
    and may neither lead nor be in sync. ``append_errors``: why nothing can be written to its logs
    where it leads, if something is wrong. ``meters`` are those of its group coordinator, None where
    nobody reads them.
    """

    def __init__(self, world: World, node_id: int) -> None:
        self.world = world
        self.node_id = node_id
        self.is_alive = True
        self.is_stopping = False
        self.incarnation = 0
        self.isolation_count = 0
        self.cut_off_count = 0
        self.append_errors: list[WriteError] = []
        self.image: MetadataImage = EMPTY_IMAGE
        self.configs = ConfigsInForce(broker=world.config)
        self.connections: dict[Connection, None] = {}
        self.meters = self._new_meters()
        count = world.spec.brokers.offsets_partition_count
        self.replicas = [Replica(self, partition) for partition in range(count)]
        self._metadata_version = 0

    @property
    def is_isolated(self) -> bool:
        """Whether replication traffic is cut."""
        return self.isolation_count > 0

    @property
    def is_cut_off(self) -> bool:
        """Whether the controller is out of reach."""
        return self.cut_off_count > 0

    @property
    def append_error(self) -> WriteError | None:
        """Why a write fails now; None: it does not."""
        return self.append_errors[0] if self.append_errors else None

    # --- requests ---------------------------------------------------------------------------------

    def on_request(self, connection: Connection, correlation_id: int, request: Any) -> None:
        """Answer now, or let the shard answer when it may."""
        answer = _ANSWERS.get(type(request))
        if answer is not None:
            connection.answer(correlation_id, answer(self, request))
        else:
            replica = self.replicas[self.world.partition_of(request.group_id)]
            replica.shard.on_request(connection, correlation_id, request)

    def _find_coordinator(self, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
        leader_id = self.replicas[self.world.partition_of(request.group_id)].leader_id
        if leader_id is None:
            return FindCoordinatorResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return FindCoordinatorResponse(node_id=leader_id)

    def _metadata(self, request: MetadataRequest) -> MetadataResponse:
        topics = self.image.by_id
        return MetadataResponse(
            topic_names={topic_id: topic.name for topic_id, topic in topics.items()},
            partition_counts={topic.name: topic.partition_count for topic in topics.values()},
        )

    def _list_offsets(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        now_ms = self.world.clock.now_ms
        logs = self.world.topic_logs
        positions = {p: offset for p, offset in request.positions.items() if logs.has(p)}
        for partition in filter(logs.has, sorted(request.partitions)):
            positions[partition] = logs.end_offset(partition, now_ms) if request.at_end else 0
        return ListOffsetsResponse(positions=positions)

    # --- what the controller says -----------------------------------------------------------------

    def learn(self, metadata: ClusterMetadata) -> None:
        """Take the newest state of the cluster."""
        if metadata.version <= self._metadata_version:
            return
        self._metadata_version = metadata.version
        has_new_image = metadata.image is not self.image
        self.image = metadata.image
        has_new_configs = metadata.configs is not self.configs
        self.configs = metadata.configs
        for replica, leader in zip(self.replicas, metadata.leaders, strict=True):
            replica.learn(*leader)
        if has_new_image:
            for replica in self.replicas:
                replica.shard.on_image()
        if has_new_configs:
            for replica in self.replicas:
                replica.shard.on_configs()

    # --- life and death ---------------------------------------------------------------------------

    def crash(self) -> None:
        """The process ends; its connections break."""
        self.is_alive = False
        self.incarnation += 1
        for replica in self.replicas:
            replica.on_crash()
        self.meters = self._new_meters()
        for connection in list(self.connections):
            connection.abandon()
        self.world.controller.on_broker_down(self)
        self.world.data_plane.on_brokers_changed()

    def restart(self) -> None:
        """A new process on the same disk, which knows nothing of the cluster yet."""
        self.is_alive = True
        self.is_stopping = False
        for replica in self.replicas:
            replica.on_restart()
        self._metadata_version = 0
        self.world.controller.on_broker_up(self)
        self.pump_both_ways()

    def pump_both_ways(self) -> None:
        """Replication to and from this broker may be possible again."""
        for replica in self.replicas:
            replica.pump_both_ways()

    def _new_meters(self) -> CoordinatorMetrics | None:
        if not self.world.sampler.is_on:
            return None
        timeout_ms = self.world.config.offsets_commit_timeout_ms
        return CoordinatorMetrics(commit_timeout_ms=timeout_ms)


_ANSWERS: Mapping[type, Callable[[Broker, Any], Any]] = {
    FindCoordinatorRequest: Broker._find_coordinator,
    MetadataRequest: Broker._metadata,
    ListOffsetsRequest: Broker._list_offsets,
    ConsumerGroupDescribeRequest: describe_groups,
    ListGroupsRequest: list_groups,
}
"""What a broker answers at once; the rest is for the shard of one group."""
