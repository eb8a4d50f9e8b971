"""GroupMetadataManagerTest: assignment interval, settings of groups, metadata of topics, replay.

Facts from Kafka 4.3.1, group-coordinator test sources. A refresh deadline that the test looks at is
seen here by what a heartbeat does.
"""

from __future__ import annotations

from dataclasses import replace

from _kafka import Context, G
from peer import add, cannot, same, tps

from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup
from rebalance_sim.protocol.runtime.coordinator_config import alter_broker_config
from rebalance_sim.protocol.runtime.outcome import Outcome
from rebalance_sim.protocol.wire.classic_messages import DescribeGroupsRequest
from rebalance_sim.protocol.wire.consumer_messages import AlterGroupConfigRequest
from rebalance_sim.protocol.wire.records import (
    ConsumerGroupTargetAssignmentMetadata,
    TargetMetadataValue,
)
from rebalance_sim.protocol.wire.topics import MetadataImage, Topic

C, V = "GroupMetadataManagerTest", "kafka-4.3"


def test(method, variant="", version=V, cls=C):
    def register(function):
        add(cls, method, function, variant, version)
        return function

    return register


# -- when a target may be computed ------------------------------------------------------------------


def computes(last_ms, interval_ms, now_ms):
    """Whether a heartbeat that finds epoch 11 above target 10 computes a target."""
    c = Context(V, "foo:1", group_consumer_assignment_interval_ms=interval_ms)
    c.shard.now_ms = now_ms
    c.seed(
        11,
        {"m": dict(names="foo", assigned="foo:0")},
        {"m": "foo:0"},
        hash_of="foo",
        target_epoch=10,
        timestamp=last_ms,
    )
    c.mock.prepare(m="foo:0")
    c.beat("m", 10)
    return "target epoch 11" in c.records


for method, last_ms, interval_ms, rows in (
    (
        "testCanComputeNextTargetAssignment",
        1_000_000,
        5_000,
        (
            (0, False),
            (999_999, False),
            (1_000_000, False),
            (1_004_999, False),
            (1_005_000, True),
            (1_007_500, True),
        ),
    ),
    (
        "testCanComputeNextTargetAssignmentWithNoPreviousAssignmentTimestamp",
        None,
        1_000,
        ((0, True),),
    ),
    (
        "testCanComputeNextTargetAssignmentWithZeroAssignmentIntervalMs",
        1_000_000,
        0,
        ((0, True), (999_999, True), (1_000_000, True)),
    ),
):
    for now_ms, expected in rows:

        @test(method, f"at {now_ms}")
        def _(a=(last_ms, interval_ms, now_ms), expected=expected):
            same(computes(*a), expected)


@test("testConsumerGroupAssignmentInterval")
def _():
    c = Context(V, "foo:6", group_consumer_assignment_interval_ms=5000)
    c.shard.now_ms = 1000
    c.mock.prepare(m1="foo:0-5")
    same(c.join("m1", names="foo"), "m1@2 [foo:0,1,2,3,4,5]")
    same(
        c.records,
        [
            "member m1 [foo] range 5000",
            "epoch 2 hash foo",
            "target m1 [foo:0,1,2,3,4,5]",
            "target epoch 2",
            "current m1 S 2/0 [foo:0,1,2,3,4,5]",
        ],
    )
    c.sleep(4995)
    c.mock.prepare(m1="foo:0-2", m2="foo:3-5")
    same(c.join("m2", names="foo"), "m2@2 []")
    same(c.records, ["member m2 [foo] range 5000", "epoch 3 hash foo", "current m2 S 2/0 []"])
    c.sleep(10)
    same(c.beat("m2", 2), "m2@3 -")
    same(sorted(c.records[:2]), ["target m1 [foo:0,1,2]", "target m2 [foo:3,4,5]"])
    same(c.records[2:], ["target epoch 3", "current m2 UL 3/2 []"])
    same(c.raw[2].value.assignment_timestamp, 6005)


# -- settings of a group ----------------------------------------------------------------------------


def interval(c):
    return c.coordinator._context.assignment_interval_ms(G)


@test("testDynamicBrokerAndGroupConfigs", "consumer.assignment.interval.ms")
def _():
    c = Context(V, group_consumer_assignment_interval_ms=2000)

    def group(value):
        c.shard.request(
            AlterGroupConfigRequest(group_id=G, configs={"consumer.assignment.interval.ms": value})
        )

    def broker(value):
        configs = c.coordinator._context.configs
        changed = alter_broker_config(
            configs.broker,
            configs.broker,
            {"group.consumer.assignment.interval.ms": value},
            has_assignment_interval=True,
        )
        c.shard.shard.update_configs(replace(configs, broker=changed))

    seen = [interval(c)]
    for alter, value in ((broker, 1500), (group, 1000), (broker, 500), (group, None)):
        alter(value)
        seen.append(interval(c))
    same(seen, [2000, 1500, 1000, 1000, 500])


cannot(
    C,
    "testConsumerGroupEvaluatedConfigs",
    "needs a stored group setting outside the broker's bounds; AlterConfigs refuses one, and the "
    "bounds of a model's broker do not change",
)


@test("testDescribeGroupsBeforeV6GroupIdNotFoundException")
def _():
    c = Context(V)
    for version, state, code in ((5, "Dead", "NONE"), (6, "Dead", "GROUP_ID_NOT_FOUND")):
        (group,) = c.shard.request(
            DescribeGroupsRequest(group_ids=("group-id",), api_version=version)
        )
        same((group.group_id, group.group_state, group.error_code.name), ("group-id", state, code))


# -- topics that change -----------------------------------------------------------------------------


def image(**counts):
    return MetadataImage(
        (Topic(topic_id=n, name=n, partition_count=k) for n, k in counts.items()), version=1
    )


