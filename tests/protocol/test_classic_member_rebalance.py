"""Stories of classic members: joining, revoking, handing over and leaving, with a coordinator."""

from __future__ import annotations

from classic_driver import ClassicStory

from rebalance_sim.protocol.classic.classic_states import ClassicGroupState
from rebalance_sim.protocol.clients.common.effects import (
    SendCommit,
    SendJoinGroup,
    SendLeaveGroup,
    SendSyncGroup,
)
from rebalance_sim.protocol.clients.common.member_states import ClientState

ALL_FOO = "foo-0 foo-1 foo-2 foo-3"
REVOKED, ASSIGNED, LOST = "onPartitionsRevoked", "onPartitionsAssigned", "onPartitionsLost"


def test_first_member_asks_for_an_id_joins_again_with_it_and_gets_everything() -> None:
    story = ClassicStory()
    member = story.start("A")
    story.run_for(500)
    first, second = story.requests("A", SendJoinGroup)
    assert first.member_id == ""
    assert second.member_id == member.member_id != ""
    assert story.owned() == {"A": ALL_FOO}
    assert story.callbacks("A") == [(ASSIGNED, ALL_FOO)]
    assert member.state is ClientState.STABLE
    assert member.member_epoch == story.group.generation_id == 1


def test_eager_members_revoke_everything_before_they_join_again() -> None:
    story = ClassicStory()
    story.start("A")
    story.run_for(500)
    story.consume("A", 7)
    story.start("B")
    story.run_for(3_000)
    assert story.owned() == {"A": "foo-0 foo-1", "B": "foo-2 foo-3"}
    assert story.callbacks("A")[1:] == [(REVOKED, ALL_FOO), (ASSIGNED, "foo-0 foo-1")]
    (commit,) = story.requests("A", SendCommit)
    assert set(commit.offsets.values()) == {7}
    assert commit.generation_id_or_member_epoch == 1
    rejoin = story.requests("A", SendJoinGroup)[-1]
    assert rejoin.protocols[0].metadata.owned_partitions == ()
    # What A had reached is where B begins.
    assert {state.position for state in story.member("B").assigned.values()} == {7}


def test_a_member_that_closes_commits_revokes_and_leaves_in_this_order() -> None:
    story = ClassicStory()
    story.start("A")
    story.start("B")
    story.run_for(5_000)
    story.consume("B", 3)
    story.close("B")
    story.run_for(3_000)
    assert [type(r) for r in story.processes["B"].requests[-2:]] == [SendCommit, SendLeaveGroup]
    assert story.callbacks("B")[-1][0] == REVOKED
    assert story.owned() == {"A": ALL_FOO}


def test_only_the_leader_sends_an_assignment() -> None:
    story = ClassicStory()
    for name in "ABC":
        story.start(name)
    story.run_for(5_000)
    last = {name: story.requests(name, SendSyncGroup)[-1] for name in "ABC"}
    leaders = [name for name in "ABC" if last[name].assignments]
    assert [story.member(name).member_id for name in leaders] == [story.group.leader_id]
    assert last[leaders[0]].assignments.keys() == story.group.members.keys()
    assert story.group.state is ClassicGroupState.STABLE
