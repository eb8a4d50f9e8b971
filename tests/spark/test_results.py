"""The folder of a sweep: what counts as done, and what is never touched."""

from __future__ import annotations

import os
import random
import socket
import subprocess
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import fake_scenarios
import pandas
import pyarrow as pa
import pytest
from sample_plans import a_plan

from rebalance_sim.scenarios.variant import Variant
from rebalance_sim.spark import SweepError, compact, read_plan, read_table
from rebalance_sim.spark.plan import Unit
from rebalance_sim.spark.store.posix import PosixStore
from rebalance_sim.spark.store.reading import read_summary
from rebalance_sim.spark.store.results import ResultFolder
from rebalance_sim.spark.store.sketch import Sketch
from rebalance_sim.spark.store.summary import Summary
from rebalance_sim.spark.store.tables import SCHEMAS, batch_row, failure_row, run_row


@pytest.fixture
def folder(tmp_path: Path) -> ResultFolder:
    folder = ResultFolder(tmp_path / "out")
    folder.create(a_plan())
    return folder


def units_of(*seeds: int) -> list[Unit]:
    return [Unit(Variant("mixed"), seed) for seed in seeds]


def rows_of(*seeds: int) -> list[dict[str, Any]]:
    return [run_row(unit, fake_scenarios.run_seed(*unit)) for unit in units_of(*seeds)]


def batch_of(seeds: Iterable[int]) -> list[dict[str, Any]]:
    timing = {"batch": 0, "wall_ms": 1.5, "worker": "here:1", "attempts": 1}
    return [
        {**batch_row(run_row(unit, result), result), "timing": timing}
        for unit, result in ((u, fake_scenarios.run_seed(*u)) for u in units_of(*seeds))
    ]


def write_batch(folder: ResultFolder, index: int) -> None:
    folder.write_batch(a_plan(), index, batch_of(a_plan().batch_seeds(index)))


def test_a_new_folder_holds_the_plan_and_nothing_done(folder: ResultFolder) -> None:
    assert folder.plan() == a_plan() == read_plan(folder.path)
    assert folder.batches_done(a_plan()) == set()
    assert read_table(folder.path, "runs").num_rows == 0


def test_rows_come_back_as_they_went_in_and_by_seed(folder: ResultFolder) -> None:
    write_batch(folder, 1)
    write_batch(folder, 0)
    assert folder.batches_done(a_plan()) == {0, 1}
    assert read_table(folder.path, "runs").to_pylist() == rows_of(*range(200))
    violations = read_table(folder.path, "violations").to_pylist()
    assert [(row["seed"], row["property"], row["step"]) for row in violations[:4]] == [
        (3, "client.exclusive", 17),
        (3, "client.exclusive", 17),
        (13, "client.exclusive", 17),
        (13, "client.exclusive", 17),
    ]
    assert len(violations) == 40
    timing = read_table(folder.path, "timing").to_pylist()
    assert timing[7] == {
        "seed": 7, "protocol": "", "batch": 0, "wall_ms": 1.5, "worker": "here:1", "attempts": 1
    }  # fmt: skip
    assert read_table(folder.path, "metrics").num_rows == 0


@pytest.mark.parametrize("kind", SCHEMAS)
def test_tables_have_their_schema_and_are_whole_without_a_batch(
    folder: ResultFolder, kind: str
) -> None:
    empty = read_table(folder.path, kind)
    write_batch(folder, 0)
    for table in (empty, read_table(folder.path, kind)):
        assert table.schema.equals(SCHEMAS[kind], check_metadata=True)


def test_a_batch_is_one_object_that_any_reader_of_parquet_takes(folder: ResultFolder) -> None:
    write_batch(folder, 0)
    [file] = (folder.path / "runs").iterdir()
    frame = pandas.read_parquet(file)
    assert list(frame.seed) == list(range(100))
    assert len(frame.violated[3]) == 2 and frame.violated[4] is None


def test_a_run_may_have_ten_thousand_samples(folder: ResultFolder) -> None:
    rows = batch_of(range(100))
    sample = {"at_ms": 1, "node_id": 0, "metric": "m", "tags": [("a", "b" * 50)], "value": 1.0}
    rows[3]["samples"] = [{**sample, "at_ms": at_ms} for at_ms in range(10_000)]
    folder.write_batch(a_plan(), 0, rows)
    series = read_table(folder.path, "metrics")
    assert series.column("at_ms").to_pylist() == list(range(10_000))
    assert set(series.column("seed").to_pylist()) == {3}


def test_an_object_that_is_damaged_is_named(folder: ResultFolder) -> None:
    write_batch(folder, 0)
    (folder.path / "runs" / "b000000.parquet").write_bytes(b"PAR1 and nothing else")
    for read in (lambda: read_table(folder.path, "runs"), lambda: read_summary(folder.path)):
        with pytest.raises(SweepError, match=r"b000000\.parquet cannot be read .*delete it"):
            read()


def test_the_summary_of_batches_is_that_of_their_rows(folder: ResultFolder) -> None:
    for index in (0, 1, 2):
        write_batch(folder, index)
    merged = read_summary(folder.path)
    at_once = Summary.of(batch_of(range(300)))
    assert merged.outcomes == at_once.outcomes == Counter(ok=210, known=30, violation=30, stuck=30)
    assert (merged.first, merged.end, merged.rows) == (0, 300, 300)
    assert merged.coverage == at_once.coverage
    assert (merged.violations, merged.known) == (at_once.violations, at_once.known)
    assert merged.failures == at_once.failures
    for name, sketch in merged.metrics.items():
        other = at_once.metrics[name]
        assert (sketch.counts, sketch.mean, sketch.max) == (other.counts, other.mean, other.max)
    assert Summary.from_text(merged.to_text()) == merged


