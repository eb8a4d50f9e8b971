"""What a broker asks before its group coordinator takes offsets that belong to a transaction.

Source: transactions §2.3 (``AddPartitionsToTxnManager``, ``VerificationGuard``).
"""

from __future__ import annotations

from rebalance_sim.protocol.hosting.error_answers import error_answer
from rebalance_sim.protocol.hosting.shard import Shard
from rebalance_sim.protocol.wire.consumer_messages import Response
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.transaction_messages import (
    FIRST_VERSION_OF_TRANSACTIONS_2,
    FIRST_VERSION_WITH_ABORTABLE,
    AddPartitionsToTxnRequest,
    TxnOffsetCommitRequest,
)

_PASSED_ON = {
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}
"""Of the coordinator of transactions; to the client they are of that of its group."""


class Verification:
    """A request whose transaction is being asked about, at the shard that is to handle it. If a
    marker of the producer comes meanwhile, the answer is of a transaction that is no more."""

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
        self._marker_count = self._markers()

    def refusal(self, code: ErrorCode) -> Response | None:
        """What the client is answered after this answer to the question, NETWORK_EXCEPTION if there
        was none; None: its request is to be handled now."""
        if code is ErrorCode.NONE:
            if self._shard.coordinator is self._coordinator:
                is_over = self._markers() != self._marker_count
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
        return self._shard.coordinator.offsets.pending.marker_count(self.request.producer_id)
