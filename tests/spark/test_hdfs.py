"""Sweeps into a real HDFS: the rows of a folder, whatever is killed, and errors in one line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from sample_plans import with_options
from test_kills import TABLES, run_and_kill
from test_stores import (  # noqa: F401 - the same tests, with the store of this module
    test_what_is_missing_is_said_to_be_missing,
    test_what_is_put_is_there_whole_under_its_name,
)
from test_sweep import a_sweep as a_plain_sweep
from test_sweep import finish_slow_sweep

from rebalance_sim.cli.main import invoke
from rebalance_sim.spark import SweepError, SweepOptions, SweepSummary, extend, read_table, sweep
from rebalance_sim.spark.preflight import Question, asker
from rebalance_sim.spark.store.compact import compact
from rebalance_sim.spark.store.hdfs import HdfsStore
from rebalance_sim.spark.store.opening import open_store
from rebalance_sim.spark.store.reading import batches_of
from rebalance_sim.spark.store.store import Store

pytestmark = pytest.mark.spark

KINDS = (*TABLES, "metrics")


@pytest.fixture
def store(hdfs: str, tmp_path: Path) -> Store:
    return open_store(f"{hdfs}/{tmp_path.name}")


def a_sweep(out: object, backend: str = "pool", **options: object) -> SweepSummary:
    values = {"profile": "mixed", "seeds": "0:60", "batch_size": 7}
    values |= {"runner": "fake_scenarios:run_observed", **options}
    return sweep(**with_options(out=out, backend=backend, **values))


def assert_equal_rows(out: str, folder: Path) -> None:
    for kind in KINDS:
        assert read_table(out, kind).equals(read_table(folder, kind))


def files_of(url: str) -> list[str]:
    """All files under a folder, temporary ones too."""
    from hdfs_native import Client

    place = urlsplit(url)
    client = Client(f"hdfs://{place.netloc}")
    return [status.path for status in client.list_status(place.path, True) if not status.isdir]


@pytest.fixture
def backend() -> str:
    """``test_on_spark`` has the test that names it on Spark, too."""
    return "pool"


def test_a_sweep_into_hdfs_gives_the_rows_of_one_into_a_folder(
    hdfs: str, tmp_path: Path, backend: str
) -> None:
    url = f"{hdfs}/sweep-{backend}"
    summary = a_sweep(url, backend)
    local = a_sweep(tmp_path / "out")
    assert_equal_rows(url, tmp_path / "out")
    assert summary.outcomes == local.outcomes
    assert summary.report == f"{url}/report.md"
    store = open_store(url)
    assert b"client.exclusive" in store.get("report.md")
    assert store.exists("report/outcomes.png")
    assert list(store.list("probes")) == list(store.list("drivers")) == []
    assert not [path for path in files_of(url) if "_tmp-" in path]


def test_a_sweep_is_resumed_extended_reported_compacted_and_replayed(
    hdfs: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"{hdfs}/resumed"
    a_sweep(url, seeds="0:32")
    store = open_store(url)
    store.delete("runs/b000001.parquet")
    assert a_sweep(url, seeds="0:32").throughput.seeds_run == 7
    with pytest.raises(SweepError, match="holds another sweep"):
        a_sweep(url, seeds="0:61")
    extend(url, end=60, options=SweepOptions(backend="pool"))
    a_sweep(tmp_path / "out")
    compact(url)
    assert_equal_rows(url, tmp_path / "out")
    assert list(batches_of(store)) == [8]  # It is short, and may grow.
    assert invoke(["report", url]) == 1  # Something was found.
    assert invoke(["replay", f"{url}/traces/seed-3.jsonl.gz"]) == 0
    assert "VIOLATION" in capsys.readouterr().out


@pytest.mark.slow
def test_a_killed_driver_is_taken_over_by_the_same_command(hdfs: str, tmp_path: Path) -> None:
    url = f"{hdfs}/killed"
    done = run_and_kill(url, ["pool"], tmp_path / "log", delay_s=0.1)
    # What it was writing is there, unseen, until the next driver tidies.
    summary = finish_slow_sweep(url, "pool")
    assert summary.outcomes == {"ok": 200}
    assert 0 < summary.throughput.seeds_run <= 200 - 4 * done + 8  # Two were in flight.
    # A child of the killed driver may have outlived it until that one had tidied.
    open_store(url).tidy()
    assert not [path for path in files_of(url) if "_tmp-" in path]
    a_plain_sweep(tmp_path / "whole", profile="slow", seeds="0:200", batch_size=4)
    for table in TABLES:
        assert read_table(url, table).equals(read_table(tmp_path / "whole", table))


def test_writers_of_one_object_do_not_disturb_each_other_or_readers(hdfs: str) -> None:
    store = open_store(f"{hdfs}/contended")
    contents = [bytes([number]) * 100_000 for number in range(20)]
    store.put("runs/b0", contents[0])

    def write(number: int) -> bytes:
        open_store(store.url).put("runs/b0", contents[number])
        assert list(store.list("runs")) == ["b0"]
        return store.get("runs/b0")

    with ThreadPoolExecutor(4) as writers:
        seen = list(writers.map(write, range(20)))
    assert set(seen) <= set(contents)  # Each is whole, from any writer.


def test_what_a_dead_writer_left_is_not_listed_and_goes(hdfs: str) -> None:
    program = (
        "import os, sys\n"
        "from rebalance_sim.spark.store import hdfs\n"
        "store = hdfs.HdfsStore(sys.argv[1])\n"
        "store._client.rename = lambda *_arguments, **_options: os._exit(9)\n"
        "store.put('runs/b0', b'half')\n"
    )
    url = f"{hdfs}/left"
    assert subprocess.run([sys.executable, "-c", program, url]).returncode == 9
    [left] = files_of(url)
    assert "/left/runs/_tmp-" in left
    store = open_store(url)
    assert list(store.list("runs")) == []
    store.tidy()
    assert files_of(url) == []


def test_a_user_without_rights_is_told_in_one_line(
    hdfs: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_store(f"{hdfs}/theirs").put("note", b"x")
    monkeypatch.setenv("HADOOP_USER_NAME", "somebody")
    with pytest.raises(
        SweepError, match=r"cannot write to .*Permission denied: user=somebody"
    ) as no:
        a_sweep(f"{hdfs}/theirs/out")
    assert "\n" not in str(no.value)


def test_a_folder_inside_of_a_file_is_refused(hdfs: str) -> None:
    open_store(f"{hdfs}/place").put("file", b"x")
    for url in (f"{hdfs}/place/file", f"{hdfs}/place/file/out"):
        with pytest.raises(SweepError, match="is a file, or inside of one"):
            a_sweep(url)


def test_a_name_node_that_is_not_there_is_one_line_in_seconds() -> None:
    pytest.importorskip("hdfs_native", reason="the extra [hdfs] is not installed")
    started_s = time.monotonic()
    with pytest.raises(SweepError, match=r"cannot read hdfs://127\.0\.0\.1:1/x .*refused"):
        a_sweep("hdfs://127.0.0.1:1/x")
    assert time.monotonic() - started_s < 60
    with pytest.raises(SweepError, match="HADOOP_CONF_DIR"):
        open_store("hdfs://a-name-service/x")


def test_the_cluster_can_be_that_of_the_configuration(
    hdfs: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "core-site.xml").write_text(
        f"<configuration><property><name>fs.defaultFS</name><value>{hdfs}</value></property>"
        "</configuration>"
    )
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    store = open_store("hdfs:///configured/out")
    store.put("note", b"x")
    assert open_store(f"{hdfs}/configured/out").get("note") == b"x"
    assert isinstance(store, HdfsStore)
    assert store.location("note") == "hdfs:/configured/out/note"


@pytest.mark.parametrize(("out", "lacks"), [("hdfs://name-node/x", True), ("/shared/x", False)])
def test_a_worker_without_the_client_says_so_before_the_first_batch(
    out: str, lacks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "hdfs_native", None)
    question = Question(runner="fake_scenarios:run_seed", packages=(), out=out, plan_file="plan")
    assert ("hdfs-native" in json.loads(asker(question)(0))["missing"]) == lacks


@pytest.mark.slow
def test_a_worker_that_may_not_write_is_named_before_the_first_batch(hdfs: str) -> None:
    """The driver is another user than the workers, and the folder is the driver's alone."""
    url = f"{hdfs}/drivers-own"
    program = (
        "import sys\n"
        "from rebalance_sim.spark import SweepError, SweepOptions, sweep\n"
        "conf = {'spark.executorEnv.HADOOP_USER_NAME': 'somebody'}\n"
        "try:\n"
        "    sweep(profile='mixed', seeds='0:4', out=sys.argv[1], options=SweepOptions(\n"
        "        master='local-cluster[1,1,1024]', batch_size=2, spark_settings=conf,\n"
        "        runner='fake_scenarios:run_seed'))\n"
        "except SweepError as problem:\n"
        "    print(problem)\n"
    )
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", program, url], capture_output=True, text=True, timeout=300,
        env=os.environ | {"PYTHONPATH": path},
    )  # fmt: skip
    assert "cannot use hdfs://" in done.stdout, done.stderr[-2000:]
    assert "Permission denied: user=somebody" in done.stdout
    assert batches_of(open_store(url)) == {}
