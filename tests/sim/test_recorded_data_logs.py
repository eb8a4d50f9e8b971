"""Partitions with records of transactions are what recorded brokers have (``data_logs``)."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from rebalance_sim.protocol.hosting.broker_rules import BrokerRules
from rebalance_sim.protocol.hosting.minimal_shard import MinimalShard
from rebalance_sim.protocol.runtime.coordinator_config import CoordinatorConfig
from rebalance_sim.protocol.transactions.transaction_spans import IsolationLevel
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.topics import TopicPartition
from rebalance_sim.protocol.wire.transaction_messages import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    DataPartition,
    EndTxnRequest,
    InitProducerIdRequest,
    ProduceRequest,
    RecordsWritten,
    TxnMarker,
    TxnMarkerAnswered,
    WriteTxnMarkersRequest,
)
from rebalance_sim.sim.broker.data_partitions import DataPartitions
from rebalance_sim.sim.broker.output_log import OutputLog

TRACES = sorted(Path(__file__).parent.joinpath("data_logs").glob("*.json"))
NODE_ID = 0
FIRST_PRODUCE_OF_TRANSACTIONS_2, FIRST_PRODUCE_OF_ABORTABLE = 12, 11


class Broker(MinimalShard):
    """A coordinator of transactions that leads two partitions, and does what a trace says."""

    def __init__(self) -> None:
        self.logs = {self.place(number): OutputLog(BrokerRules()) for number in range(2)}
        self.records: dict[TopicPartition, list[RecordsWritten]] = {p: [] for p in self.logs}
        self.data = DataPartitions(self, BrokerRules(), self._on_written)
        self.producers: dict[str, int] = {}
        super().__init__(config=CoordinatorConfig())

    @staticmethod
    def place(number: int) -> TopicPartition:
        return TopicPartition("out", number)

    def output(self, partition: TopicPartition) -> OutputLog | None:
        return self.logs.get(partition)

    def leader_id(self, partition: TopicPartition) -> int | None:
        return NODE_ID

    def _on_written(self, written: RecordsWritten) -> None:
        self.records[written.partition].append(written)

    def _send_marker(self, marker: TxnMarker) -> None:
        named = DataPartition.of(marker.request.group_id)
        assert named is not None
        code = self.data.mark(NODE_ID, named, marker.request).error_code
        self._handle(TxnMarkerAnswered(marker=marker, error_code=code), lambda _: None)

    # --- the operations of a trace ----------------------------------------------------------------

    def sleep(self, step: Any) -> None:
        self.advance_to(self.now_ms + step["ms"])

    def of_producer(self, step: Any) -> dict[str, Any]:
        return {
            "transactional_id": step["transactional_id"],
            "producer_id": self.producers[step["producer"]],
            "producer_epoch": step["producer_epoch"],
        }

    def init(self, step: Any) -> dict[str, Any]:
        request = InitProducerIdRequest(
            transactional_id=step["transactional_id"],
            transaction_timeout_ms=step.get("timeout_ms", 60_000),
        )
        answer: Any = self.request(request)
        while answer.error_code is ErrorCode.CONCURRENT_TRANSACTIONS:
            self.advance_to(self.now_ms + 100)
            answer = self.request(request)
        known = {producer_id: name for name, producer_id in self.producers.items()}
        name = known.get(answer.producer_id, f"P{len(known) + 1}")
        self.producers[name] = answer.producer_id
        code = answer.error_code.wire_name
        return {"error_code": code, "producer": name, "producer_epoch": answer.producer_epoch}

    def add(self, step: Any) -> dict[str, Any]:
        data = DataPartition("out", step["partition"]).group_id
        request = AddPartitionsToTxnRequest(
            group_id=data, **self.of_producer(step), verify_only=False
        )
        answer: Any = self.request(request)
        return {"error_code": answer.error_code.wire_name}

    def produce(self, step: Any) -> dict[str, Any]:
        partition = self.place(step["partition"])
        before = self.logs[partition].end_offset
        request = ProduceRequest(
            partition=partition,
            **self.of_producer(step),
            sequence=step["sequence"],
            record_count=step["records"],
            adds_partition=step["version"] >= FIRST_PRODUCE_OF_TRANSACTIONS_2,
        )
        answers: list[Any] = []
        self.data.produce(
            NODE_ID, request, answers.append, lambda asked, then: then(self.request(asked))
        )
        code = answers[0].error_code
        if step["version"] < FIRST_PRODUCE_OF_ABORTABLE and code is ErrorCode.TRANSACTION_ABORTABLE:
            code = ErrorCode.INVALID_TXN_STATE
        written = self.logs[partition].end_offset > before
        offset = before if written else 0 if code is ErrorCode.NONE else -1
        return {"error_code": code.wire_name, "base_offset": offset}

    def end(self, step: Any) -> dict[str, Any]:
        answer: Any = self.request(
            EndTxnRequest(
                **self.of_producer(step), committed=step["committed"], api_version=step["version"]
            )
        )
        self.advance_to(self.now_ms)
        said = {"error_code": answer.error_code.wire_name}
        return said | ({"producer_epoch": answer.producer_epoch} if step["version"] >= 5 else {})

    def list_offsets(self, step: Any) -> dict[str, Any]:
        level = IsolationLevel(step["isolation_level"])
        log = self.logs[self.place(step["partition"])]
        return {"error_code": "none", "offset": log.end_for(level)}

    def fetch(self, step: Any) -> dict[str, Any]:
        level, start = IsolationLevel(step["isolation_level"]), step["offset"]
        partition = self.place(step["partition"])
        log, names = self.logs[partition], {p: name for name, p in self.producers.items()}
        end, stable = log.end_for(level), log.spans.last_stable_offset(log.end_offset)
        aborted = None
        if level is IsolationLevel.READ_COMMITTED:
            aborted = [
                {"producer": names[one.producer_id], "first_offset": one.first}
                for one in log.spans.aborted(start, end)
            ]
        batches = [
            {
                "first": one.first,
                "end": one.end,
                "producer": names[one.producer_id],
                "is_marker": one.committed is not None,
            }
            for one in self.records[partition]
            if start < one.end <= end
        ]
        return {
            "error_code": "none",
            "high_watermark": log.end_offset,
            "last_stable_offset": stable,
            "aborted_transactions": aborted,
            "batches": batches,
        }


def of_the_application(answer: Any) -> int:
    """How many records of a Fetch a client hands out: those of aborted transactions it drops."""
    dropped = {one["producer"]: one["first_offset"] for one in answer["aborted_transactions"] or ()}
    count = 0
    for batch in answer["batches"]:
        if batch["is_marker"]:
            dropped.pop(batch["producer"], None)
        elif dropped.get(batch["producer"], batch["end"]) > batch["first"]:
            count += batch["end"] - batch["first"]
    return count


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.stem)
def test_a_log_answers_as_it_was_recorded(path: Path) -> None:
    broker = Broker()
    for step in json.loads(path.read_text())["steps"]:
        answer = getattr(broker, step["op"])(step)
        if answer is not None:
            assert (step, answer) == (step, step["answer"])


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.stem)
def test_an_application_is_handed_what_a_client_makes_of_the_answer(path: Path) -> None:
    """From the start of the log, by the rules of a Java client (``FetchCollector``)."""
    broker, looks = Broker(), 0
    for step in json.loads(path.read_text())["steps"]:
        getattr(broker, step["op"])(step)
        if step["op"] == "fetch" and step["offset"] == 0:
            level, log = IsolationLevel(step["isolation_level"]), partial(broker.logs.__getitem__)
            count = log(broker.place(step["partition"])).count(level)
            assert count == of_the_application(step["answer"])
            looks += 1
    assert looks


@pytest.mark.parametrize(
    ("adds_partition", "code"), [(True, ErrorCode.NONE), (False, ErrorCode.INVALID_TXN_STATE)]
)
def test_a_marker_that_comes_while_a_partition_is_verified_may_be_of_the_transaction_before(
    adds_partition: bool, code: ErrorCode
) -> None:
    """With version 2 it has the epoch of the next one (KAFKA-18654)."""
    broker = Broker()
    partition = broker.place(0)
    request = ProduceRequest(
        partition=partition,
        transactional_id="app",
        producer_id=1,
        producer_epoch=3,
        sequence=0,
        record_count=5,
        adds_partition=adds_partition,
    )
    answers: list[Any] = []
    verified: list[Any] = []
    broker.data.produce(NODE_ID, request, answers.append, lambda asked, then: verified.append(then))
    named = DataPartition(*partition)
    marker = WriteTxnMarkersRequest(
        group_id=named.group_id,
        producer_id=1,
        producer_epoch=3,
        committed=True,
        coordinator_epoch=0,
    )
    assert broker.data.mark(NODE_ID, named, marker).error_code is ErrorCode.NONE
    verified[0](AddPartitionsToTxnResponse())
    assert answers[0].error_code is code
