"""The world: one object that holds clock, streams, network, brokers, clients, trace and metrics.

    result = World(spec).run()

or step by step, to look around in between:

    world = World(spec)
    world.advance_to(30_000)
    result = world.run()

A world depends on its specification alone. Many may live in one process, one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from rebalance_sim.invariants.step import WorldView
from rebalance_sim.protocol.hosting.broker_rules import BrokerRules
from rebalance_sim.protocol.versions.semantics import simulated
from rebalance_sim.protocol.wire.topics import Topic, TopicPartition
from rebalance_sim.protocol.wire.transaction_messages import RecordsWritten
from rebalance_sim.sim.admin.admin_client import AdminClient
from rebalance_sim.sim.admin.admin_tasks import AdminTasks
from rebalance_sim.sim.admin.settings import SettingsAdmin
from rebalance_sim.sim.admin.topics import TopicAdmin
from rebalance_sim.sim.broker.cluster import Cluster
from rebalance_sim.sim.broker.data_partitions import DataPartitions
from rebalance_sim.sim.broker.partition_leaders import PartitionLeaders
from rebalance_sim.sim.broker.ports import Meters
from rebalance_sim.sim.broker.shard_host import ShardHost
from rebalance_sim.sim.client.client_connections import ClientConnections
from rebalance_sim.sim.client.client_process import ClientProcess
from rebalance_sim.sim.client.client_processes import ClientProcesses
from rebalance_sim.sim.client.environment import ClientEnvironment
from rebalance_sim.sim.clock import Clock
from rebalance_sim.sim.data_plane.data_plane import DataPlane
from rebalance_sim.sim.data_plane.poison_pills import PoisonPills
from rebalance_sim.sim.data_plane.topic_logs import TopicLogs
from rebalance_sim.sim.faults.injector import Injector
from rebalance_sim.sim.group import Group
from rebalance_sim.sim.leaps import Leaps
from rebalance_sim.sim.machines import Machines, SingleMachines
from rebalance_sim.sim.network.network import ADMIN, Network
from rebalance_sim.sim.observe.checkers import Checker, NoChecker
from rebalance_sim.sim.observe.coordinator_metrics import CoordinatorMetrics
from rebalance_sim.sim.observe.coverage import Coverage
from rebalance_sim.sim.observe.metric import Measured, every_metric, values_of
from rebalance_sim.sim.observe.metrics import Metrics
from rebalance_sim.sim.observe.probes import register_probes
from rebalance_sim.sim.observe.routing import Router
from rebalance_sim.sim.observe.sampling import MetricSample, Sampler
from rebalance_sim.sim.observe.sums import Sums
from rebalance_sim.sim.phases import Phase, Phases, PhaseSpan
from rebalance_sim.sim.spec import WorldSpec
from rebalance_sim.sim.steps import Steps
from rebalance_sim.sim.streams import Branch, Streams
from rebalance_sim.sim.trace import Trace

_PROLONGED_MOST = 4
"""How many times as long as at first an open quiet period lasts at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldResult:
    """What a run was. ``is_complete`` False: a budget stopped it at ``simulated_ms``. ``leapt_ms``:
    how much of that was left out. ``phases``: those that began, with the metrics of each."""

    is_complete: bool
    steps: int
    simulated_ms: int
    digest: str
    ties: int
    metrics: Mapping[str, float]
    coverage: Mapping[str, int]
    samples: tuple[MetricSample, ...] = ()
    leapt_ms: int = 0
    phases: tuple[tuple[PhaseSpan, Mapping[str, float]], ...] = ()


