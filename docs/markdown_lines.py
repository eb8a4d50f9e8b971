"""Tables in Markdown, line by line."""

from __future__ import annotations

from collections.abc import Iterable


def line(*cells: object) -> str:
    """A row of a table; ``|`` in a cell is text."""
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |\n"


def heading(*titles: str) -> str:
    """What a table begins with."""
    return line(*titles) + line(*["---"] * len(titles))


def table(head: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """A table whose rows are there already."""
    return heading(*head) + "".join(line(*row) for row in rows)
