"""Calls that are made on Spark as ``spark.pool.run_calls`` makes them on this machine."""

from __future__ import annotations

import itertools
import pickle
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from rebalance_sim.scenarios.plugin_names import loaded_plugins
from rebalance_sim.spark.job import LOG_FILE, POLL_S, Job, ship
from rebalance_sim.spark.runner import DEFAULT_RUNNER
from rebalance_sim.spark.session import check_setup, master_of, quiet, spark_session
from rebalance_sim.spark.shipping import code_digest, shipped_packages

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_Result = TypeVar("_Result")
_numbers = itertools.count(1)


@contextmanager
def calls_on_spark(
    master: str | None, settings: Mapping[str, str], on_note: Callable[[str], None]
) -> Iterator[Callable[..., None]]:
    """What makes calls on a Spark session, which lasts as long as the context.

    Raises SparkSetupError, in seconds, where there is no Spark to be had.
    """
    setup = check_setup(master, settings=settings)
    with tempfile.TemporaryDirectory(prefix="rebalance-sim-") as scratch:
        log_file = Path(scratch) / LOG_FILE
        with quiet(), spark_session(setup, log_file=log_file) as session:
            packages = shipped_packages(DEFAULT_RUNNER, loaded_plugins())
            ship(session, packages, code_digest(packages))
            on_note(f"Spark {session.version} at {master_of(session)}")

            def run_calls(
                calls: Sequence[Callable[[], _Result]],
                *,
                on_result: Callable[[_Result], None],
                report_progress: Callable[[], None],
            ) -> None:
                _run(session, calls, log_file, on_result, report_progress)

            yield run_calls


def _run(
    session: SparkSession,
    calls: Sequence[Callable[[], _Result]],
    log_file: Path,
    on_result: Callable[[_Result], None],
    report_progress: Callable[[], None],
) -> None:
    """One task for each call. Results are given once all have come: a task may run twice."""
    pickled = [pickle.dumps(call) for call in calls]

    def run_tasks(parts: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for part in parts:
            for position in part.column(0).to_pylist():
                result = pickle.dumps((position, pickle.loads(pickled[position])()))
                yield pa.RecordBatch.from_arrays([pa.array([result])], ["result"])

    def act() -> list[bytes]:
        frame = session.range(0, len(calls), 1, len(calls))
        rows = frame.mapInArrow(run_tasks, "result binary").collect()
        return [row["result"] for row in rows]

    name = f"calls-{next(_numbers)}"
    job = Job(session, name, f"{len(calls)} calls", act)
    try:
        while not job.wait(POLL_S):
            report_progress()
    finally:
        job.cancel()
    results = dict(pickle.loads(result) for result in job.result(log_file))
    for position in range(len(calls)):
        on_result(results[position])
