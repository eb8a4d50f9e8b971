"""The coordinator with the answers that it has still to give, over numbered states.

JoinGroup and SyncGroup are answered later, often by what somebody else does. Such an answer waits
here until the connection that it belongs to brings it to the member; if that is lost, no one gets
it, and the coordinator does not know. Coordinators without classic groups have nothing of this.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from rebalance_sim.protocol.runtime.outcome import TimerKey
from rebalance_sim.scenarios.explore.coordinator_states import (
    CoordinatorFacts,
    CoordinatorStates,
    Done,
    Finding,
    Shard,
    Token,
)
from rebalance_sim.scenarios.explore.interning import Interned


class Letter(NamedTuple):
    """An answer on its way, by number, and the request that it answers."""

    token: Token
    message: int


class _Node(NamedTuple):
    """``forgotten``: parked requests whose connection is gone."""

    state: int
    letters: tuple[Letter, ...] = ()
    forgotten: frozenset[Token] = frozenset()


class Dealt(NamedTuple):
    """What came of a request or timer: the next node; the number of the response to the request, -1
    if there is none yet; the number among the parked requests of its member, -1 if it is not one of
    them; which properties the call violated."""

    node: int
    response: int
    rank: int
    found: tuple[Finding, ...]


class CoordinatorNodes:
    """All nodes of the coordinator that have been met."""

    def __init__(self, states: CoordinatorStates) -> None:
        self.states = states
        self._interned: Interned[_Node] = Interned()
        self._number(_Node(0))

    def __len__(self) -> int:
        return len(self._interned)

    def _number(self, node: _Node) -> int:
        return self._interned.number(node, node)

    def _state(self, number: int) -> int:
        return self._interned.values[number].state

    # --- reading ----------------------------------------------------------------------------------

    def facts(self, number: int) -> CoordinatorFacts:
        """What properties look at."""
        return self.states.facts(self._state(number))

    def term(self, number: int) -> int:
        """Which coordinator serves, from 0."""
        return self.states.term(self._state(number))

    def armed(self, number: int) -> tuple[TimerKey, ...]:
        """The timers that may fire."""
        return self.states.armed(self._state(number))

    def shard_at(self, number: int) -> Shard:
        """The coordinator, to be read before the next call."""
        return self.states.shard_at(self._state(number))

    def letters(self, number: int, name: str) -> tuple[Letter, ...]:
        """The answers that are on their way to a member."""
        letters = self._interned.values[number].letters
        return tuple(one for one in letters if one.token.name == name) if letters else ()

    def knows(self, number: int, token: Token) -> bool:
        """Whether a parked request will be answered, or is."""
        node = self._interned.values[number]
        return token in self.states.facts(node.state).parked or any(
            one.token == token for one in node.letters
        )

    # --- what may happen --------------------------------------------------------------------------

    def request(
        self,
        number: int,
        message: int,
        term: int,
        name: str,
        *,
        in_use: Collection[int] = (),
        is_forgotten: bool = False,
    ) -> Dealt:
        """Handle a request, which was sent to the coordinator of a term. ``in_use``: numbers that
        other requests of its member have; ``is_forgotten``: no one waits for the answer. Raises
        what escapes from the coordinator."""
        node = self._interned.values[number]
        if not self.states.may_park(message):
            done = self.states.request(node.state, message, term, name)
            return Dealt(self._after(node, done), done.response, -1, done.found)
        parked = self.states.facts(node.state).parked
        taken = {*in_use, *(one.rank for one in parked if one.name == name)}
        taken.update(one.token.rank for one in node.letters if one.token.name == name)
        rank = next(one for one in range(len(taken) + 1) if one not in taken)
        token = Token(name, rank)
        done = self.states.request(node.state, message, term, name, rank)
        if is_forgotten:
            node = node._replace(forgotten=node.forgotten | {token})
        after = self._after(node, done)
        return Dealt(after, done.response, -1 if done.response >= 0 else rank, done.found)

    def deliver(self, number: int, letter: Letter) -> int:
        """An answer has arrived."""
        node = self._interned.values[number]
        letters = tuple(one for one in node.letters if one != letter)
        return self._number(node._replace(letters=letters))

    def lose(self, number: int, name: str, ranks: Collection[int]) -> int:
        """The connection of some parked requests is gone."""
        node = self._interned.values[number]
        tokens = {Token(name, rank) for rank in ranks}
        parked = self.states.facts(node.state).parked
        return self._number(
            _Node(
                node.state,
                tuple(one for one in node.letters if one.token not in tokens),
                node.forgotten | (tokens & parked),
            )
        )

    def fire(self, number: int, key: TimerKey) -> Dealt:
        """Let an armed timer fire. Raises what escapes from the coordinator."""
        return self._dealt(number, self.states.fire(self._state(number), key))

    def move(self, number: int) -> Dealt:
        """Another broker takes over."""
        return self._dealt(number, self.states.move(self._state(number)))

    def grow(self, number: int) -> Dealt:
        """The last topic gets one more partition."""
        return self._dealt(number, self.states.grow(self._state(number)))

    def wait(self, number: int) -> Dealt:
        """So much time passes that the coordinator may compute a target."""
        return self._dealt(number, self.states.wait(self._state(number)))

    def _dealt(self, number: int, done: Done) -> Dealt:
        return Dealt(self._after(self._interned.values[number], done), -1, -1, done.found)

    def _after(self, node: _Node, done: Done) -> int:
        if not (done.released or node.letters or node.forgotten):
            return self._number(_Node(done.state))
        letters = [Letter(*one) for one in done.released if one[0] not in node.forgotten]
        parked = self.states.facts(done.state).parked
        return self._number(
            _Node(done.state, tuple(sorted((*node.letters, *letters))), node.forgotten & parked)
        )
