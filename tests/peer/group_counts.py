"""ConsumerGroupTest, TargetAssignmentBuilderTest, GroupCoordinatorShardTest, -ServiceTest.

Facts from Kafka 4.3.1, group-coordinator test sources. What Kafka keeps as two numbers for each
topic, of members that name it and of patterns that match it, are here the numbers of members, and
the topics of each pattern.
"""

from __future__ import annotations

from _classic import GID, Classic
from _kafka import Context, G
from group_migration import classic
from offsets import F, Offsets
from peer import add, cannot, same

from rebalance_sim.protocol.consumer.consumer_group import (
    ConsumerGroup,
    recount,
    subscription_type,
)
from rebalance_sim.protocol.consumer.consumer_member import Member
from rebalance_sim.protocol.consumer.context import metadata_hash
from rebalance_sim.protocol.consumer.regexes import abandoned_regex, subscribed_names
from rebalance_sim.protocol.runtime.outcome import ShardTimer
from rebalance_sim.protocol.wire.records import (
    ConsumerGroupRegularExpression,
    RegularExpressionValue,
)
from rebalance_sim.protocol.wire.topics import Topic

GROUP, V = "ConsumerGroupTest", "kafka-4.3"


def test(method, variant="", cls=GROUP):
    def register(function):
        add(cls, method, function, variant, V)
        return function

    return register


def group(members, *, topics="", resolved=None):
    """``members``: id -> "names" or "names /pattern/". ``resolved``: pattern -> topics."""
    c = Context(V, topics)
    subscribe(c, **members)
    for pattern, names in (resolved or {}).items():
        c.regex(pattern, names)
    return c


def subscribe(c, **members):
    for member, text in members.items():
        words = text.split()
        regex = next((w[1:-1] for w in words if w.startswith("/")), "")
        names = " ".join(w for w in words if not w.startswith("/"))
        c.replay(c.member_records(member, names=names, regex=regex)[0])


def forget(c, pattern):
    c.replay(ConsumerGroupRegularExpression(G, pattern, None))


def counts(c):
    """Topic -> number of members that name it, number of patterns that match it."""
    names, resolved = c.group.subscribed_topic_names, c.group.resolved_regexes.values()
    return {
        name: (names.get(name, 0), sum(name in r.topics for r in resolved))
        for name in sorted(c.group.all_subscribed_names())
    }


# -- numbers of subscribers -------------------------------------------------------------------------


@test("testSubscribedRegularExpressionCount")
def _():
    c = group({})
    steps = (
        ("m1", "/regex1/", {"regex1": 1}),
        ("m2", "/regex2/", {"regex1": 1, "regex2": 1}),
        ("m3", "/regex1/", {"regex1": 2, "regex2": 1}),
        ("m4", "", {"regex1": 2, "regex2": 1}),
        ("m3", "/regex2/", {"regex1": 1, "regex2": 2}),
    )
    for member, text, expected in steps:
        subscribe(c, **{member: text})
        same(dict(c.group.subscribed_regexes), expected)
    for member, expected in (("m1", {"regex2": 2}), ("m2", {"regex2": 1}), ("m3", {})):
        removed = c.member_records(member)[0]
        c.replay(type(removed)(G, member, None))
        same(dict(c.group.subscribed_regexes), expected)


@test("testComputeSubscribedRegularExpressions")
def _():
    for before, after, expected in (
        ((), ("foo*",), {"foo*": 3}),
        (("foo*",), (), {"foo*": 1}),
        ((), ("bar*",), {"foo*": 2, "bar*": 1}),
        (("foo*",), ("bar*",), {"foo*": 1, "bar*": 1}),
    ):
        found = dict(group({"m1": "/foo*/", "m2": "/foo*/"}).group.subscribed_regexes)
        recount(found, before, after)
        same(found, expected)


