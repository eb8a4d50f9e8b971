"""Random histories of a group: joins, leaves, subscriptions, topics (assignors §13)."""

from __future__ import annotations

from dataclasses import replace

from assignor_builders import Target, all_partitions, assign, group, subscribed_topics
from assignor_strategies import ids
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from rebalance_sim.protocol.assignors.server import (
    GroupSpec,
    MemberSpec,
    RangeAssignor,
    UniformAssignor,
)
from rebalance_sim.protocol.assignors.server.uniform_heterogeneous import assign_heterogeneous

TOPICS = ["bar", "baz", "foo", "qux"]


class GroupHistory(RuleBasedStateMachine):
    """One group whose targets are computed with both assignors, each with its own past."""

    def __init__(self) -> None:
        super().__init__()
        self.counts = {"bar": 3, "foo": 4}
        self.members: dict[str, MemberSpec] = {}
        self.departed: set[str] = set()
        self.uniform: Target = {}
        self.range: Target = {}

    @rule(
        member_id=ids,
        topics=st.frozensets(st.sampled_from(TOPICS)),
        instance_id=st.none() | ids,
    )
    def join(self, member_id: str, topics: frozenset[str], instance_id: str | None) -> None:
        taken = {m.instance_id for m in self.members.values()}
        if member_id in self.members or (instance_id is not None and instance_id in taken):
            return
        self.members[member_id] = MemberSpec(instance_id=instance_id, subscribed_topic_ids=topics)
        self.compute()

    @rule(member_id=ids)
    def join_like_the_others(self, member_id: str) -> None:
        """So that groups become large and homogeneous now and then."""
        if member_id not in self.members:
            topics = frozenset({"bar", "foo"})
            self.members[member_id] = MemberSpec(subscribed_topic_ids=topics)
            self.compute()

    @precondition(lambda self: self.members)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        del self.members[self.somebody(data)]
        self.compute()

    @precondition(lambda self: self.members)
    @rule(data=st.data(), topics=st.frozensets(st.sampled_from(TOPICS)))
    def subscribe(self, data: st.DataObject, topics: frozenset[str]) -> None:
        member_id = self.somebody(data)
        self.members[member_id] = replace(self.members[member_id], subscribed_topic_ids=topics)
        self.compute()

    @rule(topics=st.frozensets(st.sampled_from(TOPICS)))
    def subscribe_all(self, topics: frozenset[str]) -> None:
        for member_id, spec in self.members.items():
            self.members[member_id] = replace(spec, subscribed_topic_ids=topics)
        self.compute()

    @rule(topic_id=st.sampled_from(TOPICS), partition_count=st.integers(0, 9))
    def create_or_grow_topic(self, topic_id: str, partition_count: int) -> None:
        self.counts[topic_id] = self.counts.get(topic_id, 0) + partition_count
        self.compute()

    @rule(topic_id=st.sampled_from(TOPICS))
    def delete_topic(self, topic_id: str) -> None:
        """A topic that is created again has another id; here its partitions are forgotten."""
        if self.counts.pop(topic_id, None) is None:
            return
        self.compute()
        assert not any(tp.topic_id == topic_id for t in self.uniform.values() for tp in t)

    @precondition(lambda self: any(m.instance_id is not None for m in self.members.values()))
    @rule(data=st.data(), new_id=ids)
    def static_bounce(self, data: st.DataObject, new_id: str) -> None:
        """The new id inherits the target of the old one (assignors §1.3); range moves nothing."""
        static = [m for m, s in self.members.items() if s.instance_id is not None]
        old_id = data.draw(st.sampled_from(sorted(static)))
        if new_id in self.members:
            return
        self.members[new_id] = self.members.pop(old_id)
        for past in (self.uniform, self.range):
            past[new_id] = past.pop(old_id)
        before = dict(self.range)
        self.compute()
        assert before == self.range

    @rule()
    def change_nothing(self) -> None:
        before_uniform, before_range = dict(self.uniform), dict(self.range)
        was_settled = self.is_settled
        self.compute()
        assert before_range == self.range
        if was_settled:
            assert before_uniform == self.uniform

    @invariant()
    def each_partition_has_one_owner_that_reads_it(self) -> None:
        spec = self.spec(self.uniform)
        expected = all_partitions(self.counts, subscribed_topics(spec))
        for target in (self.uniform, self.range):
            assert expected == sorted(tp for held in target.values() for tp in held)
            for member_id, held in target.items():
                topics = spec.members[member_id].subscribed_topic_ids
                assert {tp.topic_id for tp in held} <= topics

    def somebody(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from(sorted(self.members)))

    def spec(self, past: Target) -> GroupSpec:
        """Names that do not resolve are skipped; they count for the kind of group
        (assignors §1.3)."""
        stated = group(self.members).subscription_type
        resolved = {
            m: replace(
                s,
                subscribed_topic_ids=s.subscribed_topic_ids.intersection(self.counts),
                current=past.get(m, frozenset()),
            )
            for m, s in self.members.items()
        }
        return group(resolved, stated)

    @property
    def is_settled(self) -> bool:
        return assign_heterogeneous(self.spec(self.uniform), self.counts).is_settled

    def compute(self) -> None:
        self.uniform = assign(UniformAssignor(), self.spec(self.uniform), self.counts)
        self.range = assign(RangeAssignor(), self.spec(self.range), self.counts)


TestGroupHistory = GroupHistory.TestCase
TestGroupHistory.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
