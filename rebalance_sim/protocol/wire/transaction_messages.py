"""Requests and responses of transactions, as frozen values.

Field names are Kafka's in snake case. InitProducerId, AddOffsetsToTxn and EndTxn go to the
coordinator of transactions, TxnOffsetCommit to that of the group. ``api_version`` 5 of
TxnOffsetCommit and EndTxn is the first of transactions of version 2 (KIP-890). Brokers send
AddPartitionsToTxn and WriteTxnMarkers to each other; a group stands for its partition of
``__consumer_offsets`` in them, and ``DataPartition`` for a partition with records.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, NamedTuple

from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.topics import TopicPartition
from rebalance_sim.protocol.wire.value import value

FIRST_VERSION_OF_TRANSACTIONS_2 = 5
"""Of TxnOffsetCommit and EndTxn."""

FIRST_VERSION_WITH_ABORTABLE = 4
"""Of TxnOffsetCommit: what does not belong to a transaction is TRANSACTION_ABORTABLE from it on."""

NO_PRODUCER_ID = NO_PRODUCER_EPOCH = -1

DEFAULT_TRANSACTION_TIMEOUT_MS = 60_000
"""``transaction.timeout.ms`` of a producer."""

OF_DATA = "\0"
"""Begins what stands for a partition with records in place of a group."""


class DataPartition(NamedTuple):
    """A partition with records, as transactions name it: like a group that no client can have."""

    topic_id: str
    number: int

    @property
    def group_id(self) -> str:
        """What stands for it in place of a group."""
        return f"{OF_DATA}{self.topic_id}{OF_DATA}{self.number}"

    @classmethod
    def of(cls, group_id: str) -> DataPartition | None:
        """The same back; None for a group."""
        if not group_id.startswith(OF_DATA):
            return None
        _, topic_id, number = group_id.split(OF_DATA)
        return cls(topic_id, int(number))


@value
class InitProducerIdRequest:
    """Api key 22. With ``producer_id`` and ``producer_epoch`` the producer continues with what it
    has, from version 3 on; without, it begins."""

    group_id: ClassVar[str] = ""
    transactional_id: str
    transaction_timeout_ms: int = DEFAULT_TRANSACTION_TIMEOUT_MS
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


@value
class InitProducerIdResponse:
    """Answer to api key 22."""

    error_code: ErrorCode = ErrorCode.NONE
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


@value
class AddOffsetsToTxnRequest:
    """Api key 25: the group is part of the transaction, which begins if there is none."""

    group_id: str
    transactional_id: str
    producer_id: int
    producer_epoch: int


@value
class AddOffsetsToTxnResponse:
    """Answer to api key 25."""

    error_code: ErrorCode = ErrorCode.NONE


@value
class TxnOffsetCommitRequest:
    """Api key 28. ``offsets``: partition -> offset of the next record to read. Who does not name a
    member is not checked to be one (KIP-447)."""

    group_id: str
    transactional_id: str
    producer_id: int
    producer_epoch: int
    offsets: Mapping[TopicPartition, int]
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
    api_version: int = 3


@value
class TxnOffsetCommitResponse:
    """Answer to api key 28: partition -> error code, NONE where the offset is pending."""

    errors: Mapping[TopicPartition, ErrorCode]


@value
class EndTxnRequest:
    """Api key 26. ``committed``: the transaction is to commit; else it aborts."""

    group_id: ClassVar[str] = ""
    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool
    api_version: int = 3


@value
class EndTxnResponse:
    """Answer to api key 26. From version 5 on it has the epoch of the next transaction."""

    error_code: ErrorCode = ErrorCode.NONE
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


@value
class AddPartitionsToTxnRequest:
    """Api key 24. The broker of a group asks whether its offsets belong to a transaction; without
    ``verify_only`` they are added to it."""

    group_id: str
    transactional_id: str
    producer_id: int
    producer_epoch: int
    verify_only: bool


@value
class AddPartitionsToTxnResponse:
    """Answer to api key 24."""

    error_code: ErrorCode = ErrorCode.NONE


@value
class WriteTxnMarkersRequest:
    """Api key 27: what the producer has pending in the group counts, or is dropped."""

    group_id: str
    producer_id: int
    producer_epoch: int
    committed: bool
    coordinator_epoch: int


@value
class WriteTxnMarkersResponse:
    """Answer to api key 27."""

    error_code: ErrorCode = ErrorCode.NONE


@value
class ProduceRequest:
    """Api key 0, reduced to the records of one transaction for one partition: how many, and the
    number of the first among those that its producer has written there at this epoch. With
    ``adds_partition`` they add the partition to the transaction (version 12, KIP-890)."""

    group_id: ClassVar[str] = ""
    partition: TopicPartition
    transactional_id: str
    producer_id: int
    producer_epoch: int
    sequence: int
    record_count: int
    adds_partition: bool


@value
class ProduceResponse:
    """Answer to api key 0."""

    error_code: ErrorCode = ErrorCode.NONE


@value
class RecordsWritten:
    """What the leader of a partition has appended: the records of a transaction from ``first`` on,
    or, where ``committed`` says how, the marker that ends it there."""

    partition: TopicPartition
    producer_id: int
    producer_epoch: int
    first: int
    end: int
    committed: bool | None = None


@value
class TxnMarker:
    """A marker that a coordinator of transactions wants written, for which transactional id."""

    transactional_id: str
    request: WriteTxnMarkersRequest


@value
class TxnMarkerAnswered:
    """No request of Kafka's: its host tells the coordinator of transactions what the answer to a
    marker was, NETWORK_EXCEPTION if there was none."""

    group_id: ClassVar[str] = ""
    marker: TxnMarker
    error_code: ErrorCode = ErrorCode.NONE


@value
class TxnMarkerNoted:
    """What it says to that."""


TransactionRequest = (
    InitProducerIdRequest
    | AddPartitionsToTxnRequest
    | AddOffsetsToTxnRequest
    | TxnOffsetCommitRequest
    | EndTxnRequest
)
"""What producers ask."""

TransactionResponse = (
    InitProducerIdResponse
    | AddPartitionsToTxnResponse
    | AddOffsetsToTxnResponse
    | TxnOffsetCommitResponse
    | EndTxnResponse
)
BrokerRequest = AddPartitionsToTxnRequest | WriteTxnMarkersRequest | TxnMarkerAnswered
BrokerResponse = AddPartitionsToTxnResponse | WriteTxnMarkersResponse | TxnMarkerNoted

TO_TRANSACTION_COORDINATOR = frozenset(
    {InitProducerIdRequest, AddOffsetsToTxnRequest, EndTxnRequest, AddPartitionsToTxnRequest}
)
"""The requests that go where their transactional id is."""
