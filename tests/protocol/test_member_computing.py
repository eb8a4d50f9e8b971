"""A member that offers client-side assignors, and computes a target when it is told to
(coordinator §12.3, §12.5-§12.7)."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest
from computing_driver import RANGE, REPORTED, RESULT, STICKY, ComputingStory, member_at_rest
from member_driver import INTERVAL_MS, Story, partitions

from rebalance_sim.protocol.assignors.client_side import AssignorMetadata, advertise
from rebalance_sim.protocol.clients.common.consumer_config import ConsumerConfig
from rebalance_sim.protocol.clients.common.effects import (
    AssignmentReceived,
    ComputeAssignment,
    Effect,
    SendHeartbeat,
    SendInstallAssignment,
    SendPrepareAssignment,
)
from rebalance_sim.protocol.clients.common.events import (
    AssignmentComputed,
    AssignorMetadataChanged,
    Close,
    Disconnected,
    Unsubscribe,
)
from rebalance_sim.protocol.clients.common.member_states import ClientState, ComputingState
from rebalance_sim.protocol.clients.java.consumer.computing import COMPUTING_TRANSITIONS, Computing
from rebalance_sim.protocol.wire.errors import ErrorCode, IllegalTransition, ProtocolBug


def kinds(effects: list[Effect]) -> list[str]:
    return [type(effect).__name__ for effect in effects]


# -- what it offers ------------------------------------------------------------------------


def test_a_join_offers_all_assignors_and_later_heartbeats_say_nothing_about_them() -> None:
    story = member_at_rest()
    assert story.heartbeats[0].request.client_assignors == (advertise(STICKY), advertise(RANGE))
    story.receive()
    story.wait(INTERVAL_MS)
    assert story.last.client_assignors is None


def test_new_metadata_goes_out_with_the_next_heartbeat_and_once() -> None:
    story = member_at_rest()
    story.receive()
    news = AssignorMetadata(reason=2, metadata_bytes=b"news")
    assert story.handle(AssignorMetadataChanged(assignor_name="range", metadata=news)) == []
    story.wait(INTERVAL_MS)
    assert story.last.client_assignors == (advertise(STICKY), advertise(RANGE, news))
    story.receive()
    story.wait(INTERVAL_MS)
    assert story.last.client_assignors is None


def test_after_a_failure_the_assignors_are_offered_again() -> None:
    story = member_at_rest()
    story.wait(INTERVAL_MS)
    story.refuse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    story.wait(1_000)
    assert story.last.client_assignors == (advertise(STICKY), advertise(RANGE))


def test_metadata_of_an_assignor_that_it_has_not_is_the_hosts_mistake() -> None:
    story = member_at_rest()
    with pytest.raises(ProtocolBug, match="streams is no assignor of this member"):
        story.handle(AssignorMetadataChanged(assignor_name="streams", metadata=AssignorMetadata()))


def test_a_member_without_assignors_offers_none_and_computes_nothing() -> None:
    story = Story()
    story.stabilise(0)
    assert story.heartbeats[0].request.client_assignors is None
    assert story.member.computing_state is None
    with pytest.raises(ProtocolBug, match="computes nothing"):
        story.handle(AssignmentComputed(computation_id=1, result=RESULT))


def test_assignors_of_both_sides_cannot_be_configured_together() -> None:
    with pytest.raises(ValueError, match="exclude each other"):
        ConsumerConfig(group_id="g", group_remote_assignor="range", group_local_assignors=(STICKY,))


def test_whoever_was_let_in_waits_an_interval_for_its_first_epoch() -> None:
    """A target takes a member some time to compute: there is no point in asking all the time."""
    story = ComputingStory()
    story.join()
    story.receive(epoch=0)
    assert story.state is ClientState.JOINING
    story.wait(INTERVAL_MS - 100)
    assert len(story.heartbeats) == 1
    story.wait(200)
    assert [h.request.member_epoch for h in story.heartbeats] == [0, 0]
    assert story.last.subscribed_topic_names == ("orders",)


def test_a_join_that_fails_is_repeated_as_ever() -> None:
    story = ComputingStory()
    story.join()
    story.receive(epoch=0)
    story.wait(INTERVAL_MS)
    story.refuse(ErrorCode.UNKNOWN_MEMBER_ID)
    story.poll()
    story.wait(100)
    assert len(story.heartbeats) == 3


# -- the process ---------------------------------------------------------------------------


def test_a_member_that_is_told_prepares_computes_and_installs() -> None:
    story = member_at_rest()
    story.receive(asks_to_compute=True)
    (prepare,) = story.of(SendPrepareAssignment)
    assert (prepare.request.group_id, prepare.request.member_id) == ("group", "m1")
    assert prepare.request.member_epoch == 1
    assert story.step == "PREPARING"
    assert kinds(story.answer_prepare()) == ["ComputeAssignment"]
    assert story.of(ComputeAssignment)[0].prepared.group_epoch == 7
    assert story.step == "COMPUTING"
    story.receive(
        asks_to_compute=True
    )  # It is told again until it is done, and knows that already.
    assert len(story.of(SendPrepareAssignment)) == 1
    assert kinds(story.compute()) == ["SendInstallAssignment"]
    (install,) = story.of(SendInstallAssignment)
    assert (install.request.member_epoch, install.request.group_epoch) == (1, 7)
    assert (install.request.members, install.request.error) == (RESULT.members, 3)
    story.answer_install()
    assert story.step == "IDLE"


def test_a_member_at_epoch_0_computes_as_well() -> None:
    story = ComputingStory()
    story.join()
    story.receive(epoch=0, asks_to_compute=True)
    assert story.of(SendPrepareAssignment)[0].request.member_epoch == 0
    story.answer_prepare()
    story.compute()
    story.answer_install()
    assert story.step == "IDLE"


def test_a_stale_epoch_makes_it_ask_again_after_the_next_heartbeat() -> None:
    story = member_at_rest()
    story.receive(asks_to_compute=True)
    assert story.answer_prepare(ErrorCode.STALE_MEMBER_EPOCH) == []
    assert story.step == "PREPARE_LATER"
    story.receive(epoch=2)
    assert story.of(SendPrepareAssignment)[-1].request.member_epoch == 2
    story.answer_prepare()
    story.compute()
    story.answer_install(ErrorCode.STALE_MEMBER_EPOCH)
    assert story.step == "INSTALL_LATER"
    story.receive(epoch=3)
    last = story.of(SendInstallAssignment)[-1].request
    assert (last.member_epoch, last.group_epoch, last.members) == (3, 7, RESULT.members)
    story.answer_install()
    assert story.step == "IDLE"


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.INVALID_ASSIGNMENT,
    ],
)
def test_any_other_refusal_ends_the_process_until_it_is_told_again(code: ErrorCode) -> None:
    story = member_at_rest()
    story.receive(asks_to_compute=True)
    assert story.answer_prepare(code) == []
    assert (story.step, story.state) == ("IDLE", ClientState.STABLE)
    story.receive(asks_to_compute=True)
    story.answer_prepare()
    story.compute()
    story.answer_install(code)
    assert story.step == "IDLE"
    assert len(story.of(SendInstallAssignment)) == 1
    story.poll()
    reported = [code] if code is ErrorCode.INVALID_ASSIGNMENT else []
    assert story.errors() == reported


@pytest.mark.parametrize("is_install", [False, True])
def test_a_lost_request_ends_the_process(is_install: bool) -> None:
    story = member_at_rest()
    story.receive(asks_to_compute=True)
    if is_install:
        story.answer_prepare()
        story.compute()
    kind = SendInstallAssignment if is_install else SendPrepareAssignment
    number = story.of(kind)[-1].correlation_id
    story.handle(Disconnected(correlation_ids=(number,)))
    assert story.step == "IDLE"
    story.receive(asks_to_compute=True)
    assert story.step == "PREPARING"


def test_a_result_that_no_one_waits_for_any_more_is_dropped() -> None:
    story = member_at_rest()
    story.receive(asks_to_compute=True)
    story.answer_prepare()
    first = story.of(ComputeAssignment)[-1].computation_id
    story.wait(INTERVAL_MS)
    story.refuse(ErrorCode.FENCED_MEMBER_EPOCH)
    assert story.step == "IDLE"
    assert story.handle(AssignmentComputed(computation_id=first, result=RESULT)) == []
    story.poll()
    story.finish_callback()
    story.receive(asks_to_compute=True)
    story.answer_prepare()
    assert story.handle(AssignmentComputed(computation_id=first, result=RESULT)) == []
    assert kinds(story.compute()) == ["SendInstallAssignment"]


def test_an_answer_that_comes_after_the_end_of_the_process_is_let_pass() -> None:
    story = member_at_rest()
    story.receive(asks_to_compute=True)
    story.wait(INTERVAL_MS)
    story.refuse(ErrorCode.UNKNOWN_MEMBER_ID)
    assert story.answer_prepare() == []
    assert story.step == "IDLE"


def test_a_lost_answer_to_a_process_that_is_over_is_let_pass_too() -> None:
    story = member_at_rest()
    story.receive(asks_to_compute=True)
    number = story.of(SendPrepareAssignment)[-1].correlation_id
    story.wait(INTERVAL_MS)
    story.refuse(ErrorCode.UNKNOWN_MEMBER_ID)
    story.handle(Disconnected(correlation_ids=(number,)))
    with pytest.raises(ProtocolBug, match="not in flight"):
        story.handle(Disconnected(correlation_ids=(number,)))


def test_a_result_without_a_coordinator_to_hand_it_to_is_dropped() -> None:
    story = member_at_rest()
    story.receive(asks_to_compute=True)
    story.answer_prepare()
    story.wait(INTERVAL_MS)
    story.refuse(ErrorCode.NOT_COORDINATOR)
    assert story.member.coordinator_id is None
    assert story.compute() == []
    assert story.step == "IDLE"


@pytest.mark.parametrize("event", [Unsubscribe(), Close()])
def test_a_member_that_leaves_hands_nothing_in(event: Any) -> None:
    story = member_at_rest(enable_auto_commit=False)
    story.receive(asks_to_compute=True)
    story.answer_prepare()
    story.handle(event)
    if story.member.running_callback is not None:
        story.finish_callback()
    assert "SendInstallAssignment" not in kinds(story.compute())


# -- what the application hears ------------------------------------------------------------


def test_the_application_hears_of_an_assignment_once_per_epoch_with_the_whole_target() -> None:
    story = member_at_rest()
    story.effects.clear()
    story.receive(epoch=2, assigned=(0,), pending=(1,), metadata=REPORTED)
    assert story.of(AssignmentReceived) == [
        AssignmentReceived(member_epoch=2, partitions=partitions(0, 1), metadata=REPORTED)
    ]
    story.receive(epoch=2, assigned=(0, 1), metadata=REPORTED)
    assert len(story.of(AssignmentReceived)) == 1
    story.receive(epoch=3, assigned=(0, 1), metadata=REPORTED)
    assert [e.member_epoch for e in story.of(AssignmentReceived)] == [2, 3]


def test_an_assignment_of_a_broker_says_nothing_to_an_assignor() -> None:
    story = member_at_rest()
    story.receive(epoch=2)
    assert story.of(AssignmentReceived) == []


def test_after_a_rejoin_the_same_epoch_is_heard_of_again() -> None:
    story = member_at_rest()
    story.receive(epoch=2, metadata=REPORTED)
    story.wait(INTERVAL_MS)
    story.refuse(ErrorCode.FENCED_MEMBER_EPOCH)
    story.poll()
    story.finish_callback()
    story.receive(epoch=0)
    story.receive(epoch=2, metadata=REPORTED)
    assert [e.member_epoch for e in story.of(AssignmentReceived)] == [2, 2]


# -- the table -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after"), list(itertools.product(ComputingState, ComputingState))
)
def test_every_change_of_state_is_listed_or_raises(
    before: ComputingState, after: ComputingState
) -> None:
    story = member_at_rest()
    computing: Computing = story.member._computes
    computing.state = before
    if after in COMPUTING_TRANSITIONS[before]:
        computing._change(after)
        assert story.member.computing_state is after
    else:
        with pytest.raises(IllegalTransition, match=f"{before.name} to {after.name}"):
            computing._change(after)


def test_heartbeats_of_a_member_that_computes_are_steady() -> None:
    """One value is sent again and again, as without assignors."""
    story = member_at_rest()
    story.receive(asks_to_compute=True)
    story.receive(asks_to_compute=True)
    story.receive(asks_to_compute=True)
    sent = [e for e in story.effects if isinstance(e, SendHeartbeat)]
    assert sent[-1].request is sent[-2].request
    assert sent[-1].request == replace(sent[-1].request, client_assignors=None)
