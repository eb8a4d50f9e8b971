"""When a member sends heartbeats, and what they contain (client §2, §3)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from member_driver import INTERVAL_MS, Story, partitions, sent

from rebalance_sim.protocol.clients.common.backoff import RequestPacer, backoff_ms
from rebalance_sim.protocol.clients.common.consumer_config import ConsumerConfig
from rebalance_sim.protocol.clients.common.effects import SendHeartbeat, StateChanged
from rebalance_sim.protocol.clients.common.events import (
    Close,
    CoordinatorSearchFailed,
    Disconnected,
    PatternMatched,
    Poll,
    RequestExpired,
    Subscribe,
    Tick,
    Unsubscribe,
)
from rebalance_sim.protocol.clients.common.member_states import ClientState
from rebalance_sim.protocol.clients.common.values import MembershipOperation
from rebalance_sim.protocol.wire.consumer_messages import ConsumerGroupHeartbeatRequest
from rebalance_sim.protocol.wire.errors import ErrorCode, ProtocolBug

S = ClientState


# --- content -------------------------------------------------------------------------------------


def test_a_join_carries_every_field() -> None:
    story = Story(
        client_rack="r1",
        group_remote_assignor="range",
        group_instance_id="i1",
        max_poll_interval_ms=60_000,
    )
    story.join()
    assert story.last == ConsumerGroupHeartbeatRequest(
        group_id="group",
        member_id="m1",
        member_epoch=0,
        instance_id="i1",
        rack_id="r1",
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=("orders",),
        subscribed_topic_regex=None,
        server_assignor="range",
        topic_partitions=frozenset(),
    )


def test_a_steady_heartbeat_carries_group_member_epoch_and_instance_only() -> None:
    story = Story(client_rack="r1", group_remote_assignor="range", group_instance_id="i1")
    story.stabilise(0, 1)
    story.wait(INTERVAL_MS)
    assert story.last == ConsumerGroupHeartbeatRequest(
        group_id="group", member_id="m1", member_epoch=1, instance_id="i1"
    )


def test_the_acknowledgement_carries_the_partitions_and_nothing_else() -> None:
    story = Story()
    story.stabilise(0, 1)
    assert story.last == ConsumerGroupHeartbeatRequest(
        group_id="group", member_id="m1", member_epoch=1, topic_partitions=partitions(0, 1)
    )


def test_a_full_heartbeat_after_a_failure_has_all_but_the_rack() -> None:
    story = Story(client_rack="r1", group_remote_assignor="range", group_instance_id="i1")
    story.stabilise(0)
    story.wait(INTERVAL_MS)
    story.refuse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    story.wait(100)
    assert story.last == ConsumerGroupHeartbeatRequest(
        group_id="group",
        member_id="m1",
        member_epoch=1,
        instance_id="i1",
        rebalance_timeout_ms=300_000,
        subscribed_topic_names=("orders",),
        server_assignor="range",
        topic_partitions=partitions(0),
    )


def test_a_leave_reports_the_dropped_subscription_and_no_partitions() -> None:
    story = Story(enable_auto_commit=False)
    story.stabilise(0)
    story.handle(Unsubscribe())
    story.finish_callback()
    assert story.last == ConsumerGroupHeartbeatRequest(
        group_id="group",
        member_id="m1",
        member_epoch=-1,
        subscribed_topic_names=(),
        topic_partitions=frozenset(),
    )


def test_a_leave_before_the_first_acknowledgement_reports_no_partitions_at_all() -> None:
    story = Story(enable_auto_commit=False)
    story.join()
    story.handle(Unsubscribe())
    assert story.last.member_epoch == -1
    assert story.last.topic_partitions is None
    assert story.last.subscribed_topic_names == ()


def test_an_empty_first_assignment_is_reported_once_more_by_the_leave() -> None:
    story = Story(enable_auto_commit=False)
    story.stabilise()
    assert story.last.topic_partitions == frozenset()
    story.handle(Unsubscribe())
    assert story.last.topic_partitions == frozenset()


def test_changed_topics_ride_on_the_next_regular_heartbeat() -> None:
    story = Story()
    story.stabilise(0)
    before = len(story.heartbeats)
    story.subscribe("orders", "payments")
    story.poll()
    assert len(story.heartbeats) == before
    story.wait(INTERVAL_MS)
    assert story.last == ConsumerGroupHeartbeatRequest(
        group_id="group",
        member_id="m1",
        member_epoch=1,
        subscribed_topic_names=("orders", "payments"),
    )


def test_a_pattern_for_the_broker_joins_with_no_names_and_leaves_with_an_empty_pattern() -> None:
    story = Story(enable_auto_commit=False)
    story.handle(Subscribe(topic_regex="ord.*"))
    story.handle(Tick())
    story.find_coordinator()
    story.poll()
    assert story.last.subscribed_topic_names == ()
    assert story.last.subscribed_topic_regex == "ord.*"
    story.answer(partitions())
    story.poll()
    story.finish_callback()
    assert story.last.subscribed_topic_regex is None
    story.answer()
    story.handle(Unsubscribe())
    assert story.last.subscribed_topic_regex == ""
    assert story.last.subscribed_topic_names is None


def test_a_pattern_of_the_client_joins_with_no_names_and_reports_matches_later() -> None:
    story = Story(enable_auto_commit=False)
    story.handle(Subscribe(matches_locally=True))
    story.handle(Tick())
    story.find_coordinator()
    story.poll()
    assert (story.last.subscribed_topic_names, story.last.subscribed_topic_regex) == ((), None)
    story.answer(partitions())
    story.handle(PatternMatched(topic_names=frozenset({"orders"})))
    story.poll()
    story.finish_callback()
    assert story.last.subscribed_topic_names == ("orders",)
    assert story.last.topic_partitions == frozenset()


def test_an_equal_set_received_again_through_another_is_reported_again() -> None:
    """A, B, A gives three targets: the last A is acknowledged although the set is the same."""
    story = Story(enable_auto_commit=False)
    story.stabilise(0)
    story.wait(INTERVAL_MS)
    story.answer(partitions(0, 1))
    story.handle(Poll())  # the assigned callback of {0, 1} runs
    story.wait(INTERVAL_MS)
    story.answer(partitions(0))
    story.wait(INTERVAL_MS)
    story.answer(partitions(0, 1))
    effects = story.finish_callback()
    assert story.states(effects)[:2] == ["ACKNOWLEDGING", "RECONCILING"]
    assert story.last.topic_partitions == partitions(0, 1)
    story.answer()
    assert story.last.topic_partitions == partitions(0, 1)
    assert story.member.current.local_epoch == 3


def test_a_static_member_leaves_with_minus_two_unless_told_to_leave_the_group() -> None:
    for operation, epoch in (
        (MembershipOperation.DEFAULT, -2),
        (MembershipOperation.REMAIN_IN_GROUP, -2),
        (MembershipOperation.LEAVE_GROUP, -1),
    ):
        story = Story(enable_auto_commit=False, group_instance_id="i1")
        story.stabilise(0)
        story.handle(Close(operation=operation))
        story.finish_callback()
        assert story.last.member_epoch == epoch
        assert story.last.instance_id == "i1"


# --- pace ----------------------------------------------------------------------------------------


def test_heartbeats_are_an_interval_apart_from_send_to_send() -> None:
    story = Story()
    story.stabilise(0)
    first_ms = story.member.next_deadline_ms
    assert first_ms is not None
    story.wait(first_ms - story.now_ms)
    story.answer()
    assert story.member.next_deadline_ms == first_ms + INTERVAL_MS


def test_an_answer_slower_than_the_interval_is_followed_by_the_minimum_backoff() -> None:
    story = Story()
    story.stabilise(0)
    story.wait(INTERVAL_MS)
    count = len(story.heartbeats)
    story.wait(7_000)
    assert len(story.heartbeats) == count
    story.answer()
    assert story.member.next_deadline_ms == story.now_ms + 100


def test_a_new_interval_counts_from_the_receipt() -> None:
    story = Story()
    story.join()
    story.answer(partitions(), epoch=1)
    assert story.member.heartbeat_interval_ms == INTERVAL_MS
    assert story.member.next_deadline_ms == story.now_ms + INTERVAL_MS


def test_an_acknowledgement_waits_for_the_answer_in_flight() -> None:
    story = Story(enable_auto_commit=False)
    story.stabilise(0)
    story.wait(INTERVAL_MS)
    story.answer(partitions(0, 1))
    story.poll()  # the callback runs
    story.wait(INTERVAL_MS)  # a heartbeat leaves meanwhile
    count = len(story.heartbeats)
    story.finish_callback()
    assert (story.state, len(story.heartbeats)) == (S.ACKNOWLEDGING, count)
    story.answer()
    assert (story.state, len(story.heartbeats)) == (S.STABLE, count + 1)


def test_loading_is_retried_with_growing_backoff_and_then_the_coordinator_is_kept() -> None:
    story = Story()
    story.stabilise(0)
    story.wait(INTERVAL_MS)
    waits = []
    for _ in range(7):
        story.refuse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        deadline_ms = story.member.next_deadline_ms
        assert deadline_ms is not None
        waits.append(deadline_ms - story.now_ms)
        story.wait(waits[-1])
    assert waits == [100, 200, 400, 800, 1_000, 1_000, 1_000]
    assert story.searches == []
    assert story.state is S.STABLE


@pytest.mark.parametrize(
    "error_code", [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE]
)
def test_a_moved_coordinator_is_searched_and_gets_a_full_heartbeat_at_once(
    error_code: ErrorCode,
) -> None:
    story = Story()
    story.stabilise(0)
    story.wait(INTERVAL_MS)
    assert sent(story.refuse(error_code)) == ["FindCoordinator"]
    assert story.member.coordinator_id is None
    assert sent(story.find_coordinator(node_id=2)) == ["SendHeartbeat"]
    assert story.last.topic_partitions == partitions(0)
    assert story.member.coordinator_id == 2


def test_searches_are_a_minimum_backoff_apart_even_if_each_is_answered() -> None:
    story = Story()
    story.stabilise(0)
    story.wait(INTERVAL_MS)
    story.refuse(ErrorCode.NOT_COORDINATOR)
    story.find_coordinator()
    found_ms = story.now_ms
    story.refuse(ErrorCode.NOT_COORDINATOR)
    assert story.searches == []
    assert story.member.next_deadline_ms == found_ms + 100


def test_a_fatal_answer_to_a_search_is_raised_but_the_search_goes_on() -> None:
    story = Story()
    story.subscribe()
    story.handle(Tick())
    story.handle(
        CoordinatorSearchFailed(
            correlation_id=story.searches.pop(),
            error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED,
        )
    )
    story.poll()
    assert story.errors() == [ErrorCode.GROUP_AUTHORIZATION_FAILED]
    story.wait(100)
    assert len(story.searches) == 1


def test_the_search_begins_before_anything_is_subscribed() -> None:
    story = Story()
    assert sent(story.effects) == ["FindCoordinator"]
    story.handle(Disconnected(correlation_ids=(story.searches.pop(),)))
    assert story.member.next_deadline_ms == story.now_ms + 100


def test_a_request_that_expired_unsent_keeps_the_coordinator() -> None:
    story = Story()
    story.stabilise(0)
    story.wait(INTERVAL_MS)
    story.handle(RequestExpired(correlation_ids=(story.heartbeats[-1].correlation_id,)))
    assert story.member.coordinator_id == 1
    story.wait(100)
    assert story.last.topic_partitions == partitions(0)


def test_the_poll_timer_is_looked_at_only_with_a_known_coordinator() -> None:
    story = Story(max_poll_interval_ms=4_000)
    story.stabilise(0)
    story.wait(INTERVAL_MS - 1)
    story.handle(Tick())
    assert story.state is S.STALE
    other = Story(max_poll_interval_ms=10_000)
    other.stabilise(0)
    other.wait(INTERVAL_MS)
    other.refuse(ErrorCode.NOT_COORDINATOR)
    other.wait(20_000)
    assert other.state is S.STABLE


def poll_expiry_in_flight(story: Story) -> tuple[int, int]:
    """The application stays away, and the next heartbeat gets no answer: when that was sent, and
    when the client has seen the poll timer."""
    due_ms = story.member.next_heartbeat_due_ms
    assert due_ms is not None
    story.wait(due_ms - story.now_ms)
    assert (story.state, story.member.heartbeats_in_flight) == (S.STABLE, 1)
    while story.state is S.STABLE:
        story.wait(1)
    assert (story.state, story.last.member_epoch) == (S.STALE, -1)
    return due_ms, story.now_ms


def test_the_poll_timer_is_looked_at_when_the_interval_of_a_heartbeat_in_flight_ends() -> None:
    story = Story(max_poll_interval_ms=INTERVAL_MS + 1_000)
    story.stabilise(0)
    sent_ms, seen_ms = poll_expiry_in_flight(story)
    assert seen_ms == sent_ms + INTERVAL_MS


def test_once_that_interval_is_over_the_poll_timer_is_looked_at_all_the_time() -> None:
    story = Story(max_poll_interval_ms=2 * INTERVAL_MS + 1_000)
    story.stabilise(0)
    polled_ms = story.now_ms
    _, seen_ms = poll_expiry_in_flight(story)
    assert seen_ms == polled_ms + 2 * INTERVAL_MS + 1_000


def test_the_poll_timer_is_looked_at_every_five_seconds_of_a_longer_interval() -> None:
    story = Story(max_poll_interval_ms=13_500)
    story.stabilise(0)
    due_ms = story.member.next_heartbeat_due_ms
    assert due_ms is not None
    story.wait(due_ms - story.now_ms)
    story.answer(interval_ms=12_000)
    story.poll()
    sent_ms, seen_ms = poll_expiry_in_flight(story)
    assert seen_ms == sent_ms + 5_000


def test_an_answer_to_a_request_that_is_not_in_flight_is_a_bug_of_the_host() -> None:
    story = Story()
    story.stabilise(0)
    with pytest.raises(ProtocolBug, match="not in flight"):
        story.answer()
    with pytest.raises(ProtocolBug, match="not in flight"):
        story.handle(Disconnected(correlation_ids=(99,)))


def test_a_steady_heartbeat_is_the_same_value_again_and_again() -> None:
    story = Story()
    story.stabilise(0)
    requests = []
    for _ in range(3):
        story.wait(INTERVAL_MS)
        requests.append(story.last)
        story.answer()
    assert requests[0] is requests[1] is requests[2]


def test_state_changes_name_the_epoch_of_their_moment() -> None:
    story = Story(enable_auto_commit=False)
    story.stabilise(0, epoch=7)
    story.handle(Unsubscribe())
    story.finish_callback()
    changes = [
        (e.from_state.value, e.to_state.value, e.member_epoch)
        for e in story.effects
        if isinstance(e, StateChanged)
    ]
    assert changes == [
        ("UNSUBSCRIBED", "JOINING", 0),
        ("JOINING", "RECONCILING", 7),
        ("RECONCILING", "ACKNOWLEDGING", 7),
        ("ACKNOWLEDGING", "STABLE", 7),
        ("STABLE", "PREPARE_LEAVING", 7),
        ("PREPARE_LEAVING", "LEAVING", -1),
        ("LEAVING", "UNSUBSCRIBED", -1),
    ]


# --- backoff -------------------------------------------------------------------------------------


def test_the_nominal_backoff_series_doubles_up_to_its_maximum() -> None:
    series = [backoff_ms(n, initial_ms=100, max_ms=1_000, jitter=0.0) for n in range(7)]
    assert series == [100, 200, 400, 800, 1_000, 1_000, 1_000]


def test_backoff_is_constant_if_the_maximum_is_not_above_the_initial_value() -> None:
    assert backoff_ms(5, initial_ms=100, max_ms=50, jitter=0.2) == 100


@given(attempt=st.integers(0, 10_000), jitter=st.floats(-0.2, 0.2))
def test_jitter_moves_a_backoff_by_a_fifth_and_never_above_the_maximum(
    attempt: int, jitter: float
) -> None:
    nominal = backoff_ms(attempt, initial_ms=100, max_ms=1_000, jitter=0.0)
    drawn = backoff_ms(attempt, initial_ms=100, max_ms=1_000, jitter=jitter)
    assert nominal * 0.8 - 1 <= drawn <= min(nominal * 1.2, 1_000)


def test_a_pacer_counts_its_backoff_from_the_last_receipt() -> None:
    pacer = RequestPacer(ConsumerConfig(group_id="g"), lambda: 1.0)
    assert pacer.may_send(0)
    pacer.on_sent()
    assert not pacer.may_send(10_000)
    pacer.on_failure(10_000)
    assert not pacer.may_send(10_119)
    assert pacer.may_send(10_120)
    pacer.on_sent()
    pacer.on_success(20_000)
    assert not pacer.may_send(20_119)
    pacer.reset()
    assert pacer.may_send(20_000)


def test_heartbeats_in_flight_are_counted_with_and_without_the_leave_of_a_poll_expiry() -> None:
    story = Story(max_poll_interval_ms=INTERVAL_MS + 1_000)
    story.stabilise(0)
    story.wait(INTERVAL_MS)
    story.wait(2_000)
    assert story.state is S.STABLE  # no round has begun, so no one has looked at the poll timer
    story.handle(Tick())
    assert story.state is S.STALE
    assert (story.member.heartbeats_in_flight, story.member.answered_by_handler_in_flight) == (2, 1)
    assert isinstance(story.heartbeats[-1], SendHeartbeat)
