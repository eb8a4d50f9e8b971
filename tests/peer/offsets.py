"""OffsetMetadataManagerTest: commit, fetch, delete, expiry.

Facts from apache/kafka 1eb7644349cb (2024-10-25). The model looks topics up as the broker's request
layer does, so every topic that a case names exists here.
"""

from __future__ import annotations

from _classic import Classic, member_value, value
from peer import add, cannot, same

from rebalance_sim.protocol.classic.classic_group import ClassicGroup
from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup
from rebalance_sim.protocol.runtime.coordinator import GroupCoordinator
from rebalance_sim.protocol.runtime.coordinator_config import CoordinatorConfig
from rebalance_sim.protocol.runtime.outcome import Outcome
from rebalance_sim.protocol.versions.semantics import SEMANTICS
from rebalance_sim.protocol.wire.classic_messages import ClassicMemberMetadata
from rebalance_sim.protocol.wire.consumer_messages import DeleteGroupsRequest
from rebalance_sim.protocol.wire.embedded import Subscription
from rebalance_sim.protocol.wire.offset_messages import (
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
)
from rebalance_sim.protocol.wire.records import (
    ConsumerGroupMetadata,
    GroupMetadata,
    GroupMetadataValue,
    OffsetCommit,
    OffsetCommitValue,
)
from rebalance_sim.protocol.wire.topics import MetadataImage, Topic, TopicPartition

C = "OffsetMetadataManagerTest"
BOTH = ("kafka-4.1", "kafka-4.3")
F = "foo"


def test(method, variant="", versions=BOTH):
    def register(function):
        for version in versions:
            add(C, method, lambda version=version: function(version), variant, version)
        return function

    return register


class Offsets(Classic):
    def __init__(self, v, **config):
        super().__init__(v, "bar:4 bar1:1 foo:4 topic:1 first:2 second:2", create=False, **config)

    def commit(
        self,
        *,
        member="",
        epoch=-1,
        instance=None,
        offsets=None,
        version=9,
        metadata=None,
        group=F,
        retention=None,
    ):
        want = offsets or {"bar-0": 100}
        response = self._send(
            OffsetCommitRequest(
                group_id=group,
                member_id=member,
                generation_id_or_member_epoch=epoch,
                group_instance_id=instance,
                offsets={tp(k): v for k, v in want.items()},
                metadata={tp(k): v for k, v in (metadata or {}).items()},
                api_version=version,
                retention_time_ms=retention,
            )
        )
        codes = {k: response.errors[tp(k)].name for k in want}
        return next(iter(codes.values())) if len(codes) == 1 else codes

    def fetch(self, parts=None, *, member=None, epoch=-1, group=F):
        r = self._send(
            OffsetFetchRequest(
                group_id=group,
                partitions=None if parts is None else frozenset(tp(p) for p in parts.split()),
                member_id=member,
                member_epoch=epoch,
            )
        )
        return (
            r.error_code.name
            if r.error_code.name != "NONE"
            else {f"{t}-{p}": o for (t, p), o in r.offsets.items()}
        )

    def delete(self, part, group=F):
        r = self._send(OffsetDeleteRequest(group_id=group, partitions=frozenset({tp(part)})))
        return r.error_code.name if r.error_code.name != "NONE" else r.errors[tp(part)].name

    def store(self, group, topic, partition, offset=100, at=0, expire=None):
        self.replay(
            OffsetCommit(
                group, topic, partition, OffsetCommitValue(offset, at, expire_timestamp=expire)
            )
        )

    def empty_classic(self, **fields):
        self.replay(GroupMetadata(F, value([], generation=0, type_="", protocol=None, **fields)))

    def with_member(self, instance=None, generation=1, state="Stable"):
        """A classic group of one member, stable at this generation."""
        self.replay(
            GroupMetadata(
                F,
                value(
                    [member_value("member", instance=instance, rebalance=5000)],
                    generation=generation,
                    leader="member",
                ),
            )
        )

    def consumer(self, members=None, epoch=10):
        self.replay(ConsumerGroupMetadata(F, GroupMetadataValue(epoch=epoch, metadata_hash=0)))
        for m, fields in (members or {}).items():
            self.replay(*self.member_records(m, group=F, **{"names": "", **fields}))


