"""What may happen to the coordinator and one member, or to the coordinator alone.

All others stay as they are, so it is looked up by the two. What is found are bits of a state of the
whole: those of the coordinator and the member.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

from rebalance_sim.protocol.classic.operation import ClassicTimer
from rebalance_sim.protocol.consumer.timer_keys import ConsumerTimer
from rebalance_sim.protocol.runtime.outcome import TimerKind
from rebalance_sim.protocol.runtime.rule_desk import RuleTimerKind, timer_of
from rebalance_sim.protocol.wire.classic_messages import JoinGroupRequest
from rebalance_sim.scenarios.explore.actions import Action, Doing
from rebalance_sim.scenarios.explore.coordinator_nodes import CoordinatorNodes, Dealt, Letter
from rebalance_sim.scenarios.explore.coordinator_states import Finding, Token
from rebalance_sim.scenarios.explore.member_states import Sent
from rebalance_sim.scenarios.explore.nodes import Nodes, escaped
from rebalance_sim.scenarios.explore.scope import Disturbance, Scope, owner_of
from rebalance_sim.scenarios.explore.state_facts import adopts_foreign


class Local(NamedTuple):
    """What may happen to one member and the coordinator, whatever all others are like: what, the
    bits of the two in the state after it (-1: none), what it costs, what is found."""

    action: Action
    bits: int
    cost: int
    found: tuple[Finding, ...]


class Process(NamedTuple):
    """Of a member's process: see ``MemberFacts``."""

    member_id: str
    is_idle: bool
    awaits_id: bool


Processes = tuple[Process, ...]


_TIMEOUTS: Mapping[TimerKind, Disturbance] = {
    ConsumerTimer.SESSION: Disturbance.SESSION_TIMEOUT,
    ConsumerTimer.REBALANCE: Disturbance.REBALANCE_TIMEOUT,
    ConsumerTimer.REJOIN: Disturbance.REBALANCE_TIMEOUT,
    ConsumerTimer.RESYNC: Disturbance.REBALANCE_TIMEOUT,
    ClassicTimer.SESSION: Disturbance.SESSION_TIMEOUT,
    ClassicTimer.JOIN: Disturbance.REBALANCE_TIMEOUT,
    ClassicTimer.SYNC: Disturbance.REBALANCE_TIMEOUT,
}


