"""Client-side assignors with racks (KIP-881): the rack tests of RangeAssignorTest,
AbstractStickyAssignorTest (run by StickyAssignorTest and CooperativeStickyAssignorTest),
CooperativeStickyAssignorTest and AbstractPartitionAssignorTest.

Facts from kafka-clients 4.3.1. ``preferRackAwareLogic`` is a switch for tests alone: rows that need
it to use the rack logic where all partitions are in all racks are left out.
"""

from __future__ import annotations

from assignors_client import flat, member, words
from peer import add, same

from rebalance_sim.protocol.assignors.classic import CLASSIC_ASSIGNORS, ClaimingMember
from rebalance_sim.protocol.assignors.classic.racks import racks_matter
from rebalance_sim.protocol.wire.embedded import Subscription

ALL = "abcdef"
NONE = (None,) * 3
RANGE, STICKY, COOPERATIVE = (
    "RangeAssignorTest (clients)",
    "StickyAssignorTest",
    "CooperativeStickyAssignorTest",
)


def placed(counts, replicas, brokers):
    """Replicas of successive partitions begin on successive brokers; topics in order of names."""
    found, first = {}, 0
    for topic, count in counts.items():
        racks = (
            {brokers[(first + p + r) % len(brokers)] for r in range(replicas)} - {None}
            for p in range(count)
        )
        found[topic] = tuple(tuple(sorted(rack)) for rack in racks)
        first += count
    return found


def with_rack(m, rack):
    said = m.subscription
    return ClaimingMember(
        member_id=m.member_id,
        group_instance_id=m.group_instance_id,
        subscription=Subscription(
            topics=said.topics,
            owned_partitions=said.owned_partitions,
            generation_id=said.generation_id,
            user_data=said.user_data,
            version=said.version,
            rack_id=rack,
        ),
    )


def counts_of(text):
    return {t: int(n) for t, n in (word.split(":") for word in text.split())}


def assign(name, counts, replica_racks, members):
    result = CLASSIC_ASSIGNORS[name].assign_by_racks(
        partition_counts=counts, members=tuple(members), replica_racks=replica_racks
    )
    return {m: flat(rows) for m, rows in result.items()}


def row(
    cls, method, name, counts, replicas, brokers, racks, topics, expected, astray, owned=(), tail=""
):
    """``racks``: of the consumers; ``astray``: partitions whose owner has a rack without them."""

    def check():
        sizes = counts_of(counts)
        where = placed(sizes, replicas, brokers)
        given = [
            with_rack(member(f"consumer{i}", t, owned[i] if owned else "", name=name), racks[i])
            for i, t in enumerate(topics)
        ]
        found = assign(name, sizes, where, given)
        same(found, {f"consumer{i}": words(share) for i, share in enumerate(expected)})
        if astray is not None:
            count = sum(
                racks[i] is not None and racks[i] not in where[t][p]
                for i in range(len(racks))
                for t, p in found[f"consumer{i}"]
            )
            same(count, astray)

    spell = lambda names: "".join(rack or "-" for rack in names)  # noqa: E731
    add(
        cls,
        method,
        check,
        f"{replicas} in {spell(brokers)}, {spell(racks)}{tail}",
        "any",
    )


SIX = "t1:6 t2:7 t3:2"
FIVE = "t1:5 t2:5 t3:5"
EQUAL = ("t1 t2 t3",) * 3
UNEQUAL = ("t1 t2 t3", "t1 t2 t3", "t1 t3")
IRRELEVANT = (
    (3, NONE, "abc", None),
    (3, "abc", NONE, None),
    (3, "abc", "abc", 0),
    (3, "abc", "def", None),
    (3, "abc", (None, "e", "f"), None),
)

# -- range ---------------------------------------------------------------------------------------

