"""Keeps the last measurements that pages show: what sweeps notice, and protocols side by side.

    rebalance-sim defects --out results/defects --json > results/defects.json
    rebalance-sim defects KAFKA-9801 --profiles classic --out results/defects --json > later.json
    python docs/measured.py defects results/defects.json later.json
    python benchmarks/mutation.py --count 300 --seed 1 --out results/mutants.jsonl
    python docs/measured.py mutants results/mutants.jsonl
    rebalance-sim compare --profile production --seeds 0:60 --out results/production
    python docs/measured.py comparison results/production
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

import rebalance_sim as rs
from rebalance_sim.scenarios.result import PASSING
from rebalance_sim.scenarios.version import code_version

ROOT = Path(__file__).parent.parent
FOLDER = Path(__file__).parent / "measured"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kind", choices=("defects", "mutants", "comparison"))
    parser.add_argument("results", type=Path, nargs="+")
    parser.add_argument(
        "--again", action="store_true", help="defects that were measured anew: only these change"
    )
    options = parser.parse_args()
    if options.kind == "comparison":
        for folder in options.results:
            keep_comparison(folder)
        return
    texts = [path.read_text(encoding="utf-8") for path in options.results]
    if options.kind == "defects":
        heads = [json.loads(text) for text in texts]
        rows = [
            row | {"profiles": head["profiles"]} for head in heads for row in head.pop("defects")
        ]
    else:
        lists = [[json.loads(line) for line in text.splitlines()] for text in texts]
        heads = [parts[0] for parts in lists]
        rows = [row for parts in lists for row in parts[1:]]
    for head in heads:
        _check_code(head["code"])
    if options.again:
        keep_again(options.kind, heads, rows)
        return
    seeds = {"seed": ", ".join(str(head["seed"]) for head in heads)} if "seed" in heads[0] else {}
    write(options.kind, {"commit": _commit(), **heads[0], **seeds}, rows)


def keep_comparison(folder: Path) -> None:
    """The medians of a finished comparison, with outcomes by protocol."""
    plan = json.loads((folder / "plan.json").read_text(encoding="utf-8"))
    names = [variant["protocol"] for variant in plan["variants"]]
    runs = rs.read_table(folder, "runs")
    for code in runs["code_version"].unique():
        _check_code(code)
    passed = runs["outcome"].isin(sorted(PASSING)).groupby(runs["seed"]).all()
    head = {
        "code": code_version(),
        "seeds": f"{runs['seed'].min()}:{runs['seed'].max() + 1}",
        "compared": int(passed.sum()),
        "outcomes": {
            name: runs["outcome"][runs["protocol"] == name].value_counts().to_dict()
            for name in names
        },
    }
    [profile] = {variant["profile"] for variant in plan["variants"]}
    rows = json.loads(rs.read_comparison(folder).to_json(orient="records"))
    write(f"comparison-{profile}", {"commit": _commit(), **head}, rows)


def keep_again(
    kind: str, heads: Sequence[Mapping[str, Any]], rows: Sequence[Mapping[str, Any]]
) -> None:
    """Defects of the mix that newer code was measured with: their rows name its commit."""
    kept = json.loads((FOLDER / f"{kind}.json").read_text(encoding="utf-8"))
    for head in heads:
        if head["profiles"] or head["seeds"] != kept["seeds"]:
            raise SystemExit(f"measured: error: not the {kept['seeds']} runs of the others")
    commit = _commit()
    again = {row["defect"]: {**row, "commit": commit} for row in rows}
    others = [row for row in kept.pop("rows") if row["defect"] not in again]
    write(kind, kept, [*others, *again.values()])


def _check_code(measured: str) -> None:
    if measured != code_version():
        raise SystemExit(f"measured: error: of code {measured}, not {code_version()}")


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
