"""Reconciliation stories (client §4, Appendix B by number)."""

from __future__ import annotations

import pytest
from member_driver import ALL_TOPICS, INTERVAL_MS, Story, partitions, sent

from rebalance_sim.protocol.clients.common.effects import RequestMetadata
from rebalance_sim.protocol.clients.common.events import Close, MetadataKnown, Poll, Unsubscribe
from rebalance_sim.protocol.clients.common.member_states import ClientState
from rebalance_sim.protocol.clients.common.values import CallbackKind, FetchState
from rebalance_sim.protocol.versions.semantics import SEMANTICS
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.offset_messages import OffsetFetchResponse
from rebalance_sim.protocol.wire.topics import TopicPartition

S = ClientState
REVOKED, ASSIGNED, LOST = CallbackKind.REVOKED, CallbackKind.ASSIGNED, CallbackKind.LOST


def retarget(story: Story, *numbers: int, epoch: int = 1) -> None:
    """Let a heartbeat leave, and answer it with another target."""
    story.wait(INTERVAL_MS)
    story.answer(partitions(*numbers), epoch=epoch)


def test_01_a_join_answered_with_nothing_is_reconciled_and_acknowledged() -> None:
    story = Story()
    story.join()
    story.answer(partitions())
    assert story.state is S.RECONCILING
    assert story.callbacks(story.poll()) == [(ASSIGNED, frozenset())]
    effects = story.finish_callback()
    assert story.states(effects) == ["ACKNOWLEDGING", "STABLE"]
    assert story.last.topic_partitions == frozenset()


def test_02_the_same_assignment_again_changes_nothing() -> None:
    story = Story()
    story.stabilise(0)
    story.wait(INTERVAL_MS)
    assert story.states(story.answer(partitions(0))) == []
    story.wait(INTERVAL_MS)
    assert story.last.topic_partitions is None


def test_08_a_commit_that_completes_after_a_fatal_error_assigns_nothing() -> None:
    story = Story()
    story.stabilise(0)
    retarget(story, 0, 1)
    story.poll()
    story.wait(INTERVAL_MS)
    story.refuse(ErrorCode.GROUP_MAX_SIZE_REACHED)
    assert story.state is S.FATAL
    story.answer_commit()
    assert not story.member.is_reconciling
    assert set(story.member.assigned) == partitions(0)
    assert story.callbacks(story.poll()) == [(LOST, partitions(0))]
    story.finish_callback()
    assert not story.member.assigned


def test_09_a_reconciliation_stuck_on_its_commit_is_dropped_when_the_member_rejoins() -> None:
    story = Story()
    story.stabilise(0)
    retarget(story, 0, 1)
    story.poll()
    stuck = story.commits[-1]
    story.wait(INTERVAL_MS)
    story.refuse(ErrorCode.FENCED_MEMBER_EPOCH)
    story.poll()
    story.finish_callback()  # lost
    story.answer(partitions(2), epoch=5)
    story.poll()
    assert story.state is S.RECONCILING
    assert story.callbacks()[-1] == (LOST, partitions(0))
    assert story.commits[-1] is stuck
    story.answer_commit(ErrorCode.UNKNOWN_MEMBER_ID)
    assert not story.member.is_reconciling
    assert story.callbacks(story.poll()) == [(ASSIGNED, partitions(2))]
    story.finish_callback()
    assert story.last.topic_partitions == partitions(2)


def test_09_a_reconciliation_stuck_in_a_revoked_callback_is_dropped_when_fenced() -> None:
    story = Story(enable_auto_commit=False)
    story.stabilise(0, 1)
    retarget(story, 0)
    story.poll()  # revoked {1} runs
    story.wait(INTERVAL_MS)
    story.refuse(ErrorCode.UNKNOWN_MEMBER_ID)
    effects = story.finish_callback()
    assert story.callbacks(effects) == [(LOST, partitions(0, 1))]
    effects = story.finish_callback()
    assert story.states(effects) == ["JOINING"]
    assert not story.member.assigned
    story.answer(partitions(3), epoch=9)
    assert story.callbacks(story.poll()) == [(ASSIGNED, partitions(3))]


