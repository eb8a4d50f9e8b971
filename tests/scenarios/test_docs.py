"""docs/scenarios.md and docs/results.md say what the code says."""

from __future__ import annotations

import re
from pathlib import Path

from rebalance_sim.scenarios.generate.generator import generate
from rebalance_sim.scenarios.runner import JUDGED, run
from rebalance_sim.scenarios.scenario import parse_scenario

DOCS = Path(__file__).parents[2] / "docs"
SCENARIOS = (DOCS / "scenarios.md").read_text(encoding="utf-8")
RESULTS = (DOCS / "results.md").read_text(encoding="utf-8")


def test_the_example_is_a_scenario_in_which_every_property_holds() -> None:
    (example,) = re.findall(r"```toml\n(.*?)```", SCENARIOS, re.DOTALL)
    result = run(parse_scenario(example))
    assert result.outcome == "ok"
    assert JUDGED in result.coverage


def test_every_metric_is_explained() -> None:
    explained = re.findall(r"^\| `(\w+)` \| ", RESULTS.split("## Metrics of a run")[1], re.M)
    # A mean, or the longest of several, is left out where there is none; over some seeds, all are.
    measured = {name for seed in range(4) for name in run(generate("faulty", seed)).metrics}
    assert sorted(explained) == sorted(measured)
