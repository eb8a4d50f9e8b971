"""A violation says which faults were open when it happened."""

from __future__ import annotations

from dataclasses import replace

from rebalance_sim.scenarios.defects import defect_scenario
from rebalance_sim.scenarios.runner import run
from rebalance_sim.sim.faults.clients import MetadataLag


def test_a_violation_names_the_faults_that_were_open() -> None:
    scenario = defect_scenario("mut-early-grant")
    slow = "callback_slowdown(a) since 3000 ms"
    [row] = run(scenario).violations
    assert row.open_faults == (slow,)
    # Java's consumers of the new protocol learn names from metadata only: nothing else changes.
    over, meanwhile, later = (
        MetadataLag(at_ms=at_ms, duration_ms=length_ms, client="b")
        for at_ms, length_ms in ((500, 10), (row.at_ms - 2, 3), (row.at_ms + 1, 10))
    )
    world = replace(scenario.world, faults=(*scenario.world.faults, over, meanwhile, later))
    [again] = run(replace(scenario, world=world)).violations
    assert again.at_ms == row.at_ms
    assert again.open_faults == (slow, f"metadata_lag(b) since {meanwhile.at_ms} ms")
