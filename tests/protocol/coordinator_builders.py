"""A coordinator on a bench: short ways to send requests and to read what they wrote.

Topic ids are the topics' names. ``wrote`` spells the records of the last operation as
coordinator §9.2 does: ``"5A 3 7A 6 8A"``, ``†`` for a tombstone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import pytest
from assignor_builders import parts

from rebalance_sim.protocol.assignors.server import PartitionAssignorError, SubscriptionType
from rebalance_sim.protocol.classic.classic_group import ClassicGroup
from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup
from rebalance_sim.protocol.consumer.consumer_member import Member
from rebalance_sim.protocol.consumer.timer_keys import ConsumerTimer
from rebalance_sim.protocol.hosting.minimal_shard import MinimalShard
from rebalance_sim.protocol.runtime.coordinator import GroupCoordinator
from rebalance_sim.protocol.runtime.coordinator_config import CoordinatorConfig
from rebalance_sim.protocol.runtime.outcome import ScheduleTimer, TimerKey
from rebalance_sim.protocol.versions.semantics import SEMANTICS, Semantics
from rebalance_sim.protocol.wire.consumer_messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    Request,
)
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.offset_messages import (
    OffsetCommitRequest,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from rebalance_sim.protocol.wire.records import VALUE_FIELDS, MemberState, OffsetCommit, Record
from rebalance_sim.protocol.wire.topics import MetadataImage, Topic, TopicPartition
from rebalance_sim.re2_engine import compile_re2

__all__ = [
    "FIRST_EPOCH",
    "GROUP_ID",
    "VERSIONS",
    "Bench",
    "FailingAssignor",
    "assert_accepted",
    "assert_refused",
    "both_versions",
    "compacted",
    "image_of",
    "join_request",
    "load",
    "parts",
    "recount",
    "shorthand",
    "state_of",
    "text",
]

GROUP_ID = "group"
VERSIONS = ("kafka-4.1", "kafka-4.3")
FIRST_EPOCH = {"kafka-4.1": 1, "kafka-4.3": 2, "kip-848": 1}
"""Epoch that the first join of a group gets (coordinator §1.1)."""

_Response = TypeVar("_Response")

both_versions = pytest.mark.parametrize("version", VERSIONS)

_SOFT = {
    "metadata_refresh_deadline_ms",
    "metadata_refresh_epoch",
    "computation",
    "_ownership",
    "_timeline",
    "befores",
}


def text(partitions: Iterable[TopicPartition]) -> str:
    """``"bar-0 foo-1"``: partitions in order."""
    return " ".join(f"{topic}-{number}" for topic, number in sorted(partitions))


def image_of(topics: Mapping[str, int], *, version: int = 0) -> MetadataImage:
    """Topics whose ids are their names."""
    return MetadataImage(
        (Topic(topic_id=n, name=n, partition_count=count) for n, count in topics.items()),
        version=version,
    )


def join_request(member_id: str = "A", **fields: Any) -> ConsumerGroupHeartbeatRequest:
    """A valid first heartbeat, with some fields replaced."""
    return ConsumerGroupHeartbeatRequest(
        **{
            "group_id": GROUP_ID,
            "member_id": member_id,
            "member_epoch": 0,
            "rebalance_timeout_ms": 60_000,
            "subscribed_topic_names": ("foo",),
            "topic_partitions": frozenset(),
            **fields,
        }
    )


def assert_refused(response: Any, code: str, message: str | None = None) -> None:
    """An error answer carries nothing but code and message (coordinator §1.4); None = any
    message."""
    assert response.error_code.name == code
    if message is None:
        message = response.error_message
    assert response == ConsumerGroupHeartbeatResponse(
        error_code=ErrorCode[code], error_message=message
    )


def assert_accepted(response: Any) -> None:
    assert (response.error_code, response.error_message) == (ErrorCode.NONE, None)


def shorthand(records: Iterable[Record]) -> str:
    """Record types with what they are about, in order."""
    return " ".join(_short(record) for record in records)


def _short(record: Record) -> str:
    about = getattr(record, "member_id", "")
    if isinstance(record, OffsetCommit):
        about = f"({record.topic}-{record.partition})"
    elif hasattr(record, "regular_expression"):
        about = f"({record.regular_expression})"
    return f"{record.type_id}{'' if record.value is not None else '†'}{about}"


class Bench:
    """One shard with one group of interest. Targets are computed at once unless the assignment
    interval is configured."""

    def __init__(
        self,
        semantics: Semantics | str = "kafka-4.3",
        *,
        topics: Mapping[str, int] | None = None,
        **config: Any,
    ) -> None:
        self.semantics = SEMANTICS[semantics] if isinstance(semantics, str) else semantics
        self.shard = MinimalShard(
            config=CoordinatorConfig(**{"group_consumer_assignment_interval_ms": 0, **config}),
            semantics=self.semantics,
            image=image_of(topics or {"foo": 3}),
            compile_regex=compile_re2,
        )
        self.records: tuple[Record, ...] = ()

    # -- sending ---------------------------------------------------------------------------

    def send(self, request: Request, *, client_id: str = "client") -> Any:
        return self._watch(lambda: self.shard.request(request, client_id=client_id))

    def ask(
        self, request: Request, expected: type[_Response], *, client_id: str = "client"
    ) -> _Response:
        """Send a request whose answer is of the class ``expected``."""
        response = self.send(request, client_id=client_id)
        assert isinstance(response, expected), response
        return response

    def join(
        self,
        member_id: str,
        topics: str | None = "foo",
        *,
        client_id: str = "client",
        **fields: Any,
    ) -> ConsumerGroupHeartbeatResponse:
        """A heartbeat at epoch 0 that subscribes to the topics of a blank-separated list."""
        names = None if topics is None else tuple(topics.split())
        request = join_request(member_id, **{"subscribed_topic_names": names, **fields})
        return self.ask(request, ConsumerGroupHeartbeatResponse, client_id=client_id)

    def beat(
        self,
        member_id: str,
        owned: str | None = None,
        *,
        epoch: int | None = None,
        client_id: str = "client",
        **fields: Any,
    ) -> ConsumerGroupHeartbeatResponse:
        """A later heartbeat, at the member's stored epoch unless one is given."""
        if "topics" in fields:
            fields["subscribed_topic_names"] = tuple(fields.pop("topics").split())
        return self.ask(
            ConsumerGroupHeartbeatRequest(
                group_id=GROUP_ID,
                member_id=member_id,
                member_epoch=self.member(member_id).member_epoch if epoch is None else epoch,
                topic_partitions=None if owned is None else parts(owned),
                **fields,
            ),
            ConsumerGroupHeartbeatResponse,
            client_id=client_id,
        )

    def leave(
        self, member_id: str, instance_id: str | None = None
    ) -> ConsumerGroupHeartbeatResponse:
        return self.beat(member_id, epoch=-1, instance_id=instance_id)

    def go_away(self, member_id: str, instance_id: str) -> ConsumerGroupHeartbeatResponse:
        """A static member leaves for a while."""
        return self.beat(member_id, epoch=-2, instance_id=instance_id)

    def settle(self) -> None:
        """Heartbeats of clients that do as they are told, until nothing is written any more."""
        for _ in range(20):
            before = len(self.shard.batches)
            for member_id in sorted(self.group.members):
                if self.member(member_id).member_epoch >= 0:
                    self.beat(member_id, owned=self.assigned_list(member_id))
            if len(self.shard.batches) == before:
                return
        raise AssertionError("the group does not settle")

    def commit(
        self, member_id: str, epoch: int, offsets: Mapping[str, int], **fields: Any
    ) -> dict[str, ErrorCode]:
        """Commit ``{"foo-0": 5}``; the answer by partition in the same spelling."""
        response = self.send(
            OffsetCommitRequest(
                group_id=GROUP_ID,
                member_id=member_id,
                generation_id_or_member_epoch=epoch,
                offsets={_partition(name): offset for name, offset in offsets.items()},
                **fields,
            )
        )
        return {f"{t}-{p}": error for (t, p), error in response.errors.items()}

    def fetch(self, *partitions: str, **fields: Any) -> OffsetFetchResponse:
        wanted = frozenset(_partition(name) for name in partitions)
        request = OffsetFetchRequest(group_id=GROUP_ID, partitions=wanted, **fields)
        return self.ask(request, OffsetFetchResponse)

    def fetched(self, *partitions: str, **fields: Any) -> dict[str, int]:
        return {f"{t}-{p}": o for (t, p), o in self.fetch(*partitions, **fields).offsets.items()}

    def describe(self, group_id: str = GROUP_ID) -> ConsumerGroupDescribeResponse:
        (row,) = self.send(ConsumerGroupDescribeRequest(group_ids=(group_id,)))
        assert isinstance(row, ConsumerGroupDescribeResponse), row
        return row

    def restart(self) -> None:
        """The broker fails and loads the log again."""
        self._watch(self.shard.restart)

    # -- time and topics -------------------------------------------------------------------

    @property
    def now_ms(self) -> int:
        return self.shard.now_ms

    def wait(self, duration_ms: int) -> None:
        """Let time pass, and timers fire."""
        self._watch(lambda: self.shard.advance_to(self.shard.now_ms + duration_ms))

    def set_topic(self, name: str, partition_count: int, *, topic_id: str = "") -> None:
        """Create a topic, let it grow, or (under another id) recreate it."""
        topic = Topic(topic_id=topic_id or name, name=name, partition_count=partition_count)
        self.shard.update_image(self.shard.coordinator.image.with_topic(topic))

    def delete_topic(self, name: str) -> None:
        self.shard.update_image(self.shard.coordinator.image.without_topic(name))

    def timer(self, kind: str, member_id: str = "") -> ScheduleTimer | None:
        return self.shard.timers.get(TimerKey(ConsumerTimer(kind), GROUP_ID, member_id))

    def timer_at(self, kind: str, member_id: str = "") -> int | None:
        """When a timer fires, counted from now."""
        timer = self.timer(kind, member_id)
        return None if timer is None else timer.at_ms - self.now_ms

    # -- reading ---------------------------------------------------------------------------

    @property
    def group(self) -> ConsumerGroup:
        return self.shard.coordinator.groups_of(ConsumerGroup)[GROUP_ID]

    def member(self, member_id: str) -> Member:
        return self.group.members[member_id]

    def assigned(self, member_id: str) -> str:
        return text(self.member(member_id).assigned)

    def pending(self, member_id: str) -> str:
        return text(self.member(member_id).pending_revocation)

    def target(self, member_id: str) -> str:
        return text(self.group.target_of(member_id))

    def assigned_list(self, member_id: str) -> str:
        """What the member has, as ``beat`` takes an owned list."""
        return " ".join(f"{t}[{p}]" for t, p in sorted(self.member(member_id).assigned))

    @property
    def epochs(self) -> tuple[int, int]:
        """Group epoch and target epoch."""
        return self.group.group_epoch, self.group.target_assignment_epoch

    @property
    def state(self) -> str:
        return self.group.state.value

    @property
    def wrote(self) -> str:
        """The records of the last operation."""
        return shorthand(self.records)

    def view(self, member_id: str) -> str:
        """``"2/1 STABLE foo-0 (foo-1)"``: epoch, previous epoch, state, assigned (pending)."""
        member = self.member(member_id)
        pending = f" ({self.pending(member_id)})" if member.pending_revocation else ""
        name = member.state.name.removesuffix("_PARTITIONS")
        epochs = f"{member.member_epoch}/{member.previous_member_epoch}"
        return f"{epochs} {name} {self.assigned(member_id) or '-'}{pending}"

    def _watch(self, operation: Callable[[], Any]) -> Any:
        before = len(self.shard.batches)
        result = operation()
        self.records = tuple(r for _, batch in self.shard.batches[before:] for r in batch)
        return result


