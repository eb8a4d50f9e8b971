"""Which Spark a sweep runs on: the master's URL, and what the installation sets by default."""

from __future__ import annotations

import importlib.util
import os
import re
import socket
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from rebalance_sim.spark.errors import SparkSetupError

LOOPBACK = "127.0.0.1"
TASK_ATTEMPTS = 4
CONNECT = "sc://"
CONNECT_PORT = 15002
CONNECT_TIMEOUT_S = 5.0
MASTER_KINDS = ("local[", "local-cluster[", "spark://", "k8s://", "yarn", CONNECT)


def normalise_master(master: str | None) -> str:
    """The master URL to use: by default every core; ``local`` ones get task retries."""
    master = master or "local[*]"
    match = re.fullmatch(r"local(?:\[(\d+|\*)\])?", master)
    if match is None and not master.startswith(MASTER_KINDS):
        raise SparkSetupError(
            f"Spark master {master!r}: write local[4], spark://host:port, k8s://..., yarn, "
            "or sc://host:port for Spark Connect"
        )
    if match is None:
        return master
    cores = match.group(1) or "1"
    count = str(len(os.sched_getaffinity(0))) if cores == "*" else cores
    return f"local[{count},{TASK_ATTEMPTS}]"


def is_on_loopback(master: str) -> bool:
    """Whether everything happens on this machine, so that no port need be open to others."""
    addresses = _addresses(master)
    return master.startswith("local") or (
        bool(addresses) and all(host in (LOOPBACK, "localhost") for host, _ in addresses)
    )


def check_master_answers(master: str) -> None:
    """Fail in seconds where Spark would try for a minute."""
    addresses = _addresses(master)
    problems = []
    for host, port in addresses:
        try:
            socket.create_connection((host, port), timeout=CONNECT_TIMEOUT_S).close()
            return
        except (OSError, OverflowError) as problem:
            problems.append(str(problem))
    if addresses:
        what = "Spark Connect server" if master.startswith(CONNECT) else "Spark master"
        raise SparkSetupError(
            f"no {what} at {master} ({'; '.join(problems)}): start it or correct --master"
        )


def _addresses(master: str) -> list[tuple[str, int]]:
    """Hosts and ports of a standalone master (there may be standby ones), or of a Connect server;
    [] for other kinds."""
    if master.startswith(CONNECT):
        place = urlsplit(master)
        return [(place.hostname or "", place.port or CONNECT_PORT)]
    if not master.startswith("spark://"):
        return []
    pairs = (address.rpartition(":") for address in master.removeprefix("spark://").split(","))
    try:
        return [(host, int(port)) for host, _, port in pairs]
    except ValueError:
        raise SparkSetupError(f"Spark master {master}: write spark://host:port") from None


def spark_defaults(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """What ``spark-defaults.conf`` of the installation sets, by name; {} without such a file."""
    folder = environ.get("SPARK_CONF_DIR")
    if not folder:
        home = environ.get("SPARK_HOME") or _home_of_pyspark()
        folder = f"{home}/conf"
    try:
        text = (Path(folder) / "spark-defaults.conf").read_text(encoding="utf-8")
    except OSError:
        return {}
    found = {}
    for line in text.splitlines():
        match = re.fullmatch(r"\s*(spark\.[^\s=:]+)\s*[=:\s]\s*(.*?)\s*", line)
        if match:
            found[match[1]] = match[2]
    return found


def _home_of_pyspark() -> str:
    spec = importlib.util.find_spec("pyspark")
    return "" if spec is None or spec.origin is None else str(Path(spec.origin).parent)
