"""What every module of ``protocol/defects`` has to be."""

from __future__ import annotations

import pkgutil
from importlib import import_module

import pytest

from rebalance_sim.protocol import defects
from rebalance_sim.protocol.clients.java.classic.classic_member_rules import ClassicMemberRules
from rebalance_sim.protocol.clients.java.consumer.member_rules import MemberRules
from rebalance_sim.protocol.clients.versions import CLIENT_VERSIONS
from rebalance_sim.protocol.defects import DEFECTS
from rebalance_sim.protocol.defects.defect import DECLARED
from rebalance_sim.protocol.hosting.broker_rules import BrokerRules
from rebalance_sim.protocol.migration.migration_rules import MigrationRules
from rebalance_sim.protocol.versions.semantics import (
    DEFAULT_SEMANTICS,
    RELEASES,
    SEMANTICS,
    semantics_named,
)

PACKAGE = defects.__name__


def test_every_defect_is_declared_once() -> None:
    modules = [
        import_module(f"{PACKAGE}.{one.name}") for one in pkgutil.iter_modules(defects.__path__)
    ]
    rows = [one.id for module in modules for one in getattr(module, "DEFECTS", ())]
    ids = rows + [one.id for one in DECLARED]
    assert sorted(ids) == sorted(DEFECTS)


@pytest.mark.parametrize("name", DEFECTS)
def test_a_defect_replaces_rules_that_there_are(name: str) -> None:
    for rule in DEFECTS[name].rules:
        (base,) = rule.__bases__
        replaced = {n for n in vars(rule) if not n.startswith("_")}
        assert replaced
        assert replaced <= set(dir(base))
        assert base not in {other for one in DEFECTS.values() for other in one.rules}


@pytest.mark.parametrize("name", DEFECTS)
def test_what_is_known_of_a_defect_is_complete(name: str) -> None:
    defect = DEFECTS[name]
    assert defect.title
    assert bool(defect.versions) <= (not name.startswith("mut-"))


def test_a_defect_is_of_the_component_whose_rule_it_replaces() -> None:
    components = {
        "KAFKA-18931": "coordinator",
        "KafScale-121": "broker",
        "librdkafka-4908": "client",
        "KAFKA-16944": "assignor",
    }
    assert {name: DEFECTS[name].component for name in components} == components


def test_shipped_versions_are_there_without_their_defects() -> None:
    for name in ("kafka-4.4", "kafka-4.3", "kafka-4.1"):
        shipped, clean = SEMANTICS[name], SEMANTICS[f"{name}-clean"]
        assert shipped.shipped_defects and not clean.shipped_defects
        again = clean.shipped_with(*shipped.shipped_defects)
        assert set(again.changes) == set(shipped.changes) != set(clean.changes)
    assert SEMANTICS["kafka-4.4-clean"].coordinator is MigrationRules


@pytest.mark.parametrize("name", [name for name in SEMANTICS if f"{name}-clean" in SEMANTICS])
def test_a_version_is_one_table_of_deltas_to_the_correct_rules(name: str) -> None:
    package, file = "rebalance_sim.protocol.versions.", name.replace("-", "_").replace(".", "_")
    for change in SEMANTICS[f"{name}-clean"].changes:
        assert change.__module__ == package + file
        assert not change.__bases__[0].__module__.startswith(package)


def test_unknown_semantics_are_refused_with_the_nearest_name() -> None:
    with pytest.raises(ValueError, match=r"no semantics 'kafka-4\.3-clan'; did you mean"):
        semantics_named("kafka-4.3-clan")


FAMILIES = (MigrationRules, MemberRules, ClassicMemberRules, BrokerRules)
TIES = {
    "first_member",
    "first_converted",
    "assignors",
    "parts",
    "ends_undelayed_phase_at_once",
    "resolution_began_ms",
}
"""What hosts replace: orders of hash maps and of timers, times of tasks beside the coordinator, and
what rules are made of."""

BY_A_VALUE = {"is_behind", "is_used_by_name", "target_in_force", "gives_up"}
"""Methods whose decision depends on a value that versions or defects change."""

FOR_PLUG_INS = {"now_ms", "context", "after_load", "on_members_removed", "computes_target"}
"""What only rules of plug-ins use, and decide: tests/protocol/test_rules_of_ones_own.py."""


@pytest.mark.parametrize("family", FAMILIES)
def test_every_rule_is_changed_by_a_version_or_a_defect(family: type) -> None:
    """A decision that no one makes otherwise is no rule but plain code."""
    of_versions = {change for one in SEMANTICS.values() for change in one.changes}
    of_clients = {change for one in CLIENT_VERSIONS for change in one.changes}
    of_defects = {rule for one in DEFECTS.values() for rule in one.rules}
    every = of_versions | of_clients | of_defects
    changes = {change for change in every if issubclass(family, change.__bases__[0])}
    changed = {name for change in changes for name in vars(change)}
    rules = {name for base in family.__mro__[:-1] for name in vars(base)}
    kept = TIES | BY_A_VALUE | FOR_PLUG_INS
    assert {name for name in rules if not name.startswith("_")} - changed <= kept


def test_a_checker_judges_by_the_version_as_it_was_released() -> None:
    shipped = SEMANTICS["kafka-4.1"]
    switched = shipped.with_defects("KAFKA-19431", "KAFKA-17116", "KAFKA-16555")
    assert switched.as_released == shipped
    assert not switched.as_released.coordinator.filters_target
    clean = SEMANTICS["kafka-4.3"].with_defects("KAFKA-19431")
    assert not clean.coordinator.filters_target
    assert clean.as_released.coordinator.filters_target


def test_releases_name_the_semantics_of_their_brokers() -> None:
    assert RELEASES["4.0"] is RELEASES["4.1"] is SEMANTICS["kafka-4.1"]
    assert RELEASES["4.3"] is SEMANTICS["kafka-4.3"]
    assert RELEASES["4.4"] is DEFAULT_SEMANTICS
