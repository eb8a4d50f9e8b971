"""docs/scenarios.md and docs/results.md say what the code says."""

from __future__ import annotations

import re
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from rebalance_sim.scenarios.defects import defect_scenario
from rebalance_sim.scenarios.generate.generator import generate
from rebalance_sim.scenarios.runner import JUDGED, run
from rebalance_sim.scenarios.scenario import parse_scenario
from rebalance_sim.sim.phases import OF_THE_RUN, Phase

DOCS = Path(__file__).parents[2] / "docs"
SCENARIOS = (DOCS / "scenarios.md").read_text(encoding="utf-8")
RESULTS = (DOCS / "results.md").read_text(encoding="utf-8")
(EXAMPLE,) = re.findall(r"```toml\n(.*?)```", SCENARIOS, re.DOTALL)
OF_A_PHASE = "### Metrics of a phase"
PARTS = re.findall(r"```toml parse\n(.*?)```", SCENARIOS, re.DOTALL)


def test_the_example_is_a_scenario_in_which_every_property_holds() -> None:
    result = run(parse_scenario(EXAMPLE))
    assert result.outcome == "ok"
    assert JUDGED in result.coverage


@pytest.mark.parametrize("part", PARTS)
def test_a_part_of_a_scenario_fits_into_the_example(part: str) -> None:
    """Its clients and brokers take the place of the example's, its faults are added to it."""
    example, added = tomllib.loads(EXAMPLE)["world"], tomllib.loads(part)["world"]
    world: dict[str, Any] = {**example, "duration_ms": 60_000}
    world["clients"] = added.get("clients", world["clients"])
    world["faults"] = world["faults"] + added.get("faults", [])
    world["brokers"] = added.get("brokers", {})
    world["data_plane"] = added.get("data_plane", False)
    world["config"] = {**world["config"], **added.get("config", {})}
    world["config"]["group_consumer_max_session_timeout_ms"] = 45_000
    del world["quiet_period_ms"]
    if "clients" in added:
        world["semantics"] = "kip-848"
    scenario = parse_scenario(tomli_w.dumps({"name": "a part", "world": world}))
    assert run(scenario).outcome in ("ok", "known")  # a failed write shows a known issue


def test_every_metric_is_explained() -> None:
    of_runs = RESULTS.split("## Metrics of a run")[1].split(OF_A_PHASE)[0]
    explained = re.findall(r"^\| `(\w+)` \| ", of_runs, re.M)
    # A mean, or the longest of several, is left out where there is none; over some seeds, all are.
    drawn = [generate("faulty", seed) for seed in range(8)]
    drawn += [generate("applications", seed) for seed in range(4)]
    drawn += [generate("transactions", seed) for seed in range(2)]
    drawn += [defect_scenario("mut-aborted-shown")]  # It has an output topic.
    assert any(scenario.world.data_plane for scenario in drawn)
    measured = {name for scenario in drawn for name in run(scenario).metrics}
    assert sorted(explained) == sorted(measured)


def test_what_no_phase_has_is_said() -> None:
    rows = RESULTS.split(OF_A_PHASE)[1].split("\n## ")[0].splitlines()
    [row] = [row for row in rows if "not given" in row]
    assert set(re.findall(r"`(\w+)`", row)) == OF_THE_RUN
    scenario = replace(generate("faulty", 3), phases=(Phase(name="all"),))
    metrics = run(scenario).metrics
    of_run = {name for name in metrics if "." not in name}
    of_phase = {name.partition(".")[2] for name in metrics if "." in name}
    assert of_run - of_phase <= OF_THE_RUN | {"settling_ms"}
    assert of_phase - of_run == {"duration_ms"}
