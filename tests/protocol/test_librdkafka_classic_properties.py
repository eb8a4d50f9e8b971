"""Whatever happens to librdkafka's classic members, they own nothing together, and settle.

The same as for Java's, from the same scripts: properties classic C9, C10, C13, on the client's
side.
"""

from __future__ import annotations

from classic_scripts import Generations, Script, assert_settled, play, quiet_steps, steps
from hypothesis import given, settings
from hypothesis import strategies as st
from librdkafka_classic_driver import LibrdkafkaClassicStory

from rebalance_sim.protocol.assignors.classic import LIBRDKAFKA_ASSIGNORS
from rebalance_sim.protocol.classic.classic_group import ClassicGroup
from rebalance_sim.protocol.clients.librdkafka.librdkafka_states import JoinState
from rebalance_sim.protocol.wire.topics import TopicPartition


def assert_exclusive(story: LibrdkafkaClassicStory) -> None:
    """No two members of the present generation that are steady own the same partition."""
    group = story.shard.coordinator.groups_of(ClassicGroup).get("group")
    if group is None:
        return
    owners: dict[TopicPartition, str] = {}
    for name, process in story.processes.items():
        member = process.member
        if process.is_alive and not member.config.is_cooperative:
            # classic C9: who has asked to be in the next generation has given everything up.
            assert not (member.join_state is JoinState.WAIT_JOIN and member.assigned), name
        if (
            not process.is_alive
            or member.join_state is not JoinState.STEADY
            or member.member_id not in group.members
            or member.member_epoch != group.generation_id
        ):
            continue
        for partition in member.assigned:
            assert owners.setdefault(partition, name) == name, (partition, owners, name)


@given(assignor=st.sampled_from(sorted(LIBRDKAFKA_ASSIGNORS)), script=steps)
@settings(max_examples=100, deadline=None)
def test_members_own_nothing_together_and_settle(assignor: str, script: Script) -> None:
    story = LibrdkafkaClassicStory(topics={"foo": 4, "bar": 2}, assignors=(assignor,))
    play(story, script, lambda: assert_exclusive(story))
    assert_settled(story)


@given(script=quiet_steps)
@settings(max_examples=60, deadline=None)
def test_cooperative_members_hand_over_by_way_of_a_generation_without_an_owner(
    script: Script,
) -> None:
    story = LibrdkafkaClassicStory(topics={"foo": 4, "bar": 2}, assignors=("cooperative-sticky",))
    play(story, script, Generations(story).look)
    assert_settled(story)
