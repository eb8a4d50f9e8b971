"""Where clients stand in their intervals after a leap, and what they did while it lasted.

Whatever a client does again and again is due as far from the end of a leap as it would be without
one: its heartbeats, with the session that the last of them began, its commits, its polls, and when
it looks at topics. So what comes next meets it where it would, however long the leap is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple, Protocol

from rebalance_sim.protocol.classic.operation import ClassicTimer
from rebalance_sim.protocol.clients.common.deadlines import earliest
from rebalance_sim.protocol.consumer.timer_keys import ConsumerTimer
from rebalance_sim.protocol.runtime.outcome import TimerKey
from rebalance_sim.sim.broker.shard_host import ShardHost
from rebalance_sim.sim.client.client_process import ClientProcess
from rebalance_sim.sim.clock import passed
from rebalance_sim.sim.data_plane.topic_logs import TopicLogs
from rebalance_sim.sim.leap_commits import each, manual_every_ms, own_every_ms, records_per_second
from rebalance_sim.sim.observe.metrics import Metrics
from rebalance_sim.sim.rest import RestingWorld


class PhasedWorld(RestingWorld, Protocol):
    """What is looked at of a world."""

    metrics: Metrics
    topic_logs: TopicLogs


class Passed(NamedTuple):
    """What was left out: how much is added to each counter, and by how much sessions came nearer
    that a heartbeat began."""

    counts: dict[str, float]
    sessions: tuple[tuple[TimerKey, int], ...]


def leave_out(world: PhasedWorld, span_ms: int) -> Passed:
    """Move everything that clients do again and again, as so much time is left out now."""
    counts: dict[str, float] = defaultdict(float)
    sessions: list[tuple[TimerKey, int]] = []
    for group in world.groups.values():
        shard = group.acting_shard()
        is_rebalancing = world.metrics.rebalances.has_episode(group.group_id)
        for client in group.clients().values():
            if not client.is_alive:
                continue
            later_ms, heartbeats = _heartbeats(client, world, span_ms)
            counts["heartbeats_sent"] += heartbeats
            if is_rebalancing:
                counts["rebalance_requests"] += heartbeats
            if client.member.coordinator_query_interval_ms:
                every_ms = client.member.coordinator_query_interval_ms
                counts["coordinator_searches_sent"] += span_ms / every_ms
            if client.stays_away:
                own_later_ms = -span_ms
                client.member.stay_away(span_ms)
                client.application.commits.wait(span_ms)
            else:
                own_later_ms = _commits(client, world, span_ms, counts)
                client.application.leave_out(span_ms)
            client.member.move_timers(heartbeat_ms=later_ms, commit_ms=own_later_ms)
            client.lookups.leave_out(span_ms)
            client.arm_tick()
            if shard is not None and later_ms:
                sessions += _sessions(shard, group.group_id, client, later_ms)
    return Passed(counts, tuple(sessions))


def _heartbeats(client: ClientProcess, world: PhasedWorld, span_ms: int) -> tuple[int, float]:
    """How much later the next heartbeat is due, and how many are left out. One that is in flight
    stays where it is."""
    member = client.member
    every_ms = member.heartbeat_interval_ms
    if not every_ms or not member.state.is_in_group:
        return 0, 0
    if member.heartbeats_after_answer:
        every_ms += round(2 * world.spec.network.latency.mean_ms)
    due_ms = member.next_heartbeat_due_ms
    if due_ms is None:
        return 0, span_ms / every_ms
    return passed(client.world_ms(due_ms), world.clock.now_ms, span_ms, every_ms)


def _commits(
    client: ClientProcess, world: PhasedWorld, span_ms: int, counts: dict[str, float]
) -> int:
    """Let the application commit later; how much later its library does. Counts what is left
    out."""
    logs, own_later_ms = world.topic_logs, 0
    found: list[tuple[int, int]] = []
    if every_ms := manual_every_ms(client, logs):
        found.append((every_ms, client.application.commits.leave_out(span_ms, every_ms)))
    if every_ms := own_every_ms(client, logs):
        due_ms = _own_commit_ms(client)
        if due_ms is not None:
            own_later_ms, count = passed(due_ms, world.clock.now_ms, span_ms, every_ms)
            found.append((every_ms, count))
    for every_ms, count in found:
        requests, offsets = each(client, logs, every_ms)
        counts["commits_sent"] += count * requests
        counts["records_written"] += count * offsets
    return own_later_ms


def _own_commit_ms(client: ClientProcess) -> int | None:
    """When its library commits next by itself: at the first ``poll`` after its timer, if it does so
    there; None: it does not."""
    member, application = client.member, client.application
    due_ms = member.commit_timer_ms
    if due_ms is None:
        return None
    if not member.commits_what_moved and application.poll_at_ms is not None:
        return application.poll_at_ms
    return client.world_ms(due_ms)


def _sessions(
    shard: ShardHost, group_id: str, client: ClientProcess, later_ms: int
) -> list[tuple[TimerKey, int]]:
    found = []
    for kind in (ConsumerTimer.SESSION, ClassicTimer.SESSION):
        key = TimerKey(kind, group_id, client.member.member_id)
        if key in shard.armed_timers:
            shard.timers.bring_nearer(key, -later_ms)
            found.append((key, -later_ms))
    return found


def poll_timers_ms(world: PhasedWorld) -> Iterator[int]:
    """When the poll timers of clients are over whose applications are away, as ``now_ms``."""
    for client in world.clients().values():
        if client.is_alive and client.stays_away:
            due_ms = client.member.application.poll_timer_deadline_ms()
            if due_ms is not None:
                yield client.world_ms(due_ms)


# --- commits before a fault -----------------------------------------------------------------------


def next_commit_ms(world: PhasedWorld, until_ms: int) -> int | None:
    """Of the last commit before ``until_ms`` of each client whose position moves: when the first of
    them is due, as ``now_ms``, as far as is known now; None: all have made theirs."""
    logs = world.topic_logs
    if not logs.has_records:
        return None
    found_ms: int | None = None
    for client in world.clients().values():
        if client.is_alive and not client.stays_away and records_per_second(client, logs):
            found_ms = earliest(
                found_ms, *_last_commits_ms(client, logs, world.clock.now_ms, until_ms)
            )
    return found_ms


def _last_commits_ms(
    client: ClientProcess, logs: TopicLogs, now_ms: int, until_ms: int
) -> Iterator[int]:
    """When the last calls of an application, and the last commits of its library, are due; with
    what is to be done as soon as it is free. If the last may be kept for too long, the one before,
    unless that has been made."""
    application, own_ms = client.application, _own_commit_ms(client)
    away_ms = client.spec.longest_processing_ms
    own_away_ms = 0
    if client.spec.processing_max_ms is not None and not client.member.commits_what_moved:
        own_away_ms = 3 * away_ms  # The next ``poll`` may do nothing (client §0.1).
    for due_ms, every_ms, later_ms in (
        (application.commits.next_ms, manual_every_ms(client, logs), away_ms),
        (own_ms, own_every_ms(client, logs), own_away_ms),
    ):
        latest_ms = until_ms - later_ms
        if due_ms is not None and every_ms and due_ms <= until_ms:
            yield max(due_ms, latest_ms - (latest_ms - due_ms) % every_ms)
    timer_ms = client.member.commit_timer_ms
    is_due = timer_ms is not None and client.world_ms(timer_ms) <= now_ms
    for at_ms in (application.wakes_at_ms, own_ms if is_due else None):
        if at_ms is not None and at_ms <= until_ms:
            yield at_ms
