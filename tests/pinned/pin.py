"""Write the pinned runs: what must not change where only the structure of the code does.

    python tests/pinned/pin.py

A change of structure leaves ``pinned.json`` as it is. A change of behaviour writes it again, in the
commit that makes the change, which says what moved and why.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from rebalance_sim.protocol.defects import DEFECTS
from rebalance_sim.scenarios.counterfactual import Prove
from rebalance_sim.scenarios.defects import defect_scenario
from rebalance_sim.scenarios.generate.generator import generate
from rebalance_sim.scenarios.profile_file import PROFILES
from rebalance_sim.scenarios.runner import run
from rebalance_sim.scenarios.scenario import Scenario, load_scenario

PINNED = Path(__file__).with_name("pinned.json")
KNOWN_ISSUE_FILES = Path(__file__).parents[2] / "scenarios" / "known_issues"
SEEDS = range(8)


def scenarios() -> Iterator[tuple[str, Scenario]]:
    """Every pinned scenario by name: seeds of each profile, each defect, each known issue."""
    for profile in PROFILES:
        for seed in SEEDS:
            yield f"profile/{profile}/{seed}", generate(profile, seed=seed)
    for defect_id, defect in sorted(DEFECTS.items()):
        if defect.has_scenario:
            yield f"defect/{defect_id}", defect_scenario(defect_id)
    for file in sorted(KNOWN_ISSUE_FILES.glob("*.toml")):
        yield f"limit/{file.stem}", load_scenario(file)


def pin(scenario: Scenario) -> dict[str, object]:
    """What is pinned of one run."""
    result = run(scenario, prove=Prove.ALL)  # Causes, which take longest, are not pinned.
    return {
        "digest": result.digest,
        "steps": result.steps,
        "outcome": result.outcome,
        "violated": sorted({row.property for row in result.violations}),
        "known": sorted(result.known),
    }


def pinned() -> dict[str, dict[str, object]]:
    """What was pinned, by the names of scenarios."""
    pins: dict[str, dict[str, object]] = json.loads(PINNED.read_text(encoding="utf-8"))
    return pins


def main() -> None:
    """Run every scenario, and write what came of it, a line each."""
    lines = (f'"{name}": {json.dumps(pin(scenario))}' for name, scenario in scenarios())
    PINNED.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
