"""Rules of plug-ins that make properties untrue on purpose, and what a run is judged by then."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from docs.rule_tables import decisions, rules_classes
from rebalance_sim.protocol import defects
from rebalance_sim.protocol.consumer.consumer_rules import ConsumerGroupRules
from rebalance_sim.protocol.defects import DEFECTS, Defect
from rebalance_sim.protocol.defects._shared import NoDoubleOwnershipAlarm
from rebalance_sim.protocol.migration.migration_rules import MigrationRules
from rebalance_sim.scenarios.defects import defect_scenario
from rebalance_sim.scenarios.explore.explorer import Explorer
from rebalance_sim.scenarios.explore.scope import Scope
from rebalance_sim.scenarios.explore.verdict import describe
from rebalance_sim.scenarios.result import RunResult
from rebalance_sim.scenarios.runner import run
from rebalance_sim.sim.trace import FullTrace

MUTANT = "mut-early-grant"
FIRST = "coordinator.exclusive_ownership"
Register = Callable[..., None]


@pytest.fixture
def register(monkeypatch: pytest.MonkeyPatch) -> Iterator[Register]:
    """Registers a rule, by the body of its class, for one test."""
    rules = dict(DEFECTS)
    monkeypatch.setattr(defects, "_DEFECTS", rules)
    for module in (
        "rebalance_sim.protocol.versions.semantics",
        "rebalance_sim.protocol.defects",
    ):
        monkeypatch.setattr(f"{module}.DEFECTS", rules)

    def registers(rule: str, *replaces: str, **body: object) -> None:
        change = type("Change", (ConsumerGroupRules,), body)
        defects.register(Defect(id=rule, title="", rules=(change,), replaces=replaces))

    yield registers


def result_with(*rules: str) -> RunResult:
    scenario = defect_scenario(MUTANT)
    return run(replace(scenario, world=replace(scenario.world, defects=rules)))


EARLY_GRANT = {"is_free": lambda *_: True, "ownership": NoDoubleOwnershipAlarm()}


def test_the_mutant_violates_what_the_tests_below_replace() -> None:
    assert [row.property for row in run(defect_scenario(MUTANT)).violations] == [FIRST]


def test_a_run_in_which_a_rule_acts_is_not_judged_by_what_it_replaces(register: Register) -> None:
    register("r", *_all_violated(register), **EARLY_GRANT)
    result = result_with("r")
    assert (result.outcome, result.violations) == ("partly-judged", ())
    assert FIRST in result.reason
    assert "where rule r acted" in result.reason
    assert result.replaced == (result.reason,)
    assert result.coverage["rule.r"] > 0


def _all_violated(register: Register) -> list[str]:
    """What the mutant violates, one property after another."""
    found: list[str] = []
    while True:
        rule = f"r{len(found)}"
        register(rule, *found, **EARLY_GRANT)
        rows = result_with(rule).violations
        if not rows:
            return found
        assert rows[0].property not in found
        found.append(rows[0].property)


def test_it_is_judged_by_all_others(register: Register) -> None:
    register("r", "target.current", **EARLY_GRANT)
    result = result_with("r")
    assert [row.property for row in result.violations] == [FIRST]
    assert (result.outcome, result.replaced) == ("violation", ())


def test_a_run_in_which_a_rule_never_acts_is_judged_by_all(register: Register) -> None:
    def as_kafka(self: ConsumerGroupRules, *about: object) -> bool:
        return ConsumerGroupRules.notices_metadata(self, *about)  # type: ignore[arg-type]

    register("r", FIRST, notices_metadata=as_kafka)
    result = result_with("r", MUTANT)
    assert [row.property for row in result.violations] == [FIRST]
    assert "rule.r" not in result.coverage
    alone = result_with("r")
    assert (alone.outcome, alone.replaced) == ("ok", ())


def test_a_value_that_a_rule_replaces_acts_from_the_start(register: Register) -> None:
    register("r", "coordinator.epoch_cause", bumps_on_leave=False)
    register("same", "coordinator.epoch_cause", bumps_on_leave=True)
    assert "coordinator.epoch_cause" in " ".join(result_with("r").replaced)
    assert result_with("same").replaced == ()


def test_a_rule_that_acts_takes_the_steps_that_it_would_take_anyway(register: Register) -> None:
    register("r", FIRST, **EARLY_GRANT)
    register("plain", **EARLY_GRANT)
    traces = FullTrace(), FullTrace()
    scenario = defect_scenario(MUTANT)
    for rule, trace in zip(("r", "plain"), traces, strict=True):
        run(replace(scenario, world=replace(scenario.world, defects=(rule,))), trace=trace)
    assert traces[0].digest() == traces[1].digest()


def test_explore_judges_likewise(register: Register) -> None:
    register("r", FIRST, **EARLY_GRANT)
    register("plain", **EARLY_GRANT)
    found = {}
    for rule in ("r", "plain"):
        explorer = Explorer(Scope(max_disturbances=0, defects=(rule,)))
        explored = explorer.run(max_states=20_000)
        found[rule] = {path.finding.property for path in explored.paths}
        says = any(f"not judged once {rule} has acted" in line for line in describe(explored))
        assert says == (rule == "r")
    assert FIRST in found["plain"]
    assert FIRST not in found["r"]


def test_the_page_of_plug_ins_has_every_decision_of_a_coordinator() -> None:
    listed = {name for rules in rules_classes() for name in decisions(rules)}
    mro = [rules for rules in MigrationRules.__mro__ if rules is not object]
    names = {name for rules in mro for name in decisions(rules)}
    assert names <= listed
    assert {"is_free", "computes_target", "after_load"} <= names
    assert "now_ms" not in names
