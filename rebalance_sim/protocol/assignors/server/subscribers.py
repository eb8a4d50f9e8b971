"""Who reads which topic.

Topics with the same subscribers share one tuple, so that work which depends on the subscribers
alone is done once for all of them. Groups have few different subscriptions as a rule.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain


def subscribers_by_topic(subscriptions: Iterable[frozenset[str]]) -> dict[str, tuple[int, ...]]:
    """topic -> indexes of those subscriptions that it is in, ascending.

    Topics are in no particular order. Equal tuples are the same object.
    """
    indexes_by_subscription: dict[frozenset[str], list[int]] = {}
    for index, subscription in enumerate(subscriptions):
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
