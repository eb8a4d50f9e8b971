"""Who reads which topic.

Topics with the same subscribers share one tuple, so that work which depends on the subscribers
alone is done once for all of them. Groups have few different subscriptions as a rule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

from rebalance_sim.protocol.assignors.server.server_assignor import MemberSpec


def subscribers_by_topic(
    member_ids: Sequence[str], members: Mapping[str, MemberSpec]
) -> dict[str, tuple[int, ...]]:
    """topic id -> indexes into ``member_ids`` of its subscribers, ascending.

    Topics are in no particular order. Equal tuples are the same object.
    """
    indexes_by_subscription: dict[frozenset[str], list[int]] = {}
    for index, member_id in enumerate(member_ids):
        subscription = members[member_id].subscribed_topic_ids
        indexes_by_subscription.setdefault(subscription, []).append(index)
    subscriptions_by_topic: dict[str, list[int]] = {}
    for number, subscription in enumerate(indexes_by_subscription):
        for topic_id in subscription:
            subscriptions_by_topic.setdefault(topic_id, []).append(number)
    blocks = list(indexes_by_subscription.values())
    merged: dict[tuple[int, ...], tuple[int, ...]] = {}
    result: dict[str, tuple[int, ...]] = {}
    for topic_id, numbers in subscriptions_by_topic.items():
        key = tuple(numbers)
        if key not in merged:
            merged[key] = tuple(sorted(chain.from_iterable(blocks[number] for number in key)))
        result[topic_id] = merged[key]
    return result