def test_09_a_reconciliation_stuck_in_an_assigned_callback_is_dropped_when_fenced() -> None:
    story = Story(enable_auto_commit=False)
    story.stabilise(0)
    retarget(story, 0, 1)
    story.poll()  # assigned {1} runs
    story.wait(INTERVAL_MS)
    story.refuse(ErrorCode.UNKNOWN_MEMBER_ID)
    effects = story.finish_callback()
    # Partitions whose assigned callback had only begun are lost as well.
    assert story.callbacks(effects) == [(LOST, partitions(0, 1))]
    assert story.states(story.finish_callback()) == ["JOINING"]
    assert story.member.current.local_epoch == -1


def test_10_a_newer_target_waits_until_the_first_is_applied_and_acknowledged() -> None:
    story = Story()
    story.stabilise(0)
    retarget(story, 0, 1)
    story.poll()
    assert story.commits
    retarget(story, 0, 1, 2)
    assert story.states()[-2:] == ["RECONCILING", "RECONCILING"]
    story.answer_commit()
    assert story.callbacks(story.poll()) == [(ASSIGNED, partitions(1))]
    effects = story.finish_callback()
    assert story.states(effects) == ["ACKNOWLEDGING", "RECONCILING"]
    assert story.last.topic_partitions == partitions(0, 1)
    story.poll()
    story.answer_commit()
    assert story.callbacks(story.poll()) == [(ASSIGNED, partitions(2))]
    story.finish_callback()
    story.answer()
    assert story.last.topic_partitions == partitions(0, 1, 2)


def test_11_a_target_that_returns_to_the_resolved_part_is_acknowledged_without_callbacks() -> None:
    story = Story(metadata={"orders": "orders"}, enable_auto_commit=False)
    story.subscribe("orders", "payments")
    story.find_coordinator()
    story.poll()
    orders, payments = partitions(0), partitions(0, topic="payments")
    story.answer(orders)
    story.poll()
    story.finish_callback()
    story.answer()
    story.wait(INTERVAL_MS)
    story.answer(orders | payments)
    assert story.last.topic_partitions == orders  # the resolved part, acknowledged at once
    story.answer()
    story.answer(orders)
    assert story.callbacks() == [(ASSIGNED, orders)]
    story.answer()
    assert story.state is S.STABLE
    assert story.member.current == story.member.target


def test_12_a_topic_that_becomes_known_later_is_reconciled_without_a_new_answer() -> None:
    story = Story(metadata={"orders": "orders"}, enable_auto_commit=False)
    story.subscribe("orders", "payments")
    story.find_coordinator()
    story.poll()
    payments = partitions(0, topic="payments")
    effects = story.answer(partitions(0) | payments)
    assert any(isinstance(effect, RequestMetadata) for effect in effects)
    assert story.callbacks(story.poll()) == [(ASSIGNED, partitions(0))]
    story.finish_callback()
    story.handle(MetadataKnown(topic_names=ALL_TOPICS))
    story.answer()
    assert story.callbacks(story.poll()) == [(ASSIGNED, payments)]
    story.finish_callback()
    assert set(story.member.assigned) == partitions(0) | payments


def test_12_with_auto_commit_the_late_topic_waits_for_a_poll() -> None:
    story = Story(metadata={"orders": "orders"})
    story.subscribe("orders", "payments")
    story.find_coordinator()
    story.poll()
    payments = partitions(0, topic="payments")
    story.answer(partitions(0) | payments)
    story.poll()
    story.finish_callback()
    story.handle(MetadataKnown(topic_names=ALL_TOPICS))
    story.answer()
    assert story.state is S.RECONCILING
    assert not story.member.is_reconciling
    assert story.member.poll_is_due
    assert story.callbacks(story.poll()) == [(ASSIGNED, payments)]


def test_13_an_unresolved_topic_replaced_by_nothing_is_reconciled_to_nothing() -> None:
    story = Story(metadata={})
    story.join()
    story.answer(partitions(0))
    story.poll()
    story.finish_callback()
    story.answer(partitions())
    story.answer()
    assert story.state is S.STABLE
    assert not story.member.assigned


def test_14_metadata_lost_before_a_revocation_does_not_block_it() -> None:
    story = Story(enable_auto_commit=False)
    story.stabilise(0, 1)
    story.handle(MetadataKnown(topic_names={}))
    retarget(story, 0)
    assert story.callbacks(story.poll()) == [(REVOKED, partitions(1))]
    story.finish_callback()
    story.finish_callback()
    assert story.state is S.STABLE
    assert set(story.member.assigned) == partitions(0)