@test("testUpdateAndRemoveRegularExpression")
def _():
    c = group({"member1": "foo bar zar", "member2": "foo bar"})
    same(counts(c), {"bar": (2, 0), "foo": (2, 0), "zar": (1, 0)})
    c.regex("foo|bar", "foo bar", version=10, timestamp=12345)
    same(counts(c), {"bar": (2, 1), "foo": (2, 1), "zar": (1, 0)})
    c.regex("foobar", "foobar", version=10, timestamp=12345)
    same(counts(c), {"bar": (2, 1), "foo": (2, 1), "foobar": (0, 1), "zar": (1, 0)})
    c.regex("foo|bar", "foo", version=10, timestamp=12345)
    same(counts(c), {"bar": (2, 0), "foo": (2, 1), "foobar": (0, 1), "zar": (1, 0)})
    forget(c, "foo|bar")
    same(counts(c), {"bar": (2, 0), "foo": (2, 0), "foobar": (0, 1), "zar": (1, 0)})
    forget(c, "foobar")
    same(counts(c), {"bar": (2, 0), "foo": (2, 0), "zar": (1, 0)})


for variant, names, regex, expected in (
    ("nothing changes", ("foo",), "foo*", "bar foo fooo zar"),
    ("pattern goes", ("foo",), "", "bar foo zar"),
    ("names go", (), "foo*", "bar foo fooo zar"),
    ("both go", (), "", "bar foo zar"),
):

    @test("testComputeSubscribedTopicNames", variant)
    def _(names=names, regex=regex, expected=expected):
        c = group(
            {"member1": "foo bar zar", "member2": "foo bar", "member3": "foo /foo*/"},
            resolved={"foo*": "foo fooo"},
        )
        same(counts(c), {"bar": (2, 0), "foo": (3, 1), "fooo": (0, 1), "zar": (1, 0)})
        before = c.group.members["member3"]
        after = Member(
            member_id="member3", subscribed_topic_names=names, subscribed_topic_regex=regex
        )
        gone = abandoned_regex(c.group, before, regex)
        found = subscribed_names(c.group, before=before, after=after, gone_regex=gone)
        same(sorted(found), expected.split())


@test("testComputeSubscribedTopicNamesWithoutDeletedMembers")
def _():
    c = Classic(V, "foo:1 fooo:1 bar:1 barr:1 zar:1", create=False)
    members = {
        "member1": dict(names="foo bar zar"),
        "member2": dict(names="foo bar"),
        **{f"member{n}": dict(names="", regex="foo*") for n in (3, 4)},
        **{f"member{n}": dict(names="", regex="bar*") for n in (5, 6)},
    }
    c.seed(10, members, {}, hash_of="foo fooo bar barr zar", group=GID)
    c.regex("foo*", "foo fooo", group=GID)
    c.regex("bar*", "bar barr", group=GID)
    c.leave("member2", "member3", "member4", "member5")
    same(c.records[-2:], ["regex x foo*", "epoch 11 hash bar+barr+foo+zar"])


for n, (regexes, names, matched, count, kind) in enumerate(
    [
        ({}, {}, (), 0, "homogeneous"),
        ({}, {"foo": 5}, (), 5, "homogeneous"),
        ({}, {"foo": 4, "bar": 1}, (), 5, "heterogeneous"),
        ({"foo*": 5}, {}, ("foo",), 5, "homogeneous"),
        ({"foo*": 5}, {}, ("foo food",), 5, "homogeneous"),
        ({"foo*": 5}, {"foo": 1}, ("foo",), 5, "heterogeneous"),
        ({"foo*": 5}, {"bar": 1}, ("foo",), 5, "heterogeneous"),
        ({"foo*": 4, "bar*": 1}, {}, ("foo", "bar"), 5, "heterogeneous"),
    ]
):

    @test("testSubscriptionType", str(n))
    def _(names=names, regexes=regexes, matched=matched, count=count, kind=kind):
        resolved = [
            RegularExpressionValue(topics=tuple(t.split()), version=0, timestamp=0) for t in matched
        ]
        same(subscription_type(names, regexes, resolved, count).value, kind)


