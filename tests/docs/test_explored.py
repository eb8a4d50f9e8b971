"""The scenarios of docs/explored/ show what the page says."""

from __future__ import annotations

import json

import pytest
from pages import ROOT

from rebalance_sim.invariants.engine.discovery import PROPERTIES
from rebalance_sim.scenarios.runner import run
from rebalance_sim.scenarios.scenario import load_scenario

FOLDER = ROOT / "docs" / "explored"
ROWS = json.loads((ROOT / "docs" / "measured" / "explored.json").read_text(encoding="utf-8"))[
    "rows"
]
FOUND = [row for row in ROWS if row["steps"]]


def test_each_issue_that_was_reached_has_its_scenario() -> None:
    assert {path.stem for path in FOLDER.glob("*.toml")} == {row["issue"] for row in FOUND}


@pytest.mark.parametrize("row", FOUND, ids=lambda row: row["issue"])
def test_a_scenario_violates_what_the_page_says(row: dict[str, object]) -> None:
    scenario = load_scenario(FOLDER / f"{row['issue']}.toml")
    assert scenario.defects == (row["issue"],)
    asked = [one for one in PROPERTIES if one.id == row["property"]]
    violated = {one.property for one in run(scenario, properties=asked).violations}
    assert (row["property"] in violated) == row["is_confirmed"]
