"""Transactions at a gateway: producers of a real library, what consumers see of them, and what is
left of them in the log."""

from __future__ import annotations

import asyncio
import importlib
import random

import confluent_kafka
import pytest
from confluent_kafka import KafkaException, Producer
from frames import frame, new_server, records_of, schema_of, send
from hypothesis import given, settings
from hypothesis import strategies as st
from real_clients import consumer, gateway, until

from rebalance_sim import Gateway
from rebalance_sim.conformance import codec
from rebalance_sim.gateway.server import Server
from rebalance_sim.gateway.wire.frames import APIS
from rebalance_sim.protocol.wire.records import (
    OffsetCommit,
    OffsetCommitValue,
    Record,
    TransactionMarker,
    TxnOffsetCommit,
)

TOPICS = {"orders": 4, "out": 1}
TIMEOUT_S = 20


def producer(broker: Gateway) -> Producer:
    made = Producer(
        {"bootstrap.servers": broker.bootstrap, "transactional.id": "t", "log_level": 0}
        | {"transaction.timeout.ms": 60_000, "socket.timeout.ms": 5_000}
    )
    made.init_transactions(TIMEOUT_S)
    return made


def written(broker: Gateway, isolation_level: str) -> list[bytes]:
    """What a new consumer reads of ``out``, up to its end."""
    group = f"reader-{random.random()}"
    reader = confluent_kafka.Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": group, "enable.partition.eof": True}
        | {"isolation.level": isolation_level, "auto.offset.reset": "earliest"}
    )
    reader.assign([confluent_kafka.TopicPartition("out", 0, 0)])
    rows: list[bytes] = []
    is_at_end = False

    def poll() -> bool:
        nonlocal is_at_end
        message = reader.poll(0.1)
        if message is not None and message.error() is None:
            rows.append(message.value() or b"")
        elif message is not None:
            is_at_end = True
        return is_at_end

    until(poll)
    reader.close()
    return rows


def test_what_a_transaction_writes_counts_when_it_commits_and_not_when_it_aborts():
    with gateway(topics=TOPICS) as broker:
        broker.add_records("orders", [b"%d" % number for number in range(8)])
        client, made = consumer(broker, "consumer"), producer(broker)
        until(lambda: client.poll(0.1) is not None and len(client.assignment()) == 4)

        def attempt(value: bytes) -> None:
            made.begin_transaction()
            made.produce("out", value)
            offsets = [confluent_kafka.TopicPartition("orders", 0, 2)]
            group = client.consumer_group_metadata()
            made.send_offsets_to_transaction(offsets, group, TIMEOUT_S)
            made.flush(TIMEOUT_S)

        attempt(b"aborted")
        assert written(broker, "read_committed") == []
        assert written(broker, "read_uncommitted") == [b"aborted"]
        made.abort_transaction(TIMEOUT_S)
        assert broker.committed("g") == {}
        attempt(b"committed")
        made.commit_transaction(TIMEOUT_S)
        until(lambda: broker.committed("g") == {("orders", 0): 2})
        assert written(broker, "read_committed") == [b"committed"]
        assert written(broker, "read_uncommitted") == [b"aborted", b"committed"]
        client.close()
        broker.assert_ok()


def test_a_second_producer_with_the_id_aborts_what_the_first_has_begun_and_fences_it():
    with gateway(topics=TOPICS) as broker:
        first = producer(broker)
        first.begin_transaction()
        first.produce("out", b"zombie")
        first.flush(TIMEOUT_S)
        second = producer(broker)
        with pytest.raises(KafkaException) as refused:
            first.commit_transaction(TIMEOUT_S)
        assert refused.value.args[0].fatal()
        second.begin_transaction()
        second.produce("out", b"successor")
        second.commit_transaction(TIMEOUT_S)
        until(lambda: written(broker, "read_committed") == [b"successor"])
        broker.assert_ok()


@pytest.mark.parametrize("api", ["AddPartitionsToTxn", "TxnOffsetCommit", "EndTxn"])
def test_a_request_whose_answer_is_lost_is_sent_again_and_counts_once(api):
    with gateway(topics=TOPICS) as broker:
        made, client = producer(broker), consumer(broker, "classic")
        until(lambda: client.poll(0.1) is not None or len(client.assignment()) == 4)
        broker.rules.add(api=api, nth=2, action="close_after")
        if api == "EndTxn":
            broker.rules.add(api=api, nth=3, action="move_coordinator", load_ms=200)
        for number in range(2):
            made.begin_transaction()
            made.produce("out", b"%d" % number)
            offsets = [confluent_kafka.TopicPartition("orders", 1, number + 1)]
            made.send_offsets_to_transaction(offsets, client.consumer_group_metadata(), TIMEOUT_S)
            made.commit_transaction(TIMEOUT_S)
        until(lambda: broker.committed("g") == {("orders", 1): 2})
        assert written(broker, "read_committed") == [b"0", b"1"]
        assert broker.rules.hits[0] == 1
        client.close()
        broker.assert_ok()


