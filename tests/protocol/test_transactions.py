"""Transactions: what a literal reading of the log says, for any order of requests and failures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from rebalance_sim.protocol.hosting.minimal_shard import MinimalShard
from rebalance_sim.protocol.hosting.verification import Verification
from rebalance_sim.protocol.runtime.coordinator_config import CoordinatorConfig
from rebalance_sim.protocol.transactions.transaction import (
    LAST_EPOCH,
    TRANSACTION_MAX_TIMEOUT_MS,
    initialised,
)
from rebalance_sim.protocol.wire.consumer_messages import DeleteGroupsRequest
from rebalance_sim.protocol.wire.errors import ErrorCode, GroupError
from rebalance_sim.protocol.wire.offset_messages import (
    NO_OFFSET,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
)
from rebalance_sim.protocol.wire.records import (
    OffsetCommit,
    Record,
    TransactionMarker,
    TransactionMetadata,
    TransactionState,
    TransactionValue,
    TxnOffsetCommit,
)
from rebalance_sim.protocol.wire.topics import MetadataImage, Topic, TopicPartition
from rebalance_sim.protocol.wire.transaction_messages import (
    AddOffsetsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    TxnMarker,
    TxnMarkerAnswered,
    TxnOffsetCommitRequest,
    WriteTxnMarkersRequest,
)

GROUP = "group"
PARTITIONS = [TopicPartition("foo", number) for number in range(2)]
IMAGE = MetadataImage([Topic(topic_id="foo", name="foo", partition_count=2)])
TIMEOUT_MS = 15_000
NONE = ErrorCode.NONE


def new_shard() -> MinimalShard:
    return MinimalShard(config=CoordinatorConfig(), image=IMAGE)


class Producer:
    """A producer of version 1 or 2 that does as its coordinator says."""

    def __init__(self, shard: MinimalShard, name: str, version: int) -> None:
        self.shard, self.name, self.version = shard, name, version
        self.producer_id = self.epoch = -1

    def ask(self, kind: type, **fields: Any) -> Any:
        return self.shard.request(self.request(kind, **fields))

    def request(self, kind: type, **fields: Any) -> Any:
        producer = {"producer_id": self.producer_id, "producer_epoch": self.epoch}
        named: dict[str, Any] = {} if kind is InitProducerIdRequest else producer
        if kind in (AddOffsetsToTxnRequest, TxnOffsetCommitRequest):
            named = {**named, "group_id": GROUP}
        return kind(transactional_id=self.name, **named, **fields)

    def begin(self) -> ErrorCode:
        answer = self.ask(InitProducerIdRequest, transaction_timeout_ms=TIMEOUT_MS)
        if answer.error_code is NONE:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        return answer.error_code

    def add(self) -> ErrorCode:
        return NONE if self.version >= 5 else self.ask(AddOffsetsToTxnRequest).error_code

    def commit(self, partition: TopicPartition, offset: int, **member: Any) -> ErrorCode:
        answer = self.ask(
            TxnOffsetCommitRequest,
            offsets={partition: offset},
            api_version=self.version,
            **member,
        )
        return answer.errors[partition]

    def end(self, committed: bool) -> ErrorCode:
        answer = self.ask(EndTxnRequest, committed=committed, api_version=self.version)
        if answer.error_code is NONE and self.version >= 5:
            self.epoch = answer.producer_epoch
        return answer.error_code


def read_log(log: Sequence[Record]) -> tuple[dict[TopicPartition, int], set[TopicPartition]]:
    """Committed offsets, and partitions with pending ones, by the sentences of transactions §3: of
    what is not deleted behind it the last in the log counts, offsets of a transaction only if the
    marker behind them says so."""
    committed: dict[TopicPartition, int] = {}
    pending: set[TopicPartition] = set()
    for place, record in enumerate(log):
        if not isinstance(record, OffsetCommit | TxnOffsetCommit) or record.value is None:
            continue
        partition, behind = TopicPartition(record.topic, record.partition), log[place + 1 :]
        if OffsetCommit(GROUP, *partition, None) in behind:
            continue
        if isinstance(record, TxnOffsetCommit):
            markers = [
                one
                for one in behind
                if isinstance(one, TransactionMarker) and one.producer_id == record.producer_id
            ]
            if not markers:
                pending.add(partition)
            if not markers or not markers[0].value:
                continue
        committed[partition] = record.value.offset
    return committed, pending


def pass_time(shard: MinimalShard, ms: int) -> None:
    shard.advance_to(shard.now_ms + ms)


class Transactions(RuleBasedStateMachine):
    """Two producers and somebody who commits without one; the coordinator restarts and takes
    time."""

    def __init__(self) -> None:
        super().__init__()
        self.shard = new_shard()
        self.producers = [Producer(self.shard, "x", 3), Producer(self.shard, "y", 5)]
        self.offset = 0

    who = st.integers(0, 1)
    which = st.sampled_from(PARTITIONS)

    @rule(who=who, partition=which)
    def commits_in_a_transaction(self, who: int, partition: TopicPartition) -> None:
        self.offset += 1
        producer = self.producers[who]
        if producer.producer_id < 0:
            producer.begin()
        producer.add()
        producer.commit(partition, self.offset)

    @rule(who=who, committed=st.booleans())
    def ends(self, who: int, committed: bool) -> None:
        self.producers[who].end(committed)

    @rule(partition=which)
    def commits_outside(self, partition: TopicPartition) -> None:
        self.offset += 1
        self.shard.request(
            OffsetCommitRequest(
                group_id=GROUP,
                member_id="",
                generation_id_or_member_epoch=-1,
                offsets={partition: self.offset},
            )
        )

    @rule(
        what=st.sampled_from(["begin", "offset", "group", "restart", "timeout"]),
        who=who,
        partition=which,
    )
    def is_disturbed(self, what: str, who: int, partition: TopicPartition) -> None:
        """One rule for all, so that most steps are of transactions."""
        if what == "begin":
            self.producers[who].begin()
        elif what == "offset":
            self.shard.request(
                OffsetDeleteRequest(group_id=GROUP, partitions=frozenset({partition}))
            )
        elif what == "group":
            self.shard.request(DeleteGroupsRequest(group_id=GROUP))
        elif what == "restart":
            self.shard.restart()
        else:
            pass_time(self.shard, 20_000)

    @invariant()
    def answers_as_the_log_says(self) -> None:
        pass_time(self.shard, 0)
        committed, pending = read_log(self.shard.log)
        asked = frozenset(PARTITIONS)
        for require_stable in (False, True):
            answer: Any = self.shard.request(
                OffsetFetchRequest(group_id=GROUP, partitions=asked, require_stable=require_stable)
            )
            hidden = pending if require_stable else set()
            assert answer.offsets == {
                one: NO_OFFSET if one in hidden else committed.get(one, NO_OFFSET) for one in asked
            }
            assert answer.errors == dict.fromkeys(hidden, ErrorCode.UNSTABLE_OFFSET_COMMIT)

    @invariant()
    def epochs_never_go_back(self) -> None:
        latest: dict[tuple[str, int], int] = {}
        for record in self.shard.log:
            if isinstance(record, TransactionMetadata):
                key = record.transactional_id, record.value.producer_id
                assert record.value.producer_epoch >= latest.get(key, 0)
                latest[key] = record.value.producer_epoch


TestTransactions = Transactions.TestCase
TestTransactions.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)


def test_a_successor_fences_whoever_had_the_transactional_id() -> None:
    shard = new_shard()
    first, second = Producer(shard, "x", 3), Producer(shard, "x", 3)
    assert (first.begin(), first.add(), first.commit(PARTITIONS[0], 5)) == (NONE, NONE, NONE)
    assert second.begin() is ErrorCode.CONCURRENT_TRANSACTIONS
    pass_time(shard, 1)
    assert second.begin() is NONE
    assert second.epoch == first.epoch + 2
    assert first.commit(PARTITIONS[0], 6) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert first.end(True) is ErrorCode.PRODUCER_FENCED
    assert read_log(shard.log) == ({}, set())


def test_a_decision_that_was_made_before_a_failure_is_carried_out_after_it() -> None:
    shard = new_shard()
    producer = Producer(shard, "x", 3)
    assert (producer.begin(), producer.add(), producer.commit(PARTITIONS[0], 5)) == (NONE,) * 3
    assert producer.end(True) is NONE
    [decided] = (
        place
        for place, record in enumerate(shard.log)
        if isinstance(record, TransactionMetadata)
        and record.value.state is TransactionState.PREPARE_COMMIT
    )
    del shard.log[decided + 1 :]
    shard.high_watermark = len(shard.log)
    assert read_log(shard.log)[1] == {PARTITIONS[0]}
    shard.restart()
    pass_time(shard, 1)
    assert read_log(shard.log) == ({PARTITIONS[0]: 5}, set())


def test_a_transaction_that_takes_too_long_is_aborted_by_the_next_look() -> None:
    shard = new_shard()
    producer = Producer(shard, "x", 3)
    producer.begin()
    producer.add()
    producer.commit(PARTITIONS[0], 5)
    pass_time(shard, TIMEOUT_MS)
    assert read_log(shard.log)[1] == {PARTITIONS[0]}
    pass_time(shard, 20_000 - TIMEOUT_MS)
    assert read_log(shard.log) == ({}, set())
    assert producer.end(True) is ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("timeout_ms", [0, -1, TRANSACTION_MAX_TIMEOUT_MS + 1])
def test_a_timeout_has_bounds(timeout_ms: int) -> None:
    request = InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=timeout_ms)
    with pytest.raises(GroupError, match="INVALID_TRANSACTION_TIMEOUT"):
        initialised(None, request, lambda: 1)


@given(epoch=st.integers(0, LAST_EPOCH))
def test_an_epoch_that_cannot_be_raised_means_another_producer_id(epoch: int) -> None:
    known = TransactionValue(
        producer_id=1,
        producer_epoch=epoch,
        previous_epoch=-1,
        transaction_timeout_ms=1_000,
        state=TransactionState.EMPTY,
    )
    begun = initialised(known, InitProducerIdRequest(transactional_id="x"), lambda: 2)
    expected = (2, 0) if epoch == LAST_EPOCH else (1, epoch + 1)
    assert (begun.producer_id, begun.producer_epoch) == expected


def marker_of(producer: Producer, *, coordinator_epoch: int, epoch: int | None = None) -> Any:
    return WriteTxnMarkersRequest(
        group_id=GROUP,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch if epoch is None else epoch,
        committed=True,
        coordinator_epoch=coordinator_epoch,
    )


def answer_to(shard: MinimalShard, request: Any) -> ErrorCode:
    answer: Any = shard.request(request)
    code: ErrorCode = answer.error_code
    return code


def sending(shard: MinimalShard, version: int) -> Producer:
    """A producer with an offset that is pending."""
    producer = Producer(shard, "x", version)
    assert (producer.begin(), producer.add(), producer.commit(PARTITIONS[0], 5)) == (NONE,) * 3
    return producer


def test_a_late_marker_of_a_coordinator_that_was_replaced_ends_no_transaction() -> None:
    shard = new_shard()
    producer = sending(shard, 3)
    assert answer_to(shard, marker_of(producer, coordinator_epoch=3)) is NONE
    assert read_log(shard.log) == ({PARTITIONS[0]: 5}, set())
    assert producer.commit(PARTITIONS[1], 6) is NONE
    late = answer_to(shard, marker_of(producer, coordinator_epoch=2))
    assert late is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert read_log(shard.log)[1] == {PARTITIONS[1]}


def test_a_marker_of_an_older_transaction_ends_no_transaction_of_version_2() -> None:
    shard = new_shard()
    producer = sending(shard, 5)
    first_epoch = producer.epoch
    assert producer.end(True) is NONE
    pass_time(shard, 1)
    assert producer.commit(PARTITIONS[1], 6) is NONE
    late = answer_to(shard, marker_of(producer, coordinator_epoch=0, epoch=first_epoch))
    assert late is ErrorCode.INVALID_PRODUCER_EPOCH
    assert read_log(shard.log)[1] == {PARTITIONS[1]}


def test_markers_are_sent_again_until_they_are_answered() -> None:
    """What reaches a coordinator of transactions here is that its marker got lost."""
    shard = new_shard()
    sent: list[TxnMarker] = []
    shard.shard._send_marker = sent.append
    producer = sending(shard, 3)
    assert producer.end(True) is NONE
    pass_time(shard, 0)
    for code in (ErrorCode.NETWORK_EXCEPTION, ErrorCode.NOT_COORDINATOR):
        shard.request(TxnMarkerAnswered(marker=sent[-1], error_code=code))
        pass_time(shard, 1_000)
    assert sent == [sent[0]] * 3
    assert producer.end(True) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert answer_to(shard, sent[-1].request) is NONE
    shard.request(TxnMarkerAnswered(marker=sent[-1]))
    assert producer.end(True) is NONE
    assert read_log(shard.log) == ({PARTITIONS[0]: 5}, set())


def test_a_transaction_of_two_groups_ends_when_both_have_its_marker() -> None:
    shard = new_shard()
    sent: list[TxnMarker] = []
    shard.shard._send_marker = sent.append
    producer = sending(shard, 3)
    shard.request(
        AddOffsetsToTxnRequest(
            group_id="other",
            transactional_id="x",
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
        )
    )
    assert producer.end(True) is NONE
    pass_time(shard, 0)
    assert [one.request.group_id for one in sent] == [GROUP, "other"]
    shard.request(TxnMarkerAnswered(marker=sent[0]))
    assert producer.end(True) is ErrorCode.CONCURRENT_TRANSACTIONS
    shard.request(TxnMarkerAnswered(marker=sent[1]))
    assert producer.end(True) is NONE


def test_offsets_that_were_verified_before_a_marker_are_refused_after_it() -> None:
    """They would be pending for ever."""
    shard = new_shard()
    producer = sending(shard, 3)
    offsets = {PARTITIONS[0]: 7}
    request = producer.request(TxnOffsetCommitRequest, offsets=offsets)
    verification = Verification(request, shard.shard)
    assert verification.refusal(NONE) is None
    assert producer.end(False) is NONE
    pass_time(shard, 0)
    refusal: Any = verification.refusal(NONE)
    assert refusal.errors == {PARTITIONS[0]: ErrorCode.INVALID_TXN_STATE}


def test_the_marker_of_the_transaction_before_does_not_end_the_next_one_of_version_2() -> None:
    """KAFKA-18654: it has the epoch of the next one, whose offsets may have come by then."""
    shard = new_shard()
    producer = sending(shard, 5)
    assert producer.end(True) is NONE
    offsets = {PARTITIONS[0]: 8}
    request = producer.request(TxnOffsetCommitRequest, offsets=offsets, api_version=5)
    verification = Verification(request, shard.shard)
    pass_time(shard, 0)
    assert isinstance(shard.log[-2], TransactionMarker)
    assert verification.refusal(NONE) is None
    assert producer.commit(PARTITIONS[0], 8) is NONE
    assert producer.end(False) is NONE
    pass_time(shard, 0)
    refusal: Any = verification.refusal(NONE)
    assert refusal.errors == {PARTITIONS[0]: ErrorCode.INVALID_TXN_STATE}


@pytest.mark.parametrize(
    ("code", "version", "shown"),
    [
        (ErrorCode.NETWORK_EXCEPTION, 3, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (ErrorCode.NOT_COORDINATOR, 3, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 3, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.TRANSACTION_ABORTABLE, 3, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.TRANSACTION_ABORTABLE, 4, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.INVALID_PRODUCER_EPOCH, 3, ErrorCode.INVALID_PRODUCER_EPOCH),
    ],
)
def test_what_a_client_is_told_of_the_coordinator_of_transactions(
    code: ErrorCode, version: int, shown: ErrorCode
) -> None:
    request = TxnOffsetCommitRequest(
        group_id=GROUP,
        transactional_id="x",
        producer_id=1,
        producer_epoch=0,
        offsets={PARTITIONS[0]: 7},
        api_version=version,
    )
    refusal: Any = Verification(request, new_shard().shard).refusal(code)
    assert refusal.errors == {PARTITIONS[0]: shown}
