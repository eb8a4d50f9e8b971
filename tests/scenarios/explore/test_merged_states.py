"""States that are taken for one go on alike: one-step bisimulation, over what a search has met."""

from __future__ import annotations

import random
from typing import Generic, TypeVar

import pytest

from rebalance_sim.protocol.clients.common.group_member import GroupMember
from rebalance_sim.scenarios.explore.actions import Stimulus
from rebalance_sim.scenarios.explore.coordinator_states import CoordinatorStates, _Kept
from rebalance_sim.scenarios.explore.explorer import Explorer
from rebalance_sim.scenarios.explore.member_states import ABSENT, MemberStates
from rebalance_sim.scenarios.explore.scope import Disturbance, Scope

KEPT_OF_EACH = 3
"""Other machines of one state that are looked at, drawn among all of them."""

_T = TypeVar("_T")


class Sample(Generic[_T]):
    """Some of the machines that were taken for the first one of their state, by its number."""

    def __init__(self) -> None:
        self.kept: dict[int, list[_T]] = {}
        self._met: dict[int, int] = {}
        self._random = random.Random("merged")

    def place(self, state: int) -> int:
        """Where in the list of its state one more machine is kept; -1: it is not."""
        met = self._met[state] = self._met.get(state, 0) + 1
        place = met - 1 if met <= KEPT_OF_EACH else self._random.randrange(met)
        return place if place < KEPT_OF_EACH else -1

    def keep(self, state: int, place: int, machine: _T) -> None:
        kept = self.kept.setdefault(state, [])
        kept[place : place + 1] = [machine]

    def __len__(self) -> int:
        return sum(map(len, self.kept.values()))


class MergingMembers(MemberStates):
    """Keeps, of each state, some machines that were taken for the first one."""

    others: Sample[bytes]

    def _intern(self, member: GroupMember, process: int, known: int) -> int:
        met = len(self)
        number = super()._intern(member, process, known)
        if number < met and number != ABSENT and not self.has_ended(number):
            place = self.others.place(number)
            if place >= 0:
                self.others.keep(number, place, self._freezer.freeze(member))
        return number

    def differences(self) -> list[str]:
        """What properties would see otherwise in one of the others, and events in which it does not
        come to the same state, sends other things, or gives up others."""
        found = []
        for state, machines in list(self.others.kept.items()):
            kept = self._kept.values[state]
            for member in map(self._freezer.thaw, machines):
                if self._facts(member) != kept.facts:
                    found.append(f"{self.name} in state {state}: what properties look at")
                # Metadata that are still to come are no matter of the machine.
                by_itself = tuple(one for one in kept.stimuli if one is not Stimulus.METADATA)
                if tuple(self._kind.stimuli_of(member)) != by_itself:
                    found.append(f"{self.name} in state {state}: what may happen")
        for (state, what), moved in list(self._edges.items()):
            if what is Stimulus.CRASH:
                continue
            for frozen in self.others.kept.get(state, ()):
                kept = self._kept.values[state]
                self._kept.values[state] = kept._replace(frozen=frozen)
                came_to = self._run(state, what)
                self._kept.values[state] = kept
                if came_to != moved:
                    found.append(f"{self.name} in state {state}: {what}")
        return found


class MergingCoordinator(CoordinatorStates):
    """The same for the coordinator."""

    others: Sample[_Kept]

    def _intern(self) -> int:
        known = len(self)
        number = super()._intern()
        if number < known:
            place = self.others.place(number)
            if place >= 0:
                self.others.keep(number, place, self._kept_now())
        return number

    def differences(self) -> list[str]:
        """What properties would see otherwise, and calls in which one of the others does not come
        to the same."""
        found = []
        for state, others in list(self.others.kept.items()):
            first = self._kept.values[state]
            for other in others:
                if other.facts != first.facts or [*other.timers] != [*first.timers]:
                    found.append(f"state {state}: what properties look at, or timers")
        for (state, what), done in list(self._edges.items()):
            for other in self.others.kept.get(state, ()):
                first = self._kept.values[state]
                self._kept.values[state] = other
                del self._edges[state, what]
                came_to = self._edge(state, what)
                self._kept.values[state] = first
                self._edges[state, what] = done
                if came_to != done:
                    found.append(f"state {state}: {what}")
        return found