@test("testComputeMetadataHash")
def _():
    c = Context(V, "foo:1 bar:1 zar:1")
    image = c.coordinator.image
    both = metadata_hash(("foo", "bar"), image)
    same(both, metadata_hash(("bar", "foo"), image), "the order is nothing")
    grown = image.with_topic(Topic(topic_id="foo", name="foo", partition_count=2))
    again = image.with_topic(Topic(topic_id="foo2", name="foo", partition_count=1))
    other = image.without_topic("foo")
    found = {metadata_hash(("foo", "bar"), i) for i in (image, grown, again, other)}
    same(len(found), 4, "more partitions, another id, none")
    same(both, metadata_hash(("foo", "bar"), image.without_topic("zar")), "another topic")


for method in (
    "testComputeMetadataHashIgnoreTopicHashIfItIsNotInMetadataImage",
    "testComputeMetadataHashUseCacheData",
):
    cannot(GROUP, method, "tests a cache of hashes by topic, which the model does not keep")


@test("testCreateGroupTombstoneRecords", "by a conversion to a classic group")
def _():
    c = Classic(V, "a:3 b:3 c:3", create=False, group_consumer_migration_policy="downgrade")
    c.seed(
        10,
        {
            "member1": dict(names="foo bar zar", assigned="a:0-2", classic=classic("foo")),
            "member2": dict(names="foo bar", assigned="b:0-2", classic=classic("foo")),
            "member3": dict(names="", regex="foo*", assigned="c:0-2"),
        },
        {"member1": "a:0-2", "member2": "b:0-2", "member3": "c:0-2"},
        group=GID,
    )
    c.regex("foo*", "foo fooo", group=GID)
    c.leave("member3")
    r = c.records
    everyone = ("member1", "member2", "member3")
    for at, what in ((0, "current"), (3, "target"), (7, "member")):
        same(sorted(r[at : at + 3]), [f"{what} x {m}" for m in everyone])
    same(r[6], "target epoch x")
    same(r[10:13], ["regex x foo*", "partition metadata x", "epoch x"])
    same(r[13:], ["classic gen 10 2 members"])


# -- who may commit at which epoch ------------------------------------------------------------------


def committing(state="S", **fields):
    c = Offsets(V)
    c.consumer({"m": dict(epoch=10, previous=9, names="foo", state=state, since=7, **fields)})
    return c


for where, fields in (
    ("assigned", dict(assigned="foo:0")),
    ("pending revocation", dict(pending="foo:0", state="UV")),
):
    for version in range(2, 11):

        @test("testValidateOffsetCommitWithEpochValidation", f"version {version}, {where}")
        def _(version=version, fields=fields):
            c = committing(**fields)
            expected = ["STALE_MEMBER_EPOCH", "NONE", "NONE", "STALE_MEMBER_EPOCH"]
            same(
                [
                    c.commit(member="m", epoch=e, offsets={"foo-0": 1}, version=version)
                    for e in (11, 10, 7, 6)
                ],
                expected if version >= 9 else ["UNSUPPORTED_VERSION"] * 4,
            )


for version in range(2, 11):

    @test("testValidateOffsetCommitWithClassicProtocolMember", f"version {version}")
    def _(version=version):
        c = committing(assigned="foo:0", classic=classic("foo"))
        same(
            [
                c.commit(member="m", epoch=e, offsets={"foo-0": 1}, version=version)
                for e in (11, 10, 7, 6)
            ],
            ["ILLEGAL_GENERATION", "NONE", "NONE", "ILLEGAL_GENERATION"],
        )

    @test("testValidateOffsetCommitWithUnassignedTopicOrPartition", f"version {version}")
    def _(version=version):
        c = committing(assigned="foo:0", pending="foo:1", state="UV")
        same(
            [
                c.commit(member="m", epoch=7, offsets={p: 1}, version=version)
                for p in ("bar-0", "foo-2")
            ],
            ["STALE_MEMBER_EPOCH" if version >= 9 else "UNSUPPORTED_VERSION"] * 2,
        )


# -- targets ----------------------------------------------------------------------------------------


