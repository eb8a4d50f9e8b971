"""What older releases of librdkafka do otherwise (client Appendix A.2)."""

from __future__ import annotations

import pytest
from librdkafka_classic_driver import LibrdkafkaClassicStory
from librdkafka_driver import LibrdkafkaStory
from member_driver import INTERVAL_MS, partitions

from rebalance_sim.protocol.clients.common.effects import SendCommit, SendSyncGroup
from rebalance_sim.protocol.clients.common.events import CommitAnswered, CommitOffsets
from rebalance_sim.protocol.clients.common.member_states import ClientState
from rebalance_sim.protocol.clients.common.values import CallbackKind
from rebalance_sim.protocol.clients.kinds import KINDS, LIBRDKAFKA, LIBRDKAFKA_CLASSIC
from rebalance_sim.protocol.clients.librdkafka.librdkafka_states import JoinState
from rebalance_sim.protocol.clients.versions import client_rule_set, versions_of
from rebalance_sim.protocol.versions.semantics import DEFAULT_SEMANTICS
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.offset_messages import OffsetCommitResponse

COOPERATIVE = "cooperative-sticky"
LOST = "onPartitionsLost"


def test_each_protocol_has_the_releases_that_differ_in_it() -> None:
    assert versions_of(LIBRDKAFKA) == ("2.16", "2.14")
    assert versions_of(LIBRDKAFKA_CLASSIC) == ("2.16", "2.5", "2.8")


# --- a commit that is refused while the client rebalances -----------------------------------------


def refused_in(state: JoinState, name: str, version: str | None) -> LibrdkafkaClassicStory:
    """``a`` and ``b`` share foo, ``c`` joins for bar; an earlier commit is refused when one of the
    former, of which ``a`` leads, has come to ``state``."""
    story = LibrdkafkaClassicStory(
        topics={"foo": 4, "bar": 1}, assignors=(COOPERATIVE,), enable_auto_commit=False
    )
    story.version = version
    story.start("a")
    story.run_for(3_000)
    story.start("b")
    story.run_for(8_000)
    story.consume(name, 5)
    story.handle(name, CommitOffsets(commit_id=1, is_sync=False))
    story.start("c", topics=("bar",))
    refuse_commit(story, name, state)
    return story


def refuse_commit(story: LibrdkafkaClassicStory, name: str, state: JoinState) -> None:
    """The answer to the last commit is on its way until then."""
    process = story.processes[name]
    commit = next(e for e in reversed(process.requests) if isinstance(e, SendCommit))
    process.in_flight.discard(commit.correlation_id)
    while process.member.join_state is not state:
        story.run_for(1)
    errors = dict.fromkeys(commit.request.offsets, ErrorCode.ILLEGAL_GENERATION)
    refused = OffsetCommitResponse(errors=errors)
    story.handle(name, CommitAnswered(correlation_id=commit.correlation_id, response=refused))


@pytest.mark.parametrize(
    ("name", "state"), [("a", JoinState.WAIT_METADATA), ("b", JoinState.WAIT_SYNC)]
)
@pytest.mark.parametrize(("version", "loses"), [(None, False), ("2.8", True), ("2.5", True)])
def test_a_refused_commit_costs_the_generation_that_follows_until_2_9(
    version: str | None, loses: bool, name: str, state: JoinState
) -> None:
    """The leader is fenced with its SyncGroup, as 2.8.0 was at a gateway, a follower with its next
    heartbeat."""
    story = refused_in(state, name, version)
    assert (story.member(name).generation_id == -1) is loses
    story.run_for(10_000)
    assert (LOST in [kind for kind, _ in story.callbacks(name)]) is loses
    assert [len(story.owned()[one].split()) for one in "abc"] == [2, 2, 1]


def test_a_member_that_gives_all_up_keeps_its_generation_through_a_refused_commit() -> None:
    """``wait-unassign-to-complete`` is a rebalance as well."""
    story = LibrdkafkaClassicStory(assignors=("range",))
    member = story.start("a")
    story.run_for(3_000)
    story.consume("a", 5)
    story.start("b")
    while not story.requests("a", SendCommit):
        story.run_for(1)
    assert member.join_state is JoinState.WAIT_UNASSIGN_TO_COMPLETE
    generation_id = member.generation_id
    refuse_commit(story, "a", member.join_state)
    assert member.generation_id == generation_id > 0
    story.run_for(10_000)
    assert LOST not in [kind for kind, _ in story.callbacks("a")]
    assert [len(owned.split()) for owned in story.owned().values()] == [2, 2]


# --- an assignor that computes for ever -----------------------------------------------------------


