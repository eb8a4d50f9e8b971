"""A document as a page of HTML that stands for itself: plots, tables and style in one file, no
network.

Plotly draws the plots; it belongs to the extra ``rebalance-sim[report]``. Its Python side makes
the figures. A page has the basic bundle of its JavaScript (``plotly-basic.min.js``, MIT licence: a
quarter of the whole, with lines, bars and nothing else), the figures as data, and one template for
all of them.
"""

from __future__ import annotations

import html
import importlib.util
import json
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.resources import files
from itertools import count
from typing import Any

from rebalance_sim.scenarios.documents import document as doc
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
            "pages with plots need Plotly: pip install 'rebalance-sim[report]', "
            "or choose an image (.svg, .png)"
        )


def asset(name: str) -> str:
    """The text of a file beside this module."""
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def html_page(document: doc.Document) -> str:
    """The document as a page. Raises ScenarioError if Plotly is not installed."""
    check_plotly()
    from plotly.io import templates

    body = html_fragment(document)
    page = asset("page.html").replace("{title}", html.escape(document.title.replace("`", "")))
    page = page.replace("{body}", body).replace("{style}", asset("page.css"))
    page = page.replace("{template}", _json(templates["plotly_white"].to_plotly_json()))
    page = page.replace("{script}", asset("page.js"))
    # Last, and once: what a page says may not be taken for a place to fill in.
    return page.replace("{plotly}", asset("plotly-basic.min.js") if "class=plot" in body else "", 1)


def html_fragment(document: doc.Document) -> str:
    """The document without style, and without the library of plots: for a notebook, if it has no
    plots (``html_frame``)."""
    title = f"<h1>{_text(document.title)}</h1>"
    return "\n".join([title, *_html(document.parts, count(1))])


def html_frame(document: doc.Document) -> str:
    """The page in a frame of its own: a notebook has neither its style nor its library. Raises
    ScenarioError if Plotly is not installed."""
    page = html.escape(html_page(document))
    return f'<iframe srcdoc="{page}" style="width:100%; height:900px; border:0"></iframe>'


def _html(parts: Iterable[doc.Part], numbers: Iterator[int]) -> Iterator[str]:
    """``numbers`` are those of figures: ids by lot would differ between equal pages."""
    for part in parts:
        match part:
            case doc.Heading(text):
                yield f"<h2>{_text(text)}</h2>"
            case str(text):
                yield f"<p>{_text(text)}</p>"
            case doc.Verdict(text, kind):
                yield f"<p class='verdict {kind}'>{_text(text)}</p>"
            case doc.Tiles(tiles):
                yield "<div class='tiles'>" + "".join(
                    f"<div class='tile {kind}'><b>{_text(number)}</b>{_text(words)}</div>"
                    for number, words, kind in tiles
                ) + "</div>"  # fmt: skip
            case doc.Lines(lines):
                yield f"<pre>{html.escape(textwrap.dedent(chr(10).join(lines)))}</pre>"
            case doc.Table(rows):
                yield _table(rows)
            case doc.Plot():
                for row in part.drawn() if part.drawn else ():
                    drawn = [_as_data(figure, next(numbers)) for figure in row]
                    if len(drawn) == 1:
                        yield f"<div class='figure'>{drawn[0]}</div>"
                    elif drawn:
                        panels = (f"<div class='panel'>{panel}</div>" for panel in drawn)
                        yield f"<div class='panels'>{''.join(panels)}</div>"
                if part.caption and part.drawn:
                    yield f"<p class='caption'>{_text(part.caption)}</p>"
            case doc.Stepper(rows):
                yield _stepper(rows)
            case doc.Fold():
                state = " open" if part.is_open else ""
                yield f"<details{state}><summary>{_text(part.title)}</summary>"
                yield from _html(part.parts, numbers)
                yield "</details>"


def _table(rows: Sequence[Sequence[str]]) -> str:
    """Its columns sort when their heads are pressed. On a phone each row is a block, in which
    every cell has the head of its column before it."""
    if len(rows) < 2:
        return "<p>None.</p>"
    numeric = [
        all(_is_number(row[at]) for row in rows[1:] if row[at]) for at in range(len(rows[0]))
    ]
    heads = [html.escape(head.replace("`", "")) for head in rows[0]]

    def cells(row: Sequence[str], tag: str) -> str:
        return "".join(
            f"<{tag}{' class=n' if is_number else ''}"
            + (f' data-head="{head}"' if tag == "td" and at and head else "")
            + f">{_cell(cell)}</{tag}>"
            for at, (cell, is_number, head) in enumerate(zip(row, numeric, heads, strict=True))
        )

    body = "".join(f"<tr>{cells(row, 'td')}</tr>" for row in rows[1:])
    return (
        f"<div class='wide'><table><thead><tr>{cells(rows[0], 'th')}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )


def _stepper(rows: Mapping[str, Any]) -> str:
    return (
        f"<div class='steps'><style>{asset('steps.css')}</style>"
        f"<script type='application/json'>{_json(rows)}</script>"
        f"<script>({asset('steps.js').strip()})(document.currentScript.parentElement)</script>"
        "</div>"
    )


def _as_data(figure: Any, number: int) -> str:
    """A figure as a place with its data: ``page.js`` draws it once it can be seen."""
    drawn = figure.to_dict()
    drawn["layout"].pop("template", None)
    height = drawn["layout"].get("height", 450)
    return (
        f"<div class=plot id=figure-{number} style='height:{height}px'></div>"
        f"<script type='application/json'>{_json(drawn)}</script>"
    )


def _json(value: Any) -> str:
    """JSON that may stand inside a script: no name ends it."""
    if isinstance(value, Mapping) and "layout" in value and "data" in value:
        from plotly.io.json import to_json_plotly

        text = str(to_json_plotly(value))
    else:
        text = json.dumps(value, separators=(",", ":"))
    return text.replace("<", "\\u003c")


def _text(text: str) -> str:
    linked = _LINK.sub(r"<a href='\2'>\1</a>", html.escape(text, quote=False))
    return _CODE.sub(r"<code>\1</code>", linked)


def _cell(text: str) -> str:
    first, *remarks = text.split("\n")
    return _text(first) + "".join(f"<small>{_text(remark)}</small>" for remark in remarks)


def _is_number(text: str) -> bool:
    return text.lstrip("+-").replace(",", "")[:1].isdigit() or text == "?"
