"""The transition table of a member, and that the machine stays inside it whatever happens."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from member_driver import Story, partitions

from rebalance_sim.protocol.clients.common.effects import StateChanged
from rebalance_sim.protocol.clients.common.events import (
    CallbackCompleted,
    Close,
    Disconnected,
    PollingResumed,
    PollingStopped,
    Subscribe,
    Unsubscribe,
)
from rebalance_sim.protocol.clients.common.member_states import (
    LEGAL_TRANSITIONS,
    ClientState,
    check_transition,
)
from rebalance_sim.protocol.wire.errors import ErrorCode, IllegalTransition, ProtocolBug

S = ClientState

# client §1.2, as the reference prints it: target <- sources.
REFERENCE = {
    "JOINING": "UNSUBSCRIBED FENCED STALE",
    "RECONCILING": "JOINING STABLE ACKNOWLEDGING RECONCILING",
    "ACKNOWLEDGING": "RECONCILING",
    "STABLE": "JOINING RECONCILING ACKNOWLEDGING",
    "FENCED": "JOINING STABLE RECONCILING ACKNOWLEDGING PREPARE_LEAVING LEAVING",
    "PREPARE_LEAVING": "JOINING STABLE RECONCILING ACKNOWLEDGING UNSUBSCRIBED",
    "LEAVING": "PREPARE_LEAVING",
    "UNSUBSCRIBED": "PREPARE_LEAVING LEAVING FENCED",
    "STALE": "LEAVING",
    "FATAL": "JOINING STABLE RECONCILING ACKNOWLEDGING PREPARE_LEAVING LEAVING UNSUBSCRIBED",
}


@given(source=st.sampled_from(ClientState), target=st.sampled_from(ClientState))
def test_every_pair_of_states_is_listed_or_raises(source: ClientState, target: ClientState) -> None:
    is_legal = source is target or source.value in REFERENCE[target.value].split()
    assert (target in LEGAL_TRANSITIONS[source]) is is_legal
    if is_legal:
        check_transition(source, target)
    else:
        with pytest.raises(IllegalTransition, match=f"from {source.value} to {target.value}"):
            check_transition(source, target)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (S.STALE, S.FENCED),
        (S.STALE, S.FATAL),
        (S.FENCED, S.FATAL),
        (S.FATAL, S.JOINING),
        (S.STABLE, S.ACKNOWLEDGING),
        (S.STALE, S.UNSUBSCRIBED),
    ],
)
def test_changes_that_the_reference_singles_out_are_illegal(
    source: ClientState, target: ClientState
) -> None:
    with pytest.raises(IllegalTransition):
        check_transition(source, target)


def test_columns_of_the_state_table() -> None:
    assert [s.value for s in S if not s.sends_heartbeats] == [
        "UNSUBSCRIBED",
        "FENCED",
        "STALE",
        "FATAL",
    ]
    assert [s.value for s in S if s.is_urgent] == ["JOINING", "ACKNOWLEDGING", "LEAVING"]
    assert [s for s in S if s.takes_assignments] == [
        S.JOINING,
        S.RECONCILING,
        S.ACKNOWLEDGING,
        S.STABLE,
    ]
    assert [s for s in S if not s.is_in_group] == [S.UNSUBSCRIBED, S.FENCED, S.STALE, S.FATAL]


_STEPS = (
    "poll",
    "callback",
    "callback fails",
    "answer",
    "answer {0,1}",
    "answer {1}",
    "answer {}",
    "fenced",
    "unknown member",
    "loading",
    "not coordinator",
    "fatal",
    "disconnect",
    "commit ok",
    "commit stale",
    "commit lost",
    "found",
    "search lost",
    "wait a little",
    "wait an interval",
    "wait past the poll timer",
    "subscribe",
    "unsubscribe",
    "stop polling",
    "resume polling",
    "close",
)


def _play(story: Story, step: str, open_heartbeats: list[int], epoch: int) -> None:
    """One step, if it is possible now; the host never breaks its side of the contract."""
    member = story.member
    busy = member.running_callback is not None
    if step.startswith("wait"):
        length = {"wait a little": 60, "wait an interval": 5_000}.get(step, 320_000)
        story.wait(length)
    elif step == "poll":
        if not busy and member.blocked_in is None:
            story.poll()
    elif step.startswith("callback"):
        if busy:
            story.finish_callback(failed=step.endswith("fails"))
    elif step in ("subscribe", "unsubscribe", "close"):
        if not busy and member.blocked_in is None:
            event = {
                "subscribe": Subscribe(topic_names=frozenset({"orders"})),
                "unsubscribe": Unsubscribe(),
                "close": Close(),
            }[step]
            story.handle(event)
    elif step in ("stop polling", "resume polling"):
        story.handle(PollingStopped() if step.startswith("stop") else PollingResumed())
    elif step in ("found", "search lost"):
        if story.searches:
            if step == "found":
                story.find_coordinator()
            else:
                story.handle(Disconnected(correlation_ids=(story.searches.pop(),)))
    elif step.startswith("commit"):
        pending = [c for c in story.commits if c.correlation_id in open_heartbeats]
        if pending:
            story.commits.remove(pending[0])
            story.commits.append(pending[0])
            open_heartbeats.remove(pending[0].correlation_id)
            if step == "commit lost":
                story.disconnect(pending[0])
            else:
                ok = step == "commit ok"
                story.answer_commit(ErrorCode.NONE if ok else ErrorCode.STALE_MEMBER_EPOCH)
    else:
        pending_hb = [h for h in story.heartbeats if h.correlation_id in open_heartbeats]
        if pending_hb:
            heartbeat = pending_hb[0]
            open_heartbeats.remove(heartbeat.correlation_id)
            errors = {
                "fenced": ErrorCode.FENCED_MEMBER_EPOCH,
                "unknown member": ErrorCode.UNKNOWN_MEMBER_ID,
                "loading": ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
                "not coordinator": ErrorCode.NOT_COORDINATOR,
                "fatal": ErrorCode.GROUP_MAX_SIZE_REACHED,
            }
            if step == "disconnect":
                story.disconnect(heartbeat)
            elif step in errors:
                story.refuse(errors[step], to=heartbeat)
            else:
                assignment = {
                    "answer {0,1}": partitions(0, 1),
                    "answer {1}": partitions(1),
                    "answer {}": partitions(),
                }.get(step)
                left = heartbeat.request.member_epoch < 0
                story.answer(
                    None if left else assignment,
                    epoch=heartbeat.request.member_epoch if left else epoch,
                    to=heartbeat,
                )


@settings(max_examples=300, deadline=None)
@given(
    steps=st.lists(st.sampled_from(_STEPS), max_size=60),
    enable_auto_commit=st.booleans(),
    has_listener=st.booleans(),
)
def test_no_history_leads_out_of_the_table_or_breaks_what_states_mean(
    steps: list[str], enable_auto_commit: bool, has_listener: bool
) -> None:
    """A conforming host can do whatever it likes: the machine neither raises nor contradicts."""
    story = Story(enable_auto_commit=enable_auto_commit)
    story.stabilise(0, has_listener=has_listener)
    open_requests: list[int] = []
    seen_heartbeats, seen_commits = len(story.heartbeats), len(story.commits)
    for number, step in enumerate(steps):
        _play(story, step, open_requests, epoch=2 + number // 4)
        open_requests += [h.correlation_id for h in story.heartbeats[seen_heartbeats:]]
        open_requests += [
            c.correlation_id
            for c in story.commits
            if c.correlation_id not in open_requests and c in story.commits[seen_commits:]
        ]
        seen_heartbeats = len(story.heartbeats)
        seen_commits = len(story.commits)
        _check(story)
    for effect in story.effects:
        if isinstance(effect, StateChanged):
            assert effect.to_state in LEGAL_TRANSITIONS[effect.from_state]


def _check(story: Story) -> None:
    """client C2, C4, C7, C8, C11, as far as one member alone can tell."""
    member = story.member
    identity = member.commit_identity
    assert (identity is not None) == (member.member_epoch > 0 and member.state is not S.FATAL)
    assert member.fetchable <= set(member.assigned)
    assert member.reconciliation_count <= 1
    if member.state in (S.RECONCILING, S.ACKNOWLEDGING, S.STABLE):
        assert member.member_epoch > 0
    elif member.state in (S.LEAVING, S.STALE):
        assert member.member_epoch == -1
    elif member.state is S.FENCED:
        assert member.member_epoch == 0
    if member.state is S.STABLE:
        assert member.target == member.current
        assert member.current.partitions == set(member.assigned)


def test_a_callback_that_no_one_runs_cannot_complete() -> None:
    story = Story()
    story.stabilise(0)
    with pytest.raises(ProtocolBug, match="none runs"):
        story.handle(CallbackCompleted())


def test_polling_inside_a_callback_is_a_bug_of_the_host() -> None:
    story = Story()
    story.join()
    story.answer(partitions(0))
    story.poll()
    with pytest.raises(ProtocolBug, match="poll while a callback runs"):
        story.poll()


def test_time_may_not_go_back() -> None:
    story = Story()
    story.wait(1_000)
    story.handle(PollingResumed())
    story.now_ms = 999
    with pytest.raises(ProtocolBug, match="from 1000 to 999"):
        story.handle(PollingStopped())
