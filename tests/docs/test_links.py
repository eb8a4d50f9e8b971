"""Every link of every page leads somewhere, and so does its anchor."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pages import PAGES, ROOT, anchors, links

from rebalance_sim.invariants.known.known_issues import KNOWN_ISSUES
from rebalance_sim.protocol.defects import DEFECTS

NAMED = re.compile(
    r"`((?:cli|conformance|docs|examples|experiments|invariants|notebooks|benchmarks|protocol"
    r"|scenarios|sim|spark|tests)/[\w./-]*)`"
)


def _name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def test_there_are_pages_and_links() -> None:
    assert {"README.md", "docs/findings.md", "conformance/traces/README.md"} <= set(
        map(_name, PAGES)
    )
    assert sum(len(links(page)) for page in PAGES) > 100


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_every_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    for link in links(page):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        if anchor:
            assert anchor.lower() in anchors(target), link


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_every_file_that_is_named_exists(page: Path) -> None:
    for name in NAMED.findall(page.read_text(encoding="utf-8")):
        assert (ROOT / name).exists(), name


def test_every_page_of_the_documentation_is_in_its_index() -> None:
    index = ROOT / "docs" / "README.md"
    listed = {(index.parent / link.partition("#")[0]).resolve() for link in links(index)}
    for page in (ROOT / "docs").glob("*.md"):
        assert page == index or page in listed, page.name


def test_every_known_issue_without_a_report_of_its_own_has_a_section_among_the_findings() -> None:
    reported = {name for name in DEFECTS if not name.startswith("sim-")}
    sections = anchors(ROOT / "docs" / "findings.md")
    issues = KNOWN_ISSUES.keys() - reported
    assert issues
    assert {issue.lower() for issue in issues} <= sections


def test_the_anchor_of_a_heading_is_the_one_that_github_gives_it(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A `run`, and more: 4.3\n\n```\n# no heading\n```\n## D12\n## D12\n## [a](b.md) c\n"
    )
    assert anchors(page) == {"a-run-and-more-43", "d12", "d12-1", "a-c"}
