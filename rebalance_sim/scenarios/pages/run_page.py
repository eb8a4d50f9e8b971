"""The page of one run: the verdict in words, what the run cost, why, and the run step by step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rebalance_sim.invariants.step import Step
from rebalance_sim.scenarios.documents import document as doc
from rebalance_sim.scenarios.documents.figures import small_figure, whole_axis
from rebalance_sim.scenarios.documents.files import write_file
from rebalance_sim.scenarios.documents.html_page import COLOURS, html_frame, html_page
from rebalance_sim.scenarios.happened import lines_of
from rebalance_sim.scenarios.pages.steps import step_rows
from rebalance_sim.scenarios.pages.timeline import Timeline, make_timeline
from rebalance_sim.scenarios.pages.timeline_rows import TimelineTrace
from rebalance_sim.scenarios.result import RunResult, findings, headlines, verdict_of
from rebalance_sim.scenarios.runner import run
from rebalance_sim.scenarios.scenario import Scenario, load_scenario
from rebalance_sim.scenarios.traces.run_trace import RunTrace, run_trace_of
from rebalance_sim.scenarios.traces.story import led_to
from rebalance_sim.scenarios.units import number
from rebalance_sim.sim.trace import FullTrace

if TYPE_CHECKING:
    from rebalance_sim.sim.observe.sampling import MetricSample

SAMPLES = 400
"""Points of a sampled series, about; never closer than 100 ms."""
_SERIES = {
    "lag_records": ("lag", "records"),
    "unowned_partitions": ("partitions without an owner", "partitions"),
    "members": ("members at the coordinator", "members"),
}
"""Sampled metric -> what stands above it, and its unit."""


_SERIES_HEIGHT = 224


class _PageTrace(TimelineTrace):
    """Keeps every step as well."""

    def __init__(self) -> None:
        super().__init__()
        self.full = FullTrace()

    def on_step(self, step: Step) -> None:
        super().on_step(step)
        self.full.on_step(step)


class RunPage(doc.Document):
    """The page of a run: a notebook shows it, and ``save`` writes it as a file of HTML."""

    def _repr_html_(self) -> str:
        return html_frame(self)

    def save(self, file: Path | str) -> None:
        """Write the page. Raises ScenarioError without Plotly, and for a file that cannot be
        written."""
        write_file(Path(file), html_page(self).encode())


def run_page(scenario: Scenario | Path | str, *, command: str = "") -> RunPage:
    """Run a scenario, or that of a file, step by step, and make its page. ``command`` is what runs
    it again. Raises ScenarioError as ``run``."""
    if isinstance(scenario, Path | str):
        scenario = load_scenario(scenario)
    trace = _PageTrace()
    every_ms = max(100, scenario.world.duration_ms // SAMPLES // 100 * 100)
    result = run(scenario, trace=trace, metrics_interval_ms=every_ms)
    timeline = make_timeline(scenario.name or f"seed {scenario.seed}", result, trace)
    steps = run_trace_of(trace.full, result)
    return RunPage(
        scenario.name or f"Seed {scenario.seed}",
        [*_verdict(result), *_why(result, steps), *_over_time(result, timeline, every_ms),
         *_steps(steps), *_rest(result, command)],
    )  # fmt: skip


def _verdict(result: RunResult) -> Iterator[doc.Part]:
    yield verdict_of(result)
    if result.metrics:
        yield doc.Tiles(list(headlines(result)))


def _why(result: RunResult, trace: RunTrace) -> Iterator[doc.Part]:
    yield from findings(result)
    if story := led_to(trace):
        yield doc.Heading("What led to it")
        yield doc.Lines(story)
    if result.metrics:
        yield doc.Heading("What happened")
        rows = [["", ""], *([name, text] for name, text in lines_of(result))]
        yield doc.Table(rows)


def _over_time(result: RunResult, timeline: Timeline, every_ms: int) -> Iterator[doc.Part]:
    yield doc.Heading("Who owned what")
    if timeline.partitions:
        yield doc.Plot(
            timeline.title,
            lambda: [[timeline.interactive()]],
            caption="Drag to zoom in, double-click to zoom out. Members' epochs are drawn a little "
            "below each other, so that equal ones can be seen. A partition is drawn from its first "
            "owner on; the figures count the time before that as well."
            + _left_out(result, timeline),
        )
    else:
        yield "No client ever owned a partition."
    if timeline.bands:
        rows = [["fault", "from (s)", "for (s)"]]
        for band in timeline.bands:
            length_s = (band.to_ms - band.from_ms) / 1_000
            rows.append([band.text, f"{band.from_ms / 1_000:,.3f}", f"{length_s:,.3f}"])
        yield doc.Fold(f"Faults: {len(timeline.bands):,}", [doc.Table(rows)])
    drawn = partial(_series, result.samples, timeline)
    yield doc.Heading("Over time")
    yield (
        f"Lag and partitions are sampled every {number(every_ms / 1_000)} s of simulated time; "
        "members at a standstill are those that own nothing, and owned something before and after "
        "in the same process."
    )
    yield doc.Plot("Over time", lambda: [drawn()])


def _left_out(result: RunResult, timeline: Timeline) -> str:
    """How much of the run is not drawn, if any is."""
    if timeline.until_ms >= result.simulated_ms:
        return ""
    drawn_s, whole_s = timeline.until_ms / 1_000, result.simulated_ms / 1_000
    return f" Drawn are {drawn_s:,.1f} s of {whole_s:,.1f} s: no owner changes later."


def _series(samples: tuple[MetricSample, ...], timeline: Timeline) -> list[Any]:
    """A small figure for each series, a line for each group: as long as the timeline, or all of
    the run where what is highest comes later."""
    until_s = timeline.until_ms / 1_000
    figures = []
    for metric, (title, unit) in _SERIES.items():
        rows = [sample for sample in samples if sample[2] == metric]
        if not rows:
            continue
        before = max((value for at_ms, *_, value in rows if at_ms / 1_000 <= until_s), default=-1)
        is_whole = any(value > before for *_, value in rows)
        end_s = rows[-1][0] / 1_000 if is_whole else until_s
        of_group: dict[str, tuple[list[float], list[float]]] = {}
        for at_ms, _, _, tags, value in rows:
            if at_ms / 1_000 <= end_s:
                xs, ys = of_group.setdefault(dict(tags)["group"], ([], []))
                xs.append(at_ms / 1_000)
                ys.append(value)
        figures.append(_lines(title, unit, of_group, end_s))
    standstill = timeline.standstill()
    points = [*standstill, (timeline.until_ms, standstill[-1][1])]
    line = ([at_ms / 1_000 for at_ms, _ in points], [float(count) for _, count in points])
    return [*figures, _lines("members at a standstill", "members", {"": line}, until_s)]


def _lines(
    title: str, unit: str, lines: Mapping[str, tuple[list[float], list[float]]], until_s: float
) -> Any:
    traces = [
        {"type": "scatter", "mode": "lines", "x": xs, "y": ys, "name": name,
         "line": {"shape": "hv", "width": 1.5, "color": colour},
         "hovertemplate": f"%{{x:,.1f}} s: %{{y:,.4g}} {unit} {name}<extra></extra>"}
        for colour, (name, (xs, ys)) in zip(cycle(COLOURS), lines.items())
    ]  # fmt: skip
    figure = small_figure(
        traces, title=title, x_title="simulated time (s)", y_title=unit, height=_SERIES_HEIGHT
    )
    figure.update_layout(legend_orientation="h")
    figure.update_xaxes(range=[0, until_s])
    return figure.update_yaxes(whole_axis(max(y for _, ys in lines.values() for y in ys)))


def _steps(trace: RunTrace) -> Iterator[doc.Part]:
    rows = step_rows(trace)
    yield doc.Heading("Step by step")
    left = f" {rows['left_out']:,} more entries are left out." if rows["left_out"] else ""
    yield (
        f"{len(rows['entries']):,} messages, changes of state, faults and violations, without "
        f"heartbeats that change nothing.{left} Move through them with the slider or the arrow "
        "keys; each member is shown as it sees itself, and as its coordinator has it."
    )
    yield doc.Stepper(rows)


def _rest(result: RunResult, command: str) -> Iterator[doc.Part]:
    if command:
        yield doc.Heading("Run it again")
        yield doc.Lines([f"$ {command}"])
    yield (
        f"{result.steps:,} steps, {result.simulated_ms / 1_000:,.1f} s simulated, scenario "
        f"`{result.scenario_hash}`, code `{result.code_version}`, digest `{result.digest}`."
    )
