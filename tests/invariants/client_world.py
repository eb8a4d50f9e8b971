"""A world of one coordinator and a few clients without a network between them.

Requests are answered at once. Tests falsify steps: they reach into a machine, or show effects and
events that no machine made.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from coordinator_world import GROUP, IMAGE, CoordinatorWorld

from rebalance_sim.invariants.step import ClientView, IntakeView, Step, StepKind
from rebalance_sim.protocol.clients.common.consumer_config import ConsumerConfig
from rebalance_sim.protocol.clients.common.effects import (
    FindCoordinator,
    ResetPositions,
    RunCallback,
    SendCommit,
    SendHeartbeat,
    SendOffsetFetch,
    StateChanged,
    ValidatePositions,
)
from rebalance_sim.protocol.clients.common.events import (
    CallbackCompleted,
    CommitAnswered,
    CoordinatorFound,
    HeartbeatAnswered,
    MetadataKnown,
    OffsetFetchAnswered,
    Poll,
    PollingResumed,
    PositionsKnown,
    Subscribe,
    Tick,
)
from rebalance_sim.protocol.clients.common.group_member import GroupMember
from rebalance_sim.protocol.clients.java.consumer.java_consumer import ConsumerMember
from rebalance_sim.protocol.wire.consumer_messages import ConsumerGroupHeartbeatRequest

ANSWERED: Mapping[type, Any] = {
    SendHeartbeat: HeartbeatAnswered,
    SendCommit: CommitAnswered,
    SendOffsetFetch: OffsetFetchAnswered,
}


class Client:
    """One process."""

    is_alive, incarnation, clock_was_set = True, 1, False
    metadata_max_age_ms, processing_ms, misled_until_ms = 300_000, 0, -1
    transaction_timeout_ms = 0

    def __init__(self, name: str, member: GroupMember, intake: IntakeView | None) -> None:
        self.name, self.member, self.intake = name, member, intake


class ClientWorld(CoordinatorWorld):
    """Clients by name; ``tell`` hands an event to a machine and carries out what it wants."""

    commits_by_itself = False

    def __init__(self, *names: str, settle: bool = True, **options: Any) -> None:
        self.processes: dict[str, Client] = {}
        self.holds_heartbeats = False
        self.held_heartbeats: list[tuple[str, SendHeartbeat]] = []
        super().__init__(**options)
        for name in names:
            self.start(name)
        if settle:
            self.run_for(60_000)

    def clients(self) -> Mapping[str, ClientView]:
        return dict(sorted(self.processes.items()))

    def new_intake(self, name: str) -> IntakeView | None:
        """What a new process takes in: nothing that anybody could look at."""
        return None

    def start(self, name: str, *, topics: frozenset[str] = frozenset({"orders"})) -> None:
        """A process starts, subscribes and polls."""
        member = ConsumerMember(
            config=ConsumerConfig(group_id=GROUP, enable_auto_commit=self.commits_by_itself),
            member_id=f"id-{name}",
            rules=self.semantics.member,
            now_ms=self.now_ms,
        )
        self.processes[name] = Client(name, member, self.new_intake(name))
        self.show(StepKind.CLIENT_STARTED, client=self.processes[name])
        self.handle(name, MetadataKnown(topic_names={t: t2.name for t, t2 in IMAGE.by_id.items()}))
        self.handle(name, Subscribe(topic_names=topics))
        self.handle(name, PollingResumed())

    def run_for(self, duration_ms: int) -> None:
        """Everybody polls ten times a second."""
        for _ in range(duration_ms // 100):
            self.advance_to(self.now_ms + 100)
            for name in self.clients():
                member = self.member(name)
                due_ms = member.next_deadline_ms
                if due_ms is not None and due_ms <= self.now_ms:
                    self.handle(name, Tick())
                if member.poll_is_due:
                    self.handle(name, Poll())

    def handle(self, name: str, event: Any) -> None:
        """One event and all that follows from it."""
        events = deque([event])
        while events:
            event = events.popleft()
            client = self.processes[name]
            effects = client.member.on_event(event, now_ms=self.now_ms)
            self.falsify(name, event, effects)
            for effect in effects:
                events.extend(self.carry_out(name, effect))

    def carry_out(self, name: str, effect: Any) -> list[Any]:
        """What becomes of an effect: the events that it leads to."""
        match effect:
            case FindCoordinator():
                return [CoordinatorFound(correlation_id=effect.correlation_id, node_id=0)]
            case SendHeartbeat() if self.holds_heartbeats:
                self.held_heartbeats.append((name, effect))
            case SendHeartbeat() | SendCommit() | SendOffsetFetch():
                response, answered = self.request(effect.request), ANSWERED[type(effect)]
                return [answered(correlation_id=effect.correlation_id, response=response)]
            case ResetPositions():
                return [PositionsKnown(positions=dict.fromkeys(sorted(effect.partitions), 0))]
            case ValidatePositions():
                return [PositionsKnown(positions=effect.positions)]
            case RunCallback():
                return [CallbackCompleted()]
        return []

    def falsify(self, name: str, event: Any, effects: tuple[Any, ...] = ()) -> Step:
        """Show a client's event with these effects, made up or not."""
        return self.show(
            StepKind.CLIENT_EVENT, client=self.processes[name], event=event, effects=effects
        )

    def member(self, name: str) -> ConsumerMember:
        """The machine of a client."""
        member = self.processes[name].member
        assert isinstance(member, ConsumerMember)
        return member

    def change_state(self, name: str, *states: Any) -> tuple[StateChanged, ...]:
        """Reach into a machine; the effects that would tell of it."""
        member = self.member(name)
        effects = []
        for state in states:
            effects.append(
                StateChanged(
                    from_state=member.state, to_state=state, member_epoch=member.member_epoch
                )
            )
            member.state = state
        return tuple(effects)

    def last_heartbeat(self, name: str, **changes: Any) -> SendHeartbeat:
        """A heartbeat like the one this client would send now, with these fields changed."""
        member = self.member(name)
        member.requests.last_correlation_id += 1
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP, member_id=member.member_id, member_epoch=member.member_epoch
        )
        return SendHeartbeat(
            correlation_id=member.requests.last_correlation_id, request=replace(request, **changes)
        )
