"""How a sweep is carried out, as one value; what is swept is a variant and a range of seeds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rebalance_sim.sim.observe.sampling import DEFAULT_INTERVAL_MS
from rebalance_sim.spark.errors import SweepError
from rebalance_sim.spark.runner import DEFAULT_RUNNER
from rebalance_sim.spark.supervised import MACHINE_OUTCOMES, Limits

BACKENDS = ("spark", "pool")

METRICS_SEEDS = 100
"""As many seeds keep their series unless set otherwise: enough for a mean over time with a band,
and some megabytes, however long the sweep."""

TRACES = 5
"""As many traces as a sweep keeps unless set otherwise: some hundred kilobytes each."""


PROVE = ("sampled", "all", "none")
"""Of which violations a sweep finds out which known issue is the reason: those that several may be
the reason of, and all of one seed in eight; all; none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepOptions:
    """Where and how seeds are run, and what is kept of them.

    ``backend``: ``spark``, or ``pool`` for ``processes`` (None: one for each core) on this machine.
    ``master``: a Spark master URL (None: all cores of this machine), with ``spark_settings``.
    ``batch_size``: seeds per task (None: measured, so that a task lasts a few seconds). ``runner``:
    the function that runs a seed, as ``module:function``. ``limits`` are those of one run.
    ``metrics_seeds`` seeds at most, evenly spread, keep their series (0: none), sampled every
    ``metrics_interval_ms`` of simulated time. ``traces`` seeds at most of those that failed are run
    once more for a trace of every step. ``keeps_rebalances``: there is a row for each rebalance.
    ``prove``: one of ``PROVE``. ``leap``: runs leap over the time in which their world is at rest
    (``sim/leaps.py``), but for those that fail, are sampled or traced; one in 16 is run both
    ways.
    ``retry``: outcomes whose runs are tried again, of those that are there already, also under
    wider ``limits`` than the sweep was begun with. After ``time_budget_s``, or when ``stop_after``
    runs have found something new, no more is run; the same call continues. Raises SweepError for an
    unknown backend, or limits that make no sense.
    """

    backend: str = "spark"
    master: str | None = None
    spark_settings: Mapping[str, str] = field(default_factory=dict)
    processes: int | None = None
    batch_size: int | None = None
    runner: str = DEFAULT_RUNNER
    limits: Limits = field(default_factory=Limits)
    metrics_interval_ms: int = DEFAULT_INTERVAL_MS
    metrics_seeds: int = METRICS_SEEDS
    traces: int = TRACES
    keeps_rebalances: bool = False
    prove: str = PROVE[0]
    leap: bool = True
    retry: tuple[str, ...] = ()
    time_budget_s: float | None = None
    stop_after: int | None = None

    def __post_init__(self) -> None:
        if self.backend not in BACKENDS:
            raise SweepError(f"backend {self.backend!r}: choose one of {', '.join(BACKENDS)}")
        if self.backend != "spark" and self.master is not None:
            raise SweepError(
                f"master {self.master!r}: only the backend spark has one: leave one of the two out"
            )
        if self.backend != "spark" and self.spark_settings:
            raise SweepError(
                f"settings of Spark ({', '.join(self.spark_settings)}): only the backend spark has "
                "them: leave one of the two out"
            )
        if self.prove not in PROVE:
            raise SweepError(f"prove {self.prove!r}: choose one of {', '.join(PROVE)}")
        if not all(part for part in self.runner.partition(":")):
            raise SweepError(f"runner {self.runner!r}: write module:function")
        for name in ("processes", "batch_size", "metrics_interval_ms", "metrics_seeds", "traces"):
            value = getattr(self, name)
            if not isinstance(value, int | None):
                raise SweepError(f"{name} {value!r}: give a whole number")
        if self.processes is not None and not self.processes >= 1:
            raise SweepError(f"processes {self.processes!r}: give 1 or more")
        if self.time_budget_s is not None and self.time_budget_s <= 0:
            raise SweepError(f"time budget {self.time_budget_s:g} s: give more than 0")
        if self.stop_after is not None and self.stop_after < 1:
            raise SweepError(f"stop after {self.stop_after} findings: give 1 or more")
        for outcome in self.retry:
            if outcome not in MACHINE_OUTCOMES:
                raise SweepError(
                    f"retry {outcome!r}: only what a limit of the machine ended can end otherwise: "
                    + ", ".join(MACHINE_OUTCOMES)
                )