SCOPES = [
    Scope(disturbances=(Disturbance.CONNECTION_LOST, Disturbance.SESSION_TIMEOUT)),
    Scope(disturbances=(Disturbance.POLL_TIMEOUT, Disturbance.COORDINATOR_MOVE)),
    Scope(disturbances=(Disturbance.UNSUBSCRIBE, Disturbance.CLOSE)),
    Scope(disturbances=(Disturbance.CALLBACK_FAILURE, Disturbance.TOPIC_GROWTH)),
    Scope(disturbances=(Disturbance.CONNECTION_LOST,), auto_commit=True, slow_lookups=True),
    Scope(disturbances=(Disturbance.CONNECTION_LOST,), slow_metadata=True),
    Scope(kinds=("eager", "cooperative"), max_disturbances=0, slow_metadata=True),
    Scope(
        disturbances=(Disturbance.CRASH, Disturbance.CLOSE, Disturbance.SESSION_TIMEOUT),
        instances=("x", "y"),
        returns=True,
    ),
    Scope(
        disturbances=(Disturbance.CONNECTION_LOST, Disturbance.COORDINATOR_MOVE),
        kinds=("eager", "eager"),
    ),
    Scope(
        disturbances=(Disturbance.POLL_TIMEOUT, Disturbance.SESSION_TIMEOUT),
        kinds=("cooperative", "cooperative"),
        auto_commit=True,
    ),
    Scope(
        disturbances=(Disturbance.CRASH, Disturbance.REBALANCE_TIMEOUT),
        kinds=("eager", "eager"),
        instances=("x", "y"),
        returns=True,
    ),
    Scope(disturbances=(Disturbance.CONNECTION_LOST,), kinds=("eager", "consumer")),
    Scope(
        disturbances=(Disturbance.CRASH, Disturbance.SESSION_TIMEOUT),
        max_disturbances=2,
        returns=True,
        assignment_interval=True,
    ),
    Scope(
        disturbances=(Disturbance.SESSION_TIMEOUT, Disturbance.COORDINATOR_MOVE),
        max_disturbances=2,
        kinds=("eager", "eager"),
    ),
]


def _name(scope: Scope) -> str:
    return "-".join((*(one.value for one in scope.disturbances), *scope.kinds, *scope.instances))


def _explorer_that_keeps(scope: Scope) -> tuple[Explorer, MergingCoordinator]:
    explorer = Explorer(scope)
    for nodes in explorer.nodes:
        nodes.members.__class__ = MergingMembers
        nodes.members.others = Sample()
    coordinator = explorer.coordinator.states
    coordinator.__class__ = MergingCoordinator
    coordinator.others = Sample()
    return explorer, coordinator


def _check_merged(scope: Scope, max_states: int) -> None:
    explorer, coordinator = _explorer_that_keeps(scope)
    explorer.run(max_states=max_states)

    assert min(len(nodes.members.others) for nodes in explorer.nodes) > 50
    for nodes in explorer.nodes:
        assert nodes.members.differences() == []
    assert len(coordinator.others) > 10
    assert coordinator.differences() == []


@pytest.mark.parametrize("scope", SCOPES[::24], ids=_name)
def test_merged_states_go_on_alike(scope: Scope) -> None:
    """Their first ones; the slow test below begins with those of every scope."""
    _check_merged(scope, max_states=15_000)


@pytest.mark.slow
@pytest.mark.parametrize("scope", SCOPES, ids=_name)
def test_so_do_those_of_many_more_states(scope: Scope) -> None:
    _check_merged(scope, max_states=60_000)


def test_a_key_that_leaves_out_what_matters_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    scope = Scope(disturbances=(Disturbance.SESSION_TIMEOUT,))
    explorer, _ = _explorer_that_keeps(scope)
    for nodes in explorer.nodes:
        monkeypatch.setattr(
            nodes.members._maker, "_free", nodes.members._maker._free | {"target", "current"}
        )
    explorer.run(max_states=20_000)
    assert any(nodes.members.differences() for nodes in explorer.nodes)
