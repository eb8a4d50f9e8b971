"""Before the first batch: does every worker have what a run needs, and can it use the store?

Workers are asked by a plain Python function, which needs nothing installed beside Spark's own
files. So a worker that lacks everything can say so, once, and with all that it lacks.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import os
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from rebalance_sim.spark.errors import SparkSetupError, SweepError
from rebalance_sim.spark.runner import load_runner
from rebalance_sim.spark.shipping import code_digest
from rebalance_sim.spark.store.opening import open_store, packages_for

NEEDED: Mapping[str, str] = {"pyarrow": "pyarrow", "re2": "google-re2"}
"""Modules with compiled parts that a run imports -> the packages that have them. These must be
installed where executors run; pure Python travels with the code."""

PROBE_FOLDER = "probes"
# Long enough for the other executors to be given a task too.
PROBE_S = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What workers are asked: by this plan, with these packages, for results at ``out``."""

    runner: str
    packages: tuple[str, ...]
    out: str
    plan_file: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerReport:
    """What a worker, or the driver, has before the sweep starts.

    ``missing``: packages that cannot be imported. ``runner`` and ``store`` say what is wrong with
    importing the runner, and with reading and writing the store; empty if nothing is.
    """

    host: str
    interpreter: str
    python: str
    missing: tuple[str, ...] = ()
    code_digest: str = ""
    plan: str | None = None
    runner: str = ""
    store: str = ""

    @property
    def place(self) -> str:
        return f"{self.host} ({self.interpreter}, Python {self.python})"


def asker(question: Question) -> Callable[[Any], str]:
    """The function that a worker calls; it returns its report as JSON."""
    return partial(_answer, question=question)


def check(answers: Sequence[str], *, question: Question, digest: str, plan: str) -> None:
    """Raise SparkSetupError, in one line, unless every worker fits the driver."""
    mine = WorkerReport(
        host=socket.gethostname(),
        interpreter=sys.executable,
        python=_python_minor(),
        code_digest=digest,
        plan=plan,
    )
    workers = [_report(answer) for answer in sorted(set(answers))]
    problem = lacks(workers) or next(
        (text for w in workers if (text := mismatch(worker=w, driver=mine, out=question.out))), None
    )
    if problem is not None:
        raise SparkSetupError(problem)


def lacks(workers: Sequence[WorkerReport]) -> str | None:
    """All that is missing, by machine and interpreter, and what to do; None if nothing is."""
    found = {w.place: w.missing for w in workers if w.missing}
    if not found:
        return None
    places = "; ".join(f"{', '.join(names)} on {place}" for place, names in found.items())
    names = sorted({name for names in found.values() for name in names})
    install = " ".join(f"{name}{_version(name)}" for name in names)
    return (
        f"executors lack {places}: pip install {install} there, "
        "or send an environment with --conf spark.archives, "
        "or name one that has them in PYSPARK_PYTHON"
    )


def mismatch(*, worker: WorkerReport, driver: WorkerReport, out: str) -> str | None:
    """Why this worker must not take part in the sweep; None if it may."""
    if worker.python != driver.python:
        return (
            f"{worker.place}: the driver runs Python {driver.python}: "
            "set PYSPARK_PYTHON to the same minor version"
        )
    if worker.code_digest != driver.code_digest:
        return (
            f"{worker.place} loaded other code ({worker.code_digest}, not {driver.code_digest}): "
            "leave the files alone while a sweep starts, or restart the Spark session"
        )
    if worker.runner:
        return f"{worker.place} cannot import the runner ({worker.runner}): install that there"
    if worker.store:
        return (
            f"{worker.place} cannot use {out} ({worker.store}): "
            "give the executors the right to read and write there"
        )
    if worker.plan != driver.plan:
        return (
            f"{worker.place} does not see {out}: give --out on a file system that all machines "
            "share, or in an object store"
        )
    return None


def _answer(_task: Any, *, question: Question) -> str:
    time.sleep(PROBE_S)
    needed = {**NEEDED, **packages_for(question.out)}
    missing = tuple(package for module, package in needed.items() if not _imports(module))
    report = WorkerReport(
        host=socket.gethostname(),
        interpreter=sys.executable,
        python=_python_minor(),
        missing=missing,
        **({} if missing else _rest(question)),
    )
    return json.dumps(asdict(report))


def _rest(question: Question) -> dict[str, Any]:
    """What can be asked of a worker that has the packages."""
    plan, store = _try_store(question)
    return {
        "code_digest": code_digest(question.packages),
        "plan": plan,
        "store": store,
        "runner": _try_runner(question.runner),
    }


def _try_runner(name: str) -> str:
    try:
        load_runner(name)
    except SweepError as problem:
        return str(problem.__cause__ or problem)
    return ""


def _try_store(question: Question) -> tuple[str | None, str]:
    """The plan as it is seen from here, and what is wrong with writing beside it."""
    try:
        store = open_store(question.out)
        if not store.exists(question.plan_file):
            return None, ""
        plan = store.get(question.plan_file).decode()
        probe = f"{PROBE_FOLDER}/{socket.gethostname()}-{os.getpid()}"
        store.put(probe, plan.encode())
        if store.get(probe).decode() != plan:
            return plan, "what was written there reads otherwise"
        store.delete(probe)
    except (OSError, SweepError) as problem:
        return None, str(problem)
    return plan, ""


def _imports(module: str) -> bool:
    try:
        importlib.import_module(module)
    except ImportError:
        return False
    return True


def _report(answer: str) -> WorkerReport:
    values = json.loads(answer)
    return WorkerReport(**{**values, "missing": tuple(values["missing"])})


def _version(package: str) -> str:
    """``==`` and the driver's version of a package; empty if it has none either."""
    try:
        return f"=={importlib.metadata.version(package)}"
    except importlib.metadata.PackageNotFoundError:
        return ""


def _python_minor() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}"
