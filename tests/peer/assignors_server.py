"""Server-side assignors: RangeAssignorTest, UniformHomogeneousAssignmentBuilderTest,
UniformHeterogeneousAssignmentBuilderTest.

Facts from apache/kafka 1eb7644349cb (2024-10-25); the homogeneous ones from 80fce9a03013 (4.1 and
later: who holds an extra partition keeps it). Members are visited in ascending id, as in the tests.
"""

from __future__ import annotations

from peer import add, explain, same, show, tps

from rebalance_sim.protocol.assignors.server import (
    GroupSpec,
    MemberSpec,
    PartitionAssignorError,
    RangeAssignor,
    SubscriptionType,
    UniformAssignor,
)

HOMO, HETERO = SubscriptionType.HOMOGENEOUS, SubscriptionType.HETEROGENEOUS


def run(assignor, kind, counts, members):
    """``members``: id -> (topics, current[, instance])."""
    spec = GroupSpec(
        subscription_type=kind,
        members={
            m: MemberSpec(
                subscribed_topic_ids=frozenset(f[0].split()),
                current=tps(f[1]) if len(f) > 1 else frozenset(),
                instance_id=f[2] if len(f) > 2 else None,
            )
            for m, f in members.items()
        },
    )
    result = assignor.assign(spec, {t: int(n) for t, n in (w.split(":") for w in counts.split())})
    return {m: show(result.get(m, frozenset())) for m in members}


def row(cls, method, assignor, kind, counts, members, expected):
    def check():
        if expected is PartitionAssignorError:
            try:
                run(assignor, kind, counts, members)
            except PartitionAssignorError:
                return
            raise AssertionError("expected PartitionAssignorError")
        same(
            run(assignor, kind, counts, members),
            {m: show(tps(expected.get(m, ""))) for m in members},
        )

    add(cls, method, check, version="any")


R = RangeAssignor()
C = "RangeAssignorTest"
row(C, "testOneMemberNoTopicSubscription", R, HOMO, "1:3", {"A": ("",)}, {})
row(
    C,
    "testOneMemberSubscribedToNonExistentTopic",
    R,
    HOMO,
    "1:3",
    {"A": ("2",)},
    PartitionAssignorError,
)
row(
    C,
    "testFirstAssignmentTwoMembersTwoTopicsSameSubscriptions",
    R,
    HOMO,
    "1:3 3:2",
    {"A": ("1 3",), "B": ("1 3",)},
    {"A": "1:0,1 3:0", "B": "1:2 3:1"},
)
row(
    C,
    "testFirstAssignmentThreeMembersThreeTopicsDifferentSubscriptions",
    R,
    HETERO,
    "1:3 2:3 3:2",
    {"A": ("1 2",), "B": ("3",), "C": ("2 3",)},
    {"A": "1:0,1,2 2:0,1", "B": "3:0", "C": "2:2 3:1"},
)
row(
    C,
    "testFirstAssignmentNumMembersGreaterThanNumPartitions",
    R,
    HOMO,
    "1:3 3:2",
    dict.fromkeys("ABC", ("1 3",)),
    {"A": "1:0 3:0", "B": "1:1 3:1", "C": "1:2"},
)
row(
    C,
    "testReassignmentNumMembersGreaterThanNumPartitionsWhenOneMemberAdded",
    R,
    HOMO,
    "1:2 2:2",
    {"A": ("1 2", "1:0 2:0"), "B": ("1 2", "1:1 2:1"), "C": ("1 2",)},
    {"A": "1:0 2:0", "B": "1:1 2:1"},
)
row(
    C,
    "testReassignmentWhenOnePartitionAddedForTwoMembersTwoTopics",
    R,
    HOMO,
    "1:4 2:4",
    {"A": ("1 2", "1:0,1 2:0,1"), "B": ("1 2", "1:2 2:2")},
    {"A": "1:0,1 2:0,1", "B": "1:2,3 2:2,3"},
)
row(
    C,
    "testReassignmentWhenOneMemberAddedAfterInitialAssignmentWithTwoMembersTwoTopics",
    R,
    HOMO,
    "1:3 2:3",
    {"A": ("1 2", "1:0,1 2:0,1"), "B": ("1 2", "1:2 2:2"), "C": ("1 2",)},
    {"A": "1:0 2:0", "B": "1:1 2:1", "C": "1:2 2:2"},
)
row(
    C,
    "testReassignmentWhenOneMemberAddedAndOnePartitionAfterInitialAssignmentWithTwoMembersTwoTopics",
    R,
    HETERO,
    "1:4 2:3",
    {"A": ("1 2", "1:0,1 2:0,1"), "B": ("1 2", "1:2 2:2"), "C": ("1",)},
    {"A": "1:0,1 2:0,1", "B": "1:2 2:2", "C": "1:3"},
)
row(
    C,
    "testReassignmentWhenOneMemberRemovedAfterInitialAssignmentWithTwoMembersTwoTopics",
    R,
    HOMO,
    "1:3 2:3",
    {"B": ("1 2", "1:2 2:2")},
    {"B": "1:0,1,2 2:0,1,2"},
)
row(
    C,
    "testReassignmentWhenMultipleSubscriptionsRemovedAfterInitialAssignmentWithThreeMembersTwoTopics",
    R,
    HETERO,
    "1:3 2:3 3:2",
    {"A": ("1", "1:0,1,2 2:0"), "B": ("1 2 3", "2:1"), "C": ("2", "2:2 3:0,1")},
    {"A": "1:0,1", "B": "1:2 2:0,1 3:0,1", "C": "2:2"},
)


