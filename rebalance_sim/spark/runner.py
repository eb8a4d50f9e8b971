"""From a seed to a result, by a name that can be sent to another process.

A runner is a function ``(variant, seed) -> RunResult`` named ``"module:function"``. The default one
generates the scenario and runs it; a sweep may name another, such as one that runs the scenarios
of a researcher's own package. One that also takes ``metrics_interval_ms`` can be sampled, one that
takes ``trace`` can be traced; one that takes ``prove`` is given how much to find out about known
issues, and one that takes ``leap`` whether to leap over rest.
"""

from __future__ import annotations

import importlib
import inspect
from typing import TYPE_CHECKING, Any, Protocol

from rebalance_sim.spark.errors import SweepError

if TYPE_CHECKING:
    from rebalance_sim.scenarios.result import RunResult
    from rebalance_sim.scenarios.variant import Variant
    from rebalance_sim.sim.trace import Trace

DEFAULT_RUNNER = "rebalance_sim.spark.runner:run_seed"


class Runner(Protocol):
    """What runs a seed. ``options``: those that it ``takes``, of those named above."""

    def __call__(self, variant: Variant, seed: int, /, **options: Any) -> RunResult:
        """The result of a seed, a function of variant and seed alone."""


def run_seed(
    variant: Variant,
    seed: int,
    *,
    metrics_interval_ms: int | None = None,
    trace: Trace | None = None,
    prove: str = "all",
    leap: bool = False,
) -> RunResult:
    """Generate the scenario of ``(variant, seed)`` and run it. ``prove``: how much is found out
    about known issues (``scenarios.counterfactual.Prove``). ``leap``: it leaps over rest, unless it
    is sampled or traced; one seed in 16 is run step by step as well."""
    from rebalance_sim.scenarios.counterfactual import Prove
    from rebalance_sim.scenarios.generate.generator import generate
    from rebalance_sim.scenarios.leaping import COMPARED_OF, run_leaping
    from rebalance_sim.scenarios.runner import run

    scenario = generate(variant, seed)
    if leap and trace is None and metrics_interval_ms is None:
        is_compared = seed % COMPARED_OF == 0
        return run_leaping(scenario, prove=Prove(prove), is_compared=is_compared)
    return run(scenario, trace=trace, metrics_interval_ms=metrics_interval_ms, prove=Prove(prove))


def takes(runner: Runner, option: str) -> bool:
    """Whether a runner has the option, as a parameter of this name."""
    return option in inspect.signature(runner).parameters


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
