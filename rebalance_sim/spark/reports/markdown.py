"""A document as Markdown, and the files of a report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from io import BytesIO
from typing import TYPE_CHECKING

from rebalance_sim.scenarios.documents import document as doc
from rebalance_sim.scenarios.documents.html_page import has_plotly, html_page
from rebalance_sim.spark.store.opening import open_store
from rebalance_sim.spark.store.store import Location, Store

if TYPE_CHECKING:
    from matplotlib.figure import Figure

REPORT_FILE = "report.md"
PAGE_FILE = "report.html"
"""The page with interactive plots, beside the short one."""
PLOT_FOLDER = "report"


def write_document(out: Location, document: doc.Document, *, note: str = "") -> None:
    """Write ``report.md`` with its images, and ``report.html`` if Plotly is installed.

    ``note`` is only for Markdown: equal results are equal pages.
    """
    store = open_store(out)
    _write_stills(store, document.parts)
    notes = [note] if note else []
    if write_page(store, document):
        link = f"The same with interactive plots: [{PAGE_FILE}]({PAGE_FILE})."
        notes.append(link)
    text = markdown(doc.Document(document.title, [*notes, *document.parts]))
    store.put(REPORT_FILE, text.encode())


def write_page(store: Store, document: doc.Document) -> bool:
    """Write ``report.html``. Whether there is one: it needs Plotly."""
    if not has_plotly():
        return False
    store.put(PAGE_FILE, html_page(document).encode())
    return True


def _write_stills(store: Store, parts: Iterable[doc.Part]) -> None:
    for part in parts:
        if isinstance(part, doc.Fold):
            _write_stills(store, part.parts)
        elif isinstance(part, doc.Plot) and part.still:
            store.put(_file(part), png_of(part.still()))


def png_of(figure: Figure) -> bytes:
    """The figure as the content of a file."""
    if layout := figure.get_layout_engine():
        layout.execute(figure)  # Once, and not by a drawing that is thrown away.
        figure.set_layout_engine(None)
    content = BytesIO()
    figure.savefig(content, format="png", dpi=110)
    return content.getvalue()


def _file(plot: doc.Plot) -> str:
    return f"{PLOT_FOLDER}/{plot.name}.png"


def markdown(document: doc.Document) -> str:
    """The document as Markdown; what can be folded away is a part with a heading."""
    return "\n\n".join([f"# {_text(document.title)}", *_blocks(document.parts)]) + "\n"


def _blocks(parts: Iterable[doc.Part]) -> Iterator[str]:
    for part in parts:
        match part:
            case doc.Heading(text):
                yield f"## {_text(text)}"
            case str(text):
                yield _text(text)
            case doc.Verdict(text):
                yield f"**{_text(text)}**"
            case doc.Stepper():
                pass
            case doc.Tiles(tiles):
                yield ", ".join(f"**{number}** {_text(words)}" for number, words, _ in tiles)
            case doc.Lines(lines):
                yield "\n".join(["```", *lines, "```"])
            case doc.Table():
                yield from _table(part)
            case doc.Plot(still=None):
                pass
            case doc.Plot():
                yield f"![{_text(part.title)}]({_file(part)})"
                yield from filter(None, [_text(part.caption)])
            case doc.Fold():
                yield f"## {_text(part.title)}"
                yield from _blocks(part.parts)


def _table(table: doc.Table) -> Iterator[str]:
    header, *rows = table.rows
    if not rows:
        yield "None."
        return
    listed = rows[: table.listed]
    yield "\n".join([_row(header), "|" + "---|" * len(header), *map(_row, listed)])
    if len(listed) < len(rows):
        yield f"And {len(rows) - len(listed):,} {table.rest}."


def _row(cells: Sequence[str]) -> str:
    """A name or a message is no column and no line, and a remark follows a colon."""
    texts = (_text(cell).replace("|", "\\|").replace("\n", ": ") for cell in cells)
    return f"| {' | '.join(texts)} |"


def _text(text: str) -> str:
    """A name or a message is text: no HTML."""
    return text.replace("&", "&amp;").replace("<", "&lt;")
