"""A document as a page of HTML that stands for itself: pictures, tables and style in one file, no
network.

Plotly draws the pictures; it belongs to the extra ``rebalance-sim[report]``.
"""

from __future__ import annotations

import html
import importlib.util
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from typing import Any

from rebalance_sim.scenarios import document as doc
from rebalance_sim.scenarios.errors import ScenarioError

COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#999999")
"""Colours that colour-blind people tell apart (Okabe and Ito)."""

_CODE = re.compile(r"`([^`]+)`")
_LINK = re.compile(r"\[([^\]]+)\]\((\w[\w./-]*)\)")


def has_plotly() -> bool:
    """Whether pages can be made here."""
    return importlib.util.find_spec("plotly") is not None


def check_plotly() -> None:
    """Raise ScenarioError, with the remedy, if Plotly is not installed."""
    if not has_plotly():
        raise ScenarioError(
            "pages with pictures need Plotly: pip install 'rebalance-sim[report]', "
            "or choose a still picture (.svg, .png)"
        )


def html_page(document: doc.Document) -> str:
    """The document as a page. Raises ScenarioError if Plotly is not installed."""
    check_plotly()
    from plotly.offline import get_plotlyjs

    page = _PAGE.replace("{title}", html.escape(document.title.replace("`", "")))
    page = page.replace("{body}", html_fragment(document))
    return page.replace("{plotly}", get_plotlyjs())


def html_fragment(document: doc.Document) -> str:
    """The document for a notebook: without style, and without the library of pictures."""
    title = f"<h1>{_text(document.title)}</h1>"
    return "\n".join([title, *_html(document.parts, count(1))])


def _html(parts: Iterable[doc.Part], numbers: Iterator[int]) -> Iterator[str]:
    """``numbers`` are those of figures: ids by lot would differ between equal pages."""
    for part in parts:
        match part:
            case doc.Heading(text):
                yield f"<h2>{_text(text)}</h2>"
            case str(text):
                yield f"<p>{_text(text)}</p>"
            case doc.Tiles(tiles):
                yield "<div class='tiles'>" + "".join(
                    f"<div class='tile {kind}'><b>{_text(number)}</b>{_text(words)}</div>"
                    for number, words, kind in tiles
                ) + "</div>"  # fmt: skip
            case doc.Lines(lines):
                yield f"<pre>{html.escape(chr(10).join(lines))}</pre>"
            case doc.Table(rows):
                yield _table(rows)
            case doc.Picture():
                for row in part.drawn() if part.drawn else ():
                    drawn = [_drawn(figure, next(numbers)) for figure in row]
                    if len(drawn) == 1:
                        yield f"<div class='figure'>{drawn[0]}</div>"
                    elif drawn:
                        panels = (f"<div class='panel'>{panel}</div>" for panel in drawn)
                        yield f"<div class='panels'>{''.join(panels)}</div>"
            case doc.Fold():
                state = " open" if part.is_open else ""
                yield f"<details{state}><summary>{_text(part.title)}</summary>"
                yield from _html(part.parts, numbers)
                yield "</details>"


def _table(rows: Sequence[Sequence[str]]) -> str:
    """Its columns sort when their heads are pressed."""
    if len(rows) < 2:
        return "<p>None.</p>"
    numeric = [
        all(_is_number(row[at]) for row in rows[1:] if row[at]) for at in range(len(rows[0]))
    ]

    def cells(row: Sequence[str], tag: str) -> str:
        return "".join(
            f"<{tag}{' class=n' if is_number else ''}>{_cell(cell)}</{tag}>"
            for cell, is_number in zip(row, numeric, strict=True)
        )

    body = "".join(f"<tr>{cells(row, 'td')}</tr>" for row in rows[1:])
    return (
        f"<div class='wide'><table><thead><tr>{cells(rows[0], 'th')}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )


def _drawn(figure: Any, number: int) -> str:
    from plotly.io import templates, to_html

    drawn = figure.to_dict()
    drawn["layout"]["template"] = templates["plotly_white"].to_plotly_json()
    return str(
        to_html(
            drawn,
            validate=False,
            include_plotlyjs=False,
            full_html=False,
            config={"responsive": True, "displayModeBar": False},
            div_id=f"figure-{number}",
        )
    )


def _text(text: str) -> str:
    linked = _LINK.sub(r"<a href='\2'>\1</a>", html.escape(text, quote=False))
    return _CODE.sub(r"<code>\1</code>", linked)


def _cell(text: str) -> str:
    first, *remarks = text.split("\n")
    return _text(first) + "".join(f"<small>{_text(remark)}</small>" for remark in remarks)


def _is_number(text: str) -> bool:
    return text.lstrip("+-").replace(",", "")[:1].isdigit() or text == "?"


_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; max-width: 1100px; margin: 0 auto; padding: 1rem;
  color: #222; overflow-wrap: break-word; }
h1 { font-size: 1.5rem; line-height: 1.25; }
h2 { font-size: 1.2rem; margin: 2rem 0 .5rem; }
code, pre { font: .88em ui-monospace, monospace; }
pre, .wide, .figure { overflow-x: auto; }
pre { background: #f6f6f6; padding: .6rem .8rem; }
.panels { display: grid; gap: .5rem;
  grid-template-columns: repeat(auto-fit, minmax(min(300px, 100%), 1fr)); }
.panel { min-width: 0; }
.tiles { display: flex; flex-wrap: wrap; gap: .6rem; margin: 1rem 0; }
.tile { flex: 1 1 8rem; padding: .5rem .8rem; background: #f4f4f4; border-left: 5px solid #999;
  font-size: .9rem; }
.tile b { display: block; font-size: 1.35rem; }
.tile.good { border-color: #3a7d44; }
.tile.known { border-color: #d9a400; }
.tile.bad { border-color: #b23a48; background: #fbeef0; }
table { border-collapse: collapse; font-size: 14px; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .6rem; border-bottom: 1px solid #ddd; text-align: left;
  vertical-align: top; }
td { max-width: 34rem; min-width: 8rem; }
td.n { min-width: 3.5rem; }
.n { text-align: right; white-space: nowrap; }
td small { display: block; color: #666; }
th:first-child, td:first-child { position: sticky; left: 0; background: #fff; }
th { cursor: pointer; background: #fff; }
@media (max-width: 600px) {
  td { min-width: 6rem; }
  td:first-child { max-width: 45vw; }
}
th::after { content: " \\2195"; color: #bbb; }
details { margin: 1rem 0; }
summary { cursor: pointer; font-weight: 600; }
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
const fit = part => {
  for (const plot of part.querySelectorAll(".js-plotly-plot"))
    if (plot.offsetWidth) Plotly.Plots.resize(plot);
};
for (const fold of document.querySelectorAll("details")) fold.ontoggle = () => fit(fold);
addEventListener("load", () => fit(document));
</script>
</body></html>
"""
