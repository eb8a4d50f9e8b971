"""Random typed requests: what members may send, what no one should, and everything in between.

Every value that a field can hold on the wire may come: empty and blank strings, negative epochs,
nulls, repetitions, topics that no one knows, long lists. About half of what is drawn fits the state
of the group, so that requests get beyond the first check.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from rebalance_sim.protocol.classic.classic_group import ClassicGroup
from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup
from rebalance_sim.protocol.runtime.coordinator import GroupCoordinator
from rebalance_sim.protocol.wire.assignment_messages import (
    ClientAssignor,
    ConsumerGroupInstallAssignmentRequest,
    ConsumerGroupPrepareAssignmentRequest,
    InstalledMember,
)
from rebalance_sim.protocol.wire.classic_messages import (
    DescribeGroupsRequest,
    HeartbeatRequest,
    JoinGroupProtocol,
    JoinGroupRequest,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
)
from rebalance_sim.protocol.wire.consumer_messages import (
    AlterGroupConfigRequest,
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    DeleteGroupsRequest,
    ListGroupsRequest,
)
from rebalance_sim.protocol.wire.embedded import Assignment, NamedPartitions, Subscription
from rebalance_sim.protocol.wire.offset_messages import (
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
)
from rebalance_sim.protocol.wire.topics import MetadataImage, TopicPartition

GROUPS = ("g", "h", "", " ")
TOPICS = ("orders", "payments", "audit", "metrics")
_INT32_MAX = 2**31 - 1
_INT64_MAX = 2**63 - 1
_NAMES = ("c0", "c1", "c2", "c3", "c4", "c5")
_ODD_NAMES = ("", " ", "ü", "c" * 40)
_INSTANCES = (None, None, None, "i0", "i1", "i2")
_ODD_INSTANCES = ("", " ", "i" * 40)
_EPOCHS = (-3, -2, -1, 0, 1, 2, 7, _INT32_MAX, -(2**31))
_PATTERNS = (
    "",
    "orders",
    "^(orders|pay).*",
    "^m.*s$",
    ".*",
    "(",
    "*",
    "a{2,1}",
    "\\",
    "[[:alpha:]]+",
)
_ASSIGNORS = (None, None, "uniform", "range", "", "other")
_CLASSIC_NAMES = ("range", "roundrobin", "sticky", "cooperative-sticky", "", "x")
_TIMEOUTS_MS = (-1, 0, 1, 1_000, 6_000, 10_000, 30_000, 300_000, _INT32_MAX)
_ODD_JOIN_TIMEOUTS_MS = (1_000, 30_000, _INT32_MAX)
"""None of 0: a static member that stays away would begin one join phase after the other, all at the
same instant, in brokers as well."""

_OFFSETS = (0, 1, 42, -1, -2, _INT64_MAX)
_TEXTS = ("", "", "note", "ü" * 9, "x" * 5_000)
_SETTINGS = (
    "consumer.session.timeout.ms",
    "consumer.heartbeat.interval.ms",
    "consumer.assignment.interval.ms",
    "no.such.setting",
    "",
)
_SETTING_VALUES = (
    *(None, -1, 0, 1, 500, 1_000, 5_000, 6_000, 20_000, 45_000, 60_000, _INT32_MAX),
    *("", "true", " 45000 ", "99999999999"),
)

_T = TypeVar("_T")


class RequestDraws:
    """Draws requests to one cluster. ``coordinator_of``: who has a group now, or None."""

    def __init__(
        self,
        draw: random.Random,
        coordinator_of: Callable[[str], GroupCoordinator | None],
        *,
        has_client_assignors: bool,
    ) -> None:
        self._draw = draw
        self._has_client_assignors = has_client_assignors
        self._coordinator_of = coordinator_of
        self._ids_seen: list[str] = list(_NAMES)
        self._topic_ids = ["no-such-id", ""]
        self._partition_counts: dict[str, int] = {}
        kinds: list[tuple[int, Callable[[str], Any]]] = [
            (30, self._heartbeat),
            (12, self._join),
            (10, self._sync),
            (5, self._classic_heartbeat),
            (5, self._leave),
            (10, self._commit),
            (7, self._fetch),
            (2, self._delete_offsets),
            (1, self._delete_group),
            (2, self._alter_config),
            (2, self._describe),
            (2, self._describe_classic),
            (2, self._list),
        ]
        if has_client_assignors:
            kinds += [(8, self._prepare), (8, self._install)]
        self._kinds = [kind for _, kind in kinds]
        self._weights = [weight for weight, _ in kinds]

    def note_answer(self, response: Any) -> None:
        """Ids that a coordinator made may be used."""
        member_id = getattr(response, "member_id", None)
        if member_id and member_id not in self._ids_seen:
            self._ids_seen.append(member_id)
            del self._ids_seen[len(_NAMES) : -12]

    def note_topics(self, image: MetadataImage) -> None:
        """Topics that there are, or have been."""
        self._partition_counts = {t.name: t.partition_count for t in image.by_name.values()}
        for topic_id in image.by_id:
            if topic_id not in self._topic_ids:
                self._topic_ids.append(topic_id)
                del self._topic_ids[2:-8]

    def request(self) -> Any:
        """The next request."""
        draw = self._draw
        group_id = "g" if draw.random() < 0.75 else draw.choice(GROUPS)
        (kind,) = draw.choices(self._kinds, self._weights)
        return kind(group_id)

    # --- values -----------------------------------------------------------------------------------

    def _chance(self, share: float) -> bool:
        return self._draw.random() < share

    def _of(self, usual: Sequence[_T], odd: Sequence[_T], odd_share: float = 0.04) -> _T:
        return self._draw.choice(odd if self._chance(odd_share) else usual)

    def _number(self, likely: int) -> int:
        if self._chance(0.8):
            return likely
        return likely + self._draw.choice((-1, 1)) if self._chance(0.5) else self._epoch()

    def _epoch(self) -> int:
        return self._draw.choice(_EPOCHS)

    def _groups(self, group_id: str) -> tuple[Any, Any]:
        coordinator = self._coordinator_of(group_id)
        if coordinator is None:
            return None, None
        consumer = coordinator.groups_of(ConsumerGroup).get(group_id)
        return consumer, coordinator.groups_of(ClassicGroup).get(group_id)

    def _member_id(self, group_id: str) -> str:
        consumer, classic = self._groups(group_id)
        present = sorted((consumer or classic).members) if consumer or classic else []
        if present and self._chance(0.7):
            return str(self._draw.choice(present))
        return self._of(self._ids_seen, _ODD_NAMES)

    def _member(self, group_id: str, member_id: str) -> Any:
        for group in self._groups(group_id):
            if group is not None and member_id in group.members:
                return group.members[member_id]
        return None

    def _instance(self, member: Any) -> str | None:
        if member is not None and self._chance(0.9):
            own: str | None = getattr(member, "instance_id", None)
            return own or getattr(member, "group_instance_id", None)
        return self._of(_INSTANCES, _ODD_INSTANCES)

    def _partition(self) -> TopicPartition:
        return TopicPartition(
            self._draw.choice(self._topic_ids),
            self._of((0, 1, 2, 3), (-1, 99, _INT32_MAX), 0.06),
        )

    def _partitions(self, member: Any = None) -> frozenset[TopicPartition]:
        draw = self._draw
        assigned = frozenset(getattr(member, "assigned", ()))
        held = assigned | frozenset(getattr(member, "pending_revocation", ()))
        if self._chance(0.01):
            topic_id = draw.choice(self._topic_ids)
            return frozenset(TopicPartition(topic_id, number) for number in range(-3, 400))
        some = frozenset(self._partition() for _ in range(draw.randrange(4)))
        return draw.choice((assigned, assigned, assigned, held, frozenset(), some))

    def _topic_names(self) -> tuple[str, ...]:
        draw = self._draw
        if self._chance(0.01):
            return tuple(f"t{number % 150}" for number in range(200))
        names = (*TOPICS, *TOPICS, "missing", "") if self._chance(0.1) else TOPICS
        return tuple(draw.choice(names) for _ in range(draw.randrange(4)))

    def _named(self, member: Any = None) -> tuple[NamedPartitions, ...]:
        parts: list[NamedPartitions] = []
        for topic_id, number in sorted(self._partitions(member)):
            name = topic_id.rpartition(":")[0] if self._chance(0.95) else topic_id
            parts.append(NamedPartitions(name, (number,)))
        if parts and self._chance(0.1):
            parts.append(parts[0])
        return tuple(parts)

    def _existing(self, member: Any) -> tuple[NamedPartitions, ...]:
        """What a classic member claims, or gives as a leader: it knows nothing of partitions that
        there are not."""
        counts = self._partition_counts
        return tuple(
            part
            for part in self._named(member)
            if 0 <= part.partitions[0] < counts.get(part.topic, 0)
        )

    # --- the consumer protocol --------------------------------------------------------------------

    def _heartbeat(self, group_id: str) -> Any:
        draw = self._draw
        member_id = self._member_id(group_id)
        member = self._member(group_id, member_id)
        fields: dict[str, Any] = {}
        epoch = getattr(member, "member_epoch", 0)
        if self._chance(0.15):
            epoch = draw.choice((-1, -2, 0))
        elif self._chance(0.1):
            epoch = draw.choice((getattr(member, "previous_member_epoch", 0), self._number(epoch)))
        is_joining = epoch == 0 and self._chance(0.95)
        if is_joining or self._chance(0.2):
            fields["rebalance_timeout_ms"] = self._of((5_000, 60_000), _TIMEOUTS_MS)
        if is_joining or self._chance(0.15):
            if self._chance(0.8):
                fields["subscribed_topic_names"] = self._topic_names()
            if self._chance(0.3):
                fields["subscribed_topic_regex"] = draw.choice(_PATTERNS)
        if is_joining and self._chance(0.97):
            fields["topic_partitions"] = frozenset()
        elif self._chance(0.6):
            fields["topic_partitions"] = self._partitions(member)
            if self._chance(0.03):
                fields["topics_without_partitions"] = frozenset({draw.choice(self._topic_ids)})
        if self._chance(0.15):
            fields["server_assignor"] = draw.choice(_ASSIGNORS)
        if self._chance(0.1):
            fields["rack_id"] = draw.choice((None, "r0", "r1", "", " "))
        if self._has_client_assignors and self._chance(0.3):
            fields["client_assignors"] = self._client_assignors()
        return ConsumerGroupHeartbeatRequest(
            group_id=group_id,
            member_id=member_id,
            member_epoch=epoch,
            instance_id=self._instance(member),
            api_version=1 if self._chance(0.95) else 0,
            **fields,
        )

    def _client_assignors(self) -> tuple[ClientAssignor, ...]:
        draw = self._draw
        return tuple(
            ClientAssignor(
                name=self._of(("range", "mine"), ("", "uniform")),
                minimum_version=draw.choice((0, 0, 1, -1, 5)),
                maximum_version=draw.choice((0, 1, 1, 5, -1)),
                reason=draw.choice((0, 0, 1, -1)),
                metadata_version=draw.choice((0, 1, 7)),
                metadata_bytes=draw.choice((b"", b"x")),
            )
            for _ in range(draw.randrange(3))
        )

    def _prepare(self, group_id: str) -> Any:
        member_id = self._member_id(group_id)
        member = self._member(group_id, member_id)
        epoch = self._number(getattr(member, "member_epoch", 0))
        return ConsumerGroupPrepareAssignmentRequest(
            group_id=group_id, member_id=member_id, member_epoch=epoch
        )

    def _install(self, group_id: str) -> Any:
        draw = self._draw
        member_id = self._member_id(group_id)
        member = self._member(group_id, member_id)
        group, _ = self._groups(group_id)
        ids = sorted(group.members) if group else []
        if self._chance(0.2):
            ids = [*ids, self._member_id(group_id)][draw.randrange(2) :]
        rows = []
        for one in ids:
            partitions = self._partitions(self._member(group_id, one))
            rows.append(
                InstalledMember(
                    member_id=one,
                    partitions=partitions,
                    metadata_version=draw.choice((0, 0, 1, 9)),
                    metadata_bytes=draw.choice((b"", b"y")),
                )
            )
        return ConsumerGroupInstallAssignmentRequest(
            group_id=group_id,
            member_id=member_id,
            member_epoch=self._number(getattr(member, "member_epoch", 0)),
            group_epoch=self._number(group.group_epoch if group else 0),
            members=tuple(rows),
            error=draw.choice((0, 0, 0, 1, -1)),
        )

    # --- the classic protocol ---------------------------------------------------------------------

    def _generation(self, group_id: str, member: Any) -> int:
        _, classic = self._groups(group_id)
        if classic is not None:
            return self._number(classic.generation_id)
        return self._number(getattr(member, "member_epoch", 0))

    def _join(self, group_id: str) -> Any:
        draw = self._draw
        member_id = self._member_id(group_id) if self._chance(0.6) else ""
        member = self._member(group_id, member_id)
        is_other = self._chance(0.03)
        metadata: Any
        protocols = []
        for name in draw.sample(_CLASSIC_NAMES[:4], draw.randrange(1, 4)):
            if is_other or self._chance(0.02):
                metadata = draw.choice((b"", b"opaque"))
            else:
                metadata = self._subscription(member)
            protocols.append(JoinGroupProtocol(name, metadata))
        if self._chance(0.05):
            protocols.append(JoinGroupProtocol(draw.choice(_CLASSIC_NAMES), b""))
        if self._chance(0.02):
            protocols = []
        if self._chance(0.7):
            known = [JoinGroupProtocol("range", self._subscription(member))]
            protocols = known + [one for one in protocols if one.name != "range"]
        return JoinGroupRequest(
            group_id=group_id,
            member_id=member_id,
            session_timeout_ms=self._of((6_000, 10_000), _TIMEOUTS_MS[3:]),
            rebalance_timeout_ms=self._of((3_000, 10_000, 60_000), _ODD_JOIN_TIMEOUTS_MS),
            protocols=tuple(protocols),
            group_instance_id=self._instance(member),
            protocol_type=self._of(("consumer",), ("connect", "")),
            reason=draw.choice(("", "why", "r" * 40)),
            api_version=self._of((9, 9, 5, 4), (0, 1, 3)),
        )

    def _subscription(self, member: Any) -> Subscription:
        draw = self._draw
        version = self._of((3,), (0, 1, 2))
        fields: dict[str, Any] = {}
        if version >= 1:
            fields["owned_partitions"] = self._existing(member)
        if version >= 2:
            fields["generation_id"] = self._number(getattr(member, "member_epoch", -1))
        if version >= 3:
            fields["rack_id"] = draw.choice((None, None, "r0"))
        return Subscription(topics=self._topic_names(), version=version, **fields)

    def _sync(self, group_id: str) -> Any:
        draw = self._draw
        member_id = self._member_id(group_id)
        member = self._member(group_id, member_id)
        _, classic = self._groups(group_id)
        if classic is not None and self._chance(0.5) and classic.leader_id in classic.members:
            member_id = classic.leader_id
            member = classic.members[member_id]
        assignments: dict[str, Any] = {}
        if classic is not None and self._chance(0.8):
            for one in sorted(classic.members):
                assignments[one] = Assignment(partitions=self._existing(member))
                if self._chance(0.03):
                    assignments[one] = draw.choice((b"", b"z", None))
        if self._chance(0.05):
            assignments[self._member_id(group_id)] = Assignment()
        name = classic.protocol_name if classic is not None else "range"
        return SyncGroupRequest(
            group_id=group_id,
            generation_id=self._generation(group_id, member),
            member_id=member_id,
            group_instance_id=self._instance(member),
            protocol_type=self._of((None, "consumer"), ("", "connect")),
            protocol_name=self._of((None, name), ("", "x")),
            assignments=assignments,
        )

    def _classic_heartbeat(self, group_id: str) -> Any:
        member_id = self._member_id(group_id)
        member = self._member(group_id, member_id)
        return HeartbeatRequest(
            group_id=group_id,
            generation_id=self._generation(group_id, member),
            member_id=member_id,
            group_instance_id=self._instance(member),
        )

    def _leave(self, group_id: str) -> Any:
        count = self._of((1, 1, 1, 2), (0, 3, 100), 0.1)
        rows = []
        for _ in range(count):
            member_id = self._member_id(group_id)
            instance_id = self._instance(self._member(group_id, member_id))
            named = "" if self._chance(0.2) else member_id
            reason = self._draw.choice(("", "why", "r" * 40))
            rows.append(MemberIdentity(named, instance_id, reason))
        if rows and self._chance(0.1):
            rows.append(rows[0])
        return LeaveGroupRequest(group_id=group_id, members=tuple(rows))

    # --- offsets ----------------------------------------------------------------------------------

    def _commit(self, group_id: str) -> Any:
        draw = self._draw
        member_id = self._member_id(group_id)
        member = self._member(group_id, member_id)
        epoch = self._generation(group_id, member)
        if self._chance(0.15):
            member_id, epoch = "", -1
        partitions = sorted(self._partitions(member) or {self._partition()})
        request = OffsetCommitRequest(
            group_id=group_id,
            member_id=member_id,
            generation_id_or_member_epoch=epoch,
            offsets={one: draw.choice(_OFFSETS) for one in partitions},
            group_instance_id=self._instance(member),
            metadata={one: draw.choice(_TEXTS) for one in partitions if self._chance(0.3)},
            leader_epochs={one: draw.randrange(3) for one in partitions if self._chance(0.3)},
            api_version=self._of((9, 10), (0, 2, 4, 5, 8)),
            wire_topics=self._wire_topics(),
            retention_time_ms=draw.choice((None, None, -1, 0, 1_000)),
        )
        wire_topics = request.wire_topics
        meant = [(wire_topics.get(t, t).partition(":")[0], number) for t, number in partitions]
        # What is twice in a request has the last value: then it says nothing of other topics.
        return request if len({*meant}) == len(meant) else replace(request, wire_topics={})

    def _wire_topics(self) -> dict[str, str]:
        if self._chance(0.8):
            return {}
        # Each stands for another: no topic is there twice among them.
        meant = self._draw.sample(sorted({*TOPICS, *self._topic_ids}), 3)
        return dict(zip(self._topic_ids[:3], meant, strict=False))

    def _fetch(self, group_id: str) -> Any:
        draw = self._draw
        member_id: str | None = self._member_id(group_id)
        member = self._member(group_id, str(member_id))
        epoch = self._number(getattr(member, "member_epoch", -1))
        if self._chance(0.3):
            member_id, epoch = draw.choice((None, "")), -1
        partitions = frozenset({*self._partitions(member), self._partition()})
        return OffsetFetchRequest(
            group_id=group_id,
            partitions=None if self._chance(0.3) else partitions,
            member_id=member_id,
            member_epoch=epoch,
            require_stable=self._chance(0.5),
            api_version=self._of((9, 10), (0, 1, 7)),
            wire_topics=self._wire_topics(),
        )

    def _delete_offsets(self, group_id: str) -> Any:
        some = frozenset({*self._partitions(), self._partition()})
        return OffsetDeleteRequest(
            group_id=group_id, partitions=some, wire_topics=self._wire_topics()
        )

    # --- administrators ---------------------------------------------------------------------------

    def _delete_group(self, group_id: str) -> Any:
        return DeleteGroupsRequest(group_id=group_id)

    def _alter_config(self, group_id: str) -> Any:
        draw = self._draw
        names = draw.sample(_SETTINGS[:3], draw.randrange(3))
        if self._chance(0.1):
            names.append(draw.choice(_SETTINGS))
        changes = {name: draw.choice(_SETTING_VALUES) for name in names}
        return AlterGroupConfigRequest(group_id=group_id, configs=changes)

    def _group_ids(self) -> tuple[str, ...]:
        count = self._of((0, 1, 2, 3), (200,), 0.02)
        return tuple(self._draw.choice((*GROUPS, "unknown")) for _ in range(count))

    def _describe(self, group_id: str) -> Any:
        return ConsumerGroupDescribeRequest(group_ids=(group_id, *self._group_ids()))

    def _describe_classic(self, group_id: str) -> Any:
        version = self._of((6,), (0, 5))
        return DescribeGroupsRequest(group_ids=(group_id, *self._group_ids()), api_version=version)

    def _list(self, group_id: str) -> Any:
        draw = self._draw
        states = ("stable", "Stable", "empty", "Dead", "", "nonsense", "PreparingRebalance")
        types = ("consumer", "classic", "CLASSIC", "", "nonsense")
        return ListGroupsRequest(
            states_filter=tuple(draw.sample(states, draw.randrange(3))),
            types_filter=tuple(draw.sample(types, draw.randrange(3))),
        )
