"""Fencing, fatal errors, poll expiry and leaving (client §1.3, §5, §6, Appendix B)."""

from __future__ import annotations

import pytest
from member_driver import INTERVAL_MS, Story, partitions, sent

from rebalance_sim.protocol.clients.common.effects import (
    CallReturned,
    CommitReturned,
    SendHeartbeat,
)
from rebalance_sim.protocol.clients.common.events import (
    Close,
    CommitOffsets,
    PollingResumed,
    PollingStopped,
    Tick,
    Unsubscribe,
)
from rebalance_sim.protocol.clients.common.member_states import ClientState
from rebalance_sim.protocol.clients.common.values import Call, CallbackKind
from rebalance_sim.protocol.clients.java.consumer.heartbeats import ErrorClass, classify_error
from rebalance_sim.protocol.wire.consumer_messages import ConsumerGroupHeartbeatRequest
from rebalance_sim.protocol.wire.errors import ErrorCode, ProtocolBug
from rebalance_sim.protocol.wire.offset_messages import NO_MEMBER_EPOCH

S = ClientState
REVOKED, ASSIGNED, LOST = CallbackKind.REVOKED, CallbackKind.ASSIGNED, CallbackKind.LOST


def returned(story: Story) -> list[Call]:
    """Blocking calls that have returned."""
    return [effect.call for effect in story.effects if isinstance(effect, CallReturned)]


# --- fenced --------------------------------------------------------------------------------------


@pytest.mark.parametrize("error_code", [ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID])
def test_03_a_fenced_member_gives_up_its_partitions_and_joins_again_under_the_same_id(
    error_code: ErrorCode,
) -> None:
    story = Story()
    story.stabilise(0)
    story.wait(INTERVAL_MS)
    story.refuse(error_code)
    assert story.state is S.FENCED
    assert (story.member.member_epoch, story.member.commit_identity) == (0, None)
    count = len(story.heartbeats)
    story.wait(10 * INTERVAL_MS)
    assert len(story.heartbeats) == count
    assert story.callbacks(story.poll()) == [(LOST, partitions(0))]
    story.finish_callback()
    assert story.state is S.JOINING
    assert (story.last.member_id, story.last.member_epoch) == ("m1", 0)
    assert story.last.topic_partitions == frozenset()
    assert not story.member.assigned


def test_04_a_fenced_member_joins_again_even_if_its_lost_callback_throws() -> None:
    story = Story()
    story.stabilise(0)
    story.wait(INTERVAL_MS)
    story.refuse(ErrorCode.FENCED_MEMBER_EPOCH)
    story.poll()
    story.finish_callback(failed=True)
    assert story.state is S.JOINING
    assert story.errors() == [None]


def test_a_fenced_member_with_nothing_assigned_joins_at_once() -> None:
    story = Story()
    story.stabilise()
    story.wait(INTERVAL_MS)
    effects = story.refuse(ErrorCode.UNKNOWN_MEMBER_ID)
    assert story.states(effects) == ["FENCED", "JOINING"]
    assert sent(effects) == ["SendHeartbeat"]


def test_05_a_member_fenced_while_its_leave_callback_runs_has_left_without_a_heartbeat() -> None:
    story = Story()
    story.stabilise(0)
    story.wait(INTERVAL_MS)
    story.handle(Unsubscribe())
    assert story.callbacks()[-1] == (REVOKED, partitions(0))
    effects = story.refuse(ErrorCode.FENCED_MEMBER_EPOCH)
    assert story.states(effects) == ["LEAVING", "UNSUBSCRIBED"]
    assert story.member.member_epoch == -1
    assert sent(effects) == []
    late = story.finish_callback()
    assert story.states(late) == []
    assert sent(late) == []
    assert returned(story) == [Call.UNSUBSCRIBE]
    assert not story.member.assigned


def test_06_and_20_a_fence_after_the_leave_was_sent_completes_the_leave() -> None:
    story = Story(enable_auto_commit=False)
    story.stabilise()
    story.wait(INTERVAL_MS)
    older = story.heartbeats[-1]
    effects = story.handle(Unsubscribe())
    assert sent(effects) == ["SendHeartbeat"]  # although one is in flight
    assert story.last.member_epoch == -1
    assert story.state is S.UNSUBSCRIBED
    story.refuse(ErrorCode.FENCED_MEMBER_EPOCH, to=older)
    assert story.state is S.UNSUBSCRIBED
    assert returned(story) == [Call.UNSUBSCRIBE]
    count = len(story.heartbeats)
    story.wait(10 * INTERVAL_MS)
    assert len(story.heartbeats) == count


