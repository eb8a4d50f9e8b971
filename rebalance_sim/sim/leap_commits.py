"""How often a client commits while its world rests, and how many offsets: what a leap adds.

It is worked out from the intervals of its library and its application, from how long the latter is
away between two polls, and from the records that come.
"""

from __future__ import annotations

from collections.abc import Iterator

from rebalance_sim.sim.client.client_process import ClientProcess
from rebalance_sim.sim.data_plane.topic_logs import TopicLogs


def commits(client: ClientProcess) -> bool:
    """Whether a client commits in intervals."""
    return client.is_alive and bool(client.member.assigned and intervals_ms(client))


def intervals_ms(client: ClientProcess) -> tuple[int, ...]:
    """The intervals in which its application, and its library, commit."""
    spec = client.spec
    own_ms = spec.auto_commit_interval_ms if spec.enable_auto_commit else None
    return tuple(filter(None, (spec.manual_commit_interval_ms, own_ms)))


def rates(client: ClientProcess, logs: TopicLogs) -> tuple[float, float]:
    """How many commits it sends in a second, and how many offsets they have together."""
    member = client.member
    a_second = [logs.rate_of(partition.topic_id) for partition in member.assigned]
    sent = offsets = 0.0
    for every_ms in _times_apart_ms(client, sum(a_second)):
        moved = [min(1.0, rate * every_ms / 1_000) for rate in a_second]
        if not member.commits_what_moved:
            moved = [1.0] * len(a_second)
        sent += max(moved, default=0.0) * 1_000 / every_ms
        offsets += sum(moved) * 1_000 / every_ms
    return sent, offsets


def _times_apart_ms(client: ClientProcess, records_per_second: int) -> Iterator[int]:
    """How far apart its commits are. A call of the application's keeps to its interval on the whole
    if it is free before the next; a library that commits in ``poll`` does so in the first one that
    is due, and counts from there."""
    spec, away_ms = client.spec, _away_ms(client, records_per_second)
    if spec.manual_commit_interval_ms is not None:
        yield max(spec.manual_commit_interval_ms, away_ms)
    if spec.enable_auto_commit:
        member, every_ms = client.member, spec.auto_commit_interval_ms
        if member.commits_without_poll or not away_ms:
            yield every_ms
        elif member.commits_what_moved:  # Nothing moves before the next ``poll``.
            yield max(every_ms, away_ms)
        else:
            round_ms = away_ms * (2 if member.skips_poll_events else 1)
            yield -(-every_ms // round_ms) * round_ms


def _away_ms(client: ClientProcess, records_per_second: int) -> int:
    """How long its application is away between two polls, if there are records."""
    spec = client.spec
    if client.intake is None:
        return spec.longest_processing_ms
    if not records_per_second:
        return 0
    capacity = spec.processing_records_per_second
    if capacity is None or records_per_second < capacity:
        return spec.longest_processing_ms
    return max(client.intake.batch_ms(), spec.longest_processing_ms)