def test_a_revoked_callback_is_a_value_that_can_be_hashed() -> None:
    story = Story(enable_auto_commit=False)
    story.stabilise(0, 1)
    retarget(story, 0)
    assert {*story.callbacks(story.poll())} == {(REVOKED, partitions(1))}


def test_16_a_revoked_callback_that_throws_acknowledges_nothing_and_is_tried_again() -> None:
    story = Story()
    story.stabilise(0, 1)
    current = story.member.current
    retarget(story, 0)
    story.poll()
    story.answer_commit()
    story.poll()
    effects = story.finish_callback(failed=True)
    assert story.errors() == [None]
    assert (story.state, story.member.current) == (S.RECONCILING, current)
    assert story.callbacks(effects) == []
    assert sent(effects) == []
    assert sent(story.poll()) == ["SendCommit"]
    story.answer_commit()
    assert story.callbacks(story.poll()) == [(REVOKED, partitions(1))]
    assert story.callbacks(story.finish_callback()) == [(ASSIGNED, frozenset())]
    story.finish_callback()
    assert story.last.topic_partitions == partitions(0)


def test_16_without_auto_commit_a_throwing_callback_runs_once_per_poll() -> None:
    story = Story(enable_auto_commit=False)
    story.stabilise(0, 1)
    retarget(story, 0)
    for _ in range(3):
        assert story.callbacks(story.poll()) == [(REVOKED, partitions(1))]
        assert story.callbacks(story.finish_callback(failed=True)) == []


def test_17_an_assigned_callback_that_throws_leaves_the_partition_mute_until_it_succeeds() -> None:
    story = Story(enable_auto_commit=False)
    story.stabilise(0)
    current = story.member.current
    retarget(story, 0, 1)
    story.poll()
    story.finish_callback(failed=True)
    assert (story.state, story.member.current) == (S.RECONCILING, current)
    assert story.member.assigned[TopicPartition("orders", 1)].awaiting_assigned_callback
    assert story.callbacks(story.poll()) == [(ASSIGNED, frozenset())]
    story.finish_callback()
    assert not story.member.assigned[TopicPartition("orders", 1)].awaiting_assigned_callback
    assert story.state is S.STABLE


def test_28_with_auto_commit_nothing_happens_until_the_application_polls() -> None:
    story = Story()
    story.stabilise(0, 1)
    retarget(story, 0)
    count = len(story.heartbeats)
    story.wait(2 * INTERVAL_MS)
    story.answer()
    story.wait(2 * INTERVAL_MS)
    assert all(h.request.topic_partitions is None for h in story.heartbeats[count:])
    assert story.commits == []
    assert sent(story.poll()) == ["SendCommit"]
    story.answer_commit()
    assert story.callbacks(story.poll()) == [(REVOKED, partitions(1))]
    assert story.callbacks(story.finish_callback()) == [(ASSIGNED, frozenset())]
    assert story.states(story.finish_callback())[:1] == ["ACKNOWLEDGING"]


def test_35_an_interval_commit_due_in_a_revoked_callback_still_holds_what_is_revoked() -> None:
    story = Story(auto_commit_interval_ms=7_000)
    story.stabilise(0, 1)
    retarget(story, 0)
    story.poll()
    story.answer_commit()
    story.poll()  # revoked {1} runs, and takes its time
    story.wait(4_000)
    effects = story.finish_callback(poll_follows=True)
    assert sent(effects)[0] == "SendCommit"
    assert set(story.commits[-1].request.offsets) == partitions(0, 1)
    assert story.callbacks(effects) == [(ASSIGNED, frozenset())]
    story.answer_commit()
    story.finish_callback()
    assert set(story.member.assigned) == partitions(0)


def test_36_a_smaller_target_before_the_next_poll_shrinks_the_lookup() -> None:
    story = Story()
    story.stabilise(0, 1, 2, consumed=False)
    story.wait(INTERVAL_MS)
    story.answer(partitions(0))
    effects = story.poll()
    assert sent(effects) == ["SendOffsetFetch"]
    assert story.fetches[-1].request.partitions == partitions(0)
    assert story.callbacks(effects) == [(REVOKED, partitions(1, 2))]


