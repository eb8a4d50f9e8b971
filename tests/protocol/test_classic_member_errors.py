"""The table of classic §4.3, cell by cell on a member in hand."""

from __future__ import annotations

from typing import Any

import pytest
from manual_classic_member import Driver

from rebalance_sim.protocol.assignors.classic import CLASSIC_ASSIGNORS
from rebalance_sim.protocol.clients.common.classic_config import ClassicConsumerConfig
from rebalance_sim.protocol.clients.common.effects import (
    CommitReturned,
    FindCoordinator,
    RaiseError,
    SendClassicHeartbeat,
    SendCommit,
    SendJoinGroup,
    SendLeaveGroup,
    SendSyncGroup,
)
from rebalance_sim.protocol.clients.common.events import (
    CallbackCompleted,
    ClassicHeartbeatAnswered,
    Close,
    CommitOffsets,
    CoordinatorSearchFailed,
    Disconnected,
    JoinGroupAnswered,
    LeaveGroupAnswered,
    Poll,
    PollingResumed,
    PollingStopped,
    Unsubscribe,
)
from rebalance_sim.protocol.clients.common.member_states import ClientState
from rebalance_sim.protocol.clients.common.values import CallbackKind
from rebalance_sim.protocol.clients.java.classic.classic_member_states import (
    LEGAL_CLASSIC_TRANSITIONS,
    ClassicState,
)
from rebalance_sim.protocol.clients.java.classic.reactions import REACTIONS, Api, Then
from rebalance_sim.protocol.wire.classic_messages import (
    HeartbeatResponse,
    JoinGroupResponse,
    LeaveGroupResponse,
)
from rebalance_sim.protocol.wire.errors import ErrorCode, IllegalTransition, ProtocolBug
from rebalance_sim.protocol.wire.topics import TopicPartition

E = ErrorCode
FOO = frozenset(TopicPartition("foo", number) for number in range(2))


# --- JoinGroup -----------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [E.COORDINATOR_NOT_AVAILABLE, E.NOT_COORDINATOR])
def test_a_join_at_the_wrong_broker_is_repeated_after_a_search_and_a_backoff(
    code: ErrorCode,
) -> None:
    driver = Driver().joins()
    searches, joins = driver.count(FindCoordinator), driver.count(SendJoinGroup)
    driver.answer_join(error_code=code, member_id="A")
    assert driver.member.coordinator_id is None
    assert driver.count(FindCoordinator) == searches + 1
    driver.find(node_id=1)
    driver.wait(99)
    assert driver.count(SendJoinGroup) == joins
    driver.wait(1)
    assert driver.last(SendJoinGroup).request.member_id == "A"


def test_a_join_while_the_coordinator_loads_is_repeated_after_a_backoff() -> None:
    driver = Driver().joins()
    joins = driver.count(SendJoinGroup)
    driver.answer_join(error_code=E.COORDINATOR_LOAD_IN_PROGRESS, member_id="A")
    assert driver.member.coordinator_id == 0
    driver.wait(99)
    assert driver.count(SendJoinGroup) == joins
    driver.wait(1)
    assert driver.count(SendJoinGroup) == joins + 1


@pytest.mark.parametrize(
    ("code", "member_id"), [(E.UNKNOWN_MEMBER_ID, ""), (E.REBALANCE_IN_PROGRESS, "A")]
)
def test_a_join_is_repeated_at_once(code: ErrorCode, member_id: str) -> None:
    driver = Driver().joins()
    driver.answer_join(error_code=code, member_id="A")
    driver.wait(0)
    assert driver.last(SendJoinGroup).request.member_id == member_id


@pytest.mark.parametrize(
    "code",
    [
        E.FENCED_INSTANCE_ID,
        E.INCONSISTENT_GROUP_PROTOCOL,
        E.INVALID_SESSION_TIMEOUT,
        E.INVALID_GROUP_ID,
        E.GROUP_MAX_SIZE_REACHED,
        E.GROUP_AUTHORIZATION_FAILED,
        E.UNKNOWN_SERVER_ERROR,
    ],
)
@pytest.mark.parametrize("api", [Api.JOIN_GROUP, Api.SYNC_GROUP])
def test_a_fatal_error_is_raised_in_poll_and_nothing_goes_on(api: Api, code: ErrorCode) -> None:
    if api is Api.JOIN_GROUP:
        driver = Driver().joins()
        driver.answer_join(error_code=code, member_id="A")
    else:
        driver = Driver().syncs()
        driver.answer_sync(error_code=code)
    joins = driver.count(SendJoinGroup)
    driver.wait(20_000)
    assert driver.last(RaiseError).error_code is code
    assert driver.member.state is ClientState.FATAL
    assert driver.count(SendJoinGroup) == joins
    assert driver.count(SendClassicHeartbeat) == 0


