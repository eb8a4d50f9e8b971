"""A standalone Spark cluster on this machine, a Spark session of a module on it, and HDFS."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pyspark = pytest.importorskip("pyspark", reason="the extra [spark] is not installed")

from hdfs_cluster import NoCluster, hdfs_cluster  # noqa: E402
from pyspark.sql import SparkSession  # noqa: E402
from submission import connect_server  # noqa: E402

from rebalance_sim.spark.java import find_java  # noqa: E402
from rebalance_sim.spark.session import check_setup  # noqa: E402
from rebalance_sim.spark.session import spark_session as session_of  # noqa: E402

START_TIMEOUT_S = 240
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Of a JVM: it is not compiled for long, on cores that the tests need."""


@pytest.fixture(scope="module", autouse=True)
def plots(blank_plots: None) -> None:
    """Those of reports, see there."""


@pytest.fixture(scope="session")
def cluster_master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of a master that has one worker with two cores, each a process of its own."""
    scratch = tmp_path_factory.mktemp("cluster")
    home = Path(pyspark.__file__).parent
    environment = os.environ | {
        "JAVA_HOME": str(find_java().java_home(scratch)),
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_WORKER_DIR": str(scratch / "work"),
        "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",
        "SPARK_LAUNCHER_OPTS": SHORT_LIVED,
        "SPARK_DAEMON_JAVA_OPTS": SHORT_LIVED,
    }
    launcher = [str(home / "bin" / "spark-class")]
    common = ["--host", "127.0.0.1", "--webui-port", "0"]
    master_log, worker_log = scratch / "master.log", scratch / "worker.log"
    daemons = []
    try:
        command = ["org.apache.spark.deploy.master.Master", *common, "--port", "0"]
        daemons.append(_start(launcher + command, master_log, environment))
        url = _wait_for(r"spark://127\.0\.0\.1:\d+", master_log, daemons[0])
        command = ["org.apache.spark.deploy.worker.Worker", *common, "--cores", "2"]
        daemons.append(
            _start([*launcher, *command, "--memory", "2g", url], worker_log, environment)
        )
        _wait_for("Successfully registered with master", worker_log, daemons[1])
        yield url
    finally:
        for daemon in reversed(daemons):
            daemon.terminate()
            daemon.wait()


@pytest.fixture(scope="module")
def spark_session(
    cluster_master: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkSession]:
    """A session on the cluster with two executors of one core; every sweep of a module uses it.

    It ends with the module: where there is a JVM, a pool spawns its processes, three seconds each
    time.
    """
    log_file = tmp_path_factory.mktemp("session") / "spark.log"
    settings = {
        "spark.executor.cores": "1",
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": SHORT_LIVED,
    }
    with session_of(check_setup(cluster_master, settings=settings), log_file=log_file) as session:
        yield session


@pytest.fixture(scope="session")
def connect_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Spark Connect server, which ends soon what a client that died has begun."""
    pytest.importorskip("grpc", reason="the extra [connect] is not installed")
    settings = {
        "spark.connect.execute.manager.detachedTimeout": "1s",
        "spark.connect.execute.manager.maintenanceInterval": "1s",
    }
    with connect_server(tmp_path_factory.mktemp("connect"), settings) as url:
        yield url


@pytest.fixture(scope="session")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """``hdfs://127.0.0.1:port`` of a real cluster with one data node."""
    pytest.importorskip("hdfs_native", reason="the extra [hdfs] is not installed")
    try:
        with hdfs_cluster(tmp_path_factory.mktemp("hdfs")) as url:
            yield url
    except NoCluster as reason:
        pytest.skip(str(reason))


def _start(command: list[str], log: Path, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    with log.open("wb") as output:
        return subprocess.Popen(command, stdout=output, stderr=output, env=environment)


def _wait_for(pattern: str, log: Path, daemon: subprocess.Popen[bytes]) -> str:
    deadline_s = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline_s and daemon.poll() is None:
        match = re.search(pattern, log.read_text())
        if match:
            return match.group()
        time.sleep(0.1)
    pytest.fail(f"no {pattern!r} in the daemon's log:\n{log.read_text()[-2000:]}")
