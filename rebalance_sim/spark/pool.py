"""The sweep on a pool of local processes: to debug, and where Spark takes too long to start."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from typing import TypeVar

from rebalance_sim.spark.batch import Batch, BatchResult, run_batch
from rebalance_sim.spark.errors import SweepError
from rebalance_sim.spark.interrupts import held_back
from rebalance_sim.spark.plan import SweepPlan
from rebalance_sim.spark.store.opening import survives_fork
from rebalance_sim.spark.supervised import die_with_parent, keep_what_is_inherited

POLL_S = 0.25

_Result = TypeVar("_Result")


def run_on_pool(
    waves: Iterable[Sequence[Batch]],
    *,
    plan: SweepPlan,
    out: str,
    processes: int | None = None,
    on_result: Callable[[BatchResult], None],
    report_progress: Callable[[], None],
) -> None:
    """Run the batches on ``processes`` (default: one per core) and return when all are done.

    A wave is asked for when the one before it has ended. ``on_result`` gets each batch as it ends;
    ``report_progress`` is called a few times a second. On KeyboardInterrupt, or whatever that
    raises, the batches in progress are dropped, the finished ones stay.
    """
    for wave in waves:
        run_calls(
            [partial(run_batch, batch, plan=plan, out=out) for batch in wave],
            processes=processes,
            forks=survives_fork(out),
            on_result=on_result,
            report_progress=report_progress,
        )


def run_calls(
    calls: Sequence[Callable[[], _Result]],
    *,
    processes: int | None,
    forks: bool = True,
    on_result: Callable[[_Result], None],
    report_progress: Callable[[], None],
) -> None:
    """Make the calls on ``processes`` (default: one per core) and return when all are done.

    ``forks``: whether these are forked, or spawned, which takes a second or two each. A process
    that PySpark has connected to a JVM spawns them: a fork might inherit a lock that a thread of
    PySpark holds, and wait for it for ever.

    ``on_result`` gets what each returns, in the order in which they end; ``report_progress`` is
    called a few times a second. On KeyboardInterrupt the calls in progress are dropped.
    """
    if not calls:
        return
    others = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(
        processes or len(os.sched_getaffinity(0)),
        mp_context=multiprocessing.get_context("fork" if forks and not _has_jvm() else "spawn"),
        initializer=_start_worker,
        initargs=(os.getpid(),),
    )
    try:
        with held_back():  # the processes are forked here
            pending = {pool.submit(call) for call in calls}
        while pending:
            done, pending = wait(pending, timeout=POLL_S, return_when=FIRST_EXCEPTION)
            for future in done:
                on_result(future.result())
            report_progress()
    except BrokenProcessPool as problem:
        raise SweepError(
            "a process of the pool was killed: finished batches are kept, "
            "the same command continues"
        ) from problem
    except OSError as problem:
        raise SweepError(f"a batch could not be written ({problem})") from problem
    finally:
        for process in set(multiprocessing.active_children()) - others:
            process.terminate()
        # Waits for the pool's own thread as well: an interpreter that ends while this thread closes
        # its pipe writes into that pipe, and says so with a traceback.
        pool.shutdown(cancel_futures=True)


def _has_jvm() -> bool:
    """Whether PySpark has connected this process to a JVM; it stays so after a session's end."""
    context = getattr(sys.modules.get("pyspark"), "SparkContext", None)
    return context is not None and context._gateway is not None


def _start_worker(driver_pid: int) -> None:
    """Leave Ctrl-C to the driver, and do not outlive it."""
    keep_what_is_inherited()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    die_with_parent(driver_pid)
