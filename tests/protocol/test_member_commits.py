"""Commits and offset fetches of a member (client §7, §8, Appendix B)."""

from __future__ import annotations

import pytest
from member_driver import INTERVAL_MS, Story, partitions, sent

from rebalance_sim.protocol.clients.common.effects import ResetPositions, ValidatePositions
from rebalance_sim.protocol.clients.common.events import (
    Close,
    CommitAnswered,
    CommitOffsets,
    Disconnected,
    PollingResumed,
    PositionsKnown,
    RecordsReturned,
    RequestExpired,
    Tick,
)
from rebalance_sim.protocol.clients.common.member_states import ClientState
from rebalance_sim.protocol.clients.common.values import CallbackKind, FetchState
from rebalance_sim.protocol.versions.semantics import SEMANTICS
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.offset_messages import (
    NO_MEMBER_EPOCH,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchResponse,
)
from rebalance_sim.protocol.wire.topics import TopicPartition

S = ClientState
P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


def stable(**settings: object) -> Story:
    """A member that owns P0 and P1, with positions 10."""
    story = Story(**settings)
    story.stabilise(0, 1)
    return story


# --- on the interval -----------------------------------------------------------------------------


def test_an_interval_commit_leaves_with_a_poll_and_carries_all_valid_positions() -> None:
    story = stable(auto_commit_interval_ms=1_000)
    assert story.member.poll_due_ms is not None
    story.wait(1_000)
    assert story.commits == []
    story.handle(RecordsReturned(positions={P0: 12}))
    assert sent(story.poll()) == ["SendCommit"]
    assert story.commits[0].request == OffsetCommitRequest(
        group_id="group",
        member_id="m1",
        generation_id_or_member_epoch=1,
        offsets={P0: 12, P1: 10},
    )


def test_the_interval_runs_from_the_commit_and_one_commit_is_under_way_at_a_time() -> None:
    story = stable(auto_commit_interval_ms=1_000)
    story.wait(1_000)
    story.poll()
    made_ms = story.now_ms
    assert story.member.poll_due_ms is None
    story.wait(3_000)
    assert sent(story.poll()) == []
    story.answer_commit()
    assert story.member.poll_due_ms == made_ms + 1_000
    assert sent(story.poll()) == ["SendCommit"]


def test_a_reconciliation_restarts_the_interval() -> None:
    story = Story(auto_commit_interval_ms=1_000)
    story.join()
    story.wait(700)
    story.answer(partitions(0))
    story.poll()
    story.finish_callback()
    assert story.member.poll_due_ms is not None
    done_ms = story.now_ms
    story.consume({P0: 10})
    assert story.member.poll_due_ms == done_ms + 1_000


def test_34_a_commit_waits_for_the_coordinator_with_the_offsets_of_its_creation() -> None:
    story = stable(auto_commit_interval_ms=1_000)
    story.wait(INTERVAL_MS)
    story.disconnect(story.heartbeats[-1])
    story.poll()
    story.handle(RecordsReturned(positions={P0: 99}))
    for _ in range(10):
        story.wait(1_000)
        story.poll()
    assert story.commits == []
    story.find_coordinator()
    assert len(story.commits) == 1
    assert story.commits[0].request.offsets[P0] == 10
    story.answer_commit(ErrorCode.NOT_COORDINATOR)
    assert story.member.poll_due_ms == story.now_ms + 1_000
    assert story.member.coordinator_id is None


