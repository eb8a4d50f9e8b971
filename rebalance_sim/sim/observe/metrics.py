"""What a run measures, in plain numbers.

Times of partitions are summed over partitions: two partitions without an owner for a second each
are 2,000 ms. A partition has an owner while some client may fetch it, as that client sees it.
Records are counted when they are handed to an application (``deliveries.py``). Each group has
owners and deliveries of its own; the numbers of all groups are added up. What rebalances cost is
the same number for every protocol (``rebalances.py``, ``ownership.py``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from rebalance_sim.invariants.step import ClientView, ShardView, WorldView
from rebalance_sim.protocol.clients.common.effects import (
    FindCoordinator,
    RunCallback,
    SendClassicHeartbeat,
    SendCommit,
    SendHeartbeat,
    SendJoinGroup,
    SendLeaveGroup,
    SendOffsetFetch,
    SendSyncGroup,
    StateChanged,
)
from rebalance_sim.protocol.clients.common.member_states import ClientState
from rebalance_sim.protocol.hosting.record_size import record_bytes
from rebalance_sim.protocol.runtime.outcome import TimerKey
from rebalance_sim.protocol.wire.records import ConsumerGroupRegularExpression, Record
from rebalance_sim.protocol.wire.topics import TopicPartition
from rebalance_sim.sim.clock import Clock
from rebalance_sim.sim.observe.deliveries import Deliveries
from rebalance_sim.sim.observe.durations import Waits
from rebalance_sim.sim.observe.epoch_delays import EpochDelays
from rebalance_sim.sim.observe.ownership import Ownership
from rebalance_sim.sim.observe.rebalances import Rebalances
from rebalance_sim.sim.observe.sums import Sums

_SENT: Mapping[type, str] = {
    SendHeartbeat: "heartbeats_sent",
    SendClassicHeartbeat: "heartbeats_sent",
    SendCommit: "commits_sent",
    SendJoinGroup: "joins_sent",
    SendSyncGroup: "syncs_sent",
    SendLeaveGroup: "leaves_sent",
    SendOffsetFetch: "offset_fetches_sent",
    FindCoordinator: "coordinator_searches_sent",
}
"""Requests that a member wants sent, and what they are counted as."""

_OF_MEMBERSHIP = frozenset({"heartbeats_sent", "joins_sent", "syncs_sent", "leaves_sent"})


class Metrics:
    """Counters of one run; ``as_dict`` has them by name."""

    def __init__(self, clock: Clock, group_ids: Iterable[str]) -> None:
        self._clock = clock
        self._sent = dict.fromkeys(_SENT.values(), 0)
        self.callbacks_run = 0
        self.fences = 0
        self.records_written = 0
        self.group_records_written = 0
        self.group_bytes_written = 0
        self.session_timeouts = 0
        self.rebalance_timeouts = 0
        self.last_fault_ms = 0
        self.last_unrest_ms = 0
        self.ownership = {group_id: Ownership(clock) for group_id in group_ids}
        self.deliveries = {group_id: Deliveries() for group_id in self.ownership}
        self.epoch_delays = EpochDelays()
        self._started: set[str] = set()
        self._stable: set[str] = set()
        self._groups: dict[str, WorldView] = {}
        self.rebalances = Rebalances(clock, self._groups, self.ownership)

    def watch(self, groups: Mapping[str, WorldView]) -> None:
        """These are the groups; to be called once, before anything happens."""
        self._groups.update(groups)

    def on_records(self, shard: ShardView, records: tuple[Record, ...]) -> None:
        """A leader wrote records."""
        self.records_written += len(records)
        of_groups = tuple([record for record in records if record.type_id > 1])
        if not of_groups:
            return
        if any(type(record) is not ConsumerGroupRegularExpression for record in of_groups):
            self.last_unrest_ms = self._clock.simulated_ms
        self.group_records_written += len(of_groups)
        for record in of_groups:
            self.group_bytes_written += record_bytes(record)
        group = self._groups.get(of_groups[0].group_id)
        if group is None or group.acting_shard() is shard:
            self.epoch_delays.on_records(shard, of_groups, self._clock.simulated_ms)

    def on_timer(self, key: TimerKey, timed_out: int) -> None:
        """A timer of a coordinator removed so many members. All timers of members that do not
        measure silence wait for a step of a rebalance: to revoke, to join again, to sync."""
        if key.kind.measures_silence:
            self.session_timeouts += timed_out
        else:
            self.rebalance_timeouts += timed_out

    def on_client_started(self, client: ClientView) -> None:
        """A client has a new process."""
        self._started.add(client.name)
        self.ownership[client.member.config.group_id].on_started(client)

    def on_client_event(self, client: ClientView, effects: tuple[Any, ...]) -> None:
        """A client took an event."""
        request_count = 0
        ownership = self.ownership[client.member.config.group_id]
        for effect in effects:
            kind = type(effect)
            name = _SENT.get(kind)
            if name is not None:
                self._sent[name] += 1
                request_count += name in _OF_MEMBERSHIP
            elif kind is RunCallback:
                self.callbacks_run += 1
                ownership.on_callback(client)
            elif kind is StateChanged:
                self.last_unrest_ms = self._clock.simulated_ms
                if effect.to_state is ClientState.FENCED:
                    self.fences += 1
                elif effect.to_state is ClientState.STABLE:
                    self._stable.add(client.name)
                self.rebalances.on_state(client, effect.to_state)
        ownership.look_at(client)
        if self.rebalances.is_watching:
            self.rebalances.on_event(client, request_count)

    def on_client_crashed(self, client: ClientView) -> None:
        """A client process was killed."""
        self.rebalances.on_crashed(client)
        self.on_client_gone(client)

    def on_client_gone(self, client: ClientView) -> None:
        """A client process ended."""
        self.ownership[client.member.config.group_id].drop(client)
        self.rebalances.on_gone(client)

    def on_partition_deleted(self, partition: TopicPartition) -> None:
        """No one need own this partition any more."""
        for ownership in self.ownership.values():
            ownership.remove(partition)

    def on_fault(self) -> None:
        """A fault began or ended."""
        self.last_fault_ms = self._clock.simulated_ms

    def counters(self) -> dict[str, int]:
        """Those that grow while all groups are at rest, but for records, which are not left out."""
        return {
            **self._sent,
            "records_written": self.records_written,
            "rebalance_requests": self.rebalances.requests,
        }

    def sums(self) -> Sums:
        """What has added up so far."""
        owned, delivered = self.ownership.values(), self.deliveries.values()
        for ownership in owned:
            ownership.close()
        moves = [group.episode_moves() for group in owned]
        delays, rebalances = self.epoch_delays, self.rebalances
        first = Waits()
        for group in owned:
            first.merge(group.first_assignment)
        return Sums(
            counts={
                **self._sent,
                "callbacks_run": self.callbacks_run,
                "fences": self.fences,
                "group_bytes_written": self.group_bytes_written,
                "group_records_written": self.group_records_written,
                "group_stopped_ms": sum(group.group_stopped_ms for group in owned),
                "member_stopped_ms": sum(group.member_stopped_ms for group in owned),
                "needless_revocations": sum(group.needless_revocations for group in owned),
                "overlap_partition_ms": sum(group.overlap_ms for group in owned),
                "partition_moves": sum(group.move_count for group in owned),
                "partition_moves_beyond_need": sum(moved - needed for moved, needed in moves),
                "partition_moves_needed": sum(needed for _, needed in moves),
                "rebalance_episodes": rebalances.episodes.count,
                "rebalance_requests": rebalances.requests,
                "rebalance_timeouts": self.rebalance_timeouts,
                "rebalance_unowned_partition_ms": rebalances.unowned_area,
                "rebalances": rebalances.epoch_rises,
                "records_delivered": sum(group.delivered for group in delivered),
                "records_redelivered": sum(group.redelivered for group in delivered),
                "records_written": self.records_written,
                "session_timeouts": self.session_timeouts,
                "targets_computed": delays.target_count,
                "unowned_partition_ms": sum(group.unowned_ms for group in owned),
            },
            waits={name: replace(one) for name, one in self._waits().items()},
            means={
                "first_assignment_ms": first,
                "crash_detection_ms": replace(rebalances.crash_detection),
            },
            highest={"unowned_partition_ms_max": max(one.longest_unowned_ms for one in owned)},
            lately={
                "unowned_partition_ms_max": max(one.longest_unowned_lately_ms for one in owned)
            },
            unowned_area=rebalances.unowned_area,
            partition_area=rebalances.partition_area,
        )

    def _waits(self) -> dict[str, Waits]:
        return {
            "assignment_delay_ms": self.epoch_delays.assignment,
            "member_rebalance_ms": self.rebalances.at_member,
            "rebalance_coordinator_ms": self.rebalances.at_coordinator,
            "rebalance_ms": self.rebalances.episodes,
            "reconciliation_delay_ms": self.epoch_delays.reconciliation,
        }

    def begin_part(self) -> None:
        """A part of the run begins (``sums``, of which the longest since then are wanted)."""
        for ownership in self.ownership.values():
            ownership.begin_part()
        for waits in (*self._waits().values(), self.rebalances.crash_detection):
            waits.longest_lately_ms = 0

    def settling_ms(self, *, is_stable: bool) -> int:
        """From the last fault, or change of one, to the last change of a group or a client; -1 if
        some group is not stable now."""
        return max(0, self.last_unrest_ms - self.last_fault_ms) if is_stable else -1

    def as_dict(self, *, is_stable: bool) -> dict[str, float]:
        """Every metric by name. A mean, or the longest of several, is left out where there is
        none."""
        owned = self.ownership.values()
        owners = frozenset[str]().union(*(group.owners for group in owned))
        return {
            **self.sums().as_dict(),
            "clients_started": len(self._started),
            "idle_clients": len(self._started - owners),
            "never_stable_clients": len(self._started - self._stable),
            "rebalance_episodes_open": self.rebalances.open_count,
            "records_skipped": sum(group.skipped for group in self.deliveries.values()),
            "settling_ms": self.settling_ms(is_stable=is_stable),
        }
