"""Prose, messages and comments use the field's words, and plain ones beside them."""

from __future__ import annotations

import re

from pages import PAGES, ROOT

AVOIDED = {
    "no member, no one": r"\bnobody\b",
    "the member that, who": r"\bwhoever\b",
    "again": r"\banew\b",
    "happen, is established": r"\b(comes?|came) about\b",
    "continue": r"\bgoes on\b",
    "discovered by import": r"\bfound by being there\b",
    "depends on": r"\bhangs? on\b",
    "successor": r"(?<!-)\bheirs?\b",
    "place, member": r'(?<![-."])\bseats?\b(?!-)',
    "admitted": r"\blet in\b",
    "asked to join again": r"\bcalled back\b",
    "previous": r"(?<!heard )\bof before\b",
    "uses, follows": r"\bgoes by\b",
    "rejects": r"\bturn(s|ed)? away\b",
    "reference, copy": r"\btwins?\b",
    "simpler": r"\bplainer\b",
    "distinguished": r"\btold apart\b",
    "plot, figure, image": r"picture",
    "has to, is due": r"\bow(e|es|ed|ing)\b",
}
"""What to write instead -> the words. What is stored stays: ``refusal.seat``, ``seat-a``."""

NAMES_OF_THINGS = re.compile(r"generate/seats|</?picture>")
FILES = [
    *PAGES,
    *sorted((ROOT / "rebalance_sim").rglob("*.py")),
    *sorted((ROOT / "rebalance_sim").rglob("*.toml")),
]


def test_words_that_a_reader_would_have_to_ask_about_are_not_used() -> None:
    avoided = {said: re.compile(words, re.I) for said, words in AVOIDED.items()}
    found = [
        f"{path.relative_to(ROOT)}:{number}: say {said!r}: {line.strip()}"
        for path in FILES
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        for said, words in avoided.items()
        if words.search(NAMES_OF_THINGS.sub("", line))
    ]
    assert found == []


def test_no_page_says_told_but_asked_answered_or_reported() -> None:
    """Former names of properties have it, which results that are stored name."""
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in PAGES
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if re.search(r"(?<![\w.])told\b", line)
    ]
    assert found == []


def test_a_word_is_found_in_any_case_and_names_that_are_stored_are_not() -> None:
    assert re.search(AVOIDED["place, member"], "A Seat is free.", re.I)
    assert not re.search(AVOIDED["place, member"], "refusal.seat of seat-a", re.I)