def static(method, count, ids):
    def check():
        before = run(R, HOMO, f"1:{count}", {m: ("1", "", i) for m, i in ids.items()})
        after = run(
            R, HOMO, f"1:{count}", {("A1" if m == "A" else m): ("1", "", i) for m, i in ids.items()}
        )
        same(after["A1"], before["A"])
        same({m: after[m] for m in ids if m != "A"}, {m: before[m] for m in ids if m != "A"})

    add(C, method, check, version="any")


static("testStaticMembership", 3, {"A": "instanceA", "B": "instanceB"})
static("testMixedStaticMembership", 5, {"A": "instanceA", "C": "instanceC", "B": None})

U = UniformAssignor()
C = "UniformHomogeneousAssignmentBuilderTest"
row(C, "testOneMemberNoTopicSubscription", U, HOMO, "1:3", {"A": ("",)}, {})
row(
    C,
    "testOneMemberSubscribedToNonexistentTopic",
    U,
    HOMO,
    "1:3",
    {"A": ("2",)},
    PartitionAssignorError,
)
row(
    C,
    "testFirstAssignmentNumMembersGreaterThanTotalNumPartitions",
    U,
    HOMO,
    "3:2",
    dict.fromkeys("ABC", ("3",)),
    {"B": "3:0", "C": "3:1"},
)
row(
    C,
    "testReassignmentForTwoMembersTwoTopicsGivenUnbalancedPrevAssignment",
    U,
    HOMO,
    "1:3 2:3",
    {"A": ("1 2", "1:0,1 2:0,1"), "B": ("1 2", "1:2 2:2")},
    {"A": "1:0,1 2:0", "B": "1:2 2:1,2"},
)
row(
    C,
    "testReassignmentWhenPartitionsAreAddedForTwoMembersTwoTopics",
    U,
    HOMO,
    "1:6 2:5",
    {"A": ("1 2", "1:0,2 2:0"), "B": ("1 2", "1:1 2:1,2")},
    {"A": "1:0,2 2:0,3,4", "B": "1:1,3,4,5 2:1,2"},
)
row(
    C,
    "testReassignmentWhenOneMemberAddedAfterInitialAssignmentWithTwoMembersTwoTopics",
    U,
    HOMO,
    "1:3 2:3",
    {"A": ("1 2", "1:0,2 2:0"), "B": ("1 2", "1:1 2:1,2"), "C": ("1 2",)},
    {"A": "1:0,2", "B": "1:1 2:1", "C": "2:0,2"},
)
row(
    C,
    "testReassignmentWhenOneMemberRemovedAfterInitialAssignmentWithThreeMembersTwoTopics",
    U,
    HOMO,
    "1:3 2:3",
    {"A": ("1 2", "1:0 2:0"), "B": ("1 2", "1:1 2:1")},
    {"A": "1:0 2:0,2", "B": "1:1,2 2:1"},
)
row(
    C,
    "testReassignmentWhenOneSubscriptionRemovedAfterInitialAssignmentWithTwoMembersTwoTopics",
    U,
    HOMO,
    "1:2 2:2",
    {"A": ("2", "1:0 2:0"), "B": ("2", "1:1 2:1")},
    {"A": "2:0", "B": "2:1"},
)


def large():
    counts = " ".join(f"t{i}:3" for i in range(1, 101))
    topics = " ".join(f"t{i}" for i in range(1, 101))
    members = {f"member{i}": (topics,) for i in range(1, 50)}
    result = U.assign(
        GroupSpec(
            subscription_type=HOMO,
            members={
                m: MemberSpec(subscribed_topic_ids=frozenset(topics.split())) for m in members
            },
        ),
        {w.split(":")[0]: 3 for w in counts.split()},
    )
    sizes = [len(s) for s in result.values()]
    same(
        (max(sizes) - min(sizes) <= 1, len(frozenset().union(*result.values())), sum(sizes)),
        (True, 300, 300),
    )


add(C, "testValidityAndBalanceForLargeSampleSet", large, version="any")

