"""The walk-throughs of KIP-848 come out of our coordinator state for state, answer for answer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rebalance_sim.scenarios.case_studies import (
    CASE_STUDIES,
    DRAFT,
    Promotion,
    load_case_study,
    replay,
)
from rebalance_sim.scenarios.errors import ScenarioError

STEP_COUNTS = {
    "basic": 16,
    "incremental_revocation_assignment": 10,
    "member_failure": 4,
    "partition_added": 4,
    "online_migration": 16,
}


@pytest.mark.parametrize("promotion", Promotion)
@pytest.mark.parametrize("name", CASE_STUDIES)
def test_every_step_leaves_the_state_that_the_chapter_prints(
    name: str, promotion: Promotion
) -> None:
    played = list(replay(load_case_study(name), promotion))
    assert {p.step.number: p.differences for p in played if p.differences} == {}
    assert len(played) == STEP_COUNTS[name]


def test_the_draft_moves_a_member_once_it_echoes_its_epoch() -> None:
    played = list(replay(DRAFT))
    assert {p.step.number: p.differences for p in played if p.differences} == {}
    assert len(played) == 19
    assert [p.state.current["B"].epoch for p in played[8:10]] == [0, 2]  # offered, then echoed


@pytest.mark.parametrize(
    ("epoch", "owned"), [(2, ("foo-1", "foo-2")), (3, ("foo-1",)), (1, ("foo-2",))]
)
def test_the_draft_takes_nothing_else_for_an_echo(epoch: int, owned: tuple[str, ...]) -> None:
    case = load_case_study(DRAFT)
    other = replace(case.steps[9], epoch=epoch, owned=owned)
    played = list(replay(replace(case, steps=(*case.steps[:9], other))))
    assert played[-1].state == played[-2].state
    assert played[-1].differences != ()


def test_the_two_readings_differ_where_a_release_meets_a_waiting_member() -> None:
    def steps(name: str) -> list[int]:
        return [s.number for s in load_case_study(name).steps if s.eager != s.lazy]

    assert steps("basic") == [8, 15]
    assert steps("incremental_revocation_assignment") == [7, 9]
    assert steps("member_failure") == []
    assert steps("partition_added") == []
    assert steps("online_migration") == [13, 14, 15]


def test_a_replay_under_the_other_reading_does_not_agree() -> None:
    """The comparison can fail: an eager coordinator contradicts the lazy states."""
    case = load_case_study("basic")
    swapped = replace(case, steps=tuple(replace(s, eager=s.lazy, lazy=s.eager) for s in case.steps))
    played = replay(swapped, Promotion.EAGER)
    assert [p.step.number for p in played if p.differences] == [8, 15]


def test_classic_members_are_called_back_rejoin_and_fetch_what_they_may_have() -> None:
    played = list(replay(load_case_study("online_migration")))
    states = [step.state.classic_members for step in played]
    assert states[0] == {"B": "Stable", "C": "Stable"}
    assert [state["C"] for state in states[1:9]] == [
        "Stable",
        "PrepareRebalance",
        "PrepareRebalance",
        "CompletingRebalance",
        "CompletingRebalance",
        "Stable",
        "Stable",
        "PrepareRebalance",
    ]
    reported = {step.step.number: step.response for step in played if step.step.member == "C"}
    assert [reported[number].error for number in (4, 12) if reported[number]] == [
        "REBALANCE_IN_PROGRESS",
        "REBALANCE_IN_PROGRESS",
    ]


def test_a_classic_member_that_keeps_what_it_owns_does_not_advance_yet() -> None:
    """The chapter's C is eager. A cooperative one must be told first what to give up."""
    case = load_case_study("online_migration")
    owned = ("foo-2", "foo-4", "foo-5")
    steps = tuple(replace(s, owned=owned) if s.number == 13 else s for s in case.steps)
    played = list(replay(replace(case, steps=steps[:13])))
    assert [p.step.number for p in played if p.differences] == [13]
    assert played[12].response is not None
    assert played[12].response.epoch == 23


def test_no_partition_is_held_twice_on_the_way() -> None:
    for name in CASE_STUDIES:
        for played in replay(load_case_study(name)):
            held = [p for c in played.state.current.values() for p in c.partitions]
            assert len(held) == len(set(held)), (name, played.step.number)


def test_an_unknown_case_study_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(ScenarioError, match="did you mean 'member_failure'"):
        load_case_study("member_failures")