def tp(text):
    t, _, p = text.rpartition("-")
    return TopicPartition(t, int(p))


for version in range(1, 11):

    @test("testOffsetCommitWithUnknownGroup", f"version {version}")
    def _(v, version=version):
        if v == "kafka-4.1" and version == 10:
            return  # not known to 4.1
        same(
            Offsets(v).commit(member="member", epoch=10, version=version),
            "GROUP_ID_NOT_FOUND" if version >= 9 else "ILLEGAL_GENERATION",
        )


@test("testGenericGroupOffsetCommitWithUnknownMemberId")
def _(v):
    c = Offsets(v)
    c.empty_classic()
    same(c.commit(member="member", epoch=10), "UNKNOWN_MEMBER_ID")


@test("testGenericGroupOffsetCommitWithIllegalGeneration")
def _(v):
    c = Offsets(v)
    c.with_member("new-instance-id")
    same(c.commit(member="member", epoch=10), "ILLEGAL_GENERATION")


@test("testGenericGroupOffsetCommitWithUnknownInstanceId")
def _(v):
    c = Offsets(v)
    c.with_member()
    same(c.commit(member="member", epoch=10, instance="instanceid"), "UNKNOWN_MEMBER_ID")


@test("testGenericGroupOffsetCommitWithFencedInstanceId")
def _(v):
    c = Offsets(v)
    c.with_member("new-instance-id")
    same(c.commit(member="member", epoch=10, instance="old-instance-id"), "UNKNOWN_MEMBER_ID")


@test("testGenericGroupOffsetCommitWhileInCompletingRebalanceState")
def _(v):
    c = Offsets(v)
    m = c.got(c.ask(known=True, group=F)).member_id
    c.ask(m, known=True, group=F, session=5000, rebalance=5000)
    c.sleep(3000)
    same(c.coordinator.groups_of(ClassicGroup)[F].state.value, "CompletingRebalance")
    same(c.commit(member=m, epoch=1), "REBALANCE_IN_PROGRESS")


@test("testGenericGroupOffsetCommitWithoutMemberIdAndGeneration")
def _(v):
    c = Offsets(v)
    c.with_member("new-instance-id")
    same(c.commit(), "UNKNOWN_MEMBER_ID")


@test("testGenericGroupOffsetCommitWithRetentionTime")
def _(v):
    c = Offsets(v)
    c.with_member("new-instance-id")
    c.shard.now_ms = 777
    same(c.commit(member="member", epoch=1, retention=1234, version=2), "NONE")
    (r,) = c.raw
    same(
        (
            r.topic,
            r.partition,
            r.value.offset,
            r.value.metadata,
            r.value.commit_timestamp,
            r.value.expire_timestamp,
        ),
        ("bar", 0, 100, "", 777, 777 + 1234),
    )


@test("testGenericGroupOffsetCommitMaintainsSession")
def _(v):
    c = Offsets(v)
    c.with_member()
    c.shard.take(Outcome(timers=c.coordinator.on_loaded(now_ms=0)))
    same(c.sleep(2500), [])
    same(c.commit(member="member", epoch=1, retention=1234), "NONE")
    same(c.sleep(2500), [])
    c.sleep(2500)
    same("member" in c.coordinator.groups_of(ClassicGroup)[F].members, False)


@test("testSimpleGroupOffsetCommit")
def _(v):
    c = Offsets(v)
    same((c.commit(), c.records), ("NONE", ["offset bar-0 100"]))
    same(
        (
            F in c.coordinator.groups_of(ClassicGroup),
            c.raw[0].value.expire_timestamp,
            c.raw[0].value.leader_epoch,
        ),
        (True, None, -1),
    )


@test("testSimpleGroupOffsetCommitWithInstanceId")
def _(v):
    c = Offsets(v)
    same((c.commit(instance="instance-id"), c.records), ("NONE", ["offset bar-0 100"]))


@test("testConsumerGroupOffsetCommitWithUnknownMemberId")
def _(v):
    c = Offsets(v)
    c.consumer()
    same(c.commit(member="member", epoch=10), "UNKNOWN_MEMBER_ID")


