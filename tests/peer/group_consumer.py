"""GroupMetadataManagerTest, consumer groups: heartbeats, epochs, static members, timers.

Facts from apache/kafka 1eb7644349cb (2024-10-25, 4.0-SNAPSHOT) and 00d98690c14e (4.3 or later);
the record of subscription metadata of the former is the hash in the epoch record of the latter,
and the first epoch of a group is 1 up to 4.1 and 2 in 4.3.
"""

from __future__ import annotations

from _kafka import Context, G
from peer import add, cannot, same

from rebalance_sim.protocol.assignors.server import PartitionAssignorError
from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup
from rebalance_sim.protocol.runtime.outcome import TimerKey
from rebalance_sim.protocol.wire.records import (
    ConsumerGroupMetadata,
    ConsumerGroupTargetAssignmentMember,
    ConsumerGroupTargetAssignmentMetadata,
    GroupMetadataValue,
    TargetMetadataValue,
)
from rebalance_sim.protocol.wire.topics import MetadataImage, Topic

C = "GroupMetadataManagerTest"
BOTH = ("kafka-4.1", "kafka-4.3")


def test(method, variant="", versions=BOTH):
    def register(function):
        for version in versions:
            add(C, method, lambda version=version: function(version), variant, version)
        return function

    return register


# -- validation ---------------------------------------------------------------------------------

VALIDATION = {
    "no group id": (dict(group=""), "INVALID_REQUEST", "GroupId can't be empty."),
    "blank group id": (dict(group="   "), "INVALID_REQUEST", "GroupId can't be empty."),
    "no rebalance timeout": (
        dict(member_id="m"),
        "INVALID_REQUEST",
        "RebalanceTimeoutMs must be provided in first request.",
    ),
    "no partitions": (
        dict(member_id="m", timeout=5000),
        "INVALID_REQUEST",
        "TopicPartitions must be empty when (re-)joining.",
    ),
    "no subscription": (
        dict(member_id="m", timeout=5000, owned=""),
        "INVALID_REQUEST",
        "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
    ),
    "no member id": (dict(epoch=1), "INVALID_REQUEST", "MemberId can't be empty."),
    "empty instance": (
        dict(member_id="m", epoch=1, instance_id=""),
        "INVALID_REQUEST",
        "InstanceId can't be empty.",
    ),
    "empty rack": (
        dict(member_id="m", epoch=1, rack_id=""),
        "INVALID_REQUEST",
        "RackId can't be empty.",
    ),
    "unknown assignor": (
        dict(member_id="m", epoch=1, server_assignor="bar"),
        "UNSUPPORTED_ASSIGNOR",
        "ServerAssignor bar is not supported. Supported assignors: range.",
    ),
    "-2 without instance": (
        dict(member_id="m", epoch=-2, timeout=5000, names="foo bar", owned=""),
        "INVALID_REQUEST",
        "InstanceId can't be null.",
    ),
}
for variant, (fields, code, message) in VALIDATION.items():

    def _run(version, fields=fields, code=code, message=message):
        c = Context(version)
        same(c.beat(**fields), code)
        same(c.response.error_message, message)

    test("testConsumerHeartbeatRequestValidation", variant)(_run)


@test("testConsumerHeartbeatRegexValidation")
def _(v):
    c = Context(v)
    same(
        c.beat("m", 0, timeout=5000, owned="", subscribed_topic_regex="["),
        "INVALID_REGULAR_EXPRESSION",
    )
    same(c.beat("m", 0, timeout=5000, owned="", subscribed_topic_regex=".*"), "m@1 []")
    same(
        c.beat("m", 1, timeout=5000, owned="", subscribed_topic_regex="["),
        "INVALID_REGULAR_EXPRESSION",
    )


@test(
    "testConsumerHeartbeatRegexValidation",
    "a join with a pattern and no topics is given epoch 1",
    ("kafka-4.3",),
)
def _(v):
    # 00d98690: the metadata image is empty; the epoch of the answer is 1, then 2 once names replace it.
    c = Context(v)
    c.beat("m", 0, timeout=5000, owned="", subscribed_topic_regex=".*")
    same(c.response.member_epoch, 1)
    c.beat("m", 1, timeout=5000, owned="", names="foo")
    same(c.response.member_epoch, 2)


