"""A world of one coordinator, and nothing else, for tests of invariants.

Everything is committed at once unless a test holds the commit back. Tests break properties by
defects, by records that no coordinator wrote (``write``), or by reaching into memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from rebalance_sim.invariants.engine.checker import Checker
from rebalance_sim.invariants.property import Violation
from rebalance_sim.invariants.step import ClientView, ShardView, Step, StepKind
from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup
from rebalance_sim.protocol.runtime.coordinator import GroupCoordinator
from rebalance_sim.protocol.runtime.coordinator_config import ConfigsInForce, CoordinatorConfig
from rebalance_sim.protocol.runtime.outcome import (
    CancelTimer,
    Continuation,
    Outcome,
    ScheduleTimer,
    TimerCommand,
    TimerKey,
)
from rebalance_sim.protocol.versions.semantics import SEMANTICS, Semantics
from rebalance_sim.protocol.wire.consumer_messages import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    Request,
)
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.records import Record
from rebalance_sim.protocol.wire.topics import MetadataImage, Topic, TopicPartition

GROUP = "group"
ORDERS = Topic(topic_id="id-orders", name="orders", partition_count=4)
PAYMENTS = Topic(topic_id="id-payments", name="payments", partition_count=2)
IMAGE = MetadataImage([ORDERS, PAYMENTS])
CONFIG = CoordinatorConfig(group_consumer_assignment_interval_ms=0)


def orders(*numbers: int) -> frozenset[TopicPartition]:
    """Partitions of the topic ``orders``."""
    return frozenset(TopicPartition(ORDERS.topic_id, number) for number in numbers)


class OneShard:
    """A replica with the shard that runs on it."""

    def __init__(self, name: str, coordinator: GroupCoordinator) -> None:
        self.name = name
        self.coordinator = coordinator
        self.is_active = True
        self.leader_epoch = 0
        self.log: list[Record] = []
        self.high_watermark = 0
        self.armed_timers: dict[TimerKey, ScheduleTimer] = {}

    @property
    def configs(self) -> ConfigsInForce:
        coordinator = self.coordinator
        return ConfigsInForce(broker=coordinator.config, groups=coordinator.group_configs)

    @property
    def log_end_offset(self) -> int:
        return len(self.log)

    def log_records(self) -> list[Record]:
        return self.log


class CoordinatorWorld:
    """One shard, its checker, and verbs that take one step each."""

    has_data_plane = False

    def __init__(
        self,
        semantics: Semantics | str = "kafka-4.3",
        *,
        config: CoordinatorConfig = CONFIG,
        image: MetadataImage = IMAGE,
        **options: Any,
    ) -> None:
        self.semantics = SEMANTICS[semantics] if isinstance(semantics, str) else semantics
        self.config = config
        self.group_id = GROUP
        self.now_ms = 0
        self.commits_at_once = True
        self._ids = 0
        self._steps = 0
        self._operations = 0
        self.parked: dict[int, Request] = {}
        """Operation -> request that may be waiting for its answer."""
        self.answers: dict[int, Any] = {}
        self.held: list[Continuation] = []
        """What hangs on the next commit."""
        self.image = image
        self.shard = OneShard("broker-0", self.new_coordinator())
        options = {"full_every": 0, "known_issues": {}} | options
        self.checker = Checker(self, **options)
        self.load()

    # -- WorldView ---------------------------------------------------------------------------

    def acting_shard(self) -> ShardView | None:
        return self.shard if self.shard.is_active else None

    def clients(self) -> Mapping[str, ClientView]:
        return {}

    # -- steps -------------------------------------------------------------------------------

    def show(self, kind: StepKind, **fields: Any) -> Step:
        """Show a step to the checker."""
        step = Step()
        self._steps += 1
        step.index, step.at_ms, step.kind = self._steps, self.now_ms, kind
        for name, value in fields.items():
            setattr(step, name, value)
        self.checker.after_step(step)
        self.after_step(step)
        return step

    def after_step(self, step: Step) -> None:
        """For tests that look at every step."""

    def request(
        self,
        request: Request,
        *,
        change: Callable[[Outcome], Outcome] = lambda outcome: outcome,
        client_id: str = "",
    ) -> Any:
        """Handle a request; ``change`` may falsify what the coordinator wants."""
        self._operations += 1
        operation = self._operations
        outcome = change(
            self.shard.coordinator.handle(
                request, now_ms=self.now_ms, client_id=client_id, token=operation
            )
        )
        self.parked[operation] = request
        self.take(outcome)
        self.show(
            StepKind.COORDINATOR_REQUEST,
            shard=self.shard,
            request=request,
            response=outcome.response,
            records=outcome.records,
            timers=outcome.timers,
            operation=operation,
        )
        self.complete(outcome)
        if self.commits_at_once:
            self.commit()
            if outcome.response is not None:
                self.release(request, outcome.response, operation)
        return self.answers.get(operation) if outcome.response is None else outcome.response

    def heartbeat(
        self,
        member_id: str,
        epoch: int,
        *,
        owned: frozenset[TopicPartition] | None = None,
        change: Callable[[Outcome], Outcome] = lambda outcome: outcome,
        **fields: Any,
    ) -> ConsumerGroupHeartbeatResponse:
        """An incremental heartbeat."""
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=member_id,
            member_epoch=epoch,
            topic_partitions=owned,
            **fields,
        )
        response: ConsumerGroupHeartbeatResponse = self.request(request, change=change)
        return response

    def join(self, member_id: str, *topics: str, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        """A first heartbeat, for ``orders`` unless told otherwise."""
        fields.setdefault("rebalance_timeout_ms", 60_000)
        return self.heartbeat(
            member_id,
            0,
            owned=frozenset(),
            subscribed_topic_names=topics or ("orders",),
            **fields,
        )

    def settle(self, *member_ids: str) -> None:
        """Let members heartbeat, with everything acknowledged, until nothing changes."""
        for _ in range(8):
            before = self.shard.log_end_offset
            for member_id in member_ids:
                member = self.group.members[member_id]
                if member.member_epoch > 0:
                    owned = frozenset(member.assigned)
                    self.heartbeat(member_id, member.member_epoch, owned=owned)
                else:
                    self.join(member_id, *member.subscribed_topic_names)
                self.advance_to(self.now_ms)
            if before == self.shard.log_end_offset:
                return
        raise AssertionError("the group does not settle")

    def fire(self, key: TimerKey) -> Outcome:
        """A timer fires now."""
        timer = self.shard.armed_timers.pop(key)
        outcome = self.shard.coordinator.fire(key, epoch=timer.epoch, now_ms=self.now_ms)
        self.take(outcome)
        self.show(
            StepKind.COORDINATOR_TIMER,
            shard=self.shard,
            event=key,
            records=outcome.records,
            timers=outcome.timers,
        )
        self.complete(outcome)
        if self.commits_at_once:
            self.commit()
        return outcome

    def advance_to(self, at_ms: int) -> None:
        """Let time pass, with every timer that is due."""
        while self.shard.armed_timers:
            key, timer = min(
                self.shard.armed_timers.items(), key=lambda item: (item[1].at_ms, item[0])
            )
            if timer.at_ms > at_ms:
                break
            self.now_ms = max(self.now_ms, timer.at_ms)
            self.fire(key)
        self.now_ms = max(self.now_ms, at_ms)

    def write(self, *records: Record, request: Any = None, response: Any = None) -> None:
        """Records appear as if an operation had written them."""
        self.take(Outcome(None, records))
        self.show(
            StepKind.COORDINATOR_REQUEST,
            shard=self.shard,
            request=request,
            response=response,
            records=records,
        )

    def update_image(self, image: MetadataImage) -> None:
        """The shard takes a new image."""
        self.image = image
        timers = self.shard.coordinator.update_image(image, now_ms=self.now_ms)
        self.apply(timers)
        self.show(StepKind.METADATA_CHANGED, shard=self.shard, timers=timers)

    def load(self) -> None:
        """The shard loads its log."""
        for record in self.shard.log:
            self.shard.coordinator.replay(record, strict=False)
        timers = self.shard.coordinator.on_loaded(now_ms=self.now_ms)
        self.apply(timers)
        self.show(StepKind.COORDINATOR_LOADED, shard=self.shard, timers=timers)

    def restart(self, log: list[Record] | None = None) -> None:
        """The shard loses its memory and loads ``log``, or what it had."""
        self.shard.is_active = False
        self.show(StepKind.COORDINATOR_UNLOADED, shard=self.shard)
        self.held.clear()
        self.shard.coordinator = self.new_coordinator()
        self.shard.armed_timers.clear()
        if log is not None:
            self.shard.log = log
            self.shard.high_watermark = min(self.shard.high_watermark, len(log))
        self.shard.is_active = True
        self.load()

    def commit(self) -> None:
        """The high watermark reaches the end of the log."""
        if self.shard.high_watermark < self.shard.log_end_offset:
            self.shard.high_watermark = self.shard.log_end_offset
            self.show(StepKind.LOG_COMMITTED, shard=self.shard)
        held, self.held = self.held, []
        for on_commit in held:
            self.written(on_commit, self.shard.coordinator.committed(on_commit, now_ms=self.now_ms))

    def fail_writes(self) -> None:
        """What waits for its commit times out; its records stay in the log."""
        held, self.held = self.held, []
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        for on_commit in held:
            outcome = self.shard.coordinator.write_failed(
                on_commit, error, is_undone=False, now_ms=self.now_ms
            )
            self.written(on_commit, outcome, "timed out")

    def written(self, on_commit: Continuation, outcome: Outcome, detail: str = "") -> None:
        """The coordinator has heard what became of a write."""
        self.take(outcome)
        self.show(
            StepKind.COORDINATOR_WRITTEN,
            shard=self.shard,
            event=on_commit,
            records=outcome.records,
            timers=outcome.timers,
            detail=detail,
        )
        self.complete(outcome)
        if outcome.records and self.commits_at_once:
            self.commit()

    def complete(self, outcome: Outcome) -> None:
        """Answers to parked requests leave at once."""
        for operation, response in outcome.completions:
            assert isinstance(operation, int)  # the token that ``request`` gives
            self.answers[operation] = response
            self.release(self.parked.pop(operation), response, operation)

    def release(self, request: Any, response: Any, operation: int) -> None:
        """An answer leaves the broker."""
        self.show(
            StepKind.RESPONSE_RELEASED,
            shard=self.shard,
            request=request,
            response=response,
            operation=operation,
        )

    # -- helpers -----------------------------------------------------------------------------

    @property
    def group(self) -> Any:
        """The coordinator's group."""
        return self.shard.coordinator.groups_of(ConsumerGroup)[GROUP]

    @property
    def violated(self) -> list[str]:
        """Ids of violated properties, in the order in which they were found."""
        return [violation.property.id for violation in self.checker.violations]

    @property
    def first(self) -> Violation:
        """The first violation."""
        return self.checker.violations[0]

    def take(self, outcome: Outcome) -> None:
        """Append, replay, obey."""
        for record in outcome.records:
            self.shard.log.append(record)
            self.shard.coordinator.replay(record, strict=False)
        self.apply(outcome.timers)
        if outcome.on_commit is not None:
            self.held.append(outcome.on_commit)

    def apply(self, commands: Iterable[TimerCommand]) -> None:
        """Arm and cancel timers."""
        for command in commands:
            if isinstance(command, CancelTimer):
                self.shard.armed_timers.pop(command.key, None)
            else:
                self.shard.armed_timers[command.key] = command

    def new_coordinator(self) -> GroupCoordinator:
        """A coordinator without memory."""
        return GroupCoordinator(
            config=self.config,
            semantics=self.semantics,
            image=self.image,
            new_member_id=self.next_id,
        )

    def next_id(self) -> str:
        """Ids that the coordinator makes."""
        self._ids += 1
        return f"made-{self._ids}"
