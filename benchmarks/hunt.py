"""A hunt against plain seeds, for the same processor time.

    python benchmarks/hunt.py --starts 5 --cap-steps 300_000 --out results/hunt-defects.jsonl

What it takes until a run notices a defect that is not there without it, for each defect, start and
way; ``noticed`` is ``null`` where the cap came first. What is compared is checked steps, which are
the same each time: processor seconds differ by half on a busy machine. Both ways count pairs, run
rounds of the same size, one after another in this process, and begin with the same seeds; one of
them learns. A start ``n`` begins with seed ``10,000 n``. The same command continues where it was
interrupted.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from time import process_time
from typing import Any

from rebalance_sim.protocol.versions.semantics import SEMANTICS
from rebalance_sim.scenarios.errors import ScenarioError
from rebalance_sim.scenarios.generate.generator import generate
from rebalance_sim.scenarios.hunt.evaluation import evaluate
from rebalance_sim.scenarios.hunt.hunt import Corpus, Hunt
from rebalance_sim.scenarios.scenario import Scenario
from rebalance_sim.scenarios.version import code_version
from rebalance_sim.spark.detection.mix import is_shipped

DEFECTS = (
    "sim-late-answer",
    "mut-commit-no-fence",
    "mut-client-leave-needs-success",
    "mut-no-epoch-fence",
    "mut-keeps-failed-batch",
    "mut-client-adopts-late-answers",
)
PROFILE = "chaos"
ROUND = 12
SEEDS_BETWEEN = 10_000
WAYS = ("plain", "hunt")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--starts", type=int, default=5)
    parser.add_argument("--cap-steps", type=int, default=300_000)
    parser.add_argument("--profile", default=PROFILE)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    head = {"code": code_version(), "cap_steps": options.cap_steps, "profile": options.profile}
    begun = _read(options.out)
    if begun and begun[0] != head:
        raise SystemExit(f"hunt: error: {options.out} holds {begun[0]}, not {head}: a new file")
    if not begun:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        _append(options.out, head)
    done = {(row["defect"], row["start"], row["way"]) for row in begun[1:]}
    for start in range(options.starts):
        for defect in DEFECTS:
            for way in WAYS:
                if (defect, start, way) not in done:
                    row = _search(options, defect, start, way)
                    _append(options.out, row)
                    print(json.dumps(row), flush=True)


def _search(options: argparse.Namespace, defect: str, start: int, way: str) -> dict[str, Any]:
    hunt = Hunt(
        Corpus(),
        lambda seed: _scenario(options.profile, defect, seed),
        start_seed=start * SEEDS_BETWEEN,
        learns=way == "hunt",
    )
    corpus, noticed = hunt.corpus, None
    runs = steps = 0
    begun_s = process_time()
    while noticed is None and steps < options.cap_steps:
        candidates = hunt.next_round(ROUND)
        evaluations = []
        for candidate in candidates:
            evaluation = evaluate(candidate.scenario)
            evaluations.append(evaluation)
            runs, steps = runs + 1, steps + evaluation.steps
            is_noticed = (
                evaluation.is_finding
                and not evaluate(_without(candidate.scenario, defect)).is_finding
            )
            if is_noticed:
                noticed = {"by": evaluation.what, "made": candidate.made}
                break
        else:
            hunt.merge(candidates, evaluations)
    return {
        "defect": defect,
        "start": start,
        "way": way,
        "noticed": noticed,
        "runs": runs,
        "steps": steps,
        "cpu_s": round(process_time() - begun_s, 2),
        "of_others": corpus.findings.total(),
    }


def _scenario(profile: str, defect: str, seed: int) -> Scenario:
    """A seed of the profile with a defect; in the version without it, if it shipped with one."""
    scenario = generate(profile, seed)
    semantics = scenario.world.semantics
    if is_shipped(defect) and f"{semantics}-clean" in SEMANTICS:
        semantics = f"{semantics}-clean"
    try:
        world = replace(scenario.world, semantics=semantics, defects=(defect,))
    except ValueError as problem:
        raise ScenarioError(str(problem)) from problem
    return replace(scenario, world=world)


def _without(scenario: Scenario, defect: str) -> Scenario:
    kept = tuple(one for one in scenario.world.defects if one != defect)
    return replace(scenario, world=replace(scenario.world, defects=kept))


def _read(file: Path) -> list[Any]:
    return list(_lines(file)) if file.exists() else []


def _lines(file: Path) -> Iterator[Any]:
    for line in file.read_text(encoding="utf-8").splitlines():
        yield json.loads(line)


def _append(file: Path, row: Any) -> None:
    with file.open("a", encoding="utf-8") as lines:
        lines.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