@test("testMemberIdGeneration")
def _(v):
    c = Context(v)
    c.join("", api_version=0)
    same(bool(c.response.member_id), True, "an id is made")
    same(
        (c.response.member_epoch, c.response.heartbeat_interval_ms, c.response.assignment),
        (c.first, 5000, frozenset()),
    )


@test("testUnknownGroupId")
def _(v):
    same(Context(v).join("m", epoch=100), "GROUP_ID_NOT_FOUND")


@test("testUnknownMemberIdJoinsConsumerGroup")
def _(v):
    c = Context(v)
    c.join("m")
    same(c.join("other", epoch=1, assignor=None), "UNKNOWN_MEMBER_ID")


def epoch_validation(v, **static):
    c = Context(v)
    instance = static.get("instance_id")
    c.seed(
        100,
        {"m": dict(epoch=100, previous=99, assigned="foo:1,2,3", instance=instance)},
        {"m": "foo:1,2,3"},
    )
    for epoch in (200, 50, 99):
        same(
            c.beat("m", epoch, names="foo bar", timeout=5000, **static),
            "FENCED_MEMBER_EPOCH",
            f"epoch {epoch}",
        )
    c.beat("m", 99, names="foo bar", timeout=5000, owned="foo:1,2", **static)
    same(c.response.member_epoch, 100)


test("testConsumerGroupMemberEpochValidation")(lambda v: epoch_validation(v))
test("testConsumerGroupMemberEpochValidationForStaticMember")(
    lambda v: epoch_validation(v, instance_id="m")
)

ALL6 = "foo:0-5 bar:0-2"


@test("testMemberJoinsEmptyConsumerGroup")
def _(v):
    c = Context(v, "foo:6 bar:3")
    c.mock.prepare(m=ALL6)
    first = c.first
    same(c.join("m"), f"m@{first} [bar:0,1,2 foo:0,1,2,3,4,5]")
    same(c.response.heartbeat_interval_ms, 5000)
    same(
        c.records,
        [
            "member m [bar foo] range 5000",
            f"epoch {first} hash bar+foo",
            "target m [bar:0,1,2 foo:0,1,2,3,4,5]",
            f"target epoch {first}",
            f"current m S {first}/0 [bar:0,1,2 foo:0,1,2,3,4,5]",
        ],
    )


@test("testUpdatingSubscriptionTriggersNewTargetAssignment")
def _(v):
    c = Context(v, "foo:6 bar:3")
    c.seed(10, {"m": dict(names="foo", assigned="foo:0-5", timeout=-1)}, {"m": "foo:0-5"})
    c.mock.prepare(m=ALL6)
    same(c.beat("m", 10, names="foo bar"), "m@11 [bar:0,1,2 foo:0,1,2,3,4,5]")
    same(
        c.records,
        [
            "member m [bar foo] range -1",
            "epoch 11 hash bar+foo",
            "target m [bar:0,1,2 foo:0,1,2,3,4,5]",
            "target epoch 11",
            "current m S 11/10 [bar:0,1,2 foo:0,1,2,3,4,5]",
        ],
    )


def two_members(c, hash_of="foo bar", static=False, names2="foo bar"):
    inst = (lambda m: m) if static else (lambda m: None)
    c.seed(
        10,
        {
            "m1": dict(assigned="foo:0,1,2 bar:0,1", instance=inst("m1")),
            "m2": dict(assigned="foo:3,4,5 bar:2", instance=inst("m2"), names=names2),
        },
        {"m1": "foo:0,1,2 bar:0,1", "m2": "foo:3,4,5 bar:2"},
        hash_of=hash_of,
    )


