"""HDFS on the loopback: Hadoop's MiniDFS, a name node and a data node in a process of their own.

Most of its jars come with PySpark; Maven gets the two others, and keeps them.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from rebalance_sim.spark.java import find_java

POM = Path(__file__).parent / "hdfs" / "pom.xml"
CLASSPATH_GOAL = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:build-classpath"
MANAGER = "org.apache.hadoop.test.MiniDFSClusterManager"
MAVEN_TIMEOUT_S = 300
START_TIMEOUT_S = 120


class NoCluster(Exception):
    """The jars cannot be had here. Says why."""


@contextmanager
def hdfs_cluster(scratch: Path) -> Iterator[str]:
    """Start it; gives ``hdfs://127.0.0.1:port``. Raises NoCluster."""
    pyspark_jars = Path(pyspark.__file__).parent / "jars"
    jars = _jars_of_maven(pyspark_jars, scratch)
    details, log = scratch / "details.json", scratch / "cluster.log"
    command = [
        str(find_java().home / "bin" / "java"), "-Xmx512m",
        "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", f"-Dtest.build.data={scratch}",
        "-cp", f"{jars}:{pyspark_jars}/*", MANAGER,
        "-format", "-datanodes", "1", "-writeDetails", str(details),
        # A file is closed when its last block is written, not some 400 ms later, when it is known
        # to the name node: a test writes many.
        "-D", "dfs.namenode.file.close.num-committed-allowed=1",
    ]  # fmt: skip
    with log.open("wb") as output:
        cluster = subprocess.Popen(command, stdout=output, stderr=output, cwd=scratch)
    try:
        yield f"hdfs://127.0.0.1:{_port(details, cluster, log)}"
    finally:
        cluster.terminate()
        cluster.wait()


def _jars_of_maven(pyspark_jars: Path, scratch: Path) -> str:
    maven = shutil.which("mvn")
    if maven is None:
        raise NoCluster("no mvn here, which gets the jars of MiniDFS")
    [hadoop] = pyspark_jars.glob("hadoop-client-api-*.jar")
    found = re.search(r"api-([\d.]+)\.jar", hadoop.name)
    assert found
    output = scratch / "classpath"
    command = [maven, "-q", "-B", "-f", str(POM), f"-Dhadoop.version={found[1]}",
               f"-Dmdep.outputFile={output}", CLASSPATH_GOAL]  # fmt: skip
    try:
        # What has been got before is there without the registry.
        for way in (["-o"], []):
            done = subprocess.run(
                [*command, *way], capture_output=True, text=True, timeout=MAVEN_TIMEOUT_S
            )
            if done.returncode == 0:
                return output.read_text().strip()
    except subprocess.TimeoutExpired:
        raise NoCluster(f"mvn gets no jars of MiniDFS within {MAVEN_TIMEOUT_S} s") from None
    raise NoCluster(f"mvn cannot get the jars of MiniDFS: {done.stdout.strip()[:300]}")


def _port(details: Path, cluster: subprocess.Popen[bytes], log: Path) -> int:
    deadline_s = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline_s and cluster.poll() is None:
        try:
            return int(json.loads(details.read_text())["namenode_port"])
        except (FileNotFoundError, ValueError):
            time.sleep(0.1)
    raise RuntimeError(f"the HDFS cluster did not start:\n{log.read_text()[-2000:]}")
