"""The Spark session: which master, and that it stays on this machine and keeps quiet."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from rebalance_sim.spark import SparkSetupError
from rebalance_sim.spark.master import normalise_master
from rebalance_sim.spark.session import check_setup

LISTEN = "0A"
LOOPBACK_IN_HEX = (
    "0100007F",
    "0000000000000000FFFF00000100007F",
    "00000000000000000000000001000000",
)


@pytest.mark.parametrize(
    ("given", "used"),
    [
        ("local", "local[1,4]"),
        ("local[3]", "local[3,4]"),
        ("local[3,2]", "local[3,2]"),
        ("local[*]", f"local[{len(os.sched_getaffinity(0))},4]"),
        (None, f"local[{len(os.sched_getaffinity(0))},4]"),
        ("spark://host:7077", "spark://host:7077"),
        ("yarn", "yarn"),
    ],
)
def test_local_masters_get_task_retries_and_others_stay_as_they_are(
    given: str | None, used: str
) -> None:
    assert normalise_master(given) == used


@pytest.mark.parametrize("master", ["", "http://host", "spark", "spark://host", "spark://host:x"])
def test_a_master_that_is_none_is_refused(master: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "rebalance_sim.spark.session._active_session", lambda: None
    )  # That of other tests.
    with pytest.raises(SparkSetupError, match="Spark master"):
        check_setup(master or "nonsense")


def listening_addresses(pid: int) -> set[str]:
    """Local addresses, in the kernel's hex, on which the process accepts connections."""
    sockets = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        match = re.fullmatch(r"socket:\[(\d+)\]", os.readlink(entry))
        if match:
            sockets.add(match.group(1))
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            columns = line.split()
            if columns[3] == LISTEN and columns[9] in sockets:
                found.add(columns[1].partition(":")[0])
    return found


@pytest.mark.spark
def test_spark_on_this_machine_listens_on_the_loopback_only(spark_session: SparkSession) -> None:
    addresses = listening_addresses(spark_session.sparkContext._gateway.proc.pid)
    assert addresses
    assert addresses <= set(LOOPBACK_IN_HEX)


@pytest.mark.spark
def test_a_running_session_is_used_and_another_master_is_refused(
    spark_session: SparkSession,
) -> None:
    assert check_setup(None).master == spark_session.sparkContext.master
    assert check_setup(spark_session.sparkContext.master).java is None
    with pytest.raises(SparkSetupError, match="is active in this process"):
        check_setup("local[2]")
