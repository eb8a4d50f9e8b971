"""The sweep as Spark jobs: one task per batch, the same for a classic session and for Connect.

A task is a row of ``range`` that goes through ``mapInArrow``; what it returns is how its batch
ended. A classic session also says at once which tasks have ended, by an accumulator; of a Connect
server that is learnt job by job, so its jobs are smaller.
"""

from __future__ import annotations

import importlib
import json
import re
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rebalance_sim.spark import preflight
from rebalance_sim.spark.batch import Batch, BatchResult, run_batch
from rebalance_sim.spark.errors import SparkSetupError, SweepError
from rebalance_sim.spark.plan import SweepPlan
from rebalance_sim.spark.session import (
    SparkSetup,
    is_connect,
    master_of,
    quiet,
    spark_session,
)
from rebalance_sim.spark.shipping import build_zip, code_digest, shipped_packages
from rebalance_sim.spark.store.opening import open_store
from rebalance_sim.spark.store.reading import PLAN_FILE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A cluster may have to fetch an image and start machines before it has an executor.
PREFLIGHT_TIMEOUT_S = 300.0
POLL_S = 0.25
LOG_FILE = "spark.log"
# More tasks in one job than this would only burden the driver.
TASKS_PER_JOB = 5_000
# Of a Connect server nothing is heard before a job ends; two jobs at a time leave no slot idle.
TASKS_PER_CONNECT_JOB = 64
CONNECT_JOBS = 2
CONNECT_PROBES = 8
CANCEL_S = 1.0


def run_on_spark(
    waves: Iterable[Sequence[Batch]],
    *,
    plan: SweepPlan,
    out: str,
    setup: SparkSetup,
    on_result: Callable[[BatchResult], None],
    report_progress: Callable[..., None],
) -> None:
    """Run the batches; every one has its rows in the store at ``out`` when this returns.

    A wave is asked for when the one before it has ended. ``on_result`` gets each
    batch once, as it ends. ``report_progress`` is called a few times a second, in this thread, and
    once with a sentence about the session. On KeyboardInterrupt, or whatever that raises, the jobs
    are cancelled and the finished batches stay. Raises SparkSetupError or SweepError.
    """
    log_file = _log_file(out, plan)
    with quiet(), spark_session(setup, log_file=log_file) as session:
        packages = shipped_packages(plan.runner, plan.plugins)
        digest = code_digest(packages)
        ship(session, packages, digest)
        _preflight(session, plan, packages, digest, out, log_file)
        java = f", {setup.java}" if setup.java else ""
        report_progress(f"Spark {session.version} at {master_of(session)}{java}")
        for wave in waves:
            _Jobs(session, plan, out, log_file, on_result).run(wave, report_progress)


def _log_file(out: str, plan: SweepPlan) -> Path:
    """What Spark says goes beside the results, or, if these are elsewhere, into a local file."""
    place = open_store(out).location(LOG_FILE)
    if isinstance(place, Path):
        return place
    # A folder of our own: what has a name that can be foretold, others can put there before us.
    return Path(tempfile.mkdtemp(prefix=f"rebalance-sim-{plan.sweep_id}-")) / LOG_FILE


def ship(session: SparkSession, packages: Sequence[str], digest: str) -> None:
    """Send the packages to the executors; the driver keeps importing from where it did."""
    name = f"rebalance_sim-{digest}.zip"
    if is_connect(session):
        with tempfile.TemporaryDirectory(prefix="rebalance-sim-") as scratch:
            archive = Path(scratch) / name
            build_zip(packages, archive)
            try:
                session.addArtifacts(str(archive), pyfile=True)
            except Exception as problem:
                # A server takes a name once; with this name it has the same bytes.
                if "ARTIFACT_ALREADY_EXISTS" not in str(problem):
                    raise SparkSetupError(f"the code cannot be sent: {_cause(problem)}") from None
        return
    context = session.sparkContext
    # Executors that come later fetch it too: it has to stay as long as the context.
    archive = Path(context._temp_dir) / name
    if not archive.exists():
        build_zip(packages, archive)
        driver_path = list(sys.path)
        context.addPyFile(str(archive))
        sys.path[:] = driver_path


def _preflight(
    session: SparkSession,
    plan: SweepPlan,
    packages: Sequence[str],
    digest: str,
    out: str,
    log_file: Path,
) -> None:
    """Make sure that workers exist, have what a run needs, and can use the store."""
    question = preflight.Question(
        runner=plan.runner, packages=tuple(packages), out=out, plan_file=PLAN_FILE
    )
    count = CONNECT_PROBES
    if not is_connect(session):
        count = max(2, 2 * session.sparkContext.defaultParallelism)

    def ask() -> list[str]:
        from pyspark.sql.types import StringType

        kind = "connect." if is_connect(session) else ""
        udf = importlib.import_module(f"pyspark.sql.{kind}functions").udf
        answer = udf(preflight.asker(question), StringType(), useArrow=False)
        rows = session.range(0, count, 1, count).select(answer("id").alias("answer")).collect()
        return [row["answer"] for row in rows]

    job = Job(session, f"{plan.sweep_id}-preflight", "preflight of a sweep", ask)
    if not job.wait(PREFLIGHT_TIMEOUT_S):
        job.cancel()
        raise SparkSetupError(
            f"{master_of(session)} gave no executor within {PREFLIGHT_TIMEOUT_S:g} s: "
            f"is the cluster busy, or too small for what is asked? See {log_file}"
        )
    plan_text = open_store(out).get(PLAN_FILE).decode()
    preflight.check(job.result(log_file), question=question, digest=digest, plan=plan_text)


