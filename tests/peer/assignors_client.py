"""Client-side assignors: RangeAssignorTest, RoundRobinAssignorTest, AbstractStickyAssignorTest (run
by StickyAssignorTest and CooperativeStickyAssignorTest), and what these two add.

Facts from apache/kafka 1eb7644349cb (2024-10-25), clients/src/test/.../clients/consumer. Racks are
in ``assignors_racks.py``.
"""

from __future__ import annotations

from peer import add, cannot, explain, same

from rebalance_sim.protocol.assignors.classic import CLASSIC_ASSIGNORS, ClaimingMember
from rebalance_sim.protocol.assignors.classic.sticky import (
    CooperativeStickyAssignor,
    StickyAssignor,
)
from rebalance_sim.protocol.wire.embedded import (
    CooperativeUserData,
    NamedPartitions,
    StickyUserData,
    Subscription,
)


def named(text):
    rows = []
    for word in text.split():
        t, _, ns = word.partition(":")
        rows.append(NamedPartitions(t, tuple(int(n) for n in ns.split(","))))
    return tuple(rows)


def flat(rows):
    return {(t, n) for t, ns in rows for n in ns}


def words(text):
    return flat(named(text))


def member(m, topics, owned="", generation=-1, *, instance=None, name="", version=3):
    """For sticky what is owned stands in the user data, for the others in the metadata."""
    data = None
    if name == "sticky" and owned is not None and generation >= 0:
        data = StickyUserData(named(owned), generation)
    return ClaimingMember(
        member_id=m,
        group_instance_id=instance,
        subscription=Subscription(
            topics=tuple(topics.split()),
            owned_partitions=named(owned or "") if version >= 1 else (),
            generation_id=generation if version >= 2 else -1,
            user_data=data,
            version=version,
        ),
    )


def assign(name, counts, members):
    result = CLASSIC_ASSIGNORS[name].assign(
        partition_counts={w.split(":")[0]: int(w.split(":")[1]) for w in counts.split()},
        members=tuple(members),
    )
    return {m: flat(rows) for m, rows in result.items()}


def row(cls, method, name, counts, members, expected, variant=""):
    """``members``: id -> topics, or (topics, instance)."""

    def check():
        given = [
            member(
                m,
                t if isinstance(t, str) else t[0],
                instance=None if isinstance(t, str) else t[1],
                name=name,
            )
            for m, t in members.items()
        ]
        same(assign(name, counts, given), {m: words(expected.get(m, "")) for m in members})

    add(cls, method, check, variant, "any")


