"""Spark as others start it: ``spark-submit``, and a Spark Connect server on the loopback."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyspark

from rebalance_sim.spark.java import find_java

ROOT = Path(__file__).parents[2]
START_TIMEOUT_S = 240


def environment(scratch: Path) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYSPARK", "SPARK"))}
    return kept | {
        "JAVA_HOME": str(find_java().java_home(scratch)),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(Path(__file__).parent)]),
        "PYSPARK_PYTHON": sys.executable,
    }


def spark_submit() -> str:
    return str(Path(pyspark.__file__).parent / "bin" / "spark-submit")


@contextmanager
def connect_server(scratch: Path, settings: Mapping[str, str]) -> Iterator[str]:
    """Start it, with two slots; gives ``sc://127.0.0.1:port``."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = {
        "spark.ui.enabled": "false",
        "spark.connect.grpc.binding.port": str(port),
        "spark.connect.grpc.binding.address": "127.0.0.1",
        **settings,
    }
    command = [spark_submit(), "--master", "local[2]"]
    for name, value in settings.items():
        command += ["--conf", f"{name}={value}"]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    log = scratch / "server.log"
    # Nothing of the project is on the server's path: code has to come with the sweep.
    variables = environment(scratch) | {"PYTHONPATH": ""}
    with log.open("wb") as output:
        server = subprocess.Popen(
            [*command, "spark-internal"], stdout=output, stderr=output, env=variables, cwd=scratch
        )
    try:
        _wait_for(port, server, log)
        yield f"sc://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait()


def _wait_for(port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline_s = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline_s and server.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.2)
    raise RuntimeError(f"the Connect server did not start:\n{log.read_text()[-3000:]}")