@pytest.mark.parametrize("error_code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.STALE_MEMBER_EPOCH])
def test_a_final_error_leaves_the_interval_timer_alone_and_fences_no_one(
    error_code: ErrorCode,
) -> None:
    story = stable(auto_commit_interval_ms=1_000)
    story.wait(1_000)
    story.poll()
    made_ms = story.now_ms
    story.answer_commit(error_code)
    assert story.member.poll_due_ms == made_ms + 1_000
    assert story.state is S.STABLE
    assert story.errors() == []


def test_the_first_failing_partition_decides() -> None:
    story = stable(auto_commit_interval_ms=1_000)
    story.wait(1_000)
    story.poll()
    errors = {P1: ErrorCode.UNKNOWN_MEMBER_ID, P0: ErrorCode.NOT_COORDINATOR}
    story.handle(
        CommitAnswered(
            correlation_id=story.commits[-1].correlation_id,
            response=OffsetCommitResponse(errors=errors),
        )
    )
    assert story.member.coordinator_id is None


# --- before a revocation -------------------------------------------------------------------------


def reconciling() -> Story:
    """P1 is to be revoked; the commit before it is in flight."""
    story = stable()
    story.wait(INTERVAL_MS)
    story.answer(partitions(0))
    story.poll()
    assert set(story.commits[-1].request.offsets) == {P0, P1}
    return story


@pytest.mark.parametrize(
    "error_code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
)
def test_15_a_revocation_goes_on_when_its_commit_fails(error_code: ErrorCode) -> None:
    story = reconciling()
    story.answer_commit(error_code)
    assert story.callbacks(story.poll()) == [(CallbackKind.REVOKED, partitions(1))]


def test_25_a_stale_commit_is_retried_with_the_newest_epoch_and_offsets_read_again() -> None:
    story = reconciling()
    story.wait(INTERVAL_MS)
    story.answer(epoch=2)
    story.handle(RecordsReturned(positions={P0: 15}))
    story.answer_commit(ErrorCode.STALE_MEMBER_EPOCH)
    count = len(story.commits)
    story.wait(99)
    assert len(story.commits) == count
    story.wait(1)
    retry = story.commits[-1].request
    assert len(story.commits) == count + 1
    assert retry.generation_id_or_member_epoch == 2
    assert retry.offsets == {P0: 15, P1: 10}


def test_a_commit_before_revocation_is_given_up_after_the_poll_interval() -> None:
    story = Story(max_poll_interval_ms=60_000)
    story.stabilise(0, 1)
    story.handle(PollingResumed())
    story.wait(INTERVAL_MS)
    story.answer(partitions(0))
    story.poll()
    begun_ms = story.now_ms
    answered = 0
    while len(story.commits) > answered:
        answered = len(story.commits)
        story.answer_commit(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        story.wait(1_000)
    assert begun_ms + 60_000 <= story.now_ms <= begun_ms + 62_000
    assert story.callbacks(story.poll()) == [(CallbackKind.REVOKED, partitions(1))]


def test_a_reconciliation_with_no_valid_position_commits_nothing() -> None:
    story = Story()
    story.stabilise(0, consumed=False)
    story.wait(INTERVAL_MS)
    story.answer(partitions(0, 1))
    effects = story.poll()
    assert "SendCommit" not in sent(effects)
    assert story.callbacks(effects) == [(CallbackKind.ASSIGNED, partitions(1))]


# --- of the application --------------------------------------------------------------------------


def test_a_synchronous_commit_is_retried_until_it_succeeds() -> None:
    story = stable()
    story.handle(CommitOffsets(commit_id=1, is_sync=True))
    story.answer_commit(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert story.commit_results() == []
    story.wait(100)
    story.answer_commit()
    assert story.commit_results() == [None]


@pytest.mark.parametrize(
    ("answer", "repeated"),
    [
        (ErrorCode.NONE, {P1: 8}),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, {P0: 5, P1: 8}),
        (None, {P0: 5, P1: 8}),
    ],
)
def test_a_commit_that_was_overtaken_leaves_out_what_a_younger_one_has_stored(
    answer: ErrorCode | None, repeated: dict[TopicPartition, int]
) -> None:
    """And no more: what no one will repeat goes out again, with the offset of the younger one. That
    is what it does without sim-overtaken-commit."""
    story = stable(rules=SEMANTICS["kafka-4.3-clean"].member)
    story.handle(CommitOffsets(commit_id=1, is_sync=True, offsets={P0: 3, P1: 8}))
    story.answer_commit(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    story.handle(CommitOffsets(commit_id=2, is_sync=False, offsets={P0: 5}))
    if answer is not None:
        story.answer_commit(answer)
    story.wait(100)
    assert story.commits[-1].request.offsets == repeated
    story.answer_commit()
    story.poll()
    assert None in story.commit_results()


def test_a_commit_of_what_a_younger_one_has_stored_is_over() -> None:
    story = stable(rules=SEMANTICS["kafka-4.3-clean"].member)
    story.handle(CommitOffsets(commit_id=1, is_sync=True, offsets={P0: 3}))
    story.answer_commit(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    story.handle(CommitOffsets(commit_id=2, is_sync=True, offsets={P0: 5}))
    story.answer_commit()
    count = len(story.commits)
    story.wait(100)
    assert len(story.commits) == count
    assert story.commit_results() == [None, None]


@pytest.mark.parametrize("error_code", [ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID])
def test_a_synchronous_commit_fails_for_a_member_that_has_moved_on(error_code: ErrorCode) -> None:
    story = stable()
    story.handle(CommitOffsets(commit_id=1, is_sync=True, offsets={P0: 3}))
    assert story.commits[-1].request.offsets == {P0: 3}
    story.answer_commit(error_code)
    assert story.commit_results() == [error_code]
    assert story.state is S.STABLE


def test_a_synchronous_commit_times_out_without_a_coordinator() -> None:
    story = stable()
    story.wait(INTERVAL_MS)
    story.disconnect(story.heartbeats[-1])
    story.handle(CommitOffsets(commit_id=1, is_sync=True, timeout_ms=2_000))
    story.wait(1_999)
    assert story.commit_results() == []
    story.wait(1)
    assert story.commit_results() == [ErrorCode.REQUEST_TIMED_OUT]
    story.find_coordinator()
    assert len(story.commits) == 1  # it is sent once all the same
    story.answer_commit(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    story.wait(5_000)
    assert len(story.commits) == 1


def test_an_asynchronous_commit_is_never_retried_and_reports_inside_a_poll() -> None:
    story = stable()
    story.handle(CommitOffsets(commit_id=1, is_sync=False))
    story.answer_commit(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert story.commit_results() == []
    assert story.member.poll_is_due
    story.poll()
    assert story.commit_results() == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    story.wait(5_000)
    assert len(story.commits) == 1


def test_a_commit_of_nothing_succeeds_at_once() -> None:
    story = Story()
    story.stabilise()
    story.handle(CommitOffsets(commit_id=1, is_sync=True))
    assert story.commit_results() == [None]
    assert story.commits == []


def test_a_commit_inside_the_revoked_callback_is_signed_with_the_present_epoch() -> None:
    story = stable(enable_auto_commit=False)
    story.wait(INTERVAL_MS)
    story.answer(partitions(0), epoch=4)
    story.poll()
    story.handle(CommitOffsets(commit_id=1, is_sync=True))
    request = story.commits[-1].request
    assert request.generation_id_or_member_epoch == 4
    assert set(request.offsets) == {P0, P1}


def test_a_fenced_member_signs_commits_with_its_id_and_no_epoch() -> None:
    story = stable(group_instance_id="i1")
    story.wait(INTERVAL_MS)
    story.refuse(ErrorCode.UNKNOWN_MEMBER_ID)
    story.handle(CommitOffsets(commit_id=1, is_sync=False))
    request = story.commits[-1].request
    assert (request.member_id, request.generation_id_or_member_epoch) == ("m1", -1)
    assert request.group_instance_id == "i1"


def test_a_lost_commit_marks_the_coordinator_unknown_and_leaves_heartbeats_incremental() -> None:
    story = stable()
    story.wait(100)  # the minimum backoff of searches is over
    story.handle(CommitOffsets(commit_id=1, is_sync=True))
    assert sent(story.disconnect(story.commits[-1])) == ["FindCoordinator"]
    story.find_coordinator()
    story.wait(INTERVAL_MS)
    assert len(story.commits) == 2
    assert story.last.topic_partitions is None


def test_a_commit_that_expired_unsent_keeps_the_coordinator() -> None:
    story = stable()
    story.handle(CommitOffsets(commit_id=1, is_sync=True))
    story.handle(RequestExpired(correlation_ids=(story.commits[-1].correlation_id,)))
    assert story.member.coordinator_id == 1


def test_retries_queue_behind_fresh_commits() -> None:
    story = stable()
    story.handle(CommitOffsets(commit_id=1, is_sync=True, offsets={P0: 1}))
    story.answer_commit(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    story.handle(CommitOffsets(commit_id=2, is_sync=False, offsets={P0: 2}))
    story.wait(100)
    assert [c.request.offsets[P0] for c in story.commits] == [1, 2, 1]


def test_close_sends_a_waiting_commit_at_once_and_drops_lookups() -> None:
    story = stable()
    story.handle(CommitOffsets(commit_id=1, is_sync=False))
    story.answer_commit()
    story.poll()
    story.handle(Close(timeout_ms=5_000))
    story.answer_commit(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    story.wait(100)
    assert len(story.commits) == 3
    story.answer_commit()
    assert story.callbacks()[-1] == (CallbackKind.REVOKED, partitions(0, 1))


def test_the_poll_timer_runs_on_while_close_repeats_its_commit() -> None:
    """client §6.2: kafka-clients 4.3.1 and 4.4.0 leave by it, and commit on as no member."""
    story = stable(max_poll_interval_ms=6_000)
    story.handle(PollingResumed())
    story.handle(Close(timeout_ms=10 * INTERVAL_MS))
    story.wait(INTERVAL_MS)
    story.answer()
    assert story.states(story.wait(INTERVAL_MS)) == ["PREPARE_LEAVING", "LEAVING", "STALE"]
    story.answer_commit(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    story.wait(1_000)
    assert story.commits[-1].request.generation_id_or_member_epoch == NO_MEMBER_EPOCH


def test_close_waits_for_asynchronous_commits_and_runs_their_callbacks() -> None:
    story = stable(enable_auto_commit=False)
    story.handle(CommitOffsets(commit_id=7, is_sync=False))
    story.handle(Close())
    story.finish_callback()
    story.answer(epoch=-1)
    assert not story.member.is_closed
    story.answer_commit()
    assert story.commit_results() == [None]
    assert story.member.is_closed


# --- committed offsets ---------------------------------------------------------------------------


def looking_up(**settings: object) -> Story:
    """P0 and P1 are assigned, their offset fetch is in flight."""
    story = Story(**settings)
    story.stabilise(0, 1, consumed=False)
    story.poll()
    return story


def test_committed_offsets_are_fetched_once_with_the_identity_of_the_member() -> None:
    story = looking_up()
    request = story.fetches[-1].request
    assert (request.member_id, request.member_epoch) == ("m1", 1)
    assert request.partitions == partitions(0, 1)
    story.poll()
    assert len(story.fetches) == 1


def test_found_offsets_are_validated_and_missing_ones_reset_before_anything_is_fetched() -> None:
    story = looking_up()
    effects = story.answer_fetch(OffsetFetchResponse(offsets={P0: 7, P1: -1}))
    assert ValidatePositions(positions={P0: 7}) in effects
    assert ResetPositions(partitions=frozenset({P1})) in effects
    assert story.member.assigned[P0].fetch_state is FetchState.AWAIT_VALIDATION
    assert story.member.fetchable == frozenset()
    story.handle(PositionsKnown(positions={P0: 7}))
    assert story.member.fetchable == {P0}
    story.handle(PositionsKnown(positions={P1: 0}))
    assert story.member.fetchable == {P0, P1}


def test_a_stale_offset_fetch_is_retried_with_the_newest_epoch() -> None:
    story = looking_up()
    story.wait(INTERVAL_MS)
    story.answer(epoch=6)
    story.answer_fetch(OffsetFetchResponse(error_code=ErrorCode.STALE_MEMBER_EPOCH))
    story.wait(100)
    assert len(story.fetches) == 2
    assert story.fetches[-1].request.member_epoch == 6


def test_26_a_stale_offset_fetch_of_a_member_without_identity_fails() -> None:
    story = looking_up()
    story.wait(INTERVAL_MS)
    story.refuse(ErrorCode.UNKNOWN_MEMBER_ID)
    story.answer_fetch(OffsetFetchResponse(error_code=ErrorCode.STALE_MEMBER_EPOCH))
    story.wait(1_000)
    assert len(story.fetches) == 1
    story.poll()
    story.finish_callback()
    assert ErrorCode.STALE_MEMBER_EPOCH in story.errors()


def test_an_offset_fetch_survives_a_lost_connection() -> None:
    story = looking_up()
    story.wait(100)  # the minimum backoff of searches is over
    assert sent(story.disconnect(story.fetches[-1])) == ["FindCoordinator"]
    story.find_coordinator()
    story.wait(100)
    assert len(story.fetches) == 2


def test_an_unknown_member_hears_of_it_from_poll() -> None:
    story = looking_up()
    story.answer_fetch(OffsetFetchResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
    assert story.member.poll_is_due
    story.poll()
    assert story.errors() == [ErrorCode.UNKNOWN_MEMBER_ID]


def test_the_first_partition_with_an_error_decides_over_an_offset_fetch() -> None:
    story = looking_up()
    story.answer_fetch(
        OffsetFetchResponse(offsets={P0: 7}, errors={P1: ErrorCode.UNSTABLE_OFFSET_COMMIT})
    )
    assert story.member.assigned[P0].fetch_state is FetchState.INITIALIZING
    story.wait(100)
    assert len(story.fetches) == 2


def test_searches_for_commits_go_on_while_the_member_is_unsubscribed() -> None:
    story = Story()
    story.handle(Disconnected(correlation_ids=(story.searches.pop(),)))
    story.wait(100)
    assert len(story.searches) == 1
    assert story.member.next_deadline_ms is None
    story.handle(Tick())
    assert len(story.searches) == 1
