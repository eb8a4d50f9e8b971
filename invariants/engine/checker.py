"""Shows every step of one group to the invariants that listen to it, and keeps their shadow model.

A world with several groups has a checker for each, and shows it what concerns its group. The cost
of a step is in proportion to what it changed: a steady heartbeat and its answer reach no invariant
at all, because everything that could be wrong with them was right the last time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from rebalance_sim.invariants.engine.classic_dispatch import ClassicWatch
from rebalance_sim.invariants.engine.client_dispatch import ClientWatch
from rebalance_sim.invariants.engine.coverage import Visits
from rebalance_sim.invariants.engine.discovery import PROPERTIES
from rebalance_sim.invariants.engine.listeners import (
    Found,
    Listener,
    Listeners,
    ListenersOfKinds,
    gather,
)
from rebalance_sim.invariants.engine.liveness import Liveness
from rebalance_sim.invariants.known.known_issues import KNOWN_ISSUES, suspects_of
from rebalance_sim.invariants.model.classic_model import CLASSIC_REQUESTS
from rebalance_sim.invariants.model.computations import COMPUTATION_REQUESTS
from rebalance_sim.invariants.model.ledger import Change, GroupLedger, MemberEntry
from rebalance_sim.invariants.model.shadow_model import ShadowModel
from rebalance_sim.invariants.property import Finding, Kind, Property, Violation
from rebalance_sim.invariants.step import ShardView, Step, StepKind, WorldView, shard_of
from rebalance_sim.protocol.classic.classic_states import ClassicGroupState
from rebalance_sim.protocol.runtime.outcome import ScheduleTimer
from rebalance_sim.protocol.wire.classic_messages import JoinGroupRequest
from rebalance_sim.protocol.wire.consumer_messages import (
    JOIN_EPOCH,
    UNCHANGED_TIMEOUT_MS,
    AlterGroupConfigRequest,
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    DeleteGroupsRequest,
    ListGroupsRequest,
)
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.offset_messages import (
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
)
from rebalance_sim.protocol.wire.records import MemberState

_STABLE = MemberState.STABLE
_READS = (ConsumerGroupDescribeRequest, ListGroupsRequest)
_OFFSET_REQUESTS = (
    OffsetCommitRequest,
    OffsetFetchRequest,
    OffsetDeleteRequest,
    DeleteGroupsRequest,
)

FULL_STEPS_PER_ENTRY = 4
"""Spreads the cost of a full check, so that its share of a step does not grow with the group."""


class Checker:
    """Checks one group of a world.

    ``full_every``: a full check follows that many steps of the group after the last one, or
    ``FULL_STEPS_PER_ENTRY`` times as many as the group has members and partitions, or clients, if
    that is more; 0 turns it off. ``stop_at_first``: nothing is checked any more once a violation
    was found that no known issue can be the reason of; otherwise each property is reported the
    first time that it is violated. ``properties``: which ones are checked; reachability goals are
    for sweeps and ignored here. ``known_issues``: issue -> properties that it violates; with none
    everything stands among ``violations``.
    """

    def __init__(
        self,
        view: WorldView,
        *,
        properties: Iterable[type[Property]] = PROPERTIES,
        full_every: int = 64,
        stop_at_first: bool = True,
        known_issues: Mapping[str, tuple[str, ...]] = KNOWN_ISSUES,
    ) -> None:
        self.model = ShadowModel(view)
        self.violations: list[Violation] = []
        """Violations that no known issue can be the reason of."""
        self._suspects = suspects_of(view.semantics, known_issues)
        self._suspected: dict[tuple[str, str], tuple[Violation, int]] = {}
        self.is_stopped = False
        self._violated: set[str] = set()
        self.full_count = 0
        self.visits = Visits(self.model)
        self.liveness = Liveness(view, self.model, properties, self._suspects)
        self._view = view
        self._stop_at_first = stop_at_first
        self._full_every = full_every
        self._next_full = full_every
        self._seen = 0
        self._invariants = [
            chosen(self.model)
            for chosen in properties
            if chosen.kind is Kind.ALWAYS
            and chosen.applies_to(view.semantics)
            and (view.has_data_plane or not chosen.needs_data_plane)
        ]
        self._listeners = Listeners(self._invariants, self.visits)
        self._on = self._listeners.of
        mixed = [invariant for invariant in self._invariants if invariant.judges_mixed]
        self._on_mixed = Listeners(mixed, self.visits).of
        """Whom a step of a consumer group with classic members concerns."""
        self._ledgers = self.model.ledgers
        of_kinds = ListenersOfKinds(self._listeners)
        self._classic = ClassicWatch(self.model, self._listeners, self._ask, self._ask_about)
        clients = ClientWatch(
            self.model,
            self.liveness.quiet,
            of_kinds,
            self._on["on_ownership"],
            self._ask,
            self._ask_about,
        )
        self._handlers: Mapping[StepKind, Callable[[Step], None]] = {
            StepKind.COORDINATOR_REQUEST: self._request,
            StepKind.COORDINATOR_TIMER: self._timer,
            StepKind.COORDINATOR_LOADED: self._loaded,
            StepKind.COORDINATOR_UNLOADED: self._unloaded,
            StepKind.LOG_COMMITTED: self._committed,
            StepKind.LOG_TRUNCATED: self._truncated,
            StepKind.RESPONSE_RELEASED: self._released,
            StepKind.CLIENT_EVENT: clients.on_event,
            StepKind.CLIENT_STARTED: clients.on_started,
            StepKind.CLIENT_CRASHED: clients.on_crashed,
            StepKind.METADATA_CHANGED: self._metadata,
            StepKind.FAULT: self._fault,
            StepKind.CONFIG_CHANGED: self._configs,
            StepKind.ADMIN_RETURNED: _ignore,
            StepKind.COORDINATOR_WRITTEN: self._written,
            StepKind.COORDINATOR_ESCAPED: self._escaped,
        }

    # -- what hosts call -------------------------------------------------------------------

    def after_step(self, step: Step) -> None:
        """Look at a step that has just happened."""
        if self.is_stopped:
            return
        self.model.step_index = step.index
        self._handlers[step.kind](step)
        self._seen += 1
        if self._seen >= self._next_full and self._full_every:
            self.check_fully(step)

    def at_end(self) -> None:
        """The run is over."""

    def check_fully(self, step: Step) -> None:
        """Let those look at the whole group that compare more than a step can pay for."""
        self.full_count += 1
        ledger = self.model.acting_ledger()
        size = len(ledger.members) + len(ledger.owner) if ledger else 0
        size = max(size, len(self.model.clients) + len(self.model.classic_clients))
        self._next_full = self._seen + max(self._full_every, FULL_STEPS_PER_ENTRY * size)
        self._ask(self._on["on_full_check"], step)

    def coverage(self) -> dict[str, int]:
        """What was visited, by name: the counters of reachability goals."""
        return dict(sorted(self.visits.counts.items()))

    @property
    def suspected(self) -> list[tuple[Violation, int]]:
        """Violations that a known issue may be the reason of: the first of each property and
        subject, and how often it showed."""
        return list(self._suspected.values())

    # -- coordinator -----------------------------------------------------------------------

    def _request(self, step: Step) -> None:
        shard = step.shard
        if shard is None:
            raise ValueError("a coordinator.request step must name its shard")
        ledger = self._ledgers.get(shard.name)
        if ledger is None:
            ledger = self.model.open_ledger(shard, without_last=len(step.records))
        request, response = step.request, step.response
        classic_group = self.model.classic_group_in(shard)
        found: Sequence[Found] = ()
        if type(request) in CLASSIC_REQUESTS:
            found = self._classic.before_request(step, shard, ledger)
        elif type(request) in _OFFSET_REQUESTS and response is not None:
            classic_model = self.model.classic.get(shard.name)
            before_offsets = self._listeners.before_offsets
            found = gather(before_offsets[type(request)], step, ledger, classic_model)
        if step.records:
            self._append(step, shard)
        if (
            type(request) is ConsumerGroupHeartbeatRequest
            and type(response) is ConsumerGroupHeartbeatResponse
        ):
            if self._is_steady(step, request, response, ledger):
                ledger.heard_ms[request.member_id] = step.at_ms
            else:
                self._heartbeat(step, request, response, ledger, shard)
        elif type(request) is OffsetCommitRequest:
            if classic_group is None:
                self._commit(step, response.errors)
        elif type(request) in COMPUTATION_REQUESTS:
            if step.records:
                self._change(step, ledger, shard)
            self._ask(self._on["on_assignment_request"], step)
            self.model.computations.note_answer(shard.name, request, response)
        elif step.records:
            self._change(step, ledger, shard)
        elif type(request) in _READS:
            self._ask(self._on["on_read"], step)
        elif type(request) is AlterGroupConfigRequest:
            self.model.note_configs(shard, ledger)
        if ledger.classic_count and type(request) in CLASSIC_REQUESTS:
            ledger.note_classic_request(request, response, step.at_ms)
        if classic_group is not None or self.model.classic or type(request) in CLASSIC_REQUESTS:
            self._classic.on_request(step, shard, classic_group)
        if type(request) is OffsetFetchRequest:
            self.model.note_fetch(shard, request)
        for listener in self._listeners.on_request[type(request)]:
            finding = listener(step)
            if finding is not None:
                self._found(step, listener, finding)
        if type(request) is JoinGroupRequest and self.model.has_dropped_group(shard):
            ledger.forget_group()
        self._report_all(step, found)

    def _commit(self, step: Step, errors: Mapping[tuple[str, int], ErrorCode]) -> None:
        stored = [partition for partition, code in errors.items() if not code]
        if stored:
            self._ask_about(self._on["on_commit"], step, stored)

    def _is_steady(
        self,
        step: Step,
        request: ConsumerGroupHeartbeatRequest,
        response: ConsumerGroupHeartbeatResponse,
        ledger: GroupLedger,
    ) -> bool:
        """A reconciled member said that it is there, and was told that it is: nothing to judge."""
        entry = ledger.members.get(request.member_id)
        if entry is None or step.records or response.error_code:
            return False
        current, timers = entry.current, step.timers
        return (
            current is not None
            and current.state is _STABLE
            and current.member_epoch == ledger.target_epoch == ledger.group_epoch
            and request.member_epoch == current.member_epoch
            and response.member_epoch == current.member_epoch
            and response.assignment is None
            and response.member_id == request.member_id
            and request.rebalance_timeout_ms == UNCHANGED_TIMEOUT_MS
            and request.subscribed_topic_names is None
            and request.subscribed_topic_regex is None
            and request.server_assignor is None
            and len(timers) == 1
            and type(timers[0]) is ScheduleTimer
            and timers[0].key.kind == "session"
            and timers[0].key.member_id == request.member_id
            and timers[0].at_ms - step.at_ms == ledger.session_timeout_ms
            and response.heartbeat_interval_ms == ledger.heartbeat_interval_ms
        )

    def _heartbeat(
        self,
        step: Step,
        request: ConsumerGroupHeartbeatRequest,
        response: ConsumerGroupHeartbeatResponse,
        ledger: GroupLedger,
        shard: ShardView,
    ) -> None:
        sender = request.member_id or response.member_id or ""
        before: MemberEntry | None = ledger.members.get(sender)
        on = self._on_mixed if ledger.classic_count else self._on
        found = gather(on["before_heartbeat"], step, ledger)
        is_refused = response.error_code is not ErrorCode.NONE
        if not is_refused and request.member_epoch >= JOIN_EPOCH:
            ledger.heard_ms[sender] = step.at_ms
        if step.records:
            self._change(step, ledger, shard)
            if not is_refused and request.member_epoch >= JOIN_EPOCH:
                ledger.heard_ms[sender] = step.at_ms
            if request.member_epoch <= JOIN_EPOCH:
                self.liveness.quiet.note_received(request, step.at_ms)
        on = self._on_mixed if ledger.classic_count else self._on
        self._ask_about(on["on_refused" if is_refused else "on_heartbeat"], step, before)
        if response.should_compute_assignment:
            self.model.computations.note_chosen(shard.name, sender, ledger, step.at_ms)
        if step.timers:
            self._ask(on["on_timers"], step)
        self._report_all(step, found)

    def _append(self, step: Step, shard: ShardView) -> None:
        self.model.note_append(step, shard)
        self._ask(self._on["on_append"], step)

    def _change(self, step: Step, ledger: GroupLedger, shard: ShardView) -> Change:
        change = ledger.apply(step.records)
        self.model.note_change(step, shard, change)
        on = self._on_mixed if change.is_mixed else self._on
        self._ask_about(on["on_change"], step, change)
        self.model.computations.note_change(shard.name, change)
        if self.model.contested:
            self._ask(self._on["on_ownership"], step)
        return change

    def _timer(self, step: Step) -> None:
        shard = shard_of(step)
        ledger = self.model.ledgers.get(shard.name)
        if ledger is None:
            ledger = self.model.open_ledger(shard, without_last=len(step.records))
        change = None
        if step.records:
            self._append(step, shard)
            change = self._change(step, ledger, shard)
        self._classic.on_step(step, shard)
        if step.event.kind.group_type == "classic":
            return
        if step.event.kind == "computation" and change is None:
            self.model.computations.note_expired(shard.name, ledger)
        is_mixed = ledger.classic_count > 0 or (change is not None and change.is_mixed)
        on = self._on_mixed if is_mixed else self._on
        self._ask_about(on["on_timer_fired"], step, change)
        if step.timers:
            self._ask(on["on_timers"], step)

    def _written(self, step: Step) -> None:
        shard = shard_of(step)
        if step.records:
            ledger = self.model.ledgers.get(shard.name)
            if ledger is None:
                ledger = self.model.open_ledger(shard, without_last=len(step.records))
            self._append(step, shard)
            self._change(step, ledger, shard)
        self._classic.on_step(step, shard)

    def _escaped(self, step: Step) -> None:
        self._ask(self._on["on_escaped"], step)

    def _loaded(self, step: Step) -> None:
        shard = shard_of(step)
        ledger = self.model.note_loaded(shard, step.at_ms)
        self.liveness.quiet.note_disturbance(step.at_ms)
        on = self._on_mixed if ledger.classic_count else self._on
        self._ask_about(on["on_loaded"], step, ledger)
        self._classic.on_loaded(step, shard)
        if self.model.contested:
            self._ask(self._on["on_ownership"], step)

    def _fault(self, step: Step) -> None:
        if getattr(step.fault, "may_lose_committed", False):
            self.model.may_lose_committed = True

    def _unloaded(self, step: Step) -> None:
        self._ask(self._on["on_unloaded"], step)
        self.model.note_unloaded(shard_of(step))

    def _committed(self, step: Step) -> None:
        self.model.note_committed(shard_of(step))
        self._ask(self._on["on_committed"], step)

    def _truncated(self, step: Step) -> None:
        shard = shard_of(step)
        self.model.note_truncated(shard, step.at_ms)
        self._ask(self._on["on_truncated"], step)
        group = self.model.classic_group_in(shard)
        if shard.is_active and (group is None or group.state is not ClassicGroupState.DEAD):
            # A shard that is given up drops its open batch when its groups are Dead already.
            self._classic.on_step(step, shard)

    def _released(self, step: Step) -> None:
        if type(step.request) in CLASSIC_REQUESTS:
            self._classic.on_answer(step)
        for listener in self._listeners.on_released[type(step.request)]:
            finding = listener(step)
            if finding is not None:
                self._found(step, listener, finding)

    def _metadata(self, step: Step) -> None:
        self.model.note_topics(shard_of(step))
        self._ask(self._on["on_metadata"], step)
        if step.timers:
            self._ask(self._on["on_timers"], step)

    def _configs(self, step: Step) -> None:
        shard = shard_of(step)
        ledger = self.model.ledgers.get(shard.name) or self.model.open_ledger(shard)
        self.model.note_configs(shard, ledger)

    # -- findings --------------------------------------------------------------------------

    def _ask(self, listeners: Iterable[Listener], *args: Any) -> None:
        for listener in listeners:
            finding = listener(*args)
            if finding is not None:
                self._found(args[0], listener, finding)

    def _ask_about(self, listeners: Iterable[Listener], step: Step, subject: Any) -> None:
        """What nearly all listeners take; arguments by place are passed on faster."""
        for listener in listeners:
            finding = listener(step, subject)
            if finding is not None:
                self._found(step, listener, finding)

    def _report_all(self, step: Step, found: Sequence[Found]) -> None:
        """What was found before the step was entered comes last: the other properties say what is
        wrong about the group, these only that it is not what the request comes to."""
        for listener, finding in found:
            self._found(step, listener, finding)

    def _found(self, step: Step, listener: Listener, finding: Finding) -> None:
        self._report(step, self._listeners.owner_of(listener), finding)

    def _has_set_clocks(self) -> bool:
        return any(client.clock_was_set for client in self._view.clients().values())

    def _report(self, step: Step, invariant: Property, finding: Finding) -> None:
        if self.is_stopped:
            return
        if self.model.went_back_at_step is not None and not invariant.outlives_lost_commits:
            return
        if not invariant.outlives_clock_steps and self._has_set_clocks():
            return
        violation = Violation(
            property=type(invariant),
            step_index=step.index,
            at_ms=step.at_ms,
            detail=finding.detail,
            subject=finding.subject,
            suspects=self._suspects.get(invariant.id, ()),
        )
        if violation.suspects:
            key = invariant.id, violation.subject
            first, times = self._suspected.get(key, (violation, 0))
            self._suspected[key] = first, times + 1
        elif invariant.id not in self._violated:
            self._violated.add(invariant.id)
            self.is_stopped = self._stop_at_first
            self.violations.append(violation)


def _ignore(step: Step) -> None:
    """Nothing to enter, nothing to judge."""