class _Jobs:
    """All jobs of one call, each with some of the batches."""

    def __init__(
        self,
        session: SparkSession,
        plan: SweepPlan,
        out: str,
        log_file: Path,
        on_result: Callable[[BatchResult], None],
    ) -> None:
        self._session = session
        self._plan = plan
        self._out = out
        self._log_file = log_file
        self._on_result = on_result
        self._seen: set[int] = set()
        self._is_connect = is_connect(session)
        self._ended = None if self._is_connect else _results_of(session)

    def run(self, batches: Sequence[Batch], report_progress: Callable[..., None]) -> None:
        """Run them all. What is left of a job that failed, or was stopped, is cancelled."""
        size = TASKS_PER_CONNECT_JOB if self._is_connect else TASKS_PER_JOB
        waiting = [batches[first : first + size] for first in range(0, len(batches), size)]
        running: list[Job] = []
        try:
            while waiting or running:
                while waiting and len(running) < CONNECT_JOBS:
                    running.append(self._start(waiting.pop(0)))
                running[0].wait(POLL_S)
                if self._ended is not None:
                    self._tell(list(self._ended.value.values()))
                for job in [job for job in running if job.wait(0)]:
                    self._tell(job.result(self._log_file))
                    running.remove(job)
                report_progress()
        finally:
            for job in running:
                job.cancel()

    def _start(self, batches: Sequence[Batch]) -> Job:
        plan, out, ended = self._plan, self._out, self._ended
        tasks = list(batches)
        session = self._session

        def run_tasks(parts: Iterator[Any]) -> Iterator[Any]:
            yield from _run_tasks(parts, tasks=tasks, plan=plan, out=out, ended=ended)

        def act() -> list[BatchResult]:
            frame = session.range(0, len(tasks), 1, len(tasks))
            rows = frame.mapInArrow(run_tasks, "result string").collect()
            return [BatchResult(*json.loads(row["result"])) for row in rows]

        first = plan.batch_seeds(tasks[0].number)[0]
        end = plan.batch_seeds(tasks[-1].number)[-1] + 1
        description = f"{plan.base}, seeds {first}:{end}"
        return Job(session, f"{plan.sweep_id}-{tasks[0].number}-{len(tasks)}", description, act)

    def _tell(self, results: Sequence[BatchResult]) -> None:
        """A task that ran twice counts once."""
        for result in results:
            if result.number not in self._seen:
                self._seen.add(result.number)
                self._on_result(result)


def _run_tasks(
    parts: Iterator[Any], *, tasks: Sequence[Batch], plan: SweepPlan, out: str, ended: Any
) -> Iterator[Any]:
    """In a worker: the batches of one task, and what came of them."""
    import pyarrow as pa

    for part in parts:
        for position in part.column(0).to_pylist():
            result = run_batch(tasks[position], plan=plan, out=out)
            if ended is not None:
                ended.add({result.number: result})
            yield pa.RecordBatch.from_arrays([pa.array([json.dumps(result)])], ["result"])


def _results_of(session: SparkSession) -> Any:
    """An accumulator of batch -> result: it arrives as a task ends, and twice is as once."""
    from pyspark.accumulators import AccumulatorParam

    class Results(AccumulatorParam[dict[int, BatchResult]]):
        def zero(self, value: dict[int, BatchResult]) -> dict[int, BatchResult]:
            return {}

        def addInPlace(
            self, value1: dict[int, BatchResult], value2: dict[int, BatchResult]
        ) -> dict[int, BatchResult]:
            value1.update(value2)
            return value1

    return session.sparkContext.accumulator({}, Results())


class Job:
    """A Spark action in a thread of its own, so that this one stays free for Ctrl-C. ``name`` is
    its job group, ``description`` what Spark shows of it."""

    def __init__(
        self, session: SparkSession, name: str, description: str, action: Callable[[], list[Any]]
    ) -> None:
        self._session = session
        self._is_connect = is_connect(session)
        self._name = name
        self._description = description
        self._action = action
        self._values: list[Any] = []
        self._problem: Exception | None = None
        self._thread = self._thread_of()
        self._thread.start()

    def wait(self, timeout_s: float) -> bool:
        """Whether the job ended within that time."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def cancel(self) -> None:
        """Stop the job and wait for its end."""
        while self._thread.is_alive():  # It may not have begun when it is first cancelled.
            if self._is_connect:
                self._session.interruptTag(self._name)
            else:
                self._session.sparkContext.cancelJobGroup(self._name)
            self._thread.join(CANCEL_S)

    def result(self, log_file: Path) -> list[Any]:
        """What the action gave. Raises SweepError if it failed."""
        if self._problem is not None:
            raise SweepError(
                f"the Spark job failed ({_cause(self._problem)}): finished batches are kept, "
                f"the same command continues; see {log_file}"
            ) from self._problem
        return self._values

    def _thread_of(self) -> threading.Thread:
        if self._is_connect:
            return threading.Thread(target=self._run, daemon=True)
        from pyspark import InheritableThread

        thread: threading.Thread = InheritableThread(target=self._run, daemon=True)
        return thread

    def _run(self) -> None:
        try:
            if self._is_connect:
                self._session.addTag(self._name)
            else:
                self._session.sparkContext.setJobGroup(
                    self._name, self._description, interruptOnCancel=True
                )
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
