"""Names in a trace and ids in the model, both ways; answers and records as a trace spells them.

Topics are identified by name and incarnation, so that a topic recreated under its name has another
id, as on a broker. A member id that the coordinator made stands under the name that the trace has
bound it to so far.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from rebalance_sim.conformance.member_order import is_generated
from rebalance_sim.protocol.wire.classic_messages import (
    DescribedGroup,
    JoinGroupResponse,
    LeaveGroupResponse,
    SyncGroupResponse,
)
from rebalance_sim.protocol.wire.consumer_messages import (
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatResponse,
    ListGroupsResponse,
)
from rebalance_sim.protocol.wire.embedded import Assignment, EmbeddedAssignment, NamedPartitions
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.offset_messages import (
    OffsetCommitResponse,
    OffsetDeleteResponse,
    OffsetFetchResponse,
)
from rebalance_sim.protocol.wire.records import OffsetCommit, Record, TxnOffsetCommit, to_dict
from rebalance_sim.protocol.wire.topics import TopicPartition, group_by_topic
from rebalance_sim.protocol.wire.transaction_messages import (
    NO_PRODUCER_ID,
    EndTxnResponse,
    InitProducerIdResponse,
    TxnOffsetCommitResponse,
)

GROUP = "group"
_Member = TypeVar("_Member")


class Spelling:
    """The names of one trace. ``real_id`` and ``symbolic`` are each other's inverse."""

    def __init__(self, topics: Iterable[str]) -> None:
        self._incarnation = dict.fromkeys(topics, 1)
        self._real: dict[str, str] = {}
        self._symbols: dict[str, str] = {}
        self._producers: dict[int, str] = {}

    # -- from the trace --------------------------------------------------------------------

    def bind(self, name: str, member_id: str) -> None:
        """From now on the trace calls this member id so. A name can be bound again."""
        if member_id:
            self._real[name] = member_id
            self._symbols[member_id] = name

    def real_id(self, name: str) -> str:
        """The member id that a request of the trace names; one that is bound to none is an id that
        the client has chosen."""
        if name not in self._real:
            self.bind(name, name)
        return self._real.get(name, name)

    def recreate_topic(self, name: str) -> None:
        """The topic of this name is another one from now on."""
        self._incarnation[name] = self._incarnation.get(name, 0) + 1

    def topic_id(self, name: str) -> str:
        """The id of the topic that now has this name."""
        return f"{name}#{self._incarnation.get(name, 1)}"

    def partitions(self, named: Mapping[str, list[int]]) -> frozenset[TopicPartition]:
        """name -> numbers, as partitions."""
        return frozenset(
            TopicPartition(self.topic_id(name), number)
            for name, numbers in named.items()
            for number in numbers
        )

    # -- to the trace ----------------------------------------------------------------------

    def symbolic(self, member_id: str | None) -> str | None:
        """The name of a member id; a placeholder for one that is not bound yet."""
        if member_id is None or member_id in self._symbols:
            return self._symbols.get(member_id or "")
        return "<generated>" if is_generated(member_id) else member_id

    def heartbeat(self, response: ConsumerGroupHeartbeatResponse) -> dict[str, Any]:
        result: dict[str, Any] = {
            "error_code": response.error_code.wire_name,
            "member_id": self.symbolic(response.member_id),
            "member_epoch": response.member_epoch,
            "heartbeat_interval_ms": response.heartbeat_interval_ms,
            "assignment": None if response.assignment is None else by_name(response.assignment),
        }
        if response.error_message:
            result["error_message"] = response.error_message
        return result

    def namesakes(self, row: ConsumerGroupDescribeResponse | DescribedGroup) -> int:
        """How many members at most have one name: a name can be bound again."""
        names = Counter(self.symbolic(member.member_id) for member in row.members)
        return max(names.values(), default=0)

    def describe(self, row: ConsumerGroupDescribeResponse, *, shown: int = 0) -> dict[str, Any]:
        """Of members with one name the last stands there, or that ``shown`` places before it."""
        members = {}
        for member in _rotated(row.members, shown):
            members[self.symbolic(member.member_id)] = {
                "instance_id": member.instance_id,
                "rack_id": member.rack_id,
                "member_epoch": member.member_epoch,
                "subscribed_topic_names": list(member.subscribed_topic_names),
                "subscribed_topic_regex": member.subscribed_topic_regex,
                "member_type": member.member_type,
                "assignment": by_name(member.assignment),
                "target_assignment": by_name(member.target_assignment),
            }
        return {
            "error_code": row.error_code.wire_name,
            "state": row.state,
            "group_epoch": row.group_epoch,
            "assignment_epoch": row.assignment_epoch,
            "assignor": row.assignor,
            "members": members,
        }

    def describe_classic(self, row: DescribedGroup, *, shown: int = 0) -> dict[str, Any]:
        """As ``describe``, of DescribeGroups."""
        return {
            "error_code": row.error_code.wire_name,
            "state": row.group_state,
            "protocol_type": row.protocol_type,
            "protocol": row.protocol_data,
            "members": {
                self.symbolic(member.member_id): {
                    "instance_id": member.group_instance_id,
                    "assignment": _assignment(member.member_assignment),
                }
                for member in _rotated(row.members, shown)
            },
        }

    def producer(self, response: InitProducerIdResponse | EndTxnResponse) -> dict[str, Any]:
        """A producer with its epoch; it gets the next name if it has none."""
        known, name = self._producers, None
        if response.producer_id != NO_PRODUCER_ID:
            name = known.setdefault(response.producer_id, f"P{len(known) + 1}")
        return {
            "error_code": response.error_code.wire_name,
            "producer": name,
            "producer_epoch": response.producer_epoch,
        }

    def producer_id(self, name: str) -> int:
        """The id that a name stands for; one that no one has if it stands for none."""
        return next((one for one, known in self._producers.items() if known == name), -2)

    def offset_commit(
        self,
        partitions: Iterable[TopicPartition],
        response: OffsetCommitResponse | TxnOffsetCommitResponse,
    ) -> dict[str, Any]:
        """``partitions`` in the order of the request."""
        errors: dict[str, dict[str, str]] = {}
        for partition in partitions:
            code = response.errors[partition].wire_name
            errors.setdefault(name_of(partition.topic_id), {})[str(partition.partition)] = code
        return {"errors": errors}

    def offset_fetch(self, response: OffsetFetchResponse) -> dict[str, Any]:
        offsets: dict[str, dict[str, int]] = {}
        for topic_id, partition in sorted(response.offsets):
            value = response.offsets[TopicPartition(topic_id, partition)]
            offsets.setdefault(name_of(topic_id), {})[str(partition)] = value
        shown: dict[str, Any] = {"error_code": response.error_code.wire_name, "offsets": offsets}
        for (topic_id, partition), code in sorted(response.errors.items()):
            of_topic = shown.setdefault("errors", {}).setdefault(name_of(topic_id), {})
            of_topic[str(partition)] = code.wire_name
        return shown

    def offset_delete(self, response: OffsetDeleteResponse) -> dict[str, Any]:
        errors: dict[str, dict[str, str]] = {}
        for topic_id, number in sorted(response.errors):
            code = response.errors[TopicPartition(topic_id, number)].wire_name
            errors.setdefault(name_of(topic_id), {})[str(number)] = code
        return {"error_code": response.error_code.wire_name, "errors": errors}

    def list(self, response: ListGroupsResponse) -> dict[str, Any]:
        if response.error_code is not ErrorCode.NONE:
            return {"error_code": response.error_code.wire_name}
        return {
            "groups": [
                {"state": g.group_state, "type": g.group_type, "protocol_type": g.protocol_type}
                for g in response.groups
                if g.group_id == GROUP
            ]
        }

    def join_group(self, response: JoinGroupResponse) -> dict[str, Any]:
        members = [self.symbolic(member.member_id) or "" for member in response.members]
        return {
            "error_code": response.error_code.wire_name,
            "generation": response.generation_id,
            "protocol": response.protocol_name,
            "leader": self.symbolic(response.leader),
            "member_id": self.symbolic(response.member_id),
            "skip_assignment": response.skip_assignment,
            "members": sorted(members),
        }

    def sync_group(self, response: SyncGroupResponse) -> dict[str, Any]:
        return {
            "error_code": response.error_code.wire_name,
            "protocol": response.protocol_name,
            "assignment": _assignment(response.assignment),
        }

    def leave_group(self, response: LeaveGroupResponse) -> dict[str, Any]:
        return {
            "error_code": response.error_code.wire_name,
            "members": [member.error_code.wire_name for member in response.members],
        }

    def record(self, record: Record, hashes: dict[int, int]) -> dict[str, Any]:
        """``hashes`` numbers the metadata hashes in the order of their first appearance."""
        if type(record) is TxnOffsetCommit:
            # A recording shows what is in the batch, and not whose transaction it is of.
            record = OffsetCommit(record.group_id, record.topic, record.partition, record.value)
        out = to_dict(record)
        if "member_id" in out["key"]:
            out["key"]["member_id"] = self.symbolic(out["key"]["member_id"])
        value = out["value"]
        if value is None:
            return out
        if "metadata_hash" in value:
            value["metadata_hash"] = hashes.setdefault(value["metadata_hash"], len(hashes) + 1)
        if isinstance(value.get("topic_id"), str):
            value["topic_id"] = name_of(value["topic_id"])
        if "leader" in value:
            value["leader"] = self.symbolic(value["leader"])
        for key, item in value.items():
            if isinstance(item, list) and item and isinstance(item[0], dict):
                value[key] = [self._row(row) for row in item]
        return out

    def _row(self, row: dict[str, Any]) -> dict[str, Any]:
        if "topic_id" in row:
            return {**row, "topic_id": name_of(row["topic_id"])}
        return {**row, "member_id": self.symbolic(row["member_id"])}


def _rotated(members: Sequence[_Member], shown: int) -> Sequence[_Member]:
    split = len(members) - shown
    return (*members[split:], *members[:split])


def by_name(partitions: frozenset[TopicPartition]) -> dict[str, list[int]]:
    """topic name -> sorted partitions, as traces spell an assignment."""
    return {name_of(topic_id): ps for topic_id, ps in group_by_topic(partitions).items()}


def name_of(topic_id: str) -> str:
    """The name in an id made by ``Spelling.topic_id``."""
    return topic_id.rsplit("#", 1)[0]


def named_partitions(named: Mapping[str, list[int]]) -> tuple[NamedPartitions, ...]:
    """name -> numbers, as the embedded consumer protocol has them."""
    return tuple(NamedPartitions(name, tuple(numbers)) for name, numbers in named.items())


def _assignment(assignment: EmbeddedAssignment) -> dict[str, list[int]]:
    if not isinstance(assignment, Assignment):
        return {}
    return {topic: sorted(numbers) for topic, numbers in sorted(assignment.partitions)}
