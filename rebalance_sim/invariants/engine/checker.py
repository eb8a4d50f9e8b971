"""Shows every step of one group to the invariants that listen to it, and keeps their shadow model.

A world with several groups has a checker for each, and shows it what concerns its group. The cost
of a step is in proportion to what it changed: a steady heartbeat and its answer reach no invariant
at all, because everything that could be wrong with them was right the last time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from rebalance_sim.invariants.engine.classic_dispatch import ClassicWatch
from rebalance_sim.invariants.engine.client_dispatch import ClientWatch
from rebalance_sim.invariants.engine.coverage import Visits
from rebalance_sim.invariants.engine.discovery import PROPERTIES
from rebalance_sim.invariants.engine.listeners import (
    Found,
    Listener,
    Listeners,
    ListenersByTrigger,
    ListenersOfKinds,
    Questions,
    gather,
)
from rebalance_sim.invariants.engine.liveness import Liveness
from rebalance_sim.invariants.known.known_issues import KNOWN_ISSUES, suspects_of
from rebalance_sim.invariants.model.classic_model import CLASSIC_REQUESTS
from rebalance_sim.invariants.model.computations import COMPUTATION_REQUESTS
from rebalance_sim.invariants.model.ledger import Change, GroupLedger, MemberEntry
from rebalance_sim.invariants.model.shadow_model import ShadowModel
from rebalance_sim.invariants.property import Finding, Kind, Property, Replaced, Violation
from rebalance_sim.invariants.step import ShardView, Step, StepKind, WorldView, has_error, shard_of
from rebalance_sim.protocol.classic.classic_states import ClassicGroupState
from rebalance_sim.protocol.runtime.outcome import ScheduleTimer
from rebalance_sim.protocol.wire.classic_messages import JoinGroupRequest, SyncGroupRequest
from rebalance_sim.protocol.wire.consumer_messages import (
    JOIN_EPOCH,
    UNCHANGED_TIMEOUT_MS,
    AlterGroupConfigRequest,
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ListGroupsRequest,
)
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.offset_messages import OffsetCommitRequest, OffsetFetchRequest
from rebalance_sim.protocol.wire.records import MemberState

_STABLE = MemberState.STABLE
_ABOUT_CLIENTS = frozenset({"on_event", "on_effects", "on_moved", "on_sent"})
"""Triggers whose findings are about the client of the step."""
_READS = (ConsumerGroupDescribeRequest, ListGroupsRequest)
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
        self.replaced: dict[str, Replaced] = {}
        """By property: what is not judged any more, as a rule has acted that replaces it."""
        self._replaces = view.semantics.replaced
        self._suspects = suspects_of(view.semantics, known_issues)
        self._suspected: dict[tuple[str, str], tuple[Violation, int]] = {}
        self.is_stopped = False
        self.on_violation: Callable[[], object] = lambda: None
        """Is called when ``violations`` has one more."""
        self._violated: set[str] = set()
        self.full_count = 0
        self.visits = Visits(self.model)
        self.liveness = Liveness(view, self.model, properties, self._suspects, self.replaced)
        self._view = view
        self._stop_at_first = stop_at_first
        self._full_every = full_every
        self._steps_to_full = full_every
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
        self._on_mixed = ListenersByTrigger((*mixed, self.visits))
        """Whom a step of a consumer group with classic members concerns."""
        questions = Questions(self._found)
        self._ask, self._ask_about = questions.ask, questions.ask_about
        self._classic = ClassicWatch(self.model, self._listeners, questions)
        clients = ClientWatch(
            self.model,
            self.liveness.quiet,
            ListenersOfKinds(self._listeners),
            self._on["on_ownership"],
            questions,
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
            StepKind.ADMIN_RETURNED: lambda step: None,
            StepKind.COORDINATOR_WRITTEN: self._written,
            StepKind.COORDINATOR_ESCAPED: partial(self._ask, self._on["on_escaped"]),
            StepKind.LEAPT: self._leapt,
            StepKind.RECORDS_WRITTEN: partial(self._ask, self._on["on_records"]),
        }

    # -- what hosts call -------------------------------------------------------------------

    def after_step(self, step: Step) -> None:
        """Look at a step that has just happened."""
        if self.is_stopped:
            return
        if step.acted:
            self.note_acted(step.acted, step)
        self._handlers[step.kind](step)
        self._steps_to_full -= 1
        if not self._steps_to_full:
            self.check_fully(step)

    def note_acted(self, rules: Iterable[str], step: Step) -> None:
        """These rules decided otherwise than what they replace, in this step or before it."""
        for rule in rules:
            for one in self._replaces.get(rule, ()):
                self.replaced.setdefault(one, Replaced(one, rule, step.index, step.at_ms))

    def at_end(self) -> None:
        """The run is over."""

    def check_fully(self, step: Step) -> None:
        """Let those look at the whole group that compare more than a step can pay for."""
        self.full_count += 1
        ledger = self.model.acting_ledger()
        size = len(ledger.members) + len(ledger.holders.owner) if ledger else 0
        size = max(size, len(self.model.clients) + len(self.model.classic_clients))
        if self._full_every:
            self._steps_to_full = max(self._full_every, FULL_STEPS_PER_ENTRY * size)
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

    def _ledger(self, shard: ShardView, without_last: int) -> GroupLedger:
        ledger = self.model.ledgers.get(shard.name)
        return ledger or self.model.open_ledger(shard, without_last=without_last)

    def _request(self, step: Step) -> None:
        shard, request, response = shard_of(step), step.request, step.response
        kind, model = type(request), self.model
        ledger = model.ledgers.get(shard.name) or self._ledger(shard, len(step.records))
        if kind is OffsetCommitRequest:
            self._commit(step, shard, ledger)
            return
        found: Sequence[Found] = ()
        is_heartbeat = kind is ConsumerGroupHeartbeatRequest and response is not None
        if is_heartbeat and self._is_steady(step, request, response, ledger):
            ledger.heard_ms[request.member_id] = step.at_ms
            if not model.classic:  # Nor does it make a classic group.
                self._ask(self._listeners.on_request[kind], step)
                return
        else:
            if response is not None or kind in CLASSIC_REQUESTS:
                asked = self._listeners.before_request[has_error(response)][kind]
                if asked:
                    found = gather(asked, step, ledger, model.classic.get(shard.name))
            if is_heartbeat:
                self._heartbeat(step, request, response, ledger)
            elif step.records:
                self._enter(step, shard)
        classic_group = model.classic_group_in(shard)
        if not is_heartbeat:
            self._note_request(step, shard, ledger)
        if classic_group is not None or model.classic or kind in CLASSIC_REQUESTS:
            self._classic.on_request(step, shard, classic_group)
        if kind is OffsetFetchRequest:
            model.note_fetch(shard, request)
        self._ask(self._listeners.on_request[kind], step)
        if kind is JoinGroupRequest and model.has_dropped_group(shard):
            ledger.forget_group()
        # What was found before the step was entered comes last: the other properties say what is
        # wrong about the group, these only that it is not what the request comes to.
        for listener, finding in found:
            self._found(step, listener, finding)

    def _commit(self, step: Step, shard: ShardView, ledger: GroupLedger) -> None:
        """A commit was handled. It changes nothing of a group but its offsets."""
        errors = step.response.errors
        stored = [partition for partition, code in errors.items() if not code]
        model, is_refused = self.model, len(stored) < len(errors)
        asked = self._listeners.before_request[is_refused][OffsetCommitRequest]
        found = gather(asked, step, ledger, model.classic.get(shard.name))
        if step.records:
            self._append(step, shard)
        # It makes no classic group with members: one that there is was looked at before.
        classic_group = model.classic_group_in(shard) if model.classic else None
        if classic_group is None and stored:
            self._ask_about(self._on["on_commit"], step, stored)
        if model.classic:
            self._classic.on_commit(step, shard, classic_group, stored)
        self._ask(self._listeners.on_request[OffsetCommitRequest], step)
        for listener, finding in found:
            self._found(step, listener, finding)

    def _note_request(self, step: Step, shard: ShardView, ledger: GroupLedger) -> None:
        """A request was handled that is neither a commit nor a heartbeat of a consumer."""
        request, kind = step.request, type(step.request)
        if kind in CLASSIC_REQUESTS:
            if ledger.classic_count:
                ledger.note_classic_request(request, step.response, step.at_ms)
        elif kind in COMPUTATION_REQUESTS:
            self._ask(self._on["on_assignment_request"], step)
            self.model.computations.note_answer(shard.name, request, step.response)
        elif kind in _READS:
            self._ask(self._on["on_read"], step)
        elif kind is AlterGroupConfigRequest:
            self.model.note_configs(shard, ledger)

    def _is_steady(
        self,
        step: Step,
        request: ConsumerGroupHeartbeatRequest,
        response: ConsumerGroupHeartbeatResponse,
        ledger: GroupLedger,
    ) -> bool:
        """A reconciled member said that it is there, and was answered so: nothing to judge."""
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
    ) -> None:
        shard, sender = step.shard, request.member_id or response.member_id or ""
        before: MemberEntry | None = ledger.members.get(sender)
        is_refused = response.error_code is not ErrorCode.NONE
        if step.records:
            self._enter(step, shard)
            if request.member_epoch <= JOIN_EPOCH:
                self.liveness.quiet.note_received(request, step.at_ms)
        if not is_refused and request.member_epoch >= JOIN_EPOCH:
            ledger.heard_ms[sender] = step.at_ms
        on = self._on_mixed if ledger.classic_count else self._on
        self._ask_about(on["on_refused" if is_refused else "on_heartbeat"], step, before)
        if response.should_compute_assignment:
            self.model.computations.chosen[shard.name] = sender
        if step.timers:
            self._ask(on["on_timers"], step)

    def _append(self, step: Step, shard: ShardView) -> None:
        is_more = self.model.note_append(step, shard)
        self._ask(self._on["on_append"] if is_more else self._listeners.on_commits_alone, step)

    def _enter(self, step: Step, shard: ShardView) -> Change:
        self._append(step, shard)
        change = self.model.ledgers[shard.name].apply(step.records)
        self.model.note_change(step, shard, change)
        on = self._on_mixed if change.is_mixed else self._on
        self._ask_about(on["on_change"], step, change)
        self.model.computations.note_change(shard.name, change)
        if self.model.contested:
            self._ask(self._on["on_ownership"], step)
        return change

    def _timer(self, step: Step) -> None:
        shard = shard_of(step)
        ledger = self._ledger(shard, len(step.records))
        change = self._enter(step, shard) if step.records else None
        self._classic.on_step(step, shard)
        if step.event.kind.group_type == "classic":
            return
        is_mixed = ledger.classic_count > 0 or (change is not None and change.is_mixed)
        on = self._on_mixed if is_mixed else self._on
        self._ask_about(on["on_timer_fired"], step, change)
        if step.timers:
            self._ask(on["on_timers"], step)

    def _written(self, step: Step) -> None:
        shard = shard_of(step)
        if step.records:
            self._ledger(shard, len(step.records))
            self._enter(step, shard)
        self._classic.on_step(step, shard)

    def _loaded(self, step: Step) -> None:
        shard = shard_of(step)
        ledger = self.model.note_loaded(shard, step.at_ms, step.index)
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
        kind = type(step.request)
        if kind is JoinGroupRequest or kind is SyncGroupRequest:
            self._classic.on_answer(step)
        self._ask(self._listeners.on_released[kind], step)

    def _metadata(self, step: Step) -> None:
        self.model.note_topics(shard_of(step))
        self._ask(self._on["on_metadata"], step)
        if step.timers:
            self._ask(self._on["on_timers"], step)

    def _configs(self, step: Step) -> None:
        shard = shard_of(step)
        self.model.note_configs(shard, self._ledger(shard, 0))

    # -- findings --------------------------------------------------------------------------

    def _found(self, step: Step, listener: Listener, finding: Finding) -> None:
        invariant, model = self._listeners.owner_of(listener), self.model
        clients = self._view.clients().values()
        if (
            self.is_stopped
            or invariant.id in self.replaced
            or (model.went_back_at_step is not None and not invariant.outlives_lost_commits)
            or (not invariant.outlives_clock_steps and any(c.clock_was_set for c in clients))
        ):
            return
        if not finding.client and listener.__name__ in _ABOUT_CLIENTS and step.client is not None:
            finding = replace(finding, client=step.client.name)
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
            self.on_violation()

    def _leapt(self, step: Step) -> None:
        self.liveness.on_leap(step.at_ms, step.event)
        for timer in step.timers:
            shard = self._view.acting_shard()
            if shard is not None and timer.key.group_id == self.model.group_id:
                self.model.ledger_of(shard).note_leap(timer.key.member_id, step.event)
