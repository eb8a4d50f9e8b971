"""ConsumerMembershipManagerTest: the state of a member of the asynchronous consumer.

Facts from apache/kafka 1eb7644349cb (2024-10-25), clients/src/test/.../consumer/internals. The model
(kafka-clients 4.3.1) sends a heartbeat in the same step in which it becomes due, so "the heartbeat is
generated" of Kafka's tests is no step of its own here: ACKNOWLEDGING and LEAVING are seen among the
changes of state, not afterwards.
"""

from __future__ import annotations

from _member import INTERVAL, Client, asks, calls, commits, raised, returned, sends, states
from peer import add, cannot, same, tps

from rebalance_sim.protocol.clients.common.events import Tick
from rebalance_sim.protocol.clients.common.values import NO_ASSIGNMENT

C = "ConsumerMembershipManagerTest"
V = "client"
T = "topic1"


def t(*numbers, topic=T):
    return f"{topic}:" + ",".join(map(str, numbers)) if numbers else ""


def test(method, variant=""):
    def keep(function):
        add(C, method, function, variant, V)
        return function

    return keep


def quiet(**settings):
    return Client(listener=False, **settings)


def unresolved(c, *topics):
    """The target waits for names: RECONCILING, or in the ack that follows it again and again."""
    same(
        (c.state in ("RECONCILING", "ACKNOWLEDGING"), c.awaiting), (True, set(topics)), "unresolved"
    )


# --- joining, identity -----------------------------------------------------------------------------

for name in (None, "Uniform"):

    @test("testMembershipManagerServerAssignor", str(name))
    def _(name=name):
        same(quiet(group_remote_assignor=name).join().last.server_assignor, name)


@test("testMembershipManagerInitSupportsEmptyGroupInstanceId")
def _():
    same(quiet().join().last.instance_id, None)


@test("testReconcilingWhenReceivingAssignmentFoundInMetadata")
def _():
    c = quiet().join()
    c.answer(t(0))
    same(c.state, "RECONCILING")
    same(states(c.poll()), ["ACKNOWLEDGING", "STABLE"])
    same(c.last.topic_partitions, tps(t(0)))


@test("testTransitionToReconcilingIfEmptyAssignmentReceived")
def _():
    c = quiet().join()
    c.answer("")
    same(c.state, "RECONCILING")
    c.target(t(0))
    same(c.state, "RECONCILING")


@test("testMemberIdAndEpochResetOnFencedMembers")
def _():
    c = quiet().stable(t(0), epoch=1)
    same((c.m.member_id, c.m.member_epoch), ("m", 1))
    c.beat()
    c.refuse("FENCED_MEMBER_EPOCH")
    same((c.m.member_id, c.m.member_epoch), ("m", 0))


@test("testTransitionToFatal")
def _():
    c = quiet().stable(t(0))
    c.beat()
    c.refuse("GROUP_MAX_SIZE_REACHED")
    same((c.state, c.owned, c.m.member_id, c.m.member_epoch), ("FATAL", frozenset(), "m", 1))
    same(returned(c.unsubscribe()), True, "unsubscribe returns")
    same((c.state, c.m.has_subscription), ("FATAL", False))


@test("testTransitionToFailedWhenTryingToJoin")
def _():
    c = quiet().join()
    c.refuse("GROUP_MAX_SIZE_REACHED")
    same((c.state, c.owned), ("FATAL", frozenset()))


@test("testListenersGetNotifiedOnTransitionsToFatal")
def _():
    c = quiet().stable()
    same(c.m.commit_identity, ("m", 1))
    c.beat()
    c.refuse("GROUP_MAX_SIZE_REACHED")
    same((c.state, c.m.commit_identity), ("FATAL", None))


@test("testListenersGetNotifiedOnTransitionsToLeavingGroup")
def _():
    c = quiet().stable()
    c.unsubscribe()
    same((c.m.commit_identity, c.m.has_subscription), (None, False))


@test("testListenersGetNotifiedOfMemberEpochUpdatesOnlyIfItChanges", "what they are told")
def _():
    c = quiet().join()
    c.answer(None, epoch=5)
    same(c.m.commit_identity, ("m", 5))
    c.answer(None, epoch=5)
    same(c.m.commit_identity, ("m", 5))


# --- fencing ---------------------------------------------------------------------------------------