def test_who_fails_in_a_commit_polls_on_without_any_other() -> None:
    driver = Driver().commits()
    driver.answer_commit(E.FENCED_INSTANCE_ID)
    commits = driver.count(SendCommit)
    driver.wait(6_000)
    driver.handle(Poll())
    assert driver.last(RaiseError).error_code is E.FENCED_INSTANCE_ID
    assert driver.member.state is ClientState.FATAL
    assert driver.count(SendCommit) == commits


def test_a_lost_join_is_repeated_with_the_same_id_after_a_search_and_a_backoff() -> None:
    driver = Driver().joins()
    joins = driver.count(SendJoinGroup)
    driver.handle(Disconnected(correlation_ids=(driver.last(SendJoinGroup).correlation_id,)))
    assert driver.member.coordinator_id is None
    driver.find()
    driver.wait(99)
    assert driver.count(SendJoinGroup) == joins
    driver.wait(1)
    request = driver.last(SendJoinGroup).request
    assert (request.member_id, request.reason) == (
        "A",
        "rebalance failed due to DisconnectException",
    )


# --- SyncGroup -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "member_id", "callbacks"),
    [
        (E.UNKNOWN_MEMBER_ID, "", [CallbackKind.LOST]),
        (E.ILLEGAL_GENERATION, "A", [CallbackKind.LOST]),
        (E.REBALANCE_IN_PROGRESS, "A", []),
    ],
)
def test_a_refused_sync_leads_to_a_join_at_once_and_a_reset_to_a_loss(
    code: ErrorCode, member_id: str, callbacks: list[CallbackKind]
) -> None:
    driver = Driver("cooperative-sticky", enable_auto_commit=False).is_member()
    driver.wait(1_000)
    driver.answer_heartbeat(E.REBALANCE_IN_PROGRESS)
    driver.wait(0)
    driver.answer_join(
        generation_id=6, protocol_name="cooperative-sticky", leader="other", member_id="A"
    )
    before = len(driver.callbacks())
    driver.answer_sync(error_code=code)
    driver.wait(0)
    request = driver.last(SendJoinGroup).request
    metadata = request.protocols[0].metadata
    assert request.member_id == member_id
    assert driver.callbacks()[before:] == callbacks
    assert metadata.generation_id == (6 if code is E.REBALANCE_IN_PROGRESS else -1)
    assert bool(metadata.owned_partitions) is (code is E.REBALANCE_IN_PROGRESS)


def test_a_sync_is_not_retried_while_the_coordinator_loads() -> None:
    """A quirk: this request's list of errors lacks COORDINATOR_LOAD_IN_PROGRESS."""
    driver = Driver().syncs()
    driver.answer_sync(error_code=E.COORDINATOR_LOAD_IN_PROGRESS)
    assert driver.member.state is ClientState.FATAL


# --- Heartbeat -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "member_id"), [(E.UNKNOWN_MEMBER_ID, ""), (E.ILLEGAL_GENERATION, "A")]
)
def test_a_heartbeat_that_is_refused_resets_and_the_loss_is_told_in_the_next_poll(
    code: ErrorCode, member_id: str
) -> None:
    driver = Driver().is_member()
    driver.wait(1_000)
    driver.handle(PollingStopped())
    driver.answer_heartbeat(code)
    assert driver.member.classic_state is ClassicState.UNJOINED
    assert driver.member.member_id == member_id
    assert driver.member.assigned.keys() == FOO, "a zombie until the application comes back"
    driver.handle(PollingResumed())
    driver.wait(0)
    assert driver.callbacks()[-1] is CallbackKind.LOST
    assert driver.last(SendJoinGroup).request.member_id == member_id