@test("testConsumerGroupOffsetCommitWithStaleMemberEpoch")
def _(v):
    c = Offsets(v)
    c.consumer({"member": dict(epoch=10, previous=10)})
    same([c.commit(member="member", epoch=e) for e in (9, 11)], ["STALE_MEMBER_EPOCH"] * 2)


@test("testConsumerGroupOffsetCommitWithIllegalGenerationId")
def _(v):
    c = Offsets(v)
    c.consumer(
        {
            "member": dict(
                epoch=10,
                previous=10,
                classic=ClassicMemberMetadata(session_timeout_ms=5000, supported_protocols=()),
            )
        }
    )
    same([c.commit(member="member", epoch=e) for e in (9, 11)], ["ILLEGAL_GENERATION"] * 2)


@test("testConsumerGroupOffsetCommitFromAdminClient")
def _(v):
    c = Offsets(v)
    c.consumer()
    same((c.commit(), c.records), ("NONE", ["offset bar-0 100"]))


@test("testConsumerGroupOffsetCommit")
def _(v):
    c = Offsets(v)
    c.consumer({"member": dict(epoch=10, previous=10)})
    same(
        (c.commit(member="member", epoch=10, metadata={"bar-0": "metadata"}), c.records),
        ("NONE", ["offset bar-0 100"]),
    )
    same(c.raw[0].value.metadata, "metadata")


@test("testConsumerGroupOffsetCommitWithOffsetMetadataTooLarge")
def _(v):
    c = Offsets(v, offset_metadata_max_bytes=5)
    c.consumer({"member": dict(epoch=10, previous=10)})
    same(
        c.commit(
            member="member",
            epoch=10,
            offsets={"bar-0": 100, "bar-1": 100},
            metadata={"bar-0": "toolarge", "bar-1": "small"},
        ),
        {"bar-0": "OFFSET_METADATA_TOO_LARGE", "bar-1": "NONE"},
    )
    same(c.records, ["offset bar-1 100"])


# -- fetch --------------------------------------------------------------------------------------


@test("testFetchOffsetsWithUnknownGroup")
def _(v):
    same(
        Offsets(v).fetch("foo-0 foo-1 bar-0", group="group"),
        {"foo-0": -1, "foo-1": -1, "bar-0": -1},
    )


@test("testFetchAllOffsetsWithUnknownGroup")
def _(v):
    same(Offsets(v).fetch(group="group"), {})


WRITES = (("foo", 0, 100), ("foo", 1, 110), ("bar", 0, 200), ("foo", 1, 111), ("bar", 1, 210))


def at_offsets(v, everything):
    """What a read shows when the high watermark is at each of the offsets."""
    image = MetadataImage([Topic(topic_id=t, name=t, partition_count=2) for t in ("foo", "bar")])
    g = GroupCoordinator(
        config=CoordinatorConfig(),
        semantics=SEMANTICS[v],
        image=image,
        new_member_id=lambda: "x",
        keeps_history=True,
    )
    g.replay(
        ConsumerGroupMetadata("group", GroupMetadataValue(epoch=10, metadata_hash=0)), offset=None
    )
    for i, (t, p, o) in enumerate(WRITES):
        g.replay(OffsetCommit("group", t, p, OffsetCommitValue(o, 0)), offset=i)
    parts = (
        None
        if everything
        else frozenset(TopicPartition(t, p) for t in ("foo", "bar") for p in (0, 1))
    )
    known = {}
    for seen in range(6):
        g.commit_to(seen)
        if seen:
            t, p, o = WRITES[seen - 1]
            known[f"{t}-{p}"] = o
        got = {
            f"{t}-{p}": o
            for (t, p), o in g.read(
                OffsetFetchRequest(group_id="group", partitions=parts, require_stable=False)
            ).offsets.items()
        }
        want = (
            dict(known)
            if everything
            else {f"{t}-{p}": known.get(f"{t}-{p}", -1) for t in ("foo", "bar") for p in (0, 1)}
        )
        same(got, want, f"at {seen}")


test("testFetchOffsetsAtDifferentCommittedOffset")(lambda v: at_offsets(v, False))
test("testFetchAllOffsetsAtDifferentCommittedOffset")(lambda v: at_offsets(v, True))


