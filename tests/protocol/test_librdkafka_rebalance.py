"""How a librdkafka member takes over, gives up, commits, leaves, and ends.

Source: client §10.1.
"""

from __future__ import annotations

import itertools

import pytest
from librdkafka_driver import LibrdkafkaStory
from member_driver import INTERVAL_MS, partitions, sent

from rebalance_sim.protocol.clients.common.effects import CallReturned, RaiseError
from rebalance_sim.protocol.clients.common.events import (
    Close,
    CommitAnswered,
    CommitOffsets,
    MetadataKnown,
    PollingResumed,
    RecordsReturned,
    Subscribe,
    Unsubscribe,
)
from rebalance_sim.protocol.clients.common.member_states import ClientState
from rebalance_sim.protocol.clients.common.values import CallbackKind
from rebalance_sim.protocol.clients.librdkafka.librdkafka_states import (
    LEGAL_JOIN_TRANSITIONS,
    JoinState,
    check_join_transition,
)
from rebalance_sim.protocol.wire.errors import ErrorCode, IllegalTransition, ProtocolBug
from rebalance_sim.protocol.wire.offset_messages import OffsetCommitResponse, OffsetFetchResponse

ASSIGNED, REVOKED, LOST = CallbackKind.ASSIGNED, CallbackKind.REVOKED, CallbackKind.LOST
NOTHING = partitions()


# --- taking over and giving up -------------------------------------------------------------------


def test_partitions_are_looked_up_inside_the_callback_and_then_acknowledged() -> None:
    story = LibrdkafkaStory()
    story.join()
    effects = story.answer(partitions(0, 1))
    assert story.callbacks(effects) == [(ASSIGNED, partitions(0, 1))]
    assert sent(effects) == []
    assert story.member.assigned == {}, "the callback itself assigns"
    effects = story.finish_callback()
    assert sent(effects) == ["SendOffsetFetch"]
    fetch = story.fetches[-1].request
    assert (fetch.member_id, fetch.member_epoch) == (None, -1)
    assert fetch.partitions == partitions(0, 1)
    effects = story.look_up()
    assert sent(effects) == ["SendHeartbeat"]
    assert story.last.topic_partitions == partitions(0, 1)
    assert story.member.fetchable == partitions(0, 1)


def test_what_is_revoked_is_committed_and_nothing_else_before_the_acknowledgement() -> None:
    story = LibrdkafkaStory()
    story.stabilise(0, 1, 2)
    story.wait(INTERVAL_MS)
    effects = story.answer(partitions(0), epoch=2)
    assert story.callbacks(effects) == [(REVOKED, partitions(1, 2))]
    assert story.commits == [], "the commit is made when the callback unassigns"
    effects = story.finish_callback()
    assert sent(effects) == ["SendCommit"]
    commit = story.commits[-1].request
    assert commit.offsets == dict.fromkeys(partitions(1, 2), 10)
    assert commit.generation_id_or_member_epoch == 2
    assert story.join_state is JoinState.WAIT_INCR_UNASSIGN_TO_COMPLETE
    effects = story.answer_commit()
    assert story.callbacks(effects) == [(ASSIGNED, NOTHING)]
    effects = story.finish_callback()
    assert sent(effects) == ["SendHeartbeat"]
    assert story.last.topic_partitions == partitions(0)


def test_nothing_is_committed_when_partitions_are_only_added() -> None:
    story = LibrdkafkaStory()
    story.stabilise(0)
    story.wait(INTERVAL_MS)
    story.answer(partitions(0, 1), epoch=2)
    story.finish_callback()
    story.look_up()
    assert story.last.topic_partitions == partitions(0, 1)
    assert story.commits == []


def test_nothing_is_fetched_while_a_callback_waits_or_runs_not_even_what_is_kept() -> None:
    story = LibrdkafkaStory()
    story.stabilise(0, 1)
    assert story.member.fetchable == partitions(0, 1)
    story.stay_away()
    story.wait(INTERVAL_MS)
    story.answer(partitions(0), epoch=2)
    assert story.member.running_callback is None
    assert story.member.fetchable == NOTHING
    story.resume()
    story.finish_callback()
    assert story.member.fetchable == partitions(0)


