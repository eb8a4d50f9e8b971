"""Transactions: the APIs of producers, and what becomes of records that belong to one.

The coordinator of transactions is in the core, which knows groups as their parts; a partition with
records stands in the place of a group there (``DataPartition``).
"""

from __future__ import annotations

from itertools import count
from typing import Any

from rebalance_sim.conformance.codec import Message
from rebalance_sim.gateway.call import Call
from rebalance_sim.gateway.handlers.offsets import Named
from rebalance_sim.protocol.hosting.verification import error_of_write
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.transaction_messages import (
    OF_DATA,
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    DataPartition,
    EndTxnRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
)

_FIRST_OF_FENCED = {"InitProducerId": 4, "EndTxn": 2, "AddPartitionsToTxn": 2, "AddOffsetsToTxn": 2}
"""The first versions that know PRODUCER_FENCED."""
_FIRST_PRODUCE_OF_ABORTABLE, _FIRST_PRODUCE_OF_TRANSACTIONS_2 = 11, 12
_NOT_ATTEMPTED = 55
_producer_ids = count(1 << 62)
"""Of producers without a transactional id; the core counts the others from 1."""


def _code(call: Call, code: ErrorCode) -> ErrorCode:
    """An error as this version of the request knows it."""
    is_fenced = code is ErrorCode.PRODUCER_FENCED
    if is_fenced and call.version < _FIRST_OF_FENCED[call.request.api.name]:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code


def _producer(said: Message) -> dict[str, Any]:
    """Who asks, as a request of the core names it."""
    return {name: said[name] for name in ("transactional_id", "producer_id", "producer_epoch")}


async def init_producer_id(call: Call) -> Message:
    """InitProducerId, of producers with a transactional id or without."""
    said = call.message
    name = said["transactional_id"]
    if name is None and call.error is None:
        return {"producer_id": next(_producer_ids), "producer_epoch": 0}
    if name == "":
        return {"error_code": ErrorCode.INVALID_REQUEST, "producer_id": -1, "producer_epoch": -1}
    request = InitProducerIdRequest(
        transactional_id=name or "",
        transaction_timeout_ms=said["transaction_timeout"],
        producer_id=said.get("producer_id", -1),
        producer_epoch=said.get("producer_epoch", -1),
    )
    begun = await call.ask(request)
    return {
        "error_code": _code(call, begun.error_code),
        "producer_id": begun.producer_id,
        "producer_epoch": begun.producer_epoch,
    }


async def add_partitions(call: Call) -> Message:
    """AddPartitionsToTxn of a client: all partitions, or none if one of them is unknown."""
    said, topics = call.message, call.site.topics
    asked = {
        (topic["name"], number): topics.partition(topics.by_name.get(topic["name"]), number)
        for topic in said["v3_and_below_topics"]
        for number in topic["partitions"]
    }
    is_known = None not in asked.values()
    codes: dict[tuple[str, int], int] = {}
    for (name, number), log in asked.items():
        if log is None:
            codes[name, number] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        elif not is_known:
            codes[name, number] = _NOT_ATTEMPTED
        else:
            request = AddPartitionsToTxnRequest(
                group_id=DataPartition(topics.by_name[name].topic.topic_id, number).group_id,
                transactional_id=said["v3_and_below_transactional_id"],
                producer_id=said["v3_and_below_producer_id"],
                producer_epoch=said["v3_and_below_producer_epoch"],
                verify_only=False,
            )
            codes[name, number] = _code(call, (await call.ask(request)).error_code)
    return {
        "results_by_topic_v3_and_below": [
            {
                "name": topic["name"],
                "results_by_partition": [
                    {
                        "partition_index": number,
                        "partition_error_code": codes[topic["name"], number],
                    }
                    for number in topic["partitions"]
                ],
            }
            for topic in said["v3_and_below_topics"]
        ]
    }


async def transaction_error(
    call: Call, producer_id: int, producer_epoch: int, *, partition: DataPartition
) -> int:
    """Why a Produce request may not write to a partition in a transaction; 0: it may. From
    transactions of version 2 on this adds the partition."""
    name = call.message["transactional_id"]
    if not name:
        return ErrorCode.INVALID_TXN_STATE
    request = AddPartitionsToTxnRequest(
        group_id=partition.group_id,
        transactional_id=name,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        verify_only=call.version < _FIRST_PRODUCE_OF_TRANSACTIONS_2,
    )
    code: ErrorCode = (await call.ask(request)).error_code
    if code is ErrorCode.TRANSACTION_ABORTABLE and call.version < _FIRST_PRODUCE_OF_ABORTABLE:
        return ErrorCode.INVALID_TXN_STATE
    return error_of_write(code, verify_only=request.verify_only)


async def add_offsets(call: Call) -> Message:
    """AddOffsetsToTxn."""
    said = call.message
    if said["group_id"].startswith(OF_DATA):
        return {"error_code": ErrorCode.INVALID_GROUP_ID}
    added = await call.ask(
        AddOffsetsToTxnRequest(
            group_id=said["group_id"],
            **_producer(said),
        )
    )
    return {"error_code": _code(call, added.error_code)}


async def commit_offsets(call: Call) -> Message:
    """TxnOffsetCommit. Metadata are not kept."""
    said, named = call.message, Named(call)
    rows = [
        (topic, [(named.partition(topic, p["partition_index"]), p) for p in topic["partitions"]])
        for topic in said["topics"]
    ]
    errors: dict[Any, Any] = {}
    if said["group_id"].startswith(OF_DATA):
        partitions = (one for _, pairs in rows for one, _ in pairs)
        errors = dict.fromkeys(partitions, ErrorCode.INVALID_GROUP_ID)
    else:
        answer = await call.ask(
            TxnOffsetCommitRequest(
                group_id=said["group_id"],
                **_producer(said),
                offsets={one: p["committed_offset"] for _, pairs in rows for one, p in pairs},
                generation_id=said.get("generation_id", -1),
                member_id=said.get("member_id", ""),
                group_instance_id=said.get("group_instance_id"),
                api_version=call.version,
            )
        )
        errors = answer.errors
    return {
        "topics": [
            {
                "name": topic["name"],
                "partitions": [
                    {"partition_index": one.partition, "error_code": errors[one]}
                    for one, _ in pairs
                ],
            }
            for topic, pairs in rows
        ]
    }


async def end(call: Call) -> Message:
    """EndTxn."""
    said = call.message
    ended = await call.ask(
        EndTxnRequest(
            **_producer(said),
            committed=said["committed"],
            api_version=call.version,
        )
    )
    return {
        "error_code": _code(call, ended.error_code),
        "producer_id": ended.producer_id,
        "producer_epoch": ended.producer_epoch,
    }