for C, name in (("RangeAssignorTest (clients)", "range"), ("RoundRobinAssignorTest", "roundrobin")):
    two = {"c1": "t1 t2", "c2": "t1 t2"}
    row(C, "testOneConsumerNoTopic", name, "", {"c1": ""}, {})
    row(C, "testOneConsumerNonexistentTopic", name, "", {"c1": "t1"}, {})
    row(C, "testOneConsumerOneTopic", name, "t1:3", {"c1": "t1"}, {"c1": "t1:0,1,2"})
    row(
        C,
        "testOnlyAssignsPartitionsFromSubscribedTopics",
        name,
        "t1:3 other:3",
        {"c1": "t1"},
        {"c1": "t1:0,1,2"},
    )
    row(
        C,
        "testOneConsumerMultipleTopics",
        name,
        "t1:1 t2:2",
        {"c1": "t1 t2"},
        {"c1": "t1:0 t2:0,1"},
    )
    row(
        C,
        "testTwoConsumersOneTopicOnePartition",
        name,
        "t1:1",
        {"c1": "t1", "c2": "t1"},
        {"c1": "t1:0"},
    )
    row(
        C,
        "testTwoConsumersOneTopicTwoPartitions",
        name,
        "t1:2",
        {"c1": "t1", "c2": "t1"},
        {"c1": "t1:0", "c2": "t1:1"},
    )
    row(
        C,
        "testMultipleConsumersMixedTopics",
        name,
        "t1:3 t2:2",
        {"c1": "t1", "c2": "t1 t2", "c3": "t1"},
        {"c1": "t1:0", "c2": "t1:1 t2:0,1", "c3": "t1:2"},
    )
    six = ("t1:0,1 t2:0,1", "t1:2 t2:2") if name == "range" else ("t1:0,2 t2:1", "t1:1 t2:0,2")
    row(
        C,
        "testTwoConsumersTwoTopicsSixPartitions"
        if name == "range"
        else "testTwoDynamicConsumersTwoTopicsSixPartitions",
        name,
        "t1:3 t2:3",
        two,
        {"c1": six[0], "c2": six[1]},
    )
    row(
        C,
        "testTwoStaticConsumersTwoTopicsSixPartitions",
        name,
        "t1:3 t2:3",
        {"consumer-b": ("t1 t2", "instance1"), "consumer-a": ("t1 t2", "instance2")},
        {"consumer-b": six[0], "consumer-a": six[1]},
    )
    row(
        C,
        "testOneStaticConsumerAndOneDynamicConsumerTwoTopicsSixPartitions",
        name,
        "t1:3 t2:3",
        {"consumer-b": ("t1 t2", "instance1"), "consumer-a": "t1 t2"},
        {"consumer-b": six[0], "consumer-a": six[1]},
    )
    persistent = (
        ({"c1": "t1:0,1 t2:0", "c2": "t1:2 t2:1", "c3": "t1:3 t2:2"}, "t1:4 t2:3", "t1:5 t2:4")
        if name == "range"
        else ({"c1": "t1:0 t2:1", "c2": "t1:1 t2:2", "c3": "t1:2"}, "t2:0", "t1:3 t2:3")
    )
    for last in ("c4", "c5"):
        row(
            C,
            "testStaticMemberRangeAssignmentPersistent"
            if name == "range"
            else "testStaticMemberRoundRobinAssignmentPersistent",
            name,
            persistent[2],
            {**{f"c{i}": ("t1 t2", f"instance{i}") for i in (1, 2, 3)}, last: "t1 t2"},
            {**persistent[0], last: persistent[1]},
            last,
        )
    after = (
        {"instance1": "t1:0,1 t2:0,1", "instance2": "t1:2,3 t2:2,3", "instance3": "t1:4 t2:4"}
        if name == "range"
        else {"instance1": "t1:0,3 t2:1,4", "instance2": "t1:1,4 t2:2", "instance3": "t1:2 t2:0,3"}
    )
    for variant, ids in (("before", ("c1", "c2", "c3")), ("after", ("c1", "c5", "c4"))):
        row(
            C,
            "testStaticMember"
            + ("Range" if name == "range" else "RoundRobin")
            + "AssignmentPersistentAfterMemberIdChanges",
            name,
            "t1:5 t2:5",
            {m: ("t1 t2", f"instance{i}") for i, m in enumerate(ids, 1)},
            {m: after[f"instance{i}"] for i, m in enumerate(ids, 1)},
            variant,
        )

# -- sticky -------------------------------------------------------------------------------------

G = 1  # AbstractStickyAssignorTest.generationId


class Round:
    """A group over several assignments, each member claiming what it got last."""

    def __init__(self, name, counts, **topics):
        self.name, self.counts, self.topics = name, counts, topics
        self.owned = {}
        self.generation = {}

    def own(self, generation=G, **owned):
        for m, text in owned.items():
            self.owned[m], self.generation[m] = words(text), generation
        return self

    def take(self, result, *members):
        for m in members or result:
            self.owned[m], self.generation[m] = result[m], G

    def once(self):
        def spell(parts):
            grouped = {}
            for t, n in sorted(parts):
                grouped.setdefault(t, []).append(str(n))
            return " ".join(f"{t}:{','.join(ns)}" for t, ns in grouped.items())

        return assign(
            self.name,
            self.counts,
            [
                member(
                    m, t, spell(self.owned.get(m, ())), self.generation.get(m, -1), name=self.name
                )
                for m, t in self.topics.items()
            ],
        )

    def settled(self):
        """The result; for cooperative-sticky after the follow-up rounds that revocations cause."""
        result = self.once()
        rounds = 0
        while self.name == "cooperative-sticky" and any(
            self.owned.get(m, set()) - s for m, s in result.items()
        ):
            added = {p for m, s in result.items() for p in s - self.owned.get(m, set())}
            revoked = {p for m, s in result.items() for p in self.owned.get(m, set()) - s}
            same(added & revoked, set(), "changes hands in one round")
            self.take(result)
            result = self.once()
            rounds += 1
            assert rounds <= 4
        return result


def balanced(result):
    sizes = [len(s) for s in result.values()]
    same(max(sizes) - min(sizes) <= 1, True, f"balance {sorted(sizes)}")


def both(method):
    def register(function):
        for cls, name in (
            ("StickyAssignorTest", "sticky"),
            ("CooperativeStickyAssignorTest", "cooperative-sticky"),
        ):
            add(cls, method, lambda name=name: function(name), version="any")
        return function

    return register


def expect(result, **shares):
    same(result, {m: words(s) for m, s in shares.items()})


@both("testOneConsumerOneTopic")
def _(n):
    expect(Round(n, "t:3", c1="t").once(), c1="t:0,1,2")


