"""The folder of a sweep: what counts as done, and what is never touched."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

import fake_scenarios
import pytest
from sample_plans import a_plan

from rebalance_sim.scenarios.variant import Variant
from rebalance_sim.spark import SweepError, read_plan, read_table
from rebalance_sim.spark.plan import Unit
from rebalance_sim.spark.store.results import ResultFolder
from rebalance_sim.spark.store.tables import SCHEMAS, failure_row, run_row, to_table, violation_rows


@pytest.fixture
def folder(tmp_path: Path) -> ResultFolder:
    folder = ResultFolder(tmp_path / "out")
    folder.create(a_plan())
    return folder


def units_of(*seeds: int) -> list[Unit]:
    return [Unit(Variant("mixed"), seed) for seed in seeds]


def rows_of(*seeds: int) -> list[dict[str, object]]:
    return [run_row(unit, fake_scenarios.run_seed(*unit)) for unit in units_of(*seeds)]


def write_batch(folder: ResultFolder, index: int, *seeds: int) -> None:
    results = [(unit, fake_scenarios.run_seed(*unit)) for unit in units_of(*seeds)]
    violated = [row for unit, result in results for row in violation_rows(unit, result)]
    folder.write("violations", index, to_table("violations", violated))
    folder.write("runs", index, to_table("runs", rows_of(*seeds)))


def test_a_new_folder_holds_the_plan_and_nothing_done(folder: ResultFolder) -> None:
    assert folder.plan() == a_plan() == read_plan(folder.path)
    assert folder.batches_done() == set()
    assert read_table(folder.path, "runs").num_rows == 0


def test_rows_come_back_as_they_went_in_and_by_seed(folder: ResultFolder) -> None:
    write_batch(folder, 1, 13, 14)
    write_batch(folder, 0, 3, 6)
    assert folder.batches_done() == {0, 1}
    assert read_table(folder.path, "runs").to_pylist() == rows_of(3, 6, 13, 14)
    violations = read_table(folder.path, "violations").to_pylist()
    assert [(row["seed"], row["property"], row["step"]) for row in violations] == [
        (3, "client.exclusive", 17),
        (3, "client.exclusive", 17),
        (13, "client.exclusive", 17),
        (13, "client.exclusive", 17),
    ]


def test_a_batch_without_its_rows_file_does_not_count(folder: ResultFolder) -> None:
    write_batch(folder, 0, 3)
    (folder.path / "runs" / "b000000.parquet").unlink()
    assert folder.batches_done() == set()
    assert read_table(folder.path, "violations").num_rows == 0


def test_equal_rows_are_equal_files(folder: ResultFolder, tmp_path: Path) -> None:
    other = ResultFolder(tmp_path / "other")
    other.create(a_plan())
    for target in (folder, other):
        write_batch(target, 0, 3, 4, 6)
    files = [target.path / "runs" / "b000000.parquet" for target in (folder, other)]
    assert files[0].read_bytes() == files[1].read_bytes()


def test_a_run_without_a_verdict_has_a_row_too() -> None:
    row = failure_row(Unit(Variant("faulty"), 5), outcome="crash", reason="signal 9")
    [back] = to_table("runs", [row]).to_pylist()
    assert back == row
    assert back["digest"] is None and back["coverage"] == []


@pytest.mark.parametrize("kind", SCHEMAS)
def test_every_column_says_what_it_means(kind: str) -> None:
    assert SCHEMAS[kind].metadata[b"doc"]
    for field in SCHEMAS[kind]:
        assert field.metadata[b"doc"], field.name


def test_other_content_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(SweepError, match="other content"):
        ResultFolder(tmp_path).plan()
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    with pytest.raises(SweepError, match="is a file"):
        ResultFolder(tmp_path / "out").plan()


def test_a_damaged_plan_is_refused(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text("{}")
    with pytest.raises(SweepError, match=r"plan\.json"):
        ResultFolder(tmp_path).plan()


def test_only_what_dead_writers_left_behind_is_removed(folder: ResultFolder) -> None:
    dead = subprocess.Popen(["true"])
    dead.wait()
    host, runs = socket.gethostname(), folder.path / "runs"
    names = [
        f"_tmp-{host}-{dead.pid}-0123abcd",
        f"_tmp-{host}-{os.getpid()}-0123abcd",
        f"_tmp-elsewhere-{dead.pid}-0123abcd",
    ]
    for name in names:
        (runs / name).write_bytes(b"half a file")
    folder.create(a_plan())
    assert sorted(file.name for file in runs.iterdir()) == sorted(names[1:])
    assert folder.batches_done() == set()
