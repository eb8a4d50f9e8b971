"""How often a client commits while its world rests, and how many offsets: what a leap adds.

It is worked out from the intervals of its library and its application, from how long the latter is
away between two polls, and from the records that come.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from math import comb, factorial, sqrt
from statistics import NormalDist
from typing import NamedTuple

from rebalance_sim.sim.client.client_process import ClientProcess
from rebalance_sim.sim.data_plane.topic_logs import TopicLogs

_TOO_RARE = 1e-6
_MANY = 30


class _Away(NamedTuple):
    """How long an application is away between two polls: no time between these is likelier than
    others."""

    least_ms: int
    most_ms: int

    @property
    def mean_ms(self) -> float:
        """What it is on average."""
        return (self.least_ms + self.most_ms) / 2

    def apart_ms(self, every_ms: int) -> float:
        """How far apart the ends of those times are during which an interval of ``every_ms`` has
        come to its end at least once."""
        least_ms, most_ms = self
        if most_ms <= every_ms:
            return every_ms
        if least_ms >= every_ms:
            return self.mean_ms
        missed = (every_ms - least_ms) ** 2 / (2 * every_ms * (most_ms - least_ms))
        return self.mean_ms / (1 - missed)

    def passed_ms(self, every_ms: int, polls: int) -> float:
        """How long it is on average until ``every_ms`` have passed, seen only by each poll of so
        many (Wald's identity)."""
        return _rounds(*self, every_ms, polls) * polls * self.mean_ms


@cache
def _rounds(least_ms: int, most_ms: int, every_ms: int, polls: int) -> float:
    """How many times ``polls`` times away take ``every_ms``, on average: one, and one more for each
    number of times that may take less."""
    found, count = 1.0, polls
    while (share := _is_less(least_ms, most_ms, every_ms, count)) > _TOO_RARE:
        found += share
        count += polls
    return found


def _is_less(least_ms: int, most_ms: int, than_ms: int, count: int) -> float:
    """How likely so many times away take less than that: as sums of uniform draws do (Irwin, Hall),
    which many are hardly different from normal ones."""
    left_ms, width_ms = than_ms - count * least_ms, most_ms - least_ms
    if not width_ms or left_ms <= 0:
        return float(left_ms > 0)
    if count > _MANY:
        return NormalDist(count * width_ms / 2, width_ms * sqrt(count / 12)).cdf(left_ms)
    terms = (
        (-1) ** k * comb(count, k) * (left_ms - k * width_ms) ** count
        for k in range(min(count, left_ms // width_ms) + 1)
    )
    return float(sum(terms) / (factorial(count) * width_ms**count))


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
    away_ms = _away(client, sum(_a_second(client, logs))).most_ms
    return away_ms if _has_batches(client) else 2 * away_ms


def counts(client: ClientProcess, logs: TopicLogs, span_ms: int) -> tuple[float, float]:
    """How many commits it sends in so much time, and how many offsets they have together."""
    member = client.member
    a_second = _a_second(client, logs)
    sent = offsets = 0.0
    for lasts_ms, away in _paces(client, sum(a_second), span_ms):
        for every_ms in _times_apart_ms(client, away):
            moved = [min(1.0, rate * every_ms / 1_000) for rate in a_second]
            if not member.commits_what_moved:
                moved = [1.0] * len(a_second)
            sent += max(moved, default=0.0) * lasts_ms / every_ms
            offsets += sum(moved) * lasts_ms / every_ms
    return sent, offsets


def _times_apart_ms(client: ClientProcess, away: _Away) -> Iterator[float]:
    """How far apart its commits are on average. A call of the application's waits for nothing but
    the end of a batch; a library that commits in ``poll`` does so in the first one that is due, and
    counts from there."""
    spec, every_ms = client.spec, client.spec.manual_commit_interval_ms
    if every_ms is not None:
        yield away.apart_ms(every_ms) if _has_batches(client) else every_ms
    if spec.enable_auto_commit:
        member, every_ms = client.member, spec.auto_commit_interval_ms
        if member.commits_without_poll or not away.most_ms:
            yield every_ms
        elif member.commits_what_moved:  # Nothing moves before the next ``poll``.
            yield away.apart_ms(every_ms)
        else:
            skips = member.skips_poll_events and not _has_batches(client)
            yield away.passed_ms(every_ms, polls=2 if skips else 1)


def _paces(
    client: ClientProcess, records_per_second: int, span_ms: int
) -> Iterator[tuple[float, _Away]]:
    """For which part of so much time its application is away for how long between two polls: for
    the batches of now, until it has caught up with what is produced."""
    lag_ms = 0.0
    if client.intake is not None and _has_batches(client):
        spare = (client.spec.processing_records_per_second or 0) - records_per_second
        lag_ms = span_ms if spare <= 0 else min(span_ms, client.intake.lag() * 1_000 / spare)
        yield lag_ms, _away(client, records_per_second)
    yield span_ms - lag_ms, _away(client, records_per_second, batch_ms=0)


def _has_batches(client: ClientProcess) -> bool:
    return client.intake is not None and client.intake.batches_keep_it


def _away(client: ClientProcess, records_per_second: int, batch_ms: int | None = None) -> _Away:
    """How long its application is away between two polls; ``batch_ms``: for what it is handed, as
    of now. It is back when ``commitSync`` returns."""
    spec, intake = client.spec, client.intake
    if intake is not None and not records_per_second:
        return _Away(0, 0)
    if intake is not None and batch_ms is None:
        batch_ms = intake.batch_ms()
    least_ms, most_ms = spec.processing_ms, spec.longest_processing_ms
    if spec.commits_synchronously and spec.manual_commit_interval_ms is not None:
        most_ms = min(most_ms, spec.manual_commit_interval_ms)
        least_ms = min(least_ms, most_ms)
    least_ms = max(least_ms, batch_ms or 0)
    return _Away(least_ms, max(most_ms, least_ms))


def _a_second(client: ClientProcess, logs: TopicLogs) -> list[int]:
    """How many records come in each partition that it is assigned."""
    return [logs.rate_of(partition.topic_id) for partition in client.member.assigned]