@both("testOneConsumerNonexistentTopic")
def _(n):
    expect(Round(n, "t:0", c1="t").once(), c1="")


@both("testOnlyAssignsPartitionsFromSubscribedTopics")
def _(n):
    expect(Round(n, "t:2", c1="t").own(c1="t:0,1 other:0,1").once(), c1="t:0,1")


@both("testOneConsumerMultipleTopics")
def _(n):
    expect(Round(n, "t1:1 t2:2", c1="t1 t2").once(), c1="t1:0 t2:0,1")


@both("testTwoConsumersOneTopicTwoPartitions")
def _(n):
    expect(Round(n, "t:2", c1="t", c2="t").once(), c1="t:0", c2="t:1")


@both("testMultipleConsumersMixedTopicSubscriptions")
def _(n):
    expect(
        Round(n, "t1:3 t2:2", c1="t1", c2="t1 t2", c3="t1").once(),
        c1="t1:0,2",
        c2="t2:0,1",
        c3="t1:1",
    )


@both("testTwoConsumersTwoTopicsSixPartitions")
def _(n):
    expect(Round(n, "t1:3 t2:3", c1="t1 t2", c2="t1 t2").once(), c1="t1:0,2 t2:1", c2="t1:1 t2:0,2")


@both("testConsumerOwningMinQuotaExpectedMaxQuota")
def _(n):
    r = Round(n, "t1:2 t2:3", c1="t1 t2", c2="t1 t2").own(c1="t1:0 t2:1", c2="t1:1 t2:2")
    expect(r.once(), c1="t1:0 t2:0,1", c2="t1:1 t2:2")


@both("testMaxQuotaConsumerMoreThanNumExpectedMaxCapacityMembers")
def _(n):
    r = Round(n, "t1:2 t2:2", c1="t1 t2", c2="t1 t2", c3="t1 t2").own(
        c1="t1:0 t2:0", c2="t1:1 t2:1", c3=""
    )
    expect(r.settled(), c1="t1:0", c2="t1:1 t2:1", c3="t2:0")


@both("testAllConsumersAreUnderMinQuota")
def _(n):
    r = Round(n, "t1:2 t2:3", c1="t1 t2", c2="t1 t2", c3="t1 t2").own(c1="t1:0", c2="t1:1", c3="")
    expect(r.once(), c1="t1:0 t2:1", c2="t1:1 t2:2", c3="t2:0")


@both("testAddRemoveConsumerOneTopic")
def _(n):
    r = Round(n, "t:3", c1="t")
    first = r.once()
    expect(first, c1="t:0,1,2")
    r.take(first)
    r.topics["c2"] = "t"
    r.own(c2="")
    second = r.settled()
    expect(second, c1="t:0,1", c2="t:2")
    r.take(second)
    del r.topics["c1"]
    expect(r.settled(), c2="t:0,1,2")


@both("testAddRemoveTwoConsumersTwoTopics")
def _(n):
    r = Round(n, "t1:3 t2:4", c1="t1 t2", c2="t1 t2")
    first = r.once()
    expect(first, c1="t1:0,2 t2:1,3", c2="t1:1 t2:0,2")
    r.take(first)
    r.topics.update(c3="t1 t2", c4="t1 t2")
    r.own(c3="", c4="")
    second = r.settled()
    expect(second, c1="t1:0 t2:1", c2="t1:1 t2:0", c3="t1:2 t2:3", c4="t2:2")
    r.take(second)
    del r.topics["c1"], r.topics["c2"]
    expect(r.settled(), c3="t1:0,2 t2:1,3", c4="t1:1 t2:0,2")


@both("testTopicBalanceAfterReassignment")
def _(n):
    r = Round(n, "t1:12 t2:12", c1="t1 t2")

    def each(result, number):
        for s in result.values():
            same([sum(1 for t, _ in s if t == topic) for topic in ("t1", "t2")], [number] * 2)

    result = r.settled()
    each(result, 12)
    r.take(result)
    r.topics["c2"] = "t1 t2"
    r.own(c2="")
    result = r.settled()
    each(result, 6)
    r.take(result)
    r.topics.update(c3="t1 t2", c4="t1 t2")
    r.own(c3="", c4="")
    result = r.settled()
    each(result, 3)
    r.take(result)
    del r.topics["c1"], r.topics["c2"]
    each(r.settled(), 6)


@both("testPoorRoundRobinAssignmentScenario")
def _(n):
    counts = "topic1:2 topic2:1 topic3:2 topic4:1 topic5:2"
    every, odd = "topic1 topic2 topic3 topic4 topic5", "topic1 topic3 topic5"
    result = Round(
        n, counts, consumer1=every, consumer2=odd, consumer3=odd, consumer4=every
    ).settled()
    balanced(result)
    same(set(map(len, result.values())), {2})


