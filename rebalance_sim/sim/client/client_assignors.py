"""The client-side assignors of one client process: run on demand, and given every assignment.

Source: coordinator §12 (the text of KIP-848). A computation takes its time beside the application,
which continues polling. A Streams application follows the state of its tasks (``task_store.py``),
and says so when a copy comes to be good enough, or is so no longer: the metadata of a member is
renewed for such a reason only.
"""

from __future__ import annotations

from rebalance_sim.protocol.assignors.client_side import (
    CLIENT_SIDE_ASSIGNORS,
    AssignmentSpec,
    MetadataReason,
    PartitionAssignor,
    StreamsAssignor,
)
from rebalance_sim.protocol.assignors.client_side.streams_metadata import decode_assignment
from rebalance_sim.protocol.clients.common.effects import AssignmentReceived, ComputeAssignment
from rebalance_sim.protocol.clients.common.events import AssignmentComputed, AssignorMetadataChanged
from rebalance_sim.protocol.versions.semantics import Semantics
from rebalance_sim.protocol.wire.topics import TopicPartition
from rebalance_sim.sim.client.assignor_spec import ClientAssignorsSpec, StreamsSpec
from rebalance_sim.sim.client.environment import ClientEnvironment
from rebalance_sim.sim.client.ports import Process
from rebalance_sim.sim.client.task_store import TaskStore
from rebalance_sim.sim.clock import PlannedCall
from rebalance_sim.sim.streams import delay_sampler


def make_assignors(
    name: str, spec: ClientAssignorsSpec | None, semantics: Semantics
) -> tuple[PartitionAssignor, ...]:
    """The assignors that the client of this name offers, in its order."""
    if spec is None:
        return ()
    versions = {
        "minimum_version": spec.minimum_version,
        "maximum_version": spec.maximum_version,
        "metadata_version": spec.version,
    }
    return tuple(
        _make_streams(name, spec, semantics)
        if one == StreamsAssignor.name
        else CLIENT_SIDE_ASSIGNORS[one](**versions)
        for one in spec.names
    )


def _make_streams(name: str, spec: ClientAssignorsSpec, semantics: Semantics) -> StreamsAssignor:
    streams = spec.streams or StreamsSpec()
    return semantics.rules(StreamsAssignor)(
        process_id=streams.process_id or name,
        client_tags=streams.client_tags,
        topology_hash=streams.topology_hash,
        config=streams.config(),
        minimum_version=spec.minimum_version,
        maximum_version=spec.maximum_version,
        metadata_version=spec.version,
    )


class AssignorHost:
    """What a process does for the assignors of its member."""

    def __init__(
        self, environment: ClientEnvironment, process: Process, spec: ClientAssignorsSpec
    ) -> None:
        self._clock = environment.clock
        self._process = process
        self._tie_break = process.tie_break
        stream = environment.streams.get(f"assignor/{process.name}")
        self._compute_ms = delay_sampler(spec.compute, stream)
        self._by_name = {one.name: one for one in process.member.local_assignors}
        streams = self._by_name.get(StreamsAssignor.name)
        self._tasks = (
            _StreamsTasks(environment, process, spec.streams or StreamsSpec(), streams)
            if isinstance(streams, StreamsAssignor)
            else None
        )

    def start(self) -> None:
        """The process begins, before it subscribes to anything."""
        if self._tasks is not None:
            self._tasks.start()

    def compute(self, effect: ComputeAssignment) -> None:
        """Run an assignor; its result is there after a while."""
        at_ms = self._clock.now_ms + self._compute_ms()
        self._clock.call_at(at_ms, self._tie_break(), self._on_computed, effect)

    def _on_computed(self, effect: ComputeAssignment) -> None:
        if self._process.defers(self._on_computed, effect):
            return
        assignor = self._by_name[effect.prepared.assignor_name]
        result = assignor.assign(AssignmentSpec.of(effect.prepared))
        self._process.take(AssignmentComputed(computation_id=effect.computation_id, result=result))

    def on_assignment(self, effect: AssignmentReceived) -> None:
        """The callback of the assignors."""
        if self._tasks is not None:
            self._tasks.on_assignment(effect)

    def end(self) -> None:
        """The process ends; what it has stored remains."""
        if self._tasks is not None:
            self._tasks.end()


class _StreamsTasks:
    """The tasks of one member of a Streams application, and what it has said of their lags."""

    def __init__(
        self,
        environment: ClientEnvironment,
        process: Process,
        spec: StreamsSpec,
        assignor: StreamsAssignor,
    ) -> None:
        self._clock = environment.clock
        self._process = process
        self._assignor = assignor
        self._limit = spec.acceptable_recovery_lag
        key = process.member.config.group_id, assignor.process_id
        store = environment.task_stores.get(key)
        if store is None:
            store = environment.task_stores[key] = TaskStore(
                environment.data_plane.topic_logs,
                state_records=spec.state_records,
                restore_rate=spec.restore_records_per_second,
            )
        self._store: TaskStore = store
        self._copies: frozenset[TopicPartition] = frozenset()
        self._said: dict[TopicPartition, int] = {}
        self._look_at_ms: int | None = None
        self._planned: PlannedCall | None = None

    def start(self) -> None:
        """Say what is on the disk already; joining is reason enough."""
        self._say(MetadataReason.NONE)

    def on_assignment(self, effect: AssignmentReceived) -> None:
        """Restore what is new, let be what is gone. Partitions count where nothing is said."""
        metadata = effect.metadata
        reported = decode_assignment(metadata.metadata_bytes, metadata.metadata_version)
        tasks = reported.tasks | effect.partitions
        self._copies = tasks - effect.partitions
        self._store.hold(self._process.name, tasks, self._clock.simulated_ms)
        self._look()

    def end(self) -> None:
        """Nothing is restored any more."""
        self._clock.forget(self._planned)
        self._store.hold(self._process.name, frozenset(), self._clock.simulated_ms)

    def _look(self) -> None:
        """Say it if a copy has become good, or bad; look again when the next one may."""
        now_ms = self._clock.simulated_ms
        watched = sorted({*self._copies, *self._said})
        news = [task for task in watched if self._is_good(task, now_ms) is not self._is_said(task)]
        if news:
            ready = any(self._is_good(task, now_ms) for task in news)
            reason = MetadataReason.WARM_UP_READY if ready else MetadataReason.WARM_UP_FAILED
            self._say(reason)
            watched = sorted({*self._copies, *self._said})
        crossings = (self._store.crossing_ms(task, self._limit, now_ms) for task in watched)
        at_ms = min((ms for ms in crossings if ms is not None), default=None)
        self._look_at_ms = at_ms
        self._clock.forget(self._planned)
        if at_ms is not None:
            self._planned = self._clock.plan_at(
                at_ms, self._process.tie_break(), self._on_time, at_ms, is_change=False
            )

    def _say(self, reason: MetadataReason) -> None:
        self._said = dict(self._store.lags(self._clock.simulated_ms))
        if self._said:
            said = self._assignor.metadata_with(self._said, reason)
            self._process.take(
                AssignorMetadataChanged(assignor_name=self._assignor.name, metadata=said)
            )

    def _is_good(self, task: TopicPartition, now_ms: int) -> bool:
        return self._store.lag(task, now_ms) <= self._limit

    def _is_said(self, task: TopicPartition) -> bool:
        """Does the group take the copy for a good one?"""
        return self._said.get(task, self._limit + 1) <= self._limit

    def _on_time(self, at_ms: int) -> None:
        if at_ms != self._look_at_ms or self._process.defers(self._on_time, at_ms):
            return
        self._look()
