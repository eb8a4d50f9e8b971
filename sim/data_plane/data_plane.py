"""The data plane of a world: what flows where, and what became of it.

``WorldSpec.data_plane`` switches it on. Without it clients keep up with whatever is produced, and
records cost them no time. With it they fetch from partition leaders, buffer, hand out batches and
process them at a rate of their own (``flows.py``); lag, repeated work and waits are measured
(``progress.py``). Records, fetches and polls are not events in either case.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rebalance_sim.protocol.clients import GroupMember
from rebalance_sim.protocol.wire.topics import TopicPartition
from rebalance_sim.sim.broker.partition_leaders import PartitionLeaders
from rebalance_sim.sim.data_plane.fetch_buffer import Intake
from rebalance_sim.sim.data_plane.flows import PARTS_PER_MS
from rebalance_sim.sim.data_plane.progress import PartitionProgress, Totals
from rebalance_sim.sim.data_plane.topic_logs import TopicLogs

if TYPE_CHECKING:
    from rebalance_sim.sim.broker.broker import Broker
    from rebalance_sim.sim.client.client_process import ClientProcess
    from rebalance_sim.sim.world import World

__all__ = ["DataPlane", "GroupProgress", "positions_after_polling"]


def positions_after_polling(
    logs: TopicLogs, member: GroupMember, now_ms: int
) -> Mapping[TopicPartition, int]:
    """Where a member stands that keeps up: behind all there is. Only what has moved, and only while
    records are produced."""
    if not logs.has_records:
        return {}
    positions: dict[TopicPartition, int] = {}
    for partition in sorted(member.deliverable):
        state = member.assigned.get(partition)
        end_offset = logs.end_offset(partition, now_ms)
        if state is not None and state.has_valid_position and state.position < end_offset:
            positions[partition] = end_offset
    return positions


class GroupProgress:
    """How far the clients of one group have come with each partition."""

    def __init__(self, world: World, group_id: str, totals: Totals) -> None:
        self._world = world
        self._deliveries = world.metrics.deliveries[group_id]
        self._totals = totals
        self._of: dict[TopicPartition, PartitionProgress] = {}

    def of(self, partition: TopicPartition) -> PartitionProgress:
        """How far the group has come with a partition."""
        progress = self._of.get(partition)
        if progress is None:
            logs = self._world.topic_logs
            progress = self._of[partition] = PartitionProgress(
                partition,
                rate=logs.rate_of(partition.topic_id) * PARTS_PER_MS,
                origin_ms=logs.origin_ms(partition),
                totals=self._totals,
            )
        return progress

    def on_delivered(self, partition: TopicPartition, start: int, end: int) -> None:
        """An application was handed the records from ``start`` to ``end`` (exclusive)."""
        self._deliveries.add(partition, start, end)
        self.of(partition).on_handed_out(end)

    def on_partition_deleted(self, partition: TopicPartition) -> None:
        """Nobody waits for its records any more."""
        progress = self._of.get(partition)
        if progress is not None:
            progress.delete(self._world.clock.now_ms)

    def lags(self) -> dict[TopicPartition, int]:
        """The lag of each partition that has, or had, a consumer, as of now; in ascending order."""
        now_ms = self._world.clock.now_ms
        for progress in self._of.values():
            progress.settle(now_ms)
        return {p: self._of[p].lag(now_ms) for p in sorted(self._of)}


class DataPlane:
    """Intakes by client, progress by group, and who leads what."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.is_on = world.spec.data_plane
        self.leaders = PartitionLeaders(world.brokers, broker_count=world.spec.brokers.count)
        self._intakes: dict[str, Intake] = {}
        self._totals = Totals()
        self.progress = {
            group_id: GroupProgress(world, group_id, self._totals)
            for group_id in world.spec.group_ids
        }

    # --- clients ----------------------------------------------------------------------------------

    def new_intake(self, process: ClientProcess, *, poll_phase_ms: int) -> Intake | None:
        """What a new process takes in; None while the data plane is off."""
        if not self.is_on:
            return None
        intake = Intake(self._world, self, process, poll_phase_ms=poll_phase_ms)
        self._intakes[process.name] = intake
        return intake

    def on_process_end(self, name: str) -> None:
        """A process is gone, and what it had buffered."""
        intake = self._intakes.pop(name, None)
        if intake is not None:
            intake.end()

    # --- what happens to the world ----------------------------------------------------------------

    def on_topic_deleted(self, topic_id: str, partition_count: int) -> None:
        """Nobody can fetch from the topic any more, and nobody waits for its records."""
        self.leaders.on_topic_deleted(topic_id)
        self.on_brokers_changed()
        for progress in self.progress.values():
            for number in range(partition_count):
                progress.on_partition_deleted(TopicPartition(topic_id, number))

    def on_brokers_changed(self) -> None:
        """A broker died, came back, or lost what it led."""
        for intake in self._intakes.values():
            intake.look_at_leaders()

    def on_fenced(self, broker: Broker) -> None:
        """The controller has taken a broker out."""
        self.leaders.on_fenced(broker)
        self.on_brokers_changed()

    def on_broker_up(self, broker: Broker) -> None:
        """The controller has a broker back."""
        self.leaders.on_broker_up(broker)
        self.on_brokers_changed()

    def on_network_changed(self, client_name: str) -> None:
        """A client's way to the brokers is blocked, free, slower or faster."""
        intake = self._intakes.get(client_name)
        if intake is not None:
            intake.look_at_leaders()

    def can_reach(self, client_name: str, partition: TopicPartition) -> bool:
        """Whether a client can fetch from the leader of a partition."""
        leader = self.leaders.leader_of(partition)
        return (
            leader is not None
            and leader.is_alive
            and not self._world.network.is_blocked(client_name, leader.node_id)
        )

    # --- what became of records -------------------------------------------------------------------

    def metrics(self) -> dict[str, float]:
        """What is measured beyond ``Metrics``, by name; nothing while the data plane is off."""
        if not self.is_on:
            return {}
        for intake in self._intakes.values():
            intake.positions()
        lag_at_end = sum(sum(progress.lags().values()) for progress in self.progress.values())
        return {**self._totals.as_dict(), "lag_records_at_end": lag_at_end}
