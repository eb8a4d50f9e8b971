"""GroupMetadataManagerTest, migration: what Kafka 4.3.1 tests beside `group_migration.py`.

Facts from Kafka 4.3.1, group-coordinator test sources: members without or with an outdated target,
patterns that go with a member, members that an administrator removes.
"""

from __future__ import annotations

from _classic import GID, Classic, member_value, subscription, value
from group_migration import classic, given
from peer import add, cannot, same, tps

from rebalance_sim.protocol.classic.classic_group import ClassicGroup
from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup
from rebalance_sim.protocol.wire.embedded import Assignment, NamedPartitions
from rebalance_sim.protocol.wire.records import GroupMetadata

C, V = "GroupMetadataManagerTest", "kafka-4.3"
FOO = "foo:0,1,2"


def test(method, variant="", version=V, cls=C):
    def register(function):
        add(cls, method, function, variant, version)
        return function

    return register


def group(c):
    return c.coordinator.groups_of(ConsumerGroup)[GID]


def topics_are_known(c):
    group(c).metadata_refresh_deadline_ms, group(c).metadata_refresh_epoch = 10**12, 10


# -- up ---------------------------------------------------------------------------------------------


@test("testConsumerGroupHeartbeatToClassicGroupWithEmptyAssignmentMember")
def _():
    c = Classic(V, "foo:1 bar:1", create=False, group_consumer_migration_policy="upgrade")
    h = c.ask(session=5000, rebalance=10000, metadata=subscription(("foo", "bar")))
    c.sleep(3001)
    m1 = c.got(h).member_id
    same(c.gstate, "CompletingRebalance")
    c.mock.next = {m1: frozenset(), "m2": frozenset()}
    same(c.join("m2", group=GID), "m2@2 []")
    same(
        c.records,
        [
            "classic x",
            f"member {m1} [bar foo] None 10000 classic",
            "epoch 1 hash bar+foo",
            f"target {m1} []",
            "target epoch 1",
            f"current {m1} S 1/1 []",
            "member m2 [bar foo] range 5000",
            "epoch 2 hash bar+foo",
            "target m2 []",
            "target epoch 2",
            "current m2 S 2/0 []",
        ],
    )
    same((c.timer("session", m1, GID), c.timer("session", "m2", GID)), (5000, 45000))


for name, user_data, upgrades in (
    ("none", None, True),
    ("empty", b"", True),
    ("set", b"\0", False),
):

    @test("testConsumerGroupHeartbeatWithCustomAssignorClassicGroup", f"user data {name}")
    def _(user_data=user_data, upgrades=upgrades):
        c = Classic(V, "foo:1 bar:1", create=False, group_consumer_migration_policy="upgrade")
        owned = Assignment(
            partitions=(NamedPartitions("foo", (0,)), NamedPartitions("bar", (0,))),
            user_data=user_data,
        )
        meta = subscription(("foo", "bar"), "foo:0 bar:0")
        c.replay(
            GroupMetadata(
                GID, value([member_value("m1", metadata=meta, assignment=owned)], generation=0)
            )
        )
        c.mock.next = {"m1": tps("foo:0"), "m2": tps("bar:0")}
        answer = c.join("m2", group=GID)
        same(
            answer if not upgrades else answer.split("@")[0],
            "m2" if upgrades else "GROUP_ID_NOT_FOUND",
        )
        same(GID in c.coordinator.groups_of(ConsumerGroup), upgrades)
        if not upgrades:
            same("custom assignor" in c.response.error_message, True, c.response.error_message)


# -- in a mixed group -------------------------------------------------------------------------------


@test("testClassicGroupSyncToConsumerGroupDuringAssignmentDelay")
def _():
    c = Classic(V, "foo:6 bar:3", create=False)
    c.seed(
        11,
        {
            "m1": dict(names="foo", assigned="foo:0-2", timeout=45000, classic=classic("foo", FOO)),
            "m2": dict(names="bar", timeout=45000),
        },
        {"m1": "foo:0-2", "m2": "foo:3-5"},
        hash_of="foo bar",
        target_epoch=10,
        group=GID,
    )
    same(c.code(c.put("m1", 10)), "NONE")
    c.mock.next = {"m1": tps("foo:0-5"), "m2": tps("bar:0-2")}
    same(c.beat("m2", 10, group=GID), "m2@11 [bar:0,1,2]")
    same(c.code(c.put("m1", 10)), "REBALANCE_IN_PROGRESS")


