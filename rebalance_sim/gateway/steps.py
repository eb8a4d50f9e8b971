"""Shows what the coordinator does, step by step, to those who watch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from rebalance_sim.gateway.host import GroupHost
from rebalance_sim.invariants.step import Step, StepKind
from rebalance_sim.protocol.hosting.ports import ShardListener, describe_escape
from rebalance_sim.protocol.runtime.outcome import Outcome, TimerCommand, TimerKey
from rebalance_sim.protocol.wire.consumer_messages import Request, Response

Watcher = Callable[[Step], None]


class LogLost(NamedTuple):
    """The fault that committed records are lost, as invariants want to know of it."""

    may_lose_committed: bool = True


class Steps(ShardListener):
    """Makes a ``Step`` of everything. ``shard`` is set once there is one."""

    shard: GroupHost

    def __init__(self) -> None:
        self.watchers: list[Watcher] = []
        self._count = 0

    def show(self, kind: StepKind, outcome: Outcome | None = None, **fields: Any) -> None:
        """Show a step of this kind around."""
        step = Step()
        self.number(step)
        step.at_ms, step.kind = self.shard.now_ms, kind
        step.shard = self.shard
        if outcome is not None:
            step.records, step.timers = outcome.records, outcome.timers
        for name, value in fields.items():
            setattr(step, name, value)
        for watcher in self.watchers:
            watcher(step)

    def number(self, step: Step) -> None:
        """Give a step its place among all."""
        self._count += 1
        step.index = self._count

    def handled(self, operation: int, request: Request, outcome: Outcome, now_ms: int) -> None:
        """As of ``ShardListener``."""
        self.show(
            StepKind.COORDINATOR_REQUEST,
            outcome,
            request=request,
            response=outcome.response,
            operation=operation,
        )

    def fired(self, key: TimerKey, outcome: Outcome, now_ms: int) -> None:
        """As of ``ShardListener``."""
        self.show(StepKind.COORDINATOR_TIMER, outcome, event=key)

    def written(self, on_commit: object, outcome: Outcome, detail: str) -> None:
        """As of ``ShardListener``."""
        self.show(StepKind.COORDINATOR_WRITTEN, outcome, event=on_commit, detail=detail)

    def escaped(self, request: Request | None, event: object, problem: Exception) -> None:
        """As of ``ShardListener``."""
        detail = describe_escape(problem)
        self.show(StepKind.COORDINATOR_ESCAPED, request=request, event=event, detail=detail)

    def released(self, operation: int, request: Request, response: Response) -> None:
        """As of ``ShardListener``."""
        self.show(
            StepKind.RESPONSE_RELEASED, request=request, response=response, operation=operation
        )

    def committed(self, high_watermark: int, now_ms: int) -> None:
        """As of ``ShardListener``."""
        self.show(StepKind.LOG_COMMITTED)

    def truncated(self) -> None:
        """As of ``ShardListener``."""
        self.show(StepKind.LOG_TRUNCATED)

    def loaded(self, timers: tuple[TimerCommand, ...], now_ms: int) -> None:
        """As of ``ShardListener``."""
        self.show(StepKind.COORDINATOR_LOADED, timers=timers)

    def unloaded(self, detail: str, now_ms: int) -> None:
        """As of ``ShardListener``."""
        self.show(StepKind.COORDINATOR_UNLOADED, detail=detail)

    def image_taken(self, timers: tuple[TimerCommand, ...]) -> None:
        """As of ``ShardListener``."""
        self.show(StepKind.METADATA_CHANGED, timers=timers)

    def configs_taken(self) -> None:
        """As of ``ShardListener``."""
        self.show(StepKind.CONFIG_CHANGED)