for method, counts, topics, plain, by_racks in (
    (
        "testRackAwareAssignmentWithUniformSubscription",
        SIX,
        EQUAL,
        ("t1:0,1 t2:0,1,2 t3:0", "t1:2,3 t2:3,4 t3:1", "t1:4,5 t2:5,6"),
        (
            (1, "abc", ("t1:0,3 t2:0,3,6", "t1:1,4 t2:1,4 t3:0", "t1:2,5 t2:2,5 t3:1"), 0),
            (2, "abc", ("t1:0,2 t2:0,2,3 t3:1", "t1:1,3 t2:1,4 t3:0", "t1:4,5 t2:5,6"), 1),
            (3, "ab", None, 4),
        ),
    ),
    (
        "testRackAwareAssignmentWithNonEqualSubscription",
        SIX,
        UNEQUAL,
        ("t1:0,1 t2:0,1,2,3 t3:0", "t1:2,3 t2:4,5,6 t3:1", "t1:4,5"),
        (
            (1, "abc", ("t1:0,3 t2:0,2,3,6", "t1:1,4 t2:1,4,5 t3:0", "t1:2,5 t3:1"), 2),
            (2, "abc", ("t1:0,2 t2:0,2,3,5 t3:1", "t1:1,3 t2:1,4,6 t3:0", "t1:4,5"), 0),
            (3, "ab", None, 2),
        ),
    ),
    (
        "testRackAwareAssignmentWithUniformPartitions",
        FIVE,
        EQUAL,
        ("t1:0,1 t2:0,1 t3:0,1", "t1:2,3 t2:2,3 t3:2,3", "t1:4 t2:4 t3:4"),
        ((1, "abc", None, 10), (2, "abc", None, 5), (3, "ab", None, 3)),
    ),
    (
        "testRackAwareAssignmentWithUniformPartitionsNonEqualSubscription",
        FIVE,
        UNEQUAL,
        ("t1:0,1 t2:0,1,2 t3:0,1", "t1:2,3 t2:3,4 t3:2,3", "t1:4 t3:4"),
        (
            (1, "abc", ("t1:0,1 t2:0,1,4 t3:0,1", "t1:2,3 t2:2,3 t3:2,3", "t1:4 t3:4"), 9),
            (2, "abc", ("t1:2 t2:0,1,3 t3:2", "t1:0,3 t2:2,4 t3:0,3", "t1:1,4 t3:1,4"), 0),
            (3, "ab", None, 2),
        ),
    ),
):
    for replicas, brokers, racks, astray in IRRELEVANT:
        row(RANGE, method, "range", counts, replicas, brokers, racks, topics, plain, astray)
    row(RANGE, method, "range", counts, 4, "abcd", "abc", topics, plain, 0)
    for replicas, brokers, expected, astray in by_racks:
        row(
            RANGE,
            method,
            "range",
            counts,
            replicas,
            brokers,
            "abc",
            topics,
            expected or plain,
            astray,
        )

COUNTS = "t1:6 t2:6 t3:2 t4:2"
for tail, topics, plain, by_racks in (
    (
        " apart",
        ("t1 t2", "t1 t2", "t3 t4", "t3 t4"),
        ("t1:0,1,2 t2:0,1,2", "t1:3,4,5 t2:3,4,5", "t3:0 t4:0", "t3:1 t4:1"),
        (("ab", ("t1:0,2,4 t2:0,2,4", "t1:1,3,5 t2:1,3,5", "t3:1 t4:1", "t3:0 t4:0"), 0),),
    ),
    (
        " together",
        ("t1 t2 t3 t4",) * 4,
        ("t1:0,1 t2:0,1 t3:0 t4:0", "t1:2,3 t2:2,3 t3:1 t4:1", "t1:4 t2:4", "t1:5 t2:5"),
        (
            (
                "ab",
                ("t1:0,2 t2:0,2 t3:0 t4:0", "t1:1,3 t2:1,3 t3:1 t4:1", "t1:5 t2:5", "t1:4 t2:4"),
                0,
            ),
            (
                "abc",
                ("t1:0,3 t2:0,3 t3:0 t4:0", "t1:1,4 t2:1,4 t3:1 t4:1", "t1:2 t2:2", "t1:5 t2:5"),
                6,
            ),
        ),
    ),
):
    method = "testRackAwareAssignmentWithCoPartitioning"
    row(RANGE, method, "range", COUNTS, 3, "ab", "abba", topics, plain, None, tail=tail)
    row(RANGE, method, "range", COUNTS, 2, "ab", "abba", topics, plain, 0, tail=tail)
    for brokers, expected, astray in by_racks:
        row(
            RANGE,
            method,
            "range",
            COUNTS,
            1,
            brokers,
            "abba",
            topics,
            expected,
            astray,
            tail=tail,
        )

row(
    RANGE,
    "testCoPartitionedAssignmentWithSameSubscription",
    "range",
    "t1:6 t2:6 t3:2 t4:2 t5:4 t6:4",
    2,
    "abc",
    "abc",
    ("t1 t2 t3 t4 t5 t6 t7 t8 t9",) * 3,
    (
        "t1:0,2 t2:0,2 t3:0 t4:0 t5:1 t6:1",
        "t1:1,3 t2:1,3 t3:1 t4:1 t5:2 t6:2",
        "t1:4,5 t2:4,5 t5:0,3 t6:0,3",
    ),
    0,
)

for ids in (("consumer1", "consumer2", "consumer3"), ("consumer1", "consumer5", "consumer4")):

    def static_members(ids=ids):
        where = {t: placed({t: 5}, 2, "abcabc")[t] for t in ("t1", "t2")}
        given = [
            with_rack(member(m, "t1 t2", instance=f"instance{i + 1}", name="range"), ALL[i])
            for i, m in enumerate(ids)
        ]
        shares = ("t1:0,2 t2:0,2", "t1:1,3 t2:1,3", "t1:4 t2:4")
        same(
            assign("range", {"t1": 5, "t2": 5}, where, given),
            {m: words(share) for m, share in zip(ids, shares, strict=True)},
        )

    add(
        RANGE,
        "testRackAwareStaticMemberRangeAssignmentPersistentAfterMemberIdChanges",
        static_members,
        ids[1],
        "any",
    )

# -- sticky --------------------------------------------------------------------------------------

