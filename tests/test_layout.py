"""The package is one real tree; the layers are beside it, where a reader of the checkout looks.

Tests lie in files, each of which one process runs."""

from __future__ import annotations

import re
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


def test_the_tests_of_a_file_run_in_one_process(tmp_path: Path) -> None:
    """Or each process makes what they share: sweeps, and servers in Java."""
    (tmp_path / "conftest.py").write_bytes((ROOT / "conftest.py").read_bytes())
    files = ("tests/test_one.py", "tests/spark/test_hdfs.py", "tests/spark/test_on_spark.py")
    body = "import os, pathlib\nimport pytest\n@pytest.mark.parametrize('number', range(4))\n"
    body += "def test_it(number): pathlib.Path(f'{__file__}-{os.getpid()}').touch()\n"
    for file in files:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(body)
    command = re.search(r"\$\(BIN\)/pytest (-n .*)", (ROOT / "Makefile").read_text())
    assert command
    options = [*command[1].split(), "-p", "no:cacheprovider", "--rootdir", str(tmp_path)]
    subprocess.run(
        [sys.executable, "-m", "pytest", *options, "-n", "2", *files], cwd=tmp_path, check=True
    )
    ran = [sorted(path.name for path in tmp_path.glob(f"{file}-*")) for file in files]
    assert [len(found) for found in ran] == [1, 1, 1]
    pids = [found[0].rpartition("-")[2] for found in ran]
    assert pids[0] != pids[1] == pids[2]