for code in ("FENCED_MEMBER_EPOCH", "UNKNOWN_MEMBER_ID"):

    @test("testFencingWhenStateIsStable", code)
    def _(code=code):
        c = quiet().stable(t(0))
        c.beat()
        out = c.refuse(code)
        same(states(out), ["FENCED", "JOINING"])
        same((c.m.member_id, c.m.member_epoch, c.owned), ("m", 0, frozenset()))

    @test("testFencingWhenStateIsReconciling", code)
    def _(code=code):
        c = quiet(names="").join()
        c.answer(t(0))
        c.poll()
        unresolved(c, T)
        if not c.m.heartbeats_in_flight:
            c.beat()
        c.refuse(code)
        same((c.state, c.m.member_id, c.m.member_epoch, c.owned), ("JOINING", "m", 0, frozenset()))


@test("testFencedWhenAssignmentEmpty")
def _():
    c = quiet().stable()
    c.beat()
    version = c.m.ownership_version
    c.refuse("FENCED_MEMBER_EPOCH")
    same((c.state, c.m.ownership_version), ("JOINING", version))


def leaving_in_callback():
    """PREPARE_LEAVING: onPartitionsRevoked of the leave runs, and a heartbeat is in flight."""
    c = Client().stable(t(0))
    c.beat()
    same(calls(c.unsubscribe()), [("onPartitionsRevoked", tps(t(0)))])
    same(c.state, "PREPARE_LEAVING")
    return c


@test("testFencingWhenStateIsPrepareLeaving")
def _():
    c = leaving_in_callback()
    c.refuse("FENCED_MEMBER_EPOCH")
    same((c.state, c.m.member_epoch, c.m.commit_identity), ("UNSUBSCRIBED", -1, None))
    out = c.done()
    same((c.state, calls(out), sends(out + c.sleep(3 * INTERVAL))), ("UNSUBSCRIBED", [], []))


@test("testFencingWhenStateIsPrepareLeavingCompletesTheLeaveOperation")
def _():
    c = leaving_in_callback()
    same(c.m.leave_is_pending, True)
    c.refuse("FENCED_MEMBER_EPOCH")
    same((c.state, c.m.leave_is_pending), ("UNSUBSCRIBED", False))
    same(returned(c.done()), True)


@test("testNewAssignmentIgnoredWhenStateIsPrepareLeaving")
def _():
    c = leaving_in_callback()
    before = c.m.target
    c.answer(t(0, 1))
    same((c.state, c.m.target, c.m.is_reconciling), ("PREPARE_LEAVING", before, False))
    same(states(c.done()), ["LEAVING", "UNSUBSCRIBED"])


@test("testLeaveGroupWhenMemberFenced")
def _():
    c = Client().stable(t(0))
    c.beat()
    c.refuse("FENCED_MEMBER_EPOCH")
    same(c.state, "FENCED")
    c.unsubscribe()
    same((c.state, c.m.leave_is_pending, c.owned), ("UNSUBSCRIBED", False, frozenset()))
    if c.m.running_callback:
        c.done()
    same((c.state, c.m.blocked_in), ("UNSUBSCRIBED", None))


for failed in (False, True):

    @test("testOnPartitionsLostError" if failed else "testOnPartitionsLostNoError")
    def _(failed=failed):
        c = Client().stable(t(0))
        c.beat()
        c.refuse("FENCED_MEMBER_EPOCH")
        same((c.state, sends(c.sleep(2 * INTERVAL))), ("FENCED", []))
        same(calls(c.poll()), [("onPartitionsLost", tps(t(0)))])
        out = c.done(failed=failed)
        same((c.m.current, c.state, calls(out)), (NO_ASSIGNMENT, "JOINING", []))


# --- leaving ---------------------------------------------------------------------------------------

for instance, epoch in (("instance1", -2), (None, -1)):

    @test("testLeaveGroupEpoch", str(instance))
    def _(instance=instance, epoch=epoch):
        c = quiet(group_instance_id=instance).stable()
        same(states(c.unsubscribe())[:2], ["PREPARE_LEAVING", "LEAVING"])
        same(c.last.member_epoch, epoch)


def leaves(c):
    """Releases what it has, keeps its id, says epoch -1, and waits for the answer."""
    out = c.unsubscribe()
    same(states(out), ["PREPARE_LEAVING", "LEAVING", "UNSUBSCRIBED"])
    same(returned(out), False, "unsubscribe waits for the answer")
    same((c.last.member_epoch, c.m.member_epoch, c.m.member_id), (-1, -1, "m"))
    same((c.m.current, c.owned), (NO_ASSIGNMENT, frozenset()))
    out = c.answer(None, epoch=-1)
    same((returned(out), c.state, c.m.member_id, c.m.member_epoch), (True, "UNSUBSCRIBED", "m", -1))