def test_revocation_commit_and_acknowledgement_go_on_without_a_listener_and_without_a_poll() -> (
    None
):
    story = LibrdkafkaStory()
    story.stabilise(0, 1, has_listener=False)
    story.stay_away()
    story.wait(INTERVAL_MS)
    effects = story.answer(partitions(0), epoch=2)
    assert sent(effects) == ["SendCommit"]
    effects = story.answer_commit()
    assert sent(effects) == ["SendHeartbeat"]
    assert story.last.topic_partitions == partitions(0)
    assert story.callbacks() == []


def test_only_the_callbacks_wait_for_the_application() -> None:
    story = LibrdkafkaStory()
    story.stabilise(0, 1)
    story.wait(INTERVAL_MS)
    story.answer(partitions(0), epoch=2)
    story.stay_away()
    effects = story.finish_callback()
    assert sent(effects) == ["SendCommit"]
    effects = story.answer_commit()
    assert story.callbacks(effects) == []
    assert story.join_state is JoinState.WAIT_ASSIGN_CALL
    effects = story.resume()
    assert story.callbacks(effects) == [(ASSIGNED, NOTHING)]


def test_an_assignment_that_comes_meanwhile_is_begun_by_the_answer_to_the_acknowledgement() -> None:
    story = LibrdkafkaStory()
    story.stabilise(0)
    story.wait(INTERVAL_MS)
    story.answer(partitions(0, 1), epoch=2)
    story.wait(INTERVAL_MS)
    story.answer(partitions(0, 1, 2), epoch=3)
    story.finish_callback()
    story.look_up()
    assert story.last.topic_partitions == partitions(0, 1)
    effects = story.answer(epoch=3)
    assert story.callbacks(effects) == [(ASSIGNED, partitions(2))]


def test_a_callback_that_throws_changes_nothing() -> None:
    story = LibrdkafkaStory()
    story.join()
    story.answer(partitions(0))
    story.finish_callback(failed=True)
    story.look_up()
    assert story.last.topic_partitions == partitions(0)
    assert story.member.fetchable == partitions(0)


def test_partitions_of_a_topic_without_a_name_wait_for_the_metadata() -> None:
    story = LibrdkafkaStory(metadata={"orders": "orders"})
    story.join()
    effects = story.answer(partitions(0, topic="payments"))
    assert "RequestMetadata" in [type(effect).__name__ for effect in effects]
    assert story.callbacks() == []
    names = {"orders": "orders", "payments": "payments"}
    effects = story.handle(MetadataKnown(topic_names=names))
    assert story.callbacks(effects) == [(ASSIGNED, partitions(0, topic="payments"))]


# --- commits -------------------------------------------------------------------------------------


def test_the_interval_commit_needs_no_poll_and_names_only_what_has_moved() -> None:
    story = LibrdkafkaStory(auto_commit_interval_ms=5_000)
    story.stabilise(0, 1, consumed=False)
    story.stay_away()
    story.handle(RecordsReturned(positions=dict.fromkeys(partitions(0), 7)))
    effects = story.wait(5_000 - story.now_ms)
    assert "SendCommit" in sent(effects)
    assert story.commits[-1].request.offsets == dict.fromkeys(partitions(0), 7)
    story.answer_commit()
    story.wait(5_000)
    assert len(story.commits) == 1, "nothing has moved since"
    story.handle(RecordsReturned(positions=dict.fromkeys(partitions(1), 6)))
    story.wait(5_000)
    assert story.commits[-1].request.offsets == dict.fromkeys(partitions(1), 6)


def test_an_interval_that_ends_in_a_rebalance_commits_nothing() -> None:
    story = LibrdkafkaStory(auto_commit_interval_ms=7_000)
    story.stabilise(0)
    story.wait(INTERVAL_MS)
    story.answer(partitions(0, 1), epoch=2)
    story.wait(7_500 - story.now_ms)
    assert story.member.running_callback is not None
    assert story.commits == []


