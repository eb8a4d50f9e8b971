"""Keeps the last measurement of what sweeps notice, for docs/detection.md.

    rebalance-sim defects --shrink --out results/defects --json > results/defects.json
    python docs/measured.py defects results/defects.json
    python benchmarks/mutation.py --count 300 --seed 1 --out results/mutants.jsonl
    python docs/measured.py mutants results/mutants.jsonl
    python docs/generate.py

The commit is that of this checkout; a measurement of other code is refused.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rebalance_sim.scenarios.version import code_version

ROOT = Path(__file__).parent.parent
FOLDER = Path(__file__).parent / "measured"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kind", choices=("defects", "mutants"))
    parser.add_argument("results", type=Path, nargs="+")
    options = parser.parse_args()
    texts = [path.read_text(encoding="utf-8") for path in options.results]
    if options.kind == "defects":
        heads = [json.loads(text) for text in texts]
        rows = [row for head in heads for row in head.pop("defects")]
    else:
        lists = [[json.loads(line) for line in text.splitlines()] for text in texts]
        heads = [parts[0] for parts in lists]
        rows = [row for parts in lists for row in parts[1:]]
    for head in heads:
        if head["code"] != code_version():
            raise SystemExit(f"measured: error: of code {head['code']}, not {code_version()}")
    seeds = {"seed": ", ".join(str(head["seed"]) for head in heads)} if "seed" in heads[0] else {}
    write(options.kind, {"commit": _commit(), **heads[0], **seeds}, rows)


def write(kind: str, head: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> None:
    """One row a line, so that two measurements can be compared."""
    lines = ",\n  ".join(json.dumps(row, ensure_ascii=False) for row in rows)
    opening = json.dumps(dict(head), ensure_ascii=False)[1:-1]
    FOLDER.mkdir(exist_ok=True)
    text = f'{{{opening}, "rows": [\n  {lines}\n]}}\n'
    (FOLDER / f"{kind}.json").write_text(text, encoding="utf-8")


def _commit() -> str:
    done = subprocess.run(
        ["git", "rev-parse", "--short=12", "HEAD"], cwd=ROOT, capture_output=True, text=True
    )
    return done.stdout.strip()


if __name__ == "__main__":
    main()
