"""SubscriptionStateTest, ConsumerMembershipManagerTest, AsyncKafkaConsumerTest: what is fetched.

Facts from Kafka 4.3.1, clients test sources. A partition counts as fetchable where ``isFetchable``
of the test says so; whether records are buffered is no part of a member.
"""

from __future__ import annotations

from _member import Client, S, calls
from peer import add, cannot, explain, same, tps

from rebalance_sim.protocol.clients.common.events import CommitOffsets, Subscribe

STATE, MANAGER, CONSUMER = (
    "SubscriptionStateTest",
    "ConsumerMembershipManagerTest",
    "AsyncKafkaConsumerTest",
)
V = "client"


def test(cls, method, variant=""):
    def register(function):
        add(cls, method, function, variant, V)
        return function

    return register


def consuming(owned="topic1:0,1", **settings):
    c = Client(topics="topic1", **settings).stable(owned, consumed=True)
    same(c.m.fetchable, tps(owned))
    return c


# -- the list of topics -----------------------------------------------------------------------------


@test(STATE, "testIsFetchableConsidersExplicitTopicSubscription")
def _():
    c = consuming("topic1:0", listener=False)
    c.tell(Subscribe(topic_names=frozenset({"topic2"}), has_listener=False))
    same((c.owned, c.m.fetchable), (tps("topic1:0"), frozenset()))
    c.subscribe()
    same(c.m.fetchable, tps("topic1:0"))
    c.unsubscribe()
    same((c.owned, c.m.fetchable), (frozenset(), frozenset()))


@test(STATE, "testIsFetchableOnAutoAssignment")
def _():
    consuming(listener=False)


@test(STATE, "testIsAssignedFromRe2j")
def _():
    c = consuming("topic1:0", listener=False)
    c.tell(Subscribe(topic_regex="t.*", has_listener=False))
    same(c.m.fetchable, tps("topic1:0"), "a pattern leaves what is assigned")


@test(STATE, "testMarkingPendingRevocation")
def _():
    c = consuming("topic1:0", listener=False)
    c.m.subscription.mark_pending_revocation(tps("topic1:0"))
    same((c.owned, c.m.subscription.fetchable), (tps("topic1:0"), frozenset()))


@test(STATE, "testMarkingPendingRevocationPreventsInitializingPosition")
def _():
    c = Client(topics="topic1", listener=False).stable("topic1:0")
    same(c.m.subscription.initializing, tps("topic1:0"))
    c.m.subscription.mark_pending_revocation(tps("topic1:0"))
    same(c.m.subscription.initializing, frozenset())


@test(STATE, "testAssignedPartitionsWithTopicIdsForRe2Pattern")
def _():
    c = Client(topics="topic1")
    c.tell(Subscribe(topic_regex="t.*"))
    c.sleep(0)
    c.found()
    c.poll()
    c.sleep(1)
    c.answer("topic1:0")
    c.poll()
    same((c.owned, c.m.fetchable), (tps("topic1:0"), frozenset()))
    c.done()
    c.consume("topic1:0")
    same(c.m.fetchable, tps("topic1:0"))


@test(STATE, "testSubscriptionPattern")
def _():
    c = Client(topics="topic1", listener=False)
    c.tell(Subscribe(topic_regex="t.*", has_listener=False))
    same((c.m.has_subscription, c.m.subscription.topic_regex), (True, "t.*"))
    c.unsubscribe()
    same((c.m.has_subscription, c.m.subscription.topic_regex), (False, None))


@test(STATE, "testSubscribeToRe2JPattern")
def _():
    c = Client(topics="topic1", listener=False)
    c.tell(Subscribe(topic_regex="t.*", has_listener=False))
    same((c.m.subscription.topic_regex, c.m.subscription.topic_names), ("t.*", frozenset()))
    same(c.owned, frozenset())


for method in (
    "testFetchablePartitionsPerformsCheapChecksFirst",
    "testIsFetchableOnManualAssignment",
):
    cannot(STATE, method, "manual assignment (assign) is no part of the model")
cannot(
    STATE,
    "testAssignedTopicIdsPreservedWhenReconciliationCompletes",
    "looks at the topic ids for which metadata are asked; a member asks for all that it lacks",
)
cannot(
    STATE,
    "testMixedPatternSubscriptionNotAllowed",
    "a call that the client refuses; an application of the model makes no such call",
)


# -- what is given up -------------------------------------------------------------------------------


@test(MANAGER, "testTransitionToFencedMarksPendingRevocationBeforeSignalingPartitionsLost")
def _():
    c = consuming("topic1:0").beat()
    c.refuse("FENCED_MEMBER_EPOCH")
    same((c.owned, c.m.fetchable), (tps("topic1:0"), frozenset()))
    same(calls(c.poll()), [("onPartitionsLost", tps("topic1:0"))])


@test(MANAGER, "testTransitionToFatalMarksPendingRevocationBeforeSignalingPartitionsLost")
def _():
    c = consuming("topic1:0").beat()
    c.refuse("GROUP_AUTHORIZATION_FAILED")
    same((c.m.state, c.owned, c.m.fetchable), (S.FATAL, tps("topic1:0"), frozenset()))
    same(calls(c.poll()), [("onPartitionsLost", tps("topic1:0"))])