def test_a_batch_that_is_sent_again_is_written_once():
    """By an idempotent producer; of one that is not, no one can tell."""

    async def produce(records: bytes) -> tuple[list[int], int]:
        server = new_server()
        before = server.topics.by_name["orders"].partitions[0].end_offset
        api = APIS["Produce"]
        partitions = [{"index": 0, "records": records}]
        message = {"acks": -1, "topic_data": [{"name": "orders", "partition_data": partitions}]}
        asked = frame(api, 9, codec.write(schema_of(api, 9), message))
        offsets = []
        for _ in range(3):
            answer = codec.Reader((await send(server, asked, 5))[9:])
            schema = importlib.import_module("kio.schema.produce.v9.response").ProduceResponse
            (topic,) = codec.read(schema, answer)["responses"]
            (row,) = topic["partition_responses"]
            offsets.append(row["base_offset"] - before)
        server.host.stop()
        return offsets, server.topics.by_name["orders"].partitions[0].end_offset - before

    assert asyncio.run(produce(records_of(0, 5, 0, 0))) == ([0, 0, 0], 1)
    assert asyncio.run(produce(records_of(0, -1, -1, -1))) == ([0, 1, 2], 3)


# -- the log ---------------------------------------------------------------------------------------

PARTITIONS = st.integers(0, 2)
GROUPS = st.sampled_from(("g", "h"))
PRODUCERS = st.integers(1, 3)


@st.composite
def records(draw: st.DrawFn, offset: int) -> Record:
    value = OffsetCommitValue(offset, 1)
    kind = draw(st.sampled_from(("commit", "pending", "pending", "ends", "deletes")))
    group = draw(GROUPS)
    if kind == "ends":
        return TransactionMarker(group, draw(PRODUCERS), 0, draw(st.booleans()), 1)
    if kind == "pending":
        return TxnOffsetCommit(group, "orders", draw(PARTITIONS), draw(PRODUCERS), 0, value)
    return OffsetCommit(group, "orders", draw(PARTITIONS), None if kind == "deletes" else value)


def seen(server: Server) -> tuple[object, ...]:
    offsets = server.host.coordinator.offsets
    committed = [dict(offsets.committed_of_group(group)) for group in ("g", "h")]
    pending = {key: (one.offset, one.is_superseded) for key, one in offsets.pending.table.items()}
    return committed, pending


@given(st.data(), st.integers(0, 40), st.integers(0, 40), st.booleans())
@settings(max_examples=300, deadline=None)
def test_a_log_without_ended_transactions_is_loaded_to_the_same(data, before, after, again):
    """Whatever comes afterwards: markers of what was pending, too."""
    rows = [data.draw(records(number)) for number in range(before)]
    more = [data.draw(records(before + number)) for number in range(after)]

    async def compare() -> None:
        whole, compacted = new_server(), new_server()
        for server in (whole, compacted):
            server.host.log.append(rows, 1)
            server.host.log.high_watermark = server.host.log.end_offset
        log = compacted.host.log
        for _ in range(1 + again):
            log.compact(log.end_offset, drops_tombstones=True, drops_ended_transactions=True)
        for server in (whole, compacted):
            server.host.log.append(more, 1)
            server.move_coordinator()
            await asyncio.sleep(0.003)
        assert seen(compacted) == seen(whole)
        assert log.cleaned_count <= len(rows)
        whole.host.stop()
        compacted.host.stop()

    asyncio.run(compare())


def test_the_log_of_transactions_that_have_ended_does_not_grow():
    async def run() -> None:
        server = new_server()
        log = server.host.log
        for number in range(5_000):
            value = OffsetCommitValue(number, 1)
            batch = (
                TxnOffsetCommit("g", "orders", 0, 1, 0, value),
                TransactionMarker("g", 1, 0, number % 3 > 0, 1),
            )
            server.host.append(batch)
            server.host.publish()
            assert log.cleaned_count + log.end_offset - log.cleaned_to <= 1_100
        server.host.stop()

    asyncio.run(run())
