"""Stores: whole objects by name, the same in a folder, behind a mount, and in S3."""

from __future__ import annotations

import errno
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from s3_server import inside, s3_server
from sample_plans import with_options

from rebalance_sim.cli.main import invoke
from rebalance_sim.spark import SweepError, SweepSummary, read_table, sweep
from rebalance_sim.spark.store.objects import ObjectStore
from rebalance_sim.spark.store.opening import open_store
from rebalance_sim.spark.store.posix import PosixStore
from rebalance_sim.spark.store.store import Store

FAKE = "fake_scenarios:run_observed"


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with s3_server(tmp_path_factory.mktemp("s3") / "server.log") as url:
        yield url


@pytest.fixture(params=["folder", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """``test_hdfs`` has the tests that take it in HDFS, too."""
    if request.param == "s3":
        return open_store(inside(request.getfixturevalue("bucket"), tmp_path.name))
    return open_store(tmp_path / "out")


def test_what_is_put_is_there_whole_under_its_name(store: Store) -> None:
    assert list(store.list()) == list(store.list("runs")) == []
    assert not store.exists("runs/b0")
    store.put("runs/b0", b"first")
    store.put("runs/b0", memoryview(pa.py_buffer(b"second\xff")))  # As Parquet files come.
    store.put("plan.json", b"{}")
    assert store.get("runs/b0") == b"second\xff"
    assert list(store.list("runs")) == ["b0"]
    assert sorted(store.list()) == ["plan.json", "runs"]
    with store.open("runs/b0") as file:
        file.seek(3)
        assert file.read() == b"ond\xff"
    store.check()


def test_what_is_missing_is_said_to_be_missing(store: Store) -> None:
    with pytest.raises(FileNotFoundError):
        store.get("runs/b0")
    store.delete("runs/b0")
    store.put("runs/b0", b"x")
    store.delete("runs/b0")
    assert not store.exists("runs/b0")


def test_a_place_is_shown_without_what_only_opens_it() -> None:
    store = ObjectStore("s3://bucket/out?endpoint_override=host", None, "bucket/out")
    assert store.location("report.md") == "s3://bucket/out/report.md"
    assert store.url == "s3://bucket/out?endpoint_override=host"


@pytest.mark.parametrize(
    ("out", "said"),
    [
        ("ftp://host/x", "nothing here can write to ftp: give a folder"),
        ("dbfs:/x", "nothing here can write to dbfs"),
        ("s3a:/bucket/x", "no bucket: write s3a://bucket/folder"),
        ("file://elsewhere/x", "another machine"),
        ("abfss://x", "correct the URL"),
        (Path("s3a://bucket/x"), "has lost a slash"),
    ],
    ids=str,
)
def test_a_place_that_cannot_be_written_to_is_refused_in_one_line(
    out: str | Path, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    started_s = time.monotonic()
    with pytest.raises(SweepError, match=said) as refused:
        sweep(profile="calm", seeds="0:2", out=out)
    assert "\n" not in str(refused.value)
    assert time.monotonic() - started_s < 5
    assert list(tmp_path.iterdir()) == []  # No folder named ``s3a:``.


def test_hdfs_without_its_client_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hdfs_native", None)
    with pytest.raises(
        SweepError, match=r"no client for HDFS .*pip install 'rebalance-sim\[hdfs\]'"
    ):
        open_store("hdfs://name-node:8020/out")


def test_a_file_url_is_the_folder_it_names(tmp_path: Path) -> None:
    store = open_store(f"file://{tmp_path}/with%20space")
    assert isinstance(store, PosixStore)
    store.put("plan.json", b"{}")
    assert (tmp_path / "with space" / "plan.json").exists()


def test_a_mount_without_rename_and_folder_sync_will_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_arguments: object) -> None:
        raise OSError(errno.ENOTSUP, "not here")

    real_fsync = os.fsync
    monkeypatch.setattr(Path, "replace", refuse)
    monkeypatch.setattr(
        os, "fsync", lambda fd: refuse() if os.path.isdir(f"/proc/self/fd/{fd}") else real_fsync(fd)
    )
    store = PosixStore(tmp_path)
    store.put("runs/b0", b"rows")
    assert store.get("runs/b0") == b"rows"
    assert [file.name for file in (tmp_path / "runs").iterdir()] == ["b0"]


def test_a_full_disk_is_not_taken_for_a_mount(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_arguments: object) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="full"):
        PosixStore(tmp_path).put("runs/b0", b"rows")
    assert list((tmp_path / "runs").iterdir()) == []


def test_a_temporary_of_another_machine_goes_when_it_is_a_day_old(tmp_path: Path) -> None:
    young, old = tmp_path / "_tmp-elsewhere-1-0123abcd", tmp_path / "_tmp-elsewhere-2-0123abcd"
    for file in (young, old):
        file.write_bytes(b"half")
    two_days_ago_s = time.time() - 2 * 24 * 3600
    os.utime(old, (two_days_ago_s, two_days_ago_s))
    PosixStore(tmp_path).tidy()
    assert list(tmp_path.iterdir()) == [young]


# --- whole sweeps into S3 ------------------------------------------------------------------------


def a_sweep(out: object, backend: str = "pool", **options: object) -> SweepSummary:
    values = {"profile": "mixed", "seeds": "0:60", "batch_size": 7, "runner": FAKE}
    return sweep(**with_options(out=out, backend=backend, **(values | options)))


@pytest.mark.parametrize(
    "backend", ["pool", pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.slow])]
)
def test_a_sweep_into_s3_gives_the_rows_of_one_into_a_folder(
    bucket: str, tmp_path: Path, backend: str, request: pytest.FixtureRequest
) -> None:
    if backend == "spark":
        request.getfixturevalue("spark_session")
    url = inside(bucket, f"sweep-{backend}")
    summary = a_sweep(url, backend)
    local = a_sweep(tmp_path / "out")
    for kind in ("runs", "violations", "known_issues", "metrics"):
        assert read_table(url, kind).equals(read_table(tmp_path / "out", kind))
    assert summary.outcomes == local.outcomes
    assert summary.report == f"s3://results/sweep-{backend}/report.md"
    store = open_store(url)
    assert b"client.exclusive" in store.get("report.md")
    assert store.exists("report/outcomes.png")
    assert summary.trace_command(3) == (
        f"rebalance-sim replay s3://results/sweep-{backend}/traces/seed-3.jsonl.gz"
    )
    assert list(store.list("probes")) == []


