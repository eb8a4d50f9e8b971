"""What tests of other projects are given: parameters, a strategy, an assertion that explains."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings

import rebalance_sim as rs
from rebalance_sim.scenarios.scenario import Scenario

SEEN: list[int] = []


@rs.each_scenario(profile="calm", seeds=range(3, 5))
def test_each_seed_is_a_test_of_its_own(scenario: Scenario) -> None:
    SEEN.append(scenario.seed)
    assert rs.assert_ok(scenario).outcome == "ok"


def test_the_parameters_are_named_after_profile_and_seed(request: pytest.FixtureRequest) -> None:
    names = [item.name for item in request.session.items if "test_of_its_own" in item.name]
    assert names in ([], ["test_each_seed_is_a_test_of_its_own[calm-3]",
                          "test_each_seed_is_a_test_of_its_own[calm-4]"])  # fmt: skip


@given(rs.scenarios_from("calm"))
@settings(max_examples=5, deadline=None)
def test_a_strategy_makes_scenarios_of_a_profile(scenario: Scenario) -> None:
    assert scenario.profile == "calm"
    assert rs.generate("calm", scenario.seed) == scenario


def test_a_failure_explains_itself() -> None:
    scenario = rs.defect_scenario("mut-early-grant")
    with pytest.raises(AssertionError) as caught:
        rs.assert_ok(scenario)
    text = str(caught.value)
    assert text.startswith("VIOLATION: coordinator.exclusive_ownership")
    assert "what led to it" in text
    assert "rebalance-sim run scenario.toml --trace trace.jsonl" in text
    shown = text.partition("with scenario.toml:\n\n")[2]
    assert rs.parse_scenario(shown).hash == scenario.hash


def test_a_failure_of_a_seed_is_replayed_by_its_seed() -> None:
    scenario = rs.generate("calm", 4)
    result = replace(rs.run(scenario), outcome="stuck", reason="somebody waits")
    with pytest.raises(AssertionError, match="rebalance-sim run --profile calm --seed 4"):
        rs.assert_ok(scenario, result)


@pytest.mark.parametrize(
    ("profile", "seed", "said"),
    [
        ("faulty", "x", "seed 'x': give a whole number"),
        ("faulty", -1, "seed -1: give a whole number"),
        ("faulty", 1.5, "seed 1.5: give a whole number"),
        ("faulty", True, "seed True: give a whole number"),
        ("faulty", None, "seed None: give a whole number"),
        (3, 1, "3 names no profile"),
        ("fault", 1, "did you mean 'faulty'"),
        ("none.toml", 1, "none.toml: cannot be read"),
        (Path("none.toml"), 1, "none.toml: cannot be read"),
    ],
)
def test_what_cannot_be_generated_is_one_clear_error(
    profile: object, seed: object, said: str
) -> None:
    with pytest.raises(rs.ScenarioError, match=said):
        rs.generate(profile, seed)  # type: ignore[arg-type]


def test_seeds_and_files_are_taken_as_a_person_writes_them(tmp_path: Path) -> None:
    scenario = rs.generate("calm", "7")
    assert scenario == rs.generate("calm", 7)
    file = tmp_path / "x.toml"
    file.write_text(rs.dump_scenario(scenario))
    assert rs.run(file).digest == rs.run(str(file)).digest == rs.run(scenario).digest
    with pytest.raises(rs.ScenarioError, match=r"nowhere\.toml: cannot be read"):
        rs.run("nowhere.toml")
    with pytest.raises(rs.ScenarioError, match="3 is no scenario"):
        rs.run(3)  # type: ignore[arg-type]
