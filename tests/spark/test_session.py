"""The Spark session: which master, and that it stays on this machine and keeps quiet."""

from __future__ import annotations

import os

import pytest

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
