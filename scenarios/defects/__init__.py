"""The defects: defects that a run can switch on, each with a scenario that reaches it.

A defect is a replaced rule of the protocol or of a broker, off by default. Beside this file there
is a TOML file for each id, a scenario as small as its author could make it, with the defect on:
running it reports a violated property, running it without the defect reports none.

Some defects are in shipped versions (``Semantics.shipped_defects``); their scenarios run the text
of the KIP, which has none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.resources import files
from types import MappingProxyType

from rebalance_sim.invariants.property import Property
from rebalance_sim.scenarios.codec import decode
from rebalance_sim.scenarios.errors import ScenarioError, did_you_mean
from rebalance_sim.scenarios.scenario import Scenario, parse_scenario, parse_toml

__all__ = ["DEFECTS", "Defect", "defect_scenario"]

_COMPONENTS = ("coordinator", "client", "assignor", "broker")


@dataclass(frozen=True, slots=True, kw_only=True)
class Defect:
    """One defect.

    ``properties`` are clauses of which a run has to report one: defects S1-S9,
    L1-L8, client C1-C28. Where no property is violated, ``measured`` is the metric
    that the defect makes larger; where nothing shows at all, ``unobserved`` says why.
    """

    id: str
    component: str
    title: str
    properties: tuple[str, ...]
    source: str
    measured: str = ""
    unobserved: str = ""

    @property
    def has_scenario(self) -> bool:
        """Whether there is a scenario in which the defect shows."""
        return not self.unobserved

    def is_shown_by(self, item: type[Property]) -> bool:
        """Whether a run that violates this property has shown the defect."""
        return self.id in item.violated_by or not set(self.properties).isdisjoint(item.clauses)

    def __post_init__(self) -> None:
        if self.component not in _COMPONENTS:
            remedy = did_you_mean(self.component, _COMPONENTS)
            raise ScenarioError(f"no such component; {remedy}", place="component")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Register:
    defect: tuple[Defect, ...]


def defect_scenario(defect_id: str, *, with_defect: bool = True) -> Scenario:
    """The scenario that reaches a defect; without the defect it is an ordinary run.

    Raises ScenarioError for an unknown id, and for a defect that does not show in this world.
    """
    if defect_id not in DEFECTS:
        raise ScenarioError(f"no defect {defect_id!r}; {did_you_mean(defect_id, DEFECTS)}")
    if not DEFECTS[defect_id].has_scenario:
        raise ScenarioError(f"defect {defect_id} has no scenario: {DEFECTS[defect_id].unobserved}")
    name = f"{defect_id}.toml"
    try:
        scenario = parse_scenario(
            (files("rebalance_sim.scenarios.defects") / name).read_text(encoding="utf-8")
        )
    except ScenarioError as problem:
        raise problem.within(name) from None
    defects = (defect_id,) if with_defect else ()
    return replace(scenario, world=replace(scenario.world, defects=defects))


def _load() -> Mapping[str, Defect]:
    text = (files("rebalance_sim.scenarios.defects") / "defects.toml").read_text(encoding="utf-8")
    return MappingProxyType({d.id: d for d in decode(_Register, parse_toml(text)).defect})


DEFECTS: Mapping[str, Defect] = _load()
"""Every defect by id."""
