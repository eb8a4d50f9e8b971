"""What runs on a Spark session: the rows of a pool, whatever is run, and whatever is lost."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import test_experiments
from pyspark.sql import SparkSession
from sample_plans import with_options
from test_comparison import a_comparison
from test_hdfs import (  # noqa: F401 - the same test, with the backend of this module
    test_a_sweep_into_hdfs_gives_the_rows_of_one_into_a_folder,
)
from test_hunts import OPTIONS, a_hunt, contents
from test_sweep import (  # noqa: F401 - the same tests, with the backend of this module
    FAKE,
    a_sweep,
    test_bad_scenarios_become_rows_and_spoil_nothing,
    test_every_planned_seed_has_one_row_and_the_summary_counts_them,
    test_missing_batches_alone_are_run_again,
    test_the_same_call_again_runs_nothing_and_reports_the_same,
)

from rebalance_sim.scenarios.experiment import make_experiment
from rebalance_sim.spark import (
    DEFAULT_RUNNER,
    Limits,
    Progress,
    SparkSetupError,
    SweepOptions,
    carry_out_experiment,
    read_table,
    sweep,
)
from rebalance_sim.spark.session import check_setup

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark_session")]

LISTEN = "0A"
LOOPBACK_IN_HEX = (
    "0100007F",
    "0000000000000000FFFF00000100007F",
    "00000000000000000000000001000000",
)


def fake_sweep(out: Path, backend: str) -> object:
    return _sweep_of(out, backend, profile="mixed", runner=FAKE)


def real_sweep(out: Path, backend: str) -> object:
    return _sweep_of(out, backend, profile="faulty", runner=DEFAULT_RUNNER)


def _sweep_of(out: Path, backend: str, **what: object) -> object:
    options = {"seeds": "0:18", "batch_size": 2, "limits": Limits(), "metrics_seeds": 6}
    return a_sweep(out, backend, **what, **options)


def an_experiment(out: Path, backend: str) -> Any:
    keys = {**test_experiments.KEYS, "seeds": 2}
    options = SweepOptions(backend=backend, batch_size=2)
    return carry_out_experiment(make_experiment(**keys), out=out, options=options)


def short_hunt(out: Path, backend: str) -> Any:
    return a_hunt(out, replace(OPTIONS, runs=6, backend=backend))


@pytest.fixture(scope="module")
def on_pool(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Any]]:
    """Folder and result of each, run on a pool while that can still fork."""
    made = {}
    todo: list[Callable[[Path, str], Any]]
    todo = [fake_sweep, real_sweep, a_comparison, an_experiment, short_hunt]
    for run in todo:
        folder = tmp_path_factory.mktemp("pool") / "out"
        made[run.__name__] = (folder, run(folder, "pool"))
    return made


@pytest.fixture(scope="module")
def spark_session(on_pool: object, spark_session: SparkSession) -> SparkSession:
    """That of the cluster, after all that is to run before there is one."""
    return spark_session


@pytest.fixture
def backend() -> str:
    return "spark"


# --- equal rows ----------------------------------------------------------------------------------


@pytest.mark.parametrize("run", [fake_sweep, real_sweep])
def test_the_rows_of_both_backends_are_equal(
    run: Callable[[Path, str], object], on_pool: dict[str, tuple[Path, Any]], tmp_path: Path
) -> None:
    folder, _ = on_pool[run.__name__]
    run(tmp_path / "spark", "spark")
    for kind in ("runs", "violations", "known_issues", "metrics"):
        rows = read_table(folder, kind)
        assert rows.equals(read_table(tmp_path / "spark", kind))
        assert kind != "metrics" or (rows.num_rows > 0) == (run is real_sweep)
    assert len(list((tmp_path / "spark" / "runs").iterdir())) == 9
    plans = [(out / "plan.json").read_bytes() for out in (folder, tmp_path / "spark")]
    assert plans[0] == plans[1]


def test_a_comparison_is_the_same_table(
    on_pool: dict[str, tuple[Path, Any]], tmp_path: Path
) -> None:
    folder, _ = on_pool["a_comparison"]
    a_comparison(tmp_path, "spark")
    tables = [(out / "comparison.parquet").read_bytes() for out in (folder, tmp_path)]
    assert tables[0] == tables[1]
    for kind in ("runs", "violations"):
        assert read_table(folder, kind).equals(read_table(tmp_path, kind))


def test_an_experiment_has_the_same_rows(
    on_pool: dict[str, tuple[Path, Any]], tmp_path: Path
) -> None:
    _, experiment = on_pool["an_experiment"]
    other = an_experiment(tmp_path, "spark")
    pd.testing.assert_frame_equal(other.runs, experiment.runs)
    pd.testing.assert_frame_equal(other.rebalances, experiment.rebalances)


def test_a_hunt_is_the_same_hunt(on_pool: dict[str, tuple[Path, Any]], tmp_path: Path) -> None:
    folder, hunted = on_pool["short_hunt"]
    assert short_hunt(tmp_path, "spark").corpus == hunted.corpus
    assert contents(tmp_path) == contents(folder)


# --- workers -------------------------------------------------------------------------------------


def test_batches_run_in_several_executor_processes(tmp_path: Path) -> None:
    a_sweep(tmp_path / "out", "spark", profile="slow", batch_size=5)
    workers = set(read_table(tmp_path / "out", "timing").column("worker").to_pylist())
    assert len(workers) == 2
    assert not [worker for worker in workers if worker.endswith(f":{os.getpid()}")]


def test_a_worker_that_is_killed_costs_time_and_nothing_else(tmp_path: Path) -> None:
    killed: list[int] = []

    def kill_a_worker(progress: Progress) -> None:
        if not killed and progress.batches_done >= 2:
            [worker, *_] = read_table(tmp_path / "out", "timing").column("worker").to_pylist()
            killed.append(int(worker.partition(":")[2]))
            os.kill(killed[0], signal.SIGKILL)

    summary = a_sweep(
        tmp_path / "out", "spark", profile="slow", batch_size=5, on_progress=kill_a_worker
    )
    assert killed
    assert summary.outcomes == {"ok": 60}


# --- the session ---------------------------------------------------------------------------------


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


def test_spark_on_this_machine_listens_on_the_loopback_only(spark_session: SparkSession) -> None:
    addresses = listening_addresses(spark_session.sparkContext._gateway.proc.pid)
    assert addresses
    assert addresses <= set(LOOPBACK_IN_HEX)


def test_a_running_session_is_used_and_another_master_is_refused(
    spark_session: SparkSession,
) -> None:
    assert check_setup(None).master == spark_session.sparkContext.master
    assert check_setup(spark_session.sparkContext.master).java is None
    with pytest.raises(SparkSetupError, match="is active in this process"):
        check_setup("local[2]")


def test_a_session_that_is_given_is_used_and_settings_cannot_apply(
    spark_session: SparkSession, tmp_path: Path
) -> None:
    options: dict[str, Any] = {"profile": "mixed", "seeds": "0:14", "batch_size": 7, "runner": FAKE}
    with pytest.raises(SparkSetupError, match=r"spark\.executor\.memory=9g cannot apply"):
        sweep(
            **with_options(
                **options, out=tmp_path / "out", spark_settings={"spark.executor.memory": "9g"}
            ),
            spark=spark_session,
        )
    assert not (tmp_path / "out").exists()
    summary = sweep(**with_options(**options, out=tmp_path / "out"), spark=spark_session)
    assert sum(summary.outcomes.values()) == 14
    assert spark_session.range(3).count() == 3  # It is left running.
