"""GroupMetadataManagerTest, classic groups: join, sync, heartbeat, leave, static members.

Facts from apache/kafka 1eb7644349cb (2024-10-25); the code under test has not changed up to 4.3, so
each case runs on both versions.
"""

from __future__ import annotations

from _classic import DELAY, GID, NEW_MEMBER, SUPERSET, Classic, member_value, protocols, value
from peer import add, cannot, same

from rebalance_sim.protocol.runtime.outcome import Outcome
from rebalance_sim.protocol.wire.records import GroupMetadata

C = "GroupMetadataManagerTest"
BOTH = ("kafka-4.1", "kafka-4.3")


def test(method, variant="", versions=BOTH):
    def register(function):
        for version in versions:
            add(C, method, lambda version=version: function(version), variant, version)
        return function

    return register


# -- size ---------------------------------------------------------------------------------------


@test("testJoinGroupShouldReceiveErrorIfGroupOverMaxSize")
def _(v):
    c = Classic(v, group_max_size=10)
    same(c.done(*[c.ask() for _ in range(10)]), [False] * 10)
    same(c.code(c.ask()), "GROUP_MAX_SIZE_REACHED")


def codes(c, handles):
    return sorted(c.code(h) or "parked" for h in handles)


FULL = sorted(["NONE"] * 10 + ["GROUP_MAX_SIZE_REACHED"])


@test("testDynamicMembersJoinGroupWithMaxSizeAndRequiredKnownMember")
def _(v):
    c = Classic(v, group_max_size=10, group_initial_rebalance_delay_ms=50)
    first = [c.ask(known=True) for _ in range(11)]
    same(codes(c, first), ["MEMBER_ID_REQUIRED"] * 11)
    same((len(c.cg.members), c.gstate, len(c.cg.pending_join)), (0, "Empty", 11))
    ids = [c.got(h).member_id for h in first]
    second = [c.ask(i, known=True) for i in ids]
    c.sleep(50), c.sleep(50)
    same(codes(c, second), FULL)
    same((len(c.cg.members), len(c.cg.pending_join), c.gstate), (10, 0, "CompletingRebalance"))
    same(codes(c, [c.ask(i, known=True) for i in ids]), FULL, "third round")


@test("testDynamicMembersJoinGroupWithMaxSizeAndNotRequiredKnownMember")
def _(v):
    c = Classic(v, group_max_size=10, group_initial_rebalance_delay_ms=50)
    first = [c.ask() for _ in range(11)]
    same((len(c.cg.members), c.cg.num_awaiting_join, c.gstate), (10, 10, "PreparingRebalance"))
    c.sleep(50), c.sleep(50)
    same(codes(c, first), FULL)
    ids = [c.got(h).member_id for h in first]
    same(codes(c, [c.ask(i) for i in ids]), FULL, "second round")
    same((len(c.cg.members), c.cg.num_awaiting_join, c.gstate), (10, 0, "CompletingRebalance"))


@test("testStaticMembersJoinGroupWithMaxSize")
def _(v):
    c = Classic(v, group_max_size=10, group_initial_rebalance_delay_ms=50)
    first = [c.ask(instance=f"instance-id-{i}") for i in range(11)]
    same((len(c.cg.members), c.cg.num_awaiting_join, c.gstate), (10, 10, "PreparingRebalance"))
    c.sleep(50), c.sleep(50)
    same(codes(c, first), FULL)
    same(
        codes(
            c, [c.ask(c.got(h).member_id, instance=f"instance-id-{i}") for i, h in enumerate(first)]
        ),
        FULL,
    )
    same((len(c.cg.members), c.cg.num_awaiting_join, c.gstate), (10, 0, "CompletingRebalance"))


@test("testDynamicMembersCanRejoinGroupWithMaxSizeWhileRebalancing")
def _(v):
    c = Classic(v, group_max_size=10, group_initial_rebalance_delay_ms=50)
    first = [c.ask(known=True) for _ in range(11)]
    ids = [c.got(h).member_id for h in first]
    for i in ids:
        c.ask(i, known=True)
    same((len(c.cg.members), c.cg.num_awaiting_join, c.gstate), (10, 10, "PreparingRebalance"))
    third = [c.ask(i, known=True) for i in ids]
    c.sleep(50), c.sleep(50)
    same(codes(c, third), FULL)
    same((len(c.cg.members), c.cg.num_awaiting_join, c.gstate), (10, 0, "CompletingRebalance"))


# -- joining ------------------------------------------------------------------------------------


@test("testJoinGroupUnknownMemberNewGroup")
def _(v):
    c = Classic(v, create=False)
    same(c.code(c.ask("member-id")), "UNKNOWN_MEMBER_ID")
    same(c.code(c.ask("member-id", instance="group-instance-id")), "UNKNOWN_MEMBER_ID")


@test("testClassicGroupJoinInconsistentProtocolType")
def _(v):
    c = Classic(v)
    c.dynamic()
    same(c.code(c.ask(type_="connect")), "INCONSISTENT_GROUP_PROTOCOL")


@test("testJoinGroupWithEmptyProtocolType")
def _(v):
    c = Classic(v)
    same(c.code(c.ask(type_="")), "INCONSISTENT_GROUP_PROTOCOL")
    same(
        c.code(c.ask(type_="", instance="group-instance-id", known=True, skip=True)),
        "INCONSISTENT_GROUP_PROTOCOL",
    )


