"""A document before it is rendered: what a report says, once, for Markdown and for a page of HTML.

As in Markdown, text may have `code` between backticks, and [links](to/files) beside the document.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Still


@dataclass(frozen=True, slots=True)
class Heading:
    """The heading of a part."""

    text: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer, in one sentence, at the top of a page. ``kind`` colours it: ``good``, ``known``,
    ``bad``, or nothing."""

    text: str
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Tiles:
    """The figures below the verdict: (number with its unit, what it is and of how many, kind)."""

    tiles: Sequence[tuple[str, str, str]]


@dataclass(frozen=True, slots=True)
class Lines:
    """Text as it is, such as commands and what they print."""

    lines: Sequence[str]


@dataclass(frozen=True, slots=True)
class Table:
    """A table, its first row above it. What follows a line break within a cell is a remark.

    ``listed``: Markdown has so many rows, and says that there are ``rest``; a page has all.
    """

    rows: Sequence[Sequence[str]]
    listed: int | None = None
    rest: str = "more"


@dataclass(frozen=True, slots=True)
class Plot:
    """A plot. ``drawn`` gives rows of Plotly figures that stand side by side; ``still``, of
    Matplotlib, is a file of that ``name`` beside the Markdown, where the ``caption`` is below it.
    """

    title: str
    drawn: Callable[[], Iterable[Sequence[Any]]] | None = None
    name: str = ""
    still: Callable[[], Still] | None = None
    caption: str = ""


@dataclass(frozen=True, slots=True)
class Stepper:
    """A run to step through, on a page; ``rows`` is what ``steps.js`` reads (``steps.py``)."""

    rows: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Fold:
    """What is folded away under a title, where a page can do so."""

    title: str
    parts: Sequence[Part]
    is_open: bool = False


Part: TypeAlias = str | Heading | Verdict | Tiles | Lines | Table | Plot | Stepper | Fold
"""A string is a paragraph."""


@dataclass(frozen=True, slots=True)
class Document:
    """A title and what follows it, from top to bottom."""

    title: str
    parts: Sequence[Part]
