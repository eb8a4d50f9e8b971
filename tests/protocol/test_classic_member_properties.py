"""Whatever happens to classic members, they own nothing together, and settle when it is over.

Properties classic C9, C10, C13, on the client's side.
"""

from __future__ import annotations

import pytest
from classic_driver import ClassicStory
from classic_scripts import Generations, Script, assert_settled, play, quiet_steps, steps
from hypothesis import given, settings
from hypothesis import strategies as st

from rebalance_sim.protocol.assignors.classic import CLASSIC_ASSIGNORS
from rebalance_sim.protocol.classic.classic_group import ClassicGroup
from rebalance_sim.protocol.clients.java.classic.classic_member_states import ClassicState
from rebalance_sim.protocol.wire.topics import TopicPartition


def assert_exclusive(story: ClassicStory) -> None:
    """No two members of the present generation own the same partition."""
    groups = story.shard.coordinator.groups_of(ClassicGroup)
    if "group" not in groups:
        return
    group = groups["group"]
    owners: dict[TopicPartition, str] = {}
    for name, process in story.processes.items():
        member = process.member
        if process.is_alive and not member.config.is_cooperative:
            # classic C9: who has asked to be in the next generation has given everything up.
            assert not (member.classic_state.is_rebalancing and member.assigned), name
        if (
            not process.is_alive
            or member.classic_state is not ClassicState.STABLE
            or member.member_id not in group.members
            or member.member_epoch != group.generation_id
        ):
            continue  # no one, or a zombie, whose commits are refused
        for partition in member.assigned:
            assert owners.setdefault(partition, name) == name, (partition, owners, name)


@given(assignor=st.sampled_from(sorted(CLASSIC_ASSIGNORS)), script=steps)
@settings(max_examples=150, deadline=None)
def test_members_own_nothing_together_and_settle(assignor: str, script: Script) -> None:
    story = ClassicStory(topics={"foo": 4, "bar": 2}, assignors=(assignor,))
    play(story, script, lambda: assert_exclusive(story))
    assert_settled(story)


@given(script=quiet_steps)
@settings(max_examples=100, deadline=None)
def test_cooperative_members_hand_over_by_way_of_a_generation_without_an_owner(
    script: Script,
) -> None:
    story = ClassicStory(topics={"foo": 4, "bar": 2}, assignors=("cooperative-sticky",))
    play(story, script, Generations(story).look)
    assert_settled(story)


def test_the_check_of_handing_over_notices_eager_members() -> None:
    """They move partitions from one generation to the next."""
    story = ClassicStory()
    generations = Generations(story)
    story.on_step = generations.look
    story.start("A")
    story.run_for(2_000)
    story.start("B")
    with pytest.raises(AssertionError, match="foo"):
        story.run_for(5_000)
