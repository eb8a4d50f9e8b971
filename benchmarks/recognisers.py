"""What would each known issue have excused? Every defect in turn, and what is taken for known then.

    python benchmarks/recognisers.py --plan faulty:2,whole:2 --jobs 2 --out r.jsonl
    python benchmarks/recognisers.py --out r.jsonl --page docs/recognisers.md

Each seed of the plan runs without any defect and then with each defect in turn. What a known issue
explains with the defect, and not without it, is what its recogniser would swallow: with the
recogniser off, it would be a violation. Of each such violation it is counted

  refuted   the run without the known issue shows it all the same: it is reported as a violation
  proven    that run does not show it: the defect makes the known issue show, and does no more
  unproven  that run gave no verdict
  noticed   the run violates something else anyway

The profile ``own`` is the scenario of each defect, with kafka-4.3 unless it is about assignors of
clients. A defect that the version ships with is left out. The same command continues where it
was interrupted; ``--page`` writes the table of what is there, as a page.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from rebalance_sim.invariants.known.catalogue import every_issue, page_of
from rebalance_sim.invariants.known.known_issues import KNOWN_ISSUES
from rebalance_sim.protocol.defects import DEFECTS
from rebalance_sim.protocol.versions.semantics import DEFAULT_SEMANTICS, semantics_named
from rebalance_sim.scenarios.defects import defect_scenario
from rebalance_sim.scenarios.generate.generator import generate
from rebalance_sim.scenarios.result import NOT_REPAIRED, REPAIRED, UNPROVEN, RunResult
from rebalance_sim.scenarios.runner import run
from rebalance_sim.scenarios.scenario import Scenario
from rebalance_sim.scenarios.version import code_version
from rebalance_sim.spark.detection.rules_asked import NOTING, defects_asked, note_rules

PLAN = "own:1,faulty:2,whole:2"
OWN = "own"
REFUTED, PROVEN, NOTICED = "refuted", "proven", "noticed"
FATES = (REFUTED, PROVEN, UNPROVEN, NOTICED)
_FATE_OF = {NOT_REPAIRED: REFUTED, REPAIRED: PROVEN, UNPROVEN: UNPROVEN, "": NOTICED}
MOST_DEFECTS_NAMED = 6


class Unit(NamedTuple):
    """One seed of a profile, with every defect in turn."""

    profile: str
    seed: int
    defects: tuple[str, ...]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plan", default=PLAN, help="profile:seeds, between commas")
    parser.add_argument("--defects", help="ids between commas; without it all of them")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, required=True, help="one JSON object a run")
    parser.add_argument("--page", type=Path, help="write this page, and run nothing")
    options = parser.parse_args()
    if options.page is not None:
        lines = list(_lines(options.out))
        if any(one["code"] != code_version() for one in lines):
            raise SystemExit(f"recognisers: error: {options.out} is of other code")
        options.page.write_text(page(lines), encoding="utf-8")
        return
    defects = tuple(options.defects.split(",") if options.defects else sorted(DEFECTS))
    options.out.parent.mkdir(parents=True, exist_ok=True)
    done = {(line["profile"], line["seed"], line["defect"]) for line in _lines(options.out)}
    units = [
        Unit(profile, seed, tuple(d for d in defects if (profile, seed, d) not in done))
        for profile, seed in _seeds(options.plan)
    ]
    with (
        options.out.open("a", encoding="utf-8") as file,
        multiprocessing.Pool(options.jobs) as pool,
    ):
        for line in pool.imap_unordered(_audit_share, list(_shares(units, options.jobs))):
            file.writelines(json.dumps(one, sort_keys=True) + "\n" for one in line)
            file.flush()


def audit(unit: Unit) -> Iterator[dict[str, Any]]:
    """The lines of one seed, for each of its defects that is not in the version already.

    A defect of which the run without it asks for no rule changes nothing, and is not run.
    """
    bases: dict[str, tuple[RunResult, tuple[str, ...]]] = {}
    for defect in unit.defects:
        scenario = _scenario(unit, defect)
        if scenario is None:
            continue
        if scenario.hash not in bases:
            note_rules()
            base = run(_switched_on(scenario, NOTING), proves_known=False)
            bases[scenario.hash] = base, defects_asked()
        base, asked = bases[scenario.hash]
        result = _with_defect(scenario, defect) if defect in asked else base
        if result is None:
            continue
        explained = {(row.issue, row.property, row.subject) for row in base.known_issues}
        rows = [
            {"issue": row.issue, "property": row.property, "fate": _FATE_OF[row.verdict]}
            for row in result.known_issues
            if (row.issue, row.property, row.subject) not in explained
        ]
        yield {
            "profile": unit.profile,
            "seed": unit.seed,
            "defect": defect,
            "code": code_version(),
            "outcome": result.outcome,
            "is_reached": result.digest != base.digest,
            "rows": rows,
        }


def _scenario(unit: Unit, defect: str) -> Scenario | None:
    """What is run without the defect and with it; None where the version has it already."""
    if unit.profile == OWN:
        if not DEFECTS[defect].has_scenario:
            return None
        scenario = defect_scenario(defect, with_defect=False)
        if not any(client.client_assignors for client in scenario.world.clients):
            world = replace(scenario.world, semantics=DEFAULT_SEMANTICS.name)
            scenario = replace(scenario, world=world)
    else:
        scenario = generate(unit.profile, unit.seed)
    has_defect = defect in semantics_named(scenario.world.semantics).shipped_defects
    return None if has_defect else scenario


def _with_defect(scenario: Scenario, defect: str) -> RunResult | None:
    """The run with the defect; None if this world cannot have it."""
    try:
        scenario = _switched_on(scenario, defect)
    except ValueError:
        return None
    return run(scenario)


def _switched_on(scenario: Scenario, defect: str) -> Scenario:
    return replace(scenario, world=replace(scenario.world, defects=(defect,)))


def _audit_share(unit: Unit) -> list[dict[str, Any]]:
    return list(audit(unit))


def _shares(units: Sequence[Unit], jobs: int) -> Iterator[Unit]:
    """Units in parts small enough to lose little by an interruption."""
    for unit in units:
        size = max(1, len(unit.defects) // (4 * jobs))
        for first in range(0, len(unit.defects), size):
            yield unit._replace(defects=unit.defects[first : first + size])


def _seeds(plan: str) -> Iterator[tuple[str, int]]:
    for part in plan.split(","):
        profile, _, count = part.partition(":")
        yield from ((profile, seed) for seed in range(int(count)))


def _lines(file: Path) -> Iterator[dict[str, Any]]:
    if file.exists():
        for line in file.read_text(encoding="utf-8").splitlines():
            yield json.loads(line)


def page(lines: Sequence[Mapping[str, Any]]) -> str:
    """The page: how much was run, and a row for each recogniser."""
    seeds = Counter(profile for profile, _ in {(one["profile"], one["seed"]) for one in lines})
    asked = ",".join(f"{name}:{count}" for name, count in seeds.items())
    own = "the scenario of each defect, " if seeds.pop(OWN, 0) else ""
    plan = own + ", ".join(f"seeds 0:{count} of `{name}`" for name, count in sorted(seeds.items()))
    defects = {one["defect"] for one in lines}
    reached = {one["defect"] for one in lines if one["is_reached"]}
    counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    by: dict[tuple[str, str], dict[str, None]] = defaultdict(dict)
    for one in lines:
        for row in one["rows"]:
            key = row["issue"], row["property"]
            counts[key][row["fate"]] += 1
            if row["fate"] != NOTICED:
                by[key].setdefault(one["defect"])
    text = [
        "# What recognisers of known issues would excuse",
        "",
        "A *recogniser* explains a violation by a known issue of the simulated version. Would it "
        "excuse other bugs? Each seed runs without a defect and with each "
        "[defect](scenarios.md#defects) in turn. Counted is what a known issue explains with the "
        "defect only. A run without the known issue then decides "
        "([known issue](architecture/known-issue.md)).",
        "",
        "```console parse",
        f"$ python benchmarks/recognisers.py --plan {asked} --out r.jsonl",
        "$ python benchmarks/recognisers.py --out r.jsonl --page docs/recognisers.md",
        "```",
        "",
        f"{len(lines):,} runs: {plan}.",
        f"{len(defects)} defects, {len(reached)} of them reached; commit {_commit()}.",
        "",
        "| column | what the run without the known issue says |",
        "|---|---|",
        "| refuted | it still shows the violation, which is reported |",
        "| proven | it does not: the defect only makes the known issue show |",
        "| unproven | it gave no verdict |",
        "| noticed | it was not made, as the run violates something else |",
        "",
    ]
    if counts:
        text += [
            "| known issue | property | refuted | proven | unproven | noticed | under |",
            "|---|---|---|---|---|---|---|",
        ]
    for issue, property_id in sorted(counts):
        found = counts[issue, property_id]
        named = list(by[issue, property_id])
        under = ", ".join(named[:MOST_DEFECTS_NAMED])
        if len(named) > MOST_DEFECTS_NAMED:
            under += f" and {len(named) - MOST_DEFECTS_NAMED} more"
        cells = (str(found[fate] or "") for fate in FATES)
        link = page_of(issue).page.removeprefix("docs/")
        text.append(f"| [`{issue}`]({link}) | `{property_id}` | {' | '.join(cells)} | {under} |")
    silent = sorted(_recognisers() - counts.keys())
    text += [
        *([""] if counts else []),
        f"{len(silent)} {'other ' if counts else ''}recognisers explained nothing that the runs "
        "without a defect do not:",
        "",
    ]
    for issue, pairs in groupby(silent, key=itemgetter(0)):
        text.append(f"- `{issue}`: {', '.join(f'`{property_id}`' for _, property_id in pairs)}")
    return "\n".join(text) + "\n"


def _commit() -> str:
    words = ["git", "rev-parse", "--short=12", "HEAD"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()


def _recognisers() -> set[tuple[str, str]]:
    known = every_issue()
    return {(e.issue, p) for e in KNOWN_ISSUES if e.issue in known for p in e.property_ids}


if __name__ == "__main__":
    main()