def third_joins(v, static):
    c = Context(v, "foo:6 bar:3")
    two_members(c, static=static)
    c.mock.prepare(m1="foo:0,1 bar:0", m2="foo:2,3 bar:1", m3="foo:4,5 bar:2")
    extra = {"instance_id": "m3"} if static else {}
    same(c.join("m3", **extra), "m3@11 []")
    r = c.records
    same(
        r[:2],
        [f"member m3{' #m3' if static else ''} [bar foo] range 5000", "epoch 11 hash bar+foo"],
    )
    same(
        sorted(r[2:5]),
        ["target m1 [bar:0 foo:0,1]", "target m2 [bar:1 foo:2,3]", "target m3 [bar:2 foo:4,5]"],
    )
    same(r[5:], ["target epoch 11", "current m3 UL 11/0 []"])


test("testNewJoiningMemberTriggersNewTargetAssignment")(lambda v: third_joins(v, False))
test("testGroupEpochBumpWhenNewStaticMemberJoins")(lambda v: third_joins(v, True))


def leaving(v, static):
    c = Context(v, "foo:6 bar:3 zar:1")
    two_members(c, static=static, names2="foo bar zar", hash_of="foo bar zar")
    extra = {"instance_id": "m2"} if static else {}
    same(c.beat("m2", -1, names="foo bar", timeout=5000, owned="", **extra), "m2@-1 -")
    same(c.records, ["current x m2", "target x m2", "member x m2", "epoch 11 hash bar+foo"])


test("testLeavingMemberBumpsGroupEpoch")(lambda v: leaving(v, False))
test("testLeavingStaticMemberBumpsGroupEpoch")(lambda v: leaving(v, True))


@test("testNoGroupEpochBumpWhenStaticMemberTemporarilyLeaves")
def _(v):
    c = Context(v, "foo:6 bar:3")
    two_members(c, static=True)
    same(c.beat("m2", -2, names="foo bar", timeout=5000, owned="", instance_id="m2"), "m2@-2 -")
    same(c.records, ["current m2 S -2/9 [bar:2 foo:3,4,5]"])


@test(
    "testNoGroupEpochBumpWhenStaticMemberTemporarilyLeaves",
    "assignment epochs are 0 while away",
    ("kafka-4.3",),
)
def _(v):
    c = Context(v, "foo:6 bar:3")
    two_members(c, static=True)
    c.beat("m2", -2, instance_id="m2")
    same(set(c.raw[0].value.assigned.values()), {0})


@test("testStaticMemberGetsBackAssignmentUponRejoin")
def _(v):
    c = Context(v, "foo:6 bar:3")
    two_members(c, static=True)
    same(c.beat("m2", -2, names="foo bar", owned="", instance_id="m2"), "m2@-2 -")
    same(c.records, ["current m2 S -2/9 [bar:2 foo:3,4,5]"])
    same(c.join("m2b", instance_id="m2"), "m2b@10 [bar:2 foo:3,4,5]")
    same(
        c.records,
        [
            "current x m2",
            "target x m2",
            "member x m2",
            "member m2b #m2 [bar foo] range 5000",
            "target m2b [bar:2 foo:3,4,5]",
            "current m2b S 0/0 [bar:2 foo:3,4,5]",
            "current m2b S 10/0 [bar:2 foo:3,4,5]",
        ],
    )
    same((c.timer("session", "m2"), c.timer("rebalance", "m2")), (None, None))


@test("testStaticMemberRejoinsWithNewSubscribedTopics")
def _(v):
    c = Context(v, "foo:6 bar:3")
    c.seed(
        10,
        {
            "m1": dict(assigned="foo:0,1,2", instance="i1", names="foo"),
            "m2": dict(assigned="foo:3,4,5", instance="i2", names="foo"),
        },
        {"m1": "foo:0,1,2", "m2": "foo:3,4,5"},
        hash_of="foo",
    )
    c.mock.prepare(m1="foo:0,1,2", m2b="foo:3,4,5 bar:0-2")
    same(c.beat("m2", -2, instance_id="i2"), "m2@-2 -")
    same(c.join("m2b", instance_id="i2"), "m2b@11 [bar:0,1,2 foo:3,4,5]")
    same(
        c.records,
        [
            "current x m2",
            "target x m2",
            "member x m2",
            "member m2b #i2 [foo] range 5000",
            "target m2b [foo:3,4,5]",
            "current m2b S 0/0 [foo:3,4,5]",
            "member m2b #i2 [bar foo] range 5000",
            "epoch 11 hash bar+foo",
            "target m2b [bar:0,1,2 foo:3,4,5]",
            "target epoch 11",
            "current m2b S 11/0 [bar:0,1,2 foo:3,4,5]",
        ],
    )
    same((c.timer("session", "m2"), c.timer("rebalance", "m2")), (None, None))


