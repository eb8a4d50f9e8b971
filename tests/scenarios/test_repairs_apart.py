"""The repair of a known issue replaces the issue's own decision, and nothing else: it does not
repair another fault as well, which would be excused then."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from rebalance_sim import protocol
from rebalance_sim.invariants.known.known_issues import every_issue
from rebalance_sim.protocol.defects import DEFECTS
from rebalance_sim.protocol.versions.semantics import SEMANTICS
from rebalance_sim.scenarios.defects import defect_scenario
from rebalance_sim.scenarios.result import REPAIRED
from rebalance_sim.scenarios.runner import run

ISSUES = sorted(every_issue())
RELEASED = {name: one for name, one in SEMANTICS.items() if one.shipped_defects}


def rules_of(change: type) -> set[tuple[type, str]]:
    """The decisions that a change replaces, each with the rules class that it is for."""
    return {(change.__bases__[0], name) for name in vars(change) if not name.startswith("__")}


def is_same(one: tuple[type, str], other: tuple[type, str]) -> bool:
    """Whether there is a rules class for which both replace the same decision."""
    (base, name), (other_base, other_name) = one, other
    return name == other_name and (issubclass(base, other_base) or issubclass(other_base, base))


def replaced_by(defect_id: str) -> set[tuple[type, str]]:
    return set().union(*(rules_of(rule) for rule in DEFECTS[defect_id].rules))


REPLACED_TWICE = {
    ("KAFKA-20066", "mut-commit-no-fence"),
    ("KAFKA-20273", "KAFKA-19546"),
}
"""Whose rule another defect replaces, too. What is switched on lies in front of what was shipped,
and stays there when that is repaired: below, a run of each."""


def test_which_defects_replace_the_same_rule_as_a_known_issue() -> None:
    seen = {
        (issue, other)
        for issue in ISSUES
        for other in DEFECTS.keys() - {issue}
        for one in replaced_by(issue)
        if any(is_same(one, theirs) for theirs in replaced_by(other))
    }
    assert seen == REPLACED_TWICE


@pytest.mark.parametrize("version", RELEASED)
def test_no_version_replaces_a_rule_that_a_defect_replaces_with_which_it_ships(
    version: str,
) -> None:
    semantics = RELEASED[version]
    shipped = {rule for one in semantics.shipped_defects for rule in DEFECTS[one].rules}
    of_version = set().union(*(rules_of(one) for one in semantics.changes if one not in shipped))
    for issue in semantics.shipped_defects:
        for one in replaced_by(issue):
            assert not any(is_same(one, theirs) for theirs in of_version), (issue, one)


DECIDED_TOGETHER = {
    # Each decides where the other is not asked.
    frozenset({"rebalances_for_due_target", "rebalances_with_current_target"}),
    # The repair accepts epoch 0 alone, whatever the other says: below, a run with that wrong.
    frozenset({"accepts_rejoin", "accepts_previous_epoch"}),
    # With the repair the other decides alone: the issue might hide a fault of it, the repair not.
    frozenset({"keeps_timers_of_failed_batches", "reverts_failed_batches"}),
    frozenset({"calls_back_for_target", "assigns_in_heartbeat"}),
}
"""A rule that a known issue replaces, and another one in the same expression."""


def decisions_together(names: set[str]) -> Iterator[frozenset[str]]:
    """Rules that one expression of the protocol combines, so that one may hide another."""
    for file in Path(protocol.__path__[0]).rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.BoolOp | ast.IfExp):
                found = [part for part in ast.walk(node) if isinstance(part, ast.Attribute)]
                together = frozenset(one.attr for one in found if is_of_rules(one.value, file))
                if len(together & names) > 1:
                    yield together & names


def is_of_rules(value: ast.expr, file: Path) -> bool:
    name = value.attr if isinstance(value, ast.Attribute) else getattr(value, "id", "")
    return name.endswith("rules") or (name == "self" and file.stem.endswith("rules"))


def test_which_rules_are_combined_with_one_that_a_repair_sets_right() -> None:
    bases = {base for one in DEFECTS.values() for rule in one.rules for base in rule.__mro__}
    names = {name for base in bases for name in vars(base) if not name.startswith("_")}
    repaired = {name for issue in ISSUES for _, name in replaced_by(issue)}
    seen = {together for together in decisions_together(names) if together & repaired}
    assert seen == DECIDED_TOGETHER


NOT_EXCUSED = [
    ("KAFKA-19546", "kafka-4.4"),
    ("KAFKA-19546", "kafka-4.3"),
    ("KAFKA-19546", "kafka-4.1"),
    ("KAFKA-20273", "kafka-4.4"),
    ("KAFKA-20273", "kafka-4.3"),
    ("KIP-848-lost-response", "kafka-4.1"),
    ("mut-commit-no-fence", "kafka-4.1"),
]


@pytest.mark.parametrize(("defect_id", "version"), NOT_EXCUSED)
def test_a_fault_beside_a_known_issue_is_not_excused_as_that(defect_id: str, version: str) -> None:
    scenario = defect_scenario(defect_id)
    released = replace(scenario, world=replace(scenario.world, semantics=version))
    result = run(released)
    assert result.outcome in ("violation", "stuck"), result.reason
    assert not any(row.verdict == REPAIRED for row in result.known_issues)


def test_what_4_1_does_for_a_due_target_is_not_repaired_with_the_quiet_return() -> None:
    scenario = defect_scenario("KAFKA-20273")
    repaired = run(scenario.without("classic-quiet-return"))
    assert repaired.outcome == "stuck", repaired.reason
    assert repaired.violations[0].property == "liveness.classic_partitions_owned"
    of_4_1 = replace(scenario, world=replace(scenario.world, semantics="kafka-4.1", defects=()))
    assert set(run(of_4_1).known) == {"KAFKA-20273"}
    assert run(of_4_1.without("classic-quiet-return")).outcome == "known"
    assert run(of_4_1.without("KAFKA-20273")).outcome == "ok"
