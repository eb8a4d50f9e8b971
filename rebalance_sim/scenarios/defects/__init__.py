"""A scenario for each defect that shows: ``ID.toml``, as small as its author could make it.

Running it reports a violated property, or makes a metric larger; running it without the defect
reports nothing. Some defects are in shipped versions (``Semantics.shipped_defects``): their
scenarios run a version that has not got them, or lie in ``scenarios/known_issues``, where they show
as known issues of the version, and as violated properties if they are switched on.
"""

from __future__ import annotations

from dataclasses import replace
from importlib.resources import files
from importlib.resources.abc import Traversable

from rebalance_sim.invariants.property import Property
from rebalance_sim.protocol.defects import DEFECTS, Defect
from rebalance_sim.scenarios.errors import ScenarioError, did_you_mean
from rebalance_sim.scenarios.scenario import Scenario, parse_scenario

__all__ = ["defect_scenario", "scenario_files", "shows_in"]


def scenario_files() -> dict[str, Traversable]:
    """Every scenario file of a defect, by the id of the defect."""
    folders = (files("rebalance_sim.scenarios") / "known_issues", files(__name__))
    return {
        entry.name.removesuffix(".toml"): entry
        for folder in folders
        for entry in folder.iterdir()
        if entry.name.endswith(".toml")
    }


def shows_in(item: type[Property], defect: Defect) -> bool:
    """Whether a run that violates this property has shown the defect."""
    return defect.id in item.violated_by or not set(defect.properties).isdisjoint(item.clauses)


def defect_scenario(defect_id: str, *, with_defect: bool = True) -> Scenario:
    """The scenario that reaches a defect; without the defect it is an ordinary run.

    Raises ScenarioError for an unknown id, and for a defect that does not show in this world.
    """
    if defect_id not in DEFECTS:
        raise ScenarioError(f"no defect {defect_id!r}; {did_you_mean(defect_id, DEFECTS)}")
    if not DEFECTS[defect_id].has_scenario:
        raise ScenarioError(f"defect {defect_id} has no scenario: {DEFECTS[defect_id].unobserved}")
    file = scenario_files()[defect_id]
    try:
        scenario = parse_scenario(file.read_text(encoding="utf-8"))
    except ScenarioError as problem:
        raise problem.within(file.name) from None
    defects = (defect_id,) if with_defect else ()
    return replace(scenario, world=replace(scenario.world, defects=defects))
