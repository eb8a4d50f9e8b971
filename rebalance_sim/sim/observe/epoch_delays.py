"""How long a group epoch waits for its target assignment, and for all members to be there.

With an assignment interval a target waits for the next one that is due, and one target serves all
epochs that have come up meanwhile (coordinator §4.3; KIP-1263). Fewer targets and longer delays are
the two sides of that, so both are measured here.
"""

from __future__ import annotations

from itertools import takewhile

from rebalance_sim.invariants.step import ShardView
from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup, GroupState
from rebalance_sim.protocol.wire.records import (
    ConsumerGroupMetadata,
    ConsumerGroupTargetAssignmentMetadata,
    Record,
)
from rebalance_sim.sim.observe.durations import Waits


class EpochDelays:
    """Delays of all groups, in milliseconds summed over epochs, and the longest of each.

    An epoch counts when its target, or a later one, is there, and when the group is stable. One
    whose group is empty by then needs neither; one that a failover takes back does not count.
    """

    def __init__(self) -> None:
        self._unassigned: dict[str, dict[int, int]] = {}
        self._unreconciled: dict[str, dict[int, int]] = {}
        self._leader_epochs: dict[str, int] = {}
        self.target_count = 0
        self.assignment = Waits()
        self.reconciliation = Waits()

    def on_records(self, shard: ShardView, records: tuple[Record, ...], now_ms: int) -> None:
        """A leader wrote records of a group; one that has been replaced does not count."""
        group_id = records[0].group_id
        if shard.leader_epoch < self._leader_epochs.get(group_id, 0):
            return
        self._leader_epochs[group_id] = shard.leader_epoch
        epoch: int | None = None
        target_epoch: int | None = None
        for record in records:
            # A conversion writes what the classic group had as an epoch and a target of its own.
            if type(record) is ConsumerGroupMetadata and record.value is not None:
                epoch = record.value.epoch
            elif type(record) is ConsumerGroupTargetAssignmentMetadata and record.value is not None:
                target_epoch = record.value.assignment_epoch
        if epoch is not None:
            self._on_group_epoch(group_id, epoch, now_ms)
        if target_epoch is not None:
            self._on_target(group_id, target_epoch, now_ms)
        if group_id in self._unreconciled:
            self._look_at(shard, group_id, now_ms)

    def _on_group_epoch(self, group_id: str, epoch: int, now_ms: int) -> None:
        for waiting in (self._unassigned, self._unreconciled):
            since_ms = waiting.setdefault(group_id, {})
            # In ascending order; those that were lost in a failover are at the end.
            while since_ms and next(reversed(since_ms)) >= epoch:
                since_ms.popitem()
            since_ms[epoch] = now_ms

    def _on_target(self, group_id: str, assignment_epoch: int, now_ms: int) -> None:
        self.target_count += 1
        since_ms = self._unassigned.get(group_id, {})
        for epoch in tuple(takewhile(assignment_epoch.__ge__, since_ms)):
            self.assignment.add(now_ms - since_ms.pop(epoch))

    def _look_at(self, shard: ShardView, group_id: str, now_ms: int) -> None:
        group = shard.coordinator.groups_of(ConsumerGroup).get(group_id)
        if group is None or group.state is GroupState.EMPTY:
            self._unassigned.pop(group_id, None)
            del self._unreconciled[group_id]
        elif group.state is GroupState.STABLE:
            for epoch, since_ms in self._unreconciled.pop(group_id).items():
                if epoch <= group.group_epoch:
                    self.reconciliation.add(now_ms - since_ms)
