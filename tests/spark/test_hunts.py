"""Hunts in a folder: rounds that are lost, processes that are killed, and going on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rebalance_sim.scenarios.hunt.hunt import ROUND
from rebalance_sim.scenarios.variant import Variant
from rebalance_sim.spark.errors import SweepError
from rebalance_sim.spark.hunt import carry_out
from rebalance_sim.spark.hunt.carry_out import Hunted, HuntInterrupted, HuntOptions, hunt
from rebalance_sim.spark.hunt.folder import RoundRow
from rebalance_sim.spark.hunt.rounds import ROUND_TRIES
from rebalance_sim.spark.supervised import Limits

QUICK = ("timings.duration_ms=[5_000, 8_000]", "sizes.clients=[2, 2]")
OPTIONS = HuntOptions(runs=18, round_size=6, processes=1)


def variant() -> Variant:
    from rebalance_sim.scenarios.settings import Setting

    return Variant.of("faulty").setting(map(Setting.parse, QUICK))


def a_hunt(folder: Path, options: HuntOptions = OPTIONS) -> Hunted:
    return hunt((variant(),), folder, options)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Hunted, dict[str, bytes]]:
    """The hunt in one call, and what it leaves behind."""
    folder = tmp_path_factory.mktemp("whole")
    return a_hunt(folder), contents(folder)


def contents(folder: Path) -> dict[str, bytes]:
    """All files but that of the times, which are never the same twice."""
    files = (file for file in folder.rglob("*") if file.is_file() and file.name != "rounds.json")
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


def test_a_hunt_in_two_calls_is_the_same_as_in_one(
    whole: tuple[Hunted, dict[str, bytes]], tmp_path: Path
) -> None:
    hunted, left = whole
    first = a_hunt(tmp_path / "parts", replace(OPTIONS, runs=6))
    assert first.corpus.runs == 6
    again = a_hunt(tmp_path / "parts")
    assert again.corpus == hunted.corpus
    assert contents(tmp_path / "parts") == left
    assert [row.runs for row in again.rows] == [6, 12, 18]
    assert [one.reached for one in again.rows] == [one.reached for one in hunted.rows]


def test_what_is_done_already_is_not_run_again(tmp_path: Path) -> None:
    a_hunt(tmp_path, replace(OPTIONS, runs=6))
    before = contents(tmp_path)
    assert a_hunt(tmp_path, replace(OPTIONS, runs=6)).corpus.runs == 6
    assert contents(tmp_path) == before


def test_a_lost_round_is_run_again(
    whole: tuple[Hunted, dict[str, bytes]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = iter((True, False, True, True, False))

    def run_calls(
        calls: Sequence[Callable[[], Any]], *, on_result: Callable[[Any], None], **other: object
    ) -> None:
        is_lost = next(lost, False)
        for call in calls[: 1 if is_lost else None]:
            on_result(call())
        if is_lost:
            raise SweepError("a process of the pool was killed")

    monkeypatch.setattr("rebalance_sim.spark.pool.run_calls", run_calls_of(run_calls))
    notes: list[str] = []
    found = hunt((variant(),), tmp_path, OPTIONS, on_note=notes.append)
    assert len(notes) == 3
    assert (found.corpus, contents(tmp_path)) == (whole[0].corpus, whole[1])


def run_calls_of(run_calls: Callable[..., None]) -> Callable[..., None]:
    def run(calls: Sequence[Any], *, processes: int | None, **other: Any) -> None:
        run_calls(calls, **other)

    return run


def test_a_round_that_is_always_lost_ends_the_hunt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = []

    def run_calls(calls: object, **other: object) -> None:
        tries.append(calls)
        raise SweepError("a process of the pool was killed")

    monkeypatch.setattr("rebalance_sim.spark.pool.run_calls", run_calls)
    with pytest.raises(SweepError, match="was killed"):
        a_hunt(tmp_path)
    assert len(tries) == ROUND_TRIES
    assert not (tmp_path / "hunt.json").exists()


SCRIPT = """
import sys
from pathlib import Path
sys.path.insert(0, {here!r})
import test_hunts
test_hunts.a_hunt(Path({folder!r}))
"""


def test_a_killed_hunt_goes_on_where_it_was(
    whole: tuple[Hunted, dict[str, bytes]], tmp_path: Path
) -> None:
    folder = tmp_path / "killed"
    text = SCRIPT.format(here=str(Path(__file__).parent), folder=str(folder))
    process = subprocess.Popen([sys.executable, "-c", text], env=os.environ)
    while process.poll() is None and not (folder / "hunt.json").exists():
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    begun = json.loads((folder / "hunt.json").read_text())["runs"]
    assert begun >= 6
    assert (a_hunt(folder).corpus, contents(folder)) == (whole[0].corpus, whole[1])


def test_a_hunt_that_is_stopped_keeps_its_rounds(tmp_path: Path) -> None:
    def stop(row: RoundRow, found: list[Any]) -> None:
        raise KeyboardInterrupt

    with pytest.raises(HuntInterrupted, match="interrupted after 1 round"):
        hunt((variant(),), tmp_path, OPTIONS, on_round=stop)
    assert json.loads((tmp_path / "hunt.json").read_text())["runs"] == 6
    assert a_hunt(tmp_path).corpus.runs == 18


def test_another_hunt_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    a_hunt(tmp_path, replace(OPTIONS, runs=6))
    with pytest.raises(SweepError, match="a hunt with another start seed"):
        a_hunt(tmp_path, replace(OPTIONS, start_seed=5))
    with pytest.raises(SweepError, match="a hunt with another learns"):
        a_hunt(tmp_path, replace(OPTIONS, learns=False))


def test_a_folder_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "hunt.json").write_text("{}")
    with pytest.raises(SweepError, match=r"hunt.json is no index of a hunt"):
        a_hunt(tmp_path)
    (tmp_path / "hunt.json").write_text("{")
    with pytest.raises(SweepError, match=r"hunt.json cannot be read"):
        a_hunt(tmp_path)


def test_a_run_that_a_limit_ends_has_no_verdict(tmp_path: Path) -> None:
    limits = Limits(soft_s=0.001, hard_s=5)
    found = a_hunt(tmp_path, replace(OPTIONS, runs=6, limits=limits))
    assert found.corpus.outcomes == {"timeout": 6}
    assert not found.corpus.findings
    assert not found.corpus.tried  # a mutant that is drawn once more is run once more


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "needs an end"),
        ({"runs": 0}, "runs 0: give at least 1"),
        ({"runs": 5, "round_size": 0}, "round size 0"),
        ({"seconds": 0.0}, "give more than 0"),
        ({"runs": 5, "backend": "cloud"}, "choose one of spark, pool"),
    ],
)
def test_numbers_that_make_no_sense(values: dict[str, Any], message: str) -> None:
    with pytest.raises(SweepError, match=message):
        HuntOptions(**values)


def test_a_round_has_as_many_runs_as_the_search_says() -> None:
    assert HuntOptions(runs=1).round_size == ROUND
    assert carry_out.plan_of((variant(),), OPTIONS)["round size"] == 6
