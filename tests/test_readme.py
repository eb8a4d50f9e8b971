"""README.md is short; what it and the pages behind it list is all there is."""

from __future__ import annotations

import re
from pathlib import Path

from typer.main import get_command

from rebalance_sim.cli.main import app_of
from rebalance_sim.protocol.versions.semantics import SEMANTICS
from rebalance_sim.scenarios.compare import PROTOCOLS
from rebalance_sim.scenarios.profile_file import PROFILES
from rebalance_sim.spark.store.tables import COMPARISON, OUTCOMES, SCHEMAS

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
DOCS = ROOT / "docs"
LAYERS = ("cli", "spark", "scenarios", "sim", "invariants", "protocol", "conformance")
MOST_LINES = 150


def _page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def _rows(text: str) -> set[str]:
    """What the tables of a page list: the code in the first cell of each row."""
    cells = re.findall(r"^\| ([^|]*) \|", text, re.M)
    return {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)}


def test_the_first_page_is_short_and_leads_to_every_other() -> None:
    assert len(README.splitlines()) <= MOST_LINES
    for page in ("getting-started", "experiments", "results", "architecture", "contributing"):
        assert f"(docs/{page}.md)" in README


def test_every_command_is_listed() -> None:
    listed = _rows(_page("experiments.md").split("## The commands")[1].split("\n## ")[0])
    assert listed == set(get_command(app_of()).commands)  # type: ignore[attr-defined]


def test_profiles_versions_and_compared_protocols_are_listed() -> None:
    assert _rows(_page("experiments.md")) >= {*PROFILES, *SEMANTICS, *PROTOCOLS}


def test_every_outcome_and_every_column_is_listed() -> None:
    page = _page("results.md")
    assert set(OUTCOMES) <= _rows(page)
    for kind, schema in {**SCHEMAS, "comparison": COMPARISON}.items():
        section = page.split(f"### {kind}\n")[1].split("\n##")[0]
        above = re.search(r"As above: (.*)\.$", section, re.M)
        shared = re.findall(r"`([^`]+)`", above[1]) if above else []
        assert _rows(section) | set(shared) == set(schema.names)


def test_every_package_has_a_line_in_the_architecture() -> None:
    folders = [ROOT / layer for layer in LAYERS]
    folders += [path for layer in folders for path in layer.iterdir() if any(path.glob("*.py"))]
    listed = _rows(_page("architecture.md"))
    for folder in folders:
        assert f"{folder.relative_to(ROOT).as_posix()}/" in listed
