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


def round_ms(client: ClientProcess, logs: TopicLogs) -> int:
    """How long it takes at most from when a commit is due until its application makes it, or polls
    for its library to make it: what it is handed now keeps it."""
    away_ms = _away_ms(client, _records_per_second(client, logs))
    return away_ms if _has_batches(client) else 2 * away_ms


def counts(client: ClientProcess, logs: TopicLogs, span_ms: int) -> tuple[float, float]:
    """How many commits it sends in so much time, and how many offsets they have together."""
    member = client.member
    a_second = [logs.rate_of(partition.topic_id) for partition in member.assigned]
    sent = offsets = 0.0
    for lasts_ms, away_ms in _paces(client, sum(a_second), span_ms):
        for every_ms in _times_apart_ms(client, away_ms):
            moved = [min(1.0, rate * every_ms / 1_000) for rate in a_second]
            if not member.commits_what_moved:
                moved = [1.0] * len(a_second)
            sent += max(moved, default=0.0) * lasts_ms / every_ms
            offsets += sum(moved) * lasts_ms / every_ms
    return sent, offsets


def _times_apart_ms(client: ClientProcess, away_ms: int) -> Iterator[int]:
    """How far apart its commits are. A call of the application's keeps to its interval on the whole
    if it is free before the next; a library that commits in ``poll`` does so in the first one that
    is due, and counts from there."""
    spec = client.spec
    if spec.manual_commit_interval_ms is not None:
        yield max(spec.manual_commit_interval_ms, away_ms)
    if spec.enable_auto_commit:
        member, every_ms = client.member, spec.auto_commit_interval_ms
        if member.commits_without_poll or not away_ms:
            yield every_ms
        elif member.commits_what_moved:  # Nothing moves before the next ``poll``.
            yield max(every_ms, away_ms)
        else:
            skips = member.skips_poll_events and not _has_batches(client)
            apart_ms = away_ms * (2 if skips else 1)
            yield -(-every_ms // apart_ms) * apart_ms


def _paces(
    client: ClientProcess, records_per_second: int, span_ms: int
) -> Iterator[tuple[float, int]]:
    """For which part of so much time its application is away for how long between two polls: for
    the batches of now, until it has caught up with what is produced."""
    lag_ms = 0.0
    if client.intake is not None and _has_batches(client):
        spare = (client.spec.processing_records_per_second or 0) - records_per_second
        lag_ms = span_ms if spare <= 0 else min(span_ms, client.intake.lag() * 1_000 / spare)
        yield lag_ms, _away_ms(client, records_per_second)
    away_ms = client.spec.longest_processing_ms
    yield span_ms - lag_ms, away_ms if records_per_second or client.intake is None else 0


def _has_batches(client: ClientProcess) -> bool:
    return client.intake is not None and client.intake.batches_keep_it


def _away_ms(client: ClientProcess, records_per_second: int) -> int:
    """How long its application is away between two polls, by what it is handed now."""
    intake, longest_ms = client.intake, client.spec.longest_processing_ms
    if intake is None:
        return longest_ms
    return max(intake.batch_ms(), longest_ms) if records_per_second else 0


def _records_per_second(client: ClientProcess, logs: TopicLogs) -> int:
    return sum(logs.rate_of(partition.topic_id) for partition in client.member.assigned)