def test_a_newer_target_during_a_slow_first_callback_waits_for_the_poll_after_the_next() -> None:
    """The end of the callback and the poll after it come before the managers (client §0.1)."""
    story = Story()
    story.join()
    story.answer(partitions(0, 1))
    story.poll()  # assigned runs for long
    story.wait(INTERVAL_MS)
    story.answer(partitions(0))
    effects = story.finish_callback(poll_follows=True)
    assert story.states(effects) == ["ACKNOWLEDGING", "RECONCILING"]
    assert sorted(sent(effects)) == ["SendHeartbeat", "SendOffsetFetch"]
    assert story.fetches[-1].request.partitions == partitions(0, 1)
    assert story.last.topic_partitions == partitions(0, 1)
    assert not story.member.is_reconciling


def test_fetching_stops_when_the_reconciliation_begins_and_starts_after_the_callback() -> None:
    story = Story()
    story.stabilise(0, 1)
    assert story.member.fetchable == partitions(0, 1)
    retarget(story, 1, 2)
    assert story.member.fetchable == partitions(0, 1)
    story.poll()  # client R3 and the commit
    assert story.member.fetchable == partitions(1)
    assert set(story.member.assigned) == partitions(0, 1)
    story.answer_commit()
    story.poll()
    assert story.callbacks(story.finish_callback()) == [(ASSIGNED, partitions(2))]
    assert set(story.member.assigned) == partitions(1, 2)
    assert story.member.fetchable == partitions(1)
    story.finish_callback()
    assert story.member.fetchable == partitions(1)  # the position of 2 is not known yet
    story.poll()
    assert story.fetches[-1].request.partitions == partitions(2)


def test_positions_survive_in_kept_partitions_and_begin_anew_in_returned_ones() -> None:
    story = Story(enable_auto_commit=False)
    story.stabilise(0, 1)
    retarget(story, 0)
    story.poll()
    story.finish_callback()
    story.finish_callback()
    story.answer()
    retarget(story, 0, 1)
    story.poll()
    story.finish_callback()
    kept, returned = (story.member.assigned[TopicPartition("orders", n)] for n in (0, 1))
    assert (kept.fetch_state, kept.position) == (FetchState.FETCHING, 10)
    assert returned.fetch_state is FetchState.INITIALIZING


def test_unresolved_targets_are_acknowledged_round_trip_by_round_trip() -> None:
    """The ack storm of client Appendix A: only the first of these heartbeats carries partitions."""
    story = Story(metadata={})
    story.join()
    story.answer(partitions(0))
    story.poll()
    story.finish_callback()
    assert story.last.topic_partitions == frozenset()
    for _ in range(3):
        story.answer()
        assert story.last.topic_partitions is None
    assert story.state is S.ACKNOWLEDGING
    assert story.now_ms < INTERVAL_MS
    story.handle(MetadataKnown(topic_names=ALL_TOPICS))
    story.answer()
    assert story.callbacks(story.poll()) == [(ASSIGNED, partitions(0))]
    story.finish_callback()
    story.answer()
    assert story.state is S.STABLE


def test_metadata_is_asked_for_again_after_a_backoff_while_it_is_missing() -> None:
    story = Story(metadata={"orders": "orders"})
    story.subscribe("orders", "payments")
    story.find_coordinator()
    story.poll()
    story.answer(partitions(0) | partitions(0, topic="payments"))
    asked = [e for e in story.effects if isinstance(e, RequestMetadata)]
    assert len(asked) == 1
    effects = story.wait(100)
    assert [type(e) for e in effects] == [RequestMetadata]


def test_a_topic_outside_the_subscription_does_not_resolve() -> None:
    story = Story()
    story.join()
    story.answer(partitions(0, topic="payments"))
    story.poll()
    story.finish_callback()
    assert not story.member.assigned


@pytest.mark.parametrize("semantics", ["kafka-4.3-clean", "kafka-4.1-clean"])
def test_without_auto_commit_a_revocation_waits_for_a_poll_since_4_3(semantics: str) -> None:
    """Byte code of 4.1.2 and sources of 4.3.1 (``maybeReconcile``)."""
    story = Story(rules=SEMANTICS[semantics].member, enable_auto_commit=False)
    story.stabilise(0, 1, has_listener=False)
    story.wait(INTERVAL_MS)
    effects = story.answer(partitions(1, 2))
    if semantics == "kafka-4.3-clean":
        assert story.states(effects) == ["RECONCILING"]
        assert story.states(story.poll()) == ["ACKNOWLEDGING", "STABLE"]
    else:
        assert story.states(effects) == ["RECONCILING", "ACKNOWLEDGING", "STABLE"]
    assert story.last.topic_partitions == partitions(1, 2)
    assert story.callbacks() == []