def test_a_refusal_of_a_generation_that_is_over_is_ignored() -> None:
    driver = Driver(enable_auto_commit=False).is_member()
    driver.wait(1_000)
    outdated = driver.last(SendClassicHeartbeat)
    driver.wait(1_000)
    driver.answer_heartbeat(E.REBALANCE_IN_PROGRESS)
    driver.wait(0)
    driver.answer_join(generation_id=6, protocol_name="range", leader="other", member_id="A")
    driver.handle(
        ClassicHeartbeatAnswered(
            correlation_id=outdated.correlation_id,
            response=HeartbeatResponse(error_code=E.UNKNOWN_MEMBER_ID),
        )
    )
    assert driver.member.member_id == "A"
    assert driver.member.classic_state is ClassicState.COMPLETING_REBALANCE


def test_rebalance_in_progress_counts_as_a_good_heartbeat_and_asks_to_join_in_poll() -> None:
    driver = Driver(enable_auto_commit=False).is_member()
    driver.handle(PollingStopped())
    driver.wait(1_000)
    joins = driver.count(SendJoinGroup)
    driver.answer_heartbeat(E.REBALANCE_IN_PROGRESS)
    driver.wait(500)
    assert driver.count(SendJoinGroup) == joins
    assert driver.member.next_heartbeat_due_ms == 2_000
    driver.handle(PollingResumed())
    driver.wait(0)
    assert driver.count(SendJoinGroup) == joins + 1


@pytest.mark.parametrize("code", [E.GROUP_AUTHORIZATION_FAILED, E.UNKNOWN_SERVER_ERROR])
def test_any_other_error_lets_the_heartbeat_be_repeated_after_a_backoff(code: ErrorCode) -> None:
    driver = Driver().is_member()
    driver.wait(1_000)
    driver.answer_heartbeat(code)
    assert driver.member.next_heartbeat_due_ms == 1_100
    driver.wait(100)
    driver.answer_heartbeat(code)
    assert driver.member.next_heartbeat_due_ms == 1_300


def test_a_fenced_instance_is_told_in_poll() -> None:
    driver = Driver(group_instance_id="one").is_member()
    driver.wait(1_000)
    driver.answer_heartbeat(E.FENCED_INSTANCE_ID)
    assert driver.member.state is ClientState.FATAL
    driver.wait(0)
    assert driver.last(RaiseError).error_code is E.FENCED_INSTANCE_ID


def test_heartbeats_go_out_on_the_interval_whether_they_are_answered_or_not() -> None:
    driver = Driver().is_member()
    driver.wait(4_500)
    assert driver.count(SendClassicHeartbeat) == 4


def test_a_silent_coordinator_is_given_up_after_the_session_timeout_and_partitions_are_kept() -> (
    None
):
    driver = Driver().is_member()
    driver.wait(9_999)
    assert driver.member.coordinator_id == 0
    searches = driver.count(FindCoordinator)
    driver.wait(1)
    assert driver.member.coordinator_id is None
    driver.wait(1_000)
    # The heartbeat thread does not wait for answers: ten more, a backoff apart.
    assert driver.count(FindCoordinator) - searches == 11
    assert driver.member.assigned.keys() == FOO
    assert CallbackKind.LOST not in driver.callbacks()


# --- OffsetCommit --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "forgets"),
    [
        (E.COORDINATOR_NOT_AVAILABLE, True),
        (E.NOT_COORDINATOR, True),
        (E.REQUEST_TIMED_OUT, True),
        (E.COORDINATOR_LOAD_IN_PROGRESS, False),
        (E.UNKNOWN_TOPIC_OR_PARTITION, False),
    ],
)
def test_a_retriable_error_ends_an_asynchronous_commit_and_not_a_synchronous_one(
    code: ErrorCode, forgets: bool
) -> None:
    driver = Driver().commits()
    driver.answer_commit(code)
    assert (driver.member.coordinator_id is None) is forgets
    if forgets:
        driver.find()
    driver.wait(0)
    assert driver.last(CommitReturned).error_code is code
    sent = driver.count(SendCommit)
    driver.handle(CommitOffsets(commit_id=2, is_sync=True))
    driver.answer_commit(code)
    if forgets:
        driver.find()
    driver.wait(99)
    assert driver.count(SendCommit) == sent + 1
    driver.wait(1)
    assert driver.count(SendCommit) == sent + 2
    driver.answer_commit()
    assert driver.last(CommitReturned) == CommitReturned(commit_id=2, error_code=None)


