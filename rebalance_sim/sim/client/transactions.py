"""A read-process-write application: what it was handed, and what came of it, in one transaction.

Source: transactions §4. Every ``commit_interval_ms`` it stops polling, hands the positions and
``groupMetadata()`` to its producer, and polls on when the transaction has ended. One that aborts
takes its positions back to where the last one committed; a producer that is fenced closes its
consumer, and a supervisor starts another process, whose ``initTransactions`` aborts what is open.
The producer has connections of its own. With ``output_topic`` the first record that is written
begins a transaction (``output_writer.py``), and one aborts that has records of a partition which
the application has lost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from rebalance_sim.protocol.clients.common.events import (
    Seek,
    SendOffsetsToTransaction,
    TransactionEnded,
)
from rebalance_sim.protocol.clients.common.values import PartitionState
from rebalance_sim.protocol.transactions.producer import (
    MOVED,
    GroupMetadata,
    ProducerState,
    TransactionalProducer,
    TransactionEnd,
)
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.topics import TopicPartition
from rebalance_sim.protocol.wire.transaction_messages import (
    AddPartitionsToTxnRequest,
    ProduceRequest,
    TxnOffsetCommitRequest,
)
from rebalance_sim.sim.client.client_connections import ClientConnections
from rebalance_sim.sim.client.output_writer import LINGER_MS, OutputWriter
from rebalance_sim.sim.client.ports import Process
from rebalance_sim.sim.client.transactions_spec import TransactionsSpec
from rebalance_sim.sim.clock import Clock
from rebalance_sim.sim.data_plane.data_plane import DataPlane
from rebalance_sim.sim.data_plane.fetch_buffer import Intake
from rebalance_sim.sim.network.cluster_requests import FindCoordinatorRequest
from rebalance_sim.sim.network.network import Purpose

_RETRY_BACKOFF_MS = 100
"""``retry.backoff.ms``."""


class TransactingApplication(Protocol):
    """What it needs of its application."""

    intake: Intake | None
    is_exiting: bool

    def ask_for_transaction(self) -> None:
        """Call ``begin`` as soon as nothing keeps the application; it polls no more from then."""

    def on_transaction_over(self) -> None:
        """The transaction has ended: poll on."""

    def on_fenced(self) -> None:
        """The producer is fenced for good: close the consumer."""


class Transactions:
    """The producer of one process, and what goes through it."""

    watches_coordinator = False

    def __init__(
        self,
        process: Process,
        application: TransactingApplication,
        spec: TransactionsSpec,
        clock: Clock,
        data_plane: DataPlane,
    ) -> None:
        self.name = process.name
        self.tie_break = process.tie_break
        self.request_timeout_ms = process.spec.request_timeout_ms
        self._process = process
        self._application = application
        self._spec = spec
        self._clock = clock
        self._totals = data_plane.totals
        self._leader_id = data_plane.leader_id
        self._lines = ClientConnections(data_plane.network, self, rack=process.spec.rack)
        self.producer = TransactionalProducer(
            group_id=process.member.config.group_id,
            transactional_id=spec.transactional_id or process.name,
            transaction_timeout_ms=spec.transaction_timeout_ms,
            version=spec.version,
        )
        self._coordinators: dict[bool, int] = {}
        """Who has the group, and who has the transactional id, as far as is known."""
        self._in_flight: tuple[int, Any] | None = None
        self._last_id = 0
        self._waits = False
        self._is_asked = False
        self._began_ms: int | None = None
        self._committed: dict[TopicPartition, tuple[PartitionState, int]] = {}
        """Where the last transaction of this process ended, in which time with a partition."""
        self._open: dict[TopicPartition, tuple[PartitionState, int, int]] = {}
        """The records of the present one: from where, to where."""
        self._metadata: GroupMetadata | None = None
        """With which its offsets are sent as soon as its records are written."""
        self._writer: OutputWriter | None = None
        self._batches: dict[int, ProduceRequest] = {}
        """Of records, by the number of the request."""
        topic = spec.output_topic
        if topic is not None:
            self._writer = OutputWriter(
                self.producer, lambda: data_plane.partitions_of(topic), self._send_batch
            )
            self._later(LINGER_MS, self._on_linger)
        self._later(0, self._on_send)

    def end(self) -> None:
        """The process is gone, and its connections with it."""
        self._lines.close()

    # --- transactions -----------------------------------------------------------------------------

    def begin(self) -> bool:
        """Send the offsets of what was handed out; False if there is nothing to commit, and no
        transaction has begun."""
        self._is_asked = False
        member, writer = self._process.member, self._writer
        self._open = self._handed_out()
        identity = member.commit_identity
        if writer is not None and (
            self.producer.state is ProducerState.ABORTING
            or (writer.has_written and (identity is None or writer.has_lost(member.assigned)))
        ):
            self._began_ms = self._clock.now_ms
            self.producer.abort()
            self._send()
            return True
        if not self._open or identity is None:
            self._plan()
            return False
        offsets = {partition: end for partition, (_, _, end) in self._open.items()}
        self._metadata = GroupMetadata(
            identity.member_epoch, identity.member_id, self._process.spec.instance_id
        )
        self._began_ms = self._clock.now_ms
        if writer is not None:
            for partition, (state, start, end) in self._open.items():
                self._write(writer, partition, state, start, end)
        self._process.apply(
            SendOffsetsToTransaction(
                starts={partition: start for partition, (_, start, _) in self._open.items()},
                offsets=offsets,
                producer_id=self.producer.producer_id,
                producer_epoch=self.producer.producer_epoch,
                written=None if writer is None else writer.written,
            )
        )
        self._send()
        return True

    def _handed_out(self) -> dict[TopicPartition, tuple[PartitionState, int, int]]:
        found = {}
        for partition, state in self._process.member.assigned.items():
            start = self._start(partition, state)
            if start is not None and state.has_valid_position and start < state.position:
                found[partition] = state, start, state.position
        return found

    def _start(self, partition: TopicPartition, state: PartitionState) -> int | None:
        """Where the present transaction begins in a partition; None if nothing is handed out."""
        intake = self._application.intake
        start = None if intake is None else intake.begun_offset(partition)
        known = self._committed.get(partition)
        return known[1] if start is not None and known is not None and known[0] is state else start

    def _finish(self, end: TransactionEnd) -> None:
        committed = end is TransactionEnd.COMMITTED
        self._process.apply(TransactionEnded(committed=committed))
        if committed:
            self._totals.transactions_committed += 1
            self._committed.update({p: (state, to) for p, (state, _, to) in self._open.items()})
        else:
            self._totals.transactions_aborted += 1
            assigned = self._process.member.assigned
            back = {
                partition: start
                for partition, (state, start, _) in self._open.items()
                if assigned.get(partition) is state and state.has_valid_position
            }
            if back:
                self._process.take(Seek(positions=back))  # what flows begins again there
        self._open = {}
        self._began_ms = self._metadata = None
        if self._writer is not None:
            self._writer.begin()
        self._plan()
        self._application.on_transaction_over()

    def _plan(self) -> None:
        self._later(self._spec.commit_interval_ms, self._on_due)

    def _on_due(self, _: None) -> None:
        if not self._process.defers(self._on_due, None):
            self._ask_for_end()

    def _ask_for_end(self) -> None:
        if not self._is_asked and not self._application.is_exiting:
            self._is_asked = True
            self._application.ask_for_transaction()

    # --- records ----------------------------------------------------------------------------------

    def _on_linger(self, _: None) -> None:
        """Write what has been processed since the last time."""
        if self._process.defers(self._on_linger, None) or self._application.is_exiting:
            return
        self._later(LINGER_MS, self._on_linger)
        writer, intake = self._writer, self._application.intake
        takes = self.producer.state in (ProducerState.READY, ProducerState.ADDING_PARTITION)
        if writer is None or intake is None or self._began_ms is not None or not takes:
            return
        assigned = self._process.member.assigned
        for partition, end in intake.processed_offsets().items():
            state = assigned.get(partition)
            start = None if state is None else self._start(partition, state)
            if state is not None and start is not None:
                self._write(writer, partition, state, start, end)
        self._send()

    def _write(
        self,
        writer: OutputWriter,
        partition: TopicPartition,
        state: PartitionState,
        start: int,
        end: int,
    ) -> None:
        """Write what comes of the records up to ``end``; ``start``: where the transaction begins
        there."""
        read_to = writer.read_to(partition, state)
        first, intake = start if read_to is None else read_to, self._application.intake
        if end > first and intake is not None:
            writer.add(partition, state, end, intake.records_between(partition, first, end))

    def _send_batch(self, batch: ProduceRequest) -> None:
        leader_id = self._leader_id(batch.partition)
        self._last_id += 1
        self._batches[self._last_id] = batch
        if leader_id is None:
            self._later(_RETRY_BACKOFF_MS, self._on_retry, self._last_id)
        else:
            self._lines.send(Purpose.BOOTSTRAP, leader_id, self._last_id, batch)

    @property
    def has_records(self) -> bool:
        """Whether a transaction with records is to be ended before the application closes."""
        return self._writer is not None and self._writer.has_written and self._began_ms is None

    def _may_go_on(self, writer: OutputWriter) -> bool:
        """Whether the producer may send what it wants: it ends nothing before all that was sent is
        written, or while the application polls."""
        producer = self.producer
        if producer.state is not ProducerState.ABORTING:
            writer.flush()
        if producer.state is not ProducerState.ABORTING:
            return producer.state is not ProducerState.READY or writer.is_idle
        writer.drop()
        if self._began_ms is None:
            self._ask_for_end()
            return False
        return writer.is_idle

    def _on_batch_answered(self, correlation_id: int, response: Any) -> None:
        writer, batch = self._writer, self._batches[correlation_id]
        assert writer is not None
        if response is None or writer.on_answer(batch, response):
            self._later(_RETRY_BACKOFF_MS, self._on_retry, correlation_id)
            return
        del self._batches[correlation_id]
        self._send()

    def _on_retry(self, correlation_id: int) -> None:
        if self._process.defers(self._on_retry, correlation_id):
            return
        batch = self._batches.pop(correlation_id)
        self._send_batch(batch)
        self._send()

    # --- requests ---------------------------------------------------------------------------------

    def _send(self) -> None:
        """Send what the producer wants answered, unless it waits for something already."""
        producer, began_ms, writer = self.producer, self._began_ms, self._writer
        if began_ms is not None and self._clock.now_ms - began_ms >= self._spec.max_block_ms:
            producer.abort()
        if writer is not None and not self._may_go_on(writer):
            return
        if self._metadata is not None and producer.state is ProducerState.READY:
            offsets = {partition: end for partition, (_, _, end) in self._open.items()}
            producer.send_offsets(offsets, self._metadata)
            self._metadata = None
        if self._in_flight is not None or self._waits:
            return
        request: Any = producer.request
        if request is None:
            return
        self._last_id += 1
        is_of_group = type(request) is TxnOffsetCommitRequest
        coordinator_id = self._coordinators.get(is_of_group)
        if coordinator_id is None:
            find = FindCoordinatorRequest(
                group_id=producer.group_id,
                transactional_id=None if is_of_group else producer.transactional_id,
            )
            self._in_flight = self._last_id, find
            self._lines.send_to_any(self._last_id, find)
        else:
            self._in_flight = self._last_id, request
            self._lines.send(Purpose.COORDINATOR, coordinator_id, self._last_id, request)

    def on_answer(self, correlation_id: int, response: Any) -> None:
        """As of ``ConnectionsOwner``."""
        if correlation_id in self._batches:
            self._on_batch_answered(correlation_id, response)
            return
        if self._in_flight is None or self._in_flight[0] != correlation_id:
            return
        request = self._in_flight[1]
        self._in_flight = None
        if type(request) is FindCoordinatorRequest:
            if response.error_code is ErrorCode.NONE:
                self._coordinators[request.transactional_id is None] = response.node_id
                self._send()
            else:
                self._retry()
            return
        code = self.producer.on_answer(request, response)
        if self.producer.state is ProducerState.FENCED:
            self._totals.producers_fenced += 1
            self._process.apply(TransactionEnded(committed=False, is_fenced=True))
            self._application.on_fenced()
        elif code in MOVED:
            self._forget_coordinator(request)
            self._retry()
        elif code is not ErrorCode.NONE:
            self._retry()
        elif (
            type(request) is AddPartitionsToTxnRequest
            or self.producer.state is not ProducerState.READY
        ):
            self._send()
        elif self.producer.ended is None:
            self._plan()  # ``initTransactions`` has returned.
        else:
            self._finish(self.producer.ended)

    def on_lost(self, correlation_ids: tuple[int, ...]) -> None:
        """As of ``ConnectionsOwner``: whatever came of it, it is sent again."""
        for correlation_id in correlation_ids:
            if correlation_id in self._batches:
                self._on_batch_answered(correlation_id, None)
        if self._in_flight is not None and self._in_flight[0] in correlation_ids:
            self._forget_coordinator(self._in_flight[1])
            self._in_flight = None
            self._retry()

    def _forget_coordinator(self, request: Any) -> None:
        self._coordinators.pop(type(request) is TxnOffsetCommitRequest, None)

    def on_coordinator_connected(self) -> None:
        """As of ``ConnectionsOwner``."""

    def on_coordinator_closed(self, *, is_isolated: bool) -> None:
        """As of ``ConnectionsOwner``."""

    def defers(self, function: Callable[..., None], *arguments: Any) -> bool:
        """As of ``ConnectionsOwner``."""
        return self._process.defers(function, *arguments)

    def _retry(self) -> None:
        self._waits = True
        self._later(_RETRY_BACKOFF_MS, self._on_send)

    def _on_send(self, _: None) -> None:
        if not self._process.defers(self._on_send, None):
            self._waits = False
            self._send()

    def _later(self, delay_ms: int, function: Callable[[Any], None], argument: Any = None) -> None:
        self._clock.call_at(self._clock.now_ms + delay_ms, self.tie_break(), function, argument)
