"""A transactional producer: which request comes next, and what an error makes of it."""

from __future__ import annotations

from typing import Any

import pytest

from rebalance_sim.protocol.transactions.producer import (
    GroupMetadata,
    ProducerState,
    TransactionalProducer,
    TransactionEnd,
)
from rebalance_sim.protocol.wire.errors import ErrorCode, ProtocolBug
from rebalance_sim.protocol.wire.topics import TopicPartition
from rebalance_sim.protocol.wire.transaction_messages import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)

P0, P1 = TopicPartition("foo", 0), TopicPartition("foo", 1)
MEMBER = GroupMetadata(generation_id=3, member_id="A")


def ready(version: int = 2) -> TransactionalProducer:
    producer = TransactionalProducer(
        group_id="g", transactional_id="t", transaction_timeout_ms=1_000, version=version
    )
    answer(producer, InitProducerIdResponse(producer_id=7, producer_epoch=4))
    return producer


def answer(producer: TransactionalProducer, response: Any) -> ErrorCode:
    assert producer.request is not None
    return producer.on_answer(producer.request, response)


def offsets_answered(code: ErrorCode = ErrorCode.NONE) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(errors={P0: ErrorCode.NONE, P1: code})


def sending(version: int = 2) -> TransactionalProducer:
    producer = ready(version)
    producer.send_offsets({P0: 10, P1: 20}, MEMBER)
    if version == 1:
        assert type(producer.request) is AddOffsetsToTxnRequest
        answer(producer, AddOffsetsToTxnResponse())
    return producer


@pytest.mark.parametrize(("version", "epoch"), [(1, 4), (2, 5)])
def test_each_transaction_of_version_2_has_an_epoch_of_its_own(version: int, epoch: int) -> None:
    producer = sending(version)
    request = producer.request
    assert type(request) is TxnOffsetCommitRequest
    assert (request.member_id, request.generation_id, request.producer_epoch) == ("A", 3, 4)
    answer(producer, offsets_answered())
    request = producer.request
    assert type(request) is EndTxnRequest
    assert request.committed
    next_epoch = EndTxnResponse(producer_id=7, producer_epoch=5)
    answer(producer, next_epoch if version == 2 else EndTxnResponse())
    assert producer.ended is TransactionEnd.COMMITTED
    assert (producer.producer_id, producer.producer_epoch) == (7, epoch)
    assert producer.request is None


@pytest.mark.parametrize(
    "code",
    [ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID],
)
def test_offsets_of_a_fenced_member_abort_the_transaction(code: ErrorCode) -> None:
    producer = sending()
    assert answer(producer, offsets_answered(code)) is code
    request = producer.request
    assert type(request) is EndTxnRequest
    assert not request.committed
    answer(producer, EndTxnResponse(producer_id=7, producer_epoch=5))
    assert producer.ended is TransactionEnd.ABORTED


def test_a_retriable_error_repeats_the_request_and_one_for_good_counts_before_it() -> None:
    producer = sending()
    before = producer.request
    answer(producer, offsets_answered(ErrorCode.CONCURRENT_TRANSACTIONS))
    assert producer.request == before
    both = {P0: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, P1: ErrorCode.ILLEGAL_GENERATION}
    answer(producer, TxnOffsetCommitResponse(errors=both))
    assert producer.state is ProducerState.ABORTING


@pytest.mark.parametrize(
    "code",
    [ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_TXN_STATE],
)
def test_a_fenced_producer_asks_for_nothing_any_more(code: ErrorCode) -> None:
    producer = sending()
    answer(producer, offsets_answered())
    answer(producer, EndTxnResponse(error_code=code))
    assert producer.state is ProducerState.FENCED
    assert producer.request is None


def test_offsets_that_wait_for_too_long_abort_and_a_decision_does_not() -> None:
    producer = sending()
    producer.abort()
    assert producer.state is ProducerState.ABORTING
    producer = sending()
    answer(producer, offsets_answered())
    producer.abort()
    assert producer.state is ProducerState.COMMITTING


def test_a_late_answer_to_another_request_changes_nothing() -> None:
    producer = sending()
    old = InitProducerIdRequest(transactional_id="t")
    assert producer.on_answer(old, InitProducerIdResponse(producer_id=9)) is ErrorCode.NONE
    assert producer.producer_id == 7


def test_one_transaction_at_a_time() -> None:
    with pytest.raises(ProtocolBug, match="sendOffsetsToTransaction"):
        sending().send_offsets({P0: 11}, MEMBER)
