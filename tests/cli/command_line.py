"""The command line as a process, and what a command leaves behind."""

from __future__ import annotations

import contextlib
import io
import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

from rebalance_sim.cli.main import invoke

RUNNERS = Path(__file__).parent.parent / "spark"

POOL = ("--backend", "pool", "--batch", 10)
"""A sweep without a size of batches measures one first, and a small one has a batch for each seed:
that takes longer than its runs."""


class Outcome(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str


def call_in_fork(arguments: Sequence[object], folder: Path) -> Outcome:
    """Call the command line in a fork of this process, which takes with it what it has loaded: as
    a process of its own, without the second that this takes to start."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("fork")) as fork:
        return fork.submit(_call_in, folder, [*map(str, arguments)]).result()


def _call_in(folder: Path, arguments: Sequence[str]) -> Outcome:
    os.chdir(folder)
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = invoke(arguments)
    return Outcome(code, out.getvalue(), err.getvalue())


def start(
    arguments: Sequence[object], environment: Mapping[str, str] | None = None
) -> subprocess.Popen[str]:
    """Start the installed script, as a user would, where the tests' own runner can be found.

    It handles Ctrl-C even if the tests themselves were started in the background, where it would
    not.
    """
    script = Path(sys.executable).parent / "rebalance-sim"
    return subprocess.Popen(
        [script, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=RUNNERS,
        env=environment or os.environ,
        preexec_fn=_handle_ctrl_c,
    )


def _handle_ctrl_c() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