def one_static(v):
    c = Context(v, "foo:6")
    c.seed(
        10,
        {"m1": dict(assigned="foo:0,1,2", instance="m1")},
        {"m1": "foo:0,1,2"},
        hash_of="foo bar",
    )
    return c


@test("testShouldThrownUnreleasedInstanceIdExceptionWhenNewMemberJoinsWithInUseInstanceId")
def _(v):
    same(one_static(v).join("m2", instance_id="m1"), "UNRELEASED_INSTANCE_ID")


@test("testShouldThrownUnknownMemberIdExceptionWhenUnknownStaticMemberJoins")
def _(v):
    same(one_static(v).join("m2", instance_id="m2", epoch=10), "UNKNOWN_MEMBER_ID")


@test("testShouldThrowFencedInstanceIdExceptionWhenStaticMemberWithDifferentMemberIdJoins")
def _(v):
    same(
        one_static(v).join("unknown-m1", instance_id="m1", epoch=11, assignor=None),
        "FENCED_INSTANCE_ID",
    )


@test("testShouldThrowUnknownMemberIdExceptionWhenUnknownStaticMemberLeaves")
def _(v):
    same(
        one_static(v).join("m1", instance_id="unknown-m1", epoch=-2, assignor=None),
        "UNKNOWN_MEMBER_ID",
    )


@test("testShouldThrowFencedInstanceIdExceptionWhenStaticMemberWithDifferentMemberIdLeaves")
def _(v):
    same(
        one_static(v).join("unknown-m1", instance_id="m1", epoch=-2, assignor=None),
        "FENCED_INSTANCE_ID",
    )


@test("testConsumerGroupHeartbeatFullResponse")
def _(v):
    c = Context(v, "foo:2")
    c.mock.prepare(m="foo:0,1")
    e = c.first
    same(c.join("m"), f"m@{e} [foo:0,1]")
    same(c.beat("m", e), f"m@{e} -")
    same(c.join("m", epoch=e), f"m@{e} [foo:0,1]")


@test("testReconciliationProcess")
def _(v):
    c = Context(v, "foo:6 bar:3")
    two_members(c)
    c.mock.prepare(m1="foo:0,1 bar:0", m2="foo:2,3 bar:2", m3="foo:4,5 bar:1")
    same(c.group.state.value, "Stable")
    same(c.join("m3"), "m3@11 []")
    same(c.records[-1], "current m3 UL 11/0 []")
    same((c.state("m3"), c.group.state.value), ("UL", "Reconciling"))
    same(c.beat("m1", 10), "m1@10 [bar:0 foo:0,1]")
    same(c.records, ["current m1 UV 10/10 [bar:0 foo:0,1] -[bar:1 foo:2]"])
    same(c.beat("m2", 10), "m2@10 [bar:2 foo:3]")
    same(c.records, ["current m2 UV 10/10 [bar:2 foo:3] -[foo:4,5]"])
    same(c.beat("m3", 11), "m3@11 -")
    same(c.records, ["current m3 UL 11/11 []"])
    same(c.beat("m1", 10, owned="foo:0,1 bar:0"), "m1@11 -")
    same(c.records, ["current m1 S 11/10 [bar:0 foo:0,1]"])
    same(c.beat("m2", 10), "m2@10 -")
    same(c.records, [])
    same(c.beat("m3", 11), "m3@11 [bar:1]")
    same(c.records, ["current m3 UL 11/11 [bar:1]"])
    same(c.beat("m3", 11), "m3@11 -")
    same(c.records, [])
    same(c.group.state.value, "Reconciling")
    same(c.beat("m2", 10, owned="foo:3 bar:2"), "m2@11 [bar:2 foo:2,3]")
    same(c.records, ["current m2 S 11/10 [bar:2 foo:2,3]"])
    same(c.beat("m3", 11, owned="bar:1"), "m3@11 [bar:1 foo:4,5]")
    same(c.records, ["current m3 S 11/11 [bar:1 foo:4,5]"])
    same(c.group.state.value, "Stable")


