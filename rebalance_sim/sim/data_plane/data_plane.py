"""The data plane of a world: what flows where, and what became of it.

``WorldSpec.data_plane`` switches it on. Without it clients keep up with whatever is produced, and
records cost them no time. With it they fetch from partition leaders, buffer, hand out batches and
process them at a rate of their own (``flows.py``); lag, repeated work and waits are measured
(``progress.py``). Records, fetches and polls are not events in either case.
"""

from __future__ import annotations

from collections.abc import Mapping

from rebalance_sim.protocol.clients.common.events import Subscribe
from rebalance_sim.protocol.clients.common.group_member import GroupMember
from rebalance_sim.protocol.clients.common.values import PartitionState
from rebalance_sim.protocol.transactions.transaction_spans import IsolationLevel
from rebalance_sim.protocol.wire.topics import TopicPartition
from rebalance_sim.protocol.wire.transaction_messages import RecordsWritten
from rebalance_sim.re2_engine import covers
from rebalance_sim.sim.broker.broker import Broker
from rebalance_sim.sim.broker.output_log import OutputLog
from rebalance_sim.sim.broker.partition_leaders import PartitionLeaders
from rebalance_sim.sim.data_plane.fetch_buffer import Intake
from rebalance_sim.sim.data_plane.fetch_ports import FetchingProcess
from rebalance_sim.sim.data_plane.output_totals import OutputTotals
from rebalance_sim.sim.data_plane.poison_pills import PoisonPills
from rebalance_sim.sim.data_plane.progress import GroupProgress, Totals
from rebalance_sim.sim.data_plane.topic_logs import TopicLogs
from rebalance_sim.sim.network.network import Network
from rebalance_sim.sim.observe.deliveries import Deliveries
from rebalance_sim.sim.observe.sums import Sums

_NOT_COUNTED = None, 0


