"""A world of one coordinator, and nothing else, for tests of invariants.

Everything is committed at once unless a test holds the commit back. Tests break properties by
defects, by records that no coordinator wrote (``write``), or by reaching into memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rebalance_sim.invariants.engine.checker import Checker
from rebalance_sim.invariants.property import Violation
from rebalance_sim.invariants.step import ClientView, ShardView, Step, StepKind
from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup
from rebalance_sim.protocol.hosting.error_answers import WriteError
from rebalance_sim.protocol.hosting.minimal_shard import MinimalShard
from rebalance_sim.protocol.runtime.coordinator import GroupCoordinator
from rebalance_sim.protocol.runtime.coordinator_config import CoordinatorConfig
from rebalance_sim.protocol.runtime.outcome import Continuation, Outcome, TimerCommand, TimerKey
from rebalance_sim.protocol.versions.semantics import SEMANTICS, Semantics
from rebalance_sim.protocol.wire.consumer_messages import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    Request,
)
from rebalance_sim.protocol.wire.records import Record
from rebalance_sim.protocol.wire.topics import MetadataImage, Topic, TopicPartition

GROUP = "group"
ORDERS = Topic(topic_id="id-orders", name="orders", partition_count=4)
FIRST = TopicPartition(ORDERS.topic_id, 0)
PAYMENTS = Topic(topic_id="id-payments", name="payments", partition_count=2)
IMAGE = MetadataImage([ORDERS, PAYMENTS])
CONFIG = CoordinatorConfig(group_consumer_assignment_interval_ms=0)


def orders(*numbers: int) -> frozenset[TopicPartition]:
    """Partitions of the topic ``orders``."""
    return frozenset(TopicPartition(ORDERS.topic_id, number) for number in numbers)


def unchanged(outcome: Outcome) -> Outcome:
    """What the coordinator wants is what happens."""
    return outcome


class _Coordinator(GroupCoordinator):
    """Takes what is falsified for what was decided, and believes every record."""

    world: CoordinatorWorld

    def handle(self, request: Request, **options: Any) -> Outcome:
        return self.world.change(super().handle(request, **options))

    def replay_batch(self, records: Sequence[Record], *, offset: int) -> None:
        for record in records:
            self.replay(record, strict=False)


def _of(part: str, name: str) -> Any:
    """An attribute that is one of a part."""
    return property(
        lambda self: getattr(getattr(self, part), name),
        lambda self, value: setattr(getattr(self, part), name, value),
    )


class OneShard(MinimalShard):
    """A replica with the shard that runs on it. It shows the world what it does."""

    keeps_history = is_loaded = False
    now_ms = _of("world", "now_ms")
    coordinator: GroupCoordinator = _of("shard", "coordinator")
    is_active = _of("shard", "is_active")

    def __init__(self, name: str, coordinator: _Coordinator) -> None:
        self.name = name
        self.world = coordinator.world
        now_ms = self.now_ms
        super().__init__(
            config=coordinator.config, semantics=self.world.semantics, image=coordinator.image
        )
        self.now_ms = now_ms
        self.is_active = self.is_loaded = True
        self.coordinator = coordinator

    def load(self) -> None:
        if self.is_loaded:
            super().load()

    def publish(self) -> None:
        if self.world.commits_at_once:
            self.world.commit()

    def handled(self, operation: int, request: Request, outcome: Outcome, now_ms: int) -> None:
        self._show(
            StepKind.COORDINATOR_REQUEST,
            outcome,
            request=request,
            response=outcome.response,
            operation=operation,
        )

    def fired(self, key: TimerKey, outcome: Outcome, now_ms: int) -> None:
        self._show(StepKind.COORDINATOR_TIMER, outcome, event=key)

    def written(self, on_commit: object, outcome: Outcome, detail: str) -> None:
        self._show(StepKind.COORDINATOR_WRITTEN, outcome, event=on_commit, detail=detail)

    def released(self, operation: int, request: Request, response: Any) -> None:
        fields: Any = {"request": request, "response": response, "operation": operation}
        self.world.show(StepKind.RESPONSE_RELEASED, shard=self, **fields)

    def loaded(self, timers: tuple[TimerCommand, ...], now_ms: int) -> None:
        self.world.show(StepKind.COORDINATOR_LOADED, shard=self, timers=timers)

    def unloaded(self, detail: str, now_ms: int) -> None:
        self.world.show(StepKind.COORDINATOR_UNLOADED, shard=self)

    def image_taken(self, timers: tuple[TimerCommand, ...]) -> None:
        self.world.show(StepKind.METADATA_CHANGED, shard=self, timers=timers)

    def _show(self, kind: StepKind, outcome: Outcome, **fields: Any) -> None:
        self.world.show(kind, shard=self, records=outcome.records, timers=outcome.timers, **fields)
        self.world.complete(outcome)

    def _new_coordinator(self) -> GroupCoordinator:
        return self.world.new_coordinator()


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
        self.change: Callable[[Outcome], Outcome] = unchanged
        self.image = image
        self.shard = OneShard("broker-0", self.new_coordinator())
        chosen: dict[str, Any] = {"full_every": 0, "known_issues": {}} | options
        self.checker = Checker(self, **chosen)
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
        change: Callable[[Outcome], Outcome] = unchanged,
        client_id: str = "",
    ) -> Any:
        """Handle a request; ``change`` may falsify what the coordinator wants."""
        self.change = change
        response = self.shard.request(request, client_id=client_id, token=self._operations + 1)
        self.change = unchanged
        if response is None:
            response = self.shard.decided(request)
        if self.commits_at_once:
            self.commit()
        return self.shard.answers.pop(self._operations, response)

    def heartbeat(
        self,
        member_id: str,
        epoch: int,
        *,
        owned: frozenset[TopicPartition] | None = None,
        change: Callable[[Outcome], Outcome] = unchanged,
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
        """A first heartbeat, for ``orders`` unless set otherwise."""
        fields.setdefault("rebalance_timeout_ms", 60_000)
        return self.heartbeat(
            member_id, 0, owned=frozenset(), subscribed_topic_names=topics or ("orders",), **fields
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

    def fire(self, key: TimerKey) -> None:
        """A timer fires now."""
        self.shard.fire(key)

    def advance_to(self, at_ms: int) -> None:
        """Let time pass, with every timer that is due."""
        self.shard.advance_to(at_ms)

    def write(self, *records: Record, request: Any = None, response: Any = None) -> None:
        """Records appear as if an operation had written them."""
        commits, self.commits_at_once = self.commits_at_once, False
        self.take(Outcome(None, records))
        self.commits_at_once = commits
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
        self.shard.update_image(image)

    def load(self) -> None:
        """The shard loads its log."""
        self.shard.load()

    def restart(self, log: list[Record] | None = None) -> None:
        """The shard loses its memory and loads ``log``, or what it had."""
        self.shard.shard.crash(self.now_ms)
        if log is not None:
            self.shard.log = log
            self.shard.high_watermark = min(self.shard.high_watermark, len(log))
        self.load()

    def commit(self) -> None:
        """The high watermark reaches the end of the log."""
        if self.shard.high_watermark < self.shard.log_end_offset:
            self.shard.high_watermark = self.shard.log_end_offset
            self.show(StepKind.LOG_COMMITTED, shard=self.shard)
        self.shard.shard.on_high_watermark(self.now_ms)

    def fail_writes(self) -> None:
        """What waits for its commit times out; its records stay in the log."""
        for answer in self.shard.shard.answers.take_all():
            self.shard.shard._fail(answer, WriteError.TIMED_OUT)

    def written(self, on_commit: Continuation, outcome: Outcome, detail: str = "") -> None:
        """The coordinator has heard what became of a write."""
        self.shard.shard._follow(on_commit, outcome, detail)

    def complete(self, outcome: Outcome) -> None:
        """For worlds that look at what parked requests are answered."""

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
        self.shard.take(outcome)

    @property
    def _operations(self) -> int:
        return self.shard.shard.operation_count

    def new_coordinator(self) -> _Coordinator:
        """A coordinator without memory."""
        coordinator = _Coordinator(
            config=self.config,
            semantics=self.semantics,
            image=self.image,
            new_member_id=self.next_id,
        )
        coordinator.world = self
        return coordinator

    def next_id(self) -> str:
        """Ids that the coordinator makes."""
        self._ids += 1
        return f"made-{self._ids}"