def test_without_listener_and_auto_commit_what_is_only_added_is_taken_over_at_once() -> None:
    story = Story(enable_auto_commit=False)
    story.stabilise(0, 1, has_listener=False)
    story.wait(INTERVAL_MS)
    effects = story.answer(partitions(0, 1, 2))
    assert story.states(effects) == ["RECONCILING", "ACKNOWLEDGING", "STABLE"]
    assert story.last.topic_partitions == partitions(0, 1, 2)
    assert story.callbacks() == []


def test_a_revoked_callback_queued_before_a_fence_still_runs_and_says_that_it_is_obsolete() -> None:
    story = Story()
    story.stabilise(0, 1)
    retarget(story, 0)
    story.poll()
    story.answer_commit()  # the callback is queued, the application is away
    story.wait(INTERVAL_MS)
    story.refuse(ErrorCode.FENCED_MEMBER_EPOCH)
    story.poll()
    first = story.member.running_callback
    assert first is not None
    assert (first.kind, first.partitions, first.is_obsolete) == (REVOKED, partitions(1), True)
    assert story.callbacks(story.finish_callback()) == [(LOST, partitions(0, 1))]
    assert story.states(story.finish_callback()) == ["JOINING"]


def test_an_assigned_callback_queued_before_a_fence_does_not_run() -> None:
    story = Story(enable_auto_commit=False)
    story.stabilise(0)
    retarget(story, 0, 1)  # the callback is queued
    story.wait(INTERVAL_MS)
    story.refuse(ErrorCode.FENCED_MEMBER_EPOCH)
    assert story.callbacks(story.poll()) == [(LOST, partitions(0))]


def test_a_partition_whose_revocation_failed_and_was_taken_back_is_fetched_again() -> None:
    story = Story()
    story.stabilise(0, 1)
    retarget(story, 0)
    story.poll()
    story.answer_commit()
    story.poll()
    story.finish_callback(failed=True)
    assert story.member.fetchable == partitions(0)
    retarget(story, 0, 1)
    assert story.state is S.STABLE
    assert story.last.topic_partitions == partitions(0, 1)
    assert story.member.fetchable == partitions(0, 1)


def test_a_late_answer_of_a_lookup_does_not_touch_partitions_that_have_gone() -> None:
    story = Story(enable_auto_commit=False)
    story.stabilise(0, 1, consumed=False)
    story.poll()
    retarget(story, 0)
    story.poll()
    story.finish_callback()
    story.finish_callback()
    effects = story.answer_fetch(OffsetFetchResponse(offsets=dict.fromkeys(partitions(0, 1), 7)))
    assert [getattr(e, "positions", None) for e in effects] == [{TopicPartition("orders", 0): 7}]


def test_a_reconciliation_does_not_outlive_unsubscribe_or_close() -> None:
    for event in (Unsubscribe(), Close()):
        story = Story()
        story.stabilise(0, 1)
        retarget(story, 0)
        story.poll()  # the commit of the reconciliation is in flight
        story.handle(event)
        while story.member.running_callback is not None or story.commits[-1:]:
            if story.member.running_callback is not None:
                story.finish_callback()
            elif story.commits:
                story.answer_commit()
                story.commits.pop()
        assert story.state is S.UNSUBSCRIBED
        assert not story.member.is_reconciling
        assert not story.member.assigned


def test_poll_is_due_exactly_while_a_poll_would_do_something() -> None:
    story = Story(auto_commit_interval_ms=5_000)
    story.subscribe()
    assert story.member.poll_is_due  # it joins
    story.handle(Poll())
    assert not story.member.poll_is_due
    story.find_coordinator()
    story.answer(partitions(0))
    assert story.member.poll_is_due  # it reconciles
    story.poll()
    assert story.member.poll_due_ms is None  # the callback blocks the application
    story.finish_callback()
    assert story.member.poll_is_due  # it looks positions up
    story.poll()
    assert not story.member.poll_is_due
    assert story.member.poll_due_ms == story.now_ms - 10 + 5_000  # the interval commit
