"""The world of a scenario."""

from __future__ import annotations

from typing import Any

from rebalance_sim.scenarios.quiet import quiet_period_ms
from rebalance_sim.scenarios.scenario import Scenario
from rebalance_sim.sim.world import World


def world_of(scenario: Scenario, **options: Any) -> World:
    """A world that has not begun, with the budget and the quiet period of the scenario; ``options``
    are those of ``World``."""
    return World(
        scenario.world,
        max_steps=scenario.max_steps,
        quiet_period_ms=quiet_period_ms(scenario.world),
        phases=scenario.phases,
        **options,
    )
