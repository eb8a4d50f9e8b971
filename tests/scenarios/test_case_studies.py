"""The walk-throughs of KIP-848 come out of our coordinator state for state, answer for answer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scenarios.case_studies import CASE_STUDIES, Promotion, load_case_study, replay
from scenarios.errors import ScenarioError

STEP_COUNTS = {
    "basic": 16,
    "incremental_revocation_assignment": 10,
    "member_failure": 4,
    "partition_added": 4,
}


@pytest.mark.parametrize("promotion", Promotion)
@pytest.mark.parametrize("name", CASE_STUDIES)
def test_every_step_leaves_the_state_that_the_chapter_prints(
    name: str, promotion: Promotion
) -> None:
    played = list(replay(load_case_study(name), promotion))
    assert {p.step.number: p.differences for p in played if p.differences} == {}
    assert len(played) == STEP_COUNTS[name]


def test_the_two_readings_differ_where_a_release_meets_a_waiting_member() -> None:
    def steps(name: str) -> list[int]:
        return [s.number for s in load_case_study(name).steps if s.eager != s.lazy]

    assert steps("basic") == [8, 15]
    assert steps("incremental_revocation_assignment") == [7, 9]
    assert steps("member_failure") == []
    assert steps("partition_added") == []


def test_a_replay_under_the_other_reading_does_not_agree() -> None:
    """The comparison can fail: an eager coordinator contradicts the lazy states."""
    case = load_case_study("basic")
    swapped = replace(case, steps=tuple(replace(s, eager=s.lazy, lazy=s.eager) for s in case.steps))
    played = replay(swapped, Promotion.EAGER)
    assert [p.step.number for p in played if p.differences] == [8, 15]


def test_no_partition_is_held_twice_on_the_way() -> None:
    for name in CASE_STUDIES:
        for played in replay(load_case_study(name)):
            held = [p for c in played.state.current.values() for p in c.partitions]
            assert len(held) == len(set(held)), (name, played.step.number)


def test_an_unknown_case_study_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(ScenarioError, match="did you mean 'member_failure'"):
        load_case_study("member_failures")