@test(MANAGER, "testTransitionToStaleMarksPendingRevocationBeforeSignalingPartitionsLost")
def _():
    c = consuming("topic1:0", max_poll_interval_ms=1000)
    c.sleep(1000)
    same((c.m.state, c.owned, c.m.fetchable), (S.STALE, tps("topic1:0"), frozenset()))
    same(calls(c.poll()), [("onPartitionsLost", tps("topic1:0"))])


@test(MANAGER, "testPollMustCallsMaybeReconcileWithFalse")
def _():
    c = consuming("topic1:0,1", listener=False, commit=False)
    c.target("topic1:0")
    c.sleep(500)
    same((c.m.state, c.m.fetchable), (S.RECONCILING, tps("topic1:0,1")))
    c.poll()
    same(c.owned, tps("topic1:0"))


@test(CONSUMER, "testPollWaitsForReconciliationCheckComplete")
def _():
    c = consuming("topic1:0,1")
    c.target("topic1:0")
    same(c.m.fetchable, tps("topic1:0,1"), "before the poll")
    c.poll()
    same(c.m.deliverable, tps("topic1:0"), "in the poll, before it returns records")


@test(CONSUMER, "testPollDoesNotWaitForReconciliationCheckIfNoPendingReconciliation")
def _():
    c = consuming("topic1:0,1")
    c.poll()
    same(c.m.deliverable, tps("topic1:0,1"))


@test(MANAGER, "testIgnoreLeaveResponseWhenNotLeavingGroup")
def _():
    c = Client(listener=False, topics="topic1").stable("topic1:0").beat()
    before = len(c.hb) - 1
    c.unsubscribe()
    c.answer(None, epoch=1, to=before)
    same((c.m.state, c.m.leave_is_pending), (S.UNSUBSCRIBED, True))
    leave = len(c.hb) - 1
    same(c.hb[leave].request.member_epoch, -1)
    c.answer(None, epoch=-1, to=leave)
    same(c.m.leave_is_pending, False)
    c.subscribe()
    c.poll()
    same((c.m.state, c.m.member_epoch), (S.JOINING, 0))


@test(MANAGER, "testLeaveGroupDuringReconciliationThenRejoin")
def _():
    c = Client(topics="topic1").stable()
    c.target("topic1:0")
    c.poll()
    c.done(failed=True)
    c.unsubscribe()
    if c.m.running_callback is not None:
        c.done()
    c.answer(None, epoch=-1)
    c.subscribe()
    c.poll()
    same(c.m.state, S.JOINING)
    c.sleep(1)
    c.answer("topic1:0")
    c.poll()
    same(calls(c.all)[-1], ("onPartitionsAssigned", tps("topic1:0")))


@test(CONSUMER, "testUnsubscribeWithPendingAssignmentEvent")
def _():
    c = Client(topics="topic1").join()
    c.answer("topic1:0")
    c.unsubscribe()
    same((c.m.state, c.owned, calls(c.all)), (S.UNSUBSCRIBED, frozenset(), []))


@test(CONSUMER, "testCommitSyncAllConsumed")
def _():
    c = consuming("topic1:0", commit=False)
    c.tell(CommitOffsets(commit_id=1, is_sync=True))
    same(c.commits[-1].request.offsets, dict.fromkeys(tps("topic1:0"), 9))


@test(CONSUMER, "testSubscribeToRe2JPatternGeneratesEvent")
def _():
    for listener in (False, True):
        c = Client(topics="topic1")
        c.tell(Subscribe(topic_regex="t*", has_listener=listener))
        c.sleep(0)
        c.found()
        c.poll()
        c.sleep(1)
        same((c.last.subscribed_topic_regex, c.last.member_epoch), ("t*", 0))


for method, why in (
    ("testCommitAsyncShouldCopyOffsets", "an effect of shared objects; values do not change"),
    ("testCommitSyncShouldCopyOffsets", "the same"),
    ("testEmptyStreamRebalanceData", "streams are no part of the model"),
    ("testStreamRebalanceData", "the same"),
    ("testFailConstructor", "a consumer that does not start"),
    (
        "testPartitionsAssignedEventSendsErrorWhenApplyAssignmentFails",
        "an interrupted application thread",
    ),
    ("testPollWithManualAssignmentDoesNotBusyLoop", "manual assignment (assign)"),
    ("testRecordBackgroundEventQueueSizeAndBackgroundEventQueueTime", "metrics"),
    (
        "testSubscribePatternAgainstBrokerNotSupportingRegex",
        "no broker of the model lacks version 1 of the heartbeat for a client that has it",
    ),
    ("testSubscribePatternGeneratesEvent", "queues between two threads"),
    ("testSubscribeToRe2JPatternThrowsIfNoGroupId", "a member without a group is no member"),
    ("testSubscribeToRe2JPatternValidation", "calls that the client refuses"),
    ("testWakeupWhileWaitingOnReconciliationCheck", "wakeup() is no part of the model"),
):
    cannot(CONSUMER, method, why)
cannot(MANAGER, "testAssignedPartitionCountMetricRegistered", "metrics")

explain(
    f"SubscriptionStateTest.testIsFetchableConsidersExplicitTopicSubscription@{V}",
    "the model goes on fetching partitions of a topic that the application has left out of its "
    "list until they are revoked (KAFKA-19356, client §8)",
)