@test("testJoinGroupWithEmptyGroupProtocol")
def _(v):
    same((lambda c: c.code(c.ask(protos=())))(Classic(v)), "INCONSISTENT_GROUP_PROTOCOL")


@test("testNewMemberJoinExpiration")
def _(v):
    c = Classic(v)
    first = c.dynamic(session=5000 + NEW_MEMBER, rebalance=2 * NEW_MEMBER)
    same(first.leader, first.member_id)
    second = c.ask(session=5000, rebalance=5000)
    same((c.done(second), len(c.cg.members)), ([False], 2))
    same([m.is_new for m in c.cg.members.values()].count(True), 1)
    c.sleep(NEW_MEMBER)
    same(c.code(second), "UNKNOWN_MEMBER_ID")
    same(list(c.cg.members), [first.member_id])


@test("testJoinGroupInconsistentGroupProtocol")
def _(v):
    c = Classic(v)
    first = c.ask()
    same(c.done(first), [False])
    other = c.ask(protos=("roundrobin",))
    c.sleep(DELAY)
    same((c.code(first), c.code(other)), ("NONE", "INCONSISTENT_GROUP_PROTOCOL"))


@test("testJoinGroupSecondJoinInconsistentProtocol")
def _(v):
    c = Classic(v)
    first = c.got(c.ask(known=True))
    same(first.error_code.name, "MEMBER_ID_REQUIRED")
    same(c.code(c.ask(first.member_id, known=True, protos=())), "INCONSISTENT_GROUP_PROTOCOL")
    third = c.ask(first.member_id, known=True)
    same(c.done(third), [False])
    c.sleep(DELAY)
    same(c.code(third), "NONE")


@test("testStaticMemberJoinAsFirstMember")
def _(v):
    Classic(v).completes(instance="group-instance-id", known=False, skip=True)


@test("testStaticMemberRejoinWithExplicitUnknownMemberId")
def _(v):
    c = Classic(v)
    c.completes(instance="group-instance-id", session=5000, rebalance=5000)
    same(
        c.code(
            c.ask("unknown-member-id", instance="group-instance-id", session=5000, rebalance=5000)
        ),
        "FENCED_INSTANCE_ID",
    )


@test("testJoinGroupUnknownConsumerExistingGroup")
def _(v):
    c = Classic(v)
    c.dynamic(session=5000, rebalance=5000)
    same(c.code(c.ask("other-member-id", session=5000, rebalance=5000)), "UNKNOWN_MEMBER_ID")


@test("testJoinGroupProtocolTypeIsNotProvidedWhenAnErrorOccurs")
def _(v):
    c = Classic(v, create=False)
    answer = c.got(c.ask("member-id"))
    same((answer.error_code.name, answer.protocol_type), ("UNKNOWN_MEMBER_ID", None))


@test("testJoinGroupReturnsTheProtocolType")
def _(v):
    c = Classic(v)
    a, b = c.ask(), c.ask()
    c.sleep(DELAY)
    # The second joins within the initial delay, which ends here as the rebalance timeout is used up.
    same([(c.code(h), c.got(h).protocol_type) for h in (a, b)], [("NONE", "consumer")] * 2)


