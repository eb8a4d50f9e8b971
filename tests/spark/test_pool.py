"""The pool of local processes: what is left of it when a sweep is interrupted."""

from __future__ import annotations

import multiprocessing
import threading
import time
from functools import partial

import pytest

from rebalance_sim.spark.pool import run_calls


def test_an_interrupted_pool_leaves_neither_processes_nor_threads() -> None:
    """An interpreter that ends beside the pool's thread may print the traceback of its pipe."""
    threads = set(threading.enumerate())
    processes = set(multiprocessing.active_children())
    for _ in range(5):
        with pytest.raises(KeyboardInterrupt):
            run_calls(
                [partial(time.sleep, seconds) for seconds in (0, 60, 60, 60)],
                processes=2,
                on_result=_interrupt,
                report_progress=lambda: None,
            )
        assert set(threading.enumerate()) == threads
        assert set(multiprocessing.active_children()) == processes


def _interrupt(_: object) -> None:
    raise KeyboardInterrupt
