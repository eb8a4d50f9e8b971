"""A coordinator that is driven as Kafka's GroupMetadataManagerTestContext drives its own.

A group is seeded by replaying records; the assignor hands out what a case prepared; answers and
records come back as short strings that can be written down in a case.
"""

from __future__ import annotations

import re
from typing import Any

from peer import show, tps

from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup
from rebalance_sim.protocol.consumer.context import metadata_hash
from rebalance_sim.protocol.hosting.minimal_shard import MinimalShard
from rebalance_sim.protocol.migration.migration_rules import MigrationRules
from rebalance_sim.protocol.runtime.coordinator_config import CoordinatorConfig
from rebalance_sim.protocol.runtime.outcome import TimerKey
from rebalance_sim.protocol.versions.semantics import SEMANTICS
from rebalance_sim.protocol.wire.consumer_messages import ConsumerGroupHeartbeatRequest
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.records import (
    ConsumerGroupCurrentMemberAssignment,
    ConsumerGroupMemberMetadata,
    ConsumerGroupMetadata,
    ConsumerGroupPartitionMetadata,
    ConsumerGroupRegularExpression,
    ConsumerGroupTargetAssignmentMember,
    ConsumerGroupTargetAssignmentMetadata,
    CurrentAssignmentValue,
    GroupMetadata,
    GroupMetadataValue,
    MemberMetadataValue,
    MemberState,
    OffsetCommit,
    RegularExpressionValue,
    TargetMetadataValue,
)
from rebalance_sim.protocol.wire.topics import MetadataImage, Topic

G = "fooup"
STATES = {
    "S": MemberState.STABLE,
    "UV": MemberState.UNREVOKED_PARTITIONS,
    "UL": MemberState.UNRELEASED_PARTITIONS,
    "UK": MemberState.UNKNOWN,
}
SHORT = {v: k for k, v in STATES.items()}


class Prepared:
    """An assignor that gives what a case has prepared, whatever the group looks like."""

    def __init__(self, name: str = "range") -> None:
        self.name, self.next, self.specs = name, {}, []

    def prepare(self, **shares: str) -> None:
        self.next = {m: tps(s) for m, s in shares.items()}

    def assign(self, spec: Any, partition_counts: Any) -> Any:
        self.specs.append(spec)
        if isinstance(self.next, Exception):
            raise self.next
        return {m: self.next.get(m, frozenset()) for m in spec.members if m in self.next}


def re2_like(pattern: str):
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise ValueError(str(error)) from error
    return lambda name: compiled.fullmatch(name) is not None