@test("testConsumerGroupOffsetFetchWithMemberIdAndEpoch")
def _(v):
    c = Offsets(v)
    c.consumer({"member": dict(epoch=0, previous=-1)})
    c.store(F, "foo", 0)
    same(c.fetch("foo-0", member="member", epoch=0), {"foo-0": 100})
    same(c.fetch(member="member", epoch=0), {"foo-0": 100})


@test("testConsumerGroupOffsetFetchFromAdminClient")
def _(v):
    c = Offsets(v)
    c.consumer({"member": dict(epoch=0, previous=-1)})
    c.store(F, "foo", 0)
    same((c.fetch("foo-0"), c.fetch()), ({"foo-0": 100}, {"foo-0": 100}))


@test("testConsumerGroupOffsetFetchWithUnknownMemberId")
def _(v):
    c = Offsets(v)
    c.consumer()
    for parts in ("foo-0", None):
        same([c.fetch(parts, member=m, epoch=0) for m in ("", "member")], ["UNKNOWN_MEMBER_ID"] * 2)


@test("testConsumerGroupOffsetFetchWithStaleMemberEpoch")
def _(v):
    c = Offsets(v)
    c.consumer({"member": dict(epoch=0, previous=-1)})
    same(
        [c.fetch(p, member="member", epoch=10) for p in ("foo-0", None)], ["STALE_MEMBER_EPOCH"] * 2
    )


@test("testConsumerGroupOffsetFetchWithIllegalGenerationId")
def _(v):
    c = Offsets(v)
    c.consumer(
        {
            "member": dict(
                epoch=0,
                previous=-1,
                classic=ClassicMemberMetadata(session_timeout_ms=1, supported_protocols=()),
            )
        }
    )
    same(
        [c.fetch(p, member="member", epoch=10) for p in ("foo-0", None)], ["ILLEGAL_GENERATION"] * 2
    )


# -- delete -------------------------------------------------------------------------------------


@test("testGenericGroupOffsetDelete")
def _(v):
    c = Offsets(v)
    c.empty_classic()
    c.store(F, "bar", 0)
    same((c.delete("bar-0"), c.records), ("NONE", ["offset x bar-0"]))
    same(("bar", 0) in c.coordinator.offsets.of_group(F), False)


@test("testGenericGroupOffsetDeleteWithErrors")
def _(v):
    c = Offsets(v)
    c.replay(
        GroupMetadata(
            F,
            value(
                [member_value("member", metadata=Subscription(topics=("bar",)))],
                generation=1,
                leader="member",
            ),
        )
    )
    c.store(F, "bar", 0)
    same((c.delete("bar1-0"), c.records), ("NONE", []))
    same((c.delete("bar-0"), c.records), ("GROUP_SUBSCRIBED_TO_TOPIC", []))


@test("testConsumerGroupOffsetDelete")
def _(v):
    c = Offsets(v)
    c.consumer()
    c.store(F, "bar", 0)
    same((c.delete("bar-0"), c.records), ("NONE", ["offset x bar-0"]))


@test("testConsumerGroupOffsetDeleteWithErrors")
def _(v):
    c = Offsets(v)
    c.consumer({"member1": dict(names="bar")})
    c.store(F, "bar", 0)
    same((c.delete("bar1-0"), c.records), ("NONE", []))
    same((c.delete("bar-0"), c.records), ("GROUP_SUBSCRIBED_TO_TOPIC", []))


for kind in ("CLASSIC", "CONSUMER"):

    @test("testDeleteGroupAllOffsets", kind)
    def _(v, kind=kind):
        c = Offsets(v)
        c.empty_classic() if kind == "CLASSIC" else c.consumer()
        for t, p in (("bar", 0), ("bar", 1), ("foo", 0)):
            c.store(F, t, p)
        c._send(DeleteGroupsRequest(group_id=F))
        same(sorted(c.records[:3]), ["offset x bar-0", "offset x bar-1", "offset x foo-0"])


