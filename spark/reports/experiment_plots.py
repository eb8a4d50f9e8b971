"""The pictures of an experiment: as files for the short page, and in one HTML page to look into."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence

from matplotlib.figure import Figure

from rebalance_sim.spark.reports.experiment import WORDS, ExperimentSummary
from rebalance_sim.spark.reports.experiment_panels import MetricPicture, pictures
from rebalance_sim.spark.reports.plots import PLOT_FOLDER, write_figure
from rebalance_sim.spark.store.opening import open_store
from rebalance_sim.spark.store.store import Location

COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#999999")
PAGE_FILE = "report.html"
_PANEL_WIDTH, _PANEL_HEIGHT = 3.1, 2.6


def draw_files(out: Location, summary: ExperimentSummary) -> dict[str, str]:
    """Metric -> the file of its picture below ``out``."""
    store = open_store(out)
    found = {}
    for picture in pictures(summary):
        name = re.sub(r"\W", "_", picture.metric)
        found[picture.metric] = f"{PLOT_FOLDER}/{name}.png"
        write_figure(store, found[picture.metric], figure_of(picture))
    return found


def figure_of(picture: MetricPicture) -> Figure:
    """A metric with all its panels, which share their vertical axis."""
    lines, columns = len(picture.rows), len(picture.rows[0])
    size = (_PANEL_WIDTH * max(2, columns), _PANEL_HEIGHT * lines + 0.5)
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.subplots(lines, columns, squeeze=False, sharey=True)
    for row, of_row in zip(picture.rows, grid, strict=True):
        names: list[str] = []
        for panel, axes in zip(row, of_row, strict=True):
            for colour, line in zip(COLOURS, panel.lines, strict=False):
                below = [m - low for m, low in zip(line.medians, line.lows, strict=True)]
                above = [high - m for m, high in zip(line.medians, line.highs, strict=True)]
                axes.errorbar(
                    line.xs if panel.is_numeric else list(map(str, line.xs)),
                    line.medians,
                    yerr=(below, above),
                    label=line.name,
                    color=colour,
                    linestyle="-" if line.is_joined else "none",
                    marker="o",
                    markersize=3.5,
                    linewidth=1.2,
                    capsize=2,
                )
                names += [line.name] if line.name else []
            axes.set_title(panel.title, fontsize=9)
            axes.set_xlabel(panel.x_title, fontsize=8)
            axes.tick_params(labelsize=8)
            axes.set_ylim(bottom=0)
            if panel.is_log:
                axes.set_xscale("log")
        if names:
            of_row[-1].legend(fontsize=7, frameon=False)
    figure.supylabel(picture.unit, fontsize=9)
    figure.suptitle(picture.metric, fontsize=10)
    return figure


def write_page(
    out: Location, summary: ExperimentSummary, tables: Sequence[Sequence[Sequence[str]]]
) -> bool:
    """Write ``report.html``, one file that needs no network; False if Plotly is not installed.

    ``tables`` are shown above and below the pictures: the first above, the others below.
    """
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        return False
    body = "\n".join(_body(summary, tables))
    page = _PAGE.replace("{title}", html.escape(summary.experiment.question or "Experiment"))
    page = page.replace("{body}", body).replace("{plotly}", get_plotlyjs())
    open_store(out).put(PAGE_FILE, page.encode())
    return True


def _body(summary: ExperimentSummary, tables: Sequence[Sequence[Sequence[str]]]) -> Iterator[str]:
    from plotly.io import to_html

    experiment = summary.experiment
    yield f"<h1>{html.escape(experiment.question or 'Experiment')}</h1>"
    outcomes = ", ".join(f"{count:,} {name}" for name, count in summary.outcomes.items())
    yield (
        f"<p>{len(summary.runs):,} runs of {html.escape(str(experiment.base))}: "
        f"{len(experiment.cells):,} cells, {experiment.seeds:,} seeds each; {outcomes}.</p>"
    )
    if tables:
        yield _table(tables[0])
    for picture in pictures(summary):
        words = f"{WORDS[picture.metric]}; " if picture.metric in WORDS else ""
        yield f"<h2>{html.escape(picture.metric)}</h2>"
        yield f"<p>{html.escape(words)}medians over seeds with exact 95 % intervals"
        yield f"{', in ' + picture.unit if picture.unit else ''}.</p>"
        figure = interactive(picture)
        yield to_html(figure, include_plotlyjs=False, full_html=False, config={"responsive": True})
    for table in tables[1:]:
        yield "<details open><summary>What each choice changes</summary>"
        yield _table(table)
        yield "</details>"


def interactive(picture: MetricPicture) -> object:
    """The same panels as a Plotly figure."""
    from plotly.subplots import make_subplots

    lines, columns = len(picture.rows), len(picture.rows[0])
    titles = [panel.title for row in picture.rows for panel in row]
    figure = make_subplots(
        rows=lines, cols=columns, shared_yaxes=True, subplot_titles=titles, vertical_spacing=0.18
    )
    seen = set()
    for at_row, row in enumerate(picture.rows, start=1):
        for at_column, panel in enumerate(row, start=1):
            for colour, line in zip(COLOURS, panel.lines, strict=False):
                figure.add_scatter(
                    x=list(line.xs),
                    y=list(line.medians),
                    error_y={
                        "type": "data",
                        "symmetric": False,
                        "array": [h - m for m, h in zip(line.medians, line.highs, strict=True)],
                        "arrayminus": [m - b for m, b in zip(line.medians, line.lows, strict=True)],
                    },
                    mode="lines+markers" if line.is_joined else "markers",
                    name=line.name or picture.metric,
                    legendgroup=f"{at_row}{line.name}",
                    showlegend=bool(line.name) and (at_row, line.name) not in seen,
                    marker_color=colour,
                    row=at_row,
                    col=at_column,
                )
                seen.add((at_row, line.name))
            kind = "log" if panel.is_log else ("linear" if panel.is_numeric else "category")
            figure.update_xaxes(title_text=panel.x_title, type=kind, row=at_row, col=at_column)
        figure.update_yaxes(title_text=picture.unit, row=at_row, col=1)
    figure.update_yaxes(rangemode="tozero")
    figure.update_layout(
        template="plotly_white",
        height=340 * lines + 40,
        margin={"l": 60, "r": 20, "t": 40, "b": 50},
        legend={"orientation": "h", "y": -0.12 / lines},
    )
    return figure


def _table(rows: Sequence[Sequence[str]]) -> str:
    """A table whose columns sort when their heads are pressed."""
    cells = "".join(f"<th>{html.escape(cell)}</th>" for cell in rows[0])
    lines = [f"<thead><tr>{cells}</tr></thead><tbody>"]
    for row in rows[1:]:
        lines.append("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>")
    return f"<div class='wide'><table>{''.join(lines)}</tbody></table></div>"


_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; max-width: 1100px; margin: 0 auto; padding: 1rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: 14px; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .6rem; border-bottom: 1px solid #ddd; text-align: right; }
th { cursor: pointer; position: sticky; top: 0; background: #fff; }
th:first-child, td:first-child, td:nth-child(2) { text-align: left; }
summary { cursor: pointer; font-weight: 600; margin: 1rem 0 .5rem; }
</style>
<script>{plotly}</script>
</head><body>
{body}
<script>
for (const head of document.querySelectorAll("th")) head.onclick = () => {
  const body = head.closest("table").tBodies[0], at = head.cellIndex;
  const down = head.dataset.down = head.dataset.down === "1" ? "" : "1";
  const read = row => row.cells[at].textContent.replaceAll(",", "");
  const rows = [...body.rows].sort((a, b) => {
    const x = read(a), y = read(b), order = parseFloat(x) - parseFloat(y);
    return (down ? 1 : -1) * (isNaN(order) ? x.localeCompare(y) : order);
  });
  body.append(...rows);
};
</script>
</body></html>
"""
