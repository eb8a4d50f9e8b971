"""What an experiment will cost, and whether it asks for metrics that there are, before it runs.

This looks at a few runs, and loads neither tables nor reports: a look at a small experiment is to
be cheap beside the experiment.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from math import fsum
from time import monotonic, process_time
from typing import Any, NamedTuple

from rebalance_sim.scenarios.errors import ScenarioError, did_you_mean
from rebalance_sim.scenarios.experiment import Experiment
from rebalance_sim.scenarios.leaping import COMPARED_OF
from rebalance_sim.scenarios.units import COMPARED
from rebalance_sim.spark.errors import SweepError
from rebalance_sim.spark.options import SweepOptions
from rebalance_sim.spark.plan import Unit
from rebalance_sim.spark.runner import DEFAULT_RUNNER, Runner, load_runner, takes
from rebalance_sim.spark.supervised import Attempt, supervised

PROBE_SHARE = 0.02
"""A dry run makes so many of the runs, and at least one."""
PROBE_S = 60.0
_DEFAULTS = SweepOptions()


class _Probe(NamedTuple):
    """What a run came to: processor time (s), and the metrics that it has."""

    cpu_s: float
    metrics: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What an experiment will cost, from a few of its runs, evenly spread over its cells.

    ``run_s``: mean processor time of one of those. ``repeated``: so many runs are made a second
    time, without leaps, which is not in it."""

    runs: int
    probed: int
    run_s: float
    repeated: int
    processes: int

    @property
    def cpu_s(self) -> float:
        """Processor time of all runs."""
        return self.runs * self.run_s

    @property
    def wall_s(self) -> float:
        """Time on this machine, if nothing else runs on it."""
        return self.cpu_s / self.processes


def estimate(experiment: Experiment, options: SweepOptions = _DEFAULTS) -> Estimate:
    """Run a seed of some cells: a fiftieth of all runs, a minute at most. Writes nothing.

    Raises SweepError if the first of them does not end, and ScenarioError for an unknown metric.
    """
    _check_scenario(experiment, options)
    runner = load_runner(options.runner)
    seeds = range(experiment.first_seed, experiment.first_seed + experiment.seeds)
    leaps = options.leap and takes(runner, "leap")
    repeated = [seed for seed in seeds if leaps and seed % COMPARED_OF == 0]
    seed = next((seed for seed in seeds if seed not in repeated), seeds[0])
    units = [Unit(variant, seed) for variant in _spread(experiment)]
    started_s = monotonic()
    cpu_s: list[float] = []
    attempts = supervised(_body(runner, options), units, options.limits)
    for attempt in attempts:
        probe: _Probe = _result_of(attempt)
        if not cpu_s:
            check_names(experiment, probe.metrics)
        cpu_s.append(probe.cpu_s)
        if monotonic() - started_s > PROBE_S:
            break
    attempts.close()
    return Estimate(
        runs=experiment.run_count,
        probed=len(cpu_s),
        run_s=fsum(cpu_s) / len(cpu_s),
        repeated=len(repeated) * len(experiment.variants),
        processes=options.processes or len(os.sched_getaffinity(0)),
    )


def check_metrics(experiment: Experiment, options: SweepOptions) -> None:
    """Raises ScenarioError for a metric that no run has: found out by one, before all others.

    A run in which nothing happened may lack a metric that others have; so what is held side by side
    elsewhere is known as well.
    """
    _check_scenario(experiment, options)
    if set(COMPARED).issuperset(experiment.metrics):
        return
    units = [Unit(experiment.variants[0], experiment.first_seed)]
    body = _body(load_runner(options.runner), options)
    probe: _Probe = _result_of(next(supervised(body, units, options.limits)))
    check_names(experiment, probe.metrics)


def check_names(experiment: Experiment, had: Collection[str]) -> None:
    """Raises ScenarioError for a metric that is not among those that a run had, and not one that is
    compared elsewhere, of the whole run or of one of its phases."""
    phases = {name.partition(".")[0] for name in had if "." in name}
    known = {*COMPARED, *had, *(f"{phase}.{name}" for phase in phases for name in COMPARED)}
    for name in experiment.metrics:
        if name not in known:
            remedy = did_you_mean(name, known)
            raise ScenarioError(f"no metric {name!r}; {remedy}", place="metrics")


def _check_scenario(experiment: Experiment, options: SweepOptions) -> None:
    from rebalance_sim.scenarios.generate.generator import generate

    if options.runner == DEFAULT_RUNNER:
        generate(experiment.variants[0], experiment.first_seed)  # Raises ScenarioError.


def _spread(experiment: Experiment) -> Sequence[Any]:
    """Variants to look at, from both ends inwards, so that a probe that is cut short has seen cheap
    and dear cells."""
    variants = experiment.variants
    count = min(len(variants), max(1, int(PROBE_SHARE * experiment.run_count)))
    spread = [variants[round(i * (len(variants) - 1) / max(1, count - 1))] for i in range(count)]
    return [spread[i // 2] if i % 2 == 0 else spread[-1 - i // 2] for i in range(count)]


def _body(runner: Runner, options: SweepOptions) -> Callable[[Unit], _Probe]:
    given: dict[str, Any] = {}
    if takes(runner, "prove"):
        given["prove"] = "doubtful" if options.prove == "sampled" else options.prove
    if takes(runner, "leap") and options.leap:
        given["leap"] = True

    def body(unit: Unit) -> _Probe:
        before_s = process_time()
        metrics = runner(*unit, **given).metrics
        return _Probe(process_time() - before_s, tuple(metrics))

    return body


def _result_of(attempt: Attempt) -> Any:
    if attempt.failure:
        raise SweepError(f"a first run ended with {attempt.failure}: {attempt.reason}")
    return attempt.result