class DataPlane:
    """Intakes by client, progress by group, and who leads what.

    ``deliveries``: where records that applications are handed are counted, by group. ``end_ms`` is
    the end of the world. ``levels``: ``isolation.level`` of each group, where applications write
    records in transactions.
    """

    def __init__(
        self,
        *,
        is_on: bool,
        network: Network,
        topic_logs: TopicLogs,
        leaders: PartitionLeaders,
        deliveries: Mapping[str, Deliveries],
        end_ms: int,
        pills: PoisonPills,
        has_workers: bool,
        has_transactions: bool = False,
        levels: Mapping[str, IsolationLevel] | None = None,
    ) -> None:
        self.levels = levels or {}
        self._of_outputs: OutputTotals | None = None
        if levels is not None:
            readers = (
                of_group
                for group_id, of_group in deliveries.items()
                if levels[group_id] is IsolationLevel.READ_UNCOMMITTED
            )
            self._of_outputs = OutputTotals(topic_logs.outputs, readers)
        self.is_on = is_on
        self.network = network
        self.clock = network.clock
        self.topic_logs = topic_logs
        self.leaders = leaders
        self.end_ms = end_ms
        self.pills = pills
        self._deliveries = deliveries
        self._subscriptions: dict[str, list[Subscribe]] = {name: [] for name in deliveries}
        self._topic_names: dict[TopicPartition, str] = {}
        self._counted: dict[GroupMember, dict[TopicPartition, tuple[PartitionState, int]]] = {}
        """What clients that keep up were handed: to where, and in which time with a partition."""
        self._intakes: dict[str, Intake] = {}
        self.totals = Totals(has_workers=has_workers, has_transactions=has_transactions)
        self.progress = {
            group_id: GroupProgress(
                self.clock, topic_logs, of_group, self.totals, self.levels.get(group_id)
            )
            for group_id, of_group in deliveries.items()
        }

    # --- clients ----------------------------------------------------------------------------------

    def new_intake(self, process: FetchingProcess, *, poll_phase_ms: int) -> Intake | None:
        """What a new process takes in; None while the data plane is off."""
        if not self.is_on:
            return None
        intake = Intake(self, process, poll_phase_ms=poll_phase_ms)
        self._intakes[process.name] = intake
        return intake

    def deliver_all(self, member: GroupMember, ago_ms: int = 0) -> Mapping[TopicPartition, int]:
        """Count what an application that keeps up was handed since this was last asked, but for
        the time of ``ago_ms``; the position behind that, which was the end of the log, where it has
        moved."""
        logs, now_ms = self.topic_logs, self.clock.simulated_ms - ago_ms
        positions: dict[TopicPartition, int] = {}
        if not logs.has_records:
            return positions
        deliveries = self._deliveries[member.config.group_id]
        deliverable = member.deliverable
        counted = self._counted.setdefault(member, {})
        for partition, state in member.assigned.items():
            if partition not in deliverable or not state.has_valid_position:
                continue
            end = logs.end_offset(partition, now_ms)
            if end <= state.position:
                continue
            positions[partition] = end
            before, start = counted.get(partition, _NOT_COUNTED)
            if before is not state or start < state.position:
                start = state.position
            if start < end:
                deliveries.add(partition, start, end)
                counted[partition] = state, end
        return positions

    def name_of(self, partition: TopicPartition) -> str:
        """The name of its topic."""
        return self._topic_names[partition]

    def end_pills(self) -> None:
        """Faults stop: all records are like others from now on."""
        self.pills.are_over = True
        for intake in self._intakes.values():
            intake.forget_pills()

    def on_process_end(self, name: str) -> None:
        """A process is gone, and what it had buffered."""
        intake = self._intakes.pop(name, None)
        if intake is not None:
            intake.end()

    def on_subscribed(self, group_id: str, subscription: Subscribe) -> None:
        """The application of a client subscribes: from now on its group is to have the records."""
        known = self._subscriptions[group_id]
        if subscription in known:
            return
        known.append(subscription)
        for partition, name in self._topic_names.items():
            if covers(subscription.topic_names, subscription.topic_regex, name):
                end_offset = self.topic_logs.end_offset(partition, self.clock.simulated_ms)
                if (output := self.output(partition)) is not None:
                    end_offset = output.count(self.levels[group_id])
                self._deliveries[group_id].begin(partition, end_offset)

    # --- what happens to the world ----------------------------------------------------------------

    def on_partitions_created(self, name: str, topic_id: str, numbers: range) -> None:
        """A topic has new partitions, which are empty."""
        created = [TopicPartition(topic_id, number) for number in numbers]
        self._topic_names |= dict.fromkeys(created, name)
        for group_id, known in self._subscriptions.items():
            if any(covers(one.topic_names, one.topic_regex, name) for one in known):
                for partition in created:
                    self._deliveries[group_id].begin(partition, 0)

    def on_topic_deleted(self, topic_id: str, partition_count: int) -> None:
        """No one can fetch from the topic any more, and no one waits for its records."""
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
            and not leader.is_paused
            and not self.network.is_blocked(client_name, leader.node_id)
        )

    def slowness(self, client_name: str, partition: TopicPartition) -> int:
        """How many times as long as to other brokers the way to the leader of a partition takes."""
        factors = self.network.link(client_name).broker_factors
        leader = self.leaders.leader_of(partition) if factors else None
        return 1 if leader is None else factors.get(leader.node_id, 1)

    # --- records of transactions ------------------------------------------------------------------

    def output(self, partition: TopicPartition) -> OutputLog | None:
        """The log of a partition that applications write to in transactions."""
        outputs = self.topic_logs.outputs
        return outputs.get(partition) if outputs else None

    def partitions_of(self, name: str) -> list[TopicPartition]:
        """Those that such a topic has at present."""
        return [
            p
            for p in self.topic_logs.outputs
            if self._topic_names[p] == name and self.leaders.leader_of(p) is not None
        ]

    def leader_id(self, partition: TopicPartition) -> int | None:
        """The broker that leads a partition; None for a deleted topic."""
        leader = self.leaders.leader_of(partition)
        return None if leader is None else leader.node_id

    def on_written(self, written: RecordsWritten) -> None:
        """An application, or a coordinator of transactions, has written to a partition."""
        partition, now_ms = written.partition, self.clock.simulated_ms
        output = self.topic_logs.outputs[partition]
        if self._of_outputs is not None:
            self._of_outputs.on_written(written, now_ms)
        for progress in self.progress.values():
            progress.on_written(partition, output, now_ms)
        for intake in self._intakes.values():
            intake.on_written(partition)

    # --- what became of records -------------------------------------------------------------------

    def sums(self) -> Sums:
        """What has added up so far beyond ``Metrics``; nothing while the data plane is off."""
        if not self.is_on:
            return Sums()
        for intake in self._intakes.values():
            intake.positions()
        self.lag()
        sums = self.totals.sums().and_(Sums(counts=self.pills.counts()))
        outputs = self._of_outputs
        return sums if outputs is None else sums.and_(outputs.sums(self.clock.simulated_ms))

    def lag_of(self, group_id: str) -> int:
        """The lag of one group as of now, in records."""
        return sum(self.progress[group_id].lags().values())

    def lag(self) -> int:
        """The lag of all partitions as of now, in records."""
        return sum(map(self.lag_of, self.progress))

    def begin_part(self) -> None:
        """A part of the run begins (``sums``, of which the longest since then are wanted)."""
        self.totals.begin_part()
        if self._of_outputs is not None:
            self._of_outputs.begin_part()

    def metrics(self) -> dict[str, float]:
        """What is measured beyond ``Metrics``, by name; nothing while the data plane is off."""
        if not self.is_on:
            return {}
        return {
            **self.sums().as_dict(),
            **self.pills.highest(),
            "lag_records_at_end": self.lag(),
            "records_lost": sum(progress.lost for progress in self.progress.values()),
        }
