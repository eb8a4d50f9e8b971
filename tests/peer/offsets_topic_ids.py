"""OffsetMetadataManagerTest: offsets and the ids of topics.

Facts from Kafka 4.3.1, group-coordinator test sources. A topic's id is its name here, but where a
row says another one.
"""

from __future__ import annotations

from offsets import F, Offsets, tp
from peer import add, cannot, same

from rebalance_sim.protocol.wire.offset_messages import OffsetFetchRequest
from rebalance_sim.protocol.wire.records import OffsetCommit, OffsetCommitValue

C, V = "OffsetMetadataManagerTest", "kafka-4.3"


def test(method, variant=""):
    def register(function):
        add(C, method, function, variant, V)
        return function

    return register


def stored(*rows):
    """``rows``: topic, partition, offset, the topic id that is stored (None: none)."""
    c = Offsets(V)
    c.consumer()
    for topic, partition, offset, topic_id in rows:
        value = OffsetCommitValue(offset, 0, topic_id=topic_id)
        c.replay(OffsetCommit(F, topic, partition, value))
    return c


def fetch_by_id(c, *partitions):
    r = c._send(
        OffsetFetchRequest(
            group_id=F, partitions=frozenset(tp(p) for p in partitions), api_version=10
        )
    )
    return {f"{t}-{p}": offset for (t, p), offset in sorted(r.offsets.items())}


@test("testConsumerGroupOffsetCommitResolvesTopicId")
def _():
    c = Offsets(V)
    c.consumer({"m": dict(epoch=10, previous=10, names="bar", assigned="bar:0", since=5)})
    answers = [c.commit(member="m", epoch=e, version=10) for e in (3, 5, 5)]
    same(answers, ["STALE_MEMBER_EPOCH", "NONE", "NONE"])


cannot(
    C,
    "testConsumerGroupOffsetCommitWithZeroTopicId",
    "a topic that the coordinator's metadata lack; a broker looks the topic up before, and answers "
    "UNKNOWN_TOPIC_OR_PARTITION, as the model does",
)


@test("testFetchOffsetsWithRecreatedTopic")
def _():
    c = stored(("foo", 0, 100, "foo"), ("foo", 1, 100, "foo"))
    same(fetch_by_id(c, "foo-0", "foo-1"), {"foo-0": 100, "foo-1": 100})
    c = stored(("foo", 0, 100, "foo-before"), ("foo", 1, 100, "foo-before"))
    same(fetch_by_id(c, "foo-0", "foo-1"), {"foo-0": -1, "foo-1": -1})


@test("testFetchOffsetsWithTopicIds")
def _():
    c = stored(("foo", 0, 100, None), ("bar", 0, 200, None))
    same(fetch_by_id(c, "foo-0", "bar-0"), {"bar-0": 200, "foo-0": 100})


def goes(c):
    """What is written when topic foo is deleted, and the partitions of it that keep offsets."""
    c.shard.update_image(c.coordinator.image.without_topic("foo"))
    records = sorted(c.sleep(0))
    return records, sorted(p for t, p in c.coordinator.offsets.of_group(F) if t == "foo")


@test("testOnTopicsDeletedWithMatchingTopicId")
def _():
    c = stored(("foo", 1, 100, "foo"), ("foo", 2, 200, "foo"))
    same(goes(c), (["offset x foo-1", "offset x foo-2"], []))


@test("testOnTopicsDeletedWithMismatchedTopicId")
def _():
    c = stored(("foo", 1, 100, "foo-new"), ("foo", 2, 200, "foo-new"))
    same(goes(c), ([], [1, 2]))


@test("testOnTopicsDeletedWithMixedTopicIds")
def _():
    c = stored(("foo", 1, 100, "foo"), ("foo", 2, 200, None))
    same(goes(c), (["offset x foo-1", "offset x foo-2"], []))


@test("testOnTopicsDeletedWithZeroTopicId")
def _():
    c = stored(*(("foo", p, 100, None) for p in (1, 2, 3)))
    for partition in (1, 2, 3):
        c.store("grp-1", "bar", partition)
    same(goes(c), ([f"offset x foo-{p}" for p in (1, 2, 3)], []))
    same(len(c.coordinator.offsets.of_group("grp-1")), 3)


cannot(
    C,
    "testOnTopicsDeletedWithZeroTopicId (pending transactional offsets)",
    "the model has no transactions",
)