def _partition(name: str) -> TopicPartition:
    topic, _, number = name.partition("-")
    return TopicPartition(topic, int(number))


class FailingAssignor:
    """Computes nothing, ever."""

    name = "uniform"

    def assign(self, spec: Any, partition_counts: Any) -> Any:
        raise PartitionAssignorError("always")


def state_of(subject: GroupCoordinator | ConsumerGroup) -> dict[str, Any]:
    """All hard and derived state, of one group or of a whole coordinator; soft state left out."""
    if isinstance(subject, GroupCoordinator):
        return {
            "groups": {
                group_id: state_of(group)
                for group_id, group in subject.groups_of(ConsumerGroup).items()
            },
            "simple": simple_groups(subject),
            "offsets": {g: dict(subject.offsets.of_group(g)) for g in subject.offsets.group_ids()},
        }
    fields = {name: value for name, value in vars(subject).items() if name not in _SOFT}
    return {
        **fields,
        "state": subject.state,
        "subscription_type": subject.subscription_type,
        "all_subscribed_names": subject.all_subscribed_names(),
    }


def compacted(records: Iterable[Record], *, keeps_tombstones: bool) -> list[Record]:
    """The last record of each key, in order; tombstones go once a log was cleaned long ago."""
    last: dict[Any, Record] = {}
    for record in records:
        names = [n for n in record.__match_args__ if n not in VALUE_FIELDS]
        key = (record.type_id, *(getattr(record, name) for name in names))
        last.pop(key, None)
        last[key] = record
    return [r for r in last.values() if keeps_tombstones or r.value is not None]


