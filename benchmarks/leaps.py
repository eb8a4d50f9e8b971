"""Whether runs that leap over rest come to the same as step by step, seed by seed.

    python benchmarks/leaps.py --out results/leaps.jsonl mix=0:5000 production=0:500

Each seed is run both ways, without proofs; a line of the file for each, and seeds that are in it
are not run again. Profiles take turns; those of ``mix`` are those of ``rebalance-sim defects``.
What differs beyond the tolerance that is declared in ``scenarios/leaping.py`` is listed: of runs
whose only leap is to their end everything, of the others, which draw other delays after a leap,
outcome, length and violated properties.

For the latter the sums of each metric are compared, leaping divided by step by step, with the
interval in which 95 of 100 draws of as many seeds, with repetition, lie: chance, if 1 is in it.
Where few seeds make most of a sum, in how many runs it is more, and less, says more than that.
"""

from __future__ import annotations

import argparse
import json
import random
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from time import process_time
from typing import Any

from rebalance_sim.scenarios.counterfactual import Prove
from rebalance_sim.scenarios.generate.generator import generate
from rebalance_sim.scenarios.leaping import differences
from rebalance_sim.scenarios.result import RunResult
from rebalance_sim.scenarios.runner import run
from rebalance_sim.spark.detection.mix import profile_of

DRAWS = 1_000
LEAST = 0.05
"""Ratios closer to one are not listed, unless chance is not the reason of it."""

Row = Mapping[str, Any]


def main() -> None:
    """Run what is missing, and say what differs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("seeds", nargs="*", metavar="PROFILE=FROM:TO", help="none: what is there")
    options = parser.parse_args()
    rows = list(_read(options.out))
    known = {(row["profile"], row["seed"]) for row in rows}
    with options.out.open("a") as out:
        for profile, seed in in_turn(options.seeds):
            if (profile, seed) not in known:
                rows.append(compared(profile, seed))
                out.write(json.dumps(rows[-1]) + "\n")
                out.flush()
    for profile in sorted({row["profile"] for row in rows}):
        report(profile, [row for row in rows if row["profile"] == profile])


def _read(path: Path) -> Iterator[Row]:
    if path.exists():
        yield from map(json.loads, path.read_text().splitlines())


def in_turn(ranges: list[str]) -> Iterator[tuple[str, int]]:
    """The seeds of all ranges, spread evenly over them."""
    found = []
    for text in ranges:
        profile, _, seeds = text.partition("=")
        begin, end = map(int, seeds.split(":"))
        found += [((n + 1) / (end - begin), profile, begin + n) for n in range(end - begin)]
    return ((profile, seed) for _, profile, seed in sorted(found))


def compared(profile: str, seed: int) -> Row:
    """A seed, both ways."""
    scenario = generate(profile_of(seed) if profile == "mix" else profile, seed)
    start_s = process_time()
    leapt = run(scenario, prove=Prove.NONE, leaps=True)
    between_s = process_time()
    whole = run(scenario, prove=Prove.NONE) if leapt.leaps else leapt
    row: dict[str, Any] = {
        "profile": profile,
        "seed": seed,
        "leaps": len(leapt.leaps),
        "cpu_s": [between_s - start_s, process_time() - between_s],
        "steps": [leapt.steps, whole.steps],
    }
    if leapt.leaps:
        alike = leapt.leaps[0][0] >= scenario.world.duration_ms
        found = list(differences(leapt, whole, draws_alike=alike))
        issues = [sorted(_issues(leapt)), sorted(_issues(whole))]
        if issues[0] != issues[1]:
            found.append(f"known issues {issues[0]}, not {issues[1]}")
        row |= {"alike": alike, "differs": found, "metrics": [leapt.metrics, whole.metrics]}
    return row


def _issues(result: RunResult) -> set[str]:
    """Known issues that showed, or may be the reason of what is violated."""
    suspected = (issue for one in result.suspected for issue in one.issues)
    return {*result.known, *(row.issue for row in result.known_issues), *suspected}


def report(profile: str, rows: list[Row]) -> None:
    """What came of a profile."""
    leaping = [row for row in rows if row["leaps"]]
    between = [row for row in leaping if not row["alike"]]
    whole_s = sum(row["cpu_s"][1] if row["leaps"] else row["cpu_s"][0] for row in rows)
    leapt_s = sum(row["cpu_s"][0] for row in rows)
    print(
        f"{profile}: n={len(rows):,}, {len(leaping):,} leap, {len(between):,} of them between "
        f"faults; CPU {leapt_s:,.0f} s, step by step {whole_s:,.0f} s"
    )
    for alike, name in ((True, "to the end"), (False, "between")):
        found = [row for row in leaping if row["alike"] is alike and row["differs"]]
        kinds = Counter(line.split()[0] for row in found for line in row["differs"])
        print(f"  {len(found)} differ, leap {name}: {dict(kinds.most_common())}")
        for row in found:
            print(f"    seed {row['seed']}: {'; '.join(row['differs'])}")
    pairs = [row["metrics"] for row in between]
    for metric in sorted({name for pair in pairs for name in pair[0]} if pairs else ()):
        values = [(pair[0].get(metric, 0), pair[1].get(metric, 0)) for pair in pairs]
        found_ratio = _ratio(values)
        if found_ratio is None or "." in metric:
            continue
        low, high = _interval(values)
        is_chance = low <= 1 <= high
        if abs(found_ratio - 1) >= LEAST or not is_chance:
            said = "chance" if is_chance else "NOT CHANCE"
            more, less = (sum(one * (a - b) > 0 for a, b in values) for one in (1, -1))
            counts = f"more in {more} runs, less in {less}"
            print(f"  {metric}: {found_ratio:.3f} ({low:.3f} to {high:.3f}) {said}; {counts}")


def _ratio(values: list[tuple[float, float]]) -> float | None:
    whole = sum(value for _, value in values)
    return sum(value for value, _ in values) / whole if whole else None


def _interval(values: list[tuple[float, float]]) -> tuple[float, float]:
    rng = random.Random(0)
    draws = (_ratio(rng.choices(values, k=len(values))) for _ in range(DRAWS))
    found = sorted(one for one in draws if one is not None)
    return found[len(found) // 40], found[-1 - len(found) // 40]


if __name__ == "__main__":
    main()
