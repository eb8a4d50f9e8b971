"""Random scripts for classic members of any library, and what holds for them all afterwards.

Sources: classic §10.1 (classic C10, C13), on the client's side.
"""

from __future__ import annotations

from collections.abc import Callable

from classic_driver import ClassicStory
from hypothesis import strategies as st

from rebalance_sim.protocol.classic.classic_group import ClassicGroup
from rebalance_sim.protocol.classic.classic_states import ClassicGroupState
from rebalance_sim.protocol.clients.common.effects import (
    SendClassicHeartbeat,
    SendCommit,
    SendJoinGroup,
    SendOffsetFetch,
    SendSyncGroup,
)
from rebalance_sim.protocol.clients.common.member_states import ClientState
from rebalance_sim.protocol.clients.common.values import CallbackKind
from rebalance_sim.protocol.wire.embedded import Assignment
from rebalance_sim.protocol.wire.topics import TopicPartition

NAMES = "ABCD"
STATIC = {"A": "instance-a"}
LONG_ENOUGH_MS = 200_000  # several rebalance timeouts
Act = Callable[[ClassicStory], None]
Script = list[tuple[Act, int]]


def is_alive(story: ClassicStory, name: str) -> bool:
    return name in story.processes and story.processes[name].is_alive


def is_free(story: ClassicStory, name: str) -> bool:
    member = story.member(name)
    return member.running_callback is None and member.blocked_in is None


def start(name: str) -> Act:
    def act(story: ClassicStory) -> None:
        if not is_alive(story, name):
            story.start(name, group_instance_id=STATIC.get(name))

    return act


def if_alive(name: str, call: Callable[[ClassicStory], None]) -> Act:
    def act(story: ClassicStory) -> None:
        if is_alive(story, name) and is_free(story, name):
            call(story)

    return act


def lose(name: str, effect: type, what: str) -> Act:
    return lambda story: story.lose(name, effect, what=what)


def set_topics(count: int) -> Act:
    return lambda story: story.set_topics({"foo": count, "bar": 2})


def grow(story: ClassicStory) -> None:
    """One more partition."""
    counts = {topic.name: topic.partition_count for topic in story.image.by_name.values()}
    story.set_topics(counts | {"foo": counts["foo"] + 1})


def set_callback_ms(duration_ms: int) -> Act:
    def act(story: ClassicStory) -> None:
        story.callback_ms = duration_ms

    return act


def fail_callback(kind: CallbackKind) -> Act:
    return lambda story: story.failing_callbacks.append(kind)


names = st.sampled_from(NAMES)
kinds = st.sampled_from(
    [SendJoinGroup, SendSyncGroup, SendClassicHeartbeat, SendCommit, SendOffsetFetch]
)
acts = st.one_of(
    names.map(start),
    names.map(lambda n: if_alive(n, lambda story: story.close(n))),
    names.map(lambda n: if_alive(n, lambda story: story.kill(n))),
    names.map(lambda n: if_alive(n, lambda story: story.stall(n))),
    names.map(lambda n: if_alive(n, lambda story: story.resume(n))),
    names.map(lambda n: if_alive(n, lambda story: story.unsubscribe(n))),
    names.map(lambda n: if_alive(n, lambda story: story.subscribe(n, "foo"))),
    # Not the static member: one that comes back with other topics keeps its share (classic §2.5).
    st.sampled_from("BCD").map(
        lambda n: if_alive(n, lambda story: story.subscribe(n, "foo", "bar"))
    ),
    st.builds(lose, names, kinds, st.sampled_from(["request", "response"])),
    st.just(ClassicStory.restart_coordinator),
    st.integers(1, 5).map(set_topics),
    st.sampled_from([0, 50, 2_500]).map(set_callback_ms),
    st.sampled_from(list(CallbackKind)).map(fail_callback),
)
steps = st.lists(
    st.tuples(acts, st.sampled_from([0, 1, 2, 3, 7, 900, 1_500, 4_000, 12_000])), max_size=25
)

quiet_acts = st.one_of(
    names.map(start),
    names.map(lambda n: if_alive(n, lambda story: story.close(n))),
    names.map(lambda n: if_alive(n, lambda story: story.kill(n))),
    st.sampled_from("BCD").map(
        lambda n: if_alive(n, lambda story: story.subscribe(n, "foo", "bar"))
    ),
    st.sampled_from("BCD").map(lambda n: if_alive(n, lambda story: story.subscribe(n, "foo"))),
    st.just(grow),
    st.sampled_from([0, 50, 1_500]).map(set_callback_ms),
)
"""Nothing is lost, and no one stays away from a rebalance: who does, and is static, is carried
along with what it said long ago, and works on what others are given (classic C9)."""
quiet_steps = st.lists(
    st.tuples(quiet_acts, st.sampled_from([1, 300, 1_500, 4_000, 12_000])), max_size=20
)


def play(story: ClassicStory, script: Script, on_step: Callable[[], None]) -> None:
    """Let it all happen, with a look after every step; then nothing more, for long."""
    story.on_step = on_step
    for act, wait_ms in script:
        act(story)
        story.run_for(wait_ms)
    story.callback_ms = 0
    story.lost.clear()
    story.failing_callbacks.clear()
    for name in NAMES:
        if is_alive(story, name) and not story.member(name).is_polling:
            story.resume(name)
    story.run_for(LONG_ENOUGH_MS)


class Generations:
    """What each generation assigned to whom, and classic C10 between one and the next."""

    def __init__(self, story: ClassicStory) -> None:
        self.story = story
        self.seen = 0
        self.owner: dict[tuple[str, int], str] = {}

    def look(self) -> None:
        group = self.story.shard.coordinator.groups_of(ClassicGroup).get("group")
        if group is None or group.state is not ClassicGroupState.STABLE:
            return
        if group.generation_id == self.seen:
            return
        self.seen = group.generation_id
        owner: dict[tuple[str, int], str] = {}
        for member_id, member in group.members.items():
            assert isinstance(member.assignment, Assignment)
            for topic, numbers in member.assignment.partitions:
                for number in numbers:
                    assert owner.setdefault((topic, number), member_id) == member_id
        for partition, member_id in owner.items():
            before = self.owner.get(partition, member_id)
            assert before == member_id or before not in group.members, (partition, before)
        self.owner = owner


def assert_settled(story: ClassicStory) -> None:
    """All who are subscribed share all partitions of their topics."""
    subscribed = {
        name: process.member
        for name, process in story.processes.items()
        if process.is_alive
        and process.member.has_subscription
        and process.member.state is not ClientState.FATAL
    }
    if not subscribed:
        return
    assert story.group.state is ClassicGroupState.STABLE
    assert {m.member_id for m in subscribed.values()} == set(story.group.members)
    assert {m.state for m in subscribed.values()} == {ClientState.STABLE}
    owned = [p for member in subscribed.values() for p in member.assigned]
    topics = {t for member in subscribed.values() for t in member.subscribed_topic_names}
    existing = story.image.by_name
    assert sorted(owned) == sorted(
        TopicPartition(topic, number)
        for topic in topics
        for number in range(existing[topic].partition_count)
    )