@pytest.mark.parametrize("is_leave", [True, False])
def test_a_group_that_is_gone_ends_a_member_but_not_a_leave(is_leave: bool) -> None:
    story = Story(enable_auto_commit=False)
    story.stabilise()
    if is_leave:
        story.handle(Unsubscribe())
    else:
        story.wait(INTERVAL_MS)
    story.refuse(ErrorCode.GROUP_ID_NOT_FOUND)
    assert story.state is (S.UNSUBSCRIBED if is_leave else S.FATAL)
    assert returned(story) == ([Call.UNSUBSCRIBE] if is_leave else [])
    story.subscribe()
    story.poll()
    assert story.state is (S.JOINING if is_leave else S.FATAL)
    assert story.errors() == ([] if is_leave else [ErrorCode.GROUP_ID_NOT_FOUND])


def test_07_an_assignment_that_arrives_while_leaving_is_ignored_but_its_epoch_is_not() -> None:
    story = Story()
    story.stabilise(0)
    story.wait(INTERVAL_MS)
    story.handle(Unsubscribe())
    target = story.member.target
    effects = story.answer(partitions(0, 1), epoch=4)
    assert story.states(effects) == []
    assert (story.member.target, story.member.member_epoch) == (target, 4)
    story.finish_callback()
    assert story.states()[-2:] == ["LEAVING", "UNSUBSCRIBED"]


def test_18_the_answer_to_a_leave_is_not_adopted_whatever_it_says() -> None:
    for error_code in (ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NOT_COORDINATOR):
        story = Story(enable_auto_commit=False)
        story.stabilise()
        story.handle(Unsubscribe())
        if error_code is ErrorCode.NONE:
            story.answer(partitions(0), epoch=-1)
        else:
            story.refuse(error_code)
        assert returned(story) == [Call.UNSUBSCRIBE]
        assert (story.member.member_epoch, story.state) == (-1, S.UNSUBSCRIBED)


def test_18_the_answer_to_an_earlier_heartbeat_does_not_complete_a_leave() -> None:
    story = Story(enable_auto_commit=False)
    story.stabilise()
    story.handle(Unsubscribe())
    story.answer(partitions(0), epoch=9)
    assert returned(story) == []
    assert (story.member.member_epoch, story.state) == (-1, S.UNSUBSCRIBED)


def test_18_a_leave_that_gets_lost_is_complete_as_well() -> None:
    story = Story(enable_auto_commit=False)
    story.stabilise()
    story.handle(Unsubscribe())
    story.disconnect(story.heartbeats[-1])
    assert returned(story) == [Call.UNSUBSCRIBE]


def test_19_a_fatal_answer_to_the_leave_is_raised_without_a_callback() -> None:
    story = Story(enable_auto_commit=False)
    story.stabilise()
    story.handle(Unsubscribe())
    story.refuse(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    assert story.state is S.FATAL
    assert story.errors() == [ErrorCode.GROUP_AUTHORIZATION_FAILED]
    assert returned(story) == [Call.UNSUBSCRIBE]


def test_late_answers_to_a_member_that_is_out_change_nothing() -> None:
    story = Story(max_poll_interval_ms=INTERVAL_MS + 1_000)
    story.stabilise(0)
    story.wait(INTERVAL_MS)
    older = story.heartbeats[-1]
    story.wait(2_000)
    story.handle(Tick())
    assert story.state is S.STALE
    for refuse in (False, True):
        effects = (
            story.refuse(ErrorCode.FENCED_MEMBER_EPOCH, to=older)
            if refuse
            else story.answer(partitions(3), epoch=8, to=story.heartbeats[-1])
        )
        assert story.states(effects) == []
        assert (story.state, story.member.member_epoch) == (S.STALE, -1)


# --- fatal ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error_code", "error_class"),
    [
        (ErrorCode.NOT_COORDINATOR, ErrorClass.COORDINATOR_LOST),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorClass.COORDINATOR_LOST),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorClass.RETRIABLE),
        (ErrorCode.FENCED_MEMBER_EPOCH, ErrorClass.FENCED),
        (ErrorCode.UNKNOWN_MEMBER_ID, ErrorClass.FENCED),
        (ErrorCode.UNRELEASED_INSTANCE_ID, ErrorClass.FATAL),
        (ErrorCode.FENCED_INSTANCE_ID, ErrorClass.FATAL),
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorClass.FATAL),
        (ErrorCode.INVALID_REQUEST, ErrorClass.FATAL),
        (ErrorCode.GROUP_MAX_SIZE_REACHED, ErrorClass.FATAL),
        (ErrorCode.UNSUPPORTED_ASSIGNOR, ErrorClass.FATAL),
        (ErrorCode.UNSUPPORTED_VERSION, ErrorClass.FATAL),
        (ErrorCode.GROUP_ID_NOT_FOUND, ErrorClass.FATAL),
        (ErrorCode.UNKNOWN_SERVER_ERROR, ErrorClass.FATAL),
        (ErrorCode.INVALID_REGULAR_EXPRESSION, ErrorClass.FATAL),
    ],
)
def test_every_error_has_the_class_of_section_2_3(
    error_code: ErrorCode, error_class: ErrorClass
) -> None:
    assert classify_error(error_code) is error_class


