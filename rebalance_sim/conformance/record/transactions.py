"""The operations of a trace that belong to transactions: from a step to a request, and back.

Producers stand there by names in the order of their appearance, ``P1``, ``P2``. ``version`` of a
step is that of its request: from 5 on TxnOffsetCommit and EndTxn are those of transactions of
version 2 (KIP-890).
"""

from __future__ import annotations

import time
from collections.abc import Callable

from rebalance_sim.conformance.codec import Message
from rebalance_sim.conformance.record.errors import RecordError
from rebalance_sim.conformance.record.names import Names, error_name
from rebalance_sim.conformance.record.operations import Answer, Step, committed_topics
from rebalance_sim.conformance.record.wire import Connections

VERSION_2 = 5
"""First version of TxnOffsetCommit and EndTxn for transactions of version 2."""

_TRANSACTION = 1
_UNKNOWN_PRODUCER = 999_999
_POLL_S, _POLLS = 0.1, 600


class Transactions:
    """Requests of a transactional producer."""

    def __init__(self, connections: Connections, names: Names) -> None:
        self._connections = connections
        self._names = names
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
        is_named = "producer" in fields
        request = {
            "transactional_id": self._names.prefix + fields["transactional_id"],
            "transaction_timeout": fields.get("transaction_timeout_ms", 60_000),
            "producer_id": self._producer_id(fields) if is_named else -1,
            "producer_epoch": fields.get("producer_epoch", -1),
        }
        return self._said_of_producer(self._call("InitProducerId", 5, step, request))

    def _add_offsets_to_txn(self, step: Step) -> Answer:
        request = {**self._producer(step["request"]), "group_id": self._names.group}
        return {"error_code": error_name(self._call("AddOffsetsToTxn", 3, step, request))}

    def _txn_offset_commit(self, step: Step) -> Answer:
        fields = step["request"]
        request = {
            **self._producer(fields),
            "group_id": self._names.group,
            "generation_id": fields.get("member_epoch", -1),
            "member_id": self._names.real(fields.get("member_id", "")),
            "group_instance_id": fields.get("instance_id"),
            "topics": committed_topics(self._names, fields["offsets"]),
        }
        answer = self._call("TxnOffsetCommit", _version(step), step, request)
        return {"errors": self._names.errors(answer)}

    def _end_txn(self, step: Step) -> Answer:
        fields = step["request"]
        request = {**self._producer(fields), "committed": fields["committed"]}
        answer = self._call("EndTxn", _version(step), step, request)
        if _version(step) < VERSION_2:
            return {"error_code": error_name(answer)}
        return self._said_of_producer(answer)

    def _call(self, api: str, version: int, step: Step, request: Message) -> Message:
        connection = self._connections.of(step["request"]["transactional_id"])
        return connection.call(api, version, request)

    def _said_of_producer(self, answer: Message) -> Answer:
        return {
            "error_code": error_name(answer),
            "producer": self._names.producer(answer["producer_id"]),
            "producer_epoch": answer["producer_epoch"],
        }

    def _producer(self, fields: Step) -> Message:
        return {
            "transactional_id": self._names.prefix + fields["transactional_id"],
            "producer_id": self._producer_id(fields),
            "producer_epoch": fields["producer_epoch"],
        }

    def _producer_id(self, fields: Step) -> int:
        return self._names.producer_id(fields["producer"], _UNKNOWN_PRODUCER)

    def _wait_for_coordinator(self, name: str) -> None:
        """Ask for the coordinator of transactions until there is one; this makes its topic."""
        key = self._names.prefix + name
        find = {"key_type": _TRANSACTION, "coordinator_keys": [key]}
        probe = {"transactional_id": f"{key}-probe", "transaction_timeout": 1_000}
        for _ in range(_POLLS):
            admin = self._connections.admin
            (found,) = admin.call("FindCoordinator", 4, find)["coordinators"]
            is_known = error_name(found) == "none"
            if is_known and error_name(admin.call("InitProducerId", 5, probe)) == "none":
                self._is_ready = True
                return
            time.sleep(_POLL_S)
        raise RecordError("the broker has no coordinator for transactions")


def _version(step: Step) -> int:
    """That of the request. Version 3 stands for all before KIP-890 where a script says none."""
    version: int = step.get("version", 3)
    return version