@test("testDelayInitialRebalanceByGroupInitialRebalanceDelayOnEmptyGroup")
def _(v):
    c = Classic(v)
    h = c.ask()
    c.sleep(DELAY // 2)
    same(c.done(h), [False])
    c.sleep(DELAY // 2 + 1)
    same(c.code(h), "NONE")


@test("testResetRebalanceDelayWhenNewMemberJoinsGroupDuringInitialRebalance")
def _(v):
    c = Classic(v)
    a = c.ask(rebalance=DELAY * 3)
    c.sleep(DELAY - 1)
    b = c.ask(rebalance=DELAY * 3)
    c.sleep(2)
    c.sleep(DELAY // 2 + 1)
    same(c.done(a, b), [False, False])
    c.sleep(DELAY // 2)
    same((c.code(a), c.code(b)), ("NONE", "NONE"))


@test("testDelayRebalanceUptoRebalanceTimeout")
def _(v):
    c = Classic(v)
    a, b = c.ask(rebalance=DELAY * 2), c.ask(rebalance=DELAY * 2)
    c.sleep(DELAY + 1)
    d = c.ask(rebalance=DELAY * 2)
    c.sleep(DELAY - 1)
    same(c.done(a, b, d), [False] * 3, "1 ms before the rebalance timeout")
    c.sleep(1)
    same([c.code(h) for h in (a, b, d)], ["NONE"] * 3)


@test("testJoinGroupReplaceStaticMember")
def _(v):
    c = Classic(v)
    old = c.ask(instance="group-instance-id", session=5000)
    same((c.done(old), c.cg.num_awaiting_join, len(c.cg.members)), ([False], 1, 1))
    new = c.ask(instance="group-instance-id", session=5000)
    same((c.done(new), c.code(old)), ([False], "FENCED_INSTANCE_ID"))
    same((c.cg.num_awaiting_join, len(c.cg.members)), (1, 1))
    c.sleep(DELAY)
    same((c.code(new), c.cg.num_awaiting_join, len(c.cg.members)), ("NONE", 0, 1))


@test("testHeartbeatExpirationShouldRemovePendingMember")
def _(v):
    c = Classic(v)
    h = c.ask(session=1000, known=True)
    same((c.code(h), len(c.cg.members), len(c.cg.pending_join)), ("MEMBER_ID_REQUIRED", 0, 1))
    c.sleep(1000)
    same(len(c.cg.pending_join), 0)


@test("testHeartbeatExpirationShouldRemoveMember")
def _(v):
    c = Classic(v, group_initial_rebalance_delay_ms=600_000)
    h = c.ask()
    same((c.done(h), len(c.cg.members)), ([False], 1))
    same(list(c.sleep(NEW_MEMBER)), ["classic gen 1 0 members"])
    same((c.code(h), len(c.cg.members)), ("UNKNOWN_MEMBER_ID", 0))


@test("testJoinGroupExistingMemberUpdatedMetadataTriggersRebalance")
def _(v):
    c = Classic(v)
    m = c.dynamic().member_id
    same(
        (c.cg.members[m].protocols, c.gstate, c.cg.generation_id),
        (protocols("range"), "CompletingRebalance", 1),
    )
    h = c.ask(m, protos=SUPERSET)
    same((c.code(h), c.gstate, c.cg.generation_id), ("NONE", "CompletingRebalance", 2))
    same(c.cg.members[m].protocols, protocols(*SUPERSET))


@test("testJoinGroupAsExistingLeaderTriggersRebalanceInStableState")
def _(v):
    c = Classic(v)
    m = c.dynamic().member_id
    c.put(m, 1)
    same((c.cg.leader_id, c.gstate), (m, "Stable"))
    h = c.ask(m)
    same((c.code(h), c.gstate, c.cg.generation_id), ("NONE", "CompletingRebalance", 2))


def leader_and_member(v):
    c = Classic(v)
    leader = c.dynamic().leader
    m = c.ask()
    h = c.ask(leader)
    same(
        (c.code(h), c.code(m), c.gstate, len(c.cg.members), c.cg.generation_id),
        ("NONE", "NONE", "CompletingRebalance", 2, 2),
    )
    c.put(leader, 2)
    same(c.gstate, "Stable")
    return c, leader, c.got(m).member_id


@test("testJoinGroupAsExistingMemberWithUpdatedMetadataTriggersRebalanceInStableState")
def _(v):
    c, leader, m = leader_and_member(v)
    h = c.ask(m, protos=SUPERSET)
    same(c.done(h), [False])
    same(c.code(c.ask(leader)), "NONE")
    same(
        (c.code(h), c.gstate, c.cg.generation_id, len(c.cg.members)),
        ("NONE", "CompletingRebalance", 3, 2),
    )


@test("testJoinGroupExistingMemberDoesNotTriggerRebalanceInStableState")
def _(v):
    c, _leader, m = leader_and_member(v)
    h = c.ask(m)
    same((c.code(h), c.got(h).generation_id, c.gstate), ("NONE", 2, "Stable"))


@test("testCompleteJoinRemoveNotYetRejoinedDynamicMembers")
def _(v):
    c = Classic(v)
    c.dynamic(session=1000, rebalance=1000)
    h = c.ask(session=1000, rebalance=1000)
    same((c.done(h), len(c.cg.members), c.gstate), ([False], 2, "PreparingRebalance"))
    c.sleep(1000)
    same((c.code(h), list(c.cg.members), c.cg.generation_id), ("NONE", [c.got(h).member_id], 2))


@test("testCompleteJoinPhaseNoMembersRejoinedExtendsJoinPhase")
def _(v):
    c = Classic(v)
    times = dict(session=30000, rebalance=10000)
    first = c.completes(instance="first-instance-id", known=True, skip=True, **times).member_id
    h = c.ask(instance="second-instance-id", **times)
    same(c.code(c.ask(first, instance="first-instance-id", **times)), "NONE")
    same((c.code(h), len(c.cg.members), c.cg.generation_id), ("NONE", 2, 2))
    second = c.got(h).member_id
    # Both sync, and a third party has to leave for a rebalance that nobody joins: a dynamic member.
    leader = c.cg.leader_id
    c.put(leader, 2)
    third = c.got(c.ask(known=True, session=30000, rebalance=10000)).member_id
    c.ask(third, session=30000, rebalance=10000)
    c.leave(third)
    same((c.gstate, c.cg.num_awaiting_join, len(c.cg.members)), ("PreparingRebalance", 0, 2))
    start = c.due("classic-join")
    c.sleep(start)
    same((c.due("classic-join"), c.gstate), (10000, "PreparingRebalance"))
    c.sleep(10000)
    same(
        (c.due("classic-join"), c.gstate, len(c.cg.members), c.cg.generation_id),
        (10000, "PreparingRebalance", 2, 2),
    )
    a = c.ask(first, instance="first-instance-id", **times)
    same((c.done(a), c.gstate), ([False], "PreparingRebalance"))
    b = c.ask(second, instance="second-instance-id", **times)
    same(
        (c.code(a), c.code(b), c.gstate, len(c.cg.members), c.cg.generation_id),
        ("NONE", "NONE", "CompletingRebalance", 2, 3),
    )


def replaced_in_stable(v, skip):
    c = Classic(v)
    old = c.completes(instance="group-instance-id", known=True, skip=skip).member_id
    c.put(old, 1, instance="group-instance-id")
    same(c.gstate, "Stable")
    h = c.ask(
        instance="group-instance-id",
        protos=SUPERSET,
        rebalance=7000,
        session=4500,
        known=True,
        skip=skip,
    )
    same(c.records, ["classic gen 1 1 members"])
    answer = c.got(h)
    new = c.cg.static_members["group-instance-id"]
    rows = [(m.member_id, m.group_instance_id, m.metadata) for m in answer.members]
    same(
        (
            answer.error_code.name,
            answer.member_id,
            answer.generation_id,
            answer.protocol_type,
            answer.protocol_name,
            answer.skip_assignment,
            answer.leader,
            rows,
        ),
        (
            "NONE",
            new,
            1,
            "consumer",
            "range",
            skip,
            new if skip else old,
            [(new, "group-instance-id", protocols(*SUPERSET)[0].metadata)] if skip else [],
        ),
    )
    m = c.cg.members[new]
    same(
        (m.rebalance_timeout_ms, m.session_timeout_ms, m.protocols),
        (7000, 4500, protocols(*SUPERSET)),
    )
    same((len(c.cg.members), c.cg.generation_id, c.gstate), (1, 1, "Stable"))


for skip in (True, False):
    test("testReplaceStaticMemberInStableStateNoError", f"supportSkippingAssignment={skip}")(
        lambda v, skip=skip: replaced_in_stable(v, skip)
    )


# -- sync ---------------------------------------------------------------------------------------


def sync_with(v, type_, name, error, want):
    c = Classic(v)
    a = c.ask(instance="leader-instance-id", protos=SUPERSET)
    b = c.ask(instance="follower-instance-id", protos=SUPERSET)
    c.sleep(10000)
    leader, follower, generation = c.got(a).member_id, c.got(b).member_id, c.got(a).generation_id
    for m in (leader, follower):
        answer = c.got(c.put(m, generation, {leader: b""}, type_=type_, name=name))
        same((answer.error_code.name, answer.protocol_type, answer.protocol_name), (error, *want))


for method, type_, name, error, want in (
    (
        "testSyncGroupReturnsAnErrorWhenProtocolTypeIsInconsistent",
        "protocolType",
        None,
        "INCONSISTENT_GROUP_PROTOCOL",
        (None, None),
    ),
    (
        "testSyncGroupReturnsAnErrorWhenProtocolNameIsInconsistent",
        None,
        "protocolName",
        "INCONSISTENT_GROUP_PROTOCOL",
        (None, None),
    ),
    (
        "testSyncGroupSucceedWhenProtocolTypeAndNameAreNotProvided",
        None,
        None,
        "NONE",
        ("consumer", "range"),
    ),
    (
        "testSyncGroupSucceedWhenProtocolTypeAndNameAreConsistent",
        "consumer",
        "range",
        "NONE",
        ("consumer", "range"),
    ),
):
    test(method)(lambda v, a=(type_, name, error, want): sync_with(v, *a))


@test("testSyncGroupFromUnknownGroup")
def _(v):
    c = Classic(v, create=False)
    same(c.code(c.put("member-id", 1)), "UNKNOWN_MEMBER_ID")


@test("testSyncGroupFromUnknownMember")
def _(v):
    c = Classic(v)
    m = c.completes(instance="leader-instance-id", known=True, skip=True)
    answer = c.got(c.put(m.member_id, m.generation_id, {m.member_id: b""}))
    same((answer.error_code.name, answer.assignment), ("NONE", b""))
    same(
        c.code(c.put("unknown-member-id", m.generation_id, {m.member_id: b""})), "UNKNOWN_MEMBER_ID"
    )


@test("testSyncGroupFromIllegalGeneration")
def _(v):
    c = Classic(v)
    m = c.completes(instance="leader-instance-id", known=True, skip=True)
    same(c.code(c.put(m.member_id, m.generation_id + 1)), "ILLEGAL_GENERATION")


def grow(c, **fields):
    """Leader is stable; a second member joins, the leader rejoins. (leader, follower, generation)."""
    leader = c.stable().member_id
    h = c.ask(**fields)
    same(c.done(h), [False])
    g = c.ask(leader, **fields)
    same((c.code(g), c.code(h)), ("NONE", "NONE"))
    same(c.got(g).generation_id, c.got(h).generation_id)
    same((c.got(g).leader, c.got(h).leader), (leader, leader))
    return leader, c.got(h).member_id, c.got(g).generation_id


@test("testJoinGroupFromUnchangedFollowerDoesNotRebalance")
def _(v):
    c = Classic(v)
    _leader, follower, generation = grow(c)
    h = c.ask(follower)
    same((c.code(h), c.got(h).generation_id), ("NONE", generation))


@test("testLeaderFailureInSyncGroup")
def _(v):
    c = Classic(v)
    _leader, follower, generation = grow(c, rebalance=10000, session=5000)
    same(c.gstate, "CompletingRebalance")
    h = c.put(follower, generation)
    same(c.done(h), [False])
    same(c.sleep(10000), [])
    same(
        (c.code(h), list(c.cg.members), c.gstate),
        ("REBALANCE_IN_PROGRESS", [follower], "PreparingRebalance"),
    )


@test("testSyncGroupFollowerAfterLeader")
def _(v):
    c = Classic(v)
    leader, follower, generation = grow(c)
    answer = c.got(c.put(leader, generation, {leader: b"\x00", follower: b"\x01"}))
    same(
        (answer.error_code.name, answer.assignment, c.records),
        ("NONE", b"\x00", [f"classic gen {generation} 2 members"]),
    )
    answer = c.got(c.put(follower, generation))
    same((answer.error_code.name, answer.assignment, c.gstate), ("NONE", b"\x01", "Stable"))


@test("testSyncGroupLeaderAfterFollower")
def _(v):
    c = Classic(v)
    leader, follower, generation = grow(c)
    h = c.put(follower, generation)
    same(c.done(h), [False])
    answer = c.got(c.put(leader, generation, {leader: b"\x00", follower: b"\x01"}))
    same(
        (answer.error_code.name, answer.assignment, c.records),
        ("NONE", b"\x00", [f"classic gen {generation} 2 members"]),
    )
    same((c.code(h), c.got(h).assignment, c.gstate), ("NONE", b"\x01", "Stable"))


@test("testJoinGroupFromUnchangedLeaderShouldRebalance")
def _(v):
    c = Classic(v)
    leader = c.stable()
    h = c.ask(leader.member_id)
    same((c.code(h), c.got(h).generation_id), ("NONE", leader.generation_id + 1))


@test("testGenerationIdIncrementsOnRebalance")
def _(v):
    c = Classic(v)
    same(c.got(c.ask(c.stable().member_id)).generation_id, 2)


@test("testJoinGroupCompletionWhenPendingMemberJoins")
def _(v):
    c = Classic(v)
    _, _, pending = c.with_pending()
    h = c.ask(pending)
    same(
        (c.code(h), c.gstate, len(c.cg.members), len(c.cg.pending_join)),
        ("NONE", "CompletingRebalance", 3, 0),
    )


@test("testJoinGroupCompletionWhenPendingMemberTimesOut")
def _(v):
    c = Classic(v)
    c.with_pending()
    c.sleep(3000)
    same((c.gstate, len(c.cg.members), len(c.cg.pending_join)), ("CompletingRebalance", 2, 0))


# -- static members -----------------------------------------------------------------------------


@test("testStaticMemberRejoinWithUnknownMemberIdAndChangeOfProtocolWhileSelectProtocolUnchanged")
def _(v):
    c = Classic(v)
    leader, follower = c.static_pair()
    h = c.ask(
        instance="follower-instance-id", protos=(c.cg.select_protocol(),), known=True, skip=True
    )
    same(c.records, ["classic gen 1 2 members"])
    answer = c.got(h)
    same(
        (
            answer.error_code.name,
            answer.generation_id,
            answer.leader,
            answer.protocol_name,
            answer.skip_assignment,
            answer.members,
            c.gstate,
        ),
        ("NONE", 1, leader, "range", False, (), "Stable"),
    )
    new = answer.member_id
    same(new == follower, False)
    same(
        c.code(c.ask(follower, instance="follower-instance-id", protos=("range",))),
        "FENCED_INSTANCE_ID",
    )
    same(c.code(c.put(follower, 1, instance="follower-instance-id")), "FENCED_INSTANCE_ID")
    answer = c.got(c.put(new, 1, instance="follower-instance-id"))
    same((answer.error_code.name, answer.assignment), ("NONE", b"\x02"))


@test("testStaticMemberRejoinWithKnownLeaderIdToTriggerRebalanceAndFollowerWithChangeofProtocol")
def _(v):
    c = Classic(v)
    leader, follower = c.static_pair()
    times = dict(rebalance=10000, session=5000, known=True, skip=True)
    a = c.ask(leader, instance="leader-instance-id", protos=SUPERSET, **times)
    same(c.done(a), [False])
    b = c.ask(follower, instance="follower-instance-id", protos=SUPERSET, **times)
    same(
        (c.code(a), c.code(b), c.gstate, c.cg.generation_id),
        ("NONE", "NONE", "CompletingRebalance", 2),
    )
    same(
        (
            c.got(a).leader,
            c.got(a).skip_assignment,
            {m.group_instance_id for m in c.got(a).members},
            c.got(b).members,
        ),
        (leader, False, {"leader-instance-id", "follower-instance-id"}, ()),
    )
    d = c.ask(follower, instance="follower-instance-id", protos=("range",), **times)
    same((c.done(d), c.gstate), ([False], "PreparingRebalance"))
    c.sleep(5000)
    answer = c.got(d)
    same(
        (
            answer.leader == answer.member_id,
            answer.protocol_name,
            {m.group_instance_id for m in answer.members},
            c.gstate,
        ),
        (True, "range", {"follower-instance-id"}, "CompletingRebalance"),
    )


@test("testStaticMemberRejoinAsFollowerWithUnknownMemberId")
def _(v):
    c = Classic(v)
    leader, follower = c.static_pair()
    h = c.ask(instance="follower-instance-id", protos=SUPERSET, known=True, skip=True)
    same(c.records, ["classic gen 1 2 members"])
    answer = c.got(h)
    same(
        (
            answer.error_code.name,
            answer.leader,
            answer.skip_assignment,
            answer.members,
            c.gstate,
            answer.member_id != follower,
        ),
        ("NONE", leader, False, (), "Stable", True),
    )
    answer = c.got(c.put(answer.member_id, 1, instance="follower-instance-id"))
    same((answer.error_code.name, answer.assignment), ("NONE", b"\x02"))


@test("testStaticMemberRejoinAsFollowerWithMismatchedInstanceId")
def _(v):
    c = Classic(v)
    _leader, follower = c.static_pair()
    same(
        c.code(
            c.ask(follower, instance="leader-instance-id", protos=SUPERSET, known=True, skip=True)
        ),
        "FENCED_INSTANCE_ID",
    )


@test("testStaticMemberRejoinAsLeaderWithMismatchedInstanceId")
def _(v):
    c = Classic(v)
    leader, _follower = c.static_pair()
    same(
        c.code(
            c.ask(leader, instance="follower-instance-id", protos=SUPERSET, known=True, skip=True)
        ),
        "FENCED_INSTANCE_ID",
    )


@test("testStaticMemberSyncAsLeaderWithInvalidMemberId")
def _(v):
    c = Classic(v)
    c.static_pair()
    same(c.code(c.put("invalid", 1, instance="leader-instance-id")), "FENCED_INSTANCE_ID")


@test("testStaticMemberHeartbeatLeaderWithInvalidMemberId")
def _(v):
    c = Classic(v)
    leader, _follower = c.static_pair()
    same(c.code(c.put(leader, 1, instance="leader-instance-id")), "NONE")
    same(c.live(leader, 1), "NONE")
    same(c.live("invalid-member-id", 1, instance="leader-instance-id"), "FENCED_INSTANCE_ID")


@test("testGetDifferentStaticMemberIdAfterEachRejoin")
def _(v):
    c = Classic(v)
    leader, _follower = c.static_pair()
    last = leader
    for _ in range(5):
        h = c.ask(instance="leader-instance-id", protos=SUPERSET, known=True, skip=True)
        same(c.got(h).member_id != last, True)
        last = c.got(h).member_id


@test("testStaticMemberJoinWithUnknownInstanceIdAndKnownMemberId")
def _(v):
    c = Classic(v)
    leader, _follower = c.static_pair()
    same(
        c.code(
            c.ask(leader, instance="unknown-instance-id", protos=("range",), known=True, skip=True)
        ),
        "UNKNOWN_MEMBER_ID",
    )


# -- heartbeats ---------------------------------------------------------------------------------


@test("testHeartbeatUnknownGroup")
def _(v):
    same(Classic(v, create=False).live("member-id", -1), "UNKNOWN_MEMBER_ID")


@test("testHeartbeatUnknownMemberExistingGroup")
def _(v):
    c = Classic(v)
    same(c.live("unknown-member-id", c.stable().generation_id), "UNKNOWN_MEMBER_ID")


@test("testHeartbeatDuringPreparingRebalance")
def _(v):
    c = Classic(v)
    m = c.got(c.ask(known=True)).member_id
    c.ask(m)
    same((c.gstate, c.live(m, 0)), ("PreparingRebalance", "REBALANCE_IN_PROGRESS"))


@test("testHeartbeatDuringCompletingRebalance")
def _(v):
    c = Classic(v)
    m = c.dynamic()
    same((m.generation_id, c.gstate, c.live(m.member_id, 1)), (1, "CompletingRebalance", "NONE"))


@test("testHeartbeatIllegalGeneration")
def _(v):
    c = Classic(v)
    m = c.stable()
    same(c.live(m.member_id, m.generation_id + 1), "ILLEGAL_GENERATION")


@test("testValidHeartbeat")
def _(v):
    c = Classic(v)
    m = c.stable()
    same(c.live(m.member_id, m.generation_id), "NONE")


@test("testClassicGroupMemberSessionTimeout")
def _(v):
    c = Classic(v)
    m = c.stable()
    same(c.sleep(5000), ["classic gen 2 0 members"])
    same(c.live(m.member_id, m.generation_id), "UNKNOWN_MEMBER_ID")


@test("testClassicGroupMemberHeartbeatMaintainsSession")
def _(v):
    c = Classic(v)
    m = c.stable()
    for _ in range(2):
        c.sleep(2500)
        same(c.live(m.member_id, 1), "NONE")


@test("testClassicGroupMemberSessionTimeoutDuringRebalance")
def _(v):
    c = Classic(v)
    m = c.stable()
    h = c.ask(rebalance=10000, session=5000)
    same((c.done(h), c.gstate), ([False], "PreparingRebalance"))
    c.sleep(2500)
    same(c.live(m.member_id, 1), "REBALANCE_IN_PROGRESS")
    c.sleep(5000)
    same(c.live(m.member_id, 1), "UNKNOWN_MEMBER_ID")
    c.sleep(2500)
    same(
        (c.code(h), len(c.cg.members), c.cg.generation_id, c.gstate),
        ("NONE", 1, 2, "CompletingRebalance"),
    )


@test("testRebalanceCompletesBeforeMemberJoins")
def _(v):
    c = Classic(v)
    first = c.completes(
        instance="leader-instance-id", known=True, skip=True, rebalance=10000, session=5000
    ).member_id
    same((c.code(c.put(first, 1)), c.gstate), ("NONE", "Stable"))
    h = c.ask(rebalance=10000, session=2500)
    same((c.done(h), c.gstate), ([False], "PreparingRebalance"))
    for _ in range(2):
        c.sleep(2500)
        same(c.live(first, 1), "REBALANCE_IN_PROGRESS")
    c.sleep(8000)
    same(
        (c.code(h), len(c.cg.members), c.cg.generation_id, c.gstate),
        ("NONE", 2, 2, "CompletingRebalance"),
    )
    other = c.got(h).member_id
    same((c.code(c.put(other, 2)), c.gstate), ("NONE", "Stable"))
    same(c.live(first, 1), "ILLEGAL_GENERATION")
    for expected in ("NONE", "NONE", "REBALANCE_IN_PROGRESS"):
        c.sleep(2000)
        same(c.live(other, 2), expected)
    same((len(c.cg.members), c.gstate), (1, "PreparingRebalance"))
    h = c.ask(other, rebalance=10000, session=2500)
    same((c.code(h), c.got(h).generation_id, c.gstate), ("NONE", 3, "CompletingRebalance"))
    same((c.code(c.put(other, 3)), c.gstate), ("NONE", "Stable"))
    for _ in range(20):
        c.sleep(2000)
        same(c.live(other, 3), "NONE")


@test("testSecondMemberPartiallyJoinAndTimeout")
def _(v):
    c = Classic(v)
    first = c.completes(
        instance="leader-instance-id", known=True, skip=True, rebalance=10000, session=5000
    ).member_id
    c.put(first, 1)
    h = c.ask(rebalance=10000, session=5000, known=True, skip=True)
    same((c.code(h), len(c.cg.pending_join), c.gstate), ("MEMBER_ID_REQUIRED", 1, "Stable"))
    for _ in range(2):
        c.sleep(2500)
        same(c.live(first, 1), "NONE")
    same(
        (list(c.cg.members), c.cg.generation_id, c.gstate, len(c.cg.pending_join)),
        ([first], 1, "Stable", 0),
    )


# -- the deadline for syncs ---------------------------------------------------------------------


def three(v):
    c = Classic(v)
    members = c.n_members(3, 5000, 5000)
    c.sleep(2500)
    for m in members:
        same(c.live(m.member_id, 1), "NONE")
    return c, [m.member_id for m in members]


@test("testRebalanceTimesOutWhenSyncRequestIsNotReceived")
def _(v):
    c, ids = three(v)
    same(c.sleep(2500), ["classic gen 2 0 members"])
    same([c.live(m, 1) for m in ids], ["UNKNOWN_MEMBER_ID"] * 3)
    same(c.gstate, "Empty")


@test("testRebalanceTimesOutWhenSyncRequestIsNotReceivedFromFollowers")
def _(v):
    c, ids = three(v)
    same((c.code(c.put(ids[0], 1)), c.gstate, c.live(ids[0], 1)), ("NONE", "Stable", "NONE"))
    same(c.sleep(2500), [])
    same(
        [c.live(m, 1) for m in ids],
        ["REBALANCE_IN_PROGRESS", "UNKNOWN_MEMBER_ID", "UNKNOWN_MEMBER_ID"],
    )
    same(c.gstate, "PreparingRebalance")


@test("testRebalanceTimesOutWhenSyncRequestIsNotReceivedFromLeaders")
def _(v):
    c, ids = three(v)
    handles = [c.put(m, 1) for m in ids[1:]]
    same(c.done(*handles), [False, False])
    same(c.sleep(2500), [])
    same([c.code(h) for h in handles], ["REBALANCE_IN_PROGRESS"] * 2)
    same(
        [c.live(m, 1) for m in ids],
        ["UNKNOWN_MEMBER_ID", "REBALANCE_IN_PROGRESS", "REBALANCE_IN_PROGRESS"],
    )
    same(c.gstate, "PreparingRebalance")


@test("testRebalanceDoesNotTimeOutWhenAllSyncAreReceived")
def _(v):
    c, ids = three(v)
    for i, m in enumerate(ids):
        h = c.put(m, 1)
        same((c.code(h), len(c.records)), ("NONE", 1 if i == 0 else 0))
    for _ in range(2):
        c.sleep(2500)
        same([c.live(m, 1) for m in ids], ["NONE"] * 3)
    same(c.gstate, "Stable")


@test("testHeartbeatDuringRebalanceCausesRebalanceInProgress")
def _(v):
    c = Classic(v)
    m = c.dynamic(rebalance=10000, session=5000)
    h = c.ask(rebalance=10000, session=5000)
    same((c.done(h), c.live(m.member_id, 1)), ([False], "REBALANCE_IN_PROGRESS"))


# -- leaving ------------------------------------------------------------------------------------


@test("testGroupStuckInRebalanceTimeoutDueToNonjoinedStaticMember")
def _(v):
    c = Classic(v)
    leader, follower = c.static_pair(rebalance=5000, session=10000)
    h = c.ask(protos=SUPERSET, session=10000)
    c.sleep(5000)
    answer = c.got(h)
    same(
        (
            answer.error_code.name,
            answer.leader == answer.member_id,
            len(answer.members),
            answer.generation_id,
            c.gstate,
        ),
        ("NONE", True, 3, 2, "CompletingRebalance"),
    )
    same(set(c.cg.members), {leader, follower, answer.member_id})
    same(c.leave((follower, "follower-instance-id")), [(follower, "follower-instance-id", "NONE")])
    same(c.gstate, "PreparingRebalance")
    c.sleep(5000)
    same((set(c.cg.members), c.cg.generation_id, c.gstate), ({leader}, 2, "PreparingRebalance"))


@test("testPendingMembersLeaveGroup")
def _(v):
    c = Classic(v)
    _, _, pending = c.with_pending()
    same((c.leave(pending), c.records), ([(pending, None, "NONE")], []))
    same((c.gstate, len(c.cg.members), len(c.cg.pending_join)), ("CompletingRebalance", 2, 0))


@test("testLeaveGroupInvalidGroup")
def _(v):
    c = Classic(v)
    # UnknownMemberIdException of the core; the service answers entry by entry, and there is none.
    same(c.leave(group="invalid-group-id"), [])


@test("testLeaveGroupUnknownGroup")
def _(v):
    same(
        Classic(v, create=False).leave("member-id", group="unknown-group-id"),
        [("member-id", None, "UNKNOWN_MEMBER_ID")],
    )


@test("testLeaveGroupUnknownMemberIdExistingGroup")
def _(v):
    c = Classic(v)
    c.dynamic()
    same(
        (c.leave("unknown-member-id"), c.records),
        ([("unknown-member-id", None, "UNKNOWN_MEMBER_ID")], []),
    )


@test("testValidLeaveGroup")
def _(v):
    c = Classic(v)
    m = c.dynamic().member_id
    same((c.leave(m), c.records), ([(m, None, "NONE")], ["classic gen 2 0 members"]))
    same((c.gstate, c.cg.generation_id), ("Empty", 2))


@test("testLeaveGroupWithFencedInstanceId")
def _(v):
    c = Classic(v)
    c.completes(instance="group-instance-id", known=True, skip=True)
    same(
        (c.leave(("other-member-id", "group-instance-id")), c.records),
        ([("other-member-id", "group-instance-id", "FENCED_INSTANCE_ID")], []),
    )


@test("testLeaveGroupStaticMemberWithUnknownMemberId")
def _(v):
    c = Classic(v)
    c.completes(instance="group-instance-id", known=True, skip=True)
    same(c.leave(("", "group-instance-id")), [("", "group-instance-id", "NONE")])


LI, FI = "leader-instance-id", "follower-instance-id"
for method, members, expected in (
    (
        "testStaticMembersValidBatchLeaveGroup",
        (("", LI), ("", FI)),
        [("", LI, "NONE"), ("", FI, "NONE")],
    ),
    (
        "testStaticMembersFencedInstanceBatchLeaveGroup",
        (("", LI), ("invalid-member-id", FI)),
        [("", LI, "NONE"), ("invalid-member-id", FI, "FENCED_INSTANCE_ID")],
    ),
    (
        "testStaticMembersUnknownInstanceBatchLeaveGroup",
        (("", "unknown-instance-id"), ("", FI)),
        [("", "unknown-instance-id", "UNKNOWN_MEMBER_ID"), ("", FI, "NONE")],
    ),
):

    def _batch(v, members=members, expected=expected):
        c = Classic(v)
        c.static_pair()
        same(c.leave(*members), expected)

    test(method)(_batch)


@test("testStaticMembersLeaveUnknownGroup")
def _(v):
    c = Classic(v)
    c.static_pair()
    same(
        c.leave(("", LI), ("", FI), group="invalid-group-id"),
        [("", LI, "UNKNOWN_MEMBER_ID"), ("", FI, "UNKNOWN_MEMBER_ID")],
    )


@test("testPendingMemberBatchLeaveGroup")
def _(v):
    c = Classic(v)
    _, _, pending = c.with_pending()
    same(
        c.leave(("", "unknown-instance-id"), pending),
        [("", "unknown-instance-id", "UNKNOWN_MEMBER_ID"), (pending, None, "NONE")],
    )


@test("testJoinedMemberPendingMemberBatchLeaveGroup")
def _(v):
    c = Classic(v)
    ids = c.with_pending()
    same(c.leave(*ids), [(i, None, "NONE") for i in ids])


@test("testJoinedMemberPendingMemberBatchLeaveGroupWithUnknownMember")
def _(v):
    c = Classic(v)
    ids = c.with_pending()
    same(
        c.leave(*ids, "unknown-member-id"),
        [*((i, None, "NONE") for i in ids), ("unknown-member-id", None, "UNKNOWN_MEMBER_ID")],
    )


# -- loading ------------------------------------------------------------------------------------


def loaded(v, n, session=4000, **config):
    c = Classic(v, create=False, **config)
    c.replay(
        GroupMetadata(
            GID,
            value(
                [
                    member_value(
                        f"member-{i}",
                        instance=f"group-instance-id-{i}",
                        session=session,
                        rebalance=9000,
                    )
                    for i in range(n)
                ],
                generation=1,
                leader="member-0",
            ),
        )
    )
    c.shard.take(Outcome(timers=c.coordinator.on_loaded(now_ms=c.shard.now_ms)))
    return c


@test("testOnLoadedExceedGroupMaxSizeTriggersRebalance")
def _(v):
    c = loaded(v, 2, group_max_size=1)
    same((c.gstate, len(c.cg.members)), ("PreparingRebalance", 2))


@test("testOnLoadedSchedulesClassicGroupMemberHeartbeats")
def _(v):
    c = loaded(v, 2)
    same([c.due("classic-session", f"member-{i}") for i in range(2)], [4000, 4000])


# -- what cannot be said ------------------------------------------------------------------------

for _method in (
    "testJoinGroupUnknownConsumerNewDeadGroup",
    "testExistingMemberJoinDeadGroup",
    "testHeartbeatDeadGroup",
    "testLeaveDeadGroup",
    "testCompleteJoinPhaseInEmptyStateSkipsRebalance",
):
    cannot(
        C,
        _method,
        "sets the state Dead by hand; the model has Dead after an unload only, when nothing is sent any more",
    )
cannot(C, "testJoinGroupExistingMemberInEmptyState", "sets Empty by hand in a group with a member")
cannot(C, "testHeartbeatEmptyGroup", "adds a member by hand to an Empty group")
cannot(
    C,
    "testJoinGroupExistingPendingMemberWithGroupInstanceIdThrowsException",
    "expects a Java IllegalStateException; the model answers UNKNOWN_SERVER_ERROR, which is what a broker makes of it",
)
cannot(
    C,
    "testSyncGroupAsLeaderAppendFailureTransformsError",
    "needs a host whose append fails (write_failed exists, Shard has no such way)",
)
cannot(
    C, "testUpdateClassicGroupSizeCounter", "a metric of the broker, not of the coordinator core"
)