def test_a_group_that_did_not_settle_is_in_no_mean_of_how_long_it_took() -> None:
    rows = batch_of(range(3))
    for row, settling_ms in zip(rows, (100.0, -1.0, 300.0), strict=True):
        row["metrics"] = [("settling_ms", settling_ms)]
    sketch = Summary.of(rows).metrics["settling_ms"]
    assert (sketch.count, sketch.mean) == (2, 200.0)


def test_a_known_issue_is_summed_up_with_its_first_row_and_its_verdicts() -> None:
    rows = batch_of(range(10))
    for row in rows:
        if row["seed"] in (4, 7):
            row["known"] = [("KAFKA-1", 2)]
            row["issues"] = [
                {"issue": "KAFKA-1", "step": step, "title": "T", "verdict": verdict}
                for step, verdict in ((9, "repaired"), (3, "unproven"))
            ]
    summary = Summary()
    for part in (rows[:6], rows[6:]):
        summary.add(Summary.from_text(Summary.of(part).to_text()))
    issue = summary.known["KAFKA-1"]
    assert (issue.runs, issue.count, issue.first_seed) == (2, 4, 4)
    assert (issue.first["seed"], issue.first["step"]) == (4, 3)
    assert issue.verdicts == {"repaired": 2, "unproven": 2}


def test_quantiles_of_a_sketch_are_near_and_small_whole_numbers_exact() -> None:
    draw = random.Random(4)
    values = [draw.lognormvariate(8, 2) for _ in range(5_000)]
    parts = [Sketch.of(values[first : first + 500]) for first in range(0, 5_000, 500)]
    whole = Sketch()
    for part in parts:
        whole.add(part)
    for share in (0.0, 0.01, 0.5, 0.95, 0.99, 1.0):
        exact = pandas.Series(values).quantile(share)
        assert whole.quantile(share) == pytest.approx(exact, rel=0.005)
    assert len(whole.counts) < 3_000
    whole_numbers = Sketch.of(range(-1, 1_000))
    assert whole_numbers.quantile(0.5) == pandas.Series(range(-1, 1_000)).quantile(0.5)


def test_of_a_thousand_failures_the_first_are_kept_and_all_are_counted() -> None:
    summary = Summary()
    for first in range(0, 1_000, 100):
        rows = batch_of(range(first, first + 100))
        for row in rows:
            row["outcome"] = "stuck"
        summary.add(Summary.of(rows))
    assert summary.failed == 1_000
    assert [failure.seed for failure in summary.failures] == list(range(200))


def test_compacted_batches_give_the_same_tables_and_the_same_summary(folder: ResultFolder) -> None:
    for index in (0, 1, 2, 4):
        write_batch(folder, index)
    before = {kind: read_table(folder.path, kind) for kind in SCHEMAS}
    summary = read_summary(folder.path)
    done = compact(folder.path, file_bytes=2_000)
    assert done.batches == 3  # Up to the one that is missing.
    assert [file.name for file in (folder.path / "runs").iterdir()] == ["b000004.parquet"]
    assert folder.batches_done(a_plan()) == {0, 1, 2, 4}
    assert read_summary(folder.path).outcomes == summary.outcomes
    for kind, table in before.items():
        assert read_table(folder.path, kind).equals(table)
    write_batch(folder, 3)
    assert compact(folder.path).batches == 2
    assert read_table(folder.path, "runs").column("seed").to_pylist() == list(range(500))
    files = sorted(file.name for file in (folder.path / "tables" / "runs").iterdir())
    assert files == ["part-00000.parquet", "part-00001.parquet"]
    frame = pandas.read_parquet(folder.path / "tables" / "violations")
    assert list(frame.columns) == SCHEMAS["violations"].names
    assert compact(folder.path).batches == 0


def test_a_compaction_that_was_killed_before_it_tidied_counts_no_row_twice(
    folder: ResultFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    for index in (0, 1):
        write_batch(folder, index)
    with monkeypatch.context() as patch:
        patch.setattr(PosixStore, "delete", lambda *_: (_ for _ in ()).throw(OSError("killed")))
        with pytest.raises(SweepError, match="nothing is lost"):
            compact(folder.path)
    assert len(list((folder.path / "runs").iterdir())) == 2
    assert read_table(folder.path, "runs").num_rows == 200
    assert read_summary(folder.path).rows == 200
    compact(folder.path)
    assert list((folder.path / "runs").iterdir()) == []
    assert read_table(folder.path, "runs").num_rows == 200


def test_a_run_without_a_verdict_has_a_row_too() -> None:
    row = failure_row(Unit(Variant("faulty"), 5), outcome="crash", reason="signal 9")
    [back] = pa.Table.from_pylist([row], schema=SCHEMAS["runs"]).to_pylist()
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
    runs.mkdir()
    names = [
        f"_tmp-{host}-{dead.pid}-0123abcd",
        f"_tmp-{host}-{os.getpid()}-0123abcd",
        f"_tmp-elsewhere-{dead.pid}-0123abcd",
    ]
    for name in names:
        (runs / name).write_bytes(b"half a file")
    folder.create(a_plan())
    assert sorted(file.name for file in runs.iterdir()) == sorted(names[1:])
    assert folder.batches_done(a_plan()) == set()
