"""A scenario says which known issues of its version it is run without."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rebalance_sim.protocol.defects import DEFECTS
from rebalance_sim.protocol.versions.semantics import SEMANTICS, simulated
from rebalance_sim.scenarios.defects import defect_scenario
from rebalance_sim.scenarios.errors import ScenarioError
from rebalance_sim.scenarios.generate.generator import generate
from rebalance_sim.scenarios.runner import run
from rebalance_sim.scenarios.scenario import Scenario, dump_scenario, parse_scenario

SHIPPED = [
    (name, issue)
    for name, semantics in SEMANTICS.items()
    for issue in semantics.shipped_defects
    if issue in DEFECTS
]


@pytest.mark.parametrize("version", [name for name in SEMANTICS if f"{name}-clean" in SEMANTICS])
def test_a_version_without_all_its_issues_is_the_clean_one(version: str) -> None:
    shipped, clean = SEMANTICS[version], SEMANTICS[f"{version}-clean"]
    repairable = [issue for issue in shipped.shipped_defects if shipped.can_repair(issue)]
    repaired = shipped.without(*repairable)
    assert repaired.changes == clean.changes
    assert repaired.shipped_defects == clean.shipped_defects
    assert repaired.repairs == tuple(sorted(repairable))


@pytest.mark.parametrize(("version", "issue"), SHIPPED)
def test_a_repair_takes_away_one_issue_and_leaves_the_others(version: str, issue: str) -> None:
    shipped = SEMANTICS[version]
    repaired = shipped.without(issue)
    assert set(shipped.shipped_defects) - set(repaired.shipped_defects) == {issue}
    gone = set(shipped.changes) - set(repaired.changes)
    kept = [one for one in repaired.shipped_defects if one in DEFECTS]
    others = {rule for one in kept for rule in DEFECTS[one].rules}
    assert gone == set(DEFECTS[issue].rules) - others
    assert repaired.without(issue) == repaired
    assert repaired.as_released.changes == repaired.changes


@pytest.mark.parametrize(
    ("defects", "repairs", "problem"),
    [
        ((), ("KAFKA-20602",), "repairs: .* did you mean 'KAFKA-20601'?"),
        ((), ("KAFKA-19431",), "repairs: kafka-4.3 has no issue 'KAFKA-19431' to repair"),
        (("KAFKA-20601",), ("KAFKA-20601",), "is switched on: it cannot be repaired as well"),
    ],
)
def test_what_cannot_be_repaired_is_refused_in_a_line(
    defects: tuple[str, ...], repairs: tuple[str, ...], problem: str
) -> None:
    with pytest.raises(ValueError, match=problem):
        simulated("kafka-4.3", defects=defects, repairs=repairs)


def shipped_20332() -> Scenario:
    """The client of 4.1 hands out what it must revoke."""
    scenario = defect_scenario("KAFKA-20332", with_defect=False)
    return replace(scenario, world=replace(scenario.world, semantics="kafka-4.1"))


def test_a_repaired_scenario_does_not_show_the_issue() -> None:
    scenario = shipped_20332()
    assert run(scenario).outcome == "known"
    assert run(scenario.without("KAFKA-20332")).outcome == "ok"


def test_repairs_are_part_of_hash_and_file() -> None:
    scenario = shipped_20332()
    repaired = scenario.without("KAFKA-20332")
    assert repaired.hash != scenario.hash
    assert parse_scenario(dump_scenario(repaired)) == repaired
    assert repaired.without("KAFKA-20332") == repaired
    with pytest.raises(ScenarioError, match=r"repairs: kafka-4.1 has no issue"):
        scenario.without("KAFKA-1")


def test_a_variant_with_repairs_makes_the_same_scenario_without_the_issues() -> None:
    plain, repaired = generate("calm@kafka-4.1", 3), generate("calm@kafka-4.1~KAFKA-19431", 3)
    assert repaired == plain.without("KAFKA-19431")
    with pytest.raises(
        ScenarioError, match=r"no repair of 'KAFKA-1943' in kafka-4.1; did you mean"
    ):
        generate("calm@kafka-4.1~KAFKA-1943", 3)


def test_of_a_profile_with_several_versions_each_is_repaired_of_what_it_has() -> None:
    scenarios = [generate("whole~KAFKA-19431", seed) for seed in range(20)]
    repairs = {(s.world.semantics, s.repairs) for s in scenarios}
    assert {("kafka-4.3", ()), ("kafka-4.1", ("KAFKA-19431",))} <= repairs
