"""The rebalance callbacks of one client process: how long each takes, and what ends it."""

from __future__ import annotations

from rebalance_sim.protocol.clients.common.effects import RunCallback
from rebalance_sim.protocol.clients.common.events import CallbackCompleted
from rebalance_sim.protocol.clients.common.values import CallbackKind
from rebalance_sim.sim.client.application import Application
from rebalance_sim.sim.client.client_conditions import ClientConditions
from rebalance_sim.sim.client.ports import Process
from rebalance_sim.sim.clock import Clock


class CallbackRuns:
    """Runs them; at most one at a time. One that commits when partitions are revoked ends when that
    commit has returned."""

    def __init__(
        self,
        process: Process,
        application: Application,
        conditions: ClientConditions,
        clock: Clock,
    ) -> None:
        self._process = process
        self._application = application
        self._conditions = conditions
        self._clock = clock
        self._committing: tuple[RunCallback, int] | None = None

    def run(self, effect: RunCallback) -> None:
        """A callback begins."""
        now_ms = self._clock.now_ms
        at_ms = now_ms + self._conditions.callback_ms(effect.kind)
        call = self._end
        if effect.kind is CallbackKind.REVOKED:
            at_ms = max(at_ms, self._application.drained_ms(effect.partitions))
            if self._process.spec.commits_when_revoked:
                call = self._commit
        self._clock.call_at(at_ms, self._process.tie_break(), call, (effect, now_ms))

    def on_commit_returned(self) -> None:
        """The commit of the present one has returned, and so does the callback."""
        now_ms = self._clock.now_ms
        self._clock.call_at(now_ms, self._process.tie_break(), self._end, self._committing)

    def _commit(self, run: tuple[RunCallback, int]) -> None:
        """The callback is done but for its commit; it makes none if it throws before."""
        if self._process.defers(self._commit, run):
            return
        effect, _ = run
        if self._conditions.callback_fails(effect.kind):
            self._end(run)
            return
        self._committing = run
        self._application.commit_in_callback()

    def _end(self, run: tuple[RunCallback, int]) -> None:
        if self._process.defers(self._end, run):
            return
        effect, began_ms = run
        kind: CallbackKind = effect.kind
        duration_ms = self._clock.now_ms - began_ms
        self._process.take(
            CallbackCompleted(
                failed=self._conditions.callback_fails(kind),
                poll_follows=duration_ms >= self._process.spec.poll_timeout_ms
                and self._application.submits_event
                and not self._conditions.is_stalled,
            )
        )
