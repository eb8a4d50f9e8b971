"""From a seed to a result, by a name that can be sent to another process.

A runner is a function ``(profile, seed) -> RunResult`` named ``"module:function"``. The default one
generates the scenario and runs it; a sweep may name another, such as one that runs the scenarios
of a researcher's own package.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from spark.errors import SweepError

if TYPE_CHECKING:
    from scenarios.result import RunResult

__all__ = ["DEFAULT_RUNNER", "Runner", "load_runner", "run_seed"]

Runner = Callable[[str, int], "RunResult"]
DEFAULT_RUNNER = "spark.runner:run_seed"


def run_seed(profile: str, seed: int) -> RunResult:
    """Generate the scenario of ``(profile, seed)`` and run it."""
    from scenarios.generate import generate
    from scenarios.runner import run

    return run(generate(profile, seed))


def load_runner(name: str) -> Runner:
    """The function that ``module:function`` names. Raises SweepError if there is none."""
    module_name, _, function_name = name.partition(":")
    try:
        function: Runner = getattr(importlib.import_module(module_name), function_name)
    except (ImportError, AttributeError, ValueError) as problem:
        raise SweepError(
            f"runner {name!r}: {problem}: give module:function, importable from here"
        ) from problem
    if not callable(function):
        raise SweepError(f"runner {name!r} is not a function")
    return function
