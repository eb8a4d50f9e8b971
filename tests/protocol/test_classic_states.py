"""The states of a classic group: exactly the transitions of the reference, and nothing else."""

from __future__ import annotations

import pytest

from rebalance_sim.protocol.classic.classic_group import ClassicGroup
from rebalance_sim.protocol.classic.classic_states import (
    TRANSITIONS,
    ClassicGroupState,
    Event,
    transition,
)
from rebalance_sim.protocol.wire.errors import IllegalTransition

EMPTY = ClassicGroupState.EMPTY
PREPARING = ClassicGroupState.PREPARING_REBALANCE
COMPLETING = ClassicGroupState.COMPLETING_REBALANCE
STABLE = ClassicGroupState.STABLE
DEAD = ClassicGroupState.DEAD

LEGAL = {
    (EMPTY, PREPARING): 0,
    (STABLE, PREPARING): 0,
    (COMPLETING, PREPARING): 0,
    (PREPARING, COMPLETING): 1,
    (PREPARING, EMPTY): 1,
    (COMPLETING, STABLE): 0,
    (EMPTY, DEAD): 0,
    (PREPARING, DEAD): 0,
    (COMPLETING, DEAD): 0,
    (STABLE, DEAD): 0,
}
"""From, to, and growth of the generation, as classic §1.4 has them."""


def test_the_table_holds_exactly_the_legal_transitions() -> None:
    found = {
        (state, row.next_state): row.generation_step for (state, _), row in TRANSITIONS.items()
    }
    assert found == LEGAL


def test_only_the_end_of_a_join_phase_moves_the_generation() -> None:
    moving = {event for (_, event), row in TRANSITIONS.items() if row.generation_step}
    assert moving == {Event.JOIN_PHASE_ENDED, Event.EVERYBODY_GONE}


@pytest.mark.parametrize("state", ClassicGroupState)
@pytest.mark.parametrize("event", Event)
def test_a_pair_outside_the_table_is_an_error(state: ClassicGroupState, event: Event) -> None:
    if (state, event) in TRANSITIONS:
        assert transition(state, event).next_state is not state
        return
    with pytest.raises(IllegalTransition, match=f"{state.name} x {event.name}"):
        transition(state, event)


def test_nothing_leads_out_of_dead() -> None:
    assert not [event for state, event in TRANSITIONS if state is DEAD]


def test_a_transition_notes_its_time_and_where_it_came_from() -> None:
    group = ClassicGroup("group", now_ms=5)
    assert (group.state, group.previous_state, group.state_timestamp_ms) == (EMPTY, DEAD, 5)
    group.apply(Event.REBALANCE_NEEDED, now_ms=7)
    assert (group.state, group.previous_state, group.state_timestamp_ms) == (PREPARING, EMPTY, 7)
    with pytest.raises(IllegalTransition):
        group.apply(Event.ASSIGNMENT_COMMITTED, now_ms=8)
    assert (group.state, group.generation_id, group.state_timestamp_ms) == (PREPARING, 0, 7)
