"""How like a gateway is to a broker, beside how like a broker is to itself.

Run: ``python benchmarks/likeness.py FIRST SECOND``. Both are folders of recordings of the same
scripts by real brokers of one version (``rebalance-sim record``). A gateway of that version is
recorded with the scripts of the first, and compared with it, as the second is; what counts as
equal is said in ``trace_likeness.py``. Each prints n and its share, and the
quotient of both: 1 means that a gateway differs from a recorded broker no sooner than another run
of that broker is.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trace_likeness import Likeness, likeness, total

import rebalance_sim as rs
from rebalance_sim.cli.main import invoke
from rebalance_sim.protocol.runtime.coordinator_config import CoordinatorConfig

Traces = Mapping[str, Mapping[str, Any]]


def load(folder: Path) -> Traces:
    """The recordings of a folder, by name."""
    return {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}


def of_gateway(first: Path, folder: Path) -> Traces:
    """The same scripts, asked of a gateway, with the logs that it has written."""
    scripts = sorted(first.glob("*.json"))
    head = json.loads(scripts[0].read_text())
    version = head["broker"].rpartition(" ")[2]
    line = ".".join(version.split(".")[:2])
    configs = {name.replace(".", "_"): value for name, value in head["broker_configs"].items()}
    coordinator = {k: v for k, v in configs.items() if k in CoordinatorConfig.__slots__}
    with rs.Gateway(semantics=f"kafka-{line}", coordinator=coordinator) as broker:
        options = ["--version", version, "--bootstrap", broker.bootstrap, "--jobs", "8"]
        if invoke(["record", *options, "--out", str(folder), *map(str, scripts)]) != 0:
            raise SystemExit("not every script could be recorded")
        found = dict(load(folder))
        for group_id in broker.groups:
            name = re.sub(r"-[0-9a-f]+-group$", "", group_id)
            if name in found:
                found[name] = {**found[name], "log": _log(broker.trace(group_id), found[name])}
        broker.assert_ok()
    return found


def _log(written: Mapping[str, Any], asked: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """What a gateway has written, by the clock of the recording: both have the same requests."""
    requests = [step["at_ms"] for step in written["steps"] if "request" in step]
    if not requests:
        return []
    began_ms = requests[0] - next(s["at_ms"] for s in asked["steps"] if "request" in s)
    return [{**batch, "at_ms": batch["at_ms"] - began_ms} for batch in written["log"]]


def compared(first: Traces, other: Traces) -> dict[str, Likeness]:
    """By name, of the recordings that both have."""
    return {name: likeness(first[name], other[name]) for name in first if name in other}


def main() -> None:
    """Print a row for each, and the recordings that are least like."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("first", type=Path)
    parser.add_argument("second", type=Path)
    parser.add_argument("--out", type=Path, help="folder for the recordings of the gateway")
    asked = parser.parse_args()
    first = load(asked.first)
    with tempfile.TemporaryDirectory() as scratch:
        folder = asked.out or scratch
        parts = {
            "second run": compared(first, load(asked.second)),
            "gateway": compared(first, of_gateway(asked.first, Path(folder))),
        }
    sums = {name: total(rows.values()) for name, rows in parts.items()}
    for name, one in sums.items():
        print(
            f"{name:<12} n={len(parts[name])}  answers {one.answers_equal}/{one.answers} "
            f"({one.of_answers:.3f})  records {one.records_equal}/{one.records} "
            f"({one.of_records:.3f})"
        )
    second, gateway = sums["second run"], sums["gateway"]
    print(
        f"quotient     answers {gateway.of_answers / second.of_answers:.3f}  "
        f"records {gateway.of_records / second.of_records:.3f}"
    )
    for what in ("of_answers", "of_records"):
        rows = sorted(parts["gateway"].items(), key=lambda row: getattr(row[1], what))
        worst = ", ".join(f"{name} {getattr(one, what):.2f}" for name, one in rows[:6])
        print(f"least like, {what.removeprefix('of_')}: {worst}")


if __name__ == "__main__":
    main()
