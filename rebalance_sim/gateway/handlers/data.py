"""Records and topics: as much of them as consumers and a test's producer need."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from rebalance_sim.gateway.call import CLUSTER_ID, NODE_ID, Call
from rebalance_sim.gateway.errors import WireError
from rebalance_sim.gateway.handlers.transactions import transaction_error
from rebalance_sim.gateway.topics import LEADER_EPOCH, HeldTopic, PartitionLog
from rebalance_sim.gateway.wire.codec import Message
from rebalance_sim.gateway.wire.records import batches_in
from rebalance_sim.protocol.wire.transaction_messages import DataPartition

_OUT_OF_RANGE, _CORRUPT, _UNKNOWN_TOPIC, _UNKNOWN_TOPIC_ID = 1, 2, 3, 100
_EARLIEST, _READ_COMMITTED = -2, 1
MAX_FETCH_BYTES = 8 * 1024 * 1024
"""What an answer to a Fetch may have, whatever the client allows."""
MAX_WAIT_S = 30.0


def _topic(call: Call, row: Message, name_key: str) -> tuple[HeldTopic | None, Message, int]:
    """The topic of a row, how the answer names it, and the error if there is none."""
    topics = call.site.topics
    if "topic_id" in row:
        held = topics.with_uuid(row["topic_id"])
        return held, {"topic_id": row["topic_id"]}, _UNKNOWN_TOPIC_ID
    name = row[name_key]
    return topics.by_name.get(name), {name_key: name}, _UNKNOWN_TOPIC


async def fetch(call: Call) -> Message:
    """Fetch, without sessions: each answer has all that was asked for. It waits until there is
    something, for as long as the client allows; one without topics waits for nothing."""
    said = call.message
    end_s = time.monotonic() + min(max(said["max_wait"], 0) / 1000, MAX_WAIT_S)
    topics = call.site.topics
    while True:
        rows, size, has_error = _fetched(call)
        left_s = end_s - time.monotonic()
        if not said["topics"] or has_error or size >= max(said["min_bytes"], 1) or left_s <= 0:
            return {"responses": rows}
        await topics.appended(left_s)


def _fetched(call: Call) -> tuple[list[Any], int, bool]:
    said = call.message
    room = min(said["max_bytes"], MAX_FETCH_BYTES)
    is_isolated = said["isolation_level"] == _READ_COMMITTED
    size, has_error = 0, False
    responses = []
    for topic in said["topics"]:
        held, shown, unknown = _topic(call, topic, "topic")
        rows = []
        for asked in topic["partitions"]:
            log = call.site.topics.partition(held, asked["partition"])
            row: Message = {"partition_index": asked["partition"], "records": b""}
            rows.append(row)
            if log is None:
                row |= {"error_code": unknown, "high_watermark": -1}
                has_error = True
                continue
            row |= {"high_watermark": log.end_offset, "last_stable_offset": log.last_stable_offset}
            end = log.last_stable_offset if is_isolated else log.end_offset
            row["log_start_offset"] = log.start_offset
            if not log.start_offset <= asked["fetch_offset"] <= log.end_offset:
                row["error_code"] = _OUT_OF_RANGE
                has_error = True
            elif room > size:
                most = min(room - size, asked["partition_max_bytes"])
                row["records"] = log.read(asked["fetch_offset"], most, end)
                size += len(row["records"])
                if is_isolated:
                    row["aborted_transactions"] = [
                        {"producer_id": one.producer_id, "first_offset": one.first}
                        for one in log.aborted(asked["fetch_offset"], end)
                    ]
        responses.append(shown | {"partitions": rows})
    return responses, size, has_error


async def list_offsets(call: Call) -> Message:
    """ListOffsets: the start or the end; a time finds the end, as records have none here."""
    is_isolated = call.message.get("isolation_level") == _READ_COMMITTED

    def found(asked: Message, log: PartitionLog) -> Message:
        is_first = asked["timestamp"] == _EARLIEST
        end = log.last_stable_offset if is_isolated else log.end_offset
        offset = log.start_offset if is_first else end
        return {"offset": offset, "leader_epoch": LEADER_EPOCH}

    return {"topics": _each_partition(call, "name", "partition_index", found)}


async def produce(call: Call) -> Message:
    """Produce. What an idempotent producer sends again is not written twice, and what belongs to no
    transaction not at all; the order of sequence numbers is not looked at."""
    rows = []
    for topic in call.message["topic_data"]:
        held, shown, unknown = _topic(call, topic, "name")
        partitions = []
        for given in topic["partition_data"]:
            log = call.site.topics.partition(held, given["index"])
            row: Message = {"index": given["index"], "base_offset": -1, "log_append_time": -1}
            partitions.append(row)
            if log is None:
                row["error_code"] = unknown
                continue
            try:
                assert held is not None
                if code := await _transaction_error(call, held, given):
                    row["error_code"] = code
                    continue
                batches = list(batches_in(given["records"] or b"", log.end_offset, LEADER_EPOCH))
            except WireError:
                row["error_code"] = _CORRUPT
                continue
            before = log.written_before(batches[0]) if batches else None
            row |= {"base_offset": log.end_offset if before is None else before}
            row["log_start_offset"] = log.start_offset
            if before is None:
                log.append(batches)
        rows.append(shown | {"partition_responses": partitions})
    call.site.topics.on_append()
    return {"responses": rows}


async def _transaction_error(call: Call, held: HeldTopic, given: Message) -> int:
    """Why these records may not be written, if they belong to a transaction. Raises WireError."""
    for batch in batches_in(given["records"] or b"", 0, LEADER_EPOCH):
        if batch.is_transactional:
            return await transaction_error(
                call,
                batch.producer_id,
                batch.producer_epoch,
                partition=DataPartition(held.topic.topic_id, given["index"]),
            )
    return 0


async def offset_for_leader_epoch(call: Call) -> Message:
    """OffsetForLeaderEpoch: there has been one leader epoch."""

    def found(asked: Message, log: PartitionLog) -> Message:
        return {"leader_epoch": LEADER_EPOCH, "end_offset": log.end_offset}

    return {"topics": _each_partition(call, "topic", "partition", found)}


def _each_partition(
    call: Call,
    name_key: str,
    number_key: str,
    found: Callable[[Message, PartitionLog], Message],
) -> list[Message]:
    """A row for each topic that is asked about, with one for each partition: what is ``found`` of
    it, or that it is unknown."""
    rows = []
    for topic in call.message["topics"]:
        held, shown, unknown = _topic(call, topic, name_key)
        partitions = []
        for asked in topic["partitions"]:
            log = call.site.topics.partition(held, asked[number_key])
            said = {"error_code": unknown} if log is None else found(asked, log)
            partitions.append({number_key: asked[number_key]} | said)
        rows.append(shown | {"partitions": partitions})
    return rows


# -- where things are ------------------------------------------------------------------------------


async def metadata(call: Call) -> Message:
    """Metadata: the one node leads everything."""
    topics = call.site.topics
    asked = call.message["topics"]
    is_all = asked is None or (call.version == 0 and not asked)
    rows: Iterator[Message]
    if is_all:
        rows = (_described(held) for held in topics.by_name.values())
    else:
        rows = (_asked_for(call, row) for row in asked)
    host, port = call.site.address
    return {
        "brokers": [{"node_id": NODE_ID, "host": host, "port": port, "rack": None}],
        "cluster_id": CLUSTER_ID,
        "controller_id": NODE_ID,
        "topics": list(rows),
    }


def _asked_for(call: Call, row: Message) -> Message:
    topics = call.site.topics
    if row.get("name") is not None:
        held = topics.by_name.get(row["name"])
        if held is None:
            return {"error_code": _UNKNOWN_TOPIC, "name": row["name"]}
    else:
        held = topics.with_uuid(row["topic_id"])
        if held is None:
            return {"error_code": _UNKNOWN_TOPIC_ID, "name": None, "topic_id": row["topic_id"]}
    return _described(held)


def _described(held: HeldTopic) -> Message:
    return {
        "name": held.topic.name,
        "topic_id": held.uuid,
        "partitions": [
            {
                "partition_index": number,
                "leader_id": NODE_ID,
                "leader_epoch": LEADER_EPOCH,
                "replica_nodes": [NODE_ID],
                "isr_nodes": [NODE_ID],
            }
            for number in range(len(held.partitions))
        ],
    }