@test("testLeaveGroupWhenStateIsStable")
def _():
    leaves(quiet().stable(t(0)))


@test("testLeaveGroupWhenStateIsReconciling")
def _():
    c = quiet(names="").join()
    c.answer(t(0))
    same(c.state, "RECONCILING")
    leaves(c)


@test("testLeaveGroupWhenMemberOwnsAssignment")
def _():
    c = quiet().join()
    c.answer(t(0, 1))
    c.poll()
    same(c.current, tps(t(0, 1)))
    c.answer()
    leaves(c)


@test("testHeartbeatSuccessfulResponseWhenLeavingGroupCompletesLeave")
def _():
    c = quiet().stable(t(0))
    c.unsubscribe()
    same((c.state, c.m.blocked_in is None), ("UNSUBSCRIBED", False))
    same(returned(c.answer(t(0), epoch=-1)), True)
    same((c.state, c.m.member_epoch, c.m.current), ("UNSUBSCRIBED", -1, NO_ASSIGNMENT))


for how in ("COORDINATOR_LOAD_IN_PROGRESS", "disconnect", "timeout"):

    @test("testHeartbeatFailedResponseWhenLeavingGroupCompletesLeave", how)
    def _(how=how):
        c = quiet().stable(t(0))
        c.unsubscribe()
        out = c.lose() if how == "disconnect" else c.expire() if how == "timeout" else c.refuse(how)
        same(
            (returned(out), c.state, c.m.member_epoch, c.m.member_id, c.m.current),
            (True, "UNSUBSCRIBED", -1, "m", NO_ASSIGNMENT),
        )


@test("testIgnoreHeartbeatResponseWhenNotInGroup", "UNSUBSCRIBED")
def _():
    c = quiet().stable()
    c.beat()
    c.unsubscribe()
    c.answer(t(0), epoch=7, to=-2)
    same(
        (c.state, c.m.member_epoch, c.m.target, c.owned),
        ("UNSUBSCRIBED", -1, NO_ASSIGNMENT, frozenset()),
    )


@test("testIgnoreHeartbeatResponseWhenNotInGroup", "STALE")
def _():
    c = quiet(max_poll_interval_ms=2 * INTERVAL).stable()
    c.beat()
    c.now += 2 * INTERVAL
    c.tell(Tick())
    same((c.state, c.last.member_epoch), ("STALE", -1))
    c.answer(t(0), epoch=7, to=-2)
    same(
        (c.state, c.m.member_epoch, c.m.target, c.owned), ("STALE", -1, NO_ASSIGNMENT, frozenset())
    )


@test("testLeaveGroupWhenMemberAlreadyLeft")
def _():
    c = Client().stable(t(0))
    c.unsubscribe()
    c.done()
    c.answer(None, epoch=-1)
    out = c.unsubscribe()
    same((returned(out), c.state, calls(out), states(out)), (True, "UNSUBSCRIBED", [], []))


@test("testLeaveGroupWhenMemberIsStale")
def _():
    c = quiet(max_poll_interval_ms=INTERVAL).stable(t(0))
    c.sleep(INTERVAL)
    same(c.state, "STALE")
    same((returned(c.unsubscribe()), c.state, c.m.has_subscription), (True, "STALE", False))


# --- fatal errors ----------------------------------------------------------------------------------


@test("testFatalFailureWhenStateIsUnjoined")
def _():
    c = quiet().join()
    c.refuse("UNSUPPORTED_ASSIGNOR")
    same((c.state, c.m.member_id, c.m.member_epoch), ("FATAL", "m", 0))


@test("testFatalFailureWhenStateIsStable")
def _():
    c = quiet().stable(epoch=4)
    c.beat()
    c.refuse("UNRELEASED_INSTANCE_ID")
    same((c.state, c.m.member_id, c.m.member_epoch), ("FATAL", "m", 4))


@test("testFatalFailureWhenStateIsPrepareLeaving")
def _():
    c = leaving_in_callback()
    c.refuse("GROUP_MAX_SIZE_REACHED")
    same((c.state, c.m.member_id, c.m.member_epoch), ("FATAL", "m", 1))
    c.done()
    same((c.state, sends(c.sleep(3 * INTERVAL))), ("FATAL", []))


