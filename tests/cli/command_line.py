"""The command line as a process, and what a command leaves behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

RUNNERS = Path(__file__).parent.parent / "spark"


class Outcome(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str


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
