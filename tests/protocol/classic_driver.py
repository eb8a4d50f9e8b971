"""A coordinator and classic members of one group in one room: no network, and a clock.

Requests take one millisecond each way. What may go wrong is asked for: ``lose`` a request or an
answer, ``kill`` a process, ``stall`` an application, ``restart`` the coordinator.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from coordinator_builders import image_of

from rebalance_sim.protocol.assignors.classic import CLASSIC_ASSIGNORS, ClassicAssignor
from rebalance_sim.protocol.classic.classic_group import ClassicGroup
from rebalance_sim.protocol.clients.common.classic_config import ClassicConsumerConfig
from rebalance_sim.protocol.clients.common.effects import (
    CallReturned,
    CloseConnection,
    CommitReturned,
    FindCoordinator,
    RaiseError,
    RequestMetadata,
    ResetPositions,
    RunCallback,
    SendClassicHeartbeat,
    SendCommit,
    SendJoinGroup,
    SendLeaveGroup,
    SendOffsetFetch,
    SendSyncGroup,
    ValidatePositions,
)
from rebalance_sim.protocol.clients.common.events import (
    CallbackCompleted,
    ClassicHeartbeatAnswered,
    Close,
    CommitAnswered,
    CoordinatorFound,
    Disconnected,
    Event,
    JoinGroupAnswered,
    LeaveGroupAnswered,
    MetadataKnown,
    OffsetFetchAnswered,
    Poll,
    PollingResumed,
    PollingStopped,
    PositionsKnown,
    RecordsReturned,
    Subscribe,
    SyncGroupAnswered,
    Tick,
    Unsubscribe,
)
from rebalance_sim.protocol.clients.common.values import CallbackKind
from rebalance_sim.protocol.clients.java.classic.classic_member_rules import ClassicMemberRules
from rebalance_sim.protocol.clients.java.classic.java_classic import ClassicConsumer
from rebalance_sim.protocol.hosting.minimal_shard import MinimalShard
from rebalance_sim.protocol.runtime.coordinator_config import CoordinatorConfig
from rebalance_sim.protocol.versions.semantics import DEFAULT_SEMANTICS, Semantics
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.topics import MetadataImage, TopicPartition

__all__ = ["GROUP_ID", "ClassicStory"]

GROUP_ID = "group"

_ANSWERS: Mapping[type, Callable[..., Event]] = {
    SendJoinGroup: JoinGroupAnswered,
    SendSyncGroup: SyncGroupAnswered,
    SendClassicHeartbeat: ClassicHeartbeatAnswered,
    SendLeaveGroup: LeaveGroupAnswered,
    SendCommit: CommitAnswered,
    SendOffsetFetch: OffsetFetchAnswered,
}


class _Process:
    """One consumer process and what it has done."""

    def __init__(self, member: Any) -> None:
        self.member = member
        self.is_alive = True
        self.requests: list[Any] = []
        self.callbacks: list[tuple[CallbackKind, str]] = []
        self.errors: list[RaiseError] = []
        self.commits: list[CommitReturned] = []
        self.in_flight: set[int] = set()
        self.tick_at_ms: int | None = None
        self.poll_at_ms: int | None = None


SHIPPED_RULES = DEFAULT_SEMANTICS.rules(ClassicMemberRules)
"""Of the Java client as it was recorded."""


class ClassicStory:
    """See the module. ``topics``: name -> partition count; topic ids are made of the names."""

    assignors_by_name: Mapping[str, ClassicAssignor] = CLASSIC_ASSIGNORS

    def __init__(
        self,
        *,
        topics: Mapping[str, int] | None = None,
        assignors: Iterable[str | ClassicAssignor] = ("range",),
        semantics: Semantics = DEFAULT_SEMANTICS,
        rules: type[ClassicMemberRules] = SHIPPED_RULES,
        initial_rebalance_delay_ms: int = 0,
        **settings: Any,
    ) -> None:
        self.image = image_of(topics or {"foo": 4})
        self.shard = MinimalShard(
            config=CoordinatorConfig(group_initial_rebalance_delay_ms=initial_rebalance_delay_ms),
            semantics=semantics,
            image=self.image,
        )
        self.rules = rules
        self.assignors = tuple(assignors)
        self.settings = {
            "session_timeout_ms": 10_000,
            "heartbeat_interval_ms": 1_000,
            "max_poll_interval_ms": 30_000,
        } | settings
        self.callback_ms = 0
        self.failing_callbacks: deque[CallbackKind] = deque()
        self.processes: dict[str, _Process] = {}
        self.lost: deque[tuple[str, type, str]] = deque()
        self.hidden: frozenset[str] = frozenset()
        self.on_step: Callable[[], None] = lambda: None
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0
        self._asked: dict[Any, tuple[_Process, str, Any]] = {}

    # --- what happens -----------------------------------------------------------------------------

    @property
    def now_ms(self) -> int:
        """The clock of everybody."""
        return self.shard.now_ms

    def start(
        self,
        name: str,
        *,
        topics: Iterable[str] = ("foo",),
        assignors: Iterable[str | ClassicAssignor] | None = None,
        **settings: Any,
    ) -> Any:
        """Start a process under ``name``, which subscribes and polls."""
        offered = self.assignors if assignors is None else tuple(assignors)
        config = ClassicConsumerConfig(
            group_id=GROUP_ID,
            assignors=tuple(
                self.assignors_by_name[one] if isinstance(one, str) else one for one in offered
            ),
            **(self.settings | settings),
        )
        member = self.make_member(config)
        self.processes[name] = _Process(member)
        self.handle(name, self._metadata())
        self.handle(name, Subscribe(topic_names=frozenset(topics)))
        self.handle(name, PollingResumed())
        return member

    def make_member(self, config: ClassicConsumerConfig) -> Any:
        """The member of a new process; Java's, unless set otherwise."""
        return ClassicConsumer(config=config, rules=self.rules, now_ms=self.now_ms)

    def handle(self, name: str, event: Event) -> None:
        """Hand an event to a member and carry out what it wants."""
        process = self.processes[name]
        if not process.is_alive:
            return
        for effect in process.member.on_event(event, now_ms=self.now_ms):
            self._carry_out(process, name, effect)
        self._arm(process, name)
        self.on_step()

    def member(self, name: str) -> Any:
        """The newest process under a name."""
        return self.processes[name].member

    def kill(self, name: str) -> None:
        """The process is gone, without a word."""
        self.processes[name].is_alive = False

    def close(self, name: str) -> None:
        """The application closes its consumer."""
        self.handle(name, Close())

    def unsubscribe(self, name: str) -> None:
        """The application unsubscribes."""
        self.handle(name, Unsubscribe())

    def subscribe(self, name: str, *topics: str) -> None:
        """The application subscribes to something else."""
        self.handle(name, Subscribe(topic_names=frozenset(topics)))

    def stall(self, name: str) -> None:
        """The application stays away from ``poll``."""
        self.handle(name, PollingStopped())

    def resume(self, name: str) -> None:
        """The application is back at ``poll``."""
        self.handle(name, PollingResumed())

    def lose(self, name: str, effect: type, *, what: str = "response") -> None:
        """Lose the next request of this kind, or the answer to it, with its connection."""
        self.lost.append((name, effect, what))

    def consume(self, name: str, position: int) -> None:
        """The application has been handed records up to ``position`` in all that it may fetch."""
        member = self.member(name)
        self.handle(name, RecordsReturned(positions=dict.fromkeys(member.fetchable, position)))

    def hide_topics(self, *names: str) -> None:
        """Clients that do not ask do not hear of these topics, although they are there."""
        self.hidden = frozenset(names)

    def set_topics(self, topics: Mapping[str, int]) -> None:
        """Other topics from now on; coordinator and clients see them at once."""
        self.set_image(image_of(topics, version=self.image.version + 1))

    def set_image(self, image: MetadataImage) -> None:
        """Other topics, perhaps with ids that are not their names."""
        self.image = image
        self.shard.update_image(image)
        for name in list(self.processes):
            self.handle(name, self._metadata())

    def restart_coordinator(self) -> None:
        """The coordinator moves: what is parked is answered, and memory is lost."""
        self.shard.restart()
        self._deliver_parked()

    def run_until(self, at_ms: int) -> None:
        """Let everything happen that is due until then."""
        while True:
            timers = [timer.at_ms for timer in self.shard.timers.values()]
            next_timer_ms = min(timers, default=at_ms + 1)
            next_call_ms = self._queue[0][0] if self._queue else at_ms + 1
            due_ms = min(next_timer_ms, next_call_ms)
            if due_ms > at_ms:
                break
            if next_timer_ms <= next_call_ms:
                self.shard.advance_to(next_timer_ms)
                self._deliver_parked()
                self.on_step()
            else:
                self.shard.now_ms = max(self.now_ms, next_call_ms)
                heapq.heappop(self._queue)[2]()
        self.shard.now_ms = max(self.now_ms, at_ms)

    def run_for(self, duration_ms: int) -> None:
        """Let time pass."""
        self.run_until(self.now_ms + duration_ms)

    # --- what there is to see ---------------------------------------------------------------------

    @property
    def group(self) -> ClassicGroup:
        """The group, as the coordinator has it."""
        return self.shard.coordinator.groups_of(ClassicGroup)[GROUP_ID]

    def owned(self) -> dict[str, str]:
        """Who owns what: name -> ``foo-0 foo-1``."""
        return {
            name: spelled(process.member.assigned)
            for name, process in sorted(self.processes.items())
            if process.is_alive
        }

    def callbacks(self, name: str) -> list[tuple[str, str]]:
        """All callbacks of the newest process under a name, as (method, partitions)."""
        return [(kind.value, text) for kind, text in self.processes[name].callbacks]

    def requests(self, name: str, effect: type[Any]) -> list[Any]:
        """Requests of a kind that the newest process under a name has sent."""
        return [e.request for e in self.processes[name].requests if isinstance(e, effect)]

    # --- inside -----------------------------------------------------------------------------------

    def _metadata(self, *, asked: bool = False) -> MetadataKnown:
        hidden = frozenset() if asked else self.hidden
        topics = [topic for topic in self.image.by_name.values() if topic.name not in hidden]
        return MetadataKnown(
            topic_names={topic.topic_id: topic.name for topic in topics},
            partition_counts={topic.name: topic.partition_count for topic in topics},
        )

    def later(self, delay_ms: int, call: Callable[[], None]) -> None:
        """Let something happen after a delay."""
        self._count += 1
        heapq.heappush(self._queue, (self.now_ms + delay_ms, self._count, call))

    def _handle_later(self, process: _Process, name: str, delay_ms: int, event: Event) -> None:
        def call() -> None:
            if self.processes.get(name) is process:
                self.handle(name, event)

        self.later(delay_ms, call)

    def _arm(self, process: _Process, name: str) -> None:
        member = process.member
        deadline_ms = member.next_deadline_ms
        if deadline_ms is not None and (
            process.tick_at_ms is None or deadline_ms < process.tick_at_ms
        ):
            process.tick_at_ms = deadline_ms
            self.later(max(deadline_ms - self.now_ms, 0), lambda: self._tick(process, name))
        due_ms = member.poll_due_ms
        if due_ms is not None and member.is_polling:
            at_ms = max(due_ms, self.now_ms + 1)
            if process.poll_at_ms is None or at_ms < process.poll_at_ms:
                process.poll_at_ms = at_ms
                self.later(at_ms - self.now_ms, lambda: self._poll(process, name))

    def _tick(self, process: _Process, name: str) -> None:
        process.tick_at_ms = None
        if self.processes.get(name) is process:
            self.handle(name, Tick())

    def _poll(self, process: _Process, name: str) -> None:
        process.poll_at_ms = None
        member = process.member
        if self.processes.get(name) is not process:
            return
        due_ms = member.poll_due_ms
        if member.is_polling and due_ms is not None and due_ms <= self.now_ms:
            self.handle(name, Poll())
        else:
            self._arm(process, name)

    def _carry_out(self, process: _Process, name: str, effect: Any) -> None:
        kind = type(effect)
        if kind in _ANSWERS:
            process.requests.append(effect)
            process.in_flight.add(effect.correlation_id)
            self.later(1, lambda: self._request(process, name, effect))
        elif kind is FindCoordinator:
            found = CoordinatorFound(correlation_id=effect.correlation_id, node_id=0)
            self._handle_later(process, name, 1, found)
        elif kind is CloseConnection:
            process.in_flight.clear()
        elif kind is RequestMetadata:
            self._handle_later(process, name, 1, self._metadata(asked=True))
        elif kind is ResetPositions:
            known = PositionsKnown(positions=dict.fromkeys(effect.partitions, 0))
            self._handle_later(process, name, 1, known)
        elif kind is ValidatePositions:
            self._handle_later(process, name, 1, PositionsKnown(positions=effect.positions))
        elif kind is RunCallback:
            process.callbacks.append((effect.kind, spelled(effect.partitions)))
            failed = bool(self.failing_callbacks) and self.failing_callbacks[0] is effect.kind
            if failed:
                self.failing_callbacks.popleft()
            self._handle_later(process, name, self.callback_ms, CallbackCompleted(failed=failed))
        elif kind is RaiseError:
            process.errors.append(effect)
        elif kind is CommitReturned:
            process.commits.append(effect)
        elif kind is CallReturned and process.member.is_closed:
            process.is_alive = False

    def _is_lost(self, name: str, effect: Any, what: str) -> bool:
        for entry in self.lost:
            if entry == (name, type(effect), what):
                self.lost.remove(entry)
                return True
        return False

    def _request(self, process: _Process, name: str, effect: Any) -> None:
        """A request arrives at the coordinator, even if its process is gone."""
        if self._is_lost(name, effect, "request"):
            self._fail(process, name, effect)
            return
        self._count += 1
        token = self._count
        self._asked[token] = (process, name, effect)
        response = self.shard.request(effect.request, client_id=name, token=token)
        if response is not None:
            self._answer(token, response)
        self._deliver_parked()

    def _deliver_parked(self) -> None:
        for token in list(self.shard.answers):
            self._answer(token, self.shard.answers.pop(token))

    def _answer(self, token: Any, response: Any) -> None:
        process, name, effect = self._asked.pop(token)
        if self._is_lost(name, effect, "response"):
            self._fail(process, name, effect)
            return
        event = _ANSWERS[type(effect)](correlation_id=effect.correlation_id, response=response)
        self._end_later(process, name, effect, event)

    def _fail(self, process: _Process, name: str, effect: Any) -> None:
        """The connection is lost, with everything in flight on it."""

        def lose() -> None:
            lost, process.in_flight = tuple(sorted(process.in_flight)), set()
            if lost and self.processes.get(name) is process:
                self.handle(name, Disconnected(correlation_ids=lost))

        self.later(1, lose)

    def _end_later(self, process: _Process, name: str, effect: Any, event: Event) -> None:
        """An answer arrives, unless its connection is gone by then."""

        def deliver() -> None:
            if effect.correlation_id in process.in_flight:
                process.in_flight.discard(effect.correlation_id)
                if self.processes.get(name) is process:
                    self.handle(name, event)

        self.later(1, deliver)


def spelled(partitions: Iterable[TopicPartition]) -> str:
    """``foo-0 foo-1``, ascending."""
    return " ".join(f"{p.topic_id}-{p.partition}" for p in sorted(partitions))


def codes(errors: Iterable[RaiseError]) -> list[ErrorCode | None]:
    """The error codes that an application was told."""
    return [error.error_code for error in errors]
