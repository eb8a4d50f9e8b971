"""Sentences of the pages are short: a reader has the beginning in mind when the end comes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from pages import PAGES, ROOT

LONGEST = 200
NAMES = 5
"""Of a sentence that lists names: it may be longer."""

LEFT = {
    "docs/reference/consumer-client.md": 1,
    "docs/reference/consumer-group-coordinator.md": 3,
}
"""How many longer ones there still are, lists and a heading; these numbers only get smaller."""

OF_MEASUREMENTS = {"properties.md", "detection.md", "explore.md", "pairs.md", "protocol.md"}
"""Pages whose generated parts are lists, not sentences."""

_NOT_PROSE = re.compile(r"^```.*?^```$", re.M | re.S)
_GENERATED = re.compile(r"<!-- generated.*?<!-- end -->", re.S)
_END = re.compile(r"(?<=[.!?:])[)*\"]*\s+(?=[A-Z0-9`*\"(\[])")


def sentences(text: str) -> Iterator[str]:
    """The sentences of a page: of paragraphs, items and cells; links by their words."""
    for line in _NOT_PROSE.sub("", text).splitlines():
        cells = line.strip().strip("|").split(" | ") if line.startswith("|") else [line]
        for cell in cells:
            words = re.sub(r"\]\([^)]*\)", "]", cell.strip())
            yield from _END.split(re.sub(r"^(?:[-*]|\d+\.|#+)\s+", "", words))


def is_too_long(sentence: str) -> bool:
    return len(sentence) > LONGEST and len(re.findall(r"`[^`]+`|\[[^]]+\]", sentence)) < NAMES


def _too_long(page: Path) -> list[str]:
    text = page.read_text(encoding="utf-8")
    if page.name in OF_MEASUREMENTS:
        text = "" if page.name == "properties.md" else _GENERATED.sub("", text)
    return [one for one in sentences(text) if is_too_long(one)]


@pytest.mark.parametrize(
    "page",
    [p for p in PAGES if p.name != "CHANGELOG.md"],
    ids=lambda page: page.relative_to(ROOT).as_posix(),
)
def test_no_sentence_of_a_page_is_longer_than_200_characters(page: Path) -> None:
    found = _too_long(page)
    most = LEFT.get(page.relative_to(ROOT).as_posix(), 0)
    assert len(found) <= most, "\n".join(found)


def test_a_long_sentence_is_found_wherever_it_stands() -> None:
    long = "It is " + "very " * 50 + "long."
    text = f"# A page\n\nShort. {long}\n\n- {long}\n\n| a | {long} |\n\n```\n{long}\n```\n"
    assert Counter(map(is_too_long, sentences(text)))[True] == 3
    assert not is_too_long("Names: " + ", ".join(f"`name_{n}_of_something`" for n in range(20)))