for variant, pattern, names, assigned, matched in (
    ("Changed", "foo*", "", "foo:0-2", "foo"),
    ("Same", "bar*", "foo", "foo:0-2 bar:0", "bar"),
):

    @test(f"testConsumerMemberWithRegexReplacedByClassicMemberWith{variant}Subscription")
    def _(pattern=pattern, names=names, assigned=assigned, matched=matched):
        c = Classic(V, "foo:6 bar:1", create=False)
        c.seed(
            10,
            {
                "m1": dict(
                    previous=10, instance="i", names=names, regex=pattern, assigned=assigned
                ),
                "m2": dict(previous=10, names="foo", assigned="foo:3-5"),
            },
            {"m1": assigned, "m2": "foo:3-5"},
            hash_value=0,
            group=GID,
        )
        c.regex(pattern, matched, group=GID)
        topics_are_known(c)
        h = c.ask(instance="i", rebalance=5000, metadata=subscription(names.split()))
        new = group(c).static_members["i"]
        held = "bar:0 foo:0,1,2" if "bar" in assigned else "foo:0,1,2"
        same(
            c.records[:9],
            [
                "current x m1",
                "target x m1",
                "member x m1",
                f"member {new} #i [{names}] /{pattern}/ range 5000",
                f"target {new} [{held}]",
                f"current {new} S 0/0 [{held}]",
                f"member {new} #i [{names}] range 5000 classic",
                f"regex x {pattern}",
                "epoch 11 hash foo",
            ],
        )
        same(sorted(c.records[9:11]), sorted([f"target {new} []", "target m2 []"]))
        same(c.records[11:], ["target epoch 11", f"current {new} S 11/0 []"])
        same(c.got(h).generation_id, 11)


# -- down -------------------------------------------------------------------------------------------


for what, assigned1, target1 in (
    ("Missing", "", None),
    ("Stale", "foo:0-2 bar:0,1", "foo:0-2 bar:0,1"),
):

    @test(
        "testLastStaticConsumerProtocolMemberReplacedByClassicProtocolMember"
        f"WhenTargetAssignmentIs{what}"
    )
    def _(assigned1=assigned1, target1=target1):
        c = Classic(V, "foo:6 bar:2", create=False, group_consumer_migration_policy="downgrade")
        old = "foo:0-5 bar:0,1" if target1 is None else "foo:3-5"
        c.seed(
            11,
            {
                "m1": dict(epoch=10, assigned=assigned1, timeout=45000, classic=classic("foo bar")),
                "old": dict(epoch=10, assigned=old, timeout=45000, instance="i"),
            },
            {"old": old, **({} if target1 is None else {"m1": target1})},
            hash_of="foo bar",
            target_epoch=10,
            group=GID,
        )
        h = c.ask(instance="i", metadata=subscription(("foo", "bar")))
        same((c.code(h), c.gstate), ("NONE", "PreparingRebalance"))


def by_administrator(policy, **rest):
    c = Classic(V, "foo:2 bar:2", create=False, group_consumer_migration_policy=policy, **rest)
    c.seed(
        10,
        {
            "m1": dict(
                assigned="foo:0", since=11, timeout=45000, classic=classic("foo bar", "foo:0")
            ),
            "m2": dict(
                instance="i2", assigned="foo:1", timeout=45000, classic=classic("foo bar", "foo:1")
            ),
            "m3": dict(assigned="bar:0", timeout=45000),
            "m4": dict(instance="i4", assigned="bar:1", timeout=45000),
        },
        {"m1": "foo:0", "m2": "foo:1", "m3": "bar:0", "m4": "bar:1"},
        hash_of="foo bar",
        group=GID,
    )
    return c


