"""Every known issue has a title and a place where one reads about it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rebalance_sim.invariants.known.known_issues import every_issue, page_of

ROOT = Path(__file__).parents[2]
ISSUES = sorted(every_issue())


def anchors(page: Path) -> set[str]:
    """What the headings of a page can be linked by."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


@pytest.mark.parametrize("issue", ISSUES)
def test_an_issue_has_a_title_and_a_section(issue: str) -> None:
    title, page = page_of(issue)
    assert title and title != issue
    file, _, anchor = page.partition("#")
    assert anchor in anchors(ROOT / file)