@both("testAddRemoveTopicTwoConsumers")
def _(n):
    r = Round(n, "t:3", c1="t", c2="t")
    first = r.settled()
    balanced(first)
    r.take(first)
    r.counts = "t:3 t2:3"
    r.topics.update(c1="t t2", c2="t t2")
    second = r.settled()
    same(
        ({m: len(s) for m, s in second.items()}, all(first[m] <= second[m] for m in first)),
        ({"c1": 3, "c2": 3}, True),
    )
    r.take(second)
    r.counts = "t2:3"
    r.topics.update(c1="t2", c2="t2")
    third = r.settled()
    balanced(third)
    same(all(third[m] <= second[m] for m in third), True)


def claimed(name, count, expected):
    def check():
        r = Round(name, f"t:{count}", c1="t", c2="t", c3="t").own(c1="t:0,1", c2="t:0,2", c3="")
        expect(r.once(), **expected)

    return check


for cls, name, third in (
    ("StickyAssignorTest", "sticky", "t:0"),
    ("CooperativeStickyAssignorTest", "cooperative-sticky", ""),
):
    base = "testAllConsumersHaveOwnedPartitionInvalidatedWhenClaimedByMultipleConsumersInSameGenerationWith"
    add(
        cls,
        base + "EqualPartitionsPerConsumer",
        claimed(name, 3, dict(c1="t:1", c2="t:2", c3=third)),
        version="any",
    )
    add(
        cls,
        base + "UnequalPartitionsPerConsumer",
        claimed(name, 4, dict(c1="t:1,3", c2="t:2", c3=third)),
        version="any",
    )


@both("testSubscriptionNotEqualAndAssignSamePartitionWith3Generation")
def _(n):
    # Only that the result is valid and balanced is asked, whichever of the three generations is the newest.
    for a, b, c in ((1, 2, 3), (1, 3, 2), (2, 1, 3), (2, 3, 1), (3, 1, 2), (3, 2, 1)):
        r = Round(n, "t:6 t1:1", c1="t", c2="t", c3="t", c4="t1")
        r.own(a, c1="t:0,2").own(b, c2="t:1,2,3").own(c, c3="t:2,4,5").own(2, c4="t1:0")
        result = r.settled()
        same(
            {m: len(s) for m, s in result.items()},
            {"c1": 2, "c2": 2, "c3": 2, "c4": 1},
            f"{a, b, c}",
        )


def sticky_generations(equal):
    everything = "t t2 t3"
    r = Round(
        "sticky",
        "t:4 t2:4 t3:4",
        c1=everything if equal else "t",
        c2=everything if equal else "t t2",
        c3=everything,
    )
    r.own(1, c1="t:0,1,2 t2:2,3 t3:0" if equal else "t:0,1,2,3")
    r.own(2, c2="t:0,1 t2:0,1,2,3", c3="t:2,3 t3:0,1,2,3")
    before = {m: set(r.owned[m]) for m in ("c2", "c3")}
    result = r.once()
    same({m: len(s) for m, s in result.items()}, {"c1": 4, "c2": 4, "c3": 4})
    same([result[m] <= before[m] for m in ("c2", "c3")], [True, True])


for equal in (True, False):
    add(
        "StickyAssignorTest",
        "testAssignmentWithConflictingPreviousGenerations",
        lambda e=equal: sticky_generations(e),
        f"isAllSubscriptionsEqual={equal}",
        "any",
    )


def generations1(equal):
    r = Round("sticky", "t:6 t2:6", c1="t t2", c2="t t2" if equal else "t", c3="t t2")
    one = r.once()
    same({m: len(s) for m, s in one.items()}, {"c1": 4, "c2": 4, "c3": 4})
    r.take(one, "c1", "c2")
    del r.topics["c3"]
    two = r.once()
    same({m: len(s) for m, s in two.items()}, {"c1": 6, "c2": 6})
    if equal:
        same([one[m] <= two[m] for m in ("c1", "c2")], [True, True])
    same(bool(two["c2"] & one["c3"]), True)
    r.topics = {"c2": r.topics["c2"], "c3": "t t2"}
    r.owned, r.generation = {"c2": two["c2"], "c3": one["c3"]}, {"c2": 2, "c3": 1}
    three = r.once()
    same(
        ({m: len(s) for m, s in three.items()}, three["c2"] & three["c3"]),
        ({"c2": 6, "c3": 6}, set()),
    )


