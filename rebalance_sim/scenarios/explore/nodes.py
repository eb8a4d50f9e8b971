"""A member with its connection, over numbered states.

A node is a member's state and what is on its way between it and the coordinator, in the order of
sending: answers first, since a connection keeps the order. A request that was lost to the member,
but may still be handled, is on its way without anybody waiting for the answer.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from rebalance_sim.protocol.clients.common import events
from rebalance_sim.protocol.wire.classic_messages import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)
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
    JoinGroupRequest: events.JoinGroupAnswered,
    SyncGroupRequest: events.SyncGroupAnswered,
    HeartbeatRequest: events.ClassicHeartbeatAnswered,
    LeaveGroupRequest: events.LeaveGroupAnswered,
}


class Item(NamedTuple):
    """A request on its way, or, once there is one, its answer by number. ``rank``: its number among
    the member's requests that wait at the coordinator; -1: it is none of them."""

    sent: Sent
    answer: int = -1
    rank: int = -1

    @property
    def is_on_its_way(self) -> bool:
        """Whether it has yet to reach the coordinator."""
        return self.answer < 0 and self.rank < 0 and self.sent.message >= 0


class Node(NamedTuple):
    """``late``: requests that may still be handled, though no one waits for the answer."""

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
                and any(item.is_on_its_way for item in node.items)
            ):
                found.append(self._let(node, stimulus, Disturbance.LATE_REQUEST))
        # A search has a connection of its own, and holds up no answer; what waits does not, either.
        for place, item in enumerate(node.items):
            if item.sent.message >= 0 and item.rank < 0:
                if item.answer >= 0:
                    found.append(self._let_answer(node, place))
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
        items, late = _without(node.items, moved.given_up), node.late
        if is_lost:
            items = ()
            if disturbance is Disturbance.LATE_REQUEST or (
                stimulus is not Stimulus.LOST
                and Disturbance.LATE_REQUEST in self._scope.disturbances
            ):
                late += tuple(item.sent for item in node.items if item.is_on_its_way)
        return Edge(action, disturbance, self._after(moved, items, late))

    def _let_answer(self, node: Node, place: int) -> Edge:
        action = Action(Doing.ANSWERED, self.name)
        try:
            after = self._answered(node, place, node.items[place].answer)
        except Exception as problem:
            return Edge(action, None, -1, (escaped(self.name, problem),))
        return Edge(action, None, after)

    def _answered(self, node: Node, place: int, answer: int) -> int:
        kind = _ANSWERS[type(self._messages[node.items[place].sent.message])]
        moved = self.members.answer(node.member, place, answer, kind)
        return self._after(moved, _without(node.items, (place, *moved.given_up)), node.late)

    def _after(self, moved: Moved, items: tuple[Item, ...], late: tuple[Sent, ...]) -> int:
        if self.members.has_ended(moved.state):
            return self.number(Node(moved.state, (), late))
        return self.number(Node(moved.state, items + tuple(Item(one) for one in moved.sent), late))

    # --- what the coordinator has to do with ------------------------------------------------------

    def next_request(self, number: int) -> Sent | None:
        """The request that reaches the coordinator next."""
        for item in self.node(number).items:
            if item.is_on_its_way:
                return item.sent
        return None

    def with_answer(self, number: int, answer: int, rank: int) -> int:
        """The request that reached the coordinator is answered, and the answer is on its way, or it
        waits there as its member's of this rank."""
        node = self.node(number)
        for place, item in enumerate(node.items):
            if item.is_on_its_way:
                items = list(node.items)
                items[place] = item._replace(answer=answer, rank=rank)
                return self.number(node._replace(items=tuple(items)))
        raise ValueError("no request is on its way")

    def ranks(self, number: int, kind: type | None = None) -> tuple[int, ...]:
        """Those of the requests that wait at the coordinator, or of those of this kind."""
        return tuple(
            item.rank
            for item in self.node(number).items
            if item.rank >= 0
            and (kind is None or isinstance(self._messages[item.sent.message], kind))
        )

    def lose(self, number: int) -> int:
        """The connection is gone. Raises what the machine raises."""
        node = self.node(number)
        return self._after(self.members.apply(node.member, Stimulus.LOST), (), node.late)

    def deliver(self, number: int, rank: int, answer: int) -> int:
        """The answer to a request that has waited arrives. Raises what the machine raises."""
        node = self.node(number)
        [place] = [place for place, item in enumerate(node.items) if item.rank == rank]
        return self._answered(node, place, answer)

    def without_late(self, number: int) -> int:
        """The first late request is handled, and no one waits for the answer."""
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
        return self._after(moved, _without(node.items, (rank, *moved.given_up)), node.late)

    def is_at_once(self, number: int) -> bool:
        """Whether what is on its way first is answered before anything else happens."""
        items = self.node(number).items
        return bool(items) and items[0].sent.is_at_once and items[0].sent.message >= 0

    def answer_first(self, number: int, answer: int) -> int:
        """Take the answer to what is on its way first."""
        return self._answered(self.node(number), 0, answer)


def _without(items: tuple[Item, ...], places: Collection[int]) -> tuple[Item, ...]:
    if not places:
        return items
    return tuple(item for place, item in enumerate(items) if place not in places)


def escaped(who: str, problem: Exception) -> Finding:
    """An exception that a machine has raised."""
    return Finding("escaped", f"{who}: {type(problem).__name__}: {problem}")