@test("testRegularExpressions", cls="TargetAssignmentBuilderTest")
def _():
    c = Context(V, "foo:6 bar:6")
    c.seed(
        20,
        {
            "m1": dict(names="bar zar", regex="foo*"),
            "m2": dict(names="foo bar zar"),
            "m3": dict(names="", regex="foo*"),
        },
        {},
        hash_of="foo bar",
        target_epoch=19,
    )
    c.regex("foo*", "foo", version=10, timestamp=12345)
    shares = {"m1": "bar:1,2,3 foo:1,2", "m2": "bar:4,5 foo:3,4", "m3": "foo:5"}
    c.mock.prepare(**shares)
    c.beat("m1", 10)
    subscribed = {m: s.subscribed_topic_ids for m, s in c.mock.specs[-1].members.items()}
    both = frozenset({"foo", "bar"})
    same(subscribed, {"m1": both, "m2": both, "m3": frozenset({"foo"})})
    same(sorted(c.records[:3]), [f"target {m} [{shares[m]}]" for m in ("m1", "m2", "m3")])
    same(c.records[3], "target epoch 20")


# -- the shard --------------------------------------------------------------------------------------

SHARD, SERVICE = "GroupCoordinatorShardTest", "GroupCoordinatorServiceTest"


@test("testCleanupGroupMetadataForConsumerGroup", cls=SHARD)
def _():
    c = Offsets(V, offsets_retention_minutes=1, offsets_retention_check_interval_ms=60_000)
    for name, at in ((F, 0), ("other", 60_001)):
        c.seed(10, {}, {}, group=name)
        c.store(name, "topic", 0, at=at)
    key = next(k for k in c.shard.timers if not k.group_id)
    c.sleep(60_001)
    same(c.records, ["offset x topic-0", "target epoch x", "partition metadata x", "epoch x"])
    same({r.group_id for r in c.raw}, {F})
    same(c.shard.timers[key].at_ms, 120_001)
    same(list(c.coordinator.groups_of(ConsumerGroup)), ["other"])


@test("testOnMetadataUpdate", cls=SHARD)
def _():
    c = Offsets(V)
    c.consumer({"m": dict(names="new")})
    g = c.coordinator.groups_of(ConsumerGroup)[F]
    g.metadata_refresh_deadline_ms = 10**12
    image = c.coordinator.image.with_topic(Topic(topic_id="new", name="new", partition_count=1))
    same(c.commit(member="m", epoch=10, offsets={"new-0": 1}), "UNKNOWN_TOPIC_OR_PARTITION")
    c.shard.update_image(image)
    same(c.commit(member="m", epoch=10, offsets={"new-0": 1}), "NONE")
    same(g.metadata_refresh_deadline_ms, 0)


@test("testOnTopicsDeleted", cls=SHARD)
def _():
    c = Offsets(V)
    c.store("group", "foo", 0)
    c.shard.update_image(c.coordinator.image.without_topic("foo"))
    same(c.sleep(0), ["offset x foo-0"])


@test("testOnMetadataUpdateDoesNotScheduleOperationsWhenNoTopicsDeleted", cls=SERVICE)
def _():
    c = Offsets(V)
    c.store("group", "foo", 0)
    armed = set(c.shard.timers)
    c.shard.update_image(
        c.coordinator.image.with_topic(Topic(topic_id="foo", name="foo", partition_count=9))
    )
    same((set(c.shard.timers), c.sleep(0)), (armed, []))


@test("testOnMetadataUpdateSchedulesOperationsWhenTopicsDeleted", cls=SERVICE)
def _():
    c = Offsets(V)
    c.store("group", "foo", 0)
    armed = set(c.shard.timers)
    c.shard.update_image(c.coordinator.image.without_topic("foo"))
    same([k.kind for k in set(c.shard.timers) - armed], [ShardTimer.TOPIC_DELETED])


cannot(SHARD, "testScheduleGroupSizeCounter", "a metric of the broker")
cannot(
    SERVICE,
    "testOnMetadataUpdateSwallowsErrorsWhenTopicsDeleted",
    "needs a host whose append fails",
)
cannot(
    SERVICE,
    "testOnMetadataUpdateWhenNotStarted",
    "a service that is not started; a shard that is not active takes the newest image when it is",
)
for method in (
    "testPersisterInitializeFailure",
    "testPersisterInitializeGroupInitializeFailure",
    "testPersisterInitializePartialFailure",
    "testPersisterInitializeSuccess",
):
    cannot(SERVICE, method, "share groups are no part of the model")