for equal in (True, False):
    add(
        "StickyAssignorTest",
        "testAssignmentWithMultipleGenerations1",
        lambda e=equal: generations1(e),
        f"isAllSubscriptionsEqual={equal}",
        "any",
    )


def generations2(equal):
    every = "t t2 t3"
    r = Round(
        "sticky",
        "t:4 t2:4 t3:4",
        c1=every if equal else "t",
        c2=every,
        c3=every if equal else "t t2",
    )
    topics = dict(r.topics)
    one = r.once()
    same({m: len(s) for m, s in one.items()}, {"c1": 4, "c2": 4, "c3": 4})
    r.topics = {"c2": every}
    r.take(one, "c2")
    two = r.once()
    same((len(two["c2"]), one["c2"] <= two["c2"]), (12, True))
    r.topics = topics
    r.owned = {"c1": one["c1"], "c2": two["c2"], "c3": one["c3"]}
    r.generation = {"c1": 1, "c2": 2, "c3": 1}
    same({m: len(s) for m, s in r.once().items()}, {"c1": 4, "c2": 4, "c3": 4})


for equal in (True, False):
    add(
        "StickyAssignorTest",
        "testAssignmentWithMultipleGenerations2",
        lambda e=equal: generations2(e),
        f"isAllSubscriptionsEqual={equal}",
        "any",
    )


def coop_old_versions():
    members = [
        member("c1", "t1", "t1:0", version=1),
        member("c2", "t1", "t1:1", version=1),
        member("c3", "t1", "", G),
    ]
    members = [
        ClaimingMember(
            member_id=m.member_id,
            subscription=Subscription(
                topics=m.subscription.topics,
                owned_partitions=m.subscription.owned_partitions,
                version=m.subscription.version,
                generation_id=m.subscription.generation_id,
                user_data=CooperativeUserData(G),
            ),
        )
        for m in members
    ]
    expect(assign("cooperative-sticky", "t1:3", members), c1="t1:0", c2="t1:1", c3="t1:2")


add(
    "CooperativeStickyAssignorTest",
    "testAssignorWithOldVersionSubscriptions",
    coop_old_versions,
    version="any",
)


def coop_member_data(said, stated, expected):
    claim = CooperativeStickyAssignor().claim_of(
        Subscription(
            topics=("t",),
            owned_partitions=named("t:0"),
            generation_id=stated,
            user_data=CooperativeUserData(said),
        )
    )
    same((set(claim.partitions), claim.generation_id), (words("t:0"), expected))


add(
    "CooperativeStickyAssignorTest",
    "testMemberDataWithInconsistentData",
    lambda: coop_member_data(G, -1, G),
    version="any",
)
add(
    "CooperativeStickyAssignorTest",
    "testMemberDataWithEmptyPartitionsAndHigherGeneration",
    lambda: coop_member_data(G - 1, G, G),
    version="any",
)


def sticky_member_data():
    claim = StickyAssignor().claim_of(
        Subscription(
            topics=("t",),
            owned_partitions=named("t:0"),
            generation_id=G,
            user_data=StickyUserData(named("t1:0 t2:1"), G - 1),
        )
    )
    same((set(claim.partitions), claim.generation_id), (words("t1:0 t2:1"), G - 1))


add("StickyAssignorTest", "testMemberDataWillHonorUserData", sticky_member_data, version="any")


def coop_user_data():
    a = CooperativeStickyAssignor()
    same(
        [
            a.user_data(last_assigned=None, last_generation_id=-1).generation_id,
            a.user_data(last_assigned=(), last_generation_id=10).generation_id,
        ],
        [-1, 10],
    )


add("CooperativeStickyAssignorTest", "testEncodeAndDecodeGeneration", coop_user_data, version="any")

cannot(
    "StickyAssignorTest",
    "testSchemaBackwardCompatibility",
    "user data of version 0 (no generation) has no value of its own",
)

for cls in ("StickyAssignorTest", "CooperativeStickyAssignorTest"):
    explain(
        f"{cls}.testMaxQuotaConsumerMoreThanNumExpectedMaxCapacityMembers@any",
        "order of members only: a HashMap<String, ..> with consumer3, consumer2, consumer1, where the model sorts the ids; "
        "the row with the ids renamed to that order passes",
    )


@both("testMaxQuotaConsumerMoreThanNumExpectedMaxCapacityMembers [consumer3 first]")
def _(n):
    r = Round(n, "t1:2 t2:2", c="t1 t2", b="t1 t2", a="t1 t2").own(
        c="t1:0 t2:0", b="t1:1 t2:1", a=""
    )
    expect(r.settled(), c="t1:0", b="t1:1 t2:1", a="t2:0")