@test("testFatalFailureWhenMemberAlreadyLeft")
def _():
    c = Client().stable(t(0))
    c.unsubscribe()
    c.done()
    same(c.state, "UNSUBSCRIBED")
    out = c.refuse("GROUP_MAX_SIZE_REACHED")
    same((c.state, calls(out), returned(out)), ("FATAL", [], True))


# --- reconciliation --------------------------------------------------------------------------------


@test("testDelayedReconciliationResultDiscardedIfMemberNotInReconcilingStateAnymore")
def _():
    c = quiet(commit=True).stable(t(0), consumed=True)
    c.target("")
    c.poll()
    same((c.state, len(c.commits)), ("RECONCILING", 1))
    c.beat()
    c.refuse("GROUP_MAX_SIZE_REACHED")
    same(c.owned, frozenset())
    version = c.m.ownership_version
    out = c.answer_commit()
    same((c.state, c.m.ownership_version, states(out)), ("FATAL", version, []))


def discarded(c, assignment):
    """The old reconciliation is over and has done nothing; the next poll begins with the new one."""
    same(c.m.is_reconciling, False, "is_reconciling")
    same((c.state, c.m.target.partitions), ("RECONCILING", tps(assignment)))
    out = c.poll()
    same(c.m.is_reconciling or states(out)[:1] == ["ACKNOWLEDGING"], True, "a new one begins")


@test("testDelayedReconciliationResultDiscardedAfterCommitIfMemberRejoins")
def _():
    c = quiet(commit=True).stable(t(0), consumed=True)
    c.target(t(1, 2))
    c.poll()
    same((c.state, c.m.target.partitions, len(c.commits)), ("RECONCILING", tps(t(1, 2)), 1))
    c.beat()
    c.refuse("FENCED_MEMBER_EPOCH")
    same((c.state, c.m.member_epoch), ("JOINING", 0))
    c.answer(t(5), epoch=2)
    version = c.m.ownership_version
    out = c.answer_commit("UNKNOWN_MEMBER_ID")
    same((states(out), c.m.ownership_version), ([], version))
    discarded(c, t(5))


@test(
    "testDelayedReconciliationResultDiscardedAfterPartitionsRevokedCallbackIfMemberRejoins",
    "one application thread",
)
def _():
    c = Client().stable(t(0))
    c.target(t(1, 2))
    same(calls(c.poll()), [("onPartitionsRevoked", tps(t(0)))])
    c.beat()
    c.refuse("FENCED_MEMBER_EPOCH")
    same(calls(c.done()), [("onPartitionsLost", tps(t(0)))])
    same(states(c.done()), ["JOINING"])
    same((c.owned, c.last.topic_partitions, c.m.is_reconciling), (frozenset(), frozenset(), False))
    c.answer(t(5), epoch=2)
    discarded(c, t(5))


@test(
    "testDelayedReconciliationResultDiscardedAfterPartitionsAssignedCallbackIfMemberRejoins",
    "one application thread",
)
def _():
    c = Client().stable()
    c.target(t(1))
    same(calls(c.poll()), [("onPartitionsAssigned", tps(t(1)))])
    c.beat()
    c.refuse("FENCED_MEMBER_EPOCH")
    same(calls(c.done()), [("onPartitionsLost", tps(t(1)))])
    same(states(c.done()), ["JOINING"])
    c.answer(t(5), epoch=2)
    discarded(c, t(5))


@test("testSameAssignmentReconciledAgainWhenFenced")
def _():
    c = quiet(commit=True).stable(t(9), consumed=True)
    c.target(t(0, 1, 2))
    c.poll()
    same((c.state, len(c.commits)), ("RECONCILING", 1))
    c.beat()
    c.refuse("FENCED_MEMBER_EPOCH")
    same((c.state, c.m.current, c.owned), ("JOINING", NO_ASSIGNMENT, frozenset()))
    c.answer_commit("UNKNOWN_MEMBER_ID")
    same((c.state, c.m.current, c.owned), ("JOINING", NO_ASSIGNMENT, frozenset()))
    c.answer("", epoch=2)
    same(c.state, "RECONCILING")
    same(states(c.poll()), ["ACKNOWLEDGING", "STABLE"])
    same((c.current, c.last.topic_partitions), (frozenset(), frozenset()))


