"""The coordinator of transactions, for the transactional ids that read for the groups of a shard.

Kafka keeps transactional ids in partitions of ``__transaction_state``, with coordinators of their
own. The model has those of a group where the group is, in the same log: between what ends a
transaction (the first record) and its marker (the next one) the broker may still fail, but no
network lies between them (transactions §1).
Source: transactions §2, §3.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

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
    OffsetCommitValue,
    TransactionMarker,
    TransactionMetadata,
    TransactionState,
    TransactionValue,
    TxnOffsetCommit,
)
from rebalance_sim.protocol.wire.topics import Topic, TopicPartition
from rebalance_sim.protocol.wire.transaction_messages import (
    FIRST_VERSION_OF_TRANSACTIONS_2,
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from rebalance_sim.protocol.wire.value import value

ABORT_INTERVAL_MS = 10_000
"""``transaction.abort.timed.out.transaction.cleanup.interval.ms``: how often a broker looks for
transactions that have taken too long."""

_IDS_OF_A_TERM = 1_000_000


class TransactionTimer(TimerKind):
    """Timers of a transactional id, which takes the place of a member id."""

    TIMEOUT = "transaction-timeout"
    COMPLETE = "transaction-complete"

    @property
    def group_type(self) -> str:
        return "transactions"


@value
class Transaction:
    """A transactional id, with the group that it reads for."""

    group_id: str
    transactional_id: str
    value: TransactionValue


@dataclass(slots=True)
class ProducerIds:
    """How many producer ids have been given out in this term."""

    count: int = 0


@dataclass(frozen=True, slots=True)
class _Prepared(Continuation):
    """The decision is in the log: the markers may be written."""

    group_id: str
    transactional_id: str

    def committed(self, context: CoordinatorContext[Any], *, now_ms: int) -> Outcome:
        key = TimerKey(TransactionTimer.COMPLETE, self.group_id, self.transactional_id)
        return Outcome(timers=(ScheduleTimer(key, now_ms),))

    def write_failed(
        self, context: CoordinatorContext[Any], error: ErrorCode, *, is_undone: bool, now_ms: int
    ) -> Outcome:
        """Where it only took too long, the decision is in the log, and its markers will be behind
        it; they are lost together, or not at all."""
        return Outcome() if is_undone else self.committed(context, now_ms=now_ms)


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
            TxnOffsetCommitRequest: self._commit_offsets,
            EndTxnRequest: self._end,
        }

    def replay(self, record: TransactionMetadata, *, strict: bool) -> None:
        group_id, transactional_id = record.group_id, record.transactional_id
        self._transactions[group_id, transactional_id] = Transaction(
            group_id=group_id, transactional_id=transactional_id, value=record.value
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
        request = call.request
        try:
            ongoing = with_offsets(self._known(request), request, wall_ms=self._wall_ms(call))
        except GroupError as refusal:
            return Outcome(AddOffsetsToTxnResponse(error_code=refusal.code))
        return replace(
            self._changed(request, ongoing, call.now_ms), response=AddOffsetsToTxnResponse()
        )

    def _commit_offsets(self, call: Call[TxnOffsetCommitRequest]) -> Outcome:
        """What a broker asks the coordinator of transactions first is asked here: is there such a
        transaction? Then the group decides."""
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
            ongoing = verified(self._known(request), request, wall_ms=self._wall_ms(call))
        except GroupError as refusal:
            errors |= dict.fromkeys(topics, refusal.code)
            return Outcome(TxnOffsetCommitResponse(errors=errors))
        outcome = self._changed(request, ongoing, call.now_ms)
        try:
            self._check_member(call, list(topics))
        except GroupError as refusal:
            errors |= dict.fromkeys(topics, refusal.code)
            return replace(outcome, response=TxnOffsetCommitResponse(errors=errors))
        errors |= dict.fromkeys(topics, ErrorCode.NONE)
        has_id = self._context.rules.writes_topic_id_of_txn_offsets
        offsets = tuple(
            TxnOffsetCommit(
                request.group_id,
                topic.name,
                partition.partition,
                request.producer_id,
                request.producer_epoch,
                OffsetCommitValue(
                    request.offsets[partition],
                    self._wall_ms(call),
                    topic_id=topic.topic_id if has_id else None,
                ),
            )
            for partition, topic in topics.items()
        )
        return replace(
            outcome,
            response=TxnOffsetCommitResponse(errors=errors),
            records=(*outcome.records, *offsets),
        )

    def _check_member(
        self, call: Call[TxnOffsetCommitRequest], partitions: list[TopicPartition]
    ) -> None:
        if not self._context.rules.fences_txn_commits:
            return
        if call.group is not None:
            self.types[type(call.group)].check_txn_commit(call.group, call.request, partitions)
        elif call.request.generation_id >= 0:
            raise GroupError(ErrorCode.ILLEGAL_GENERATION)

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
        known = self._transactions.get((key.group_id, key.member_id))
        if known is None:
            return Outcome()
        transaction = known.value
        if key.kind is TransactionTimer.COMPLETE and transaction.state in PREPARING:
            marker = TransactionMarker(
                key.group_id,
                transaction.producer_id,
                transaction.producer_epoch,
                transaction.state is TransactionState.PREPARE_COMMIT,
            )
            return Outcome(None, (marker, _record(known, completed(transaction))))
        if key.kind is TransactionTimer.TIMEOUT and transaction.state is TransactionState.ONGOING:
            return self._ending(known, fenced(transaction))
        return Outcome()

    def on_loaded(self, *, now_ms: int) -> Iterable[TimerCommand]:
        """What was decided is carried out; what is ongoing may time out."""
        for _, known in sorted(self._transactions.items()):
            if known.value.state in PREPARING:
                yield ScheduleTimer(_key(TransactionTimer.COMPLETE, known), now_ms)
            elif known.value.state is TransactionState.ONGOING:
                yield self._timeout(known, known.value, now_ms)

    def _timeout(self, known: _Named, value: TransactionValue, now_ms: int) -> ScheduleTimer:
        ends_ms = value.started_ms - self._context.wall_offset_ms + value.transaction_timeout_ms
        due_ms = max(ends_ms, now_ms + 1)
        at_ms = -(-due_ms // ABORT_INTERVAL_MS) * ABORT_INTERVAL_MS
        return ScheduleTimer(_key(TransactionTimer.TIMEOUT, known), at_ms)

    # -- helpers ---------------------------------------------------------------------------

    def _changed(self, request: _Named, ongoing: TransactionValue, now_ms: int) -> Outcome:
        if ongoing == self._known(request):
            return Outcome()
        timers = (self._timeout(request, ongoing, now_ms),)
        return Outcome(None, (_record(request, ongoing),), timers)

    def _ending(self, named: _Named, ending: TransactionValue) -> Outcome:
        return Outcome(
            None,
            (_record(named, ending),),
            (CancelTimer(_key(TransactionTimer.TIMEOUT, named)),),
            on_commit=_Prepared(named.group_id, named.transactional_id),
        )

    def _known(self, request: _Named) -> TransactionValue | None:
        known = self._transactions.get((request.group_id, request.transactional_id))
        return None if known is None else known.value

    def _wall_ms(self, call: Call[Any]) -> int:
        return call.now_ms + self._context.wall_offset_ms

    def _new_producer_id(self) -> int:
        ids = self._context.part(ProducerIds)
        ids.count += 1
        return self._context.term * _IDS_OF_A_TERM + ids.count


_Named = (
    Transaction
    | InitProducerIdRequest
    | AddOffsetsToTxnRequest
    | TxnOffsetCommitRequest
    | EndTxnRequest
)
"""What names a group and a transactional id."""


def _record(named: _Named, value: TransactionValue) -> TransactionMetadata:
    return TransactionMetadata(named.group_id, named.transactional_id, value)


def _key(kind: TransactionTimer, named: _Named) -> TimerKey:
    return TimerKey(kind, named.group_id, named.transactional_id)
