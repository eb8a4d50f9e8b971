"""Breadth first through all states of a scope.

A state of the whole is one number: the coordinator's state, a node for each member, and how many
disturbances there have been. What may happen is looked up; machines are called only for what no
state has met before.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from rebalance_sim.protocol.consumer.timer_keys import ConsumerTimer
from rebalance_sim.protocol.runtime.outcome import TimerKey
from rebalance_sim.scenarios.explore.coordinator_states import CoordinatorStates, Finding
from rebalance_sim.scenarios.explore.interning import Messages
from rebalance_sim.scenarios.explore.judge import CallJudge
from rebalance_sim.scenarios.explore.nodes import Edge, Nodes, escaped
from rebalance_sim.scenarios.explore.scope import Disturbance, Scope
from rebalance_sim.scenarios.explore.state_facts import look

_BITS = 20
_MASK = (1 << _BITS) - 1
_USED_BITS = 2
_USED_MASK = (1 << _USED_BITS) - 1

_BATCH = 2_000
"""States between two looks at clock and memory."""


class Whole(NamedTuple):
    """A state of the whole, taken apart; ``used``: disturbances so far."""

    coordinator: int
    nodes: tuple[int, ...]
    used: int


class Step(NamedTuple):
    """One thing that may happen: what, and the state after it; None where what was found ends the
    path."""

    label: str
    state: int | None
    found: tuple[Finding, ...] = ()


class Path(NamedTuple):
    """How something came to be found: the shortest way there."""

    finding: Finding
    labels: tuple[str, ...]


@dataclass(slots=True, kw_only=True)
class Progress:
    """How far an exploration has come."""

    states: int = 0
    frontier: int = 0
    depth: int = 0
    seconds: float = 0.0
    memory_mb: int = 0

    @property
    def rate(self) -> float:
        """States a second."""
        return self.states / self.seconds if self.seconds else 0.0


@dataclass(slots=True, kw_only=True)
class Explored:
    """What came of it. ``cut_off``: why it ended early, or empty; ``calls``: real calls of machines;
    ``transitions``: steps from one state of the whole to another."""

    scope: Scope
    progress: Progress
    cut_off: str = ""
    paths: list[Path] = field(default_factory=list)
    calls: int = 0
    transitions: int = 0


class Explorer:
    """Explores one scope."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        messages = Messages()
        self._judge = CallJudge(scope)
        self.coordinator = CoordinatorStates(scope, messages, self._judge)
        self.nodes = tuple(Nodes(scope, name, messages) for name in scope.names)
        self._settled: dict[tuple[int, int, int], tuple[int, int, tuple[Finding, ...]]] = {}
        self._own: dict[int, tuple[tuple[str, int, int, int], ...]] = {}
        self._places = tuple(range(len(self.nodes)))

    # --- states as numbers ------------------------------------------------------------------------

    def pack(self, whole: Whole) -> int:
        """A state as one number."""
        number = whole.coordinator
        for node in whole.nodes:
            number = number << _BITS | node
        return number << _USED_BITS | whole.used

    def unpack(self, state: int) -> Whole:
        """The parts of a state."""
        used = state & _USED_MASK
        state >>= _USED_BITS
        nodes = []
        for _ in self._places:
            nodes.append(state & _MASK)
            state >>= _BITS
        return Whole(state, tuple(reversed(nodes)), used)

    @property
    def first(self) -> int:
        """Nobody has started."""
        return self.pack(Whole(0, tuple(nodes.first for nodes in self.nodes), 0))

    # --- what may happen --------------------------------------------------------------------------

    def steps(self, state: int) -> Iterator[Step]:
        """All that may happen in a state."""
        coordinator, nodes, used = whole = self.unpack(state)
        left = self.scope.max_disturbances - used
        for place in self._places:
            number = nodes[place]
            for edge in self.nodes[place].edges(number):
                cost = edge.disturbance is not None
                if cost <= left:
                    yield self._own_step(whole, place, edge, cost)
            sent = self.nodes[place].next_request(number)
            if sent is not None:
                yield self._delivered(whole, place)
            if self.nodes[place].node(number).late:
                yield self._late(whole, place)
        yield from self._coordinator_steps(whole, left)

    def _own_step(self, whole: Whole, place: int, edge: Edge, cost: bool) -> Step:
        if edge.node < 0:
            return Step(edge.label, None, edge.found)
        used = whole.used + cost
        return self._settle(edge.label, whole.coordinator, whole.nodes, used, place, edge.node)

    def _delivered(self, whole: Whole, place: int) -> Step:
        nodes, number = self.nodes[place], whole.nodes[place]
        label = f"the coordinator handles a request of {nodes.name}"
        sent = nodes.next_request(number)
        assert sent is not None
        try:
            done = self.coordinator.request(
                whole.coordinator, sent.message, sent.term, nodes.name
            )
        except Exception as problem:
            return Step(label, None, (escaped("coordinator", problem),))
        answered = nodes.with_answer(number, done.response)
        return self._settle(
            label, done.state, whole.nodes, whole.used, place, answered, done.found
        )

    def _late(self, whole: Whole, place: int) -> Step:
        nodes, number = self.nodes[place], whole.nodes[place]
        label = f"the coordinator handles a late request of {nodes.name}"
        sent = nodes.node(number).late[0]
        try:
            done = self.coordinator.request(
                whole.coordinator, sent.message, sent.term, nodes.name
            )
        except Exception as problem:
            return Step(label, None, (escaped("coordinator", problem),))
        rest = nodes.without_late(number)
        return self._settle(label, done.state, whole.nodes, whole.used, place, rest, done.found)

    def _settle(
        self,
        label: str,
        coordinator: int,
        nodes: tuple[int, ...],
        used: int,
        place: int,
        number: int,
        found: tuple[Finding, ...] = (),
    ) -> Step:
        """A node has changed: what it asks that is answered at once is answered."""
        key = (coordinator, place, number)
        settled = self._settled.get(key)
        if settled is None:
            settled = self._settled[key] = self._answer_at_once(coordinator, place, number)
        coordinator, number, more = settled
        if number < 0:
            return Step(label, None, found + more)
        after = nodes[:place] + (number,) + nodes[place + 1 :]
        return Step(label, self.pack(Whole(coordinator, after, used)), found + more)

    def _answer_at_once(
        self, coordinator: int, place: int, number: int
    ) -> tuple[int, int, tuple[Finding, ...]]:
        nodes = self.nodes[place]
        found: tuple[Finding, ...] = ()
        try:
            while True:
                rank = nodes.search_rank(number)
                if rank >= 0:
                    number = nodes.find(number, rank, self.coordinator.term(coordinator))
                elif nodes.is_at_once(number):
                    sent = nodes.node(number).items[0].sent
                    done = self.coordinator.request(
                        coordinator, sent.message, sent.term, nodes.name
                    )
                    coordinator, found = done.state, found + done.found
                    number = nodes.answer_first(number, done.response)
                else:
                    return coordinator, number, found
        except Exception as problem:
            return coordinator, -1, (*found, escaped(nodes.name, problem))

    def _coordinator_steps(self, whole: Whole, left: int) -> Iterator[Step]:
        coordinator, nodes, used = whole
        for key in self.coordinator.armed(coordinator):
            disturbance = self._disturbance_of(key, nodes)
            if disturbance is not None and (
                not left or disturbance not in self.scope.disturbances
            ):
                continue
            label = f"timer {key.kind.value} of {key.member_id.removeprefix('member-') or 'the group'} fires"
            try:
                done = self.coordinator.fire(coordinator, key)
            except Exception as problem:
                yield Step(label, None, (escaped("coordinator", problem),))
                continue
            after = Whole(done.state, nodes, used + (disturbance is not None))
            yield Step(label, self.pack(after), done.found)
        if left and Disturbance.COORDINATOR_MOVE in self.scope.disturbances:
            done = self.coordinator.move(coordinator)
            moved = self.pack(Whole(done.state, nodes, used + 1))
            yield Step("the coordinator moves", moved, done.found)
        if left and Disturbance.TOPIC_GROWTH in self.scope.disturbances:
            done = self.coordinator.grow(coordinator)
            grown = self.pack(Whole(done.state, nodes, used + 1))
            yield Step("the last topic grows", grown, done.found)

    def _disturbance_of(self, key: TimerKey, nodes: tuple[int, ...]) -> Disturbance | None:
        """What it is that a timer fires: nothing out of the ordinary, where it is about a member
        that is gone, or about none."""
        if key.kind not in _TIMEOUTS:
            return None
        for place in self._places:
            if key.member_id == f"member-{self.nodes[place].name}":
                is_idle = self.nodes[place].facts(nodes[place]).is_idle
                return None if is_idle else _TIMEOUTS[key.kind]
        return None

    # --- the search -------------------------------------------------------------------------------

    def run(
        self,
        *,
        max_states: int = 20_000_000,
        max_memory_mb: int = 4_000,
        max_seconds: float = float("inf"),
        on_progress: Callable[[Progress], None] | None = None,
    ) -> Explored:
        """Explore all, or until a bound is met; each property is reported where it is violated
        first, and nothing is looked at beyond that."""
        started = time.monotonic()
        progress = Progress()
        explored = Explored(scope=self.scope, progress=progress)
        first = self.first
        came_from: dict[int, int] = {first: -1}
        seen: set[tuple[str, str | None]] = set()
        frontier = [first]
        depth = 0
        while frontier and not explored.cut_off:
            following: list[int] = []
            for place, state in enumerate(frontier):
                if place % _BATCH == 0:
                    progress.states = len(came_from)
                    progress.frontier = len(frontier) - place + len(following)
                    progress.depth = depth
                    progress.seconds = time.monotonic() - started
                    progress.memory_mb = _memory_mb()
                    if on_progress is not None:
                        on_progress(progress)
                    explored.cut_off = _cut_off(progress, max_states, max_memory_mb, max_seconds)
                    if explored.cut_off:
                        break
                for step in self.steps(state):
                    explored.transitions += 1
                    after = step.state
                    if after is not None and after in came_from and not step.found:
                        continue
                    found = step.found
                    is_over = after is None
                    if after is not None and after not in came_from:
                        finding = self._look(state, after)
                        if finding is not None:
                            found += (finding,)
                    for finding in found:
                        is_over = is_over or finding.known_as is None
                        sort = (finding.property, finding.known_as)
                        if sort not in seen:
                            seen.add(sort)
                            labels = (*self._labels(came_from, state), step.label)
                            explored.paths.append(Path(finding, labels))
                    if after is None or after in came_from:
                        continue
                    came_from[after] = state
                    if not is_over:
                        following.append(after)
            frontier = following
            depth += 1
        progress.states, progress.depth = len(came_from), depth - (not explored.cut_off)
        progress.frontier = len(frontier)
        progress.seconds = time.monotonic() - started
        progress.memory_mb = _memory_mb()
        explored.calls = self.coordinator.call_count + sum(
            nodes.members.call_count for nodes in self.nodes
        )
        return explored

    def _look(self, before: int, after: int) -> Finding | None:
        one, other = self.unpack(before), self.unpack(after)
        places = self._places
        return look(
            self.scope.names,
            self.coordinator.facts(other.coordinator),
            [self.nodes[place].facts(other.nodes[place]) for place in places],
            [self.nodes[place].facts(one.nodes[place]) for place in places],
        )

    def _labels(self, came_from: dict[int, int], state: int) -> list[str]:
        """What happened on the way to a state."""
        labels: list[str] = []
        while came_from[state] >= 0:
            before = came_from[state]
            labels.append(next(step.label for step in self.steps(before) if step.state == state))
            state = before
        return labels[::-1]


_TIMEOUTS = {
    ConsumerTimer.SESSION: Disturbance.SESSION_TIMEOUT,
    ConsumerTimer.REBALANCE: Disturbance.REBALANCE_TIMEOUT,
}


def _memory_mb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def _cut_off(
    progress: Progress, max_states: int, max_memory_mb: int, max_seconds: float
) -> str:
    if progress.states >= max_states:
        return f"more than {max_states:,} states"
    if progress.memory_mb >= max_memory_mb:
        return f"more than {max_memory_mb:,} MB of memory"
    if progress.seconds >= max_seconds:
        return f"more than {max_seconds:,.0f} seconds"
    return ""


__all__ = ["Explored", "Explorer", "Path", "Progress", "Step", "Whole"]