@test("testSameAssignmentReconciledAgainWithMissingTopic")
def _():
    first, second = "topic1:0 topic2:0", "topic1:0,1 topic2:0"
    c = quiet().stable()
    c.target(first)
    same(states(c.poll())[:2], ["ACKNOWLEDGING", "RECONCILING"])
    same((c.owned, c.current), (tps("topic1:0"), tps("topic1:0")))
    version = c.m.ownership_version
    c.answer(second)
    same((c.m.is_reconciling, c.awaiting, c.owned), (False, {"topic1", "topic2"}, tps("topic1:0")))
    out = c.target(first) + c.poll()
    same(("ACKNOWLEDGING" in states(out), c.m.is_reconciling), (True, False))
    same(
        ([e.request.topic_partitions for e in sends(out)][-1:], c.m.ownership_version),
        ([tps("topic1:0")], version),
    )
    same((c.owned, c.current, c.awaiting), (tps("topic1:0"), tps("topic1:0"), {"topic2"}))


@test("testDelayedReconciliationResultAppliedWhenTargetChangedWithMetadataUpdate")
def _():
    c = quiet(commit=True).stable(t(0), consumed=True)
    out = c.target("topic2:1,2") + c.poll()
    same((len(c.commits), bool(asks(out)), c.awaiting), (1, True, {"topic2"}))
    out = c.know("topic1 topic2")
    same((states(out), c.awaiting), ([], {"topic2"}))
    c.beat()
    out = c.answer_commit()
    same((c.owned, states(out)), (frozenset(), ["ACKNOWLEDGING"]))
    same(c.awaiting, {"topic2"})
    same(states(c.answer()), ["RECONCILING"])
    same(c.last.topic_partitions, frozenset())
    c.poll()
    same((c.owned, c.awaiting), (tps("topic2:1,2"), set()))


@test("testDelayedReconciliationResultAppliedWhenTargetChangedWithNewAssignment")
def _():
    c = quiet(commit=True, names="topic1 topic2").stable("topic1:9", consumed=True)
    c.target("topic1:0")
    c.poll()
    same(len(c.commits), 1)
    c.target("topic1:0 topic2:0")
    same((commits(c.poll()), c.state, c.awaiting), ([], "RECONCILING", {"topic1", "topic2"}))
    c.beat()
    same(states(c.answer_commit()), ["ACKNOWLEDGING"])
    same((c.current, c.awaiting), (tps("topic1:0"), {"topic2"}))
    same(states(c.answer()), ["RECONCILING"])
    same(states(c.poll())[:1], ["ACKNOWLEDGING"])
    same((c.owned, c.current), (tps("topic1:0 topic2:0"), tps("topic1:0 topic2:0")))


@test("testDelayedMetadataUsedToCompleteAssignment")
def _():
    c = quiet().stable(t(0))
    out = c.target("topic1:0 topic2:0") + c.poll()
    same(
        (states(out)[:3], bool(asks(out))), (["RECONCILING", "ACKNOWLEDGING", "RECONCILING"], True)
    )
    same((c.owned, c.awaiting, c.last.topic_partitions), (tps(t(0)), {"topic2"}, tps(t(0))))
    c.know("topic1 topic2")
    c.answer()
    c.poll()
    if c.state == "ACKNOWLEDGING":
        c.answer()
    same((c.owned, c.current, c.last.topic_partitions), (tps("topic1:0 topic2:0"),) * 3)


@test("testNewAssignmentReplacesPreviousOneWaitingOnMetadata")
def _():
    c = quiet(names="").join()
    c.answer("topic2:0")
    c.poll()
    unresolved(c, "topic2")
    c.know("topic1")
    c.target(t(0))
    out = c.poll()
    if c.m.state.value == "ACKNOWLEDGING":
        out += c.answer()
    same((states(out)[-2:], c.owned, c.awaiting), (["ACKNOWLEDGING", "STABLE"], tps(t(0)), set()))


@test("testNewEmptyAssignmentReplacesPreviousOneWaitingOnMetadata")
def _():
    c = quiet(names="").join()
    c.answer("topic2:0")
    c.poll()
    unresolved(c, "topic2")
    c.know("topic1")
    c.target("")
    c.poll()
    if c.m.heartbeats_in_flight and c.state == "ACKNOWLEDGING":
        c.answer()
    same((c.state, c.owned, c.awaiting), ("STABLE", frozenset(), set()))


@test("testNewAssignmentNotInMetadataReplacesPreviousOneWaitingOnMetadata")
def _():
    c = quiet(names="").join()
    c.answer("topic2:0")
    c.poll()
    c.target(t(0))
    c.poll()
    unresolved(c, T)
    same(c.owned, frozenset())


