"""The tables and pictures of docs/failover.md, from the last measurement (docs/measured/).

rebalance-sim experiment experiments/failover.toml --out results/failover
python docs/measured.py failover results/failover
python docs/failover_tables.py
python docs/generate.py
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import matplotlib
import pandas as pd

from rebalance_sim.scenarios.experiment import load_experiment
from rebalance_sim.scenarios.units import title_of
from rebalance_sim.spark import Limits, SeedRange, SweepPlan
from rebalance_sim.spark.reports.experiment import WORDS, ExperimentSummary, summary_of
from rebalance_sim.spark.reports.experiment_panels import pictures
from rebalance_sim.spark.reports.experiment_plots import figure_of
from rebalance_sim.spark.reports.experiment_rows import effect_rows, headline_rows
from rebalance_sim.spark.runner import DEFAULT_RUNNER

DOCS = Path(__file__).parent
MEASURED = DOCS / "measured" / "failover.json"
FILE = DOCS.parent / "experiments" / "failover.toml"
PICTURES = DOCS / "failover"
RESTART = "restart_unowned_partition_ms"
_WORDS = {**WORDS, RESTART: "time without an owner from the restart on, summed over partitions"}


def head() -> str:
    """What was run, in words."""
    summary, data = _summary(), _measured()
    counts = ", ".join(f"{count:,} {name}" for name, count in summary.outcomes.items())
    experiment = summary.experiment
    return (
        f"{len(summary.runs):,} runs at commit {data['commit']}: {len(experiment.cells)} cells x "
        f"{len(experiment.protocols)} protocols x {data['seeds']} seeds; {counts}. {data['note']}\n"
    )


def medians(metric: str) -> str:
    """Medians of a metric with their intervals, a line for each cell."""
    rows = headline_rows(_summary())
    of_it = [row[1:] for row in rows[1:] if row[0] == title_of(metric)]
    return _table([rows[0][1:], *of_it])


def effects() -> str:
    """What each choice changes of every metric."""
    return _table(effect_rows(_summary()))


def figure_lines() -> str:
    """The picture of each metric, under its words."""
    parts = []
    for metric in _summary().experiment.metrics:
        words = _WORDS[metric]
        title = f"{words[0].upper()}{words[1:]}"
        parts.append(f"**{title}** (`{title_of(metric)}`)\n\n![{title}](failover/{metric}.svg)\n")
    return "\n".join(parts)


def draw() -> None:
    """Write the pictures. Ids and date would differ from one drawing to the next."""
    PICTURES.mkdir(exist_ok=True)
    for picture in pictures(_summary()):
        with matplotlib.rc_context({"svg.hashsalt": "failover"}):
            file = PICTURES / f"{picture.metric}.svg"
            figure_of(picture).savefig(file, metadata={"Date": None})


def _table(rows: list[list[str]]) -> str:
    lines = [f"| {' | '.join(row)} |\n" for row in rows]
    return "".join([lines[0], "|" + "---|" * len(rows[0]) + "\n", *lines[1:]])


@cache
def _measured() -> dict[str, Any]:
    data: dict[str, Any] = json.loads(MEASURED.read_text(encoding="utf-8"))
    return data


@cache
def _summary() -> ExperimentSummary:
    data = _measured()
    experiment = load_experiment(FILE, seeds=data["seeds"])
    experiment = replace(experiment, metrics=(RESTART, *experiment.metrics))
    plan = SweepPlan(
        variants=tuple(experiment.base.speaking(name) for name in experiment.protocols),
        seeds=SeedRange(0, data["seeds"]),
        batch_size=1,
        runner=DEFAULT_RUNNER,
        code_digest=data["code"],
        limits=Limits(),
    )
    frame = pd.DataFrame(data["rows"]).assign(reason="")
    for metric in experiment.metrics:
        frame[metric] = frame[metric].astype("float64")
    return summary_of(experiment, plan, frame, pd.DataFrame(), report=FILE)


if __name__ == "__main__":
    draw()
