"""What a run measures, in plain numbers.

Times of partitions are summed over partitions: two partitions without an owner for a second each
are 2,000 ms. A partition has an owner while some client may fetch it, as that client sees it.
Records are counted when they are handed to an application: again if it, or another, had them
before, and skipped if nobody ever gets them. Clients keep up with whatever is produced. Each group
has owners and deliveries of its own; the numbers of all groups are added up.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from invariants.step import ClientView, ShardView
from protocol.member import ClientState, RunCallback, SendCommit, SendHeartbeat, StateChanged
from protocol.outcome import TimerKey
from protocol.records import ConsumerGroupMetadata, Record
from protocol.topics import TopicPartition
from sim.clock import Clock
from sim.epoch_delays import EpochDelays

__all__ = ["Metrics"]


class Metrics:
    """Counters of one run; ``as_dict`` has them by name."""

    def __init__(self, clock: Clock, group_ids: Iterable[str]) -> None:
        self._clock = clock
        self.heartbeats_sent = 0
        self.commits_sent = 0
        self.callbacks_run = 0
        self.fences = 0
        self.records_written = 0
        self.rebalances = 0
        self.session_timeouts = 0
        self.rebalance_timeouts = 0
        self.last_fault_ms = 0
        self.last_unrest_ms = 0
        self.ownership = {group_id: _Ownership(clock) for group_id in group_ids}
        self.deliveries = {group_id: _Deliveries() for group_id in self.ownership}
        self.epoch_delays = EpochDelays()

    def on_records(self, shard: ShardView, records: tuple[Record, ...]) -> None:
        """A leader wrote records."""
        self.records_written += len(records)
        of_groups = tuple(record for record in records if record.type_id > 1)
        if not of_groups:
            return
        self.last_unrest_ms = self._clock.now_ms
        for record in of_groups:
            if type(record) is ConsumerGroupMetadata and record.value is not None:
                self.rebalances += 1
        self.epoch_delays.on_records(shard, of_groups, self._clock.now_ms)

    def on_timer(self, key: TimerKey) -> None:
        """A timer of a coordinator changed something."""
        if key.kind == "session":
            self.session_timeouts += 1
        elif key.kind == "rebalance":
            self.rebalance_timeouts += 1

    def on_client_event(self, client: ClientView, effects: tuple[Any, ...]) -> None:
        """A client took an event."""
        for effect in effects:
            kind = type(effect)
            if kind is SendHeartbeat:
                self.heartbeats_sent += 1
            elif kind is SendCommit:
                self.commits_sent += 1
            elif kind is RunCallback:
                self.callbacks_run += 1
            elif kind is StateChanged:
                self.last_unrest_ms = self._clock.now_ms
                if effect.to_state is ClientState.FENCED:
                    self.fences += 1
        self.ownership[client.member.config.group_id].look_at(client)

    def on_client_gone(self, client: ClientView) -> None:
        """A client process ended."""
        self.ownership[client.member.config.group_id].drop(client)

    def on_partition_deleted(self, partition: TopicPartition) -> None:
        """Nobody need own this partition any more."""
        for ownership in self.ownership.values():
            ownership.remove(partition)

    def on_fault(self) -> None:
        """A fault began or ended."""
        self.last_fault_ms = self._clock.now_ms

    def as_dict(self, *, is_stable: bool) -> dict[str, float]:
        """Every metric by name. ``settling_ms``: from the last fault, or change of one, to the last
        change of a group or a client; -1 if some group is not stable at the end."""
        owned = self.ownership.values()
        for ownership in owned:
            ownership.close()
        delivered = self.deliveries.values()
        settling_ms = max(0, self.last_unrest_ms - self.last_fault_ms)
        delays = self.epoch_delays
        return {
            "assignment_delay_ms": delays.assignment_ms,
            "assignment_delay_ms_max": delays.longest_assignment_ms,
            "callbacks_run": self.callbacks_run,
            "commits_sent": self.commits_sent,
            "fences": self.fences,
            "heartbeats_sent": self.heartbeats_sent,
            "overlap_partition_ms": sum(group.overlap_ms for group in owned),
            "partition_moves": sum(group.move_count for group in owned),
            "rebalance_timeouts": self.rebalance_timeouts,
            "rebalances": self.rebalances,
            "reconciliation_delay_ms": delays.reconciliation_ms,
            "reconciliation_delay_ms_max": delays.longest_reconciliation_ms,
            "records_delivered": sum(group.delivered for group in delivered),
            "records_redelivered": sum(group.redelivered for group in delivered),
            "records_skipped": sum(group.skipped for group in delivered),
            "records_written": self.records_written,
            "session_timeouts": self.session_timeouts,
            "settling_ms": settling_ms if is_stable else -1,
            "targets_computed": delays.target_count,
            "unowned_partition_ms": sum(group.unowned_ms for group in owned),
            "unowned_partition_ms_max": max(group.longest_unowned_ms for group in owned),
        }


class _Deliveries:
    """Which records of the subscribed topics applications have been handed, and how often."""

    def __init__(self) -> None:
        self._next_offset: dict[TopicPartition, int] = {}
        self.delivered = 0
        self.redelivered = 0
        self.skipped = 0

    def add(self, partition: TopicPartition, start: int, end: int) -> None:
        """The records from ``start`` to ``end`` (exclusive) are handed out."""
        expected = self._next_offset.get(partition, start)
        self.delivered += end - start
        self.redelivered += max(0, min(end, expected) - start)
        self.skipped += max(0, start - expected)
        self._next_offset[partition] = max(expected, end)


class _Ownership:
    """Who may fetch what, integrated over time."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen_versions: dict[str, tuple[int, int]] = {}
        self._fetchable: dict[str, frozenset[TopicPartition]] = {}
        self._owner_count: dict[TopicPartition, int] = {}
        self._since_ms: dict[TopicPartition, int] = {}
        self._unowned_since_ms: dict[TopicPartition, int] = {}
        self._last_owner: dict[TopicPartition, str] = {}
        self.unowned_ms = 0
        self.longest_unowned_ms = 0
        self.overlap_ms = 0
        self.move_count = 0
        self.unowned_count = 0
        self.overlap_count = 0

    @property
    def partition_count(self) -> int:
        """Partitions that ought to have an owner now."""
        return len(self._owner_count)

    def add(self, partition: TopicPartition) -> None:
        """From now on this partition ought to have an owner."""
        if partition not in self._owner_count:
            self._owner_count[partition] = 0
            self._since_ms[partition] = self._clock.now_ms
            self._unowned_since_ms[partition] = self._clock.now_ms
            self.unowned_count += 1

    def remove(self, partition: TopicPartition) -> None:
        """The partition is deleted."""
        if partition in self._owner_count:
            self._account(partition)
            count = self._owner_count.pop(partition)
            self.unowned_count -= count == 0
            self.overlap_count -= count > 1
            del self._since_ms[partition]
            del self._unowned_since_ms[partition]

    def look_at(self, client: ClientView) -> None:
        """Has this client's set changed?"""
        version = (client.incarnation, client.member.ownership_version)
        if self._seen_versions.get(client.name) == version:
            return
        self._seen_versions[client.name] = version
        self._change(client.name, client.member.fetchable)

    def drop(self, client: ClientView) -> None:
        """The client is gone, and fetches nothing."""
        self._change(client.name, frozenset())

    def close(self) -> None:
        """Account for everything up to now."""
        for partition in self._owner_count:
            self._account(partition)

    def _change(self, name: str, fetchable: frozenset[TopicPartition]) -> None:
        before = self._fetchable.get(name, frozenset())
        self._fetchable[name] = fetchable
        for partition in before - fetchable:
            self._count(partition, -1)
        for partition in fetchable - before:
            self._count(partition, 1)
            if partition in self._owner_count:
                if self._last_owner.get(partition, name) != name:
                    self.move_count += 1
                self._last_owner[partition] = name

    def _count(self, partition: TopicPartition, by: int) -> None:
        if partition in self._owner_count:
            self._account(partition)
            self._unowned_since_ms[partition] = self._clock.now_ms
            before = self._owner_count[partition]
            after = self._owner_count[partition] = before + by
            self.unowned_count += (after == 0) - (before == 0)
            self.overlap_count += (after > 1) - (before > 1)

    def _account(self, partition: TopicPartition) -> None:
        now_ms = self._clock.now_ms
        span_ms = now_ms - self._since_ms[partition]
        self._since_ms[partition] = now_ms
        count = self._owner_count[partition]
        if count == 0:
            self.unowned_ms += span_ms
            # Not the span: whoever looks in between must not cut the longest one in two.
            unowned_ms = now_ms - self._unowned_since_ms[partition]
            self.longest_unowned_ms = max(self.longest_unowned_ms, unowned_ms)
        elif count > 1:
            self.overlap_ms += span_ms * (count - 1)
