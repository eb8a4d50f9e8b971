"""docs/failures.md: what is said of a failure is what its run shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "failures.md"
SECTIONS = dict(
    section.split("\n", 1) for section in PAGE.read_text().split("\n## ")[1:] if "```" in section
)


@pytest.mark.parametrize("title", SECTIONS)
def test_every_number_that_is_told_is_in_the_run_that_is_shown(title: str) -> None:
    """A time may be told in fewer digits. The page is generated; the words are written by hand."""
    _, shown, told = SECTIONS[title].split("```")
    numbers = re.findall(r"(?<![\w-])\d+(?:\.\d+)?", told.split("![")[0])
    assert [number for number in numbers if not _is_shown(number, shown)] == []


def _is_shown(number: str, shown: str) -> bool:
    end = r"\d*\b" if "." in number else r"(?!\d|\.\d)"
    return re.search(rf"(?<![\d.]){re.escape(number)}{end}", shown) is not None