C = "UniformHeterogeneousAssignmentBuilderTest"
row(C, "testTwoMembersNoTopicSubscription", U, HETERO, "1:3", {"A": ("",), "B": ("",)}, {})
row(
    C,
    "testTwoMembersSubscribedToNonexistentTopics",
    U,
    HETERO,
    "1:3",
    {"A": ("3",), "B": ("2",)},
    PartitionAssignorError,
)
row(
    C,
    "testFirstAssignmentTwoMembersTwoTopics",
    U,
    HETERO,
    "1:3 3:6",
    {"A": ("1 3",), "B": ("3",)},
    {"A": "1:0,1,2 3:4", "B": "3:0,1,2,3,5"},
)
row(
    C,
    "testFirstAssignmentNumMembersGreaterThanTotalNumPartitions",
    U,
    HETERO,
    "3:1 1:2",
    {"A": ("3",), "B": ("3",), "C": ("1",)},
    {"A": "3:0", "C": "1:0,1"},
)
row(
    C,
    "testReassignmentForTwoMembersThreeTopicsGivenUnbalancedPrevAssignment",
    U,
    HETERO,
    "1:6 2:4 3:4",
    {"A": ("1", "1:0,1,2"), "B": ("1 2", "1:3 2:0"), "C": ("1 2 3", "1:4,5 2:1,2,3 3:0,1,2,3")},
    {"A": "1:0,1,2,5", "B": "1:3 2:0,1,2,3", "C": "1:4 3:0,1,2,3"},
)
row(
    C,
    "testReassignmentWhenPartitionsAreAddedForTwoMembers",
    U,
    HETERO,
    "1:6 2:5 3:3 4:3",
    {"A": ("1 3", "1:0,1,2,3 3:0,1"), "B": ("1 2 3 4", "2:0,1,2 4:0,1,2")},
    {"A": "1:0,1,2,3,4,5 3:0,1,2", "B": "2:0,1,2,3,4 4:0,1,2"},
)
row(
    C,
    "testReassignmentWhenOneMemberAddedAndPartitionsAddedTwoMembersTwoTopics",
    U,
    HETERO,
    "1:6 2:7",
    {"A": ("1", "1:0,2 2:0"), "B": ("1 2", "1:1 2:1,2"), "C": ("1 2",)},
    {"A": "1:0,2,3,4,5", "B": "1:1 2:1,2,6", "C": "2:0,3,4,5"},
)
row(
    C,
    "testReassignmentWhenOneMemberRemovedAfterInitialAssignmentWithThreeMembersThreeTopics",
    U,
    HETERO,
    "1:3 2:8 3:3",
    {"A": ("1 3", "1:0,1,2 3:0,1"), "B": ("2", "2:3,4,5,6")},
    {"A": "1:0,1,2 3:0,1,2", "B": "2:0,1,2,3,4,5,6,7"},
)
row(
    C,
    "testReassignmentWhenOneSubscriptionRemovedAfterInitialAssignmentWithTwoMembersTwoTopics",
    U,
    HETERO,
    "1:3 2:5",
    {"A": ("1", "1:0,2 2:1,3"), "B": ("1 2", "1:1 2:0,2,4")},
    {"A": "1:0,1,2", "B": "2:0,1,2,3,4"},
)
row(
    C,
    "testReassignmentWhenTopicPartitionsRunOutAndMembersHaveNoPartitions",
    U,
    HETERO,
    "1:2 2:2 3:2",
    {"A": ("1 2 3", "1:0,1 2:0,1 3:0,1"), "B": ("1 2 3",)},
    {"A": "2:0 3:0,1", "B": "1:0,1 2:1"},
)
row(
    C,
    "testFirstAssignmentWithTwoMembersIncludingOneWithoutSubscriptions",
    U,
    HETERO,
    "1:3",
    {"A": ("1",), "B": ("",)},
    {"A": "1:0,1,2"},
)

# The same two with other topic ids (1 -> z, 2 -> a): the model visits topics in ascending id, these tests
# in the order of a HashSet<Uuid>, topic 2 first. Members and partitions are the same facts.
for method in (
    "testReassignmentWhenPartitionsAreAddedForTwoMembersTwoTopics",
    "testReassignmentWhenOneMemberRemovedAfterInitialAssignmentWithThreeMembersTwoTopics",
):
    explain(
        f"UniformHomogeneousAssignmentBuilderTest.{method}@any",
        "order of topics only: a HashSet<Uuid> with topic 2 before topic 1, where the model sorts the ids; "
        "the row with the ids renamed so that topic 2 comes first passes",
    )
row(
    "UniformHomogeneousAssignmentBuilderTest",
    "testReassignmentWhenPartitionsAreAddedForTwoMembersTwoTopics [topic 2 first]",
    U,
    HOMO,
    "z:6 a:5",
    {"A": ("z a", "z:0,2 a:0"), "B": ("z a", "z:1 a:1,2")},
    {"A": "z:0,2 a:0,3,4", "B": "z:1,3,4,5 a:1,2"},
)
row(
    "UniformHomogeneousAssignmentBuilderTest",
    "testReassignmentWhenOneMemberRemovedAfterInitialAssignmentWithThreeMembersTwoTopics [topic 2 first]",
    U,
    HOMO,
    "z:3 a:3",
    {"A": ("z a", "z:0 a:0"), "B": ("z a", "z:1 a:1")},
    {"A": "z:0 a:0,2", "B": "z:1,2 a:1"},
)
