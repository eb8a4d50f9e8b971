"""The sweep as a Spark job: one task per batch."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rebalance_sim.spark.batch import run_batch
from rebalance_sim.spark.errors import SparkSetupError, SweepError
from rebalance_sim.spark.plan import SweepPlan
from rebalance_sim.spark.session import SparkSetup, spark_context
from rebalance_sim.spark.shipping import build_zip, code_digest, shipped_packages
from rebalance_sim.spark.store.results import PLAN_FILE

if TYPE_CHECKING:
    from pyspark import SparkContext

PREFLIGHT_TIMEOUT_S = 90.0
POLL_S = 0.25
# More tasks in one job than this would only burden the driver.
TASKS_PER_JOB = 5_000
LOG_FILE = "spark.log"


class WorkerReport(NamedTuple):
    """What a worker, or the driver, has before the sweep starts."""

    code_digest: str
    python: str
    plan: str | None


def run_on_spark(
    batches: Sequence[int],
    *,
    plan: SweepPlan,
    out: Path,
    setup: SparkSetup,
    settings: Mapping[str, str],
    report_progress: Callable[..., None],
) -> None:
    """Run the batches; every one has its files in ``out`` when this returns.

    ``report_progress`` is called a few times a second, in this thread, and once with a sentence
    about the session. On KeyboardInterrupt the job is cancelled and the finished batches stay.
    Raises SparkSetupError or SweepError.
    """
    log_file = out / LOG_FILE
    with spark_context(setup, log_file=log_file, settings=settings) as context:
        packages = shipped_packages(plan.runner, plan.plugins)
        digest = code_digest(packages)
        _ship(context, packages, digest)
        _preflight(context, packages, digest, out, log_file)
        java = f", {setup.java}" if setup.java else ""
        report_progress(f"Spark {context.version} at {context.master}{java}")
        task = partial(_run_batches, plan=plan, out=out)
        for first in range(0, len(batches), TASKS_PER_JOB):
            wave = batches[first : first + TASKS_PER_JOB]
            _run_job(context, wave, task, plan.sweep_id, report_progress, log_file)


def _run_batches(indices: Iterable[int], *, plan: SweepPlan, out: Path) -> Iterator[int]:
    for index in indices:
        yield run_batch(index, plan=plan, out=out)


def _ship(context: SparkContext, packages: Sequence[str], digest: str) -> None:
    """Send the packages to the executors; the driver keeps importing from where it did."""
    # Executors that come later fetch it too: it has to stay as long as the context.
    archive = Path(context._temp_dir) / f"rebalance_sim-{digest}.zip"
    if not archive.exists():
        build_zip(packages, archive)
        driver_path = list(sys.path)
        context.addPyFile(str(archive))
        sys.path[:] = driver_path


def _preflight(
    context: SparkContext, packages: Sequence[str], digest: str, out: Path, log_file: Path
) -> None:
    """Make sure that workers exist, run this code, and see the result folder."""
    count = max(2, context.defaultParallelism)
    inspect = partial(_inspect_worker, packages=tuple(packages), plan_file=out / PLAN_FILE)
    job = _Job(context, "preflight", lambda: context.parallelize(range(count), count)
               .mapPartitions(inspect).collect())  # fmt: skip
    if not job.wait(PREFLIGHT_TIMEOUT_S):
        job.cancel()
        raise SparkSetupError(
            f"{context.master} gave no executor within {PREFLIGHT_TIMEOUT_S:g} s: "
            f"is the cluster busy, or too small for what is asked? See {log_file}"
        )
    for report in job.result(log_file):
        mine = WorkerReport(digest, _python_minor(), (out / PLAN_FILE).read_text())
        problem = mismatch(worker=report, driver=mine, out=out)
        if problem is not None:
            raise SparkSetupError(problem)


def mismatch(*, worker: WorkerReport, driver: WorkerReport, out: Path) -> str | None:
    """Why this worker must not take part in the sweep; None if it may."""
    if worker.python != driver.python:
        return (
            f"a worker runs Python {worker.python}, the driver {driver.python}: "
            "set PYSPARK_PYTHON to the same minor version"
        )
    if worker.code_digest != driver.code_digest:
        return (
            f"a worker loaded other code ({worker.code_digest}, not {driver.code_digest}): "
            "leave the files alone while a sweep starts, or restart the Spark session"
        )
    if worker.plan != driver.plan:
        return f"a worker does not see {out}: give --out on a filesystem that all machines share"
    return None


def _inspect_worker(
    _partition: Iterable[int], *, packages: tuple[str, ...], plan_file: Path
) -> Iterator[WorkerReport]:
    plan = plan_file.read_text() if plan_file.exists() else None
    yield WorkerReport(code_digest(packages), _python_minor(), plan)


def _python_minor() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def _run_job(
    context: SparkContext,
    batches: Sequence[int],
    task: Callable[[Iterable[int]], Iterator[int]],
    group: str,
    report_progress: Callable[..., None],
    log_file: Path,
) -> None:
    job = _Job(context, group, lambda: context.parallelize(batches, len(batches))
               .mapPartitions(task).collect())  # fmt: skip
    try:
        while not job.wait(POLL_S):
            report_progress()
    except KeyboardInterrupt:
        job.cancel()
        raise
    job.result(log_file)


class _Job:
    """A Spark action in a thread of its own, so that this one stays free for Ctrl-C."""

    def __init__(self, context: SparkContext, group: str, action: Callable[[], list[Any]]) -> None:
        from pyspark import InheritableThread

        self._context = context
        self._group = group
        self._action = action
        self._values: list[Any] = []
        self._problem: Exception | None = None
        self._thread: threading.Thread = InheritableThread(target=self._run, daemon=True)
        self._thread.start()

    def wait(self, timeout_s: float) -> bool:
        """Whether the job ended within that time."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def cancel(self) -> None:
        self._context.cancelJobGroup(self._group)
        self._thread.join()

    def result(self, log_file: Path) -> list[Any]:
        if self._problem is not None:
            raise SweepError(
                f"the Spark job failed ({_cause(self._problem)}): finished batches are kept, "
                f"the same command goes on; see {log_file}"
            ) from self._problem
        return self._values

    def _run(self) -> None:
        try:
            self._context.setJobGroup(self._group, "rebalance-sim", interruptOnCancel=True)
            self._values = self._action()
        except Exception as problem:
            self._problem = problem


def _cause(problem: Exception) -> str:
    """The last line of the Python traceback inside a Java exception, or its first line."""
    try:
        lines = str(problem).splitlines()
    except Exception:  # the JVM that could tell is gone
        lines = ["the Spark session ended"]
    errors = [line.strip() for line in lines if re.match(r"\s*[\w.]*(Error|Exception): ", line)]
    python = [line for line in errors if not line.startswith(("org.", "java.", "py4j."))]
    return re.sub(r"^(\w+\.)+(?=\w+: )", "", (python or lines or [type(problem).__name__])[0])