def owned_by_five(version: str | None) -> LibrdkafkaClassicStory:
    """``a`` alone reads x, and two pairs share a topic each: nothing can be moved, though the loads
    are 3, 1, 1, 1, 1."""
    story = LibrdkafkaClassicStory(
        topics={"x": 3, "y": 2, "z": 2},
        assignors=(COOPERATIVE,),
        initial_rebalance_delay_ms=3_000,
        session_timeout_ms=6_000,
    )
    story.version = version
    story.assignors = tuple(
        client_rule_set(KINDS[LIBRDKAFKA_CLASSIC], version, DEFAULT_SEMANTICS).rules(type(one))()
        for one in (LibrdkafkaClassicStory.assignors_by_name[COOPERATIVE],)
    )
    for name, topics in (("a", "xy"), ("b", "y"), ("c", "y"), ("d", "z"), ("e", "z")):
        story.start(name, topics=tuple(topics))
    return story


@pytest.mark.parametrize("version", [None, "2.8"])
def test_the_leader_sees_that_nothing_is_to_be_moved(version: str | None) -> None:
    story = owned_by_five(version)
    story.run_for(8_000)
    assert story.owned() == {"a": "x-0 x-1 x-2", "b": "y-0", "c": "y-1", "d": "z-0", "e": "z-1"}


def test_until_2_6_0_it_looks_at_the_same_members_for_ever() -> None:
    """As 2.5.3 did at a gateway: its session ran out, and the others went on without it."""
    story = owned_by_five("2.5")
    story.run_for(30_000)
    assert story.owned() == {"a": "", "b": "y-0", "c": "y-1", "d": "z-0", "e": "z-1"}
    assert not story.requests("a", SendSyncGroup)


# --- the consumer protocol ------------------------------------------------------------------------

MAX_POLL_MS = 30_000


class Of214(LibrdkafkaStory):
    """A member of 2.14."""

    version = "2.14"


def away(story: LibrdkafkaStory) -> LibrdkafkaStory:
    """A steady member whose application leaves ``poll`` for too long."""
    story.stabilise(0)
    story.stay_away()
    end_ms = story.now_ms + MAX_POLL_MS
    while story.now_ms < end_ms - 2:
        count = len(story.heartbeats)
        story.wait(min(100, end_ms - story.now_ms - 2))
        if len(story.heartbeats) > count:
            story.answer(epoch=1)
    story.wait(600)
    return story


def state_of(story: LibrdkafkaStory) -> ClientState:
    """By now."""
    return story.member.state


def test_2_14_leaves_as_soon_as_its_application_has_been_away_for_too_long() -> None:
    story = away(Of214(max_poll_interval_ms=MAX_POLL_MS))
    assert story.last.member_epoch == -1
    story.answer(epoch=-1)
    assert state_of(story) is ClientState.STALE
    assert story.member.assigned.keys() == partitions(0), "its application knows nothing yet"
    count = len(story.heartbeats)
    story.wait(100_000)
    assert len(story.heartbeats) == count
    story.resume()
    assert story.callbacks()[1:] == [(CallbackKind.LOST, partitions(0))]
    story.finish_callback()
    assert (story.last.member_epoch, story.last.member_id) == (0, "m1")
    assert story.last.is_full
    assert state_of(story) is ClientState.JOINING


def test_2_16_waits_with_that_until_it_is_back() -> None:
    story = away(LibrdkafkaStory(max_poll_interval_ms=MAX_POLL_MS))
    assert story.last.member_epoch == 1
    assert story.member.state is ClientState.STALE


def test_a_static_member_of_2_14_leaves_for_a_while() -> None:
    story = away(Of214(max_poll_interval_ms=MAX_POLL_MS, group_instance_id="i"))
    assert (story.last.member_epoch, story.last.instance_id) == (-2, "i")


@pytest.mark.parametrize(
    ("story", "code", "fails"),
    [
        (LibrdkafkaStory, ErrorCode.GROUP_ID_NOT_FOUND, True),
        (Of214, ErrorCode.GROUP_ID_NOT_FOUND, False),
        (Of214, ErrorCode.UNKNOWN_SERVER_ERROR, False),
        (Of214, ErrorCode.UNRELEASED_INSTANCE_ID, True),
    ],
)
def test_2_14_carries_on_after_errors_that_end_2_16(
    story: type[LibrdkafkaStory], code: ErrorCode, fails: bool
) -> None:
    one = story()
    one.stabilise(0)
    one.wait(INTERVAL_MS)
    one.refuse(code)
    assert (one.member.state is ClientState.FATAL) is fails
    count = len(one.heartbeats)
    one.wait(INTERVAL_MS)
    assert len(one.heartbeats) == count + (not fails)


def test_a_newcomer_of_2_14_that_is_refused_tries_again_and_again() -> None:
    """It knows no interval yet: two repetitions of a heartbeat, then the next."""
    story = Of214()
    story.join()
    for _ in range(10):
        story.refuse(ErrorCode.GROUP_ID_NOT_FOUND)
        story.wait(300)
    assert len(story.heartbeats) > 8
    assert story.member.state is ClientState.JOINING
