"""What the README says about commands, tables, profiles, versions and packages is so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.main import get_command

from rebalance_sim.cli.main import app
from rebalance_sim.protocol.versions.semantics import SEMANTICS
from rebalance_sim.scenarios.profile import PROFILES, load_profile
from rebalance_sim.spark.store.tables import OUTCOMES, SCHEMAS

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
LAYERS = ("cli", "spark", "scenarios", "sim", "invariants", "protocol", "conformance")


def test_every_command_is_shown_and_every_shown_command_exists() -> None:
    shown = set(re.findall(r"rebalance-sim ([a-z]+)", README))
    assert shown == set(get_command(app).commands)  # type: ignore[attr-defined]


def test_every_option_that_is_shown_exists() -> None:
    commands = get_command(app).commands  # type: ignore[attr-defined]
    for line in README.replace("\\\n", " ").splitlines():
        match = re.search(r"rebalance-sim ([a-z]+)([^`|]*)", line)
        if match:
            known = {name for option in commands[match[1]].params for name in option.opts}
            assert set(re.findall(r"--[a-z-]+", match[2])) <= known | {"--help"}, line


@pytest.mark.parametrize("kind", SCHEMAS)
def test_every_column_stands_in_its_table(kind: str) -> None:
    schema = SCHEMAS[kind]
    rows = [f"| `{f.name}` | {f.type} | {f.metadata[b'doc'].decode()} |" for f in schema]
    head = [f"`{kind}`: {schema.metadata[b'doc'].decode()}", ""]
    head += ["| column | type | meaning |", "|---|---|---|"]
    assert "\n".join([*head, *rows]) in README


def test_outcomes_profiles_and_versions_are_listed() -> None:
    for name, meaning in OUTCOMES.items():
        assert f"| `{name}` | {meaning} |" in README
    for name in PROFILES:
        assert f"| `{name}` | {load_profile(name).description} |" in README
    for name in SEMANTICS:
        assert f"| `{name}` |" in README


def test_every_package_has_a_line() -> None:
    folders = [ROOT / layer for layer in LAYERS]
    folders += [path for layer in folders for path in layer.iterdir() if any(path.glob("*.py"))]
    for folder in folders:
        assert f"| `{'.'.join(folder.relative_to(ROOT).parts)}` |" in README


def test_every_file_that_is_named_exists() -> None:
    linked = re.findall(r"\]\(([^)#:]+)\)", README)
    named = re.findall(r"`((?:docs|scenarios|notebooks|benchmarks|conformance)/[\w./-]*)`", README)
    assert linked and named
    for name in (*linked, *named):
        assert (ROOT / name).exists(), name
