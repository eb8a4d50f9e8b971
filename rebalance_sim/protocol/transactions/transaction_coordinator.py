"""The coordinator of transactions, for one partition of ``__transaction_state``.

What ends a transaction is written first; then its markers go to the coordinators of its groups, on
other brokers maybe, and are sent again until they are answered; then it is complete.
Source: transactions §2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, TypeVar

from rebalance_sim.protocol.runtime.context import CoordinatorContext
from rebalance_sim.protocol.runtime.group_type import Call, Component, Handler
from rebalance_sim.protocol.runtime.outcome import (
    CancelTimer,
    Continuation,
    Outcome,
    ScheduleTimer,
    TimerCommand,
    TimerKey,
    TimerKind,
)
from rebalance_sim.protocol.transactions.transaction import (
    PREPARING,
    completed,
    ended,
    fenced,
    initialised,
    verified,
    with_offsets,
)
from rebalance_sim.protocol.wire.errors import ErrorCode, GroupError
from rebalance_sim.protocol.wire.records import (
    TransactionMetadata,
    TransactionState,
    TransactionValue,
)
from rebalance_sim.protocol.wire.transaction_messages import (
    FIRST_VERSION_OF_TRANSACTIONS_2,
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    TxnMarker,
    TxnMarkerAnswered,
    TxnMarkerNoted,
    WriteTxnMarkersRequest,
)
from rebalance_sim.protocol.wire.value import value

ABORT_INTERVAL_MS = 10_000
"""``transaction.abort.timed.out.transaction.cleanup.interval.ms``: how often a broker looks for
transactions that have taken too long."""

MARKER_RETRY_MS = 100
"""How long after an answer that says no, or none, a marker is sent again."""

_GIVES_UP = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED})
"""Another coordinator, or a later transaction, has been there."""

_Request = TypeVar("_Request", AddOffsetsToTxnRequest, AddPartitionsToTxnRequest)

_PARTITIONS_MOST = 1_000
_IDS_OF_A_TERM = 1_000_000


class TransactionTimer(TimerKind):
    """Timers of a transactional id, which takes the place of a member id."""

    TIMEOUT = "transaction-timeout"
    MARKERS = "transaction-markers"

    @property
    def group_type(self) -> str:
        return "transactions"


@value
class Transaction:
    """A transactional id."""

    group_id: ClassVar[str] = ""
    transactional_id: str
    value: TransactionValue


@dataclass(slots=True)
class TermOfTransactions:
    """How many producer ids have been given out in this term; of transactions that end, the groups
    that have their markers."""

    producer_id_count: int = 0
    marked: dict[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Prepared(Continuation):
    """The decision is in the log: the markers may be written."""

    group_id: ClassVar[str] = ""
    transactional_id: str

    def committed(self, context: CoordinatorContext[Any], *, now_ms: int) -> Outcome:
        return Outcome(timers=(_markers_at(self.transactional_id, now_ms),))

    def write_failed(
        self, context: CoordinatorContext[Any], error: ErrorCode, *, is_undone: bool, now_ms: int
    ) -> Outcome:
        """Where it only took too long, it is in the log, and may still be committed: only then may
        markers say what it says."""
        return Outcome() if is_undone else Outcome(on_commit=self)


@dataclass(frozen=True, slots=True)
class _Marked(Continuation):
    """All markers are written, and this is to be in the log."""

    group_id: ClassVar[str] = ""
    transactional_id: str

    def write_failed(
        self, context: CoordinatorContext[Any], error: ErrorCode, *, is_undone: bool, now_ms: int
    ) -> Outcome:
        """The markers are sent again, which changes nothing where they are."""
        if not is_undone:
            return Outcome()
        return Outcome(timers=(_markers_at(self.transactional_id, now_ms + MARKER_RETRY_MS),))


class TransactionCoordinator(Component[Any]):
    """Requests of transactional producers."""

    timers = TransactionTimer
    records = (TransactionMetadata,)

    def __init__(self, context: CoordinatorContext[Any]) -> None:
        super().__init__(context)
        self._transactions: dict[Any, Transaction] = context.groups_of(Transaction)

    def handlers(self) -> Mapping[type, Handler]:
        return {
            InitProducerIdRequest: self._init_producer_id,
            AddOffsetsToTxnRequest: self._add_offsets,
            AddPartitionsToTxnRequest: self._add_partitions,
            EndTxnRequest: self._end,
            TxnMarkerAnswered: self._on_marker_answered,
        }

    def replay(self, record: TransactionMetadata, *, strict: bool) -> None:
        transactional_id = record.transactional_id
        self._transactions[transactional_id] = Transaction(
            transactional_id=transactional_id, value=record.value
        )

    # -- requests --------------------------------------------------------------------------

    def _init_producer_id(self, call: Call[InitProducerIdRequest]) -> Outcome:
        request = call.request
        known = self._known(request)
        try:
            begun = initialised(known, request, self._new_producer_id)
        except GroupError as refusal:
            refused = InitProducerIdResponse(error_code=refusal.code)
            is_ongoing = known is not None and known.state is TransactionState.ONGOING
            if refusal.code is ErrorCode.CONCURRENT_TRANSACTIONS and known and is_ongoing:
                return replace(self._ending(request, fenced(known)), response=refused)
            return Outcome(refused)
        response = InitProducerIdResponse(
            producer_id=begun.producer_id, producer_epoch=begun.producer_epoch
        )
        return Outcome(response, () if begun is known else (_record(request, begun),))

    def _add_offsets(self, call: Call[AddOffsetsToTxnRequest]) -> Outcome:
        return self._add_group(call, with_offsets, AddOffsetsToTxnResponse)

    def _add_partitions(self, call: Call[AddPartitionsToTxnRequest]) -> Outcome:
        return self._add_group(call, verified, AddPartitionsToTxnResponse)

    def _add_group(
        self,
        call: Call[_Request],
        added: Callable[..., TransactionValue],
        response: type[AddOffsetsToTxnResponse | AddPartitionsToTxnResponse],
    ) -> Outcome:
        """``added`` answers with the transaction that has the group, or raises GroupError."""
        request, known = call.request, self._known(call.request)
        wall_ms = call.now_ms + self._context.wall_offset_ms
        try:
            ongoing = added(known, request, wall_ms=wall_ms)
        except GroupError as refusal:
            return Outcome(response(error_code=refusal.code))
        if ongoing == known:
            return Outcome(response())
        timers = (self._timeout(request, ongoing, call.now_ms),)
        return Outcome(response(), (_record(request, ongoing),), timers)

    def _end(self, call: Call[EndTxnRequest]) -> Outcome:
        request = call.request
        known = self._known(request)
        try:
            ending = ended(known, request)
        except GroupError as refusal:
            return Outcome(EndTxnResponse(error_code=refusal.code))
        response = EndTxnResponse()
        if request.api_version >= FIRST_VERSION_OF_TRANSACTIONS_2:
            response = EndTxnResponse(
                producer_id=ending.producer_id, producer_epoch=ending.producer_epoch
            )
        if ending is known:
            return Outcome(response)
        if ending.state not in PREPARING:
            return Outcome(response, (_record(request, ending),))
        return replace(self._ending(request, ending), response=response)

    # -- time ------------------------------------------------------------------------------

    def fire(self, key: TimerKey, *, epoch: int, now_ms: int) -> Outcome:
        known = self._transactions.get(key.member_id)
        if known is None:
            return Outcome()
        transaction = known.value
        if key.kind is TransactionTimer.MARKERS and transaction.state in PREPARING:
            return Outcome(markers=self._markers(known))
        if (
            key.kind is TransactionTimer.TIMEOUT
            and transaction.state is TransactionState.ONGOING
            and self._context.rules.aborts_timed_out_transactions
        ):
            return self._ending(known, fenced(transaction))
        return Outcome()

    def _markers(self, known: Transaction) -> tuple[TxnMarker, ...]:
        transaction = known.value
        marked = self._term.marked.get(known.transactional_id, ())
        return tuple(
            TxnMarker(
                transactional_id=known.transactional_id,
                request=WriteTxnMarkersRequest(
                    group_id=group_id,
                    producer_id=transaction.producer_id,
                    producer_epoch=transaction.producer_epoch,
                    committed=transaction.state is TransactionState.PREPARE_COMMIT,
                    coordinator_epoch=self._context.term,
                ),
            )
            for group_id in transaction.group_ids
            if group_id not in marked
        )

    def _on_marker_answered(self, call: Call[TxnMarkerAnswered]) -> Outcome:
        """An answer to a marker of a transaction that is complete says nothing any more."""
        transactional_id = call.request.marker.transactional_id
        marker, code = call.request.marker.request, call.request.error_code
        noted = TxnMarkerNoted()
        known = self._transactions.get(transactional_id)
        if known is None or call.request.marker not in self._markers(known):
            return Outcome(noted)
        if known.value.state not in PREPARING or code in _GIVES_UP:
            return Outcome(noted)
        if code is not ErrorCode.NONE:
            return Outcome(
                noted, (), (_markers_at(transactional_id, call.now_ms + MARKER_RETRY_MS),)
            )
        marked = self._term.marked
        groups = (*marked.pop(transactional_id, ()), marker.group_id)
        if set(groups) < set(known.value.group_ids):
            marked[transactional_id] = groups
            return Outcome(noted)
        return Outcome(
            noted,
            (_record(known, completed(known.value)),),
            on_commit=_Marked(transactional_id),
        )

    def on_loaded(self, *, now_ms: int) -> Iterable[TimerCommand]:
        """What was decided is carried out; what is ongoing may time out."""
        for _, known in sorted(self._transactions.items()):
            if known.value.state in PREPARING:
                yield _markers_at(known.transactional_id, now_ms)
            elif known.value.state is TransactionState.ONGOING:
                yield self._timeout(known, known.value, now_ms)

    def _timeout(self, known: _Named, value: TransactionValue, now_ms: int) -> ScheduleTimer:
        ends_ms = value.started_ms - self._context.wall_offset_ms + value.transaction_timeout_ms
        due_ms = max(ends_ms, now_ms + 1)
        at_ms = -(-due_ms // ABORT_INTERVAL_MS) * ABORT_INTERVAL_MS
        return ScheduleTimer(_key(TransactionTimer.TIMEOUT, known), at_ms)

    # -- helpers ---------------------------------------------------------------------------

    def _ending(self, named: _Named, ending: TransactionValue) -> Outcome:
        return Outcome(
            None,
            (_record(named, ending),),
            (CancelTimer(_key(TransactionTimer.TIMEOUT, named)),),
            on_commit=_Prepared(named.transactional_id),
        )

    def _known(self, request: _Named) -> TransactionValue | None:
        known = self._transactions.get(request.transactional_id)
        return None if known is None else known.value

    def _new_producer_id(self) -> int:
        """Another in each term of each partition. Kafka's brokers get them from the controller."""
        term = self._term
        term.producer_id_count += 1
        block = self._context.term * _PARTITIONS_MOST + self._context.partition
        return block * _IDS_OF_A_TERM + term.producer_id_count

    @property
    def _term(self) -> TermOfTransactions:
        return self._context.part(TermOfTransactions)


_Named = (
    Transaction
    | InitProducerIdRequest
    | AddOffsetsToTxnRequest
    | AddPartitionsToTxnRequest
    | EndTxnRequest
)
"""What names a transactional id."""


def _record(named: _Named, value: TransactionValue) -> TransactionMetadata:
    return TransactionMetadata(named.transactional_id, value)


def _key(kind: TransactionTimer, named: _Named) -> TimerKey:
    return TimerKey(kind, "", named.transactional_id)


def _markers_at(transactional_id: str, at_ms: int) -> ScheduleTimer:
    return ScheduleTimer(TimerKey(TransactionTimer.MARKERS, "", transactional_id), at_ms)
