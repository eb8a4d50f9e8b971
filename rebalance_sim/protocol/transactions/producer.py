"""A transactional producer, as a read-process-write application uses it: one transaction at a time.

Source: transactions §4 (``KafkaProducer``, ``TransactionManager``). The host sends ``request``
whenever there is one, and hands in what came of it; it retries after ``retry.backoff.ms``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from rebalance_sim.protocol.wire.errors import ErrorCode, ProtocolBug
from rebalance_sim.protocol.wire.topics import TopicPartition
from rebalance_sim.protocol.wire.transaction_messages import (
    FIRST_VERSION_OF_TRANSACTIONS_2,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    DataPartition,
    EndTxnRequest,
    InitProducerIdRequest,
    TransactionRequest,
    TransactionResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)

_RETRIABLE = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
    }
)
_FENCED = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.INVALID_TRANSACTION_TIMEOUT,
    }
)
MOVED = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
"""Errors after which the coordinator is looked up again."""


class ProducerState(Enum):
    """Where it stands; the value is for messages."""

    INITIALIZING = "initTransactions"
    READY = "ready"
    ADDING_PARTITION = "AddPartitionsToTxn"
    ADDING_OFFSETS = "AddOffsetsToTxn"
    SENDING_OFFSETS = "sendOffsetsToTransaction"
    COMMITTING = "commitTransaction"
    ABORTING = "abortTransaction"
    FENCED = "fenced"


_OPEN = frozenset(
    {
        ProducerState.READY,
        ProducerState.ADDING_PARTITION,
        ProducerState.ADDING_OFFSETS,
        ProducerState.SENDING_OFFSETS,
    }
)
"""In which a transaction may be open and has not begun to end."""


class TransactionEnd(Enum):
    """What has become of a transaction."""

    COMMITTED = "committed"
    ABORTED = "aborted"


@dataclass(frozen=True, slots=True)
class GroupMetadata:
    """``consumer.groupMetadata()``: whom the offsets are from (KIP-447)."""

    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


class TransactionalProducer:
    """``version``: 1, or 2 for that of KIP-890, which adds the group to a transaction with its
    offsets, and has another epoch for each transaction."""

    def __init__(
        self, *, group_id: str, transactional_id: str, transaction_timeout_ms: int, version: int
    ) -> None:
        self.group_id = group_id
        self.transactional_id = transactional_id
        self.state = ProducerState.INITIALIZING
        self.producer_id = NO_PRODUCER_ID
        self.producer_epoch = NO_PRODUCER_EPOCH
        self.ended: TransactionEnd | None = None
        """What became of the transaction before; None while there is one, or was none."""
        self._timeout_ms = transaction_timeout_ms
        self._is_version_2 = version >= 2
        self._offsets: Mapping[TopicPartition, int] = {}
        self._metadata = GroupMetadata()
        self._partitions: dict[DataPartition, None] = {}
        """Those that the transaction has records of; of version 1, as far as they are added."""
        self._adding: DataPartition | None = None

    def may_write(self, partition: DataPartition) -> bool:
        """Whether a record may be sent to this partition now; else it is being added to the
        transaction, or waits for another one that is. The first begins the transaction."""
        if partition in self._partitions:
            return self.state is not ProducerState.FENCED
        if self.state is not ProducerState.READY:
            return False
        if self._is_version_2:
            self._partitions[partition] = None
            return True
        self._adding, self.state = partition, ProducerState.ADDING_PARTITION
        return False

    @property
    def has_begun(self) -> bool:
        """Whether the transaction has records."""
        return bool(self._partitions)

    @property
    def adds_partitions(self) -> bool:
        """Whether records add their partition to the transaction (KIP-890)."""
        return self._is_version_2

    def on_write_answered(self, code: ErrorCode) -> bool:
        """The answer to a Produce of the present transaction; whether its records are to be sent
        again. After an error that is final the transaction can but abort."""
        if code in _RETRIABLE:
            return True
        if code is not ErrorCode.NONE and self.state is not ProducerState.FENCED:
            self.state = ProducerState.ABORTING
        return False

    def send_offsets(self, offsets: Mapping[TopicPartition, int], metadata: GroupMetadata) -> None:
        """Begin a transaction, unless records have, add these offsets, and commit it; it aborts
        where the group refuses them. Raises ProtocolBug if it is not ready."""
        if self.state is not ProducerState.READY:
            raise ProtocolBug(f"a transaction cannot begin: the producer is {self.state.value}")
        self.ended = None
        self._offsets, self._metadata = offsets, metadata
        self.state = (
            ProducerState.SENDING_OFFSETS if self._is_version_2 else ProducerState.ADDING_OFFSETS
        )

    def abort(self) -> None:
        """Offsets or records have waited for too long (``max.block.ms``), or count no more."""
        if self.state in _OPEN:
            self.ended = None
            self.state = ProducerState.ABORTING

    @property
    def request(self) -> TransactionRequest | None:
        """What it wants answered now; None if it waits for its application, or is fenced."""
        if self.state is ProducerState.INITIALIZING:
            return InitProducerIdRequest(
                transactional_id=self.transactional_id, transaction_timeout_ms=self._timeout_ms
            )
        producer: dict[str, Any] = {
            "transactional_id": self.transactional_id,
            "producer_id": self.producer_id,
            "producer_epoch": self.producer_epoch,
        }
        version: dict[str, Any] = {}
        if self._is_version_2:
            version["api_version"] = FIRST_VERSION_OF_TRANSACTIONS_2
        if self.state is ProducerState.ADDING_PARTITION and self._adding is not None:
            data = self._adding.group_id
            return AddPartitionsToTxnRequest(group_id=data, **producer, verify_only=False)
        if self.state is ProducerState.ADDING_OFFSETS:
            return AddOffsetsToTxnRequest(group_id=self.group_id, **producer)
        if self.state is ProducerState.SENDING_OFFSETS:
            return TxnOffsetCommitRequest(
                group_id=self.group_id,
                **producer,
                **version,
                offsets=self._offsets,
                generation_id=self._metadata.generation_id,
                member_id=self._metadata.member_id,
                group_instance_id=self._metadata.group_instance_id,
            )
        if self.state in (ProducerState.COMMITTING, ProducerState.ABORTING):
            commits = self.state is ProducerState.COMMITTING
            return EndTxnRequest(**producer, **version, committed=commits)
        return None

    def on_answer(self, request: TransactionRequest, response: TransactionResponse) -> ErrorCode:
        """The answer to ``request``; its error, NONE if it says yes. One to something that the
        producer is past changes nothing."""
        code = _code_of(response)
        if request != self.request:
            return ErrorCode.NONE
        if code is ErrorCode.NONE:
            self._succeed(response)
        elif code in _FENCED:
            self.state = ProducerState.FENCED
        elif code not in _RETRIABLE:
            # The group does not take offsets of such a member (CommitFailedException).
            self.state = ProducerState.ABORTING
        return code

    def _succeed(self, response: Any) -> None:
        if self.state is ProducerState.ADDING_PARTITION and self._adding is not None:
            self._partitions[self._adding] = None
            self.state = ProducerState.READY
        elif self.state is ProducerState.ADDING_OFFSETS:
            self.state = ProducerState.SENDING_OFFSETS
        elif self.state is ProducerState.SENDING_OFFSETS:
            self.state = ProducerState.COMMITTING
        else:
            if self.state is ProducerState.COMMITTING:
                self.ended = TransactionEnd.COMMITTED
            elif self.state is ProducerState.ABORTING:
                self.ended = TransactionEnd.ABORTED
            self.state = ProducerState.READY
            self._partitions.clear()
            if response.producer_id != NO_PRODUCER_ID:
                self.producer_id = response.producer_id
                self.producer_epoch = response.producer_epoch


def _code_of(response: TransactionResponse) -> ErrorCode:
    """Of an answer by partitions: what is worst for the transaction."""
    if not isinstance(response, TxnOffsetCommitResponse):
        return response.error_code
    codes = set(response.errors.values()) - {ErrorCode.NONE}
    final = codes - _RETRIABLE
    return min(final or codes, default=ErrorCode.NONE)
