"""Partitions with records of transactions, at the broker that leads them.

Source: transactions §5, by what recorded brokers answer. Their logs are those of the data plane:
every leader has all records.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from rebalance_sim.protocol.hosting.broker_rules import BrokerRules
from rebalance_sim.protocol.hosting.verification import error_of_write
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.topics import TopicPartition
from rebalance_sim.protocol.wire.transaction_messages import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    DataPartition,
    ProduceRequest,
    ProduceResponse,
    RecordsWritten,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from rebalance_sim.sim.broker.output_log import OutputLog

Answer = Callable[[Any], None]
Ask = Callable[
    [AddPartitionsToTxnRequest, Callable[[AddPartitionsToTxnResponse | None], None]], None
]


class Outputs(Protocol):
    """The logs, and who leads them (``sim.data_plane.data_plane``)."""

    def output(self, partition: TopicPartition) -> OutputLog | None:
        """The log of a partition that applications write to in transactions."""

    def leader_id(self, partition: TopicPartition) -> int | None:
        """Who leads it; None: it is gone."""


class DataPartitions:
    """What the leaders of such partitions do. ``on_written`` is told when a log has more."""

    def __init__(
        self,
        outputs: Outputs,
        rules: BrokerRules,
        on_written: Callable[[RecordsWritten], None],
    ) -> None:
        self._outputs = outputs
        self._rules = rules
        self._on_written = on_written

    def leader_id(self, partition: DataPartition) -> int | None:
        """Who leads a partition; None if it is gone."""
        return self._outputs.leader_id(TopicPartition(*partition))

    def produce(self, node_id: int, request: ProduceRequest, answer: Answer, ask: Ask) -> None:
        """Append the records of a transaction. One that has none in this log yet is asked about
        first, at its coordinator (``ask``)."""
        refusal = self._refusal(node_id, request)
        if refusal is not None:
            answer(ProduceResponse(error_code=refusal))
            return
        log = self._outputs.output(request.partition)
        assert log is not None
        known = log.producer(request.producer_id)
        is_known = known.producer_epoch == request.producer_epoch
        if is_known and log.spans.is_open(request.producer_id):
            self._append(log, request)
            answer(ProduceResponse())
            return

        def markers() -> int:
            return known.markers.seen_by(
                request.producer_epoch, verify_only=not request.adds_partition
            )

        markers_then = markers()

        def on_answer(response: AddPartitionsToTxnResponse | None) -> None:
            code = ErrorCode.NETWORK_EXCEPTION if response is None else response.error_code
            code = error_of_write(code, verify_only=question.verify_only)
            is_verified = code is ErrorCode.NONE
            if is_verified and markers() != markers_then:
                code = ErrorCode.INVALID_TXN_STATE
            elif is_verified:
                refusal = self._refusal(node_id, request)
                if refusal is None:
                    self._append(log, request)
                code = refusal or code
            answer(ProduceResponse(error_code=code))

        question = AddPartitionsToTxnRequest(
            group_id=DataPartition(*request.partition).group_id,
            transactional_id=request.transactional_id,
            producer_id=request.producer_id,
            producer_epoch=request.producer_epoch,
            verify_only=not request.adds_partition,
        )
        ask(question, on_answer)

    def _refusal(self, node_id: int, request: ProduceRequest) -> ErrorCode | None:
        """Why nothing is appended; NONE if it has been before; None: it may be."""
        partition = request.partition
        log, leader_id = self._outputs.output(partition), self._outputs.leader_id(partition)
        if log is None or leader_id is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if leader_id != node_id:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        known = log.producer(request.producer_id)
        if request.producer_epoch < known.producer_epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        is_new = request.producer_epoch > known.producer_epoch
        expected = 0 if is_new else known.next_sequence
        if request.sequence > expected:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        if request.sequence < expected and self._rules.checks_sequences:
            return ErrorCode.NONE
        return None

    def _append(self, log: OutputLog, request: ProduceRequest) -> None:
        producer = request.producer_id, request.producer_epoch
        first = log.append(*producer, request.record_count)
        self._on_written(
            RecordsWritten(
                partition=request.partition,
                producer_id=request.producer_id,
                producer_epoch=request.producer_epoch,
                first=first,
                end=log.end_offset,
            )
        )

    def mark(
        self, node_id: int, named: DataPartition, request: WriteTxnMarkersRequest
    ) -> WriteTxnMarkersResponse:
        """Append a marker; a partition that is gone needs none."""
        partition = TopicPartition(*named)
        log, leader_id = self._outputs.output(partition), self._outputs.leader_id(partition)
        if log is None or leader_id is None:
            return WriteTxnMarkersResponse()
        if leader_id != node_id:
            return WriteTxnMarkersResponse(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
        known = log.producer(request.producer_id)
        if request.producer_epoch < known.producer_epoch:
            return WriteTxnMarkersResponse(error_code=ErrorCode.INVALID_PRODUCER_EPOCH)
        if request.coordinator_epoch < known.coordinator_epoch:
            code = ErrorCode.TRANSACTION_COORDINATOR_FENCED
            return WriteTxnMarkersResponse(error_code=code)
        first = log.end_offset
        producer = request.producer_id, request.producer_epoch
        log.mark(*producer, request.coordinator_epoch, committed=request.committed)
        self._on_written(
            RecordsWritten(
                partition=partition,
                producer_id=request.producer_id,
                producer_epoch=request.producer_epoch,
                first=first,
                end=log.end_offset,
                committed=request.committed,
            )
        )
        return WriteTxnMarkersResponse()
