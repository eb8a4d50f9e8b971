"""A member with its connection, over numbered states.

A node is a member's state and what is on its way between it and the coordinator, in the order of
sending: answers first, since a connection keeps the order. A request that was lost to the member,
but may still be handled, is on its way without anybody waiting for the answer.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from rebalance_sim.protocol.clients.common import events
from rebalance_sim.protocol.wire.consumer_messages import ConsumerGroupHeartbeatRequest
from rebalance_sim.protocol.wire.offset_messages import OffsetCommitRequest, OffsetFetchRequest
from rebalance_sim.scenarios.explore.actions import COSTS, Action, Doing, Stimulus
from rebalance_sim.scenarios.explore.coordinator_states import Finding
from rebalance_sim.scenarios.explore.interning import Interned, Messages
from rebalance_sim.scenarios.explore.member_states import (
    ABSENT,
    MemberFacts,
    MemberStates,
    Moved,
    Sent,
)
from rebalance_sim.scenarios.explore.scope import Disturbance, Scope

_ANSWERS: dict[type, type] = {
    ConsumerGroupHeartbeatRequest: events.HeartbeatAnswered,
    OffsetCommitRequest: events.CommitAnswered,
    OffsetFetchRequest: events.OffsetFetchAnswered,
}


class Item(NamedTuple):
    """A request on its way, or, once there is one, its answer by number."""

    sent: Sent
    answer: int = -1


class Node(NamedTuple):
    """``late``: requests that may still be handled, though nobody waits for the answer."""

    member: int
    items: tuple[Item, ...] = ()
    late: tuple[Sent, ...] = ()


class Edge(NamedTuple):
    """What may happen to a node by itself: what, which disturbance it is, the next node (-1: none,
    because of what was found)."""

    action: Action
    disturbance: Disturbance | None
    node: int
    found: tuple[Finding, ...] = ()


class Nodes:
    """All nodes of one member that have been met."""

    def __init__(self, scope: Scope, name: str, messages: Messages) -> None:
        self.name = name
        self._scope = scope
        self._messages = messages
        self.members = MemberStates(scope, name, messages)
        self._interned: Interned[Node] = Interned()
        self._edges: dict[tuple[int, bool], tuple[Edge, ...]] = {}
        self.first = self.number(Node(ABSENT))

    def __len__(self) -> int:
        return len(self._interned)

    def number(self, node: Node) -> int:
        """The number of a node."""
        return self._interned.number(node, node)

    def node(self, number: int) -> Node:
        """The node of a number."""
        return self._interned.values[number]

    def facts(self, number: int) -> MemberFacts:
        """What properties look at."""
        return self.members.facts(self._interned.values[number].member)

    # --- what may happen by itself ----------------------------------------------------------------

    def edges(self, number: int, *, is_disturbed: bool) -> tuple[Edge, ...]:
        """What may happen to a node while the coordinator does nothing, with disturbances if there
        may be one."""
        edges = self._edges.get((number, is_disturbed))
        if edges is None:
            allowed = self._scope.disturbances if is_disturbed else ()
            edges = self._edges[number, is_disturbed] = tuple(
                edge for edge in self._find_edges(self.node(number), allowed) if edge.node != number
            )
        return edges

    def _find_edges(self, node: Node, allowed: Collection[Disturbance]) -> list[Edge]:
        found: list[Edge] = []
        for stimulus in self.members.stimuli(node.member):
            disturbance = COSTS.get(stimulus)
            if disturbance is None or disturbance in allowed:
                found.append(self._let(node, stimulus, disturbance))
            if (
                stimulus is Stimulus.LOST
                and Disturbance.LATE_REQUEST in allowed
                and any(item.answer < 0 and item.sent.message >= 0 for item in node.items)
            ):
                found.append(self._let(node, stimulus, Disturbance.LATE_REQUEST))
        # A search has a connection of its own, and holds up no answer.
        for rank, item in enumerate(node.items):
            if item.sent.message >= 0:
                if item.answer >= 0:
                    found.append(self._let_answer(node, rank))
                break
        return found

    def _let(self, node: Node, stimulus: Stimulus, disturbance: Disturbance | None) -> Edge:
        is_late = disturbance is Disturbance.LATE_REQUEST
        action = Action(Doing.LOST_LATE if is_late else Doing.of(stimulus), self.name)
        try:
            moved = self.members.apply(node.member, stimulus)
        except Exception as problem:
            return Edge(action, disturbance, -1, (escaped(self.name, problem),))
        is_lost = stimulus in (Stimulus.LOST, Stimulus.CRASH) or self.members.has_ended(moved.state)
        items, late = node.items, node.late
        if is_lost:
            items = ()
            if disturbance is Disturbance.LATE_REQUEST or (
                stimulus is not Stimulus.LOST
                and Disturbance.LATE_REQUEST in self._scope.disturbances
            ):
                late += tuple(
                    item.sent for item in node.items if item.answer < 0 and item.sent.message >= 0
                )
        return Edge(action, disturbance, self._after(moved, items, late))

    def _let_answer(self, node: Node, rank: int) -> Edge:
        action = Action(Doing.ANSWERED, self.name)
        item, rest = node.items[rank], node.items[:rank] + node.items[rank + 1 :]
        try:
            moved = self._answered(node.member, rank, item)
        except Exception as problem:
            return Edge(action, None, -1, (escaped(self.name, problem),))
        return Edge(action, None, self._after(moved, rest, node.late))

    def _answered(self, member: int, rank: int, item: Item) -> Moved:
        kind = _ANSWERS[type(self._messages[item.sent.message])]
        return self.members.answer(member, rank, item.answer, kind)

    def _after(self, moved: Moved, items: tuple[Item, ...], late: tuple[Sent, ...]) -> int:
        if self.members.has_ended(moved.state):
            return self.number(Node(moved.state, (), late))
        return self.number(Node(moved.state, items + tuple(Item(one) for one in moved.sent), late))

    # --- what the coordinator has to do with ------------------------------------------------------

    def next_request(self, number: int) -> Sent | None:
        """The request that reaches the coordinator next."""
        for item in self.node(number).items:
            if item.answer < 0 and item.sent.message >= 0:
                return item.sent
        return None

    def with_answer(self, number: int, answer: int) -> int:
        """The request that reached the coordinator is answered: the answer is on its way."""
        node = self.node(number)
        for place, item in enumerate(node.items):
            if item.answer < 0 and item.sent.message >= 0:
                items = list(node.items)
                items[place] = item._replace(answer=answer)
                return self.number(node._replace(items=tuple(items)))
        raise ValueError("no request is on its way")

    def without_late(self, number: int) -> int:
        """The first late request is handled, and nobody waits for the answer."""
        node = self.node(number)
        return self.number(node._replace(late=node.late[1:]))

    # --- what is answered before anything else happens --------------------------------------------

    def search_rank(self, number: int) -> int:
        """The place of a search that waits for its answer; -1 if there is none."""
        for rank, item in enumerate(self.node(number).items):
            if item.sent.message < 0:
                return rank
        return -1

    def find(self, number: int, rank: int, term: int) -> int:
        """Answer a search."""
        node = self.node(number)
        moved = self.members.found(node.member, rank, term)
        items = node.items[:rank] + node.items[rank + 1 :]
        return self._after(moved, items, node.late)

    def is_at_once(self, number: int) -> bool:
        """Whether what is on its way first is answered before anything else happens."""
        items = self.node(number).items
        return bool(items) and items[0].sent.is_at_once and items[0].sent.message >= 0

    def answer_first(self, number: int, answer: int) -> int:
        """Take the answer to what is on its way first."""
        node = self.node(number)
        moved = self._answered(node.member, 0, node.items[0]._replace(answer=answer))
        return self._after(moved, node.items[1:], node.late)


def escaped(who: str, problem: Exception) -> Finding:
    """An exception that a machine has raised."""
    return Finding("escaped", f"{who}: {type(problem).__name__}: {problem}")