ASTRAY = ("t1:0,1,2,3,4", "t1:5 t2:0,1,2,3", "t2:4,5,6 t3:0,1")
ROUND = ("t1:0,3 t2:0,3,6", "t1:1,4 t2:1,4 t3:0", "t1:2,5 t2:2,5 t3:1")
PLAIN = ("t1:5 t2:0,2,4,6", "t1:3 t2:1,3,5 t3:0", "t1:0,1,2,4 t3:1")
BY_ONE = ("t1:3 t2:0,2,3,6", "t1:4 t2:1,4,5 t3:0", "t1:0,1,2,5 t3:1")
BY_TWO = ("t1:3 t2:0,2,5,6", "t1:0 t2:1,3,4 t3:0", "t1:1,2,4,5 t3:1")

for cls, name in ((STICKY, "sticky"), (COOPERATIVE, "cooperative-sticky")):
    for method, topics, plain, by_racks in (
        (
            "testRackAwareAssignmentWithUniformSubscription",
            EQUAL,
            ROUND,
            ((1, "abc", ROUND, 0), (2, "abc", ROUND, 0), (3, "ab", ROUND, 5)),
        ),
        (
            "testRackAwareAssignmentWithNonEqualSubscription",
            UNEQUAL,
            PLAIN,
            ((1, "abc", BY_ONE, 4), (2, "abc", BY_TWO, 0), (3, "ab", PLAIN, 5)),
        ),
    ):
        rows = [(r, b, racks, plain, astray) for r, b, racks, astray in IRRELEVANT]
        rows += [(r, b, "abc", expected, astray) for r, b, expected, astray in by_racks]
        for replicas, brokers, racks, expected, astray in rows:
            for owned in ((), expected):
                row(
                    cls,
                    method,
                    name,
                    SIX,
                    replicas,
                    brokers,
                    racks,
                    topics,
                    expected,
                    astray,
                    owned,
                    " owned" if owned else "",
                )

METHOD = "testRackAwareAssignmentWithUniformSubscription"
for cls, name, expected in (
    (STICKY, "sticky", ROUND),
    (COOPERATIVE, "cooperative-sticky", ("t1:0,3", "t2:1", "t2:5 t3:1")),
):
    row(cls, METHOD, name, SIX, 1, "abc", "abc", EQUAL, expected, 0, ASTRAY, " astray")
METHOD = "testRackAwareAssignmentWithNonEqualSubscription"
BETWEEN = ("t1:3", "t2:1", "t3:1")
row(STICKY, METHOD, "sticky", SIX, 1, "abc", "abc", UNEQUAL, BY_ONE, 4, ASTRAY, " astray")
row(STICKY, METHOD, "sticky", SIX, 3, "abc", "abc", UNEQUAL, PLAIN, 0, ASTRAY, " astray")
for replicas, owned, expected, astray, tail in (
    (1, ASTRAY, BETWEEN, 0, " astray"),
    (1, BETWEEN, BY_ONE, 4, " after that"),
    (3, ASTRAY, ("t1:2,3,4", "t2:0,1,2,3", "t3:0,1"), 0, " astray"),
    (
        3,
        ("t1:2,3,4", "t2:0,1,2,3", "t3:0,1"),
        ("t1:2,3,4 t2:4,5", "t2:0,1,2,3,6", "t1:0,1,5 t3:0,1"),
        0,
        " after that",
    ),
):
    row(
        COOPERATIVE,
        METHOD,
        "cooperative-sticky",
        SIX,
        replicas,
        "abc",
        "abc",
        UNEQUAL,
        expected,
        astray,
        owned,
        tail,
    )


def transfers():
    """Two partitions change hands: c0 and c1 each have one of the other's rack."""
    given = [
        with_rack(member(m, "t1", owned, 1, name="cooperative-sticky"), rack)
        for m, owned, rack in (("c0", "t1:0,1", "a"), ("c1", "t1:2,3", "b"))
    ]
    found = assign("cooperative-sticky", {"t1": 4}, placed({"t1": 4}, 1, "ab"), given)
    same(found, {"c0": words("t1:0"), "c1": words("t1:3")})


add(COOPERATIVE, "testUniformSubscriptionTransferOwnershipListIsRight", transfers, version="any")

# -- when racks have a say -----------------------------------------------------------------------

EVERYWHERE = [frozenset("abc")] * 10
SOMEWHERE = [frozenset("abc"[i % 3]) for i in range(10)]
for consumers, partitions, expected in (
    ("", [], False),
    ("", EVERYWHERE, False),
    ("abc", [], False),
    ("d", EVERYWHERE, False),
    ("abc", EVERYWHERE, False),
    ("ab", EVERYWHERE, False),
    ("ad", EVERYWHERE, False),
    ("abc", SOMEWHERE, True),
    ("ab", SOMEWHERE, True),
    ("ad", SOMEWHERE, True),
):

    def decides(consumers=consumers, partitions=partitions, expected=expected):
        same(racks_matter(set(consumers), [partitions]), expected)

    where = {0: "nowhere", 3: "everywhere", 1: "somewhere"}[len(partitions[0]) if partitions else 0]
    add(
        "AbstractPartitionAssignorTest",
        "testUseRackAwareAssignment",
        decides,
        f"{consumers or 'none'} {where}",
        "any",
    )
