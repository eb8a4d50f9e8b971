"""What happened in a run, moment by moment: facts, from which figures are computed again.

Nothing here adds anything up. A moment is a step of the world with what was true right after it: of
a client what it may fetch and where it stands, of a shard how it sees its groups.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from rebalance_sim.invariants.step import Step, StepKind
from rebalance_sim.protocol.runtime.coordinator import GroupCoordinator
from rebalance_sim.protocol.wire.records import Record
from rebalance_sim.protocol.wire.topics import Topic, TopicPartition
from rebalance_sim.scenarios.quiet import quiet_period_ms
from rebalance_sim.sim.client.client_spec import ClientSpec
from rebalance_sim.sim.data_plane.poll_clock import PARTS
from rebalance_sim.sim.data_plane.progress import PartitionProgress
from rebalance_sim.sim.spec import WorldSpec
from rebalance_sim.sim.trace import Trace
from rebalance_sim.sim.world import World, WorldResult


class GroupSeen(NamedTuple):
    """A group as a shard has it: type, state and epoch or generation, and its member ids."""

    type: str
    state: str
    epoch: int
    members: frozenset[str]


class Held(NamedTuple):
    """One time with a partition: its number, and where the member stands; None while that is
    looked up."""

    number: int
    position: int | None


class ClientSeen(NamedTuple):
    """A client process. ``is_member``: it has an identity to commit with. ``held``: what is
    assigned to it."""

    name: str
    incarnation: int
    group_id: str
    member_id: str
    state: str
    is_in_group: bool
    member_epoch: int
    fetchable: frozenset[TopicPartition]
    is_member: bool
    subscription: tuple[frozenset[str], str | None]
    spec: ClientSpec
    held: Mapping[TopicPartition, Held]
    is_polling: bool
    knows_coordinator: bool


class ShardSeen(NamedTuple):
    """A shard. ``groups``: those of its partition; None for one that it has not."""

    name: str
    leader_epoch: int
    log_end_offset: int
    high_watermark: int
    groups: Mapping[str, GroupSeen | None]


class Moment(NamedTuple):
    """One step. ``acting``: how the acting shard of its group sees it, when a client crashes."""

    at_ms: int
    kind: StepKind
    event: Any
    effects: tuple[Any, ...]
    records: tuple[Record, ...]
    client: ClientSeen | None
    shard: ShardSeen | None
    acting: GroupSeen | None
    fault: Any
    operation: int
    request: Any
    response: Any


class PartitionLife(NamedTuple):
    """A partition from its creation to its deletion, or the end of the run."""

    partition: TopicPartition
    topic: str
    from_ms: int
    to_ms: int


class Delivery(NamedTuple):
    """Records that an application was handed: offsets from ``start`` to ``end`` (exclusive).

    That was after the first ``since`` moments of the run, and before those from ``until`` on;
    between ``since_ms`` and ``at_ms``, in the time ``held`` with the partition.
    """

    group_id: str
    partition: TopicPartition
    start: int
    end: int
    client: str
    incarnation: int
    held: int
    since: int
    until: int
    since_ms: int
    at_ms: int


BY_WORKERS = -1
"""The flow of records that workers process after their client has lost the partition."""


class Flowed(NamedTuple):
    """What became of one partition at one client. Positions are in parts of a record.

    ``kind``: ``begin`` and ``end`` of its time with it, ``lose`` and ``regain`` the right to hand
    it out, ``first`` record handed out; ``moved`` along a line, with records ``processed`` or
    without. ``flow`` tells these times apart.
    """

    kind: str
    at_ms: int
    group_id: str
    partition: TopicPartition
    flow: int
    client: str
    position: int
    before: int = 0
    assigned_ms: int = 0


@dataclass
class Recording:
    """A run. ``at_end``: how the acting shard of each group sees it; ``unserved`` have none."""

    spec: WorldSpec
    result: WorldResult
    moments: list[Moment] = field(default_factory=list)
    partitions: list[PartitionLife] = field(default_factory=list)
    deliveries: list[Delivery] = field(default_factory=list)
    flowed: list[Flowed] = field(default_factory=list)
    at_end: dict[str, GroupSeen | None] = field(default_factory=dict)
    unserved: set[str] = field(default_factory=set)

    @property
    def end_ms(self) -> int:
        """When the run was over."""
        return self.result.simulated_ms


def record(
    spec: WorldSpec, *, max_steps: int | None = None, until_ms: int | None = None
) -> Recording:
    """Run a world, and write down what happens; ``until_ms``: no further."""
    trace = _MomentTrace()
    world = _RecordedWorld(spec, trace, max_steps=max_steps)
    if until_ms is None:
        result = world.run()
    else:
        world.advance_to(until_ms)
        result = world.result()
    ends_ms = result.simulated_ms
    recording = Recording(
        spec, result, trace.moments, deliveries=world.handed_out, flowed=world.flowed
    )
    for (partition, topic), from_ms in world.created_ms.items():
        to_ms = world.deleted_ms.get(partition, ends_ms)
        recording.partitions.append(PartitionLife(partition, topic, from_ms, to_ms))
    for group_id, group in world.groups.items():
        shard = group.acting_shard()
        if shard is None:
            recording.unserved.add(group_id)
        else:
            recording.at_end[group_id] = _seen(shard.coordinator, group_id)
    return recording


Add = Callable[[TopicPartition, int, int], None]


class _RecordedWorld(World):
    def __init__(self, spec: WorldSpec, trace: _MomentTrace, *, max_steps: int | None) -> None:
        self.created_ms: dict[tuple[TopicPartition, str], int] = {}
        self.deleted_ms: dict[TopicPartition, int] = {}
        period_ms = quiet_period_ms(spec)
        super().__init__(spec, trace=trace, max_steps=max_steps, quiet_period_ms=period_ms)
        trace.world = self
        self.handed_out: list[Delivery] = []
        self._moments, self._times = trace.moments, trace.times
        self._processes: dict[Any, Any] = {}
        self._asked: tuple[Any, int, int] = (None, 0, 0)
        self._asked_before: dict[Any, tuple[int, int]] = {}
        for about, made in (("new_intake", self._new_intake), ("deliver_all", self._deliver_all)):
            setattr(self.data_plane, about, made(getattr(self.data_plane, about)))
        for group_id, deliveries in self.metrics.deliveries.items():
            setattr(deliveries, "add", self._recorded(group_id, deliveries.add))  # noqa: B010
        self.flowed: list[Flowed] = []
        self._flows: dict[Any, tuple[int, str, int]] = {}
        for group_id, progress in self.data_plane.progress.items():
            setattr(progress, "of", self._recorded_flows(group_id, progress.of))  # noqa: B010

    def _recorded_flows(
        self, group_id: str, of: Callable[[TopicPartition], PartitionProgress]
    ) -> Callable[[TopicPartition], PartitionProgress]:
        seen: set[TopicPartition] = set()

        def recorded(partition: TopicPartition) -> PartitionProgress:
            found = of(partition)
            if partition not in seen:
                seen.add(partition)
                for kind in ("begin", "lose", "regain", "end", "on_moved", "on_first_record"):
                    inner = getattr(found, kind)
                    setattr(found, kind, self._recorded_flow(kind, group_id, partition, inner))
                finish = self._recorded_finish(group_id, partition, found.finish)
                setattr(found, "finish", finish)  # noqa: B010
            return found

        return recorded

    def _recorded_finish(
        self, group_id: str, partition: TopicPartition, inner: Callable[..., None]
    ) -> Callable[..., None]:
        def recorded(start: int, end: int) -> None:
            at_ms, parts = self.clock.now_ms, (end * PARTS, start * PARTS)
            self.flowed.append(
                Flowed("processed", at_ms, group_id, partition, BY_WORKERS, "", *parts)
            )
            inner(start, end)

        return recorded

    def _recorded_flow(
        self, kind: str, group_id: str, partition: TopicPartition, inner: Callable[..., None]
    ) -> Callable[..., None]:
        def recorded(flow: Any, *rest: int, **named: Any) -> None:
            if kind == "begin":
                inner(flow, *rest, **named)  # which first settles what came before
                about = (len(self._flows), named["name"], named["assigned_ms"])
                self._flows[flow] = about
            number, client, assigned_ms = self._flows[flow]
            at_ms, name, before = self.clock.now_ms, kind, 0
            if kind == "on_moved":
                at_ms, before = rest
                name = "processed" if flow.outgoing else "moved"
            elif kind == "on_first_record":
                (at_ms,) = rest
                name = "first"
            self.flowed.append(
                Flowed(
                    name,
                    at_ms,
                    group_id,
                    partition,
                    number,
                    client,
                    flow.position,
                    before,
                    assigned_ms,
                )
            )
            if kind != "begin":
                inner(flow, *rest, **named)

        return recorded

    def _recorded(self, group_id: str, add: Add) -> Add:
        def recorded(partition: TopicPartition, start: int, end: int) -> None:
            process, since, since_ms = self._asked
            life = None if process.intake is None else process.intake._lives[partition]
            held = process.member.assigned[partition] if life is None else life.state
            self.handed_out.append(
                Delivery(
                    group_id,
                    partition,
                    start,
                    end,
                    process.name,
                    process.incarnation,
                    self._times.of(held),
                    since,
                    len(self._moments),
                    since_ms,
                    self.clock.now_ms,
                )
            )
            add(partition, start, end)

        return recorded

    def _new_intake(self, new_intake: Callable[..., Any]) -> Callable[..., Any]:
        def recorded(process: Any, **named: Any) -> Any:
            self._processes[process.member] = process
            self._asked_before[process] = len(self._moments), self.clock.now_ms
            intake = new_intake(process, **named)
            if intake is not None:
                intake.deliver = self._deliver(process, intake.deliver)
            return intake

        return recorded

    def _deliver_all(self, deliver_all: Callable[..., Any]) -> Callable[..., Any]:
        def recorded(member: Any) -> Any:
            return self._deliver(self._processes[member], deliver_all)(member)

        return recorded

    def _deliver(self, process: Any, deliver: Callable[..., Any]) -> Callable[..., Any]:
        def recorded(*arguments: Any) -> Any:
            self._asked = process, *self._asked_before[process]
            self._asked_before[process] = len(self._moments), self.clock.now_ms
            return deliver(*arguments)

        return recorded

    def on_partitions_created(
        self, topic_id: str, name: str, numbers: range, *, records_per_second: int
    ) -> None:
        for number in numbers:
            self.created_ms[TopicPartition(topic_id, number), name] = self.clock.now_ms
        super().on_partitions_created(
            topic_id, name, numbers, records_per_second=records_per_second
        )

    def on_topic_deleted(self, topic: Topic) -> None:
        for number in range(topic.partition_count):
            self.deleted_ms[TopicPartition(topic.topic_id, number)] = self.clock.now_ms
        super().on_topic_deleted(topic)


class _MomentTrace(Trace):
    world: World

    def __init__(self) -> None:
        super().__init__()
        self.moments: list[Moment] = []
        self.times = _Numbers()

    def on_step(self, step: Step) -> None:
        super().on_step(step)
        client = None if step.client is None else _client(step.client, self.times)
        acting = None
        if client is not None and step.kind is StepKind.CLIENT_CRASHED:
            shard = self.world.groups[client.group_id].acting_shard()
            acting = None if shard is None else _seen(shard.coordinator, client.group_id)
        self.moments.append(
            Moment(
                step.at_ms,
                step.kind,
                step.event,
                step.effects,
                step.records,
                client,
                None if step.shard is None else self._shard(step.shard),
                acting,
                step.fault,
                step.operation,
                step.request,
                step.response,
            )
        )

    def _shard(self, shard: Any) -> ShardSeen:
        groups: dict[str, GroupSeen | None] = {}
        if shard.is_active:
            for group_id, group in self.world.groups.items():
                if group.partition == shard.partition:
                    groups[group_id] = _seen(shard.coordinator, group_id)
        log_ends = shard.log_end_offset, shard.high_watermark
        return ShardSeen(shard.name, shard.leader_epoch, *log_ends, groups)


class _Numbers:
    """A number for each object that it is asked about, which it keeps."""

    def __init__(self) -> None:
        self._kept: dict[int, tuple[int, object]] = {}

    def of(self, one: object) -> int:
        return self._kept.setdefault(id(one), (len(self._kept), one))[0]


def _client(process: Any, times: _Numbers) -> ClientSeen:
    member = process.member
    held = {
        partition: Held(times.of(state), state.position if state.has_valid_position else None)
        for partition, state in member.assigned.items()
    }
    return ClientSeen(
        process.name,
        process.incarnation,
        member.config.group_id,
        member.member_id,
        member.state.value,
        member.state.is_in_group,
        member.member_epoch,
        member.fetchable,
        bool(member.commit_identity),
        (frozenset(member.subscribed_topic_names), member.subscribed_topic_regex),
        process.spec,
        held,
        member.is_polling,
        member.coordinator_id is not None,
    )


def _seen(coordinator: GroupCoordinator, group_id: str) -> GroupSeen | None:
    found = coordinator.project(group_id)
    if found is None:
        return None
    return GroupSeen(found.group_type, found.state, found.epoch, frozenset(found.members))
