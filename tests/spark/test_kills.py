"""Drivers that are killed, ten times each: what is in the folder afterwards is what an undisturbed
sweep writes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

import pytest
from s3_server import inside, s3_server
from test_sweep import SLOW_SWEEP, a_sweep, finish_slow_sweep

from rebalance_sim.spark import read_table
from rebalance_sim.spark.store.opening import open_store
from rebalance_sim.spark.store.reading import batches_of

KILLS = 10
TABLES = ("runs", "violations", "known_issues", "rebalances")


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with s3_server(tmp_path_factory.mktemp("s3") / "log") as url:
        yield url


def run_and_kill(out: str, how: Sequence[str], log: Path, delay_s: float) -> int:
    """Start the driver, let one more batch be finished, wait a little, and kill it; how many
    batches are there then. ``how``: the backend, and a master for Spark."""
    store = open_store(out)
    before = len(batches_of(store))
    with log.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, "-c", SLOW_SWEEP, out, *how],
            env=os.environ | {"PYTHONPATH": str(Path(__file__).parent)},
            stdout=output,
            stderr=output,
        )
    deadline_s = time.monotonic() + 300
    while len(batches_of(store)) == before:
        if process.poll() is not None or time.monotonic() > deadline_s:
            pytest.fail(f"no batch was finished: {log.read_text()}")
        time.sleep(0.02)
    time.sleep(delay_s)
    process.kill()
    process.wait()
    return len(batches_of(store))


def kill_ten_times(out: str, how: Sequence[str], tmp_path: Path) -> None:
    """And finish; the rows have to be those of a sweep that nothing disturbed."""
    moments = Random(10)
    done = [run_and_kill(out, how, tmp_path / "log", moments.uniform(0, 0.2)) for _ in range(KILLS)]
    assert done == sorted(done)
    assert done[-1] < 50, "the last driver was killed when nothing was left to do"
    assert finish_slow_sweep(out, "pool").outcomes == {"ok": 200}
    a_sweep(tmp_path / "whole", profile="slow", seeds="0:200", batch_size=4)
    for table in TABLES:
        assert read_table(out, table).equals(read_table(tmp_path / "whole", table))


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("place", ["folder", "s3", "hdfs"])
@pytest.mark.parametrize("backend", ["pool", "spark"])
def test_ten_killed_drivers_lose_no_row_and_double_none(
    tmp_path: Path, backend: str, place: str, request: pytest.FixtureRequest
) -> None:
    out = str(tmp_path / "out")
    if place == "s3":
        out = inside(request.getfixturevalue("bucket"), f"killed-{backend}")
    elif place == "hdfs":
        out = f"{request.getfixturevalue('hdfs')}/killed-{backend}"
    kill_ten_times(out, [backend], tmp_path)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(1800)  # A local cluster starts three JVMs each time.
@pytest.mark.parametrize("cluster", ["standalone", "local-cluster", "connect"])
def test_ten_killed_drivers_of_a_cluster_lose_no_row_and_double_none(
    tmp_path: Path, cluster: str, request: pytest.FixtureRequest
) -> None:
    """Workers live in processes of others here, and may go on for a while without their driver."""
    master = "local-cluster[2,1,1024]"
    if cluster == "standalone":
        master = request.getfixturevalue("cluster_master")
    elif cluster == "connect":
        master = request.getfixturevalue("connect_url")
    kill_ten_times(str(tmp_path / "out"), ["spark", master], tmp_path)