@test("testUnresolvedTargetAssignmentIsReconciledWhenMetadataReceived")
def _():
    c = quiet(names="").stable()
    c.target(t(1))
    unresolved(c, T)
    c.know("topic1")
    out = c.poll()
    while c.m.heartbeats_in_flight and c.awaiting:
        out += c.answer() + c.poll()
    same(("ACKNOWLEDGING" in states(out), c.owned, c.awaiting), (True, tps(t(1)), set()))


@test("testMemberKeepsUnresolvedAssignmentWaitingForMetadataUntilResolved")
def _():
    c = quiet().join()
    c.answer("topic1:0 topic2:1,3")
    out = c.poll()
    same(
        (states(out)[:2], bool(asks(c.all)), c.awaiting),
        (["ACKNOWLEDGING", "RECONCILING"], True, {"topic2"}),
    )
    version = c.m.ownership_version
    c.answer("topic1:0 topic2:1,3")
    unresolved(c, "topic2")
    same(c.m.ownership_version, version)


@test("testMetadataUpdatesReconcilesUnresolvedAssignments")
def _():
    c = quiet(names="").join()
    c.answer(t(0, 1))
    out = c.poll()
    unresolved(c, T)
    same((bool(asks(c.all)), c.owned), (True, frozenset()))
    c.know("topic1")
    out = c.answer() + c.poll()
    same(
        (c.owned, c.current, c.awaiting, "ACKNOWLEDGING" in states(out)),
        (tps(t(0, 1)), tps(t(0, 1)), set(), True),
    )


@test("testMetadataUpdatesRequestsAnotherUpdateIfNeeded")
def _():
    c = quiet(names="").join()
    c.answer(t(0, 1))
    c.poll()
    before = len(asks(c.all))
    unresolved(c, T)
    same(before >= 1, True)
    c.know("")
    c.sleep(200)
    c.answer()
    c.poll()
    same((c.awaiting, len(asks(c.all)) > before, c.owned), ({T}, True, frozenset()))


@test("testReconcileNewPartitionsAssignedWhenNoPartitionOwned")
def _():
    c = quiet().join()
    same(states(c.answer(t(0, 1))), ["RECONCILING"])
    same(
        (states(c.poll()), c.owned, c.current),
        (["ACKNOWLEDGING", "STABLE"], tps(t(0, 1)), tps(t(0, 1))),
    )


@test("testReconcileNewPartitionsAssignedWhenOtherPartitionsOwned")
def _():
    c = quiet().stable(t(0))
    c.target(t(0, 1, 2))
    same(
        (states(c.poll()), c.owned, c.current),
        (["ACKNOWLEDGING", "STABLE"], tps(t(0, 1, 2)), tps(t(0, 1, 2))),
    )


@test("testReconciliationSkippedWhenSameAssignmentReceived")
def _():
    c = quiet().stable(t(0, 1))
    version = c.m.ownership_version
    out = c.target(t(0, 1)) + c.poll()
    same((states(out), c.state, c.m.ownership_version), ([], "STABLE", version))


@test("testReconcilePartitionsRevokedNoAutoCommitNoCallbacks")
def _():
    c = quiet(commit=False).stable(t(0))
    out = c.target("") + c.poll()
    same(
        (states(out), c.owned, c.current, commits(out)),
        (["RECONCILING", "ACKNOWLEDGING", "STABLE"], frozenset(), frozenset(), []),
    )


for method, code in (
    ("testReconcilePartitionsRevokedWithSuccessfulAutoCommitNoCallbacks", "NONE"),
    (
        "testReconcilePartitionsRevokedWithFailedAutoCommitCompletesRevocationAnyway",
        "GROUP_AUTHORIZATION_FAILED",
    ),
    (
        "testReconcilePartitionsRevokedWithFailedAutoCommitCompletesRevocationAnyway",
        "FENCED_INSTANCE_ID",
    ),
):

    @test(method, "" if code == "NONE" else code)
    def _(code=code):
        c = quiet(commit=True).stable(t(0), consumed=True)
        c.target("")
        out = c.poll()
        same((len(commits(out)), c.state, c.owned), (1, "RECONCILING", tps(t(0))))
        same(c.m.assigned[next(iter(tps(t(0))))].pending_revocation, True, "marked")
        out = c.answer_commit(code)
        same(
            (states(out), c.owned, c.current, c.m.is_reconciling),
            (["ACKNOWLEDGING", "STABLE"], frozenset(), frozenset(), False),
        )


