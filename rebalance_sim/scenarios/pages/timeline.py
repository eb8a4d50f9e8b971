"""A run over time: who owned what, at which epoch, under which faults, and what was found.

    timeline = timeline_of(generate("faulty", 7))
    timeline.save("seed-7.svg")     # or .png, .pdf
    timeline.save("seed-7.html")    # one to zoom into
    timeline                        # in a notebook: the plot

It is the clients' view (``OwnershipTrace``), whatever protocol they speak.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rebalance_sim.protocol.wire.topics import TopicPartition
from rebalance_sim.scenarios.documents.document import Document, Plot
from rebalance_sim.scenarios.documents.files import write_file
from rebalance_sim.scenarios.documents.html_page import check_plotly, html_page
from rebalance_sim.scenarios.errors import ScenarioError
from rebalance_sim.scenarios.ownership import OwnershipInterval
from rebalance_sim.scenarios.pages.timeline_rows import (
    Gap,
    Moment,
    TimelineRows,
    TimelineTrace,
    Trouble,
)
from rebalance_sim.scenarios.result import RunResult
from rebalance_sim.scenarios.runner import run
from rebalance_sim.scenarios.scenario import Scenario, load_scenario

if TYPE_CHECKING:
    from matplotlib.figure import Figure

AFTERWARDS_MS = 2_000
"""What is drawn beyond the last change."""

STILL_PLOTS = (".svg", ".png", ".pdf")
PAGE = ".html"


class Timeline(TimelineRows):
    """What is drawn of a run, and how to see it."""

    def __repr__(self) -> str:
        return f"<Timeline of {self.title}, {self.until_ms / 1000:g} s>"

    def until(self, at_ms: int) -> Timeline:
        """The same run as far as this time, for going through it step by step."""
        return replace(
            self,
            until_ms=at_ms,
            intervals=tuple(
                replace(row, to_ms=min(row.to_ms, at_ms))
                for row in self.intervals
                if row.from_ms < at_ms
            ),
            gaps=tuple(
                gap._replace(to_ms=min(gap.to_ms, at_ms))
                for gap in self.gaps
                if gap.from_ms < at_ms
            ),
            bands=tuple(
                band._replace(to_ms=min(band.to_ms, at_ms))
                for band in self.bands
                if band.from_ms <= at_ms
            ),
            troubles=tuple(
                one._replace(to_ms=min(one.to_ms, at_ms))
                for one in self.troubles
                if one.from_ms < at_ms
            ),
            moments=tuple(one for one in self.moments if one.at_ms <= at_ms),
            findings=tuple(one for one in self.findings if one.at_ms <= at_ms),
        )

    def figure(self) -> Figure:
        """The plot, by matplotlib."""
        from rebalance_sim.scenarios.pages.timeline_plots import image

        return image(self)

    def interactive(self) -> Any:
        """The same as a Plotly figure. Raises ScenarioError if Plotly is not installed."""
        from rebalance_sim.scenarios.pages.timeline_plots import plotly_figure

        return plotly_figure(self)

    def save(self, file: Path | str) -> None:
        """Write the plot: .svg, .png, .pdf, or .html for one to zoom into.

        Raises ScenarioError for another suffix, for .html without Plotly, and for a file that
        cannot be written.
        """
        path = check_plot_file(file)
        content = self._page().encode() if path.suffix == PAGE else self._still(path.suffix)
        write_file(path, content)

    def _repr_png_(self) -> bytes:
        return self._still(".png")

    def _still(self, suffix: str) -> bytes:
        from matplotlib import rc_context

        content = BytesIO()
        date = {".svg": "Date", ".pdf": "CreationDate"}.get(suffix)
        # Equal timelines are equal files: no date, no ids that are drawn by lot.
        with rc_context({"svg.hashsalt": "timeline"}):
            metadata = {date: None} if date else {}
            self.figure().savefig(content, format=suffix[1:], metadata=metadata, dpi=110)
        return content.getvalue()

    def _page(self) -> str:
        plot = Plot(self.title, lambda: [[self.interactive()]])
        return html_page(Document(self.title, [plot]))


def check_plot_file(file: Path | str, kinds: Sequence[str] = (*STILL_PLOTS, PAGE)) -> Path:
    """The path, if its name is that of a kind of image that can be written. Raises
    ScenarioError."""
    path = Path(file)
    if path.suffix not in kinds:
        choice = ", ".join(kinds)
        raise ScenarioError(f"{path}: no kind of image is {path.suffix!r}: choose one of {choice}")
    if path.suffix == PAGE:
        check_plotly()
    return path


def timeline_of(scenario: Scenario | Path | str, *, until_ms: int | None = None) -> Timeline:
    """Run a scenario, or that of a file, and keep what its timeline shows.

    ``until_ms``: how far it goes; without it, a little beyond the last change. Raises ScenarioError
    as ``run``.
    """
    if isinstance(scenario, Path | str):
        scenario = load_scenario(scenario)
    trace = TimelineTrace()
    result = run(scenario, trace=trace)
    name = scenario.name or f"seed {scenario.seed}"
    return make_timeline(name, result, trace, until_ms=until_ms)


def make_timeline(
    name: str, result: RunResult, trace: TimelineTrace, *, until_ms: int | None = None
) -> Timeline:
    """The timeline of a run, by the name it is to have, that ``trace`` has followed."""
    intervals = trace.intervals(result.simulated_ms)
    bands = trace.bands(result.simulated_ms)
    findings = (
        *(Moment(row.at_ms, row.property, row.detail) for row in result.violations),
        *(Moment(row.at_ms, row.issue, row.detail) for row in result.known_issues),
    )
    if until_ms is None:
        ends = [row.from_ms for row in intervals]
        ends += [row.to_ms for row in intervals if row.to_ms < result.simulated_ms]
        ends += [band.to_ms for band in bands] + [one.at_ms for one in findings]
        ends += [at_ms for rows in trace.member_epochs.values() for at_ms, _ in rows]
        until_ms = min(result.simulated_ms, max(ends, default=0) + AFTERWARDS_MS)
    cut = tuple(row for row in intervals if row.from_ms < until_ms)
    troubles = tuple(
        one._replace(to_ms=min(one.to_ms, until_ms))
        for one in trace.troubles(result.simulated_ms)
        if one.from_ms < until_ms
    )
    return Timeline(
        title=f"{name}: {result.outcome}",
        until_ms=until_ms,
        intervals=cut,
        gaps=_gaps(cut, trace.deleted_topics, until_ms, troubles),
        member_epochs={name: tuple(rows) for name, rows in sorted(trace.member_epochs.items())},
        group_epochs={name: tuple(rows) for name, rows in sorted(trace.group_epochs.items())},
        bands=bands,
        moments=tuple(trace.moments),
        findings=findings,
        troubles=troubles,
    )


def _gaps(
    intervals: tuple[OwnershipInterval, ...],
    deleted_topics: Collection[str],
    until_ms: int,
    troubles: tuple[Trouble, ...],
) -> tuple[Gap, ...]:
    """Between the owners of a partition, and behind the last one unless its topic was deleted."""
    owned_until: dict[TopicPartition, tuple[int, str]] = {}
    gaps = []

    def add(partition: TopicPartition, to_ms: int) -> None:
        from_ms, owner = owned_until[partition]
        why = next(
            (one.why for one in troubles if one.client == owner
             and one.from_ms <= from_ms < one.to_ms and one.why in ("crashed", "fenced")),
            "",
        )  # fmt: skip
        gaps.append(Gap(partition, from_ms, to_ms, why))

    for row in intervals:  # by partition and time
        before_ms, _ = owned_until.get(row.partition, (row.from_ms, ""))
        if before_ms < row.from_ms:
            add(row.partition, row.from_ms)
        if row.to_ms >= before_ms:
            owned_until[row.partition] = (row.to_ms, row.member_id)
    for partition, (to_ms, _) in owned_until.items():
        if to_ms < until_ms and partition.topic_id.split(":")[0] not in deleted_topics:
            add(partition, until_ms)
    return tuple(sorted(gaps))