def test_a_commit_is_repeated_twice_word_for_word_and_then_put_off() -> None:
    story = LibrdkafkaStory()
    story.stabilise(0)
    story.commit()
    first = story.commits[-1].request
    waits: list[int] = []
    for _ in range(2):
        count, begin_ms = len(story.commits), story.now_ms
        story.answer_commit(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        while len(story.commits) == count:
            story.wait(1)
        waits.append(story.now_ms - begin_ms)
        assert story.commits[-1].request is first
    assert waits == [100, 200]
    story.answer_commit(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert story.commit_results() == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]


def test_a_repeated_commit_keeps_the_epoch_that_it_had() -> None:
    story = LibrdkafkaStory()
    story.stabilise(0)
    story.wait(INTERVAL_MS - 50)
    story.commit()
    story.answer_commit(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    story.wait(60)
    story.answer(epoch=2)
    assert story.member.member_epoch == 2
    story.wait(100)
    assert [c.request.generation_id_or_member_epoch for c in story.commits] == [1, 1]


def test_a_new_commit_overtakes_one_that_waits_to_be_repeated() -> None:
    """What the coordinator has in the end is the older one."""
    story = LibrdkafkaStory()
    story.stabilise(0)
    story.commit(dict.fromkeys(partitions(0), 10))
    story.answer_commit(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    story.wait(50)
    story.commit(dict.fromkeys(partitions(0), 20))
    story.answer_commit()
    story.wait(100)
    assert [set(c.request.offsets.values()) for c in story.commits] == [{10}, {20}, {10}]


def test_a_stale_commit_is_an_error_for_the_application_and_a_heartbeat_goes_out_at_once() -> None:
    story = LibrdkafkaStory()
    story.stabilise(0)
    story.wait(100)
    story.commit()
    effects = story.answer_commit(ErrorCode.STALE_MEMBER_EPOCH)
    assert story.commit_results() == [ErrorCode.STALE_MEMBER_EPOCH]
    assert sent(effects) == ["SendHeartbeat"]


def test_an_automatic_commit_that_was_stale_is_signed_anew_until_it_passes() -> None:
    story = LibrdkafkaStory(auto_commit_interval_ms=3_000)
    story.stabilise(0)
    story.wait(3_000 - story.now_ms)
    story.answer_commit(ErrorCode.STALE_MEMBER_EPOCH)
    story.answer(epoch=2)
    story.answer_commit(ErrorCode.STALE_MEMBER_EPOCH)
    story.answer_commit()
    story.wait(2_000)
    assert [c.request.generation_id_or_member_epoch for c in story.commits] == [1, 1, 2]


def test_a_commit_without_a_coordinator_waits_for_45_seconds() -> None:
    story = LibrdkafkaStory()
    story.stabilise(0)
    story.can_connect = False
    story.lose_connection()
    story.commit()
    begin_ms = story.now_ms
    while not story.commit_results():
        story.wait(100)
    assert story.commit_results() == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert story.now_ms - begin_ms == 45_000
    assert story.commits == []


def test_a_moved_coordinator_that_a_commit_learns_of_is_searched_at_once() -> None:
    story = LibrdkafkaStory()
    story.stabilise(0)
    story.wait(1_000)
    story.commit()
    effects = story.answer_commit(ErrorCode.NOT_COORDINATOR)
    assert "FindCoordinator" in sent(effects)
    effects = story.answer_searches()
    assert "SendHeartbeat" in sent(effects)
    assert not story.last.is_full
    story.wait(200)
    assert len(story.commits) == 2


def test_offsets_are_looked_up_only_when_no_commit_is_open() -> None:
    story = LibrdkafkaStory()
    story.stabilise(0)
    story.wait(INTERVAL_MS)
    story.commit()
    story.answer(partitions(0, 1), epoch=2)
    effects = story.finish_callback()
    assert sent(effects) == []
    effects = story.answer_commit()
    assert sent(effects) == ["SendOffsetFetch"]


def test_a_look_up_that_fails_is_repeated_and_the_acknowledgement_waits() -> None:
    story = LibrdkafkaStory()
    story.join()
    story.answer(partitions(0))
    story.finish_callback()
    count = len(story.heartbeats)
    story.answer_fetch(OffsetFetchResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
    story.wait(100)
    assert len(story.fetches) == 2
    assert len(story.heartbeats) == count
    story.look_up()
    assert len(story.heartbeats) == count + 1


# --- leaving -------------------------------------------------------------------------------------


def test_unsubscribe_returns_at_once_and_the_rest_follows_at_the_next_poll() -> None:
    story = LibrdkafkaStory()
    story.stabilise(0)
    story.stay_away()
    effects = story.handle(Unsubscribe())
    assert any(isinstance(effect, CallReturned) for effect in effects)
    assert sent(effects) == []
    assert story.member.assigned.keys() == partitions(0)
    effects = story.resume()
    assert story.callbacks(effects) == [(REVOKED, partitions(0))]
    effects = story.finish_callback()
    assert sent(effects) == ["SendCommit"]
    effects = story.answer_commit()
    assert sent(effects) == ["SendHeartbeat"]
    leave = story.last
    assert (leave.member_epoch, leave.instance_id) == (-1, None)
    assert (leave.topic_partitions, leave.subscribed_topic_names) == (None, None)
    assert story.member.assigned == {}
    story.answer(epoch=-1)
    assert story.member.state is ClientState.UNSUBSCRIBED


def test_unsubscribe_in_the_middle_of_a_rebalance_leaves_nothing_of_it() -> None:
    story = LibrdkafkaStory()
    story.stabilise(0, 1)
    story.wait(INTERVAL_MS)
    story.answer(partitions(0), epoch=2)
    story.finish_callback()  # Revoked is partition 1; its commit is open.
    story.handle(Unsubscribe())
    story.answer_commit()
    effects = story.finish_callback()
    assert story.callbacks(effects) == [], "what the rebalance was to assign is off"
    story.answer_commit()
    assert story.last.member_epoch == -1
    story.answer(epoch=-1)
    assert story.join_state is JoinState.INIT
    story.handle(Subscribe(topic_names=frozenset({"payments"}), has_listener=True))
    story.wait(100)
    assert (story.last.member_epoch, story.last.topic_partitions) == (0, NOTHING)


def test_nothing_is_fetched_while_a_second_revoked_callback_is_to_run() -> None:
    story = LibrdkafkaStory()
    story.stabilise(0, 1)
    story.wait(INTERVAL_MS)
    story.stay_away()
    story.answer(partitions(0), epoch=2)
    story.handle(Unsubscribe())
    effects = story.resume()
    assert story.callbacks(effects) == [(REVOKED, partitions(1))]
    effects = story.finish_callback()
    assert story.callbacks(effects) == [(REVOKED, partitions(0))]
    assert story.member.fetchable == NOTHING
    story.finish_callback()
    first, second = story.commits[-2:]
    answers = {
        commit.correlation_id: OffsetCommitResponse(
            errors=dict.fromkeys(commit.request.offsets, ErrorCode.NONE)
        )
        for commit in (first, second)
    }
    for number, response in answers.items():
        assert story.last.member_epoch > 0, "the leave waits for both commits"
        story.handle(CommitAnswered(correlation_id=number, response=response))
    assert story.last.member_epoch == -1


def test_unsubscribe_while_everything_is_being_revoked_waits_for_that() -> None:
    story = LibrdkafkaStory()
    story.stabilise(0)
    story.wait(INTERVAL_MS)
    story.stay_away()
    story.answer(NOTHING, epoch=2)
    assert sent(story.handle(Unsubscribe())) == []
    effects = story.resume()
    assert story.callbacks(effects) == [(REVOKED, partitions(0))]
    story.finish_callback()
    assert story.last.member_epoch > 0
    story.answer_commit()
    assert story.last.member_epoch == -1
    assert story.member.assigned == {}


def test_a_subscription_during_a_leave_waits_until_the_leave_is_over() -> None:
    story = LibrdkafkaStory()
    story.stabilise(0)
    story.handle(Unsubscribe())
    story.handle(Subscribe(topic_names=frozenset({"payments"}), has_listener=True))
    assert story.member.has_subscription
    story.finish_callback()
    story.answer_commit()
    assert story.last.member_epoch == -1
    story.answer(epoch=-1)
    story.wait(100)
    assert story.last.member_epoch == 0
    assert story.last.subscribed_topic_names == ("payments",)


@pytest.mark.parametrize(("instance_id", "epoch"), [(None, -1), ("seat", -2)])
def test_close_revokes_commits_leaves_and_returns(instance_id: str | None, epoch: int) -> None:
    story = LibrdkafkaStory(group_instance_id=instance_id)
    story.stabilise(0)
    effects = story.handle(Close())
    assert story.callbacks(effects) == [(REVOKED, partitions(0))]
    effects = story.finish_callback()
    assert sent(effects) == ["SendCommit"]
    effects = story.answer_commit()
    assert sent(effects) == ["SendHeartbeat"]
    assert (story.last.member_epoch, story.last.instance_id) == (epoch, instance_id)
    assert not story.member.is_closed
    effects = story.answer(epoch=epoch)
    assert story.member.is_closed
    assert any(isinstance(effect, CallReturned) for effect in effects)


def test_close_does_not_wait_for_the_answer_to_a_leave_longer_than_an_interval() -> None:
    story = LibrdkafkaStory()
    story.stabilise(0)
    story.handle(Close())
    story.finish_callback()
    story.answer_commit()
    story.wait(INTERVAL_MS)
    assert story.member.is_closed


def test_close_after_a_fatal_error_returns_at_once_and_tells_no_one() -> None:
    story = LibrdkafkaStory()
    story.stabilise(0)
    story.wait(INTERVAL_MS)
    story.refuse(ErrorCode.FENCED_INSTANCE_ID)
    story.effects.clear()
    effects = story.handle(Close())
    assert story.member.is_closed
    assert sent(effects) == []
    assert story.callbacks(effects) == []


def test_a_fatal_error_while_close_gives_up_partitions_keeps_it_from_leaving() -> None:
    story = LibrdkafkaStory()
    story.stabilise(0, consumed=False)
    story.wait(INTERVAL_MS)
    story.handle(Close())
    story.refuse(ErrorCode.GROUP_ID_NOT_FOUND)
    effects = story.finish_callback()
    assert story.member.is_closed
    assert sent(effects) == []


def test_close_without_a_coordinator_does_not_leave() -> None:
    story = LibrdkafkaStory()
    story.stabilise(0, consumed=False)
    story.can_connect = False
    story.lose_connection()
    story.handle(Close())
    story.finish_callback()
    story.wait(1_000)
    assert story.member.is_closed
    assert story.last.member_epoch >= 0


def test_close_in_the_moment_of_a_repetition_sends_nothing_to_no_one() -> None:
    story = LibrdkafkaStory()
    story.join()
    story.refuse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    story.now_ms += 100
    effects = story.handle(Close())
    assert story.member.is_closed
    assert sent(effects) == []


def test_close_in_the_middle_of_an_assigned_callback_leaves_when_it_has_returned() -> None:
    story = LibrdkafkaStory()
    story.join()
    story.stay_away()
    story.answer(partitions(0))
    effects = story.handle(Close())
    while story.member.running_callback is not None:
        effects += story.finish_callback()
    assert story.last.member_epoch == -1
    story.answer(epoch=-1)
    assert story.member.is_closed
    assert story.member.assigned == {}


# --- states and misuse ---------------------------------------------------------------------------


@pytest.mark.parametrize(("source", "target"), [*itertools.permutations(JoinState, 2)])
def test_the_table_alone_says_which_changes_are_legal(source: JoinState, target: JoinState) -> None:
    if target in LEGAL_JOIN_TRANSITIONS[source]:
        check_join_transition(source, target)
    else:
        with pytest.raises(IllegalTransition, match=f"from {source.value} to {target.value}"):
            check_join_transition(source, target)


def test_a_client_side_pattern_is_the_java_clients_alone() -> None:
    story = LibrdkafkaStory()
    with pytest.raises(ProtocolBug, match="librdkafka lets the broker match"):
        story.handle(Subscribe(topic_names=frozenset(), matches_locally=True, has_listener=True))


def test_time_never_goes_back() -> None:
    story = LibrdkafkaStory()
    story.wait(10)
    story.resume()
    story.now_ms = 5
    with pytest.raises(ProtocolBug, match="time goes back"):
        story.handle(PollingResumed())


def test_an_error_is_raised_by_the_next_poll_only_once() -> None:
    story = LibrdkafkaStory()
    story.stabilise(0)
    story.stay_away()
    story.wait(INTERVAL_MS)
    story.refuse(ErrorCode.INVALID_REQUEST)
    assert story.errors() == []
    effects = story.resume()
    assert [type(e) for e in effects if isinstance(e, RaiseError)] == [RaiseError]
    story.stay_away()
    effects = story.resume()
    assert not any(isinstance(effect, RaiseError) for effect in effects)


def test_an_application_that_commits_nothing_is_answered_at_once() -> None:
    story = LibrdkafkaStory()
    story.stabilise(0, consumed=False)
    story.handle(CommitOffsets(commit_id=1, is_sync=True))
    assert story.commit_results() == [None]
    assert story.commits == []