@test("testReconcileNewPartitionsAssignedAndRevoked")
def _():
    c = quiet().stable(t(0))
    c.target(t(1, 2))
    same(
        (states(c.poll())[:1], c.owned, c.current, c.m.is_reconciling),
        (["ACKNOWLEDGING"], tps(t(1, 2)), tps(t(1, 2)), False),
    )


@test("testRevokePartitionsUsesTopicNamesLocalCacheWhenMetadataNotAvailable")
def _():
    c = quiet().stable(t(0, 1))
    c.know("")
    before = len(asks(c.all))
    c.target(t(1))
    out = c.poll()
    same(
        (states(out)[:1], c.owned, c.current, len(asks(c.all)) - before),
        (["ACKNOWLEDGING"], tps(t(1)), tps(t(1)), 0),
    )


# --- subscription ----------------------------------------------------------------------------------


@test("testOnSubscriptionUpdatedDoesNotTransitionToJoiningIfInGroup")
def _():
    c = quiet().stable()
    c.topics = "topic1"
    out = c.subscribe() + c.poll()
    same((states(out), c.state), ([], "STABLE"))


@test("testOnSubscriptionUpdatedTransitionsToJoiningOnPollIfNotInGroup")
def _():
    c = quiet()
    c.subscribe()
    c.tell(Tick())
    same(c.state, "UNSUBSCRIBED")
    same(states(c.poll()), ["JOINING"])


# --- callbacks -------------------------------------------------------------------------------------


@test("testListenerCallbacksBasic")
def _():
    c = Client().stable()
    same(calls(c.target(t(0, 1))), [])
    out = c.poll()
    same(
        (calls(out), c.state, c.m.is_reconciling),
        ([("onPartitionsAssigned", tps(t(0, 1)))], "RECONCILING", True),
    )
    out = c.done()
    same(
        (states(out), c.m.is_reconciling, c.current),
        (["ACKNOWLEDGING", "STABLE"], False, tps(t(0, 1))),
    )
    c.target("")
    out = c.poll()
    same(
        (calls(out), c.state, c.m.is_reconciling),
        ([("onPartitionsRevoked", tps(t(0, 1)))], "RECONCILING", True),
    )
    out = c.done()
    same((calls(out), c.m.is_reconciling), ([("onPartitionsAssigned", frozenset())], True))
    out = c.done()
    same((states(out), c.m.is_reconciling, calls(out)), (["ACKNOWLEDGING", "STABLE"], False, []))


@test("testListenerCallbacksThrowsErrorOnPartitionsRevoked")
def _():
    c = Client().stable(t(0))
    c.target("")
    same(calls(c.poll()), [("onPartitionsRevoked", tps(t(0)))])
    same((c.current, c.m.is_reconciling), (tps(t(0)), True))
    out = c.done(failed=True)
    same((c.m.is_reconciling, c.state, calls(out), states(out)), (False, "RECONCILING", [], []))
    same((raised(out), states(c.sleep(INTERVAL)), c.state), ([None], [], "RECONCILING"))


@test("testListenerCallbacksThrowsErrorOnPartitionsAssigned")
def _():
    c = Client().stable(t(0))
    c.target("")
    same(calls(c.poll()), [("onPartitionsRevoked", tps(t(0)))])
    same(calls(c.done()), [("onPartitionsAssigned", frozenset())])
    out = c.done(failed=True)
    same((c.m.is_reconciling, c.state, states(out), calls(out)), (False, "RECONCILING", [], []))


@test("testAddedPartitionsTemporarilyDisabledAwaitingOnPartitionsAssignedCallback")
def _():
    c = Client().stable(t(0))
    c.target(t(0, 1))
    c.poll()
    waits = {p.partition: s.awaiting_assigned_callback for p, s in c.m.assigned.items()}
    same(waits, {0: False, 1: True})
    c.done()
    same(
        {p.partition: s.awaiting_assigned_callback for p, s in c.m.assigned.items()},
        {0: False, 1: False},
    )


@test("testAddedPartitionsNotEnabledAfterFailedOnPartitionsAssignedCallback")
def _():
    c = Client().stable(t(0))
    c.target(t(0, 1))
    c.poll()
    c.done(failed=True)
    same(
        {p.partition: s.awaiting_assigned_callback for p, s in c.m.assigned.items()},
        {0: False, 1: True},
    )


