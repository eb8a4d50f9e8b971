"""One step of a broker trace, carried out on the model and answered in the trace's spelling."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from rebalance_sim.conformance.errors import TraceError
from rebalance_sim.conformance.spelling import GROUP, Spelling, named_partitions
from rebalance_sim.conformance.tolerances import Tolerance, Unknowns
from rebalance_sim.protocol.hosting.minimal_shard import MinimalShard
from rebalance_sim.protocol.wire.classic_messages import (
    DescribedGroup,
    DescribeGroupsRequest,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupProtocol,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupResponse,
)
from rebalance_sim.protocol.wire.consumer_messages import (
    AlterGroupConfigRequest,
    AlterGroupConfigResponse,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
    Request,
)
from rebalance_sim.protocol.wire.embedded import Assignment, Subscription
from rebalance_sim.protocol.wire.offset_messages import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from rebalance_sim.protocol.wire.topics import Topic, TopicPartition
from rebalance_sim.protocol.wire.transaction_messages import (
    DEFAULT_TRANSACTION_TIMEOUT_MS,
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

Step = Mapping[str, Any]
_Response = TypeVar("_Response")

_DEFAULT_TIMEOUT_MS = 10_000
"""Session and rebalance timeout of a JoinGroup that names none."""


@dataclass(frozen=True, slots=True)
class Parked:
    """The step has no answer yet."""


PARKED = Parked()

TOPIC_CHANGES = frozenset({"create_topic", "create_partitions", "delete_topic"})
"""Operations that are no requests to a coordinator: it sees what has come of them."""


class Steps:
    """Everything a trace can ask for, apart from the passing of time."""

    def __init__(
        self, shard: MinimalShard, spelling: Spelling, path: str, unknowns: Unknowns
    ) -> None:
        self._shard = shard
        self._spelling = spelling
        self._path = path
        self._unknowns = unknowns
        self._asynchronous: dict[str, tuple[Step, object]] = {}

    def take(self, step: Step) -> Any:
        """Carry out a step: its answer, None for one that has none, or ``PARKED``.

        Raises TraceError for an operation that is not known.
        """
        match step["op"]:
            case "heartbeat":
                return self._heartbeat(step)
            case "describe":
                (row,) = self._ask(ConsumerGroupDescribeRequest(group_ids=(GROUP,)), tuple)
                return self._spelling.describe(row, shown=self._shown(step, row))
            case "describe_classic":
                (row,) = self._ask(DescribeGroupsRequest(group_ids=(GROUP,)), tuple)
                return self._spelling.describe_classic(row, shown=self._shown(step, row))
            case "list_groups":
                request = ListGroupsRequest(
                    states_filter=tuple(step.get("states", ())),
                    types_filter=tuple(step.get("types", ())),
                )
                return self._spelling.list(self._ask(request, ListGroupsResponse))
            case "delete_group":
                deleted = self._ask(DeleteGroupsRequest(group_id=GROUP), DeleteGroupsResponse)
                return {"error_code": deleted.error_code.wire_name}
            case "offset_commit":
                return self._offset_commit(step["request"])
            case "offset_fetch":
                return self._offset_fetch(step["request"])
            case "init_producer_id":
                return self._init_producer_id(step["request"])
            case "add_offsets_to_txn":
                add = AddOffsetsToTxnRequest(group_id=GROUP, **self._producer(step["request"]))
                added = self._ask(add, AddOffsetsToTxnResponse)
                return {"error_code": added.error_code.wire_name}
            case "txn_offset_commit":
                return self._txn_offset_commit(step)
            case "end_txn":
                return self._end_txn(step)
            case "alter_group_config":
                alter = AlterGroupConfigRequest(group_id=GROUP, configs=step["request"])
                altered = self._ask(alter, AlterGroupConfigResponse)
                return {"error_code": altered.error_code.wire_name}
            case "join_group" | "sync_group":
                return self._park(step)
            case "await":
                return self.answer(step)
            case "classic_heartbeat":
                return self._classic_heartbeat(step["request"])
            case "leave_group":
                return self._leave_group(step["request"])
            case "offset_delete":
                partitions = self._spelling.partitions(step["request"]["topics"])
                delete = OffsetDeleteRequest(group_id=GROUP, partitions=partitions)
                return self._spelling.offset_delete(self._ask(delete, OffsetDeleteResponse))
            case "sleep":
                return None
            case op:
                raise TraceError(
                    f"{self._path}: operation {op!r} at {step['at_ms']} ms is not known; "
                    "the recording is newer than this replay"
                )

    def change_topics(self, step: Step) -> None:
        """The coordinator sees what a step of ``TOPIC_CHANGES`` has done to the topics."""
        image = self._shard.coordinator.image
        name = step["topic"]
        if step["op"] == "delete_topic":
            self._shard.update_image(image.without_topic(name))
            return
        if step["op"] == "create_topic":
            self._spelling.recreate_topic(name)
        count = step["partitions"] if step["op"] == "create_topic" else step["count"]
        topic = Topic(topic_id=self._spelling.topic_id(name), name=name, partition_count=count)
        self._shard.update_image(image.with_topic(topic))

    def _shown(self, step: Step, row: ConsumerGroupDescribeResponse | DescribedGroup) -> int:
        """Which of two members with one name stands in a recorded description."""
        namesakes = self._spelling.namesakes(row)
        if namesakes < 2:
            return 0
        at_ms = step["at_ms"]
        most = len(row.members) - 1
        what = (at_ms, step["op"])
        return self._unknowns.ask(Tolerance.SHARED_NAME, what, at_ms=at_ms, most=most)

    def _ask(self, request: Request, kind: type[_Response]) -> _Response:
        return _of_type(self._shard.request(request), kind)

    # -- the consumer protocol -------------------------------------------------------------

    def _heartbeat(self, step: Step) -> dict[str, Any]:
        fields = dict(step["request"])
        names = fields.pop("subscribed_topic_names", None)
        owned = fields.pop("topic_partitions", None)
        symbolic_id = fields.pop("member_id")
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=self._spelling.real_id(symbolic_id),
            subscribed_topic_names=None if names is None else tuple(names),
            topic_partitions=None if owned is None else self._spelling.partitions(owned),
            topics_without_partitions=frozenset(
                self._spelling.topic_id(name)
                for name, numbers in (owned or {}).items()
                if not numbers
            ),
            api_version=step.get("version", 1),
            **fields,
        )
        client_id = step.get("conn", symbolic_id or "anonymous")
        response = _of_type(
            self._shard.request(request, client_id=client_id), ConsumerGroupHeartbeatResponse
        )
        self._bind(step, response.member_id)
        return self._spelling.heartbeat(response)

    def _bind(self, step: Step, member_id: str | None) -> None:
        if step.get("bind") and member_id:
            self._spelling.bind(step["bind"], member_id)

    # -- the classic protocol --------------------------------------------------------------

    def _park(self, step: Step) -> Any:
        token = step["async"] if "async" in step else object()
        request = self._join(step) if step["op"] == "join_group" else self._sync(step["request"])
        response = self._shard.request(request, client_id=step["conn"], token=token)
        if response is not None:
            self._shard.answers[token] = response
        self._asynchronous[_ticket(step)] = (step, token)
        return None if "async" in step else self.answer(step)

    def answer(self, step: Step) -> Any:
        """The answer that a parked request has got meanwhile, or ``PARKED``."""
        ticket = _ticket(step)
        if ticket not in self._asynchronous:
            return PARKED  # The request is on its way.
        sent, token = self._asynchronous[ticket]
        response = self._shard.answers.pop(token, None)
        if response is None:
            return PARKED
        if sent["op"] == "join_group":
            joined = _of_type(response, JoinGroupResponse)
            self._bind(sent, joined.member_id)
            return self._spelling.join_group(joined)
        return self._spelling.sync_group(_of_type(response, SyncGroupResponse))

    def _join(self, step: Step) -> JoinGroupRequest:
        fields = step["request"]
        user_data = fields.get("user_data", {})

        def metadata(protocol: str) -> Subscription:
            return Subscription(
                topics=tuple(fields["topics"]),
                owned_partitions=named_partitions(fields.get("owned", {})),
                generation_id=fields.get("generation", -1),
                rack_id=fields.get("rack_id"),
                user_data=user_data.get(protocol),
                version=fields.get("subscription_version", 3),
            )

        return JoinGroupRequest(
            group_id=GROUP,
            member_id=self._spelling.real_id(fields["member_id"]),
            group_instance_id=fields.get("instance_id"),
            session_timeout_ms=fields.get("session_timeout_ms", _DEFAULT_TIMEOUT_MS),
            rebalance_timeout_ms=fields.get("rebalance_timeout_ms", _DEFAULT_TIMEOUT_MS),
            protocols=tuple(
                JoinGroupProtocol(name, metadata(name))
                for name in fields.get("protocols", ["range"])
            ),
        )

    def _sync(self, fields: Step) -> SyncGroupRequest:
        user_data = fields.get("user_data", {})
        return SyncGroupRequest(
            group_id=GROUP,
            generation_id=fields["generation"],
            member_id=self._spelling.real_id(fields["member_id"]),
            group_instance_id=fields.get("instance_id"),
            protocol_type="consumer",
            protocol_name=fields.get("protocol", "range"),
            assignments={
                self._spelling.real_id(name): Assignment(
                    partitions=named_partitions(given), user_data=user_data.get(name)
                )
                for name, given in fields.get("assignments", {}).items()
            },
        )

    def _classic_heartbeat(self, fields: Step) -> dict[str, Any]:
        request = HeartbeatRequest(
            group_id=GROUP,
            generation_id=fields["generation"],
            member_id=self._spelling.real_id(fields["member_id"]),
            group_instance_id=fields.get("instance_id"),
        )
        return {"error_code": self._ask(request, HeartbeatResponse).error_code.wire_name}

    def _leave_group(self, fields: Step) -> dict[str, Any]:
        member_id = self._spelling.real_id(fields["member_id"])
        identity = MemberIdentity(member_id, fields.get("instance_id"))
        request = LeaveGroupRequest(group_id=GROUP, members=(identity,))
        return self._spelling.leave_group(self._ask(request, LeaveGroupResponse))

    # -- offsets and topics ----------------------------------------------------------------

    def _offset_commit(self, fields: Step) -> dict[str, Any]:
        offsets = self._by_partition(fields["offsets"])
        request = OffsetCommitRequest(
            group_id=GROUP,
            member_id=self._spelling.real_id(fields["member_id"]),
            generation_id_or_member_epoch=fields["member_epoch"],
            group_instance_id=fields.get("instance_id"),
            offsets=offsets,
            metadata=self._by_partition(fields.get("metadata", {})),
            leader_epochs=self._by_partition(fields.get("leader_epochs", {})),
        )
        return self._spelling.offset_commit(offsets, self._ask(request, OffsetCommitResponse))

    def _by_partition(self, by_topic: Mapping[str, Mapping[str, Any]]) -> dict[TopicPartition, Any]:
        return {
            TopicPartition(self._spelling.topic_id(topic), int(partition)): value
            for topic, by_partition in by_topic.items()
            for partition, value in by_partition.items()
        }

    def _offset_fetch(self, fields: Step) -> dict[str, Any]:
        member_id = fields.get("member_id")
        request = OffsetFetchRequest(
            group_id=GROUP,
            member_id=None if member_id is None else self._spelling.real_id(member_id),
            member_epoch=fields.get("member_epoch", -1),
            partitions=self._spelling.partitions(fields["topics"]),
            require_stable=fields.get("require_stable", False),
        )
        return self._spelling.offset_fetch(self._ask(request, OffsetFetchResponse))

    # -- transactions ----------------------------------------------------------------------

    def _init_producer_id(self, fields: Step) -> dict[str, Any]:
        is_named = {"producer", "producer_epoch"} <= fields.keys()
        request = InitProducerIdRequest(
            transactional_id=fields["transactional_id"],
            transaction_timeout_ms=fields.get(
                "transaction_timeout_ms", DEFAULT_TRANSACTION_TIMEOUT_MS
            ),
            **{key: value for key, value in self._producer(fields).items() if "producer" in key}
            if is_named
            else {},
        )
        return self._spelling.producer(self._ask(request, InitProducerIdResponse))

    def _producer(self, fields: Step) -> dict[str, Any]:
        return {
            "transactional_id": fields["transactional_id"],
            "producer_id": self._spelling.producer_id(fields["producer"]),
            "producer_epoch": fields["producer_epoch"],
        }

    def _txn_offset_commit(self, step: Step) -> dict[str, Any]:
        fields = step["request"]
        offsets = self._by_partition(fields["offsets"])
        request = TxnOffsetCommitRequest(
            group_id=GROUP,
            **self._producer(fields),
            offsets=offsets,
            generation_id=fields.get("member_epoch", -1),
            member_id=self._spelling.real_id(fields["member_id"]) if "member_id" in fields else "",
            group_instance_id=fields.get("instance_id"),
            api_version=step.get("version", 3),
        )
        return self._spelling.offset_commit(offsets, self._ask(request, TxnOffsetCommitResponse))

    def _end_txn(self, step: Step) -> dict[str, Any]:
        version = step.get("version", 3)
        request = EndTxnRequest(
            **self._producer(step["request"]),
            committed=step["request"]["committed"],
            api_version=version,
        )
        response = self._ask(request, EndTxnResponse)
        if version < FIRST_VERSION_OF_TRANSACTIONS_2:
            return {"error_code": response.error_code.wire_name}
        return self._spelling.producer(response)


def _ticket(step: Step) -> str:
    """What joins a parked request and its answer; a synchronous one waits on its connection."""
    return str(step.get("async") or step.get("id") or f"connection {step['conn']}")


def _of_type(response: object, kind: type[_Response]) -> _Response:
    if not isinstance(response, kind):
        raise TypeError(f"expected {kind.__name__}, got {response!r}")
    return response
