"""What a broker asks before offsets, or records, of a transaction are taken.

Source: transactions §2.3 (``AddPartitionsToTxnManager``, ``VerificationGuard``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rebalance_sim.protocol.hosting.error_answers import error_answer
from rebalance_sim.protocol.hosting.ports import Reply
from rebalance_sim.protocol.hosting.shard import Shard
from rebalance_sim.protocol.wire.consumer_messages import Response
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.transaction_messages import (
    FIRST_VERSION_OF_TRANSACTIONS_2,
    FIRST_VERSION_WITH_ABORTABLE,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    TxnMarker,
    TxnMarkerAnswered,
    TxnOffsetCommitRequest,
    WriteTxnMarkersResponse,
)

_PASSED_ON = {
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}
"""Of the coordinator of transactions; to the client they are of that of its group."""
_ASKED_AGAIN = frozenset({*_PASSED_ON, ErrorCode.COORDINATOR_NOT_AVAILABLE})


def error_of_write(code: ErrorCode, *, verify_only: bool) -> ErrorCode:
    """What the leader of a partition answers a producer after this answer to its question about
    the transaction, NETWORK_EXCEPTION if there was none; NONE: the records may be written
    (transactions §5)."""
    is_concurrent = code is ErrorCode.CONCURRENT_TRANSACTIONS
    if code in _ASKED_AGAIN or (is_concurrent and verify_only):
        return ErrorCode.NOT_ENOUGH_REPLICAS
    return code


class Verification:
    """A request whose transaction is being asked about, at the shard that is to handle it. If a
    marker comes meanwhile that ends it, the answer is of a transaction that is no more."""

    def __init__(self, request: TxnOffsetCommitRequest, shard: Shard) -> None:
        self.request = request
        self.question = AddPartitionsToTxnRequest(
            group_id=request.group_id,
            transactional_id=request.transactional_id,
            producer_id=request.producer_id,
            producer_epoch=request.producer_epoch,
            verify_only=request.api_version < FIRST_VERSION_OF_TRANSACTIONS_2,
        )
        self._shard = shard
        self._coordinator = shard.coordinator
        self._markers_then = self._markers()

    def refusal(self, code: ErrorCode) -> Response | None:
        """What the client is answered after this answer to the question, NETWORK_EXCEPTION if there
        was none; None: its request is to be handled now."""
        if code is ErrorCode.NONE:
            if self._shard.coordinator is self._coordinator:
                is_over = self._markers() != self._markers_then
            else:
                is_over = self._shard.is_active
            if not is_over:
                return None
            code = ErrorCode.INVALID_TXN_STATE
        knows_abortable = self.request.api_version >= FIRST_VERSION_WITH_ABORTABLE
        if code is ErrorCode.TRANSACTION_ABORTABLE and not knows_abortable:
            code = ErrorCode.INVALID_TXN_STATE
        return error_answer(self.request, _PASSED_ON.get(code, code))

    def _markers(self) -> int:
        markers = self._shard.coordinator.offsets.pending.markers_of(self.request.producer_id)
        return markers.seen_by(self.request.producer_epoch, verify_only=self.question.verify_only)


def handle_verified(
    request: Any, reply: Reply, *, shard: Shard, handle: Callable[[Any, Reply], None]
) -> None:
    """Handle a request at a shard that is the coordinator of groups and of transactions: it asks
    itself first about offsets that belong to one. ``handle`` hands a request to it."""
    if type(request) is not TxnOffsetCommitRequest:
        handle(request, reply)
        return
    verification = Verification(request, shard)

    def on_verified(answer: AddPartitionsToTxnResponse) -> None:
        refusal = verification.refusal(answer.error_code)
        if refusal is None:
            handle(request, reply)
        else:
            reply(refusal)

    handle(verification.question, on_verified)


def write_marker(marker: TxnMarker, handle: Callable[[Any, Reply], None]) -> None:
    """The same shard has a marker written by itself, and learns the answer."""

    def on_answer(answer: WriteTxnMarkersResponse) -> None:
        handle(TxnMarkerAnswered(marker=marker, error_code=answer.error_code), lambda _: None)

    handle(marker.request, on_answer)
