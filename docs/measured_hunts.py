"""Keeps the last measurements of searches, for docs/hunt.md and docs/pairs.md.

    rebalance-sim hunt --profile calm ... --runs 3000 --corpus results/a --json > results/hunt.json
    rebalance-sim hunt --profile calm ... --runs 3000 --corpus results/b --plain --json > plain.json
    python docs/measured_hunts.py pairs results/hunt.json
    python docs/measured_hunts.py hunt-reach results/hunt.json plain.json
    python benchmarks/hunt.py --starts 20 --out results/hunt-defects.jsonl
    python docs/measured_hunts.py hunt-defects results/hunt-defects.jsonl
    python docs/generate.py
    python docs/draw_pairs.py
    python docs/draw_hunts.py

``--commit`` names the one that was measured; without it, that of this checkout.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from measured import ROOT, write

Rows = list[dict[str, Any]]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kind", choices=("pairs", "hunt-reach", "hunt-defects"))
    parser.add_argument("results", type=Path, nargs="+")
    parser.add_argument("--commit", default="HEAD")
    options = parser.parse_args()
    texts = [path.read_text(encoding="utf-8") for path in options.results]
    match options.kind:
        case "pairs":
            head, rows = _pairs(json.loads(texts[0]))
        case "hunt-reach":
            head, rows = _reach([json.loads(text) for text in texts])
        case _:  # a line for the head, and one for each row
            head, *rows = map(json.loads, texts[0].splitlines())
    write(options.kind, {"commit": commit_of(options.commit), **head}, rows)


def _pairs(hunted: Mapping[str, Any]) -> tuple[dict[str, Any], Rows]:
    """By how many runs of a hunt each pair was visited."""
    counts = {**hunted["reached"], **hunted["settings"]}
    head = {name: hunted[name] for name in ("code", "profiles", "runs")}
    head["cpu_s"] = hunted["rounds"][-1]["cpu_s"]
    pairs = sorted(name for name in counts if name.startswith("pair."))
    return head, [{"pair": name, "runs": counts[name]} for name in pairs]


def _reach(hunts: Sequence[Mapping[str, Any]]) -> tuple[dict[str, Any], Rows]:
    """How far a hunt, and one that did not learn, was after each round."""
    rows = []
    for way, one in zip(("hunt", "plain"), hunts, strict=True):
        names = ("runs", "steps", "cpu_s", "reached", "findings")
        rows += [{"way": way, **{name: row[name] for name in names}} for row in one["rounds"]]
    return {name: hunts[0][name] for name in ("code", "profiles", "runs")}, rows


def commit_of(name: str = "HEAD") -> str:
    """The first digits of a commit of this checkout."""
    done = subprocess.run(
        ["git", "rev-parse", "--short=12", name], cwd=ROOT, capture_output=True, text=True
    )
    return done.stdout.strip()


if __name__ == "__main__":
    main()
