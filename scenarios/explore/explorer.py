"""Breadth first through all states of a scope.

A state of the whole is one number: the coordinator's state, a node for each member, and how many
disturbances there have been. What may happen is looked up; machines are called only for what no
state has met before.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import NamedTuple

from rebalance_sim.protocol.consumer.timer_keys import ConsumerTimer
from rebalance_sim.protocol.runtime.outcome import TimerKind
from rebalance_sim.scenarios.explore.actions import Action, Doing, Stimulus
from rebalance_sim.scenarios.explore.coordinator_states import CoordinatorStates, Done, Finding
from rebalance_sim.scenarios.explore.explored import Explored, Path, Progress
from rebalance_sim.scenarios.explore.interning import Messages
from rebalance_sim.scenarios.explore.judge import CallJudge
from rebalance_sim.scenarios.explore.member_states import Sent
from rebalance_sim.scenarios.explore.nodes import Nodes, escaped
from rebalance_sim.scenarios.explore.scope import Disturbance, Scope
from rebalance_sim.scenarios.explore.state_facts import adopts_foreign, not_held, shared

_BITS = 20
_MASK = (1 << _BITS) - 1
_USED_BITS = 2
_USED_MASK = (1 << _USED_BITS) - 1

_BATCH = 2_000
"""States between two looks at clock and memory."""

NODE_LIMIT = (1 << _BITS) - (1 << 16)
"""Numbers must fit their place, with room for those that one batch may add."""

DEFAULT_MAX_STATES = 20_000_000
DEFAULT_MAX_MEMORY_MB = 4_000


_Processes = tuple[tuple[int, bool], ...]
"""Of each member the place of its process, and whether that sends no heartbeats."""


class Whole(NamedTuple):
    """A state of the whole, taken apart; ``used``: disturbances so far."""

    coordinator: int
    nodes: tuple[int, ...]
    used: int


class Step(NamedTuple):
    """One thing that may happen: what, and the state after it; None where what was found ends the
    path."""

    action: Action
    state: int | None
    found: tuple[Finding, ...] = ()


class _Local(NamedTuple):
    """What may happen to one member and the coordinator, whatever all others are like: what, the
    bits of the two in the state after it (-1: none), what it costs, what is found."""

    action: Action
    bits: int
    cost: int
    found: tuple[Finding, ...]


class _Pair(NamedTuple):
    """The coordinator and one member, side by side: all that may happen, and what is wrong."""

    steps: tuple[_Local, ...]
    found: Finding | None


class Explorer:
    """Explores one scope."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        messages = Messages()
        self._judge = CallJudge(scope)
        self.coordinator = CoordinatorStates(scope, messages, self._judge)
        self.nodes = tuple(Nodes(scope, name, messages) for name in scope.names)
        count = len(self.nodes)
        self._shifts = tuple(_USED_BITS + _BITS * (count - 1 - place) for place in range(count))
        self._coordinator_shift = _USED_BITS + _BITS * count
        others = (1 << self._coordinator_shift) - 1
        self._keep = tuple(others & ~(_MASK << shift) for shift in self._shifts)
        self._pairs: tuple[dict[int, _Pair], ...] = tuple({} for _ in self.nodes)
        self._timers: dict[tuple[int, _Processes, bool], tuple[_Local, ...]] = {}
        self._places = tuple(range(count))
        self._names = scope.member_ids
        self._process_ids = tuple(scope.member_ids)

    # --- states as numbers ------------------------------------------------------------------------

    def unpack(self, state: int) -> Whole:
        """The parts of a state."""
        return Whole(
            state >> self._coordinator_shift,
            tuple(state >> shift & _MASK for shift in self._shifts),
            state & _USED_MASK,
        )

    @property
    def first(self) -> int:
        """Nobody has started."""
        return sum(
            nodes.first << shift for nodes, shift in zip(self.nodes, self._shifts, strict=True)
        )

    # --- what may happen --------------------------------------------------------------------------

    def steps(self, state: int) -> Iterator[Step]:
        """All that may happen in a state."""
        coordinator, nodes, used = self.unpack(state)
        left = self.scope.max_disturbances - used
        for place in self._places:
            rest = state & self._keep[place]
            pair = self._pair(coordinator, place, nodes[place], left > 0)
            for action, bits, cost, found in pair.steps:
                if cost <= left:
                    yield Step(action, None if bits < 0 else rest + bits + cost, found)
        rest = state & ((1 << self._coordinator_shift) - 1)
        for action, bits, cost, found in self._coordinator_steps(coordinator, nodes, left > 0):
            if cost <= left:
                yield Step(action, None if bits < 0 else rest + bits + cost, found)

    def open_requests(self, state: int, place: int) -> int:
        """How many requests of a member are in flight."""
        return len(self.nodes[place].node(self.unpack(state).nodes[place]).items)

    def may(self, state: int, name: str, stimulus: Stimulus) -> bool:
        """Whether this may happen to a member by itself."""
        place = self.scope.names.index(name)
        nodes = self.nodes[place]
        return stimulus in nodes.members.stimuli(nodes.node(self.unpack(state).nodes[place]).member)

    def look_at(self, state: int) -> Finding | None:
        """What is wrong with a state."""
        coordinator, nodes, _ = self.unpack(state)
        for place in self._places:
            found = self._pair(coordinator, place, nodes[place], False).found
            if found is not None:
                return found
        members = [self.nodes[place].facts(nodes[place]) for place in self._places]
        return shared(self.scope.names, self.coordinator.facts(coordinator), members)

    def _pair(self, coordinator: int, place: int, number: int, is_disturbed: bool) -> _Pair:
        key = (coordinator << _BITS | number) << 1 | is_disturbed
        pair = self._pairs[place].get(key)
        if pair is None:
            group, member = self.coordinator.facts(coordinator), self.nodes[place].facts(number)
            pair = self._pairs[place][key] = _Pair(
                tuple(self._pair_steps(coordinator, place, number, is_disturbed)),
                not_held(self.nodes[place].name, group, member),
            )
        return pair

    def _pair_steps(
        self, coordinator: int, place: int, number: int, is_disturbed: bool
    ) -> Iterator[_Local]:
        nodes = self.nodes[place]
        for edge in nodes.edges(number, is_disturbed=is_disturbed):
            cost = int(edge.disturbance is not None)
            if edge.node < 0:
                yield _Local(edge.action, -1, cost, edge.found)
            else:
                yield self._settle(edge.action, coordinator, place, number, edge.node, cost)
        sent = nodes.next_request(number)
        if sent is not None:
            yield self._handle(coordinator, place, number, sent, is_late=False)
        rank = nodes.search_rank(number)
        if rank >= 0:
            yield self._find(coordinator, place, number, rank)
        late = nodes.node(number).late
        if late:
            yield self._handle(coordinator, place, number, late[0], is_late=True)

    def _find(self, coordinator: int, place: int, number: int, rank: int) -> _Local:
        nodes = self.nodes[place]
        action = Action(Doing.FOUND, nodes.name)
        try:
            after = nodes.find(number, rank, self.coordinator.term(coordinator))
        except Exception as problem:
            return _Local(action, -1, 0, (escaped(nodes.name, problem),))
        return self._settle(action, coordinator, place, number, after, 0)

    def _handle(
        self, coordinator: int, place: int, number: int, sent: Sent, *, is_late: bool
    ) -> _Local:
        nodes = self.nodes[place]
        action = Action(Doing.HANDLED_LATE if is_late else Doing.HANDLED, nodes.name)
        try:
            done = self.coordinator.request(coordinator, sent.message, sent.term, nodes.name)
        except Exception as problem:
            return _Local(action, -1, 0, (escaped("coordinator", problem),))
        if is_late:
            after = nodes.without_late(number)
        else:
            after = nodes.with_answer(number, done.response)
        return self._settle(action, done.state, place, number, after, 0, done.found)

    def _settle(
        self,
        action: Action,
        coordinator: int,
        place: int,
        before: int,
        number: int,
        cost: int,
        found: tuple[Finding, ...] = (),
    ) -> _Local:
        """A node has changed: what it asks that is answered at once is answered."""
        nodes = self.nodes[place]
        try:
            while True:
                rank = nodes.search_rank(number)
                if rank >= 0 and not self.scope.slow_lookups:
                    number = nodes.find(number, rank, self.coordinator.term(coordinator))
                elif nodes.is_at_once(number):
                    sent = nodes.node(number).items[0].sent
                    done = self.coordinator.request(
                        coordinator, sent.message, sent.term, nodes.name
                    )
                    coordinator, found = done.state, found + done.found
                    number = nodes.answer_first(number, done.response)
                else:
                    break
        except Exception as problem:
            return _Local(action, -1, cost, (*found, escaped(nodes.name, problem)))
        misfit = adopts_foreign(
            nodes.name,
            self.coordinator.facts(coordinator),
            nodes.facts(number),
            nodes.facts(before),
        )
        if misfit is not None:
            found += (misfit,)
        bits = coordinator << self._coordinator_shift | number << self._shifts[place]
        return _Local(action, bits, cost, found)

    def _coordinator_steps(
        self, coordinator: int, nodes: tuple[int, ...], is_disturbed: bool
    ) -> tuple[_Local, ...]:
        """What the coordinator does by itself; which members send no heartbeats says which timers
        may fire as a matter of course."""
        facts = [self.nodes[place].facts(nodes[place]) for place in self._places]
        processes = tuple([(one.place, one.is_idle) for one in facts])
        key = (coordinator, processes, is_disturbed)
        found = self._timers.get(key)
        if found is None:
            found = self._timers[key] = tuple(
                self._find_coordinator_steps(coordinator, processes, is_disturbed)
            )
        return found

    def _find_coordinator_steps(
        self, coordinator: int, processes: _Processes, is_disturbed: bool
    ) -> Iterator[_Local]:
        allowed = self.scope.disturbances if is_disturbed else ()
        for key in self.coordinator.armed(coordinator):
            who = self._names.get(key.member_id, "")
            disturbance = _TIMEOUTS.get(key.kind)
            is_former = False
            if disturbance is not None and who:
                present, is_idle = processes[self.scope.names.index(who)]
                is_former = self._process_ids[present] != key.member_id
                if is_idle or is_former:
                    disturbance = None
                elif disturbance not in allowed:
                    continue
            action = Action(Doing.TIMER, who, key.kind.value, is_former)
            cost = int(disturbance is not None)
            yield self._let(action, cost, partial(self.coordinator.fire, coordinator, key))
        if self.coordinator.facts(coordinator).puts_off:
            wait = partial(self.coordinator.wait, coordinator)
            yield self._let(Action(Doing.WAIT), 0, wait)
        if Disturbance.COORDINATOR_MOVE in allowed:
            move = partial(self.coordinator.move, coordinator)
            yield self._let(Action(Doing.MOVE), 1, move)
        if Disturbance.TOPIC_GROWTH in allowed:
            yield self._let(Action(Doing.GROWTH), 1, partial(self.coordinator.grow, coordinator))

    def _let(self, action: Action, cost: int, act: Callable[[], Done]) -> _Local:
        try:
            done = act()
        except Exception as problem:
            return _Local(action, -1, cost, (escaped("coordinator", problem),))
        return _Local(action, done.state << self._coordinator_shift, cost, done.found)

    # --- the search -------------------------------------------------------------------------------

    def run(
        self,
        *,
        max_states: int = DEFAULT_MAX_STATES,
        max_memory_mb: int = DEFAULT_MAX_MEMORY_MB,
        max_seconds: float = float("inf"),
        stops_at_first: bool = False,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> Explored:
        """Explore all, or until a bound is met, or, with ``stops_at_first``, something is violated
        that is no known issue. Each property is reported where it is violated first; nothing is
        looked at beyond a violation that is no known issue."""
        started = time.monotonic()
        progress = Progress()
        explored = Explored(scope=self.scope, progress=progress)
        came_from: dict[int, int] = {self.first: -1}
        frontier = [self.first]

        def report(left: int) -> str:
            progress.states, progress.frontier = len(came_from), left
            progress.seconds = time.monotonic() - started
            progress.memory_mb = _memory_mb()
            if on_progress is not None:
                on_progress(progress)
            if self._most_numbers() >= NODE_LIMIT:
                return f"{NODE_LIMIT:,} states of one member and its connection"
            return _cut_off(progress, max_states, max_memory_mb, max_seconds)

        while frontier:
            following: list[int] = []
            for start in range(0, len(frontier), _BATCH):
                explored.cut_off = report(len(frontier) - start + len(following))
                if stops_at_first and explored.violated:
                    explored.cut_off = "the first violation"
                if explored.cut_off:
                    break
                self._expand(frontier[start : start + _BATCH], following, came_from, explored)
            if explored.cut_off:
                break
            frontier = following
            progress.depth += bool(frontier)
        if not explored.cut_off:
            report(0)
        explored.paths.sort(key=_length)
        explored.calls = self.coordinator.call_count + sum(
            nodes.members.call_count for nodes in self.nodes
        )
        return explored

    def _most_numbers(self) -> int:
        """How many numbers have been given to the nodes of one member, at most."""
        return max(map(len, self.nodes))

    def _expand(
        self,
        states: Sequence[int],
        following: list[int],
        came_from: dict[int, int],
        explored: Explored,
    ) -> None:
        """Look at states, and find those that come after them. This is where the time goes."""
        most = self.scope.max_disturbances
        pairs, keep, shifts = self._pairs, self._keep, self._shifts
        coordinator_shift = self._coordinator_shift
        without_coordinator = (1 << coordinator_shift) - 1
        transitions = 0
        for state in states:
            coordinator = state >> coordinator_shift
            left = most - (state & _USED_MASK)
            groups: list[tuple[int, tuple[_Local, ...]]] = []
            numbers: list[int] = []
            finding: Finding | None = None
            for place, shift in enumerate(shifts):
                number = state >> shift & _MASK
                numbers.append(number)
                pair = pairs[place].get((coordinator << _BITS | number) << 1 | (left > 0))
                if pair is None:
                    pair = self._pair(coordinator, place, number, left > 0)
                if pair.found is not None:
                    finding = pair.found
                groups.append((state & keep[place], pair.steps))
            if finding is None:
                finding = self._look_at_members(coordinator, numbers)
            if finding is not None:
                self._note(explored, came_from, state, (), (finding,))
                continue
            groups.append(
                (
                    state & without_coordinator,
                    self._coordinator_steps(coordinator, tuple(numbers), left > 0),
                )
            )
            for rest, steps in groups:
                for action, bits, cost, found in steps:
                    if cost > left:
                        continue
                    transitions += 1
                    if found and self._note(explored, came_from, state, (action,), found):
                        continue
                    if bits < 0:
                        continue
                    after = rest + bits + cost
                    if after not in came_from:
                        came_from[after] = state
                        following.append(after)
        explored.transitions += transitions

    def _look_at_members(self, coordinator: int, numbers: Sequence[int]) -> Finding | None:
        fetched = 0
        for nodes, number in zip(self.nodes, numbers, strict=True):
            fetchable = nodes.facts(number).fetchable
            if fetched & fetchable:
                members = [n.facts(each) for n, each in zip(self.nodes, numbers, strict=True)]
                return shared(self.scope.names, self.coordinator.facts(coordinator), members)
            fetched |= fetchable
        return None

    def _note(
        self,
        explored: Explored,
        came_from: dict[int, int],
        state: int,
        last: tuple[Action, ...],
        found: Sequence[Finding],
    ) -> bool:
        """Keep the shortest way to each property. Whether the path ends here."""
        known = {(path.finding.property, path.finding.known_as) for path in explored.paths}
        for finding in found:
            if (finding.property, finding.known_as) not in known:
                states = self._way(came_from, state)
                actions = (*self._actions(states), *last)
                explored.paths.append(Path(finding, actions, tuple(states)))
        return any(finding.known_as is None for finding in found)

    def _way(self, came_from: dict[int, int], state: int) -> list[int]:
        """The states on the way to a state, from the first to itself."""
        states = [state]
        while came_from[states[-1]] >= 0:
            states.append(came_from[states[-1]])
        return states[::-1]

    def _actions(self, states: Sequence[int]) -> list[Action]:
        """What happened on the way."""
        return [
            next(step.action for step in self.steps(before) if step.state == after)
            for before, after in pairwise(states)
        ]


def _length(path: Path) -> int:
    return len(path.actions)


_TIMEOUTS: Mapping[TimerKind, Disturbance] = {
    ConsumerTimer.SESSION: Disturbance.SESSION_TIMEOUT,
    ConsumerTimer.REBALANCE: Disturbance.REBALANCE_TIMEOUT,
}


def _memory_mb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def _cut_off(progress: Progress, max_states: int, max_memory_mb: int, max_seconds: float) -> str:
    if progress.states >= max_states:
        return f"more than {max_states:,} states"
    if progress.memory_mb >= max_memory_mb:
        return f"more than {max_memory_mb:,} MB of memory"
    if progress.seconds >= max_seconds:
        return f"more than {max_seconds:,.0f} seconds"
    return ""
