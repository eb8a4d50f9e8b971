"""Where commands write: results to standard output, everything else to standard error."""

from __future__ import annotations

import json
import math
import os
import re
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rebalance_sim.cli.errors import BadInput

if TYPE_CHECKING:
    from rich.console import Console


@cache
def stderr() -> Console:
    """What everything but results is written to. It is made once it is needed: most commands that
    end well say nothing there, and would begin later for it."""
    from rich.console import Console

    return Console(stderr=True, highlight=False, markup=False, soft_wrap=True)


def say(text: str = "") -> None:
    """Print a line of results. Once the reader has gone (``| head -1``) nothing is printed any
    more: a closed pipe says nothing about the runs, and their exit code stays what it is."""
    try:
        sys.stdout.write(text + "\n")
    except BrokenPipeError:
        _drop_output()


def flush() -> None:
    """Print what is still held back."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _drop_output()


def _drop_output() -> None:
    """Whatever comes, also when Python ends, goes nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def print_json(value: Any) -> None:
    """Print a value as JSON, with its keys in the order they have; a number that is none is null,
    since JSON has no NaN."""
    say(json.dumps(_without_nan(value), indent=2, ensure_ascii=False))


def _without_nan(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_nan(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def check_outputs(outputs: Mapping[str, Path | None], inputs: Iterable[Path | None] = ()) -> None:
    """Find out what would write over a file that is read, or over another result. ``outputs``:
    option -> file. Raises BadInput."""
    taken = {path.resolve(): f"is {path}, which is read" for path in inputs if path is not None}
    for option, path in outputs.items():
        if path is None:
            continue
        if path.resolve() in taken and not path.is_char_device():
            raise BadInput(f"{option} {path} {taken[path.resolve()]}: give another file")
        taken[path.resolve()] = f"is that of {option}"


def check_folder(command: str, option: str, folder: Path | None) -> None:
    """Raises BadInput for what is no folder of this machine."""
    if folder is None:
        return
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/", str(folder)):
        raise BadInput(f"{command}: {option} {folder} is no folder of this machine: give one")
    if folder.exists() and not folder.is_dir():
        raise BadInput(f"{command}: {option} {folder} is a file: give a folder")


def write_text(path: Path, text: str) -> None:
    """Write a file the user named. Raises BadInput if that cannot be done."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as problem:
        raise BadInput(f"cannot write {path} ({problem.strerror}): give another file") from problem
