"""The assignor "range": each topic on its own is cut into contiguous intervals.

Source: assignors §3. Current targets and racks have no influence. In a group that is stated to be
homogeneous everybody subscribes to what the first member does. Topics with the same subscribers and
equally many partitions are cut at the same places, so that they are cut together.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain

from rebalance_sim.protocol.assignors.server.server_assignor import (
    GroupSpec,
    MemberSpec,
    SubscriptionType,
)
from rebalance_sim.protocol.assignors.server.subscribers import subscribers_by_topic
from rebalance_sim.protocol.assignors.server.topic_partitions import (
    known_counts,
    partitions_of,
    unless_equal,
)
from rebalance_sim.protocol.wire.topics import TopicPartition

_Row = tuple[TopicPartition, ...]
"""The partitions of one number, of topics that have the same subscribers and equally many."""


class RangeAssignor:
    """Splits every topic among its subscribers, static members first; not sticky."""

    name = "range"

    def assign(
        self, spec: GroupSpec, partition_counts: Mapping[str, int]
    ) -> dict[str, frozenset[TopicPartition]]:
        """See ``Assignor.assign``. Every member appears in the result."""
        members = spec.members
        member_ids = range_order(members)
        subscriptions = [members[member_id].subscribed_topic_ids for member_id in member_ids]
        if spec.subscription_type is SubscriptionType.HOMOGENEOUS:
            subscriptions = subscriptions[:1] * len(subscriptions)
        subscribers = subscribers_by_topic(subscriptions)
        alike: dict[tuple[int, int], list[str]] = {}
        for topic_id, partition_count in known_counts(subscribers, partition_counts).items():
            alike.setdefault((id(subscribers[topic_id]), partition_count), []).append(topic_id)
        shares: list[list[_Row]] = [[] for _ in member_ids]
        for (_, partition_count), topic_ids in alike.items():
            columns = (partitions_of(topic_id, partition_count) for topic_id in topic_ids)
            rows = list(zip(*columns, strict=True))
            _split(rows, subscribers[topic_ids[0]], shares)
        return {
            member_id: unless_equal(
                members[member_id].current, frozenset(chain.from_iterable(share))
            )
            for member_id, share in zip(member_ids, shares, strict=True)
        }


def range_order(members: Mapping[str, MemberSpec]) -> list[str]:
    """Static members by instance id, then the others by member id (assignors §3.1)."""
    static = {m: one.instance_id for m, one in members.items() if one.instance_id is not None}
    return [*sorted(static, key=static.__getitem__), *sorted(members.keys() - static.keys())]


def _split(rows: list[_Row], subscribers: tuple[int, ...], shares: list[list[_Row]]) -> None:
    """Append to each subscriber's share its interval of topics that are alike (assignors §3.2)."""
    length, longer_count = divmod(len(rows), len(subscribers))
    if not length:
        for index, row in zip(subscribers, rows, strict=False):
            shares[index].append(row)
        return
    start = 0
    for position, index in enumerate(subscribers):
        end = start + length + (position < longer_count)
        shares[index] += rows[start:end]
        start = end
