"""How often a client commits while its world rests, which a leap adds, and what, which it writes.

It is worked out from the intervals of its library and its application, from how long the latter is
away between two polls, and from the records that come.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from math import comb, factorial, sqrt
from statistics import NormalDist
from typing import NamedTuple

from rebalance_sim.protocol.wire.records import OffsetCommit, OffsetCommitValue
from rebalance_sim.protocol.wire.topics import TopicPartition
from rebalance_sim.sim.client.client_process import ClientProcess
from rebalance_sim.sim.clock import Clock
from rebalance_sim.sim.data_plane.topic_logs import TopicLogs
from rebalance_sim.sim.data_plane.workers_spec import Commits
from rebalance_sim.sim.group import Group

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


def have_committed(group: Group, logs: TopicLogs) -> bool:
    """Whether its clients have committed each partition that records come to, none of it is on its
    way, and each polls in every interval: when one that does not is back at ``poll`` depends on
    what it is handed."""
    clients = [*filter(commits, group.clients().values())]
    stored = _stored(group) if clients else {}
    return all(
        one.waits_shortly(0)
        and _away(one, sum(_a_second(one, logs))).most_ms <= min(intervals_ms(one))
        and all(p in stored or not logs.rate_of(p.topic_id) for p in one.member.assigned)
        for one in clients
    )


def last_commits(group: Group, logs: TopicLogs, clock: Clock) -> Iterator[OffsetCommit]:
    """What the last commits of its clients would have written without the leap that was just made:
    each was as long ago as its interval says, and it processes as much as before."""
    stored = _stored(group)
    for client in filter(commits, group.clients().values()):
        at_ms = clock.simulated_ms - since_commit_ms(client, clock)
        if client.intake is None:
            offsets = {p: logs.end_offset(p, at_ms) for p in client.member.assigned}
        else:
            ahead = _commits_handed_out(client)
            offsets = client.intake.committed_at(at_ms, counts_handed_out=ahead)
        for partition, offset in offsets.items():
            name, value = stored.get(partition, ("", None))
            if value is not None and offset > value.offset:
                number = partition.partition
                yield OffsetCommit(group.group_id, name, number, value._replace(offset=offset))


def since_commit_ms(client: ClientProcess, clock: Clock) -> int:
    """How long ago it has committed last, as its intervals say."""
    spec, of_library_ms = client.spec, client.member.next_commit_ms
    of_application_ms = client.application.next_commit_ms
    ago_ms = []
    if of_library_ms is not None:
        ago_ms.append(spec.auto_commit_interval_ms - of_library_ms + client.now_ms)
    if of_application_ms is not None and spec.manual_commit_interval_ms is not None:
        ago_ms.append(spec.manual_commit_interval_ms - of_application_ms + clock.now_ms)
    return max(0, min(ago_ms, default=0))


def _commits_handed_out(client: ClientProcess) -> bool:
    """Whether it commits records that are not processed yet."""
    workers = client.spec.workers
    if workers is None:
        return client.member.commits_without_poll or client.member.config.greedy_auto_commit
    return client.spec.enable_auto_commit or workers.commits is Commits.HANDED_OUT


def _stored(group: Group) -> Mapping[TopicPartition, tuple[str, OffsetCommitValue]]:
    """Partition -> the name of its topic, and what is committed."""
    shard = group.acting_shard()
    if shard is None:
        return {}
    by_name = shard.coordinator.image.by_name
    return {
        TopicPartition(by_name[name].topic_id, number): (name, value)
        for (name, number), value in shard.coordinator.offsets.of_group(group.group_id).items()
        if name in by_name and value.may_be_of(by_name[name].topic_id)
    }


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
