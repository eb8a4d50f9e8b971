"""Short ways to write groups, targets and their comparison in tests of the assignors."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from rebalance_sim.protocol.assignors.server import (
    Assignor,
    GroupSpec,
    MemberSpec,
    SubscriptionType,
    validate,
)
from rebalance_sim.protocol.wire.topics import TopicPartition

HOMOGENEOUS = SubscriptionType.HOMOGENEOUS
HETEROGENEOUS = SubscriptionType.HETEROGENEOUS

Target = dict[str, frozenset[TopicPartition]]
Counts = Mapping[str, int]


def parts(text: str) -> frozenset[TopicPartition]:
    """Partitions in the notation of assignors §11: ``"a[0-2,5] b[1]"``."""
    found: set[TopicPartition] = set()
    for topic_id, ranges in re.findall(r"(\w+)\[([\d,-]+)\]", text):
        for piece in ranges.split(","):
            first, _, last = piece.partition("-")
            found |= {
                TopicPartition(topic_id, p) for p in range(int(first), int(last or first) + 1)
            }
    return frozenset(found)


def targets(**texts: str) -> Target:
    return {member_id: parts(text) for member_id, text in texts.items()}


def member(
    topics: str, current: str | frozenset[TopicPartition] = "", *, instance_id: str | None = None
) -> MemberSpec:
    """A member that reads the topics of a blank-separated list."""
    return MemberSpec(
        instance_id=instance_id,
        subscribed_topic_ids=frozenset(topics.split()),
        current=parts(current) if isinstance(current, str) else current,
    )


def group(
    members: Mapping[str, MemberSpec], subscription_type: SubscriptionType | None = None
) -> GroupSpec:
    """A group of the kind that a coordinator would state, unless one is given."""
    return GroupSpec(
        members=members,
        subscription_type=subscription_type or stated_type(members.values()),
    )


def stated_type(members: Iterable[MemberSpec]) -> SubscriptionType:
    """assignors §1.3: homogeneous if everybody subscribes to the same topics."""
    same = len({m.subscribed_topic_ids for m in members}) <= 1
    return HOMOGENEOUS if same else HETEROGENEOUS


def assign(assignor: Assignor, spec: GroupSpec, counts: Counts) -> Target:
    """The target of every member, with the members that the assignor left out filled in."""
    validate(spec, counts)
    result = assignor.assign(spec, counts)
    assert result.keys() <= spec.members.keys()
    return {member_id: result.get(member_id, frozenset()) for member_id in spec.members}


def with_current(spec: GroupSpec, target: Target) -> GroupSpec:
    """The same group after ``target`` has become its current target."""
    members = {
        member_id: replace(m, current=target.get(member_id, frozenset()))
        for member_id, m in spec.members.items()
    }
    return replace(spec, members=members)


def moved(before: Mapping[str, frozenset[TopicPartition]], after: Target) -> set[TopicPartition]:
    """Partitions that had an owner and have another one now."""
    owner_before = {tp: member_id for member_id, held in before.items() for tp in held}
    return {
        tp
        for member_id, held in after.items()
        for tp in held
        if owner_before.get(tp, member_id) != member_id
    }


def current_of(spec: GroupSpec) -> Target:
    return {member_id: m.current for member_id, m in spec.members.items()}


def subscribed_topics(spec: GroupSpec) -> frozenset[str]:
    return frozenset().union(*(m.subscribed_topic_ids for m in spec.members.values()))


def subscribers(spec: GroupSpec, topic_id: str) -> list[str]:
    return sorted(m for m in spec.members if topic_id in spec.members[m].subscribed_topic_ids)


def all_partitions(counts: Counts, topic_ids: Iterable[str]) -> list[TopicPartition]:
    return sorted(TopicPartition(t, p) for t in topic_ids for p in range(counts[t]))


def renamed(spec: GroupSpec, names: dict[str, str]) -> GroupSpec:
    return replace(spec, members={names[m]: s for m, s in spec.members.items()})


def loads(target: Target) -> dict[str, int]:
    return {m: len(held) for m, held in target.items()}


def numbers(held: frozenset[TopicPartition], topic_id: str) -> list[int]:
    return sorted(tp.partition for tp in held if tp.topic_id == topic_id)