class LocalSteps:
    """All that may happen. ``shifts``: where the number of each member stands in a state of the
    whole, and ``coordinator_shift``: where that of the coordinator does."""

    def __init__(
        self,
        scope: Scope,
        coordinator: CoordinatorNodes,
        nodes: tuple[Nodes, ...],
        *,
        shifts: tuple[int, ...],
        coordinator_shift: int,
    ) -> None:
        self._scope = scope
        self.coordinator = coordinator
        self.nodes = nodes
        self._shifts = shifts
        self._coordinator_shift = coordinator_shift

    def _forgets(self, coordinator: int, place: int, number: int, kind: type | None = None) -> bool:
        """Whether something waits, of this kind, that the coordinator does not know any more."""
        nodes = self.nodes[place]
        return any(
            not self.coordinator.knows(coordinator, Token(nodes.name, rank))
            for rank in nodes.ranks(number, kind)
        )

    def unanswered(self, coordinator: int, place: int, number: int) -> Finding | None:
        """``coordinator.request_answered``; a SyncGroup of who leaves gets no answer."""
        if not self._forgets(coordinator, place, number, JoinGroupRequest):
            return None
        return Finding("coordinator.request_answered", f"{self.nodes[place].name} waits for ever")

    def of_pair(
        self, coordinator: int, place: int, number: int, is_disturbed: bool
    ) -> Iterator[Local]:
        """What may happen to one member and the coordinator."""
        nodes = self.nodes[place]
        for edge in nodes.edges(number, is_disturbed=is_disturbed):
            cost = int(edge.disturbance is not None)
            if edge.node < 0:
                yield Local(edge.action, -1, cost, edge.found)
            else:
                yield self._settle(edge.action, coordinator, place, number, edge.node, cost)
        sent = nodes.next_request(number)
        if sent is not None:
            yield self._handle(coordinator, place, number, sent, is_late=False)
        rank = nodes.search_rank(number)
        if rank >= 0:
            yield self._find(coordinator, place, number, rank)
        if self._forgets(coordinator, place, number):
            yield self._let_expire(coordinator, place, number)
        for letter in self.coordinator.letters(coordinator, nodes.name):
            yield self._deliver(coordinator, place, number, letter)
        late = nodes.node(number).late
        if late:
            yield self._handle(coordinator, place, number, late[0], is_late=True)

    def _let_expire(self, coordinator: int, place: int, number: int) -> Local:
        nodes = self.nodes[place]
        action = Action(Doing.EXPIRED, nodes.name)
        try:
            after = nodes.lose(number)
        except Exception as problem:
            return Local(action, -1, 0, (escaped(nodes.name, problem),))
        return self._settle(action, coordinator, place, number, after, 0)

    def _deliver(self, coordinator: int, place: int, number: int, letter: Letter) -> Local:
        nodes = self.nodes[place]
        action = Action(Doing.ANSWERED, nodes.name)
        try:
            after = nodes.deliver(number, letter.token.rank, letter.message)
        except Exception as problem:
            return Local(action, -1, 0, (escaped(nodes.name, problem),))
        coordinator = self.coordinator.deliver(coordinator, letter)
        return self._settle(action, coordinator, place, number, after, 0)

    def _find(self, coordinator: int, place: int, number: int, rank: int) -> Local:
        nodes = self.nodes[place]
        action = Action(Doing.FOUND, nodes.name)
        try:
            after = nodes.find(number, rank, self.coordinator.term(coordinator))
        except Exception as problem:
            return Local(action, -1, 0, (escaped(nodes.name, problem),))
        return self._settle(action, coordinator, place, number, after, 0)

    def _handle(
        self, coordinator: int, place: int, number: int, sent: Sent, *, is_late: bool
    ) -> Local:
        nodes = self.nodes[place]
        action = Action(Doing.HANDLED_LATE if is_late else Doing.HANDLED, nodes.name)
        try:
            done = self.coordinator.request(
                coordinator,
                sent.message,
                sent.term,
                nodes.name,
                in_use=nodes.ranks(number),
                is_forgotten=is_late,
            )
        except Exception as problem:
            return Local(action, -1, 0, (escaped("coordinator", problem),))
        if is_late:
            after = nodes.without_late(number)
        else:
            after = nodes.with_answer(number, done.response, done.rank)
        return self._settle(action, done.node, place, number, after, 0, done.found)

    def _settle(
        self,
        action: Action,
        coordinator: int,
        place: int,
        before: int,
        number: int,
        cost: int,
        found: tuple[Finding, ...] = (),
    ) -> Local:
        """A node has changed: what it asks that is answered at once is answered."""
        nodes = self.nodes[place]
        try:
            while True:
                rank = nodes.search_rank(number)
                if rank >= 0 and not self._scope.slow_lookups:
                    number = nodes.find(number, rank, self.coordinator.term(coordinator))
                elif nodes.is_at_once(number):
                    sent = nodes.node(number).items[0].sent
                    done = self.coordinator.request(
                        coordinator, sent.message, sent.term, nodes.name
                    )
                    coordinator, found = done.node, found + done.found
                    number = nodes.answer_first(number, done.response)
                else:
                    break
        except Exception as problem:
            return Local(action, -1, cost, (*found, escaped(nodes.name, problem)))
        lost = set(nodes.ranks(before)).difference(nodes.ranks(number))
        if lost:
            coordinator = self.coordinator.lose(coordinator, nodes.name, lost)
        misfit = adopts_foreign(
            nodes.name,
            self.coordinator.facts(coordinator),
            nodes.facts(number),
            nodes.facts(before),
        )
        exempt = self.coordinator.facts(coordinator).exempt
        if misfit is not None and misfit.property not in exempt:
            found += (misfit,)
        bits = coordinator << self._coordinator_shift | number << self._shifts[place]
        return Local(action, bits, cost, found)

    # --- the coordinator by itself ----------------------------------------------------------------

    def of_coordinator(
        self, coordinator: int, processes: Processes, is_disturbed: bool
    ) -> Iterator[Local]:
        """What the coordinator does by itself; which members send no heartbeats says which timers
        may fire as a matter of course."""
        allowed = self._scope.disturbances if is_disturbed else ()
        for key in self.coordinator.armed(coordinator):
            kind, member_id = key.kind.value, key.member_id
            if key.kind is RuleTimerKind.RULE:
                name, member_id = timer_of(key)
                kind = f"{name} (rule)"
            who = owner_of(member_id)
            disturbance = _TIMEOUTS.get(key.kind)
            is_former = False
            if disturbance is not None:
                if who:
                    present = processes[self._scope.names.index(who)]
                    is_idle, is_former = present.is_idle, present.member_id != key.member_id
                    if is_former and present.awaits_id:
                        newest = self.coordinator.facts(coordinator).newest_ids
                        is_former = key.member_id.rpartition("-")[2] not in newest
                else:
                    is_idle = self._is_due(coordinator, processes)
                if is_idle or is_former:
                    disturbance = None
                elif disturbance not in allowed:
                    continue
            action = Action(Doing.TIMER, who, kind, is_former)
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

    def _is_due(self, coordinator: int, processes: Processes) -> bool:
        """Whether a phase of a classic group comes to its end as a matter of course: it is held
        open for others to come, or somebody who is waited for sends nothing."""
        facts = self.coordinator.facts(coordinator)
        return facts.is_initial or any(
            one.is_idle and one.member_id in facts.members for one in processes
        )

    def _let(self, action: Action, cost: int, act: Callable[[], Dealt]) -> Local:
        try:
            done = act()
        except Exception as problem:
            return Local(action, -1, cost, (escaped("coordinator", problem),))
        return Local(action, done.node << self._coordinator_shift, cost, done.found)
