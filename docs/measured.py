"""Keeps the last measurements that pages show: what sweeps notice, and what experiments answer.

    rebalance-sim defects --seeds 120 --enough 1 --out results/defects --json > defects.json
    python docs/measured.py defects defects.json
    python benchmarks/mutation.py --count 300 --seed 1 --out results/mutants.jsonl
    python docs/measured.py mutants results/mutants.jsonl
    python docs/measured.py reading results/reading.jsonl
    rebalance-sim experiment experiments/failover.toml --backend pool --out results/failover
    python docs/measured.py failover results/failover
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

from experiment_tables import RESTART

import rebalance_sim as rs
from rebalance_sim.scenarios.experiment import load_experiment
from rebalance_sim.scenarios.version import code_version

ROOT = Path(__file__).parent.parent
FOLDER = Path(__file__).parent / "measured"
KINDS = ("defects", "mutants", "reading")
EXPERIMENTS = tuple(sorted(file.stem for file in (ROOT / "experiments").glob("*.toml")))
RESTART_MS = 30_000
"""When the restart of experiments/failover.toml begins, from which on RESTART counts."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kind", choices=(*KINDS, *EXPERIMENTS))
    parser.add_argument("results", type=Path, nargs="+")
    parser.add_argument(
        "--again", action="store_true", help="defects that were measured again: only these change"
    )
    options = parser.parse_args()
    if options.kind in EXPERIMENTS:
        [folder] = options.results
        keep_experiment(options.kind, folder)
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
        # Of a mutant that was judged again, the last row counts.
        rows = list(
            {
                (row["place"], row["code"], row["change"]): row
                for parts in lists
                for row in parts[1:]
            }.values()
        )
    for head in heads:
        _check_code(head["code"])
    if options.again:
        keep_again(options.kind, heads, rows)
        return
    seeds = {"seed": ", ".join(str(head["seed"]) for head in heads)} if "seed" in heads[0] else {}
    write(options.kind, {"commit": _commit(), **heads[0], **seeds}, rows)


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


def keep_experiment(kind: str, folder: Path) -> None:
    """The runs of an experiment: what was varied, the outcome, and the metrics of interest."""
    frame = rs.read_experiment(folder)
    for code in rs.read_table(folder, "runs")["code_version"].unique():
        _check_code(code)
    experiment = load_experiment(ROOT / "experiments" / f"{kind}.toml")
    varied = [parameter.name for parameter in experiment.vary]
    of_run, added = ["seed", "cell", "protocol"], []
    if kind == "failover":
        rebalances = rs.read_rebalances(folder)
        late = rebalances[rebalances["at_ms"] >= RESTART_MS].groupby(of_run)
        sums = late["unowned_partition_ms"].sum().rename(RESTART)
        frame = frame.merge(sums, how="left", on=of_run).fillna({RESTART: 0})
        added = [RESTART]
    columns = [*of_run[:2], *varied, *of_run[2:], "semantics", "outcome", *added]
    rows = json.loads(frame[[*columns, *experiment.metrics]].to_json(orient="records"))
    seeds = int(frame["seed"].nunique())
    write(kind, {"commit": _commit(), "code": code_version(), "seeds": seeds, "note": ""}, rows)


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