@pytest.mark.parametrize(
    ("code", "member_id"), [(E.UNKNOWN_MEMBER_ID, ""), (E.ILLEGAL_GENERATION, "A")]
)
def test_a_refused_commit_resets(code: ErrorCode, member_id: str) -> None:
    driver = Driver().commits()
    driver.answer_commit(code)
    assert driver.member.classic_state is ClassicState.UNJOINED
    assert driver.member.member_id == member_id
    driver.wait(0)
    assert driver.last(CommitReturned).error_code is code
    request = driver.last(SendJoinGroup).request
    assert request.reason == f"encountered {code.name} from OFFSET_COMMIT response"


def test_a_commit_during_a_rebalance_asks_to_join_and_resets_nothing() -> None:
    driver = Driver(enable_auto_commit=False).commits()
    driver.answer_commit(E.REBALANCE_IN_PROGRESS)
    assert driver.member.member_id == "A"
    driver.wait(0)
    assert driver.last(CommitReturned).error_code is E.REBALANCE_IN_PROGRESS
    assert driver.callbacks()[-1] is CallbackKind.REVOKED


def test_a_commit_outside_of_stable_fails_without_a_request() -> None:
    driver = Driver().syncs()
    driver.handle(CommitOffsets(commit_id=1, is_sync=True, offsets={TopicPartition("foo", 0): 3}))
    assert driver.count(SendCommit) == 0
    assert driver.last(CommitReturned).error_code is E.REBALANCE_IN_PROGRESS


# --- searches ------------------------------------------------------------------------------------


def test_searches_of_the_application_back_off_longer_and_longer() -> None:
    driver = Driver()
    gaps = []
    driver.wait(0)
    for _ in range(6):
        number = driver.last(FindCoordinator).correlation_id
        failed = CoordinatorSearchFailed(
            correlation_id=number, error_code=E.COORDINATOR_NOT_AVAILABLE
        )
        before_ms = driver.now_ms
        driver.handle(failed)
        while driver.last(FindCoordinator).correlation_id == number:
            driver.wait(1)
        gaps.append(driver.now_ms - before_ms)
    assert gaps == [100, 200, 400, 800, 1_000, 1_000]


def test_no_one_searches_while_the_application_is_away_and_the_member_has_not_joined() -> None:
    driver = Driver()
    driver.handle(PollingStopped())
    driver.wait(0)
    failed = driver.last(FindCoordinator).correlation_id
    driver.handle(Disconnected(correlation_ids=(failed,)))
    driver.wait(5_000)
    assert driver.count(FindCoordinator) == 1
    driver.handle(PollingResumed())
    driver.wait(0)
    assert driver.count(FindCoordinator) == 2


# --- the rest ------------------------------------------------------------------------------------


def test_an_answer_to_a_join_waits_for_an_application_that_is_away() -> None:
    driver = Driver().joins()
    driver.handle(PollingStopped())
    driver.answer_join(generation_id=5, protocol_name="range", leader="other", member_id="A")
    assert driver.count(SendSyncGroup) == 0
    driver.handle(PollingResumed())
    assert driver.count(SendSyncGroup) == 1


@pytest.mark.parametrize(("instance_id", "leaves"), [(None, 1), ("one", 0)])
def test_who_stays_away_from_poll_loses_membership_and_only_dynamic_members_say_so(
    instance_id: str | None, leaves: int
) -> None:
    driver = Driver(group_instance_id=instance_id, max_poll_interval_ms=5_000).is_member()
    driver.handle(PollingStopped())
    for _ in range(4):
        driver.wait(1_000)
        driver.answer_heartbeat()
    driver.wait(1_000)
    assert driver.count(SendLeaveGroup) == leaves
    assert driver.member.state is ClientState.STALE
    assert driver.member.member_id == ""
    driver.handle(PollingResumed())
    driver.wait(0)
    assert driver.callbacks()[-1] is CallbackKind.LOST