@test("testLastConsumerProtocolMemberLeavingConsumerGroupByAdminApi")
def _():
    c = by_administrator("downgrade")
    same(
        c.leave("m2", "m3", ("", "i4")),
        [("m2", None, "NONE"), ("m3", None, "NONE"), ("", "i4", "NONE")],
    )
    everyone = ("m1", "m2", "m3", "m4")
    r = c.records
    for at, what in ((0, "current"), (4, "target"), (9, "member")):
        same(sorted(r[at : at + 4]), [f"{what} x {m}" for m in everyone])
    same(r[8], "target epoch x")
    same(r[13:], ["partition metadata x", "epoch x", "classic gen 10 1 members"])
    record = c.raw[-1].value
    (m,) = record.members
    same(
        (record.protocol_type, record.protocol, record.leader, m.member_id, m.assignment),
        ("consumer", "range", "m1", "m1", given("foo:0")),
    )
    same((m.rebalance_timeout_ms, m.session_timeout_ms), (45000, 5000))
    same(
        (c.due("classic-session", "m1") is not None, c.due("classic-join") is not None, c.gstate),
        (True, True, "PreparingRebalance"),
    )


cannot(
    C,
    "testLastConsumerProtocolMemberLeavingConsumerGroupByAdminApi (the write that fails)",
    "needs a host that rolls a write back; Shard commits at once",
)


@test("testResolvedRegularExpressionsRemovedWhenConsumerMembersRemovedByAdminApi")
def _():
    c = Classic(V, "foo:6 bar:3", create=False)
    c.seed(
        10,
        {
            m: dict(previous=10, instance=m, names="", regex=regex, assigned=assigned)
            for m, regex, assigned in (
                ("m1", "foo*", "foo:0-2"),
                ("m2", "foo*", "foo:3-5"),
                ("m3", "bar*", "bar:0,1"),
                ("m4", "bar*", "bar:2"),
            )
        },
        {"m1": "foo:0-5", "m2": "bar:0-2"},
        hash_of="foo bar",
        group=GID,
    )
    c.regex("foo*", "foo", group=GID)
    c.regex("bar*", "bar", group=GID)
    same(
        c.leave("m1", ("m2", "m2"), ("", "m3")),
        [("m1", None, "NONE"), ("m2", "m2", "NONE"), ("", "m3", "NONE")],
    )
    same(
        sorted(c.records[:9]),
        sorted(f"{w} x {m}" for w in ("current", "target", "member") for m in ("m1", "m2", "m3")),
    )
    same(c.records[9:], ["regex x foo*", "epoch 11 hash bar"])


@test("testStaticMemberRejoinWithKnownLeaderIdToTriggerRebalanceAndFollowerWithChangeOfProtocol")
def _():
    c = Classic(V)
    leader, follower = c.static_pair()
    times = dict(rebalance=10000, session=5000, known=True, skip=True)
    both = dict(protos=("range", "roundrobin"), **times)
    a = c.ask(leader, instance="leader-instance-id", **both)
    same((c.done(a), c.records), ([False], []))
    b = c.ask(follower, instance="follower-instance-id", **both)
    same((c.done(a, b), c.records, c.gstate), ([True, True], [], "CompletingRebalance"))
    same([(c.got(h).generation_id, c.got(h).leader) for h in (a, b)], [(2, leader)] * 2)
    same((c.got(a).protocol_name, c.got(a).skip_assignment), ("range", False))
    same((len(c.got(a).members), c.got(b).members), (2, ()))
    d = c.ask(follower, instance="follower-instance-id", protos=("range",), **times)
    same((c.done(d), c.records, c.gstate), ([False], [], "PreparingRebalance"))
    c.sleep(5000)
    answer = c.got(d)
    same(
        (answer.generation_id, answer.leader, answer.protocol_name, len(answer.members)),
        (3, answer.member_id, "range", 1),
    )
    same(c.coordinator.groups_of(ClassicGroup)[GID].state.value, "CompletingRebalance")
