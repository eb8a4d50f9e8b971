"""Parts of the pages that reports are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

PAGE_FILE = "report.html"
"""The page with pictures to look into, beside the short one."""


def section(title: str, rows: Sequence[Sequence[str]], plot: str | None = None) -> Iterator[str]:
    """Lines of a heading, a table whose first row is its header, and the plot that goes with it."""
    yield ""
    yield f"## {title}"
    yield ""
    if len(rows) == 1:
        yield "None."
        return
    for index, row in enumerate(rows):
        yield "| " + " | ".join(_cell(cell) for cell in row) + " |"
        if index == 0:
            yield "|" + "---|" * len(row)
    if plot is not None:
        yield ""
        yield f"![{title}]({plot})"


def _cell(text: str) -> str:
    """A name or a message is text: no column, no line and no HTML of the page."""
    text = text.replace("&", "&amp;").replace("<", "&lt;")
    return text.replace("|", "\\|").replace("\n", " ")