def test_unsubscribe_returns_without_waiting_and_close_waits_for_the_leave() -> None:
    driver = Driver().is_member()
    driver.handle(Unsubscribe())
    driver.handle(CallbackCompleted())
    assert driver.member.blocked_in is None
    leave = driver.last(SendLeaveGroup)
    assert leave.request.members[0].reason == "the consumer unsubscribed from all topics"
    driver = Driver(enable_auto_commit=False).is_member()
    driver.handle(Close())
    driver.handle(CallbackCompleted())
    assert not driver.member.is_closed
    number = driver.last(SendLeaveGroup).correlation_id
    driver.handle(LeaveGroupAnswered(correlation_id=number, response=LeaveGroupResponse()))
    assert driver.member.is_closed


@pytest.mark.parametrize(
    ("instance_id", "sent"), [(None, [SendLeaveGroup, SendSyncGroup]), ("i1", [])]
)
def test_unsubscribe_reads_the_answer_to_a_join_if_it_leaves_and_not_before(
    instance_id: str | None, sent: list[type]
) -> None:
    driver = Driver(
        "cooperative-sticky", group_instance_id=instance_id, enable_auto_commit=False
    ).is_member()
    driver.member_rejoins()
    driver.handle(PollingStopped())
    driver.answer_join(generation_id=6, member_id="A")
    effects = driver.handle(Unsubscribe()) + driver.handle(CallbackCompleted())
    assert [type(e) for e in effects if isinstance(e, (SendLeaveGroup, SendSyncGroup))] == sent
    driver.handle(PollingResumed())
    assert driver.member.classic_state is ClassicState.UNJOINED


def test_close_in_a_rebalance_loses_what_a_cooperative_member_still_owns() -> None:
    driver = Driver("cooperative-sticky", enable_auto_commit=False).is_member()
    driver.wait(1_000)
    driver.answer_heartbeat(E.REBALANCE_IN_PROGRESS)
    driver.wait(0)
    assert driver.member.classic_state is ClassicState.PREPARING_REBALANCE
    driver.handle(Close())
    assert driver.callbacks()[-1] is CallbackKind.LOST


def test_no_entry_of_the_table_is_left_without_a_meaning() -> None:
    assert set(REACTIONS) == set(Api)
    joins = {reaction.then for reaction in REACTIONS[Api.JOIN_GROUP].values()}
    assert joins == {Then.BACK_OFF, Then.RETRY, Then.ADOPT_MEMBER_ID}


def test_an_illegal_change_of_state_is_refused() -> None:
    driver = Driver()
    assert ClassicState.STABLE not in LEGAL_CLASSIC_TRANSITIONS[ClassicState.UNJOINED]
    with pytest.raises(IllegalTransition, match="from UNJOINED to STABLE"):
        driver.member.set_classic_state(ClassicState.STABLE)


def test_an_answer_to_nothing_is_a_bug_of_the_host() -> None:
    driver = Driver()
    with pytest.raises(
        ProtocolBug, match="JoinGroupAnswered answers request 7, which is not in flight"
    ):
        driver.handle(JoinGroupAnswered(correlation_id=7, response=JoinGroupResponse()))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"assignors": ()}, "assignors must not be empty"),
        ({"heartbeat_interval_ms": 0}, "heartbeat_interval_ms must be >= 1"),
        ({"session_timeout_ms": 3_000}, "session_timeout_ms must be greater"),
    ],
)
def test_a_configuration_that_no_consumer_starts_with_is_refused(
    settings: dict[str, Any], message: str
) -> None:
    values = {"group_id": "group", "assignors": (CLASSIC_ASSIGNORS["range"],)} | settings
    with pytest.raises(ValueError, match=message):
        ClassicConsumerConfig(**values)


@pytest.mark.parametrize("setting", ["group_remote_assignor", "group_local_assignors"])
def test_settings_of_the_consumer_protocol_are_not_taken(setting: str) -> None:
    values: dict[str, Any] = {"assignors": (CLASSIC_ASSIGNORS["range"],), setting: "uniform"}
    with pytest.raises(TypeError, match=setting):
        ClassicConsumerConfig(group_id="group", **values)


def test_the_mode_is_the_most_advanced_that_all_assignors_support() -> None:
    def mode(*names: str) -> bool:
        assignors = tuple(CLASSIC_ASSIGNORS[name] for name in names)
        return ClassicConsumerConfig(group_id="group", assignors=assignors).is_cooperative

    assert mode("cooperative-sticky")
    assert not mode("range", "cooperative-sticky")
    assert not mode("sticky")
