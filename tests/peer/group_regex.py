"""GroupMetadataManagerConsumerGroupTest, subscriptions by pattern.

Facts from apache/kafka 4c51ea9b28ab. A resolution is a task there; here it is the timer "regex",
which is due at once and runs when ``sleep`` looks at the clock.
"""

from __future__ import annotations

from _kafka import Context
from peer import add, same

from rebalance_sim.protocol.wire.topics import Topic

C = "GroupMetadataManagerConsumerGroupTest"
BOTH = ("kafka-4.1", "kafka-4.3")
NEW = ("kafka-4.3",)
"""A member gives up at once what its new pattern does not cover, and 1 is a group's first epoch."""


def test(method, versions=BOTH):
    def register(function):
        for version in versions:
            add(C, method, lambda version=version: function(version), "", version)
        return function

    return register


def subscribed(regex, assigned, **fields):
    return dict(names="", regex=regex, assigned=assigned, previous=10, **fields)


def is_scheduled(c):
    return c.timer("regex") is not None


def resolution(c):
    """What the task writes that is scheduled, which must be one."""
    same(is_scheduled(c), True, "scheduled")
    return c.sleep(0)


@test("testConsumerGroupMemberPicksUpExistingResolvedRegularExpression")
def _(v):
    c = Context(v, "foo:2")
    c.seed(10, {"m1": subscribed("foo*", "foo:0,1")}, {"m1": "foo:0,1"}, hash_value=0)
    c.regex("foo*", "foo", version=100, timestamp=12345)
    c.mock.prepare(m1="foo:0", m2="foo:1")
    same(c.beat("m2", 0, owned="", timeout=10_000, subscribed_topic_regex="foo*"), "m2@11 []")
    spec = c.mock.specs[-1]
    for member in ("m1", "m2"):
        same(spec.members[member].subscribed_topic_ids, frozenset({"foo"}), member)


@test("testConsumerGroupMemberJoinsWithNewRegex")
def _(v):
    c = Context(v, "foo:6")
    c.seed(
        10,
        {"m1": dict(names="foo", assigned="foo:0-5", previous=10)},
        {"m1": "foo:0-5"},
        hash_of="foo",
    )
    same(c.join("m2", names=None, subscribed_topic_regex="foo*"), "m2@10 []")
    same(c.records, ["member m2 [] /foo*/ range 5000", "current m2 S 10/0 []"])
    same(resolution(c), ["regex foo* [foo]", "epoch 11 hash foo"])
    value = c.raw[0].value
    same((value.version, value.timestamp), (c.coordinator.image.version, 0))


@test("testConsumerGroupMemberJoinsWithUpdatedRegex", NEW)
def _(v):
    c = Context(v, "foo:6 bar:3")
    c.seed(10, {"m1": subscribed("foo*", "foo:0-5")}, {"m1": "foo:0-5"}, hash_value=0)

    def beat():
        return c.beat(
            "m1",
            10,
            owned="",
            timeout=5000,
            subscribed_topic_regex="foo*|bar*",
            server_assignor="range",
        )

    same(beat(), "m1@10 []")
    same(
        c.records,
        ["member m1 [] /foo*|bar*/ range 5000", "regex x foo*", "current m1 S 10/10 []"],
    )
    same(resolution(c), ["regex foo*|bar* [bar foo]", "epoch 11 hash bar+foo"])
    c.mock.prepare(m1="foo:0-5 bar:0-2")
    same(beat(), "m1@11 [bar:0,1,2 foo:0,1,2,3,4,5]")
    same(
        c.records,
        [
            "target m1 [bar:0,1,2 foo:0,1,2,3,4,5]",
            "target epoch 11",
            "current m1 S 11/10 [bar:0,1,2 foo:0,1,2,3,4,5]",
        ],
    )


@test("testConsumerGroupMemberJoinsWithRegexAndUpdatesItBeforeResolutionCompleted", NEW)
def _(v):
    c = Context(v, "foo:6 bar:3")
    same(c.join("m1", names=None, subscribed_topic_regex="foo*"), "m1@1 []")
    same(c.records, ["member m1 [] /foo*/ range 5000", "current m1 S 1/0 []"])
    same(is_scheduled(c), True)
    same(c.beat("m1", 1, subscribed_topic_regex="foo*|bar*"), "m1@1 -")
    same(
        c.records,
        ["member m1 [] /foo*|bar*/ range 5000", "regex x foo*", "current m1 S 1/1 []"],
    )
    same(resolution(c), [], "the task that was scheduled first")
    same(c.beat("m1", 1, subscribed_topic_regex="foo*|bar*"), "m1@1 -")
    same(resolution(c), ["regex foo*|bar* [bar foo]", "epoch 2 hash bar+foo"])


@test("testConsumerGroupMemberJoinRefreshesExpiredRegexes")
def _(v):
    c = Context(v, "foo:6 bar:3")
    c.seed(
        10,
        {"m1": subscribed("foo*", "foo:0-5"), "m2": subscribed("bar*", "bar:0-2")},
        {"m1": "foo:0-5", "m2": "bar:0-2"},
        hash_of="foo bar",
    )
    c.regex("foo*", "foo")
    c.regex("bar*", "bar")
    image = c.coordinator.image
    c.shard.update_image(image.with_topic(Topic(topic_id="fooo", name="fooo", partition_count=1)))
    c.beat("m1", 10)
    same(is_scheduled(c), False)
    c.sleep(11_000)
    c.beat("m1", 10)
    same(resolution(c), ["regex bar* [bar]", "regex foo* [foo fooo]", "epoch 11 hash bar+foo+fooo"])
    same([r.value.version for r in c.raw[:2]], [image.version + 1] * 2)


@test("testConsumerGroupMemberClearsRegex", NEW)
def _(v):
    c = Context(v, "foo:6")
    c.seed(10, {"m1": subscribed("foo*", "foo:0-5")}, {"m1": "foo:0-5"}, hash_value=0)
    c.mock.prepare()
    same(
        c.beat(
            "m1", 10, owned="", timeout=5000, subscribed_topic_regex="", server_assignor="range"
        ),
        "m1@11 []",
    )
    same(
        c.records,
        [
            "member m1 [] range 5000",
            "regex x foo*",
            "epoch 11 hash 0",
            "target m1 []",
            "target epoch 11",
            "current m1 S 11/10 []",
        ],
    )
