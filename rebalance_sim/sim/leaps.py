"""Leaps over rest: the time in which a world does nothing but the same again is left out.

Most of a long run is heartbeats, polls and commits of a group that nothing happens to. A world at
rest is the same at a later time, so what comes next may as well come now: the clock leaps, and
everything that stands at a time of its own (faults, starts, the end) is nearer by as much, while
machines, their deadlines and what is on its way stay as they are. A run that leaps is, step by
step, the run of a scenario in which all of that is moved nearer (``tests/sim/test_leaps.py``).

A world is *at rest* when

- for one cycle, and some time before, there was no step but those of a routine: polls and records,
  heartbeats and commits that were accepted, reads; and group and clients are as they were;
- every call that waits in the clock is planned, or belongs to that routine;
- no timer of a coordinator is armed but sessions, and their members have renewed them;
- no request has waited for longer than a moment, and every client has seen the topics there are.

Then nobody's own time leads to anything but the same. A cycle is the least common multiple of all
intervals of heartbeats and commits, and a leap lasts for whole cycles: whoever was halfway to his
next heartbeat still is. Where topics will change it lasts for whole ``metadata.max.age.ms`` too.
What a cycle adds to the counters, each cycle that is left out adds again.

Records are no events (``data_plane/flows.py``): they are produced and processed while the rest is
left out, and everything that observers measure is in ``simulated_ms`` too. Where there are records,
a leap ends a cycle before what comes next, so that their offsets are committed by then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import ceil, floor, lcm
from typing import Any, Protocol

from rebalance_sim.invariants.step import Step, StepKind
from rebalance_sim.protocol.classic.operation import ClassicTimer
from rebalance_sim.protocol.clients import (
    ClassicHeartbeatAnswered,
    ClientState,
    CommitAnswered,
    CommitOffsets,
    CommitReturned,
    HeartbeatAnswered,
    MetadataKnown,
    PatternMatched,
    Poll,
    PollingResumed,
    PollingStopped,
    RecordsReturned,
    RequestMetadata,
    SendClassicHeartbeat,
    SendCommit,
    SendHeartbeat,
    StateChanged,
    Tick,
)
from rebalance_sim.protocol.consumer.timer_keys import ConsumerTimer
from rebalance_sim.protocol.runtime.group_type import Projection
from rebalance_sim.protocol.runtime.outcome import ShardTimer
from rebalance_sim.protocol.wire.offset_messages import OffsetCommitRequest
from rebalance_sim.sim.broker.controller import Controller
from rebalance_sim.sim.broker.event_processor import EventProcessor
from rebalance_sim.sim.broker.shard_host import ShardHost
from rebalance_sim.sim.client.application import Application
from rebalance_sim.sim.client.client_kinds import looks_at_topics
from rebalance_sim.sim.client.client_process import ClientProcess
from rebalance_sim.sim.client.metadata_refresh import TopicWatch
from rebalance_sim.sim.clock import Call, Clock
from rebalance_sim.sim.data_plane.topic_logs import TopicLogs
from rebalance_sim.sim.group import Group
from rebalance_sim.sim.observe.checkers import Checker
from rebalance_sim.sim.observe.metrics import Metrics
from rebalance_sim.sim.spec import WorldSpec
from rebalance_sim.sim.steps import Steps


class RestingWorld(Protocol):
    """What is looked at of a world."""

    clock: Clock
    spec: WorldSpec
    steps: Steps
    controller: Controller
    metrics: Metrics
    topic_logs: TopicLogs
    groups: dict[str, Group]
    end_ms: int

    def latest_end_ms(self) -> int:
        """The end of the run, as far as is known now."""

    def clients(self) -> Mapping[str, ClientProcess]:
        """Client name -> its present process."""


_SETTLES_MS = 1_000
"""After anything else than a routine, so long for round trips and ticks before a cycle counts."""

_LONGEST_CYCLE_MS = 15_000
"""Intervals that have no common multiple up to this are taken for what the longest is."""

MOMENT_MS = 5_000
"""A request that has waited for longer is no routine."""

_ACTIVE_LEAST_MS = 300_000
"""Where faults happen for less time than this, there is little to leave out between them; and what
follows such a leap draws other numbers, while one at the end changes nothing."""

_BEFORE_PLANNED_MS = 1_000
"""A leap ends so long before what is planned next."""

_RESTING = frozenset((ClientState.STABLE, ClientState.UNSUBSCRIBED))
_REPEATING = _RESTING | {ClientState.ACKNOWLEDGING}

_EVENTS = frozenset(
    (
        *(Tick, Poll, PollingStopped, PollingResumed, RecordsReturned, CommitOffsets),
        *(MetadataKnown, PatternMatched),
        *(CommitAnswered, HeartbeatAnswered, ClassicHeartbeatAnswered),
    )
)
_EFFECTS = frozenset((SendCommit, CommitReturned, SendHeartbeat, SendClassicHeartbeat))
_EFFECTS_OF_A_STORM = _EFFECTS | {RequestMetadata}
_ROUTINE_TIMERS = frozenset((ConsumerTimer.SESSION, ClassicTimer.SESSION, ShardTimer.EXPIRY))
_ALWAYS = frozenset(
    (StepKind.RESPONSE_RELEASED, StepKind.LOG_COMMITTED, StepKind.ADMIN_RETURNED, StepKind.LEAPT)
)


def is_routine(step: Step) -> bool:
    """Whether a step is one of those that a group at rest repeats."""
    kind = step.kind
    if kind is StepKind.CLIENT_EVENT:
        event = step.event
        if type(event) not in _EVENTS:
            return False
        if step.effects and not _EFFECTS.issuperset(map(type, step.effects)):
            return _acknowledges_again(step.effects)
        response = getattr(event, "response", None)
        return response is None or not _has_error(response)
    if kind is StepKind.COORDINATOR_REQUEST:
        if step.records and type(step.request) is not OffsetCommitRequest:
            return False
        return step.response is not None and not _has_error(step.response)
    if kind is StepKind.COORDINATOR_TIMER:
        return not step.records
    return kind in _ALWAYS


def _acknowledges_again(effects: Iterable[Any]) -> bool:
    """Whether a member begins to reconcile and acknowledges at once, as it does without a pause
    where a partition of its target has no name (client §0.2)."""
    others = [one for one in effects if type(one) not in _EFFECTS_OF_A_STORM]
    if any(type(one) is not StateChanged for one in others):
        return False
    return [one.to_state for one in others] == [ClientState.RECONCILING, ClientState.ACKNOWLEDGING]


def _has_error(response: Any) -> bool:
    errors: Mapping[object, object] = getattr(response, "errors", {})
    return bool(getattr(response, "error_code", None) or any(errors.values()))


class Leaps:
    """Lets a world's time pass, and leaps where it is at rest; it looks at steps beside a checker.

    ``owes_nothing``: whether nothing has to come about, once faults have stopped, that a world at
    rest may still bring about. It is asked before a leap to the end. ``gained`` is what was added
    to each counter.
    """

    def __init__(self, world: RestingWorld, owes_nothing: Callable[[], bool]) -> None:
        self._world = world
        self._clock = world.clock
        self._owes_nothing = owes_nothing
        self._inner: Checker = world.steps.checker
        world.steps.checker = self
        self._moved_ms = 0
        """When there was the last step that is no routine."""
        self.gained: dict[str, int] = {}

    def after_step(self, step: Step) -> None:
        """See ``Checker``."""
        if not is_routine(step):
            self._moved_ms = step.at_ms
        self._inner.after_step(step)

    def at_end(self) -> None:
        """See ``Checker``."""
        self._inner.at_end()

    def run_until(self, until_ms: int) -> bool:
        """See ``Clock.run_until``."""
        clock = self._clock
        duration_ms = self._world.spec.duration_ms
        is_quiet = until_ms > duration_ms
        if not is_quiet and duration_ms < _ACTIVE_LEAST_MS:
            return clock.run_until(until_ms)
        while True:
            cycle_ms = self._cycle_ms(is_quiet=is_quiet)
            spare_ms = _BEFORE_PLANNED_MS
            if self._world.topic_logs.has_records:
                spare_ms += cycle_ms + 2 * self._longest_processing_ms
            goal_ms = self._goal_ms(until_ms, spare_ms)
            if self._settled_ms() + cycle_ms >= goal_ms:  # Nothing to gain before that.
                if goal_ms == until_ms or goal_ms + spare_ms >= until_ms:
                    return clock.run_until(until_ms)
                if not clock.run_until(max(goal_ms + spare_ms, clock.simulated_ms) + 1):
                    return False
                continue
            if not clock.run_until(self._settled_ms()):
                return False
            if self._settled_ms() > clock.simulated_ms:
                continue
            before = self._look()
            if not clock.run_until(clock.simulated_ms + cycle_ms):
                return False
            if not self._is_at_rest(before, may_storm=is_quiet) or not self._serves_all():
                continue
            goal_ms = self._goal_ms(until_ms, spare_ms)
            if not is_quiet:
                span_ms = goal_ms - clock.simulated_ms
                self._leap(span_ms - span_ms % lcm(cycle_ms, *self._looks_ms()), before)
            elif goal_ms == until_ms and self._owes_nothing():
                end_ms = self._world.latest_end_ms()
                if self._goal_ms(end_ms, spare_ms) == end_ms:
                    self._leap(end_ms - clock.simulated_ms, before)
                    return True

    def _goal_ms(self, until_ms: int, spare_ms: int) -> int:
        """How far a leap may go at most: to ``until_ms``, or almost to what is planned before, or
        soon after, while faults happen: a phase may begin as a fault does."""
        planned_ms = self._clock.next_planned_ms
        is_quiet = until_ms > self._world.spec.duration_ms
        if planned_ms is None or planned_ms - (0 if is_quiet else spare_ms) >= until_ms:
            return until_ms
        return planned_ms - spare_ms

    def _settled_ms(self) -> int:
        """When a cycle may begin, as ``simulated_ms``: now, unless something has just moved."""
        settled_ms = self._moved_ms + _SETTLES_MS + 2 * self._longest_processing_ms
        return max(self._clock.now_ms, settled_ms) + self._clock.leapt_ms

    def _leap(self, span_ms: int, before: _Look) -> None:
        if span_ms <= 0:
            return
        for name, a_second in self._rates(before).items():
            more = round(a_second * span_ms / 1_000)
            self.gained[name] = self.gained.get(name, 0) + more
        if self._world.metrics.last_unrest_ms > before.simulated_ms:  # in a storm
            self._world.metrics.last_unrest_ms += span_ms
        self._clock.leap(span_ms)
        self._world.steps.leapt(span_ms)

    def _serves_all(self) -> bool:
        """Let time pass until every application takes records: one that waits for its commit at
        this very moment would do so for the whole leap."""
        moved_ms = self._moved_ms
        latest_ms = self._clock.simulated_ms + MOMENT_MS
        while not all(map(_takes_records, self._world.clients().values())):
            at_ms = self._clock.simulated_ms + 1
            if at_ms > latest_ms or not self._clock.run_until(at_ms):
                return False
        return self._moved_ms == moved_ms

    def _rates(self, before: _Look) -> dict[str, float]:
        """What is added to each counter in a second: as much as in the cycle. Where that is what
        clients do in their intervals, once more or less each, it is what their intervals say, and
        records go with commits."""
        seconds = (self._clock.now_ms - before.at_ms) / 1_000
        counters = self._world.metrics.counters()
        added = {name: value - before.counters[name] for name, value in counters.items()}
        rates = {name: count / seconds for name, count in added.items()}
        alive = [one for one in self._world.clients().values() if one.is_alive]
        heartbeats = [one.member.heartbeat_interval_ms for one in alive]
        commits = [_commit_interval_ms(one) for one in alive if one.member.assigned]
        for name, every in (("heartbeats_sent", heartbeats), ("commits_sent", commits)):
            often = [1_000 / interval_ms for interval_ms in every if interval_ms]
            most = sum(ceil(seconds * a_second) for a_second in often)
            if sum(floor(seconds * a_second) for a_second in often) <= added[name] <= most:
                rates[name] = sum(often)
        if added["commits_sent"]:
            rates["records_written"] *= rates["commits_sent"] * seconds / added["commits_sent"]
        return rates

    # --- at rest ----------------------------------------------------------------------------------

    def _look(self) -> _Look:
        world = self._world
        return _Look(
            at_ms=self._clock.now_ms,
            simulated_ms=self._clock.simulated_ms,
            counters=world.metrics.counters(),
            states=tuple(self._states()),
        )

    def _states(self) -> Iterator[object]:
        """What groups and their clients are, times left out."""
        for group in self._world.groups.values():
            found = _project(group)
            yield found and (found.state, found.epoch, frozenset(found.members))
        for client in self._world.clients().values():
            member = client.member
            yield client.is_alive, member.state, member.member_epoch, frozenset(member.assigned)

    def _is_at_rest(self, before: _Look, *, may_storm: bool) -> bool:
        """``may_storm``: a group in which a member acknowledges again and again is at rest as well:
        nothing else will come any more, and all it does is the same."""
        world = self._world
        return (
            self._moved_ms < before.at_ms
            and all(is_in_routine(one, may_storm) for one in world.clients().values())
            and all(has_its_members(one, may_storm) for one in world.groups.values())
            and all(self._is_routine_call(call) for call in self._clock.waiting())
            and tuple(self._states()) == before.states
        )

    def _is_routine_call(self, call: Call) -> bool:
        function: Any = call.callbacks[0]
        judge = _CALLS.get(function.__qualname__)
        owner = getattr(function, "__self__", None)
        return judge is not None and judge(owner, self._world)

    # --- cycles -----------------------------------------------------------------------------------

    def _cycle_ms(self, *, is_quiet: bool) -> int:
        """After which time all clients have done what they do again and again. What comes after a
        leap to the end is nothing, and there they need not be where they were."""
        intervals_ms = set(self._intervals_ms())
        common_ms = lcm(*intervals_ms)
        if is_quiet or common_ms > _LONGEST_CYCLE_MS:
            common_ms = max(intervals_ms, default=0)
        return max(common_ms, _SETTLES_MS)

    def _intervals_ms(self) -> Iterator[int]:
        if self._world.spec.admin_interval_ms is not None:
            yield self._world.spec.admin_interval_ms
        for client in self._world.clients().values():
            if client.is_alive:
                spec = client.spec
                yield spec.manual_commit_interval_ms or spec.auto_commit_interval_ms
                if client.member.heartbeat_interval_ms:  # A client that knows none sends none.
                    yield client.member.heartbeat_interval_ms

    def _looks_ms(self) -> Iterator[int]:
        """How often clients look at topics, which comes to nothing until one changes: then it
        matters when they look next."""
        now_ms, faults = self._clock.simulated_ms, self._world.spec.faults
        if any(one.changes_topics and one.at_ms >= now_ms for one in faults):
            for client in self._world.clients().values():
                if client.is_alive and looks_at_topics(client.spec):
                    yield client.spec.metadata_max_age_ms

    @property
    def _longest_processing_ms(self) -> int:
        alive = (client for client in self._world.clients().values() if client.is_alive)
        return max((client.spec.longest_processing_ms for client in alive), default=0)


@dataclass(frozen=True, slots=True)
class _Look:
    """A world at the beginning of a cycle."""

    at_ms: int
    simulated_ms: int
    counters: Mapping[str, int]
    states: tuple[object, ...]


def _takes_records(client: ClientProcess) -> bool:
    return not client.is_alive or client.intake is None or client.intake.is_serving


def _commit_interval_ms(client: ClientProcess) -> int | None:
    spec = client.spec
    own_ms = spec.auto_commit_interval_ms if spec.enable_auto_commit else None
    return spec.manual_commit_interval_ms or own_ms


def is_in_routine(client: ClientProcess, may_storm: bool) -> bool:
    """Whether a client, if it runs, is at rest, polls, and waits for no request for long."""
    if not client.is_alive:
        return True
    state = client.member.state
    if state not in (_REPEATING if may_storm else _RESTING):
        return False
    if state.is_in_group and not client.may_poll:
        return False
    return client.waits_shortly(MOMENT_MS)


def _project(group: Group) -> Projection | None:
    shard = group.acting_shard()
    return None if shard is None else shard.coordinator.project(group.group_id)


def has_its_members(group: Group, may_storm: bool) -> bool:
    """Whether a shard serves the group, which is stable, and every member is a client that sends
    heartbeats: any other will be removed. ``may_storm``: it may be in a storm instead."""
    members = [c.member for c in group.clients().values() if c.is_alive]
    storms = may_storm and any(one.state is ClientState.ACKNOWLEDGING for one in members)
    if not (storms or group.is_stable()):
        return False
    present = {member.member_id for member in members if member.state.is_in_group}
    found = _project(group)
    return present == (set() if found is None else set(found.members))


def _renews_sessions(shard: ShardHost, world: RestingWorld) -> bool:
    """Nothing is armed but sessions, which their members have just renewed, and the look for
    offsets that expire, which finds none: a later one is as good."""
    if any(key.kind not in _ROUTINE_TIMERS for key in shard.armed_timers):
        return False
    return not (shard.is_active and shard.coordinator.expired(now_ms=world.end_ms))


def _always(owner: Any, world: RestingWorld) -> bool:
    return True


def _only_commits(application: Application, world: RestingWorld) -> bool:
    return application.only_commits


def _has_seen_topics(watch: TopicWatch, world: RestingWorld) -> bool:
    return watch.seen_ms > world.controller.image_since_ms + MOMENT_MS


def _works_off(processor: EventProcessor, world: RestingWorld) -> bool:
    """What a thread is busy with is part of the routine, unless it falls behind."""
    return not processor.has_queue


_CALLS: Mapping[str, Callable[[Any, RestingWorld], bool]] = {
    "AdminClient._on_look": _always,
    "Application._on_commit_due": _always,
    "Application._on_commit_over": _always,
    "Application._on_poll": _always,
    "Application._on_wake": _only_commits,
    "ClientConnections._on_watchdog": _always,
    "ClientProcess._on_tick": _always,
    "Connection._on_connect_timeout": _always,
    "EventProcessor._on_end": _works_off,
    "Pipe._arrive": _always,
    "Replication._watch_lag.<locals>.on_limit": _always,
    "ShardHost._on_call": _renews_sessions,
    "TopicWatch._on_missing": _has_seen_topics,
    "TopicWatch._on_old": _has_seen_topics,
}
"""Calls that may wait in the clock of a world at rest, and under which condition; others may not.
A watchdog finds requests that are late, of which there is none."""