@test("testNewMemberIsRejectedWithMaximumMembersIsReached")
def _(v):
    c = Context(v, "foo:6 bar:3", group_consumer_max_size=2)
    two_members(c)
    same(c.join("m3"), "GROUP_MAX_SIZE_REACHED")


@test("testConsumerGroupStates")
def _(v):
    c = Context(v)
    c.seed(10, {}, {})
    states = [c.group.state.value]
    member = c.member_records(
        "m", names="foo", epoch=11, previous=10, state="UV", assigned="foo:1-3"
    )
    c.replay(member[0], ConsumerGroupMetadata(G, GroupMetadataValue(epoch=11, metadata_hash=0)))
    states.append(c.group.state.value)
    c.replay(
        ConsumerGroupTargetAssignmentMember(G, "m", frozenset()),
        ConsumerGroupTargetAssignmentMetadata(
            G, TargetMetadataValue(assignment_epoch=11, assignment_timestamp=0)
        ),
    )
    states.append(c.group.state.value)
    c.replay(member[1])
    states.append(c.group.state.value)
    c.replay(c.member_records("m", names="foo", epoch=11, previous=10, assigned="foo:1-3")[1])
    states.append(c.group.state.value)
    same(states, ["Empty", "Assigning", "Reconciling", "Reconciling", "Stable"])


@test("testPartitionAssignorExceptionOnRegularHeartbeat")
def _(v):
    c = Context(v, "foo:6 bar:3")
    c.mock.next = PartitionAssignorError("failed")
    same(c.join("m"), "UNKNOWN_SERVER_ERROR")


@test("testSubscriptionMetadataRefreshedAfterGroupIsLoaded")
def _(v):
    c = Context(v, "foo:6")
    c.seed(10, {"m": dict(previous=10, assigned="foo:0,1,2")}, {"m": "foo:0,1,2"}, hash_value=12345)
    c.mock.prepare(m="foo:0-5")
    same(c.beat("m", 10), "m@11 [foo:0,1,2,3,4,5]")
    same(
        c.records,
        [
            "epoch 11 hash foo",
            "target m [foo:0,1,2,3,4,5]",
            "target epoch 11",
            "current m S 11/10 [foo:0,1,2,3,4,5]",
        ],
    )
    same(c.group.metadata_refresh_epoch, 11)


@test("testOnNewMetadataImage")
def _(v):
    c = Context(v)
    subs = {"group1": "a b", "group2": "b c", "group3": "d", "group4": "e", "group5": "f"}
    for group, names in subs.items():
        c.replay(c.member_records(f"{group}-m1", names=names, group=group)[0])
    image = MetadataImage([Topic(topic_id=t, name=t, partition_count=1) for t in "abcd"], version=2)
    c.shard.update_image(image)
    for group in subs:
        c.coordinator.groups_of(ConsumerGroup)[group].metadata_refresh_deadline_ms = (
            c.shard.now_ms + 5000
        )
        c.coordinator.groups_of(ConsumerGroup)[group].metadata_refresh_epoch = 0
    c.shard.update_image(
        image.with_topic(Topic(topic_id="b", name="b", partition_count=3))
        .without_topic("d")
        .with_topic(Topic(topic_id="e", name="e", partition_count=2))
    )
    due = {
        g: c.coordinator.groups_of(ConsumerGroup)[g].metadata_refresh_deadline_ms <= c.shard.now_ms
        for g in subs
    }
    same(due, {"group1": True, "group2": True, "group3": True, "group4": True, "group5": False})


# -- timers -------------------------------------------------------------------------------------