@test("testOnPartitionsDeleted")
def _(v):
    c = Offsets(v)
    for group, t in (("grp-0", "foo"), ("grp-1", "bar")):
        for p in (1, 2, 3):
            c.store(group, t, p)
    c.shard.update_image(c.coordinator.image.without_topic("foo"))
    same(sorted(c.sleep(0)), ["offset x foo-1", "offset x foo-2", "offset x foo-3"])
    same(
        (
            dict(c.coordinator.offsets.of_group("grp-0")),
            len(c.coordinator.offsets.of_group("grp-1")),
        ),
        ({}, 3),
    )


# -- expiry -------------------------------------------------------------------------------------

MINUTE = 60_000


@test("testCleanupExpiredOffsetsGroupHasNoOffsets")
def _(v):
    c = Offsets(v)
    same(c.coordinator.offsets.expired("unknown-group-id", None, now_ms=10**12), [])


@test("testCleanupExpiredOffsetsEmptyOffsetExpirationCondition")
def _(v):
    # A group whose offsets must not expire at all: a classic one in the middle of a rebalance.
    c = Offsets(v, offsets_retention_minutes=1)
    c.with_member()
    c.store(F, "topic", 0)
    c.ask("member", group=F, protos=("range", "roundrobin"))
    g = c.coordinator.groups_of(ClassicGroup)[F]
    same(
        [c.spell(r) for r in c.coordinator.offsets.expired(F, g, now_ms=10**12)]
        if g.state.value != "Stable"
        else "stable",
        [],
    )


@test("testCleanupExpiredOffsets")
def _(v):
    c = Offsets(v, offsets_retention_minutes=1)
    c.consumer({"m": dict(names="first")})
    c.store(F, "first", 0), c.store(F, "second", 0), c.store(F, "second", 1, at=500)

    def clean(now):
        records = c.coordinator.offsets.expired(
            F, c.coordinator.groups_of(ConsumerGroup)[F], now_ms=now
        )
        c.replay(*records)
        return [c.spell(r) for r in records]

    same(clean(MINUTE), ["offset x second-0"])
    same(clean(MINUTE + 500), ["offset x second-1"])
    c.replay(c.member_records("m", names="", group=F)[0])
    c.store(F, "first", 1, at=500), c.store(F, "second", 0, offset=101, at=500)
    same(clean(MINUTE + 500), ["offset x first-0", "offset x first-1", "offset x second-0"])


@test("testReplay")
def _(v):
    c = Offsets(v)
    for p, o, expire in ((0, 100, None), (0, 200, None), (1, 200, None), (1, 300, 12345)):
        c.store(F, "bar", p, o, expire=expire)
        stored = c.coordinator.offsets.of_group(F)["bar", p]
        same((stored.offset, stored.expire_timestamp), (o, expire))


# -- assignment epochs (KIP-1251), 00d98690-era OffsetMetadataManagerTest -------------------------

for _m in (
    "testConsumerGroupTransactionalOffsetCommit",
    "testConsumerGroupTransactionalOffsetCommitWithUnknownGroupId",
    "testConsumerGroupTransactionalOffsetCommitWithUnknownMemberId",
    "testConsumerGroupTransactionalOffsetCommitWithStaleMemberEpoch",
    "testGenericGroupTransactionalOffsetCommit",
    "testFetchOffsetsWithPendingTransactionalOffsets",
    "testFetchAllOffsetsWithPendingTransactionalOffsets",
    "testGenericGroupOffsetDeleteWithPendingTransactionalOffsets",
    "testDeleteGroupAllOffsetsWithPendingTransactionalOffsets",
    "testCleanupExpiredOffsetsWithPendingTransactionalOffsets",
    "testTransactionalReplay",
    "testReplayTransactionEndMarkerWithCommit",
    "testReplayTransactionEndMarkerKeepsTheMostRecentCommittedOffset",
):
    cannot(C, _m, "the model has no transactions")
for _m in (
    "testGenericGroupOffsetCommitWithDeadGroup",
    "testGenericGroupFetchOffsetsWithDeadGroup",
    "testGenericGroupFetchAllOffsetsWithDeadGroup",
):
    cannot(C, _m, "sets the state Dead by hand")
cannot(
    C,
    "testConsumerGroupOffsetCommit (leader epoch)",
    "a commit carries no leader epoch; records always have -1",
)
