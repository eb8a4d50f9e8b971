"""The operations of a trace that belong to transactions: from a step to a request, and back.

Producers stand there by names in the order of their appearance, ``P1``, ``P2``. ``version`` of a
step is that of its request: from 5 on TxnOffsetCommit and EndTxn are those of transactions of
version 2 (KIP-890).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import kio.schema.add_offsets_to_txn.v3.request as add_offsets
import kio.schema.end_txn.v3.request as end_txn_v3
import kio.schema.end_txn.v5.request as end_txn_v5
import kio.schema.init_producer_id.v5.request as init_producer_id
import kio.schema.txn_offset_commit.v3.request as txn_offset_commit_v3
import kio.schema.txn_offset_commit.v5.request as txn_offset_commit_v5
from kio.schema.add_offsets_to_txn.v3.response import AddOffsetsToTxnResponse
from kio.schema.end_txn.v3.response import EndTxnResponse as EndTxnResponseV3
from kio.schema.end_txn.v5.response import EndTxnResponse as EndTxnResponseV5
from kio.schema.find_coordinator.v4.request import FindCoordinatorRequest
from kio.schema.find_coordinator.v4.response import FindCoordinatorResponse
from kio.schema.init_producer_id.v5.response import InitProducerIdResponse
from kio.schema.txn_offset_commit.v3.response import (
    TxnOffsetCommitResponse as TxnOffsetCommitResponseV3,
)
from kio.schema.txn_offset_commit.v5.response import (
    TxnOffsetCommitResponse as TxnOffsetCommitResponseV5,
)
from kio.schema.types import GroupId, ProducerId, TransactionalId
from kio.static.primitive import i8, i16, i32

from rebalance_sim.conformance.record.connections import Connections
from rebalance_sim.conformance.record.errors import RecordError
from rebalance_sim.conformance.record.names import Names
from rebalance_sim.conformance.record.operations import Answer, Step, committed_topics
from rebalance_sim.conformance.record.wire import milliseconds

VERSION_2 = 5
"""First version of TxnOffsetCommit and EndTxn for transactions of version 2."""

_TRANSACTION = i8(1)
_UNKNOWN_PRODUCER = 999_999
_POLL_S, _POLLS = 0.1, 600


class Transactions:
    """Requests of a transactional producer."""

    def __init__(self, connections: Connections, names: Names) -> None:
        self._connections = connections
        self._names = names
        self._group = GroupId(names.group)
        self._is_ready = False
        self.by_name: dict[str, Callable[[Step], Answer]] = {
            "init_producer_id": self._init_producer_id,
            "add_offsets_to_txn": self._add_offsets_to_txn,
            "txn_offset_commit": self._txn_offset_commit,
            "end_txn": self._end_txn,
        }
        """Operation -> what carries it out."""

    def _init_producer_id(self, step: Step) -> Answer:
        fields = step["request"]
        if not self._is_ready:
            self._wait_for_coordinator(fields["transactional_id"])
        request = init_producer_id.InitProducerIdRequest(
            transactional_id=self._transactional_id(fields),
            transaction_timeout=milliseconds(fields.get("transaction_timeout_ms", 60_000)),
            producer_id=self._producer_id(fields) if "producer" in fields else ProducerId(-1),
            producer_epoch=i16(fields.get("producer_epoch", -1)),
        )
        answer = self._connections.of(fields["transactional_id"]).call(
            request, InitProducerIdResponse
        )
        return {
            "error_code": answer.error_code.name,
            "producer": self._names.producer(int(answer.producer_id)),
            "producer_epoch": int(answer.producer_epoch),
        }

    def _add_offsets_to_txn(self, step: Step) -> Answer:
        fields = step["request"]
        request = add_offsets.AddOffsetsToTxnRequest(
            transactional_id=self._transactional_id(fields),
            producer_id=self._producer_id(fields),
            producer_epoch=i16(fields["producer_epoch"]),
            group_id=self._group,
        )
        answer = self._connections.of(fields["transactional_id"]).call(
            request, AddOffsetsToTxnResponse
        )
        return {"error_code": answer.error_code.name}

    def _txn_offset_commit(self, step: Step) -> Answer:
        fields = step["request"]
        is_version_2 = step.get("version", 3) >= VERSION_2
        schema: Any = txn_offset_commit_v5 if is_version_2 else txn_offset_commit_v3
        request = schema.TxnOffsetCommitRequest(
            transactional_id=self._transactional_id(fields),
            group_id=self._group,
            producer_id=self._producer_id(fields),
            producer_epoch=i16(fields["producer_epoch"]),
            generation_id=i32(fields.get("member_epoch", -1)),
            member_id=self._names.real(fields.get("member_id", "")),
            group_instance_id=fields.get("instance_id"),
            topics=committed_topics(
                self._names,
                fields["offsets"],
                schema.TxnOffsetCommitRequestTopic,
                schema.TxnOffsetCommitRequestPartition,
            ),
        )
        connection = self._connections.of(fields["transactional_id"])
        response: TxnOffsetCommitResponseV3 | TxnOffsetCommitResponseV5
        if is_version_2:
            response = connection.call(request, TxnOffsetCommitResponseV5)
        else:
            response = connection.call(request, TxnOffsetCommitResponseV3)
        return {"errors": self._names.errors(response.topics)}

    def _end_txn(self, step: Step) -> Answer:
        fields = step["request"]
        connection = self._connections.of(fields["transactional_id"])
        common: dict[str, Any] = {
            "transactional_id": self._transactional_id(fields),
            "producer_id": self._producer_id(fields),
            "producer_epoch": i16(fields["producer_epoch"]),
            "committed": fields["committed"],
        }
        if step.get("version", 3) < VERSION_2:
            old = connection.call(end_txn_v3.EndTxnRequest(**common), EndTxnResponseV3)
            return {"error_code": old.error_code.name}
        answer = connection.call(end_txn_v5.EndTxnRequest(**common), EndTxnResponseV5)
        return {
            "error_code": answer.error_code.name,
            "producer": self._names.producer(int(answer.producer_id)),
            "producer_epoch": int(answer.producer_epoch),
        }

    def _transactional_id(self, fields: Step) -> TransactionalId:
        return TransactionalId(self._names.prefix + fields["transactional_id"])

    def _producer_id(self, fields: Step) -> ProducerId:
        return ProducerId(self._names.producer_id(fields["producer"], _UNKNOWN_PRODUCER))

    def _wait_for_coordinator(self, name: str) -> None:
        """Ask for the coordinator of transactions until there is one; this makes its topic."""
        key = self._names.prefix + name
        find = FindCoordinatorRequest(key_type=_TRANSACTION, coordinator_keys=(key,))
        probe = init_producer_id.InitProducerIdRequest(
            transactional_id=TransactionalId(key + "-probe"),
            transaction_timeout=milliseconds(1_000),
        )
        for _ in range(_POLLS):
            admin = self._connections.admin
            (found,) = admin.call(find, FindCoordinatorResponse).coordinators
            is_known = found.error_code.name == "none"
            if is_known and admin.call(probe, InitProducerIdResponse).error_code.name == "none":
                self._is_ready = True
                return
            time.sleep(_POLL_S)
        raise RecordError("the broker has no coordinator for transactions")