def test_a_sweep_into_s3_goes_on_where_it_was(bucket: str) -> None:
    url = inside(bucket, "resumed")
    a_sweep(url)
    store = open_store(url)
    lost = sorted(store.list("runs"))[4]
    store.delete(f"runs/{lost}")
    assert a_sweep(url).throughput.seeds_run == 7
    with pytest.raises(SweepError, match="holds another sweep"):
        a_sweep(url, seeds="0:61")
    assert invoke(["diff", url, url]) == 0


def test_a_trace_in_s3_can_be_read_along(bucket: str, capsys: pytest.CaptureFixture[str]) -> None:
    url = inside(bucket, "traced")
    a_sweep(url, seeds="0:14", traces=1)
    assert invoke(["replay", url.replace("?", "/traces/seed-3.jsonl.gz?")]) == 0
    assert "VIOLATION" in capsys.readouterr().out
    assert invoke(["replay", url.replace("?", "/traces/seed-4.jsonl.gz?")]) == 2
    assert "cannot read s3://results/traced/traces/seed-4" in capsys.readouterr().err.replace(
        "\n", ""
    )


def test_a_bucket_that_is_not_there_is_one_line(bucket: str) -> None:
    url = inside(bucket, "x").replace("s3://results", "s3://nowhere")
    with pytest.raises(SweepError, match=r"cannot write to s3://nowhere/x .*NO_SUCH_BUCKET"):
        a_sweep(url)


def test_a_home_that_no_shell_has_expanded_is_the_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert open_store("~/sweep").url == str(tmp_path / "sweep")
