"""Every atomic change of the world passes through here: counted, traced, measured, checked."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from rebalance_sim.invariants.step import ClientView, ShardView, Step, StepKind
from rebalance_sim.protocol.runtime.outcome import Outcome, TimerCommand, TimerKey
from rebalance_sim.protocol.wire.consumer_messages import Request, Response
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.transaction_messages import RecordsWritten
from rebalance_sim.sim.clock import Clock
from rebalance_sim.sim.faults.fault import Fault
from rebalance_sim.sim.observe.checkers import Checker, NoChecker
from rebalance_sim.sim.observe.coverage import Coverage
from rebalance_sim.sim.observe.metrics import Metrics
from rebalance_sim.sim.trace import Trace


class Steps:
    """Makes one ``Step`` of each change and shows it around. One object is kept for each kind."""

    def __init__(self, clock: Clock, trace: Trace, metrics: Metrics, coverage: Coverage) -> None:
        self._clock = clock
        self._trace = trace
        self._metrics = metrics
        self._rebalances = metrics.rebalances
        self._coverage = coverage
        self._kept = {kind: Step() for kind in StepKind}
        for kind, step in self._kept.items():
            step.kind = kind
        self._request_step = self._kept[StepKind.COORDINATOR_REQUEST]
        self._released_step = self._kept[StepKind.RESPONSE_RELEASED]
        self._client_event_step = self._kept[StepKind.CLIENT_EVENT]
        self._committed_step = self._kept[StepKind.LOG_COMMITTED]
        self.checker: Checker = NoChecker()
        self.count = 0
        self._most = sys.maxsize
        self._stop: Callable[[], object] = lambda: None

    def stop_after(self, count: int, stop: Callable[[], object]) -> None:
        """Call ``stop`` once there have been ``count`` steps, and after each that still comes."""
        self._most = count
        self._stop = stop

    def request(self, shard: ShardView, operation: int, request: Request, outcome: Outcome) -> None:
        """A shard handled a request."""
        step = self._request_step
        step.shard = shard
        step.operation = operation
        step.request = request
        step.response = outcome.response
        step.records = outcome.records
        step.timers = outcome.timers
        step.acted = outcome.acted
        step.rule_state = shard.coordinator.rule_state
        self._show(step)
        self._coverage.on_request(request, outcome)
        if outcome.records:
            self._metrics.on_records(shard, outcome.records)
        if outcome.rebalances or self._rebalances.is_watching:
            self._rebalances.on_operation(shard, getattr(request, "group_id", None), outcome)

    def timer(self, shard: ShardView, key: TimerKey, outcome: Outcome) -> None:
        """A shard's timer fired."""
        step = self._kept[StepKind.COORDINATOR_TIMER]
        step.shard = shard
        step.event = key
        step.records = outcome.records
        step.timers = outcome.timers
        step.acted = outcome.acted
        step.rule_state = shard.coordinator.rule_state
        self._show(step)
        self._coverage.on_timer(key, outcome)
        self._metrics.on_timer(key, outcome.timed_out)
        if outcome.records:
            self._metrics.on_records(shard, outcome.records)
        if outcome.rebalances or self._rebalances.is_watching:
            self._rebalances.on_operation(shard, key.group_id, outcome)

    def written(self, shard: ShardView, on_commit: object, outcome: Outcome, detail: str) -> None:
        """A shard's coordinator received the result of a write; ``detail``: why it failed."""
        step = self._kept[StepKind.COORDINATOR_WRITTEN]
        step.shard = shard
        step.event = on_commit
        step.records = outcome.records
        step.timers = outcome.timers
        step.acted = outcome.acted
        step.rule_state = shard.coordinator.rule_state
        step.detail = detail
        self._show(step)
        self._coverage.on_rebalances(outcome)
        if outcome.records:
            self._metrics.on_records(shard, outcome.records)
        if outcome.rebalances or self._rebalances.is_watching:
            group_id = getattr(on_commit, "group_id", None)
            self._rebalances.on_operation(shard, group_id, outcome)

    def escaped(self, shard: ShardView, request: Request | None, event: Any, detail: str) -> None:
        """An exception escaped from a handler of a shard's coordinator; ``detail`` says which."""
        step = self._kept[StepKind.COORDINATOR_ESCAPED]
        step.shard = shard
        step.request = request
        step.event = event
        step.detail = detail
        self._show(step)

    def released(
        self, shard: ShardView, operation: int, request: Request, response: Response
    ) -> None:
        """A broker let an answer go; operation 0 if no coordinator made it."""
        step = self._released_step
        step.shard = shard
        step.operation = operation
        step.request = request
        step.response = response
        self._show(step)

    def loaded(self, shard: ShardView, timers: tuple[TimerCommand, ...]) -> None:
        """A shard finished loading and is active."""
        self._shard(StepKind.COORDINATOR_LOADED, shard, timers=timers)
        self._coverage.on_loaded(shard.coordinator)
        if self._rebalances.is_watching:
            self._rebalances.on_restored(shard)

    def unloaded(self, shard: ShardView, detail: str) -> None:
        """A shard resigned, crashed, or could not load."""
        self._shard(StepKind.COORDINATOR_UNLOADED, shard, detail=detail)

    def committed(self, shard: ShardView) -> None:
        """A high watermark advanced."""
        step = self._committed_step
        step.shard = shard
        self._show(step)

    def truncated(self, shard: ShardView) -> None:
        """A replica lost its tail, or a leader could not write a batch."""
        self._shard(StepKind.LOG_TRUNCATED, shard)
        if self._rebalances.is_watching and shard.is_active:
            self._rebalances.on_restored(shard)

    def metadata(self, shard: ShardView, timers: tuple[TimerCommand, ...]) -> None:
        """A shard took a new metadata image."""
        self._shard(StepKind.METADATA_CHANGED, shard, timers=timers)

    def configs(self, shard: ShardView) -> None:
        """A shard took altered settings."""
        self._shard(StepKind.CONFIG_CHANGED, shard)

    def admin_returned(self, kind: str, request: Any, response: Any, code: ErrorCode) -> None:
        """An administrator is done with a request; without a response, after too many tries."""
        self._coverage.on_admin(kind, code)
        step = self._kept[StepKind.ADMIN_RETURNED]
        step.request = request
        step.response = response
        step.detail = f"{kind}: {code.name}"
        self._show(step)

    def client_event(self, client: ClientView, event: Any, effects: tuple[Any, ...]) -> None:
        """A member machine took an event."""
        step = self._client_event_step
        step.client = client
        step.event = event
        step.effects = effects
        self._show(step)
        self._coverage.on_client_event(client, event, effects)
        self._metrics.on_client_event(client, effects)

    def client_started(self, client: ClientView) -> None:
        """A new process."""
        self._client(StepKind.CLIENT_STARTED, client)
        self._metrics.on_client_started(client)

    def client_crashed(self, client: ClientView) -> None:
        """A process is gone without a word."""
        self._client(StepKind.CLIENT_CRASHED, client)
        self._metrics.on_client_crashed(client)

    def fault(self, fault: Fault, detail: str, *, is_new: bool) -> None:
        """A fault began or ended, as ``detail`` says; ``is_new``: it has just taken effect."""
        if is_new:
            self._coverage.on_fault(fault.kind)
        step = self._kept[StepKind.FAULT]
        step.fault = fault
        step.detail = detail
        self._show(step)
        self._metrics.on_fault()

    def leapt(self, span_ms: int, timers: tuple[TimerCommand, ...] = ()) -> None:
        """So much time was left out, by which these timers of coordinators came nearer."""
        step = self._kept[StepKind.LEAPT]
        step.event = span_ms
        step.timers = timers
        self._show(step)

    def records_written(self, written: RecordsWritten) -> None:
        """The leader of a partition wrote to it in a transaction."""
        step = self._kept[StepKind.RECORDS_WRITTEN]
        step.event = written
        self._show(step)

    def last(self) -> str:
        """The last step in a few words: its kind, who took it, and what it was about."""
        step = max(self._kept.values(), key=lambda kept: kept.index)
        if not step.index:
            return "no step"
        who = step.client or step.shard
        what = step.event if step.event is not None else step.request
        about = step.detail if what is None else type(what).__name__
        return " ".join(filter(None, (step.kind.value, about, f"of {who.name}" if who else "")))

    def _shard(
        self,
        kind: StepKind,
        shard: ShardView,
        timers: tuple[TimerCommand, ...] = (),
        detail: str = "",
    ) -> None:
        step = self._kept[kind]
        step.shard = shard
        step.timers = timers
        step.detail = detail
        self._show(step)

    def _client(self, kind: StepKind, client: ClientView) -> None:
        step = self._kept[kind]
        step.client = client
        self._show(step)

    def _show(self, step: Step) -> None:
        self.count = step.index = self.count + 1
        step.at_ms = self._clock.now_ms
        self._trace.on_step(step)
        self.checker.after_step(step)
        if step.index >= self._most:
            self._stop()
