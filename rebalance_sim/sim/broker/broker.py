"""A broker process: its replicas, its connections, and what it knows of the cluster."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

from rebalance_sim.protocol.hosting.error_answers import WriteError, error_answer
from rebalance_sim.protocol.hosting.routing import GroupRequests, group_ids_of
from rebalance_sim.protocol.hosting.verification import Verification
from rebalance_sim.protocol.runtime.coordinator_config import ConfigsInForce
from rebalance_sim.protocol.wire.consumer_messages import (
    JOIN_EPOCH,
    AlterGroupConfigRequest,
    AlterGroupConfigResponse,
    ConsumerGroupHeartbeatRequest,
)
from rebalance_sim.protocol.wire.errors import ErrorCode, GroupError
from rebalance_sim.protocol.wire.topics import EMPTY_IMAGE, MetadataImage
from rebalance_sim.protocol.wire.transaction_messages import (
    TO_TRANSACTION_COORDINATOR,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    DataPartition,
    ProduceRequest,
    TxnOffsetCommitRequest,
    WriteTxnMarkersRequest,
)
from rebalance_sim.sim.broker.broker_requests import BrokerRequests
from rebalance_sim.sim.broker.cluster_metadata import ClusterMetadata
from rebalance_sim.sim.broker.environment import BrokerEnvironment
from rebalance_sim.sim.broker.event_processor import EventProcessor
from rebalance_sim.sim.broker.ports import Connection, Meters
from rebalance_sim.sim.broker.replica import Replica
from rebalance_sim.sim.broker.replication import InSyncSet
from rebalance_sim.sim.broker.shard_host import ShardHost
from rebalance_sim.sim.network.cluster_requests import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    MetadataRequest,
    MetadataResponse,
)
from rebalance_sim.sim.network.network import Purpose

_OF_BROKERS = frozenset({AddPartitionsToTxnRequest, WriteTxnMarkersRequest})
"""Quotas are those of clients."""


class ClusterController(Protocol):
    """The controller, as brokers know it."""

    @property
    def partitions(self) -> Sequence[InSyncSet]:
        """What is on record of each partition of ``__consumer_offsets``."""

    def on_broker_down(self, broker: Broker) -> None:
        """A broker died."""

    def on_broker_up(self, broker: Broker) -> None:
        """A broker is back."""

    @property
    def configs(self) -> ConfigsInForce:
        """The settings that were published last."""

    def set_configs(self, configs: ConfigsInForce) -> None:
        """Publish altered settings."""


class Throttle(NamedTuple):
    """Clients, all if there are none, that are over a quota, and for how long each request mutes
    its connection."""

    clients: tuple[str, ...]
    throttle_ms: int


class Broker:
    """One broker, with a replica of every partition of ``__consumer_offsets``, and of
    ``__transaction_state`` if there is one.

    ``isolation_count``: by how many faults no replication traffic passes. ``is_cut_off``: it
    receives nothing from the controller and may not ask it for anything. ``is_stopping``: it shuts
    down in a controlled way, and may neither lead nor be in sync. ``pause_count``: by how many
    faults its process stands still. ``append_errors``: why nothing can be written to its logs where
    it leads, if something is wrong. ``slow_loads_ms``: how long a load takes at least, as faults
    have it, and ``metadata_lags_ms`` how much later it hears of the controller's decisions; the
    greatest counts. ``throttles``: whose connections it does not read for a while after each
    request. ``stalled_shards``: those whose thread handles nothing now. ``event_processor``: the
    threads of its group coordinator, None where nothing takes them time. ``lost_peers``: brokers
    that it cannot reach, one entry for each fault. ``requests``: what it asks of other brokers,
    None without transactions. ``has_lost_tail``: its disk lacks what it had before it died.
    ``clock_ahead_ms``: how far the wall clock of its host is ahead of the world's; its timers use a
    monotonic one (``SystemTimer``). ``meters`` are those of its group coordinator, None where no
    one reads them.
    """

    def __init__(
        self, node_id: int, environment: BrokerEnvironment, controller: ClusterController
    ) -> None:
        self.node_id = node_id
        self._environment = environment
        self._controller = controller
        self._clock = environment.clock
        self.is_alive = True
        self.is_stopping = False
        self.incarnation = 0
        self.isolation_count = 0
        self.cut_off_count = 0
        self.append_errors: list[WriteError] = []
        self.lost_peers: list[int] = []
        self.has_lost_tail = False
        self.clock_ahead_ms = 0
        self.throttles: list[Throttle] = []
        self._muted_until_ms: dict[Connection, int] = {}
        self._tie_break = environment.streams.get(f"schedule/throttle/{node_id}").random
        self.stalled_shards: dict[ShardHost, None] = {}
        self.slow_loads_ms: list[int] = []
        self.metadata_lags_ms: list[int] = []
        self.pause_count = 0
        self._deferred: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self.image: MetadataImage = EMPTY_IMAGE
        self.configs = ConfigsInForce(broker=environment.config)
        self.connections: dict[Connection, None] = {}
        self.meters: Meters | None = environment.new_meters()
        processing = environment.spec.event_processing
        self.event_processor = (
            None if processing is None else EventProcessor(self, processing, environment)
        )
        has_transactions = len(controller.partitions) > environment.spec.offsets_partition_count
        self.requests = BrokerRequests(self, environment) if has_transactions else None
        self.replicas = [
            Replica(self, partition, registration, environment)
            for partition, registration in enumerate(controller.partitions)
        ]
        self.shards = [replica.shard for replica in self.replicas]
        self.group_shards = self.shards[: environment.spec.offsets_partition_count]
        self._group_requests = GroupRequests(self.group_shards, environment.partition_of)
        self._answers: Mapping[type, Callable[[Any], Any]] = {
            FindCoordinatorRequest: self._find_coordinator,
            MetadataRequest: self._metadata,
            ListOffsetsRequest: self._list_offsets,
            AlterGroupConfigRequest: self._alter_group_config,
        }
        self._newest_heartbeats: dict[str, tuple[str, int]] = {}
        """Client -> the member of its last heartbeat, and the correlation id of that."""
        self._metadata_version = 0
        self._answer_of_image = (
            EMPTY_IMAGE,
            MetadataResponse(topic_names={}, partition_counts={}, replica_racks={}),
        )

    @property
    def is_cut_off(self) -> bool:
        """Whether the controller is out of reach."""
        return self.cut_off_count > 0

    @property
    def append_error(self) -> WriteError | None:
        """Why a write fails now; None: it does not."""
        return self.append_errors[0] if self.append_errors else None

    @property
    def is_paused(self) -> bool:
        """Whether its process does not run."""
        return self.pause_count > 0

    def step_clock(self, step_ms: int) -> None:
        """The wall clock of its host is set, but not to a time before 0, which coordinators take
        for never."""
        self.clock_ahead_ms = max(self.clock_ahead_ms + step_ms, -self._clock.now_ms)
        for shard in self.shards:
            shard.coordinator.set_wall_clock(self.clock_ahead_ms)

    # --- requests ---------------------------------------------------------------------------------

    def on_request(self, connection: Connection, correlation_id: int, request: Any) -> None:
        """Answer now, or let the shard of the group answer when it may."""
        if self.pause_count and self.defers(self.on_request, connection, correlation_id, request):
            return
        if self.throttles and self._is_muted(connection, correlation_id, request):
            return
        answer = self._answers.get(type(request))
        if answer is not None:
            connection.answer(correlation_id, answer(request))
            return
        if self.requests is not None and self._is_of_transactions(
            connection, correlation_id, request
        ):
            return
        if self.event_processor is not None:
            self._enqueue(self.event_processor, connection, correlation_id, request)
            return
        if self.stalled_shards and self._must_queue(connection, correlation_id, request):
            return
        self._handle(connection, correlation_id, request)

    def _handle(self, connection: Connection, correlation_id: int, request: Any) -> None:
        client_name = connection.client_name
        if (
            type(request) is ConsumerGroupHeartbeatRequest
            and not self._environment.rules.handles_overtaken_heartbeats
            and self._is_overtaken(client_name, correlation_id, request)
        ):
            code = ErrorCode.COORDINATOR_NOT_AVAILABLE
            connection.answer(correlation_id, error_answer(request, code))
            return
        self._group_requests.on_request(
            request,
            partial(connection.answer, correlation_id),
            client_id=client_name,
            client_host=f"/{client_name}",
            now_ms=self._clock.now_ms,
        )

    def _is_of_transactions(
        self, connection: Connection, correlation_id: int, request: Any
    ) -> bool:
        """Let the coordinator of transactions handle what is for it, and ask it about offsets."""
        if type(request) in TO_TRANSACTION_COORDINATOR:
            partition = self._environment.transaction_partition_of(request.transactional_id)
            self._let_handle(self.shards[partition], connection, correlation_id, request)
            return True
        if type(request) is TxnOffsetCommitRequest:
            shard = self.shards[self._environment.partition_of(request.group_id)]
            if shard.is_active:
                self._verify(shard, connection, correlation_id, request)
                return True
        return self._is_of_records(connection, correlation_id, request)

    def _is_of_records(self, connection: Connection, correlation_id: int, request: Any) -> bool:
        """Let the leader of a partition handle what is for its records."""
        data, answer = self._environment.data_partitions, partial(connection.answer, correlation_id)
        if data is None:
            return False
        if type(request) is ProduceRequest:
            data.produce(self.node_id, request, answer, self._ask_about)
            return True
        if type(request) is WriteTxnMarkersRequest:
            named = DataPartition.of(request.group_id)
            if named is not None:
                answer(data.mark(self.node_id, named, request))
                return True
        return False

    def _let_handle(
        self, shard: ShardHost, connection: Connection, correlation_id: int, request: Any
    ) -> None:
        name = connection.client_name
        reply = partial(connection.answer, correlation_id)

        def handle() -> None:
            now_ms = self._clock.now_ms
            shard.on_request(request, reply, client_id=name, client_host=f"/{name}", now_ms=now_ms)

        processor = None if shard.events is None else self.event_processor
        shard.handles(handle, us=0 if processor is None else processor.us_of(request))

    def _verify(
        self,
        shard: ShardHost,
        connection: Connection,
        correlation_id: int,
        request: TxnOffsetCommitRequest,
    ) -> None:
        """Ask the coordinator of transactions about offsets before the group's takes them."""
        verification = Verification(request, shard)

        def on_answer(response: AddPartitionsToTxnResponse | None) -> None:
            code = ErrorCode.NETWORK_EXCEPTION if response is None else response.error_code
            refusal = verification.refusal(code)
            if refusal is None:
                self._let_handle(shard, connection, correlation_id, request)
            else:
                connection.answer(correlation_id, refusal)

        self._ask_about(verification.question, on_answer)

    def _ask_about(
        self,
        question: AddPartitionsToTxnRequest,
        on_answer: Callable[[AddPartitionsToTxnResponse | None], None],
    ) -> None:
        """Ask the coordinator of transactions about one of them."""
        assert self.requests is not None
        partition = self._environment.transaction_partition_of(question.transactional_id)
        self.requests.ask(Purpose.BOOTSTRAP, self.leader_of(partition), question, on_answer)

    def leader_of(self, partition: int) -> int | None:
        """Who leads a partition, as far as this broker knows."""
        return self.replicas[partition].leader_id

    def _is_overtaken(
        self, client_name: str, correlation_id: int, request: ConsumerGroupHeartbeatRequest
    ) -> bool:
        """Whether a later heartbeat of the same member was handled before, on another connection.
        Then its client waits for no answer, and would not learn what it is granted."""
        member_id, newest_id = self._newest_heartbeats.get(client_name, ("", -1))
        if member_id == request.member_id and correlation_id < newest_id:
            return request.member_epoch >= JOIN_EPOCH
        self._newest_heartbeats[client_name] = request.member_id, correlation_id
        return False

    def _is_muted(self, connection: Connection, correlation_id: int, request: Any) -> bool:
        """Let a request of a client wait until its connection is read again; each one that is
        handled mutes it again."""
        if type(request) in _OF_BROKERS:
            return False
        now_ms = self._clock.now_ms
        until_ms = self._muted_until_ms.get(connection, now_ms)
        if now_ms < until_ms:
            self._clock.call_at(
                until_ms, self._tie_break(), self._on_unmuted, (connection, correlation_id, request)
            )
            return True
        throttles = (
            t for t in self.throttles if not t.clients or connection.client_name in t.clients
        )
        throttle_ms = max((throttle.throttle_ms for throttle in throttles), default=0)
        self._muted_until_ms[connection] = now_ms + throttle_ms
        return False

    def end_throttle(self, throttle: Throttle) -> None:
        """Clients are over a quota no more. What waits already is handled in its time."""
        self.throttles.remove(throttle)
        if not self.throttles:
            self._muted_until_ms.clear()

    def _on_unmuted(self, read: tuple[Connection, int, Any]) -> None:
        connection, correlation_id, request = read
        if connection in self.connections:
            self.on_request(connection, correlation_id, request)

    def _must_queue(self, connection: Connection, correlation_id: int, request: Any) -> bool:
        """Let a request wait for the thread of its shard, if that handles nothing now; a list or a
        description waits for all of them."""
        group_ids = group_ids_of(request)
        partitions = {self._environment.partition_of(name) for name in group_ids or ()}
        for shard in self.stalled_shards:
            if group_ids is None or shard.partition in partitions:
                shard.handles(self.on_request, connection, correlation_id, request)
                return True
        return False

    def _enqueue(
        self, processor: EventProcessor, connection: Connection, correlation_id: int, request: Any
    ) -> None:
        """Let the shards of a request handle it in turn: a list or a description has several."""
        us = processor.us_of(request)
        group_ids = group_ids_of(request)
        partitions = {self._environment.partition_of(name) for name in group_ids or ()}
        handle = partial(self._handle, connection, correlation_id, request)
        for shard in self.group_shards:
            if group_ids is None or shard.partition in partitions:
                handle = partial(shard.handles, handle, us=us)
        handle()

    def _find_coordinator(self, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
        environment = self._environment
        if request.transactional_id is None:
            partition = environment.partition_of(request.group_id)
        else:
            partition = environment.transaction_partition_of(request.transactional_id)
        leader_id = self.leader_of(partition)
        if leader_id is None:
            return FindCoordinatorResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return FindCoordinatorResponse(node_id=leader_id)

    def _metadata(self, request: MetadataRequest) -> MetadataResponse:
        image, answer = self._answer_of_image
        if image is not self.image:
            topics = self.image.by_id
            answer = MetadataResponse(
                topic_names={topic_id: topic.name for topic_id, topic in topics.items()},
                partition_counts={topic.name: topic.partition_count for topic in topics.values()},
                replica_racks={t.name: t.replica_racks for t in topics.values() if t.replica_racks},
            )
            self._answer_of_image = self.image, answer
        return answer

    def _list_offsets(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        now_ms = self._clock.simulated_ms
        logs = self._environment.topic_offsets
        positions = {p: offset for p, offset in request.positions.items() if logs.has(p)}
        for partition in filter(logs.has, sorted(request.partitions)):
            end = logs.end_offset(partition, now_ms, request.isolation_level)
            positions[partition] = end if request.at_end else 0
        return ListOffsetsResponse(positions=positions)

    def _alter_group_config(self, request: AlterGroupConfigRequest) -> AlterGroupConfigResponse:
        """Settings are the controller's to alter, and every broker learns of them (coordinator
        §10.2)."""
        if self.is_cut_off:
            return AlterGroupConfigResponse(error_code=ErrorCode.REQUEST_TIMED_OUT)
        rules = self._environment.semantics.coordinator
        try:
            altered = self._controller.configs.altered(
                request.group_id,
                request.configs,
                has_assignment_interval=rules.has_assignment_interval,
            )
        except GroupError as error:
            return AlterGroupConfigResponse(error_code=error.code, error_message=error.message)
        self._controller.set_configs(altered)
        response = AlterGroupConfigResponse()
        shard = self.shards[self._environment.partition_of(request.group_id)]
        self._environment.steps.released(shard, 0, request, response)
        return response

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
            for shard in self.shards:
                shard.learn_image()
        if has_new_configs:
            for shard in self.shards:
                shard.update_configs(self.configs)

    # --- a process that does not run --------------------------------------------------------------

    def defers(self, function: Callable[..., None], *arguments: Any) -> bool:
        """Keep a call for later if the process stands still now."""
        if not self.pause_count:
            return False
        self._deferred.append((function, arguments))
        return True

    def wake_up(self) -> None:
        """After a pause: everything that was kept happens now, in its order."""
        while self._deferred and not self.pause_count:
            function, arguments = self._deferred.popleft()
            function(*arguments)

    # --- life and death ---------------------------------------------------------------------------

    def crash(self, *, is_silent: bool = False) -> None:
        """The process ends; its connections break, silently if its host is lost with it."""
        self.is_alive = False
        self.pause_count = 0
        self._deferred.clear()
        self._newest_heartbeats.clear()
        self.incarnation += 1
        if self.event_processor is not None:
            self.event_processor.reset()
        if self.requests is not None:
            self.requests.end()
            self.requests = BrokerRequests(self, self._environment)
        for replica in self.replicas:
            replica.on_crash()
        self.meters = self._environment.new_meters()
        for connection in list(self.connections):
            connection.abandon(is_silent=is_silent)
        self._controller.on_broker_down(self)

    def restart(self) -> None:
        """A new process on the same disk, which knows nothing of the cluster yet."""
        self.is_alive = True
        self.is_stopping = False
        for replica in self.replicas:
            replica.on_restart()
        self._metadata_version = 0
        self._controller.on_broker_up(self)
        self.pump_both_ways()

    def pump_both_ways(self) -> None:
        """Replication to and from this broker may be possible again."""
        for replica in self.replicas:
            replica.pump_both_ways()