class World:
    """A simulated cluster with its clients.

    ``groups`` are those of its clients, and ``group_id`` the first of them. ``make_checker`` is
    called with each, and returns what looks at every step that concerns it.
    ``max_steps`` bounds the run. ``metrics_interval_ms``: how often metrics are sampled, None for
    never; a world that is sampled goes exactly the same way. ``quiet_period_ms``: how long an open
    quiet period is at first. ``machines`` makes coordinators and members, by default each alone.
    ``phases`` are parts of the run that are measured by themselves; they change nothing of it.
    ``branch``: from then on everything is drawn otherwise.
    Raises ValueError where a quiet period is needed and there is none.
    """

    def __init__(
        self,
        spec: WorldSpec,
        *,
        make_checker: Callable[[WorldView], Checker] | None = None,
        trace: Trace | None = None,
        max_steps: int | None = None,
        metrics_interval_ms: int | None = None,
        quiet_period_ms: int | None = None,
        machines: Machines | None = None,
        phases: Sequence[Phase] = (),
        branch: Branch | None = None,
    ) -> None:
        machines = machines or SingleMachines()
        semantics = simulated(spec.semantics, defects=spec.defects, repairs=spec.repairs)
        self.spec = spec
        if spec.quiet_period_ms is not None:
            quiet_period_ms = longest_ms = spec.quiet_period_ms
        elif quiet_period_ms is None:
            raise ValueError("quiet_period_ms is open: give one to the world")
        else:
            longest_ms = _PROLONGED_MOST * quiet_period_ms
        self.end_ms = spec.duration_ms + quiet_period_ms
        self._latest_end_ms = spec.duration_ms + longest_ms
        self.group_id = spec.group_ids[0]
        self.default_group_id = spec.group_id
        self.config = spec.config
        self.semantics = semantics
        self.clock = Clock()
        self.streams = Streams(spec.seed)
        self.trace = Trace() if trace is None else trace
        self.metrics = Metrics(self.clock, spec.group_ids)
        self.sampler = Sampler(metrics_interval_ms)
        self._phases = Phases(phases, self)
        self._branch = branch
        self.coverage = Coverage()
        self.steps = Steps(self.clock, self.trace, self.metrics, self.coverage)
        self.topic_logs = TopicLogs()
        self.network = Network(self.clock, spec.network, self.streams)
        has_transactions = any(client.transactions is not None for client in spec.clients)
        self.cluster = Cluster(
            clock=self.clock,
            streams=self.streams,
            spec=spec.brokers,
            config=spec.config,
            semantics=semantics,
            rules=semantics.rules(BrokerRules)(),
            steps=self.steps,
            errors=self.coverage,
            topic_offsets=self.topic_logs,
            new_meters=self._new_meters,
            machines=machines,
            has_transactions=has_transactions,
            new_lines=lambda owner: ClientConnections(self.network, owner),
        )
        self.brokers = self.cluster.brokers
        self.controller = self.cluster.controller
        self.partition_of = self.cluster.partition_of
        self.network.servers = self.brokers
        self.network.racks = spec.brokers.racks
        self.topics = TopicAdmin(
            spec.topics, self.controller, self, racks=spec.brokers.racks_in_use
        )
        self.settings = SettingsAdmin(self.controller, spec)
        self.data_plane = self.controller.watcher = DataPlane(
            is_on=spec.data_plane,
            network=self.network,
            topic_logs=self.topic_logs,
            leaders=PartitionLeaders(self.brokers, broker_count=spec.brokers.count),
            deliveries=self.metrics.deliveries,
            end_ms=self._latest_end_ms,
            pills=PoisonPills({topic.name: topic.poison_pills for topic in spec.topics}),
            has_workers=any(client.workers is not None for client in spec.clients),
            has_transactions=has_transactions,
            levels=spec.isolation_levels if spec.output_topics else None,
        )
        if spec.output_topics:
            self.cluster.environment.data_partitions = DataPartitions(
                self.data_plane, self.cluster.environment.rules, self._on_written
            )
        self.groups = {group_id: self._new_group(group_id) for group_id in spec.group_ids}
        self.metrics.watch(self.groups)
        self.client_processes = ClientProcesses(
            ClientEnvironment(
                clock=self.clock,
                streams=self.streams,
                network=self.network,
                data_plane=self.data_plane,
                semantics=semantics,
                steps=self.steps,
                group_of=spec.group_of,
                on_gone=self.metrics.on_client_gone,
                machines=machines,
            ),
            spec.clients,
            self.groups,
        )
        tie_break = self.streams.get("schedule/injector").random
        self.injector = Injector(self, self.clock, self.steps, tie_break)
        self.network_names = (*self.client_processes.names, *((ADMIN,) if spec.has_admin else ()))
        self.admin = AdminTasks(self.network, self.steps)
        self._leaps: Leaps | None = None
        self._next_end_ms: Callable[[], int] = lambda: 0
        self._has_started = False
        self._is_quiet = False
        if max_steps is not None:
            self.steps.stop_after(max_steps, self.clock.stop)
        register_probes(
            self.sampler,
            brokers=self.brokers,
            ownership=self.metrics.ownership,
            progress=self.data_plane.progress if spec.data_plane else {},
            acting_shards=self.cluster.acting_shards,
        )
        self._own_metrics = {
            group_id: [metric(view) for metric in every_metric()]
            for group_id, view in self.groups.items()
        }
        self._looks_at_steps = any(metric.looks_at_steps() for metric in every_metric())
        if make_checker or self._looks_at_steps:
            self.steps.checker = self._checker(make_checker or (lambda _: NoChecker()))

    # --- the run ----------------------------------------------------------------------------------

    def run(
        self,
        next_end_ms: Callable[[], int] = lambda: 0,
        owes_nothing: Callable[[], bool] | None = None,
    ) -> WorldResult:
        """Let everything happen: faults until ``duration_ms``, then the quiet period. At its end
        ``next_end_ms`` is asked for a later one; an open quiet period continues until then.

        ``owes_nothing`` says whether nothing has to happen, once faults have stopped, that a world
        at rest may still do. If it is given, the run leaps over the time in which the world is at
        rest (``leaps.py``), unless metrics are sampled, a metric of a plug-in looks at steps, or
        applications write records in transactions, which have no rest.
        """
        leaps = not (self.sampler.is_on or self._looks_at_steps or self.spec.output_topics)
        if owes_nothing is not None and leaps:
            self._leaps = Leaps(self, owes_nothing)
        self._next_end_ms = next_end_ms
        is_complete = self.advance_to(self.end_ms)
        while is_complete:
            if self.latest_end_ms() <= self.now_ms:
                self.steps.checker.at_end()
                break
            is_complete = self.advance_to(self.end_ms)
        return self.result()

    def latest_end_ms(self) -> int:
        """The end of the run, as far as is known now; it has become no sooner."""
        self.end_ms = max(self.end_ms, min(self._next_end_ms(), self._latest_end_ms))
        return self.end_ms

    def advance_to(self, at_ms: int) -> bool:
        """Let everything before ``at_ms`` happen; False if a budget stops the world before that.

        At ``duration_ms`` all faults are healed. Raises ValueError for a time beyond the end.
        """
        if at_ms > self.end_ms:
            raise ValueError(f"at_ms ({at_ms}) lies beyond the end of the world ({self.end_ms})")
        if not self._has_started:
            self._start()
        if not self._is_quiet and at_ms >= self.spec.duration_ms:
            if not self._run_until(self.spec.duration_ms):
                return False
            self._is_quiet = True
            self._heal()
        return self._run_until(at_ms)

    def _heal(self) -> None:
        """The quiet period begins: every fault ends, and processes that are to come back do."""
        self.injector.end_all()
        for broker in self.brokers:
            broker.is_stopping = False
            if not broker.is_alive:
                broker.restart()
        if self.data_plane.pills.are_there:
            self.client_processes.end_pills()
            self.metrics.on_fault()
        self.client_processes.restart_all_due()

    def _run_until(self, at_ms: int) -> bool:
        sampler, phases = self.sampler, self._phases
        while True:
            branch = self._branch
            looks_ms = (
                sampler.next_ms,
                phases.next_ms,
                at_ms + 1 if branch is None else branch.at_ms,
            )
            if (next_ms := min(looks_ms)) > at_ms:
                break
            # To the end of the quiet period there is one leap, and none of it may be a phase's.
            steps = self._is_quiet or phases.looks_for_rest
            if not (self.clock if steps else self._leaps or self.clock).run_until(next_ms):
                return False
            if next_ms == looks_ms[0]:
                sampler.take(self.clock.now_ms)
            if next_ms == looks_ms[1]:
                phases.reach(next_ms)
            if branch is not None and next_ms == branch.at_ms:
                self.streams.branch(branch.seed)
                self._branch = None
        return (self._leaps or self.clock).run_until(at_ms)

    def result(self) -> WorldResult:
        """What the run has been so far."""
        return WorldResult(
            is_complete=self.now_ms == self.end_ms,
            steps=self.steps.count,
            simulated_ms=self.now_ms,
            leapt_ms=self.clock.leapt_ms,
            digest=self.trace.digest(),
            ties=self.clock.tie_count,
            metrics=self._metrics(),
            coverage=self.coverage.counts(),
            samples=tuple(self.sampler.samples),
            phases=tuple(self._phases.spans()),
        )

    def sums(self) -> Sums:
        """What has added up so far."""
        for process in self.clients().values():
            process.application.count_records()
        of_data_plane = self.data_plane.sums()  # It settles what is delivered.
        gained = {} if self._leaps is None else self._leaps.gained
        return self.metrics.sums().and_(of_data_plane).and_(Sums(counts=gained))

    def lag_records(self) -> Mapping[str, float]:
        """``lag_records_at_end``, as of now, where there are records."""
        return {"lag_records_at_end": self.data_plane.lag()} if self.spec.data_plane else {}

    def begin_part(self) -> None:
        """From now on, the longest and the highest are those of a part of the run."""
        self.metrics.begin_part()
        self.data_plane.begin_part()

    def _metrics(self) -> Mapping[str, float]:
        for process in self.clients().values():
            process.application.count_records()
        of_data_plane = self.data_plane.metrics()  # It settles what is delivered.
        found = self.metrics.as_dict(is_stable=self.is_stable()) | of_data_plane
        if self._leaps is not None:
            for name, gained in self._leaps.gained.items():
                found[name] += gained
        return found | values_of(chain.from_iterable(self._own_metrics.values()), found)

    def _checker(self, make_checker: Callable[[WorldView], Checker]) -> Checker:
        """One checker for each group; the only one of a small world sees every step."""
        checkers = {
            group_id: Measured.of(make_checker(group), self._own_metrics[group_id])
            for group_id, group in self.groups.items()
        }
        is_alone = len(checkers) == 1 and len(self.controller.partitions) == 1
        if is_alone and not self.spec.names_strange_groups:
            return checkers[self.group_id]
        return Router({name: g.partition for name, g in self.groups.items()}, checkers)

    def _new_group(self, group_id: str) -> Group:
        spec = self.spec
        # The world's own group keeps the stream that worlds with one group have.
        suffix = "" if group_id == spec.group_id else f"/{group_id}"
        return Group(
            group_id,
            cluster=self.cluster,
            clock=self.clock,
            semantics=self.semantics,
            client_specs=(one for one in spec.clients if spec.group_of(one) == group_id),
            has_data_plane=spec.data_plane,
            tie_break=self.streams.get(f"schedule/fleet{suffix}").random,
        )

    def _new_meters(self) -> Meters | None:
        if not self.sampler.is_on:
            return None
        return CoordinatorMetrics(commit_timeout_ms=self.config.offsets_commit_timeout_ms)

    def _start(self) -> None:
        self._has_started = True
        self.controller.start(self.topics.initial_image())
        self.client_processes.schedule_starts(
            [name for fault in self.spec.faults for name in fault.starts]
        )
        self.injector.schedule(self.spec.faults)
        if self.spec.admin_interval_ms is not None:
            AdminClient(self.network, self.groups, self.spec.admin_interval_ms).start()

    # --- looking around ---------------------------------------------------------------------------

    @property
    def has_data_plane(self) -> bool:
        """Whether clients fetch, buffer and process records."""
        return self.spec.data_plane

    @property
    def now_ms(self) -> int:
        """The time, with all that was left out."""
        return self.clock.simulated_ms

    def acting_shard(self) -> ShardHost | None:
        """The shard that serves the first group, or None."""
        return self.groups[self.group_id].acting_shard()

    def clients(self) -> Mapping[str, ClientProcess]:
        """Client name -> its present process, in ascending name; of all groups."""
        return self.client_processes.processes

    def is_stable(self) -> bool:
        """Whether every group is served, and stable or gone."""
        return all(group.is_stable() for group in self.groups.values())

    @property
    def replication_factor(self) -> int:
        """By how much replication takes longer than usual."""
        return self.cluster.environment.replication_factor

    @replication_factor.setter
    def replication_factor(self, factor: int) -> None:
        self.cluster.environment.replication_factor = factor

    # --- what the parts of the world ask for ------------------------------------------------------

    def later(
        self, delay_ms: int, action: Callable[[], object], *, when_quiet: bool = False
    ) -> None:
        """Do something after a while (``Injector.later``)."""
        self.injector.later(delay_ms, action, when_quiet=when_quiet)

    def on_partitions_created(
        self, topic_id: str, name: str, numbers: range, *, records_per_second: int
    ) -> None:
        """A topic has new partitions: they have leaders, logs, and groups that are to own them."""
        self.data_plane.leaders.on_topic_created(topic_id)
        now_ms = self.clock.simulated_ms
        self.topic_logs.create(
            topic_id,
            numbers,
            records_per_second=records_per_second,
            now_ms=now_ms,
            written_by=self.cluster.environment.rules if name in self.spec.output_topics else None,
        )
        self.data_plane.on_partitions_created(name, topic_id, numbers)
        for group in self.groups.values():
            if group.subscribes_to(name):
                ownership = self.metrics.ownership[group.group_id]
                for number in numbers:
                    ownership.add(TopicPartition(topic_id, number))

    def _on_written(self, written: RecordsWritten) -> None:
        """A partition has records of a transaction, or its marker."""
        self.data_plane.on_written(written)
        self.steps.records_written(written)

    def on_topic_deleted(self, topic: Topic) -> None:
        """No one need own, or can fetch, the partitions of a topic any more."""
        for number in range(topic.partition_count):
            self.metrics.on_partition_deleted(TopicPartition(topic.topic_id, number))
        self.data_plane.on_topic_deleted(topic.topic_id, topic.partition_count)
