"""Leaps over rest: the time in which a world does nothing but the same again is left out.

Most of a long run is heartbeats, polls and commits of a group that nothing happens to. A world at
rest (``rest.py``) is the same at a later time, so what comes next may as well come now: the clock
leaps, and everything that stands at a time of its own (faults, starts, the end) is nearer by as
much, while machines, their deadlines and what is on its way stay as they are. A run that leaps is,
step by step, the run of a scenario in which all of that is moved nearer
(``tests/sim/test_leaps.py``).

What clients do in their intervals is added to the counters. A leap lasts for whole intervals of
theirs: what comes next meets them where it would without the leap.

A storm, in which members acknowledge again and again, is left out as well once nothing else will
come any more. What it is takes a cycle to see, and each that is left out adds as much.

Records are no events (``data_plane/flows.py``): they are produced and processed while the rest is
left out, and everything that observers measure is in ``simulated_ms`` too. After a leap in the
middle, what the last commit of each client would have been is written; where that depends on more
than time, the leap ends early enough for clients to commit before what comes next.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from math import lcm
from typing import Protocol

from rebalance_sim.invariants.step import Step
from rebalance_sim.protocol.clients.common.member_states import ClientState
from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup
from rebalance_sim.protocol.hosting.record_size import record_bytes
from rebalance_sim.protocol.wire.records import ConsumerGroupRegularExpression, Record
from rebalance_sim.sim.client.client_kinds import looks_at_topics
from rebalance_sim.sim.client.client_process import ClientProcess
from rebalance_sim.sim.data_plane.topic_logs import TopicLogs
from rebalance_sim.sim.faults.injector import Injector
from rebalance_sim.sim.group import Group
from rebalance_sim.sim.leap_commits import (
    commits,
    counts,
    have_committed,
    intervals_ms,
    last_commits,
    round_ms,
    since_commit_ms,
)
from rebalance_sim.sim.observe.checkers import Checker
from rebalance_sim.sim.observe.metrics import Metrics
from rebalance_sim.sim.rest import (
    MOMENT_MS,
    RestingWorld,
    Session,
    all_is_routine,
    has_its_members,
    is_at_rest,
    is_changing,
    is_in_routine,
    is_routine,
    longest_heartbeat_ms,
    project,
    sessions_of_gone,
)
from rebalance_sim.sim.steps import Steps


class LeapingWorld(RestingWorld, Protocol):
    """What is looked at of a world."""

    steps: Steps
    metrics: Metrics
    injector: Injector
    topic_logs: TopicLogs

    def latest_end_ms(self) -> int:
        """The end of the run, as far as is known now."""


_SETTLES_MS = 200
"""After anything else than a routine, so long for round trips and ticks. What takes longer, retries
and applications that are away, is seen (``rest.py``)."""

_LOOKS_AGAIN_MS = 200
"""Where a world that did nothing but a routine is not at rest, so long until the next look, or"""

_LOOKS_AGAIN_SHARE = 8
"""as long as this part of the time that it has waited: what has waited for long is a session, or an
application that is away, and a look costs as much as some steps."""

_OWES_MS = 1_000
"""Where a world at rest has still something to bring about, so long until the next look."""

_SHORTEST_CYCLE_MS = 1_000
"""For so long at least it is looked whether a storm is one."""

_ACTIVE_LEAST_MS = 300_000
"""Where faults happen for less time than this, there is little to leave out between them; and what
follows such a leap draws other numbers, while one at the end changes nothing."""

_BEFORE_PLANNED_MS = 200
"""A leap ends so long before what is planned next."""

_LONGEST_PERIOD_MS = 60_000
"""Intervals that have less in common are not all kept."""


class Leaps:
    """Lets a world's time pass, and leaps where it is at rest; it looks at steps beside a checker.

    ``owes_nothing``: whether nothing has to happen, once faults have stopped, that a world at
    rest may still bring about. It is asked before a leap to the end.
    """

    def __init__(self, world: LeapingWorld, owes_nothing: Callable[[], bool]) -> None:
        self._world = world
        self._clock = world.clock
        self._owes_nothing = owes_nothing
        self._inner: Checker = world.steps.checker
        self._moved_ms = 0
        """When there was the last step that is no routine."""
        self._looks_ms = 0
        """When to look next, at the earliest."""
        self._until_ms = 0
        """Up to when time is to pass, as ``simulated_ms``; never for longer."""
        self._proven: set[tuple[object, ...]] = set()
        """Topics and votes with which the world was at rest."""
        self._gone: tuple[Session, ...] = ()
        """Of the world as it was looked at last."""
        self._is_changing = False
        """Whether it was (``rest.is_changing``) since that step."""
        self._gained: dict[str, float] = defaultdict(float)

    def _begin_to_look(self) -> None:
        """Look at steps from now on, beside the checker."""
        steps = self._world.steps
        if steps.checker is not self:
            self._moved_ms = self._clock.now_ms
            steps.checker = self

    def after_step(self, step: Step) -> None:
        """See ``Checker``."""
        if not is_routine(step):
            self._moved_ms = step.at_ms
            self._is_changing = False
        self._inner.after_step(step)

    def at_end(self) -> None:
        """See ``Checker``."""
        self._inner.at_end()

    def run_until(self, until_ms: int) -> bool:
        """See ``Clock.run_until``."""
        clock, duration_ms = self._clock, self._world.spec.duration_ms
        is_quiet = until_ms > duration_ms
        if not is_quiet and duration_ms < _ACTIVE_LEAST_MS:
            return clock.run_until(until_ms)
        self._begin_to_look()
        self._until_ms = until_ms
        while True:
            goal_ms = self._goal_ms(until_ms)
            if self._settled_ms() >= goal_ms:  # Nothing to gain before that.
                next_ms = max(goal_ms + _BEFORE_PLANNED_MS, clock.simulated_ms) + 1
                if goal_ms == until_ms or next_ms > until_ms:
                    return clock.run_until(until_ms)
                if not clock.run_until(next_ms):
                    return False
                continue
            if not clock.run_until(self._settled_ms()):
                return False
            if self._settled_ms() > clock.simulated_ms:
                continue
            if self._is_at_rest() and self._serves_all():
                rates = self._rates()
            elif is_quiet and self._has_storm() and goal_ms == until_ms:
                found = self._rates_of_storm()
                if found is None:
                    return False
                rates = found
            else:
                rates = {}
            goal_ms = self._goal_ms(until_ms)
            if rates and self._gone:
                ends_ms = min(one.at_ms for one in self._gone)
                goal_ms = min(goal_ms, ends_ms + clock.leapt_ms - _BEFORE_PLANNED_MS)
                if goal_ms <= clock.simulated_ms:
                    self._looks_ms = max(ends_ms, clock.now_ms) + 1
                    continue
            if rates and not is_quiet:
                if not self._leap_to_fault(goal_ms, rates):
                    next_ms = goal_ms + _BEFORE_PLANNED_MS - clock.leapt_ms
                    self._looks_ms = max(self._looks_ms, next_ms + 1)
            elif rates:
                if goal_ms == until_ms and self._owes_nothing():
                    end_ms = self._world.latest_end_ms()
                    if self._goal_ms(end_ms) == end_ms:
                        self._leap(end_ms - clock.simulated_ms, rates)
                        return True
                self._looks_ms = clock.now_ms + _OWES_MS
            waited_ms = clock.now_ms - self._moved_ms
            again_ms = max(_LOOKS_AGAIN_MS, waited_ms // _LOOKS_AGAIN_SHARE)
            self._looks_ms = max(self._looks_ms, clock.now_ms + again_ms)

    def _is_at_rest(self) -> bool:
        """Whether the world is at rest. While a fault holds something up nothing is left out: its
        end would come nearer, and what it leads to would not.

        Before rest is known of these topics and choices of an assignor, each member has been heard
        of since the last change: a defect may have its coordinator answer with a change again.
        Members with assignors of their own always have to be: they may have news for them."""
        world, clock = self._world, self._clock
        self._gone = ()
        if self._is_changing or world.injector.holds_up:
            return False
        clients = world.clients().values()
        alive = [one.spec for one in clients if one.is_alive]
        votes = sorted(filter(None, (spec.server_assignor for spec in alive)))
        has_choice = len(set(votes)) > 1
        key = (world.controller.image_since_ms, *(votes if has_choice else ()))
        is_quiet = clock.simulated_ms >= world.spec.duration_ms
        if not is_quiet:
            self._gone = tuple(sessions_of_gone(world))
        is_known = key in self._proven and not self._gone
        if not is_known or any(spec.client_assignors for spec in alive):
            heard_ms = self._moved_ms + longest_heartbeat_ms(clients) + _SETTLES_MS
            if clock.now_ms < heard_ms:
                self._looks_ms = heard_ms
                return False
        self._is_changing = is_changing(world)
        if self._is_changing or not is_at_rest(world, self._moved_ms, gone=self._gone):
            return False
        self._proven.add(key)
        return True

    def _goal_ms(self, until_ms: int) -> int:
        """How far a leap may go at most: to ``until_ms``, or almost to what is planned before, or
        soon after, while faults happen: a phase may begin as a fault does."""
        planned_ms = self._clock.next_planned_ms
        spare_ms = 0 if until_ms > self._world.spec.duration_ms else _BEFORE_PLANNED_MS
        if planned_ms is None or planned_ms - spare_ms >= until_ms:
            return until_ms
        return planned_ms - _BEFORE_PLANNED_MS

    def _settled_ms(self) -> int:
        """When to look whether the world is at rest, as ``simulated_ms``."""
        settled_ms = self._moved_ms + _SETTLES_MS
        return max(self._clock.now_ms, settled_ms, self._looks_ms) + self._clock.leapt_ms

    def _leap_to_fault(self, goal_ms: int, rates: Mapping[str, float]) -> bool:
        """Leap for whole intervals of clients, so that what comes next meets them where it would
        without the leap: it matters how long ago a member was heard of, and has committed. What it
        would have committed is written; where that cannot be said, each commits once more before
        what comes next. False: there is too little time until then."""
        logs, groups = self._world.topic_logs, self._world.groups.values()
        if not logs.has_records:
            span_ms = self._whole_ms(goal_ms)
            self._leap(span_ms, rates)
            return span_ms > 0
        moved_ms = self._moved_ms
        is_idle = self._pass_until(_awaits_no_commit, _SETTLES_MS) and self._moved_ms == moved_ms
        span_ms = self._whole_ms(goal_ms)
        if is_idle and span_ms and all(have_committed(one, logs) for one in groups):
            self._leap(span_ms, rates)
            for group in groups:
                self._write_commits(group)
            return True
        committing = filter(commits, self._world.clients().values())
        longest_ms = (max(intervals_ms(one)) + round_ms(one, logs) for one in committing)
        span_ms = self._whole_ms(goal_ms - max(longest_ms, default=0))
        self._leap(span_ms, rates)
        return span_ms > 0

    def _write_commits(self, group: Group) -> None:
        """Have written what its members have committed, and what they were handed before that."""
        for client in filter(commits, group.clients().values()):
            client.application.return_records_before(since_commit_ms(client, self._clock))
        records = tuple(last_commits(group, self._world.topic_logs, self._clock))
        shard = group.acting_shard()
        if records and shard is not None:
            shard.write_left_out(records)
            self._gained["records_written"] -= len(records)  # They have been added already.

    def _whole_ms(self, goal_ms: int) -> int:
        """How long a leap of whole intervals may be to end there."""
        period_ms = self._period_ms()
        return max(0, (goal_ms - self._clock.simulated_ms) // period_ms * period_ms)

    def _period_ms(self) -> int:
        """After which time all clients that run are where they were in their intervals; where that
        is too long, those that send heartbeats least often."""
        clients = self._alive()
        heartbeats = {1, *(one.member.heartbeat_interval_ms or 1 for one in clients)}
        others = {every_ms for one in filter(commits, clients) for every_ms in intervals_ms(one)}
        ages = set(self._metadata_ages_ms())
        for intervals in (heartbeats | others | ages, heartbeats | ages, ages | {max(heartbeats)}):
            period_ms = lcm(*intervals)
            if period_ms <= _LONGEST_PERIOD_MS:
                break
        return period_ms

    def _alive(self) -> list[ClientProcess]:
        return [one for one in self._world.clients().values() if one.is_alive]

    @property
    def gained(self) -> dict[str, int]:
        """What was added to each counter."""
        return {name: round(more) for name, more in self._gained.items()}

    def _leap(self, span_ms: int, rates: Mapping[str, float]) -> None:
        if span_ms <= 0:
            return
        gained = self._gained
        for name, a_second in rates.items():
            gained[name] += a_second * span_ms / 1_000
        for client in filter(commits, self._world.clients().values()):
            sent, offsets = counts(client, self._world.topic_logs, span_ms)
            gained["commits_sent"] += sent
            gained["records_written"] += offsets
        gained["coordinator_searches_sent"] += sum(
            self._searches(one, span_ms) for one in self._alive()
        )
        for count, record in self._refreshed(span_ms):
            gained["records_written"] += count
            gained["group_records_written"] += count
            gained["group_bytes_written"] += count * record_bytes(record)
        if self._has_storm():
            self._world.metrics.last_unrest_ms += span_ms
        self._clock.leap(span_ms)
        sessions = [one.shard.timers.bring_nearer(one.key, span_ms) for one in self._gone]
        self._world.steps.leapt(span_ms, tuple(sessions))

    def _serves_all(self) -> bool:
        """Let time pass until every application takes records: one that waits for its commit at
        this very moment would do so for the whole leap. False: something else happened."""
        moved_ms = self._moved_ms
        return (
            self._pass_until(_takes_records, MOMENT_MS)
            and self._moved_ms == moved_ms
            and all(one.is_armed for one in self._gone)
        )

    def _pass_until(self, is_so: Callable[[ClientProcess], bool], most_ms: int) -> bool:
        """Let time pass until this is so of every client."""
        latest_ms = min(self._clock.simulated_ms + most_ms, self._until_ms)
        while not all(map(is_so, self._world.clients().values())):
            at_ms = self._clock.simulated_ms + 1
            if at_ms > latest_ms or not self._clock.run_until(at_ms):
                return False
        return True

    # --- what is left out -------------------------------------------------------------------------

    def _rates(self) -> dict[str, float]:
        """What is added to each counter in a second of rest, but for commits (``_leap``): clients
        do what they do in their intervals."""
        alive = self._alive()
        rates = dict.fromkeys(self._world.metrics.counters(), 0.0)
        rates["heartbeats_sent"] = sum(map(self._heartbeats_a_second, alive))
        rebalances = self._world.metrics.rebalances
        rates["rebalance_requests"] = sum(
            self._heartbeats_a_second(one)
            for one in alive
            if rebalances.has_episode(one.member.config.group_id)
        )
        return rates

    def _heartbeats_a_second(self, client: ClientProcess) -> float:
        every_ms: float = client.member.heartbeat_interval_ms or 0
        if not client.member.state.is_in_group:
            return 0.0
        if every_ms and client.member.heartbeats_after_answer:
            every_ms += 2 * self._world.spec.network.latency.mean_ms
        return 1_000 / every_ms if every_ms else 0.0

    def _searches(self, client: ClientProcess, span_ms: int) -> int:
        """How often it looks for its coordinator in so much time, though it knows it."""
        every_ms = client.member.coordinator_query_interval_ms
        age_ms = self._clock.simulated_ms - client.started_ms
        return _ends(every_ms, age_ms, span_ms) if every_ms else 0

    def _refreshed(self, span_ms: int) -> Iterator[tuple[int, Record]]:
        """What coordinators write again in so much time though nothing has changed, and how often:
        patterns with their topics (coordinator §7.2)."""
        clock = self._clock
        for group in self._world.groups.values():
            shard = group.acting_shard()
            if shard is None:
                continue
            coordinator = shard.coordinator
            found = coordinator.groups_of(ConsumerGroup).get(group.group_id)
            every_ms = coordinator.config.group_consumer_regex_refresh_interval_ms
            for regex, resolved in found.resolved_regexes.items() if found else ():
                since_ms = clock.simulated_at(resolved.timestamp - coordinator.wall_offset_ms)
                age_ms = clock.simulated_ms - since_ms
                count = _ends(every_ms, age_ms, span_ms)
                yield count, ConsumerGroupRegularExpression(group.group_id, regex, resolved)

    # --- storms -----------------------------------------------------------------------------------

    def _has_storm(self) -> bool:
        states = (one.member.state for one in self._world.clients().values() if one.is_alive)
        return any(state is ClientState.ACKNOWLEDGING for state in states)

    def _rates_of_storm(self) -> dict[str, float] | None:
        """Let the rest of a cycle pass, a second at least: what that adds to each counter in a
        second, but for what ``_leap`` works out, if it was all a storm, and nothing if it was not.
        None: the run was stopped."""
        world, clock = self._world, self._clock
        began_ms, simulated_ms = clock.now_ms, clock.simulated_ms
        waited_ms = began_ms - self._moved_ms
        counters, states = world.metrics.counters(), tuple(self._states())
        more_ms = max(self._cycle_ms() - waited_ms, _SHORTEST_CYCLE_MS)
        if simulated_ms + more_ms >= self._until_ms:
            return {}
        if not clock.run_until(simulated_ms + more_ms):
            return None
        storms = (
            self._moved_ms < began_ms
            and all(is_in_routine(one, may_storm=True) for one in world.clients().values())
            and all(has_its_members(one, may_storm=True) for one in world.groups.values())
            and all_is_routine(world)
            and tuple(self._states()) == states
            and self._serves_all()
        )
        if not storms:
            return {}
        seconds = (clock.now_ms - began_ms) / 1_000
        found = {
            name: (value - counters[name]) / seconds
            for name, value in world.metrics.counters().items()
        }
        of_leap = ("commits_sent", "records_written", "coordinator_searches_sent")
        return found | dict.fromkeys(of_leap, 0.0)

    def _states(self) -> Iterator[object]:
        """What groups and their clients are, times left out."""
        for group in self._world.groups.values():
            found = project(group)
            yield found and (found.state, found.epoch, frozenset(found.members))
        for client in self._world.clients().values():
            member = client.member
            yield client.is_alive, member.state, member.member_epoch, frozenset(member.assigned)

    # --- cycles -----------------------------------------------------------------------------------

    def _cycle_ms(self) -> int:
        """After which time clients have done what they do again and again."""
        return max([*self._intervals_ms(), _SHORTEST_CYCLE_MS])

    def _intervals_ms(self) -> Iterator[int]:
        if self._world.spec.admin_interval_ms is not None:
            yield self._world.spec.admin_interval_ms
        for client in self._world.clients().values():
            if client.is_alive:
                spec = client.spec
                yield spec.manual_commit_interval_ms or spec.auto_commit_interval_ms
                if client.member.heartbeat_interval_ms:  # A client that knows none sends none.
                    yield client.member.heartbeat_interval_ms

    def _metadata_ages_ms(self) -> Iterator[int]:
        """How often clients look at topics, which comes to nothing until one changes: then it
        matters when they look next."""
        now_ms, faults = self._clock.simulated_ms, self._world.spec.faults
        if any(one.changes_topics and one.at_ms >= now_ms for one in faults):
            for client in self._world.clients().values():
                if client.is_alive and looks_at_topics(client.spec):
                    yield client.spec.metadata_max_age_ms


def _ends(every_ms: int, age_ms: int, span_ms: int) -> int:
    """How often an interval ends in so much time, of which ``age_ms`` have passed before."""
    return (age_ms + span_ms) // every_ms - age_ms // every_ms


def _awaits_no_commit(client: ClientProcess) -> bool:
    return not commits(client) or (client.waits_shortly(0) and _takes_records(client))


def _takes_records(client: ClientProcess) -> bool:
    if not client.is_alive or not client.member.fetchable:
        return True
    return client.application.is_in_poll if client.intake is None else client.intake.is_serving