def test_a_refused_static_join_is_fatal_and_raised_once() -> None:
    story = Story(group_instance_id="i1")
    story.join()
    story.refuse(ErrorCode.UNRELEASED_INSTANCE_ID)
    assert story.state is S.FATAL
    story.poll()
    story.poll()
    assert story.errors() == [ErrorCode.UNRELEASED_INSTANCE_ID]
    story.subscribe()
    story.poll()
    story.wait(10 * INTERVAL_MS)
    assert len(story.heartbeats) == 1
    story.handle(Close())
    assert returned(story) == [Call.CLOSE]
    assert story.state is S.FATAL


# --- poll expiry ---------------------------------------------------------------------------------


def test_33_a_member_that_stops_polling_leaves_first_and_loses_its_partitions_later() -> None:
    story = Story(max_poll_interval_ms=6_000)
    story.stabilise(0)
    story.wait(INTERVAL_MS)
    story.answer()
    effects = story.wait(INTERVAL_MS)
    assert story.states(effects) == ["PREPARE_LEAVING", "LEAVING", "STALE"]
    assert story.last == ConsumerGroupHeartbeatRequest(
        group_id="group", member_id="m1", member_epoch=-1, topic_partitions=frozenset()
    )
    assert set(story.member.assigned) == partitions(0)
    assert story.member.poll_expired
    assert story.callbacks(story.poll()) == [(LOST, partitions(0))]
    assert story.state is S.STALE
    effects = story.finish_callback()
    assert story.states(effects) == ["JOINING"]
    assert (story.last.member_id, story.last.member_epoch) == ("m1", 0)
    assert story.last.subscribed_topic_names == ("orders",)
    assert not story.member.poll_expired


def test_24_a_stale_member_joins_when_the_lost_callback_has_ended() -> None:
    story = Story(max_poll_interval_ms=4_000)
    story.stabilise(0)
    story.wait(INTERVAL_MS)
    assert story.state is S.STALE
    story.poll()
    story.wait(10 * INTERVAL_MS)
    assert story.state is S.STALE
    assert story.states(story.finish_callback()) == ["JOINING"]


def test_23_a_poll_timer_that_expires_while_leaving_changes_nothing() -> None:
    story = Story(max_poll_interval_ms=4_000)
    story.stabilise(0)
    story.handle(Unsubscribe())
    story.wait(3 * INTERVAL_MS)
    assert story.state is S.PREPARE_LEAVING
    story.finish_callback()
    assert story.states()[-2:] == ["LEAVING", "UNSUBSCRIBED"]


def test_the_poll_timer_runs_only_while_the_application_stays_away() -> None:
    story = Story(max_poll_interval_ms=4_000)
    story.stabilise(0)
    story.handle(PollingResumed())
    for _ in range(5):
        story.wait(INTERVAL_MS)
        story.answer()
    assert story.state is S.STABLE
    story.handle(PollingStopped())
    story.wait(INTERVAL_MS)
    assert story.state is S.STALE


def test_a_callback_that_outlasts_the_poll_interval_makes_the_member_leave() -> None:
    story = Story(max_poll_interval_ms=4_000, enable_auto_commit=False)
    story.stabilise(0)
    story.handle(PollingResumed())
    story.wait(INTERVAL_MS)
    story.answer(partitions(0, 1))
    story.poll()  # the assigned callback runs, and runs
    story.wait(INTERVAL_MS)
    assert story.state is S.STALE
    story.handle(PollingResumed())
    story.finish_callback()
    assert story.callbacks()[-1] == (LOST, partitions(0, 1))


