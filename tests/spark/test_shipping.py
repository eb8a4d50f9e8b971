"""The code that workers get is the code that the driver has."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from rebalance_sim.spark import SweepError
from rebalance_sim.spark.runner import load_runner
from rebalance_sim.spark.shipping import build_zip, code_digest, packages_of, shipped_packages

FAKE = "fake_scenarios:run_seed"


def test_a_runner_of_ones_own_is_part_of_what_decides_the_rows() -> None:
    names = ("re2_engine", "protocol", "invariants", "sim", "scenarios")
    layers = tuple(f"rebalance_sim.{name}" for name in names)
    assert packages_of("rebalance_sim.spark.runner:run_seed") == layers
    assert packages_of(FAKE) == (*layers, "fake_scenarios")
    assert packages_of("thesis.runs:main") == (*layers, "thesis")
    shipped = ("rebalance_sim.__init__", *layers, "fake_scenarios", "rebalance_sim.spark")
    shipped += ("simpy", "tomli_w")
    assert shipped_packages(FAKE) == shipped


def test_a_zip_loads_elsewhere_with_the_same_digest(tmp_path: Path) -> None:
    packages = shipped_packages(FAKE)
    archive = tmp_path / "code.zip"
    build_zip(packages, archive)
    program = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import fake_scenarios, rebalance_sim, rebalance_sim.spark.shipping as s\n"
        "assert '.zip' in rebalance_sim.__file__ and '.zip' in fake_scenarios.__file__\n"
        f"print(s.code_digest({packages!r}))"
    )
    # -P keeps the current directory out; the test's own path is not inherited.
    command = [sys.executable, "-P", "-c", program, str(archive)]
    printed = subprocess.run(
        command, capture_output=True, text=True, check=True, cwd=tmp_path, env={}
    )
    assert printed.stdout.strip() == code_digest(packages)


def test_every_module_comes_out_of_the_zip_whatever_is_installed(tmp_path: Path) -> None:
    """Also those in folders without an ``__init__.py``: what is installed may be other code."""
    build_zip(shipped_packages(FAKE), tmp_path / "code.zip")
    program = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from rebalance_sim.protocol.versions import semantics\n"
        "from rebalance_sim.scenarios.generate import generator\n"
        "from rebalance_sim.scenarios import runner\n"
        "from rebalance_sim.spark import runner\n"
        "for name, module in sorted(sys.modules.items()):\n"
        "    if name.split('.')[0] == 'rebalance_sim':\n"
        "        assert '.zip' in (module.__file__ or module.__path__[0]), name\n"
        "        print(name)"
    )
    command = [sys.executable, "-P", "-c", program, str(tmp_path / "code.zip")]
    printed = subprocess.run(
        command, capture_output=True, text=True, check=True, cwd=tmp_path, env={}
    )
    assert "rebalance_sim.protocol.consumer.consumer_group" in printed.stdout.split()


def test_equal_code_is_an_equal_zip_without_caches(tmp_path: Path) -> None:
    for name in ("a.zip", "b.zip"):
        build_zip(("rebalance_sim.spark",), tmp_path / name)
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()
    names = zipfile.ZipFile(tmp_path / "a.zip").namelist()
    assert "rebalance_sim/spark/__init__.py" in names
    assert not [name for name in names if "__pycache__" in name]


def test_a_change_anywhere_changes_the_digest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "shipped_for_this_test"
    (package / "data").mkdir(parents=True)
    (package / "__init__.py").write_text("")
    table = package / "data" / "table.toml"
    table.write_text("a = 1")
    monkeypatch.syspath_prepend(tmp_path)
    before = code_digest([package.name])
    table.write_text("a = 2")
    assert code_digest([package.name]) != before


@pytest.mark.parametrize("name", ["nowhere:run", "json:nothing", "json", "json:__doc__", ":run"])
def test_a_runner_that_is_not_there_is_refused(name: str) -> None:
    with pytest.raises(SweepError, match="runner"):
        load_runner(name)


def test_a_package_that_is_not_there_is_refused() -> None:
    with pytest.raises(SweepError, match="cannot import nowhere"):
        code_digest(["nowhere"])
