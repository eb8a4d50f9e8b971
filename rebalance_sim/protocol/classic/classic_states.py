"""The states of a classic group, as one table.

Source: classic §1.3, §1.4. Every change of state goes through ``TRANSITIONS``; a pair that is not
in it raises IllegalTransition. The generation moves with the state and nowhere else: it grows by
one exactly when a join phase ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from rebalance_sim.protocol.wire.errors import IllegalTransition


class ClassicGroupState(Enum):
    """The value is the name in responses."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class Event(Enum):
    """What moves a group from one state to another."""

    REBALANCE_NEEDED = "a member joins, changes, leaves, expires or fails to sync"
    JOIN_PHASE_ENDED = "the members that take part in the generation are known"
    EVERYBODY_GONE = "the join phase ends, and no one is left"
    ASSIGNMENT_COMMITTED = "the record of the leader's assignment is committed"
    UNLOADED = "another broker coordinates the group from now on"


class Transition(NamedTuple):
    """Where an event leads, and by how much the generation grows."""

    next_state: ClassicGroupState
    generation_step: int


_EMPTY = ClassicGroupState.EMPTY
_PREPARING = ClassicGroupState.PREPARING_REBALANCE
_COMPLETING = ClassicGroupState.COMPLETING_REBALANCE
_STABLE = ClassicGroupState.STABLE
_DEAD = ClassicGroupState.DEAD

TRANSITIONS: Mapping[tuple[ClassicGroupState, Event], Transition] = {
    (_EMPTY, Event.REBALANCE_NEEDED): Transition(_PREPARING, 0),
    (_STABLE, Event.REBALANCE_NEEDED): Transition(_PREPARING, 0),
    (_COMPLETING, Event.REBALANCE_NEEDED): Transition(_PREPARING, 0),
    (_PREPARING, Event.JOIN_PHASE_ENDED): Transition(_COMPLETING, 1),
    (_PREPARING, Event.EVERYBODY_GONE): Transition(_EMPTY, 1),
    (_COMPLETING, Event.ASSIGNMENT_COMMITTED): Transition(_STABLE, 0),
    (_EMPTY, Event.UNLOADED): Transition(_DEAD, 0),
    (_PREPARING, Event.UNLOADED): Transition(_DEAD, 0),
    (_COMPLETING, Event.UNLOADED): Transition(_DEAD, 0),
    (_STABLE, Event.UNLOADED): Transition(_DEAD, 0),
}


def transition(state: ClassicGroupState, event: Event) -> Transition:
    """The row of the table. Raises IllegalTransition for a pair outside it."""
    found = TRANSITIONS.get((state, event))
    if found is None:
        raise IllegalTransition(f"classic group: {state.name} x {event.name}")
    return found
