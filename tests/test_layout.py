"""The package is one real tree; the layers are beside it, where a reader of the checkout looks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LAYERS = ("cli", "conformance", "gateway", "invariants", "protocol", "scenarios", "sim", "spark")


@pytest.mark.parametrize("layer", LAYERS)
def test_a_layer_is_a_folder_of_the_checkout(layer: str) -> None:
    assert (ROOT / layer).is_symlink()
    assert (ROOT / layer).resolve() == ROOT / "rebalance_sim" / layer


def test_no_file_of_the_package_lies_behind_a_link() -> None:
    """Who follows no links, as installers, editors and coverage do not, finds each file once."""
    assert not [path for path in (ROOT / "rebalance_sim").rglob("*") if path.is_symlink()]


def test_an_imported_module_is_the_file_that_a_search_finds() -> None:
    script = "import rebalance_sim.sim.world as world; print(world.__file__)"
    found = subprocess.run(
        [sys.executable, "-P", "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(ROOT)},
    )
    assert Path(found.stdout.strip()) == ROOT / "rebalance_sim" / "sim" / "world.py"
