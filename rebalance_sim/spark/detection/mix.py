"""Which runs every defect is measured with."""

from __future__ import annotations

from dataclasses import replace

from rebalance_sim.protocol.versions.semantics import SEMANTICS
from rebalance_sim.scenarios.generate.generator import generate
from rebalance_sim.scenarios.scenario import Scenario

OTHERS = (
    *("calm", "faulty", "chaos", "operations", "classic", "migration"),
    *("client_assignors", "transactions"),
)
MIX = tuple(name for other in OTHERS for name in ("dense", other))
"""Profiles in turn: run ``n`` is seed ``n`` of profile ``n`` modulo their number. One more moves
all that was measured. ``dense`` stands for the profiles with long runs: it draws what they draw,
and notices more for the same processor time; ``client_assignors`` and ``transactions`` are there
for what it seldom or never draws."""


def profile_of(index: int) -> str:
    """The profile of a run of the mix."""
    return MIX[index % len(MIX)]


def scenario_of(index: int, *, defect_id: str = "") -> Scenario:
    """A run of the mix, with a defect switched on or, for ``""``, without.

    The version is without the defects that it shipped with, so that nothing but the one that is
    switched on can be why a property is violated.
    """
    scenario = generate(profile_of(index), index)
    semantics = scenario.world.semantics
    if f"{semantics}-clean" in SEMANTICS:
        semantics = f"{semantics}-clean"
    defects = (defect_id,) if defect_id else ()
    return replace(scenario, world=replace(scenario.world, semantics=semantics, defects=defects))


def command_of(index: int, defect_id: str) -> str:
    """What to type to see a run with the defect again."""
    semantics = scenario_of(index, defect_id=defect_id).world.semantics
    settings = f"--set world.semantics={semantics} --set 'world.defects=[\"{defect_id}\"]'"
    return f"rebalance-sim run --profile {profile_of(index)} --seed {index} {settings}"


def is_shipped(defect_id: str) -> bool:
    """Whether some version shipped with the defect."""
    return any(defect_id in one.shipped_defects for one in SEMANTICS.values())
