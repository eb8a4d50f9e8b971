"""Tables and plots of measured experiments (docs/measured/), for the pages that show them.

rebalance-sim experiment experiments/failover.toml --out results/failover
python docs/measured.py failover results/failover
python docs/experiment_tables.py
python docs/generate.py
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import matplotlib
import pandas as pd

from rebalance_sim.scenarios.experiment import load_experiment
from rebalance_sim.scenarios.units import title_of
from rebalance_sim.spark import Limits, SeedRange, SweepPlan
from rebalance_sim.spark.reports.experiment import (
    ExperimentSummary,
    MetricPlot,
    metric_plots,
    summary_of,
)
from rebalance_sim.spark.reports.experiment_report import effect_rows, headline_rows
from rebalance_sim.spark.reports.stills import figure_of
from rebalance_sim.spark.runner import DEFAULT_RUNNER

DOCS = Path(__file__).parent
RESTART = "restart_unowned_partition_ms"
HEADLINES = (
    "rebalance_unowned_partition_ms",
    "rebalance_ms_max",
)
"""What the first page shows of the protocols."""
RECIPES = tuple(
    file.stem
    for file in sorted((DOCS.parent / "experiments").glob("*.toml"))
    if file.stem not in ("away", "failover")
)
"""Experiments that docs/cookbook.md shows; the others have pages of their own."""

_RESTART_TITLE = "time without an owner from the restart on (partition-seconds)"


@dataclass(frozen=True)
class MeasuredExperiment:
    """An experiment of ``experiments/`` whose runs ``measured.py`` has kept, by its name there;
    ``added``: metrics that were computed from its rebalances, before those of the experiment."""

    name: str
    added: tuple[str, ...] = ()

    def head(self) -> str:
        """What was run, in words."""
        summary, data = self._summary, self._data
        counts = ", ".join(f"{count:,} {name}" for name, count in summary.outcomes.items())
        experiment = summary.experiment
        protocols = f" x {len(experiment.protocols)} protocols" if experiment.protocols else ""
        return (
            f"{len(summary.runs):,} runs at commit {data['commit']}: {len(experiment.cells)} cells"
            f"{protocols} x {data['seeds']} seeds; {counts}. {data['note']}\n"
        )

    def medians(self, metric: str) -> str:
        """Medians of a metric with their intervals, a line for each cell."""
        return _table([row[1:] for row in self._rows_of(metric)])

    def medians_of(self, *metrics: str) -> str:
        """The same of several metrics, under what they are in words."""
        return _table(self._rows_of(*metrics))

    def all_medians(self) -> str:
        """The same of every metric."""
        return self.medians_of(*self._summary.experiment.metrics)

    def _rows_of(self, *metrics: str) -> list[list[str]]:
        head, *rows = headline_rows(self._summary)
        titles = {title_of(metric) for metric in metrics}
        return [head, *(row for row in rows if row[0] in titles)]

    def recipe(self) -> str:
        """All of it: what was run, the plot of its first metric, and every median."""
        first = title_of(self._summary.experiment.metrics[0])
        plot = f"![{first}](cookbook/{self.name}.svg)"
        return f"{self.head()}\n{plot}\n\n{self.all_medians()}"

    def effects(self) -> str:
        """What each choice changes of every metric."""
        return _table(effect_rows(self._summary))

    def figure_lines(self) -> str:
        """The plot of each metric, under its words."""
        parts = []
        for metric in self._summary.experiment.metrics:
            title = title_of(metric).replace(title_of(RESTART), _RESTART_TITLE)
            title = f"{title[0].upper()}{title[1:]}"
            plot = f"{self.name}/{metric}.svg"
            parts.append(f"**{title}**: `{metric}`\n\n![{title}]({plot})\n")
        return "\n".join(parts)

    def draw(self) -> None:
        """Write the plots, each under the name of its metric."""
        for plot in metric_plots(self._summary):
            _save(plot, DOCS / self.name / f"{plot.metric}.svg", self.name)

    def draw_recipe(self) -> None:
        """Write the plot of the first metric."""
        _save(
            next(iter(metric_plots(self._summary))),
            DOCS / "cookbook" / f"{self.name}.svg",
            self.name,
        )

    @cached_property
    def _data(self) -> dict[str, Any]:
        text = (DOCS / "measured" / f"{self.name}.json").read_text(encoding="utf-8")
        data: dict[str, Any] = json.loads(text)
        return data

    @cached_property
    def _summary(self) -> ExperimentSummary:
        data, file = self._data, DOCS.parent / "experiments" / f"{self.name}.toml"
        experiment = load_experiment(file, seeds=data["seeds"])
        experiment = replace(experiment, metrics=(*self.added, *experiment.metrics))
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
        return summary_of(experiment, plan, frame, pd.DataFrame(), report=file)


FAILOVER = MeasuredExperiment("failover", added=(RESTART,))
AWAY = MeasuredExperiment("away")


def _save(plot: MetricPlot, file: Path, salt: str) -> None:
    """Ids and date would differ from one drawing to the next; letters are text, not paths."""
    file.parent.mkdir(exist_ok=True)
    with matplotlib.rc_context({"svg.hashsalt": salt, "svg.fonttype": "none"}):
        figure_of(plot).savefig(file, metadata={"Date": None})


def _table(rows: list[list[str]]) -> str:
    """What a row has in common with the one above is said once, as is an interval of one value."""
    head, *rows = rows
    counts = {row[head.index("seeds")] for row in rows} if "seeds" in head else set()
    if len(counts) == 1:  # The line above the table has it.
        at = head.index("seeds")
        head, *rows = [[*row[:at], *row[at + 1 :]] for row in (head, *rows)]
    lines = []
    above = ""
    for first, *others in rows:
        title = first.replace(title_of(RESTART), _RESTART_TITLE).removeprefix("in phase ")
        same = title == above and head[0] == "metric"
        above = title
        cells = [re.sub(r"^(\S+) \[\1, \1\]$", r"\1", cell) for cell in others]
        lines.append(["" if same else title, *cells])
    body = "".join(f"| {' | '.join(line)} |\n".replace("|  |", "| |") for line in lines)
    return f"| {' | '.join(head)} |\n|{'---|' * len(head)}\n{body}"


if __name__ == "__main__":
    FAILOVER.draw()
    for recipe in RECIPES:
        MeasuredExperiment(recipe).draw_recipe()
