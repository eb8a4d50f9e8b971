"""Breadth first through all states of a scope.

A state of the whole is one number: the coordinator's state, a node for each member, and how many
disturbances there have been. What may happen is looked up; machines are called only for what no
state has met before.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import psutil

from rebalance_sim.protocol.runtime.outcome import TimerKey
from rebalance_sim.scenarios.explore.actions import Action, Stimulus
from rebalance_sim.scenarios.explore.coordinator_nodes import CoordinatorNodes
from rebalance_sim.scenarios.explore.coordinator_states import CoordinatorStates, Finding
from rebalance_sim.scenarios.explore.explored import Explored, Path, Progress
from rebalance_sim.scenarios.explore.interning import Messages
from rebalance_sim.scenarios.explore.judge import CallJudge
from rebalance_sim.scenarios.explore.local_steps import Local, LocalSteps, Process, Processes
from rebalance_sim.scenarios.explore.nodes import Nodes
from rebalance_sim.scenarios.explore.scope import Scope
from rebalance_sim.scenarios.explore.state_facts import not_held, shared

_BITS = 20
_MASK = (1 << _BITS) - 1
_USED_BITS = 2
_USED_MASK = (1 << _USED_BITS) - 1

_BATCH = 2_000
"""States between two looks at clock and memory."""

NODE_LIMIT = (1 << _BITS) - (1 << 16)
"""Numbers must fit their place, with room for those that one batch may add."""

INTERRUPTED = "Ctrl-C"
"""What cut it off, where somebody wanted no more."""

DEFAULT_MAX_STATES = 20_000_000
DEFAULT_MAX_MEMORY_MB = 4_000


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


class _Pair(NamedTuple):
    """The coordinator and one member, side by side: all that may happen, and what is wrong."""

    steps: tuple[Local, ...]
    found: Finding | None


class Explorer:
    """Explores one scope."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        messages = Messages()
        self._judge = CallJudge(scope)
        self.coordinator = CoordinatorNodes(CoordinatorStates(scope, messages, self._judge))
        self.nodes = tuple(Nodes(scope, name, messages) for name in scope.names)
        count = len(self.nodes)
        self._shifts = tuple(_USED_BITS + _BITS * (count - 1 - place) for place in range(count))
        self._coordinator_shift = _USED_BITS + _BITS * count
        others = (1 << self._coordinator_shift) - 1
        self._keep = tuple(others & ~(_MASK << shift) for shift in self._shifts)
        self._pairs: tuple[dict[int, _Pair], ...] = tuple({} for _ in self.nodes)
        self._timers: dict[tuple[int, Processes, bool], tuple[Local, ...]] = {}
        self._places = tuple(range(count))
        self._local = LocalSteps(
            scope,
            self.coordinator,
            self.nodes,
            shifts=self._shifts,
            coordinator_shift=self._coordinator_shift,
        )

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
        """No one has started."""
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

    def answers_to(self, state: int, name: str) -> int:
        """How many answers to a member are on their way."""
        whole = self.unpack(state)
        place = self.scope.names.index(name)
        items = self.nodes[place].node(whole.nodes[place]).items
        letters = self.coordinator.letters(whole.coordinator, name)
        return len(letters) + sum(item.answer >= 0 for item in items)

    def armed(self, state: int) -> tuple[TimerKey, ...]:
        """The coordinator's timers."""
        return self.coordinator.armed(self.unpack(state).coordinator)

    def is_initial(self, state: int) -> bool:
        """Whether the first join phase of a classic group is held open."""
        return self.coordinator.facts(self.unpack(state).coordinator).is_initial

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
                tuple(self._local.of_pair(coordinator, place, number, is_disturbed)),
                self._local.unanswered(coordinator, place, number)
                or not_held(self.nodes[place].name, group, member),
            )
        return pair

    def _coordinator_steps(
        self, coordinator: int, nodes: tuple[int, ...], is_disturbed: bool
    ) -> tuple[Local, ...]:
        """What the coordinator does by itself."""
        facts = [self.nodes[place].facts(nodes[place]) for place in self._places]
        processes = tuple([Process(one.member_id, one.is_idle, one.awaits_id) for one in facts])
        key = (coordinator, processes, is_disturbed)
        found = self._timers.get(key)
        if found is None:
            found = self._timers[key] = tuple(
                self._local.of_coordinator(coordinator, processes, is_disturbed)
            )
        return found

    # --- the search -------------------------------------------------------------------------------

    def run(
        self,
        *,
        max_states: int = DEFAULT_MAX_STATES,
        max_memory_mb: int = DEFAULT_MAX_MEMORY_MB,
        max_seconds: float = float("inf"),
        stops_at_first: bool = False,
        on_progress: Callable[[Progress], None] | None = None,
        is_interrupted: Callable[[], bool] = lambda: False,
    ) -> Explored:
        """Explore all, or until a bound is met, or, with ``stops_at_first``, something is violated
        that is no known issue. Each property is reported where it is violated first; nothing is
        looked at beyond a violation that is no known issue. ``is_interrupted`` is asked now and
        then: whether somebody wants no more than there is."""
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
            if is_interrupted():
                return INTERRUPTED
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
        explored.calls = self.coordinator.states.call_count + sum(
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
            groups: list[tuple[int, tuple[Local, ...]]] = []
            numbers: list[int] = []
            finding: Finding | None = None
            exempt = self.coordinator.facts(coordinator).exempt
            for place, shift in enumerate(shifts):
                number = state >> shift & _MASK
                numbers.append(number)
                pair = pairs[place].get((coordinator << _BITS | number) << 1 | (left > 0))
                if pair is None:
                    pair = self._pair(coordinator, place, number, left > 0)
                if pair.found is not None and pair.found.property not in exempt:
                    finding = pair.found
                groups.append((state & keep[place], pair.steps))
            if finding is None:
                finding = self._look_at_members(coordinator, numbers)
            if finding is not None and finding.property not in exempt:
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
        known = {path.finding.property for path in explored.paths}
        for finding in found:
            if finding.property not in known:
                states = self._way(came_from, state)
                actions = (*self._actions(states), *last)
                explored.paths.append(Path(finding, actions, tuple(states)))
        return any(not finding.suspects for finding in found)

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


def _memory_mb() -> int:
    """What the process has now, not its peak: something else may have run in it before."""
    return int(psutil.Process().memory_info().rss) // 2**20


def _cut_off(progress: Progress, max_states: int, max_memory_mb: int, max_seconds: float) -> str:
    if progress.states >= max_states:
        return f"more than {max_states:,} states"
    if progress.memory_mb >= max_memory_mb:
        return f"more than {max_memory_mb:,} MB of memory"
    if progress.seconds >= max_seconds:
        return f"more than {max_seconds:,.0f} seconds"
    return ""