class Context:
    def __init__(
        self, version: str = "kafka-4.3", topics: str = "", *, assignors=("range",), **config: Any
    ):
        self.version = version
        base = SEMANTICS[version]
        self.mocks = {name: Prepared(name) for name in assignors}
        self.mock = self.mocks[assignors[0]]
        rules = type("PreparedRules", (MigrationRules,), {"assignors": dict(self.mocks)})
        names = dict(word.split(":") for word in topics.split())
        self.shard = MinimalShard(
            config=CoordinatorConfig(
                **{
                    "group_consumer_assignment_interval_ms": 0,
                    "group_consumer_assignors": tuple(assignors),
                    "group_min_session_timeout_ms": 10,
                    "group_max_session_timeout_ms": 600_000,
                    **config,
                }
            ),
            semantics=base.changed_by(rules),
            image=MetadataImage(
                (Topic(topic_id=n, name=n, partition_count=int(c)) for n, c in names.items()),
                version=1,
            ),
            compile_regex=re2_like,
        )
        self.epochs = base.coordinator.writes_assignment_epochs
        self.first = base.coordinator.initial_group_epoch + 1

    # -- seeding ---------------------------------------------------------------------------

    @property
    def coordinator(self):
        return self.shard.coordinator

    @property
    def group(self):
        return self.coordinator.groups_of(ConsumerGroup)[G]

    def replay(self, *records: Any) -> None:
        for record in records:
            self.coordinator.replay(record, strict=False)

    def seed(
        self,
        epoch: int,
        members: dict[str, tuple],
        targets: dict[str, str],
        *,
        hash_of: str | None = "",
        hash_value: int | None = None,
        target_epoch: int | None = None,
        timestamp: int = 0,
        group: str = G,
    ) -> None:
        """``members``: id -> dict for ``member_records``. ``hash_of``: topics the hash is over."""
        for member_id, fields in members.items():
            self.replay(*self.member_records(member_id, group=group, **fields)[:1])
        value = hash_value if hash_value is not None else self.hash(hash_of or "")
        self.replay(
            ConsumerGroupMetadata(group, GroupMetadataValue(epoch=epoch, metadata_hash=value))
        )
        for member_id, target in targets.items():
            self.replay(ConsumerGroupTargetAssignmentMember(group, member_id, tps(target)))
        self.replay(
            ConsumerGroupTargetAssignmentMetadata(
                group,
                TargetMetadataValue(
                    assignment_epoch=epoch if target_epoch is None else target_epoch,
                    assignment_timestamp=timestamp if self.epochs else None,
                ),
            )
        )
        for member_id, fields in members.items():
            self.replay(*self.member_records(member_id, group=group, **fields)[1:])

    def member_records(
        self,
        member_id,
        *,
        state="S",
        epoch=10,
        previous=9,
        names="foo bar",
        regex="",
        assigned="",
        pending="",
        instance=None,
        rack=None,
        assignor="range",
        timeout=5000,
        since=None,
        group=G,
        classic=None,
    ):
        since = epoch if since is None else since
        return (
            ConsumerGroupMemberMetadata(
                group,
                member_id,
                MemberMetadataValue(
                    instance_id=instance,
                    rack_id=rack,
                    client_id="client",
                    client_host="localhost",
                    subscribed_topic_names=tuple(sorted(names.split())),
                    subscribed_topic_regex=regex,
                    rebalance_timeout_ms=timeout,
                    server_assignor=assignor,
                    classic_member_metadata=classic,
                ),
            ),
            ConsumerGroupCurrentMemberAssignment(
                group,
                member_id,
                CurrentAssignmentValue(
                    member_epoch=epoch,
                    previous_member_epoch=previous,
                    state=STATES[state],
                    assigned=dict.fromkeys(sorted(tps(assigned)), since),
                    pending_revocation=dict.fromkeys(sorted(tps(pending)), since),
                    with_epochs=self.epochs,
                ),
            ),
        )

    def regex(self, pattern, topics, version=0, timestamp=0, group=G):
        self.replay(
            ConsumerGroupRegularExpression(
                group,
                pattern,
                RegularExpressionValue(
                    topics=tuple(sorted(topics.split())), version=version, timestamp=timestamp
                ),
            )
        )

    def hash(self, names: str) -> int:
        return metadata_hash(tuple(names.split()), self.coordinator.image)

    # -- requests --------------------------------------------------------------------------

    def beat(self, member_id="", epoch=0, *, owned=None, names=None, timeout=-1, group=G, **fields):
        before = len(self.shard.batches)
        response = self.shard.request(
            ConsumerGroupHeartbeatRequest(
                group_id=group,
                member_id=member_id,
                member_epoch=epoch,
                rebalance_timeout_ms=timeout,
                subscribed_topic_names=None if names is None else tuple(names.split()),
                topic_partitions=None if owned is None else tps(owned),
                **fields,
            ),
            client_id="client",
            client_host="localhost",
        )
        self.raw = tuple(r for _, b in self.shard.batches[before:] for r in b)
        self.records = [self.spell(r) for r in self.raw]
        self.response = response
        if response.error_code is not ErrorCode.NONE:
            return response.error_code.name
        given = "-" if response.assignment is None else f"[{show(response.assignment)}]"
        return f"{response.member_id}@{response.member_epoch} {given}"

    def join(
        self,
        member_id="",
        *,
        names="foo bar",
        assignor="range",
        timeout=5000,
        owned="",
        epoch=0,
        **fields,
    ):
        return self.beat(
            member_id,
            epoch,
            owned=owned,
            names=names,
            timeout=timeout,
            server_assignor=assignor,
            **fields,
        )

    def sleep(self, ms: int):
        """As Kafka's mock timer does it: the clock jumps, and then everything that is due fires."""
        before = len(self.shard.batches)
        self.shard.now_ms += ms
        while self.shard.timers:
            due = min(self.shard.timers.values(), key=lambda timer: timer.at_ms)
            if due.at_ms > self.shard.now_ms:
                break
            self.shard.fire(due.key)
        self.raw = tuple(r for _, b in self.shard.batches[before:] for r in b)
        self.records = [self.spell(r) for r in self.raw]
        return self.records

    # -- reading ---------------------------------------------------------------------------

    def timer(self, kind: str, member_id: str = "", group: str = G):
        timer = self.shard.timers.get(TimerKey(kind, group, member_id))
        return None if timer is None else timer.at_ms - self.shard.now_ms

    def state(self, member_id: str) -> str:
        return SHORT[self.group.members[member_id].state]

    def spell(self, r: Any) -> str:
        """One record, short. ``x`` after the type letter is a tombstone."""
        match r:
            case ConsumerGroupMetadata():
                return (
                    "epoch x"
                    if r.value is None
                    else f"epoch {r.value.epoch} hash {self.topics_of(r.value.metadata_hash)}"
                )
            case ConsumerGroupMemberMetadata():
                if r.value is None:
                    return f"member x {r.member_id}"
                v = r.value
                extra = f" /{v.subscribed_topic_regex}/" if v.subscribed_topic_regex else ""
                inst = f" #{v.instance_id}" if v.instance_id else ""
                classic = " classic" if v.classic_member_metadata else ""
                return (
                    f"member {r.member_id}{inst} [{' '.join(v.subscribed_topic_names)}]{extra} "
                    f"{v.server_assignor} {v.rebalance_timeout_ms}{classic}"
                )
            case ConsumerGroupTargetAssignmentMember():
                return (
                    f"target x {r.member_id}"
                    if r.value is None
                    else f"target {r.member_id} [{show(r.value)}]"
                )
            case ConsumerGroupTargetAssignmentMetadata():
                return (
                    "target epoch x"
                    if r.value is None
                    else f"target epoch {r.value.assignment_epoch}"
                )
            case ConsumerGroupCurrentMemberAssignment():
                if r.value is None:
                    return f"current x {r.member_id}"
                v = r.value
                pend = f" -[{show(v.pending_revocation)}]" if v.pending_revocation else ""
                return (
                    f"current {r.member_id} {SHORT[v.state]} {v.member_epoch}/{v.previous_member_epoch} "
                    f"[{show(v.assigned)}]{pend}"
                )
            case ConsumerGroupRegularExpression():
                return (
                    f"regex x {r.regular_expression}"
                    if r.value is None
                    else f"regex {r.regular_expression} [{' '.join(r.value.topics)}]"
                )
            case ConsumerGroupPartitionMetadata():
                return "partition metadata x"
            case GroupMetadata():
                return (
                    "classic x"
                    if r.value is None
                    else f"classic gen {r.value.generation} {len(r.value.members)} members"
                )
            case OffsetCommit():
                return (
                    f"offset x {r.topic}-{r.partition}"
                    if r.value is None
                    else f"offset {r.topic}-{r.partition} {r.value.offset}"
                )
        return repr(r)

    def topics_of(self, value: int) -> str:
        if value == 0:
            return "0"
        names = sorted(self.coordinator.image.by_name)
        for mask in range(1, 1 << len(names)):
            chosen = [n for i, n in enumerate(names) if mask >> i & 1]
            if metadata_hash(chosen, self.coordinator.image) == value:
                return "+".join(chosen)
        return str(value)