@test("testOnMetadataUpdate")
def _():
    c = Context(V)
    names = {"group1": "a b", "group2": "b c", "group3": "d", "group4": "e", "group5": "f"}
    c.shard.update_image(image(a=1, b=1, c=1, d=1))
    for group, topics in names.items():
        c.replay(c.member_records("m1", names=topics, group=group)[0])
        c.coordinator.groups_of(ConsumerGroup)[group].metadata_refresh_deadline_ms = 5000
    c.shard.update_image(image(a=1, b=2, c=1, e=1))
    due = {
        g: c.coordinator.groups_of(ConsumerGroup)[g].metadata_refresh_deadline_ms <= 0
        for g in names
    }
    same(due, {"group1": True, "group2": True, "group3": True, "group4": True, "group5": False})
    same(set(c.coordinator.image.by_name), set("abce"))


@test("testOnMetadataUpdateWithEmptyDelta")
def _():
    c = Context(V, "foo:1")
    c.shard.update_image(image())
    same(dict(c.coordinator.image.by_name), {})


@test("testRemoveTopicCleanupTopicHash")
def _():
    c = Context(V, "foo:6")
    c.seed(
        10,
        {"m": dict(names="foo", assigned="foo:0-5")},
        {"m": "foo:0-5"},
        hash_of="foo",
    )
    c.mock.prepare(m="")
    c.shard.update_image(c.coordinator.image.without_topic("foo"))
    same(c.beat("m", 10), "m@10 []")
    same(
        c.records,
        [
            "epoch 11 hash 0",
            "target m []",
            "target epoch 11",
            "current m UV 10/10 [] -[foo:0,1,2,3,4,5]",
        ],
    )


@test("testTopicHashIsRemoveFromCacheIfNoGroupSubscribesIt")
def _():
    c = Context(V, "foo:6")
    c.mock.prepare(m="foo:0-5")
    same(c.join("m", names="foo"), "m@2 [foo:0,1,2,3,4,5]")
    same(c.records[1:4], ["epoch 2 hash foo", "target m [foo:0,1,2,3,4,5]", "target epoch 2"])
    same(c.beat("m", -1), "m@-1 -")
    same(c.response.heartbeat_interval_ms, 0)
    same(c.records, ["current x m", "target x m", "member x m", "epoch 3 hash 0"])


@test("testSubscriptionUpgradeToMetadataHash")
def _():
    c = Context(V, "foo:6")
    c.seed(10, {"m": dict(names="foo", assigned="foo:0-5")}, {"m": "foo:0-5"}, hash_value=0)
    c.mock.prepare(m="foo:0-5")
    same(c.beat("m", 10), "m@11 -")
    same(
        [r for r in c.records if r != "partition metadata x"],
        ["epoch 11 hash foo", "target epoch 11", "current m S 11/10 [foo:0,1,2,3,4,5]"],
    )


cannot(
    C,
    "testNewRacksDataInMetadataImageTriggersEpochBump",
    "topics of the model have no replica racks, so a change of them is no change",
)


# -- replay -----------------------------------------------------------------------------------------


@test("testOnLoadedSessionTimeoutExpiration")
def _():
    c = Context(V, "foo:6")
    c.seed(
        10,
        {"m": dict(epoch=9, previous=9, names="foo", assigned="foo:0-5", since=10)},
        {"m": "foo:0-5"},
        hash_of="foo",
    )
    c.shard.take(Outcome(timers=c.coordinator.on_loaded(now_ms=0)))
    same(c.timer("session", "m"), 45000)
    same(c.sleep(45001), ["current x m", "target x m", "member x m", "epoch 11 hash 0"])
    same(c.timer("session", "m"), None)


def currents(c, *rows):
    for member, epoch, assigned, since in rows:
        c.replay(c.member_records(member, epoch=epoch, assigned=assigned, since=since)[1])


@test("testReplayConsumerGroupCurrentMemberAssignmentWithCompaction")
def _():
    c = Context(V)
    currents(c, ("A", 11, "foo:0", 11), ("B", 12, "foo:0", 12), ("A", 13, "foo:1", 13))
    same([c.group.epoch_of(p) for p in sorted(tps("foo:0,1"))], [12, 13])


@test("testReplayConsumerGroupCurrentMemberAssignmentUnownedTopicWithCompaction")
def _():
    c = Context(V)
    currents(
        c,
        ("A", 11, "foo:0", 11),
        ("B", 12, "foo:0", 11),
        ("B", 13, "", 13),
        ("A", 14, "bar:0", 14),
    )
    same([c.group.epoch_of(p) for p in sorted(tps("foo:0 bar:0"))], [14, -1])


@test("testReplayConsumerGroupTargetAssignmentMetadataTombstoneExisting")
def _():
    c = Context(V)
    c.replay(
        ConsumerGroupTargetAssignmentMetadata(
            G, TargetMetadataValue(assignment_epoch=10, assignment_timestamp=12345)
        )
    )
    seen = (c.group.target_assignment_epoch, c.group.target_assignment_timestamp)
    same(seen, (10, 12345))
    c.replay(ConsumerGroupTargetAssignmentMetadata(G, None))
    same((c.group.target_assignment_epoch, c.group.target_assignment_timestamp), (-1, None))


cannot(
    C,
    "testReplayConsumerGroupPartitionMetadataTombstoneWithExistentGroup",
    "looks at a flag that tells to write the tombstone of a record of 4.0; the model writes it "
    "with every conversion and deletion",
)
for method in ("testCombineInitMaps", "testSubscribedTopicsChangeMap", "testUninitializeTopics"):
    cannot(C, method, "share groups are no part of the model")
cannot(C, "testUpdateGroupSizeCounter", "a metric of the broker, not of the coordinator core")
