"""``hunt``: what it prints and leaves behind, and what it refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import Outcome

from rebalance_sim.cli.hunt import ROUND
from rebalance_sim.scenarios.hunt import hunt

Call = Callable[..., Outcome]

QUICK = ("--set", "timings.duration_ms=[5_000, 8_000]", "--processes", 1, "--round", 6)
HUNT = ("hunt", "--profile", "faulty", *QUICK)


def test_a_hunt_finds_an_easy_defect_and_writes_a_scenario(call: Call, tmp_path: Path) -> None:
    folder = tmp_path / "corpus"
    easy = ("--set", 'world.defects=["mut-early-grant"]', "--stop-after", 1, "--runs", 60)
    code, out, err = call(*HUNT, *easy, "--corpus", folder)
    assert code == 1
    assert "found: violation " in err
    [file] = {line.split()[-1] for line in out.splitlines() if "rebalance-sim run" in line}
    assert Path(file).parent == folder / "findings"
    assert Path(file).read_text().startswith("# Found by a hunt, made by ")
    violated = Path(file).name.rpartition("-")[0]
    assert f"violation {violated} in " in out
    result = json.loads(call("run", file, "--json").out)
    assert result["violations"][0]["property"] == violated
    lock = tmp_path / "lock.json"
    assert call("regress", folder / "findings", "--lock", lock, "--processes", 1).code == 1


def test_a_hunt_that_finds_nothing_says_what_it_reached(call: Call, tmp_path: Path) -> None:
    code, out, err = call(*HUNT, "--runs", 6, "--corpus", tmp_path)
    assert (code, err) == (0, "")
    first, second, report = out.splitlines()
    assert report.startswith("report: ") and report.endswith("/report.html")
    # Known issues are nothing that it looks for, and are not nothing.
    page = (tmp_path / "report.html").read_text()
    assert "Nothing but known issues: " in page and " of 6 runs show some" in page
    assert first.startswith("6 runs in 1 round, ")
    assert f"kept in {tmp_path}; 0 mutants discarded" in second
    figures = json.loads(call(*HUNT, "--runs", 12, "--corpus", tmp_path, "--json").out)
    assert figures["runs"] == 12
    assert [row["runs"] for row in figures["rounds"]] == [6, 12]
    assert figures["found"] == []
    assert any(name.startswith("pair.request.") for name in figures["reached"])


def test_plain_runs_the_seeds_of_the_profile(call: Call, tmp_path: Path) -> None:
    call(*HUNT, "--runs", 12, "--plain", "--corpus", tmp_path)
    made = [json.loads(file.read_text())["made"] for file in (tmp_path / "corpus").glob("*.json")]
    assert made
    assert all(one.startswith("seed ") for one in made)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "a hunt needs an end: give --minutes, --runs, or both"),
        (("--runs", 0), "runs 0: give at least 1"),
        (("--minutes", -1), "minutes: give more than 0"),
        (("--runs", 6, "--backend", "cloud"), "backend 'cloud': choose one of spark, pool"),
        (("--runs", 6, "--set", "world.nonsense=1"), "world.nonsense"),
        (("--runs", 6, "--profile", "fulty"), "'fulty'"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(
    call: Call, tmp_path: Path, options: tuple[object, ...], message: str
) -> None:
    code, out, err = call(*HUNT, *options, "--corpus", tmp_path / "corpus")
    assert (code, out) == (2, "")
    assert err.startswith("rebalance-sim: error: ")
    assert message in err
    assert err.count("\n") == 1
    assert not (tmp_path / "corpus").exists()


def test_a_folder_that_is_a_file_or_of_another_hunt(call: Call, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    code, _, err = call(*HUNT, "--runs", 6, "--corpus", file)
    assert (code, err) == (
        2,
        f"rebalance-sim: error: hunt: --corpus {file} is a file: give a folder\n",
    )
    folder = tmp_path / "corpus"
    assert call(*HUNT, "--runs", 6, "--corpus", folder).code == 0
    code, _, err = call(*HUNT, "--runs", 6, "--seed", 9, "--corpus", folder)
    assert code == 2
    assert "another start seed (0, not 9)" in err


def test_the_size_of_a_round_is_that_of_the_search() -> None:
    assert ROUND == hunt.ROUND