def test_a_join_may_overtake_the_answer_to_the_leave_of_a_poll_expiry() -> None:
    story = Story(max_poll_interval_ms=4_000)
    story.stabilise(0)
    story.wait(INTERVAL_MS)
    leave = story.heartbeats[-1]
    story.poll()
    story.finish_callback()
    assert story.last.member_epoch == 0
    effects = story.answer(epoch=-1, to=leave)
    assert story.states(effects) == []
    assert story.member.member_epoch == 0


def test_an_old_answer_that_arrives_after_the_rejoin_began_is_adopted() -> None:
    """client §6.1: inferred from the code, and to be kept reachable."""
    story = Story(max_poll_interval_ms=INTERVAL_MS + 1_000)
    story.stabilise(0)
    story.wait(INTERVAL_MS)
    older = story.heartbeats[-1]
    story.wait(2_000)
    story.handle(Tick())
    story.poll()
    story.finish_callback()
    assert story.state is S.JOINING
    story.answer(epoch=3, to=older)
    assert story.member.member_epoch == 3


# --- unsubscribe and close -----------------------------------------------------------------------


def test_29_close_commits_calls_back_and_leaves_in_this_order() -> None:
    story = Story()
    story.stabilise(0, 1)
    effects = story.handle(Close())
    assert sent(effects) == ["SendCommit"]
    assert set(story.commits[-1].request.offsets) == partitions(0, 1)
    effects = story.answer_commit()
    assert story.callbacks(effects) == [(REVOKED, partitions(0, 1))]
    assert story.state is S.STABLE
    assert story.member.commit_identity is not None
    effects = story.finish_callback()
    assert story.states(effects) == ["PREPARE_LEAVING", "LEAVING", "UNSUBSCRIBED"]
    assert story.last.member_epoch == -1
    assert story.last.subscribed_topic_names == ()
    assert story.last.topic_partitions == frozenset()
    assert returned(story) == []
    story.answer(epoch=-1)
    assert returned(story) == [Call.CLOSE]
    assert story.member.is_closed
    assert story.member.next_deadline_ms is None


def test_close_with_nothing_assigned_just_leaves() -> None:
    story = Story()
    story.stabilise()
    effects = story.handle(Close())
    assert sent(effects) == ["SendHeartbeat"]
    assert story.callbacks(effects) == []


def test_close_without_waiting_still_commits_calls_back_and_leaves() -> None:
    story = Story()
    story.stabilise(0)
    effects = story.handle(Close(timeout_ms=0))
    assert sent(effects) == ["SendCommit"]
    assert story.callbacks(effects) == [(REVOKED, partitions(0))]
    effects = story.finish_callback()
    assert sent(effects) == ["SendHeartbeat"]
    assert returned(story) == [Call.CLOSE]


def test_close_gives_up_waiting_when_its_time_is_over() -> None:
    story = Story()
    story.stabilise(0)
    story.handle(Close(timeout_ms=700))
    story.wait(700)
    assert story.callbacks()[-1] == (REVOKED, partitions(0))
    story.finish_callback()
    assert returned(story) == [Call.CLOSE]


def test_30_unsubscribe_calls_back_while_leaving_and_commits_nothing() -> None:
    story = Story()
    story.stabilise(0)
    effects = story.handle(Unsubscribe())
    assert story.states(effects) == ["PREPARE_LEAVING"]
    assert story.callbacks(effects) == [(REVOKED, partitions(0))]
    assert sent(effects) == []
    assert story.member.fetchable == frozenset()
    story.finish_callback()
    assert story.last.member_epoch == -1
    story.answer(epoch=-1)
    assert returned(story) == [Call.UNSUBSCRIBE]
    story.subscribe()
    assert story.state is S.UNSUBSCRIBED
    story.poll()
    assert story.state is S.JOINING
    assert (story.last.member_id, story.last.member_epoch) == ("m1", 0)


def test_a_leaving_member_heartbeats_with_its_epoch_while_the_callback_runs() -> None:
    story = Story()
    story.stabilise(0)
    story.handle(Unsubscribe())
    story.wait(INTERVAL_MS)
    assert story.last.member_epoch == 1


