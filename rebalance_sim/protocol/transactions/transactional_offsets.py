"""What the coordinator of a group does with offsets that belong to a transaction.

Source: transactions §3. Whether there is such a transaction its broker has asked before
(``protocol/hosting/verification.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rebalance_sim.protocol.runtime.context import CoordinatorContext
from rebalance_sim.protocol.runtime.group_type import Call, Component, Handler
from rebalance_sim.protocol.runtime.outcome import Outcome
from rebalance_sim.protocol.runtime.pending_offsets import ProducerEntry
from rebalance_sim.protocol.wire.errors import ErrorCode, GroupError
from rebalance_sim.protocol.wire.records import (
    OffsetCommitValue,
    TransactionMarker,
    TxnOffsetCommit,
)
from rebalance_sim.protocol.wire.topics import Topic, TopicPartition
from rebalance_sim.protocol.wire.transaction_messages import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)


class TransactionalOffsets(Component[Any]):
    """Offsets of transactions, and the markers that end them."""

    def __init__(self, context: CoordinatorContext[Any]) -> None:
        super().__init__(context)
        self._producers: dict[Any, ProducerEntry] = context.groups_of(ProducerEntry)

    def handlers(self) -> Mapping[type, Handler]:
        return {
            TxnOffsetCommitRequest: self._commit_offsets,
            WriteTxnMarkersRequest: self._write_marker,
        }

    def _commit_offsets(self, call: Call[TxnOffsetCommitRequest]) -> Outcome:
        request = call.request
        by_id = self._context.image.by_id
        topics: dict[TopicPartition, Topic] = {}
        errors: dict[TopicPartition, ErrorCode] = {}
        for partition in request.offsets:
            topic = by_id.get(partition.topic_id)
            if topic is not None and 0 <= partition.partition < topic.partition_count:
                topics[partition] = topic
            else:
                errors[partition] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        try:
            self._check_producer(request)
            self._check_member(call, list(topics))
        except GroupError as refusal:
            errors |= dict.fromkeys(topics, refusal.code)
            return Outcome(TxnOffsetCommitResponse(errors=errors))
        errors |= dict.fromkeys(topics, ErrorCode.NONE)
        has_id = self._context.rules.writes_topic_id_of_txn_offsets
        wall_ms = call.now_ms + self._context.wall_offset_ms
        records = tuple(
            TxnOffsetCommit(
                request.group_id,
                topic.name,
                partition.partition,
                request.producer_id,
                request.producer_epoch,
                OffsetCommitValue(
                    request.offsets[partition],
                    wall_ms,
                    topic_id=topic.topic_id if has_id else None,
                ),
            )
            for partition, topic in topics.items()
        )
        return Outcome(TxnOffsetCommitResponse(errors=errors), records)

    def _check_producer(self, request: TxnOffsetCommitRequest) -> None:
        known = self._producers.get(request.producer_id)
        if known is not None and request.producer_epoch < known.producer_epoch:
            raise GroupError(ErrorCode.INVALID_PRODUCER_EPOCH)

    def _check_member(
        self, call: Call[TxnOffsetCommitRequest], partitions: list[TopicPartition]
    ) -> None:
        if not self._context.rules.fences_txn_commits:
            return
        if call.group is not None:
            self.types[type(call.group)].check_txn_commit(call.group, call.request, partitions)
        elif call.request.generation_id >= 0:
            raise GroupError(ErrorCode.ILLEGAL_GENERATION)

    def _write_marker(self, call: Call[WriteTxnMarkersRequest]) -> Outcome:
        request = call.request
        known = self._producers.get(request.producer_id)
        if known is not None:
            if request.producer_epoch < known.producer_epoch:
                return Outcome(WriteTxnMarkersResponse(error_code=ErrorCode.INVALID_PRODUCER_EPOCH))
            is_old = request.coordinator_epoch < known.coordinator_epoch
            if is_old and self._context.rules.fences_old_markers:
                return Outcome(
                    WriteTxnMarkersResponse(error_code=ErrorCode.TRANSACTION_COORDINATOR_FENCED)
                )
        marker = TransactionMarker(
            request.group_id,
            request.producer_id,
            request.producer_epoch,
            request.committed,
            request.coordinator_epoch,
        )
        return Outcome(WriteTxnMarkersResponse(), (marker,))
