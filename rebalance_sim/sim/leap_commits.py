"""How often a client commits while its world rests, and how many offsets: what a leap adds.

It is worked out from the intervals of its library and its application, from how long the latter is
away between two polls, and from the records that come.
"""

from __future__ import annotations

from rebalance_sim.sim.client.client_process import ClientProcess
from rebalance_sim.sim.data_plane.topic_logs import TopicLogs


def records_per_second(client: ClientProcess, logs: TopicLogs) -> int:
    """Of all partitions that are assigned to it."""
    return sum(logs.rate_of(partition.topic_id) for partition in client.member.assigned)


def each(client: ClientProcess, logs: TopicLogs, every_ms: int) -> tuple[float, float]:
    """How many requests a commit is that comes in this interval, and how many offsets they have."""
    member = client.member
    a_second = [logs.rate_of(partition.topic_id) for partition in member.assigned]
    moved = [min(1.0, rate * every_ms / 1_000) for rate in a_second]
    if not member.commits_what_moved:
        moved = [1.0] * len(a_second)
    return max(moved, default=0.0), sum(moved)


def manual_every_ms(client: ClientProcess, logs: TopicLogs) -> int:
    """How far apart calls of its application are, which keep to their interval on the whole if it
    is free before the next; 0: it makes none."""
    interval_ms = client.spec.manual_commit_interval_ms
    if interval_ms is None or not client.member.assigned:
        return 0
    return max(interval_ms, _away_ms(client, logs))


def own_every_ms(client: ClientProcess, logs: TopicLogs) -> int:
    """How far apart commits of its library are; 0: it makes none. One that commits in ``poll`` does
    so in the first one that is due, and counts from there."""
    spec, member, every_ms = client.spec, client.member, client.spec.auto_commit_interval_ms
    if not spec.enable_auto_commit or not member.assigned:
        return 0
    away_ms = _away_ms(client, logs)
    if member.commits_without_poll or not away_ms:
        return every_ms
    if member.commits_what_moved:  # Nothing moves before the next ``poll``.
        return max(every_ms, away_ms)
    round_ms = away_ms * (2 if member.skips_poll_events else 1)
    return -(-every_ms // round_ms) * round_ms


def rates(client: ClientProcess, logs: TopicLogs) -> tuple[float, float]:
    """How many commits it sends in a second, and how many offsets they have together."""
    sent = offsets = 0.0
    for every_ms in (manual_every_ms(client, logs), own_every_ms(client, logs)):
        if every_ms:
            requests, of_each = each(client, logs, every_ms)
            sent += requests * 1_000 / every_ms
            offsets += of_each * 1_000 / every_ms
    return sent, offsets


def _away_ms(client: ClientProcess, logs: TopicLogs) -> int:
    """How long its application is away between two polls, if there are records."""
    spec = client.spec
    if client.intake is None:
        return spec.longest_processing_ms
    a_second = records_per_second(client, logs)
    if not a_second:
        return 0
    capacity = spec.processing_records_per_second
    if capacity is None or a_second < capacity:
        return spec.longest_processing_ms
    return max(client.intake.batch_ms(), spec.longest_processing_ms)