def test_a_member_that_joins_leaves_with_the_lost_callback() -> None:
    """Epoch 0, partitions still assigned: fenced, its lost callback late, then closed."""
    story = Story()
    story.stabilise(0)
    story.wait(INTERVAL_MS)
    story.refuse(ErrorCode.FENCED_MEMBER_EPOCH)
    effects = story.handle(Close())
    assert story.states(effects) == ["UNSUBSCRIBED"]
    assert story.callbacks(effects) == [(LOST, partitions(0))]
    assert sent(effects) == []
    assert story.states(story.finish_callback()) == []
    assert returned(story) == [Call.CLOSE]


def test_the_leave_of_a_poll_expiry_that_gets_lost_costs_no_coordinator() -> None:
    """The leave is logged, and nothing listens to it (client §6.1)."""
    story = Story(max_poll_interval_ms=4_000)
    story.stabilise(0)
    story.wait(5_000)
    assert (story.state, story.last.member_epoch) == (S.STALE, -1)
    story.disconnect(story.heartbeats[-1])
    assert story.member.coordinator_id is not None
    assert story.searches == []


def test_a_commit_that_waits_for_a_coordinator_does_not_hold_up_close() -> None:
    """KAFKA-19357."""
    story = Story(enable_auto_commit=False)
    story.stabilise(0)
    story.wait(INTERVAL_MS)
    story.refuse(ErrorCode.NOT_COORDINATOR)
    offsets = dict.fromkeys(partitions(0), 10)
    story.handle(CommitOffsets(commit_id=1, is_sync=False, offsets=offsets))
    assert story.commits == []
    story.handle(Close(timeout_ms=30_000))
    story.finish_callback()
    assert returned(story) == [Call.CLOSE]
    results = [effect for effect in story.effects if isinstance(effect, CommitReturned)]
    assert [result.error_code for result in results] == [ErrorCode.COORDINATOR_NOT_AVAILABLE]


def test_a_leaving_member_without_coordinator_gives_up_at_once() -> None:
    story = Story()
    story.stabilise()
    story.wait(INTERVAL_MS)
    story.refuse(ErrorCode.NOT_COORDINATOR)
    count = len(story.heartbeats)
    story.handle(Unsubscribe())
    assert story.states()[-2:] == ["LEAVING", "UNSUBSCRIBED"]
    assert len(story.heartbeats) == count
    assert returned(story) == [Call.UNSUBSCRIBE]


def test_unsubscribing_twice_or_while_blocked_is_a_bug_of_the_host() -> None:
    story = Story()
    story.stabilise(0)
    story.handle(Unsubscribe())
    with pytest.raises(ProtocolBug, match="blocked already"):
        story.handle(Unsubscribe())


def test_unsubscribe_of_a_member_that_is_out_returns_at_once() -> None:
    story = Story()
    story.subscribe()
    story.handle(Unsubscribe())
    assert returned(story) == [Call.UNSUBSCRIBE]
    assert not story.member.has_subscription


def test_the_identity_of_commits_ends_with_the_leave() -> None:
    story = Story(enable_auto_commit=False)
    story.stabilise(0)
    story.handle(Unsubscribe())
    assert story.member.commit_identity is not None
    story.finish_callback()
    assert story.member.commit_identity is None
    assert NO_MEMBER_EPOCH == -1


def test_32_a_lost_connection_is_repaired_by_a_full_heartbeat_that_changes_nothing() -> None:
    story = Story(client_rack="r1")
    story.stabilise(0)
    story.wait(INTERVAL_MS)
    assert sent(story.disconnect(story.heartbeats[-1])) == ["FindCoordinator"]
    story.wait(100)
    story.find_coordinator()
    assert (story.last.rack_id, story.last.topic_partitions) == (None, partitions(0))
    assert story.last.is_full
    effects = story.answer(partitions(0))
    assert story.states(effects) == []
    assert [e for e in effects if isinstance(e, SendHeartbeat)] == []


def test_21_an_acknowledgement_that_times_out_is_repeated_in_full() -> None:
    story = Story(enable_auto_commit=False)
    story.join()
    story.answer(partitions(0))
    story.poll()
    story.finish_callback()
    acknowledgement = story.heartbeats[-1]
    story.wait(30_000)
    story.disconnect(acknowledgement)
    story.find_coordinator()
    story.wait(100)
    assert story.last.is_full
    assert story.last.topic_partitions == partitions(0)


def test_a_join_whose_answer_is_lost_is_repeated_with_the_same_id_and_epoch() -> None:
    story = Story()
    story.join()
    first = story.last
    story.disconnect(story.heartbeats[-1])
    story.wait(100)
    story.find_coordinator()
    assert story.last == first
