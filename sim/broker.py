"""A broker process: its replica, its shard, its connections, and what it knows of the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from protocol.errors import ErrorCode
from protocol.topics import EMPTY_IMAGE, MetadataImage
from sim.log import ReplicaLog
from sim.messages import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    MetadataRequest,
    MetadataResponse,
)
from sim.replication import Replication
from sim.shard_host import ShardHost
from sim.streams import delay_sampler

if TYPE_CHECKING:
    from sim.controller import ClusterMetadata
    from sim.network import Connection
    from sim.world import World

__all__ = ["Broker"]


class Broker:
    """One broker. The log survives a crash, everything else does not.

    ``is_isolated``: no replication traffic passes. ``is_cut_off``: it hears nothing from the
    controller and may not ask it for anything. ``is_stopping``: it shuts down in a controlled way,
    and may neither lead nor be in sync. ``tail_cut_epoch``: a leader epoch at whose start
    this broker turns out not to have had what was not committed.
    """

    def __init__(self, world: World, node_id: int) -> None:
        name = f"broker-{node_id}"
        self.world = world
        self.node_id = node_id
        self.tie_break = world.streams.get(f"schedule/{name}").random
        self.is_alive = True
        self.is_stopping = False
        self.incarnation = 0
        self.isolation_count = 0
        self.cut_off_count = 0
        self.image: MetadataImage = EMPTY_IMAGE
        self.leader_id: int | None = None
        self.leader_epoch = -1
        self.synced_epoch = -1
        self.tail_cut_epoch = -1
        self.connections: dict[Connection, None] = {}
        self.log = ReplicaLog()
        stream = world.streams.get(f"replication/{name}")
        self.replication = Replication(self, delay_sampler(world.spec.brokers.replication, stream))
        self.shard = ShardHost(self)
        self._metadata_version = 0

    @property
    def peers(self) -> list[Broker]:
        """The other brokers, in ascending id."""
        return [broker for broker in self.world.brokers if broker is not self]

    @property
    def is_isolated(self) -> bool:
        """Whether replication traffic is cut."""
        return self.isolation_count > 0

    @property
    def is_cut_off(self) -> bool:
        """Whether the controller is out of reach."""
        return self.cut_off_count > 0

    def follows(self, epoch: int) -> bool:
        """Whether this broker would fetch from the leader of this epoch."""
        return self.leader_epoch == epoch and not self.shard.is_active

    # --- requests ---------------------------------------------------------------------------------

    def on_request(self, connection: Connection, correlation_id: int, request: Any) -> None:
        """Answer now, or let the shard answer when it may."""
        match request:
            case FindCoordinatorRequest():
                connection.answer(correlation_id, self._find_coordinator())
            case MetadataRequest():
                names = {topic_id: topic.name for topic_id, topic in self.image.by_id.items()}
                connection.answer(correlation_id, MetadataResponse(topic_names=names))
            case ListOffsetsRequest():
                connection.answer(correlation_id, self._list_offsets(request))
            case _:
                self.shard.on_request(connection, correlation_id, request)

    def _find_coordinator(self) -> FindCoordinatorResponse:
        if self.leader_id is None:
            return FindCoordinatorResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return FindCoordinatorResponse(node_id=self.leader_id)

    def _list_offsets(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        positions = dict(request.positions)
        now_ms = self.world.clock.now_ms
        for partition in sorted(request.partitions):
            end_offset = self.world.topic_logs.end_offset(partition, now_ms)
            positions[partition] = end_offset if request.at_end else 0
        return ListOffsetsResponse(positions=positions)

    # --- what the controller says -----------------------------------------------------------------

    def learn(self, metadata: ClusterMetadata) -> None:
        """Take the newest state of the cluster."""
        if metadata.version <= self._metadata_version:
            return
        self._metadata_version = metadata.version
        has_new_image = metadata.image is not self.image
        self.image = metadata.image
        if metadata.leader_epoch > self.leader_epoch:
            self.leader_id = metadata.leader_id
            self.leader_epoch = metadata.leader_epoch
            if metadata.leader_id == self.node_id:
                self._lead()
            else:
                self._follow()
        if has_new_image:
            self.shard.on_image()

    def _lead(self) -> None:
        if self.tail_cut_epoch == self.leader_epoch:
            committed = max(broker.log.high_watermark for broker in self.world.brokers)
            for broker in self.peers:
                broker.replication.forget_beyond(self, committed)
            self.truncate_to(committed)
        self.synced_epoch = self.leader_epoch
        self.shard.on_elected(self.leader_epoch)
        self.replication.lead(self.leader_epoch)

    def _follow(self) -> None:
        if self.replication.is_leading:
            self.replication.stop()
            self.shard.on_resigned(self.leader_epoch)
        if self.leader_id is not None:
            leader = self.world.brokers[self.leader_id]
            if leader.replication.epoch == self.leader_epoch:
                leader.replication.pump(self)

    def truncate_to(self, offset: int) -> None:
        """Lose the tail of the log from an offset on."""
        if self.log.truncate_to(offset):
            self.world.steps.truncated(self.shard)

    # --- life and death ---------------------------------------------------------------------------

    def crash(self) -> None:
        """The process ends; its connections break."""
        self.is_alive = False
        self.incarnation += 1
        self.replication.stop()
        self.shard.on_crash()
        for connection in list(self.connections):
            connection.abandon()
        self.world.controller.on_broker_down(self)

    def restart(self) -> None:
        """A new process on the same disk, which knows nothing of the cluster yet."""
        self.is_alive = True
        self.is_stopping = False
        self.leader_id = None
        self.leader_epoch = -1
        self._metadata_version = 0
        self.world.controller.on_broker_up(self)
        self.pump_both_ways()

    def pump_both_ways(self) -> None:
        """Replication to and from this broker may be possible again."""
        for broker in self.world.brokers:
            if broker.replication.is_leading:
                for follower in broker.peers if broker is self else (self,):
                    broker.replication.pump(follower)