def session_start(v, **static):
    c = Context(v, "foo:6")
    c.mock.prepare(m="foo:0-5")
    c.join("m", names="foo", timeout=90000, assignor=None, **static)
    same((c.response.member_epoch, c.timer("session", "m")), (c.first, 45000))
    return c


@test("testSessionTimeoutLifecycle")
def _(v):
    c = session_start(v)
    same(c.sleep(5000), [])
    c.beat("m", c.first)
    same((c.response.member_epoch, c.timer("session", "m")), (c.first, 45000))
    same(c.sleep(5000), [])
    same(c.beat("m", -1), "m@-1 -")
    same((c.timer("session", "m"), c.timer("rebalance", "m")), (None, None))


def expired(first):
    return ["current x m", "target x m", "member x m", f"epoch {first + 1} hash 0"]


@test("testSessionTimeoutExpiration")
def _(v):
    c = session_start(v)
    same(c.sleep(45001), expired(c.first))
    same((c.timer("session", "m"), c.timer("rebalance", "m")), (None, None))


@test("testSessionTimeoutExpirationStaticMember")
def _(v):
    c = session_start(v, instance_id="m")
    same(c.beat("m", -2, instance_id="m", timeout=90000, names="foo", owned=""), "m@-2 -")
    same(c.timer("session", "m"), 45000)
    same(c.sleep(45001), expired(c.first))
    same((c.timer("session", "m"), c.timer("rebalance", "m")), (None, None))


def rebalance_start(v, first_timeout, second_timeout):
    c = Context(v, "foo:3")
    e = c.first
    c.mock.prepare(m1="foo:0-2")
    same(c.join("m1", names="foo", timeout=first_timeout, assignor=None), f"m1@{e} [foo:0,1,2]")
    same(c.sleep(5000), [])
    c.mock.prepare(m1="foo:0,1", m2="foo:2")
    same(c.join("m2", names="foo", timeout=second_timeout, assignor=None), f"m2@{e + 1} []")
    same(c.sleep(5000), [])
    return c, e


@test("testRebalanceTimeoutLifecycle")
def _(v):
    c, e = rebalance_start(v, 180000, 90000)
    same(c.beat("m1", e, timeout=12000, names="foo"), f"m1@{e} [foo:0,1]")
    same(c.timer("rebalance", "m1"), 12000)
    stale = c.shard.timers[TimerKey("rebalance", G, "m1")]
    same(c.sleep(5000), [])
    same(c.beat("m1", e, owned="foo:0,1"), f"m1@{e + 1} -")
    same(c.timer("rebalance", "m1"), None)
    same(c.coordinator.fire(stale.key, epoch=stale.epoch, now_ms=c.shard.now_ms).records, ())


@test("testRebalanceTimeoutExpiration")
def _(v):
    c, e = rebalance_start(v, 10000, 10000)
    same(c.beat("m1", e), f"m1@{e} [foo:0,1]")
    same(c.sleep(10001), ["current x m1", "target x m1", "member x m1", f"epoch {e + 2} hash foo"])
    same((c.timer("session", "m1"), c.timer("rebalance", "m1")), (None, None))


@test("testOnLoaded")
def _(v):
    c = Context(v, "foo:6 bar:3")
    c.seed(
        10,
        {
            "foo-1": dict(
                state="UV", epoch=9, previous=9, names="foo", assigned="foo:0-2", pending="foo:3-5"
            ),
            "foo-2": dict(epoch=10, previous=10, names="foo"),
        },
        {"foo-1": "foo:3-5"},
    )
    keys = {
        (t.key.kind, t.key.member_id)
        for t in c.coordinator.on_loaded(now_ms=0)
        if hasattr(t, "at_ms")
    }
    same(
        keys - {("expiry", "")},
        {("session", "foo-1"), ("session", "foo-2"), ("rebalance", "foo-1")},
    )


cannot(
    C,
    "testSubscriptionMetadataRefreshedAgainAfterWriteFailure",
    "needs a host that rolls a write back; Shard commits at once (GroupCoordinator.revert_to exists)",
)
cannot(
    C, "testGroupIdsByTopics", "reads an index from topic to groups, which the model does not keep"
)