def load(semantics: Semantics, records: Iterable[Record], *, strict: bool) -> GroupCoordinator:
    """A coordinator that has read these records and nothing else."""
    coordinator = Bench(semantics).shard.coordinator
    for record in records:
        coordinator.replay(record, strict=strict)
    coordinator.on_loaded(now_ms=0)
    return coordinator


def recount(group: ConsumerGroup) -> dict[str, Any]:
    """The derived state, counted again from members and target alone (coordinator §1.1, §3.2,
    §6.1)."""
    members = group.members.values()

    def count(values: Iterable[str | None]) -> dict[str, int]:
        given = [value for value in values if value]
        return {value: given.count(value) for value in given}

    names = count(name for m in members for name in m.subscribed_topic_names)
    regexes = count(m.subscribed_topic_regex for m in members)
    if regexes:
        is_alike = not names and len(regexes) == 1 and set(regexes.values()) == {len(members)}
    else:
        is_alike = all(number == len(members) for number in names.values())
    if not members:
        state = "Empty"
    elif group.group_epoch > group.target_assignment_epoch:
        state = "Assigning"
    elif all(
        m.state is MemberState.STABLE and m.member_epoch == group.target_assignment_epoch
        for m in members
    ):
        state = "Stable"
    else:
        state = "Reconciling"
    return {
        "subscribed_topic_names": names,
        "subscribed_regexes": regexes,
        "server_assignors": count(m.server_assignor for m in members),
        "client_assignors": count(a.name for m in members for a in m.client_assignors),
        "current_partition_epoch": {
            p: m.member_epoch for m in members for p in (*m.assigned, *m.pending_revocation)
        },
        "inverted_target": {p: m for m, share in group.target_assignment.items() for p in share},
        "subscription_type": SubscriptionType("homogeneous" if is_alike else "heterogeneous"),
        "state": state,
    }


def simple_groups(coordinator: GroupCoordinator) -> set[str]:
    """Ids of the groups that exist only for their offsets."""
    return {i for i, group in coordinator.groups_of(ClassicGroup).items() if group.is_simple}
