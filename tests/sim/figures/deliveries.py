"""Figures of records that applications were handed, record by record."""

from __future__ import annotations

import re

from marks import count, marked
from recording import Recording

from rebalance_sim.protocol.clients.common.events import Subscribe
from rebalance_sim.protocol.wire.topics import TopicPartition
from rebalance_sim.sim.faults.clients import SubscriptionChange


def delivery_figures(recording: Recording) -> dict[str, float]:
    """The figures of all groups together."""
    delivered = redelivered = skipped = 0
    for group_id in recording.spec.group_ids:
        handed_out: dict[TopicPartition, list[tuple[int, int]]] = {}
        for delivery in recording.deliveries:
            if delivery.group_id == group_id:
                span = delivery.start, delivery.end
                handed_out.setdefault(delivery.partition, []).append(span)
        for partition, spans in handed_out.items():
            distinct = marked(spans)
            total = sum(end - start for start, end in spans)
            delivered += total
            redelivered += total - count(distinct)
            first = first_expected(recording, group_id, partition)
            skipped += count(~distinct[first:])
    return {
        "records_delivered": delivered,
        "records_redelivered": redelivered,
        "records_skipped": skipped,
    }


def first_expected(recording: Recording, group_id: str, partition: TopicPartition) -> int:
    """Where the log ended when a client of the group first subscribed to the topic; 0 for a
    partition that came later."""
    (life,) = [life for life in recording.partitions if life.partition == partition]
    rates = {topic.name: topic.records_per_second for topic in recording.spec.topics}
    subscribed_ms = min(
        at_ms
        for at_ms, names, regex in subscriptions(recording, group_id)
        if life.topic in names or (regex is not None and re.fullmatch(regex, life.topic))
    )
    return max(0, subscribed_ms - life.from_ms) * rates[life.topic] // 1_000


def subscriptions(
    recording: Recording, group_id: str
) -> list[tuple[int, frozenset[str], str | None]]:
    """Every call of ``subscribe``: when, and with which names or pattern. A client that matches a
    pattern itself keeps it to itself: it is that of its settings, or of the last change."""
    spec = recording.spec
    patterns = {one.name: one.topic_regex for one in spec.clients}
    found = []
    for moment in recording.moments:
        fault = moment.fault
        if isinstance(fault, SubscriptionChange) and fault.topic_regex is not None:
            patterns[fault.client] = fault.topic_regex
        client, event = moment.client, moment.event
        if client is None or client.group_id != group_id or not isinstance(event, Subscribe):
            continue
        regex = patterns[client.name] if event.matches_locally else event.topic_regex
        found.append((moment.at_ms, event.topic_names, regex))
    return found
