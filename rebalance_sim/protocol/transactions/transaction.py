"""A transactional id, and what requests and time do to it: values in, values out.

Source: transactions §2. ``Refused`` carries the error that a request is answered with.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from rebalance_sim.protocol.wire.errors import ErrorCode, GroupError
from rebalance_sim.protocol.wire.records import TransactionState, TransactionValue
from rebalance_sim.protocol.wire.transaction_messages import (
    FIRST_VERSION_OF_TRANSACTIONS_2,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
)

TRANSACTION_MAX_TIMEOUT_MS = 900_000
"""``transaction.max.timeout.ms`` of brokers."""

LAST_EPOCH = 32_766
"""A producer id whose epoch is this one is replaced by another id."""

_S = TransactionState
PREPARING = frozenset({_S.PREPARE_COMMIT, _S.PREPARE_ABORT})
_PREPARE = {True: _S.PREPARE_COMMIT, False: _S.PREPARE_ABORT}
_COMPLETE = {True: _S.COMPLETE_COMMIT, False: _S.COMPLETE_ABORT}


def initialised(
    known: TransactionValue | None,
    request: InitProducerIdRequest,
    new_producer_id: Callable[[], int],
) -> TransactionValue:
    """The producer begins, or continues with a higher epoch. Raises GroupError; an ongoing
    transaction has to be fenced first (``fenced``)."""
    timeout_ms = request.transaction_timeout_ms
    if not 0 < timeout_ms <= TRANSACTION_MAX_TIMEOUT_MS:
        raise GroupError(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
    if known is None:
        return _begun(new_producer_id(), 0, NO_PRODUCER_EPOCH, timeout_ms)
    epoch = known.producer_epoch
    is_named = request.producer_id != NO_PRODUCER_ID
    if is_named and request.producer_id != known.producer_id:
        raise GroupError(ErrorCode.PRODUCER_FENCED)
    # Before the epoch is looked at: an old one, too, aborts what is ongoing.
    if known.state in PREPARING or known.state is _S.ONGOING:
        raise GroupError(ErrorCode.CONCURRENT_TRANSACTIONS)
    if is_named and request.producer_epoch not in (epoch, known.previous_epoch):
        raise GroupError(ErrorCode.PRODUCER_FENCED)
    if is_named and request.producer_epoch != epoch:
        return known  # The answer to the same request was lost.
    if epoch >= LAST_EPOCH:
        return _begun(new_producer_id(), 0, NO_PRODUCER_EPOCH, timeout_ms)
    previous = epoch if is_named else NO_PRODUCER_EPOCH
    return _begun(known.producer_id, epoch + 1, previous, timeout_ms)


def with_offsets(
    known: TransactionValue | None, request: AddOffsetsToTxnRequest, *, wall_ms: int
) -> TransactionValue:
    """The group is part of the transaction. Raises GroupError."""
    known = _of_producer(known, request.producer_id)
    if request.producer_epoch != known.producer_epoch:
        raise GroupError(ErrorCode.PRODUCER_FENCED)
    if known.state in PREPARING:
        raise GroupError(ErrorCode.CONCURRENT_TRANSACTIONS)
    return _ongoing(known, request.group_id, wall_ms)


def verified(
    known: TransactionValue | None, request: AddPartitionsToTxnRequest, *, wall_ms: int
) -> TransactionValue:
    """The group's broker asks whether its offsets belong to an ongoing transaction; those of
    version 2 begin one. Raises GroupError."""
    known = _of_producer(known, request.producer_id)
    if request.producer_epoch != known.producer_epoch:
        raise GroupError(ErrorCode.INVALID_PRODUCER_EPOCH)
    if known.state in PREPARING:
        raise GroupError(ErrorCode.CONCURRENT_TRANSACTIONS)
    if not request.verify_only:
        return _ongoing(known, request.group_id, wall_ms)
    if known.state is not _S.ONGOING or request.group_id not in known.group_ids:
        raise GroupError(ErrorCode.TRANSACTION_ABORTABLE)
    return known


def ended(known: TransactionValue | None, request: EndTxnRequest) -> TransactionValue:
    """The transaction commits or aborts; unchanged where it has already. Raises GroupError."""
    known = _of_producer(known, request.producer_id)
    is_version_2 = request.api_version >= FIRST_VERSION_OF_TRANSACTIONS_2
    epoch = known.producer_epoch
    is_repeated = is_version_2 and known.previous_epoch == request.producer_epoch != epoch
    if request.producer_epoch != epoch and not is_repeated:
        raise GroupError(ErrorCode.PRODUCER_FENCED)
    if known.state in PREPARING and not is_repeated and is_version_2:
        raise GroupError(ErrorCode.CONCURRENT_TRANSACTIONS)
    if known.state is _S.ONGOING and not is_repeated:
        ending = replace(known, state=_PREPARE[request.committed])
        if is_version_2:
            ending = replace(ending, producer_epoch=epoch + 1, previous_epoch=epoch)
        return ending
    may_be_repeated = is_repeated or not is_version_2
    if may_be_repeated and known.state is _PREPARE[request.committed]:
        raise GroupError(ErrorCode.CONCURRENT_TRANSACTIONS)
    if may_be_repeated and known.state is _COMPLETE[request.committed]:
        return known
    if is_version_2 and not is_repeated and not request.committed and known.state not in PREPARING:
        return replace(
            known, state=_S.COMPLETE_ABORT, producer_epoch=epoch + 1, previous_epoch=epoch
        )
    raise GroupError(ErrorCode.INVALID_TXN_STATE)


def fenced(known: TransactionValue) -> TransactionValue:
    """An ongoing transaction aborts, and its producer is fenced by a higher epoch: a successor has
    come, or it has taken too long."""
    return replace(
        known,
        state=_S.PREPARE_ABORT,
        producer_epoch=known.producer_epoch + 1,
        previous_epoch=known.producer_epoch,
    )


def completed(known: TransactionValue) -> TransactionValue:
    """The markers are written."""
    return replace(
        known,
        state=_COMPLETE[known.state is _S.PREPARE_COMMIT],
        group_ids=(),
        started_ms=0,
    )


def _begun(producer_id: int, epoch: int, previous_epoch: int, timeout_ms: int) -> TransactionValue:
    return TransactionValue(
        producer_id=producer_id,
        producer_epoch=epoch,
        previous_epoch=previous_epoch,
        transaction_timeout_ms=timeout_ms,
        state=_S.EMPTY,
    )


def _ongoing(known: TransactionValue, group_id: str, wall_ms: int) -> TransactionValue:
    if known.state is not _S.ONGOING:
        return replace(known, state=_S.ONGOING, group_ids=(group_id,), started_ms=wall_ms)
    if group_id in known.group_ids:
        return known
    return replace(known, group_ids=tuple(sorted((*known.group_ids, group_id))))


def _of_producer(known: TransactionValue | None, producer_id: int) -> TransactionValue:
    if known is None or known.producer_id != producer_id:
        raise GroupError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    return known