@test("testMemberJoiningTransitionsToStableWhenReceivingEmptyAssignment")
def _():
    c = quiet().join()
    c.answer("")
    same((states(c.poll()), c.state), (["ACKNOWLEDGING", "STABLE"], "STABLE"))


@test("testMemberJoiningCallsRebalanceListenerWhenReceivingEmptyAssignment")
def _():
    c = Client().join()
    c.answer("")
    same((c.state, calls(c.all)), ("RECONCILING", []))
    same(calls(c.poll()), [("onPartitionsAssigned", frozenset())])
    c.done()
    same(len(calls(c.all)), 1)


# --- poll timer ------------------------------------------------------------------------------------


def goes_stale(c, state):
    same(c.state, state)
    c.now += c.m.config.max_poll_interval_ms
    out = c.tell(Tick())
    same(states(out)[-3:], ["PREPARE_LEAVING", "LEAVING", "STALE"])
    same(
        (c.m.current, c.owned, c.m.member_epoch, c.last.member_epoch),
        (NO_ASSIGNMENT, frozenset(), -1, -1),
    )
    same((c.m.has_subscription, sends(c.sleep(5 * INTERVAL))), (True, []))
    return c


@test("testTransitionToLeavingWhileReconcilingDueToStaleMember")
def _():
    c = quiet(names="", max_poll_interval_ms=5 * INTERVAL).join()
    c.answer(t(0))
    goes_stale(c, "RECONCILING")


@test("testTransitionToLeavingWhileJoiningDueToStaleMember")
def _():
    goes_stale(quiet(max_poll_interval_ms=5 * INTERVAL).join(), "JOINING")


@test("testTransitionToLeavingWhileStableDueToStaleMember")
def _():
    goes_stale(quiet(max_poll_interval_ms=5 * INTERVAL).stable(), "STABLE")


@test("testTransitionToLeavingWhileAcknowledgingDueToStaleMember")
def _():
    c = quiet(max_poll_interval_ms=5 * INTERVAL).join()
    c.answer(t(0))
    if not c.m.heartbeats_in_flight:
        c.beat()  # in flight, so that the ack has to wait
    c.poll()
    goes_stale(c, "ACKNOWLEDGING")


@test("testStaleMemberDoesNotSendHeartbeatAndAllowsTransitionToJoiningToRecover")
def _():
    c = goes_stale(quiet(max_poll_interval_ms=INTERVAL).stable(), "STABLE")
    same(states(c.poll())[:1], ["JOINING"])


@test("testStaleMemberRejoinsWhenTimerResetsNoCallbacks")
def _():
    c = goes_stale(quiet(max_poll_interval_ms=INTERVAL).stable(t(0)), "STABLE")
    c.poll()
    same((c.state, c.last.member_epoch), ("JOINING", 0))


@test("testStaleMemberWaitsForCallbackToRejoinWhenTimerReset")
def _():
    c = Client(max_poll_interval_ms=INTERVAL).stable(t(0))
    c.sleep(INTERVAL)
    same(c.state, "STALE")
    same(calls(c.poll()), [("onPartitionsLost", tps(t(0)))])
    same((c.state, c.owned), ("STALE", tps(t(0))))
    out = c.done()
    out += c.poll()
    same((c.state, c.owned, "JOINING" in states(out)), ("JOINING", frozenset(), True))


cannot(
    C,
    "testFencingWhenStateIsLeaving",
    "LEAVING lasts no time: the leave goes out in the same step, as in the client's one network loop",
)
cannot(C, "testFatalFailureWhenStateIsLeaving", "the same")
cannot(
    C,
    "testLeaveGroupWhenMemberAlreadyLeaving",
    "the application is blocked in unsubscribe, so it cannot call it again",
)
cannot(
    C,
    "testIgnoreHeartbeatResponseWhenNotInGroup[FENCED, FATAL]",
    "no heartbeat can be in flight then: the only one has brought the error",
)
cannot(
    C,
    "testUpdateStateFailsOnResponsesWithErrors",
    "the model has one entry for answers, good or bad",
)
cannot(C, "testMetricsWhenHeartbeatFailed", "metrics are no part of the protocol model")
cannot(C, "testRebalanceMetricsOnSuccessfulRebalance", "the same")
cannot(C, "testRebalanceMetricsForMultipleReconciliations", "the same")
cannot(C, "testRebalanceMetricsOnFailedRebalance", "the same")
cannot(C, "testMemberIdInfoForLogs", "logs")
